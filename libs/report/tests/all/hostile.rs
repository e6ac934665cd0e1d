//! Pages of traces at the limits of time and of numbers.

use lacuna_model::{HoleRecord, Timestamp};
use lacuna_report::{Source, from_replay, render};
use lacuna_sim::{History, HoleTrace, Hooks, Settings, replay};

use crate::common::{assert_finite, hole, trainer};

fn between(from: i64, until: i64) -> HoleRecord {
    HoleRecord {
        from: Timestamp::from_unix_ms(from),
        until: Timestamp::from_unix_ms(until),
        ..hole(0, 0, 1)
    }
}

/// Replays from `start`, Unix milliseconds, and draws the report.
fn page(holes: &[HoleRecord], start: i64) -> String {
    let trace = HoleTrace::new(holes, None, Timestamp::from_unix_ms(start), None);
    let trainers = [trainer(0, 3, 1e3), trainer(1, 2, 1e3)];
    let settings = Settings::published();
    let mut progress = |_| {};
    let mut hooks = Hooks::new(&|| 0.0, &mut progress);
    let history = Some(History::default());
    let replayed = replay(&trace, &trainers, &settings, history, &mut hooks).unwrap();
    let source = Source::new("hostile", &trace, &trainers);
    render(&from_replay(&source, &replayed).unwrap())
}

#[test]
fn holes_at_the_ends_of_time_are_drawn() {
    let hour = 3_600_000;
    for start in [i64::MIN, i64::MAX - hour] {
        let second = hole(1, 0, 1);
        let holes = [
            between(start, start + hour),
            HoleRecord {
                node: second.node,
                ..between(start + hour / 2, start + hour)
            },
        ];
        assert_finite(&page(&holes, start));
    }
    // The start cuts a hole that began at the first representable moment.
    assert_finite(&page(&[between(i64::MIN, hour), hole(1, 0, 100)], 0));
}
