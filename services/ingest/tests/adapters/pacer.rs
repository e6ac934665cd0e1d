//! Pace of polling.

use lacuna_ingest_service::adapters::pacer::{Breaker, Cycle, Pacer};
use lacuna_model::Span;
use lacuna_scheduler::settings::Polling;

fn cycle(failed: bool, slowest_ms: i64) -> Cycle {
    Cycle {
        failed,
        slowest: Span::from_ms(slowest_ms),
        took: Span::from_ms(slowest_ms),
    }
}

fn waits(pacer: &mut Pacer, cycles: &[Cycle]) -> Vec<i64> {
    // A random number of 0.5 means no jitter.
    cycles
        .iter()
        .map(|c| pacer.done(*c, 0.5).as_ms() + c.took.as_ms())
        .collect()
}

#[test]
fn failures_double_the_wait_up_to_the_longest() {
    let mut pacer = Pacer::new(Polling::default());
    let failed = cycle(true, 0);
    let spans = waits(&mut pacer, &[failed; 7]);
    assert_eq!(
        spans,
        [20_000, 40_000, 80_000, 160_000, 300_000, 300_000, 300_000]
    );
    assert_eq!(pacer.breaker(), Breaker::Closed);
    assert_eq!(waits(&mut pacer, &[cycle(false, 10)]), [10_000]);
}

#[test]
fn slow_answers_open_the_breaker_and_a_fast_one_closes_it() {
    let mut pacer = Pacer::new(Polling::default());
    let (slow, fast) = (cycle(false, 3000), cycle(false, 20));
    assert_eq!(waits(&mut pacer, &[slow, slow, fast]), [10_000; 3]);
    assert_eq!(
        waits(&mut pacer, &[slow, slow, slow]),
        [10_000, 10_000, 60_000]
    );
    assert_eq!(pacer.breaker(), Breaker::Open);
    let mut now = 100.0;
    for expected in [120_000, 240_000, 300_000, 300_000] {
        pacer.ask(2, now).unwrap();
        assert_eq!(pacer.breaker(), Breaker::Probe);
        assert_eq!(waits(&mut pacer, &[slow]), [expected]);
        assert_eq!(pacer.breaker(), Breaker::Open);
        now += 100.0;
    }
    pacer.ask(2, now).unwrap();
    // A probe that fails fast shows neither load nor health.
    waits(&mut pacer, &[cycle(true, 10)]);
    assert_eq!(pacer.breaker(), Breaker::Probe);
    assert_eq!(waits(&mut pacer, &[fast]), [10_000]);
    assert_eq!(pacer.breaker(), Breaker::Closed);
}

#[test]
fn no_window_of_a_minute_sees_more_than_the_budget_and_its_burst() {
    for rate in [1_u32, 7, 30, 600] {
        let polling = Polling {
            requests_per_minute: rate,
            ..Polling::default()
        };
        let mut pacer = Pacer::new(polling);
        let (mut now, mut sent) = (0.0, Vec::new());
        while now < 600.0 {
            match pacer.ask(2, now) {
                Ok(()) => sent.extend([now, now]),
                Err(wait) => {
                    assert!(wait > Span::ZERO, "a wait of zero is a busy loop");
                    now += wait.as_secs_f64();
                }
            }
        }
        let most = f64::from(rate) + (f64::from(rate) / 6.0).max(2.0);
        for from in &sent {
            let within = sent
                .iter()
                .filter(|at| (*from..from + 60.0).contains(*at))
                .count();
            assert!(within as f64 <= most + 1e-9, "{within} of {rate} a minute");
        }
        assert!(
            sent.len() as f64 >= f64::from(rate) * 9.5,
            "{} of {rate}",
            sent.len()
        );
    }
}

#[test]
fn jitter_stays_within_its_share_and_a_long_cycle_has_as_long_a_pause() {
    for dice in [0.0, 0.25, 0.5, 1.0] {
        let wait = Pacer::new(Polling::default()).done(cycle(false, 0), dice);
        let expected = 10_000.0 * (0.9 + 0.2 * dice);
        assert!(
            (wait.as_ms() as f64 - expected).abs() <= 1.0,
            "{dice}: {wait}"
        );
    }
    let wait = Pacer::new(Polling::default()).done(cycle(false, 14_000), 0.5);
    assert_eq!(wait, Span::from_secs(14));
}
