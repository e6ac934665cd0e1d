//! The scores against hand-computed cases.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use lacuna_forecast::{Adrift, Alarm, Calibration, Forecasts, GRID_S, Limits};
use lacuna_model::{Forecast, ForecastPoint, Hole, NodeId, Timestamp};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix(seconds)
}

fn hole(name: &str) -> Hole {
    Hole {
        node: NodeId::new(name).unwrap(),
        since: at(0),
    }
}

/// Open with probability 3/4 at every horizon.
fn three_quarters(holes: usize) -> Forecasts {
    Forecasts {
        forecasts: vec![Forecast {
            points: vec![ForecastPoint {
                after_s: 1.0,
                open: 0.75,
            }],
        }],
        index: vec![0; holes],
        joint: None,
        announced: Vec::new(),
    }
}

#[test]
fn the_score_is_the_mean_square() {
    let mut calibration = Calibration::new();
    let holes = [hole("a"), hole("b")];
    calibration.observe(at(0), at(0), &holes, &three_quarters(2), None);
    assert_eq!(calibration.pending(), 8);
    // a ends within the fifth minute: open at one minute, closed at 5, 15 and 60.
    calibration.closed(&holes[0].node, at(290));
    calibration.observe(at(301), at(301), &holes[1..], &three_quarters(1), None);
    let [minute, five, ..] = *calibration.scores();
    assert_eq!((minute.answered, minute.open), (2, 2));
    assert_eq!(minute.brier(), Some(0.0625));
    // The constant was one half without answers, and scored a quarter.
    assert_eq!(minute.skill(), Some(0.75));
    assert_eq!((five.answered, five.open), (2, 1));
    assert_eq!(five.brier(), Some((0.0625 + 0.5625) / 2.0));
}

#[test]
fn a_hole_that_ends_at_the_horizon_is_closed_then() {
    let mut calibration = Calibration::new();
    let holes = [hole("a")];
    calibration.observe(at(0), at(0), &holes, &three_quarters(1), None);
    calibration.observe(at(60), at(60), &holes, &three_quarters(1), None);
    assert_eq!(calibration.scores()[0].answered, 0);
    calibration.closed(&holes[0].node, at(60));
    calibration.observe(at(121), at(121), &[], &three_quarters(0), None);
    assert_eq!(calibration.scores()[0].answered, 2);
    assert_eq!(calibration.scores()[0].open, 0);
    // The answer at five minutes is not counted before five minutes have passed.
    assert_eq!(calibration.scores()[1].answered, 0);
    assert_eq!(calibration.pending(), 6);
}

#[test]
fn a_lost_hole_answers_only_what_was_due() {
    let mut calibration = Calibration::new();
    let holes = [hole("a")];
    calibration.observe(at(0), at(0), &holes, &three_quarters(1), None);
    calibration.lost(&holes[0].node, at(100));
    calibration.observe(at(4000), at(4000), &[], &three_quarters(0), None);
    let answered: Vec<u64> = calibration.scores().iter().map(|s| s.answered).collect();
    assert_eq!(answered, [1, 0, 0, 0]);
    assert_eq!(calibration.pending(), 0);
}

#[test]
fn memory_stays_bounded_when_many_holes_stay_open() {
    let mut calibration = Calibration::new();
    let holes: Vec<Hole> = (0..1000).map(|n| hole(&format!("n{n}"))).collect();
    let forecasts = three_quarters(holes.len());
    for minute in 0..500 {
        calibration.observe(at(minute * 60), at(minute * 60), &holes, &forecasts, None);
    }
    // 64 holes a minute, and each waits 1 + 5 + 15 + 60 minutes in all.
    assert!(
        calibration.pending() <= 64 * (1 + 5 + 15 + 60 + 4),
        "{}",
        calibration.pending()
    );
    assert!(
        calibration
            .scores()
            .iter()
            .all(|score| score.open == score.answered)
    );
}

/// Lengths are exponential with these means, one for each hole of the list.
fn exponential(means_s: impl IntoIterator<Item = f64>) -> Forecasts {
    let curve = |mean_s: f64| Forecast {
        points: GRID_S
            .iter()
            .map(|&after_s| ForecastPoint {
                after_s,
                open: (-after_s / mean_s).exp(),
            })
            .collect(),
    };
    let forecasts: Vec<Forecast> = means_s.into_iter().map(curve).collect();
    Forecasts {
        index: (0..forecasts.len() as u32).collect(),
        forecasts,
        joint: None,
        announced: Vec::new(),
    }
}

/// Groups of holes that end together, each after an exponential time, and begin again at once.
struct Machine {
    rng: ChaCha8Rng,
    holes: Vec<Hole>,
    ends_s: Vec<f64>,
    minute: i64,
}

const GROUP: usize = 16;

impl Machine {
    fn new(seed: u64) -> Self {
        println!("seed {seed}");
        Self {
            rng: ChaCha8Rng::seed_from_u64(seed),
            holes: (0..64).map(|n| hole(&format!("n{n}"))).collect(),
            ends_s: vec![0.0; 64 / GROUP],
            minute: 0,
        }
    }

    /// Advances by a minute: reports ends, and scores the forecasts of means. `true_s` is the mean
    /// length of new holes.
    fn minute(
        &mut self,
        calibration: &mut Calibration,
        true_s: f64,
        said_s: f64,
        rival_s: Option<f64>,
    ) {
        self.minute += 1;
        let now_s = self.minute as f64 * 60.0;
        for (group, end_s) in self.holes.chunks(GROUP).zip(&mut self.ends_s) {
            while *end_s <= now_s {
                for hole in group {
                    calibration.closed(&hole.node, Timestamp::from_unix_ms((*end_s * 1e3) as i64));
                }
                *end_s += -true_s * (1.0 - self.rng.random::<f64>()).ln();
            }
        }
        let now = at(self.minute * 60);
        let same = |mean_s: f64| exponential(self.holes.iter().map(|_| mean_s));
        let rival = rival_s.map(same);
        calibration.observe(now, now, &self.holes, &same(said_s), rival.as_ref());
    }
}

const LIMITS: Limits = Limits {
    ended: 200.0,
    off: 0.1,
};

#[test]
fn a_right_predictor_is_never_adrift_even_if_holes_end_in_groups() {
    for seed in 1..=4 {
        let mut machine = Machine::new(seed);
        let mut calibration = Calibration::new();
        let mut alarm = Alarm::new(LIMITS);
        for _ in 0..20 * 1440 {
            machine.minute(&mut calibration, 1200.0, 1200.0, None);
            alarm.update(&calibration);
            assert_eq!(alarm.raised(), None, "minute {}", machine.minute);
        }
        let [_, five, ..] = calibration.scores();
        assert!(five.in_the_large().unwrap().abs() < 0.1);
        assert!(five.ended() > 200.0, "{}", five.ended());
    }
}

#[test]
fn a_change_of_the_machine_raises_the_alarm_and_a_right_predictor_clears_it() {
    let mut machine = Machine::new(7);
    let mut calibration = Calibration::new();
    let mut alarm = Alarm::new(LIMITS);
    for _ in 0..1440 {
        machine.minute(&mut calibration, 3600.0, 3600.0, None);
        alarm.update(&calibration);
    }
    assert_eq!(alarm.raised(), None);
    let mut waited = 0;
    while alarm.raised().is_none() {
        machine.minute(&mut calibration, 300.0, 3600.0, None);
        alarm.update(&calibration);
        waited += 1;
        assert!(waited < 8 * 60, "no alarm within eight hours");
    }
    println!("raised after {waited} min: {}", alarm.raised().unwrap());
    assert!(
        waited > 30,
        "half an hour is too short for evidence: {waited} min"
    );
    let wrong = matches!(alarm.raised(), Some(Adrift::Calibration { off, .. }) if off > 0.1)
        || matches!(alarm.raised(), Some(Adrift::Skill { skill, .. }) if skill < 0.0);
    assert!(wrong, "{:?}", alarm.raised());
    for _ in 0..3 * 1440 {
        machine.minute(&mut calibration, 300.0, 300.0, None);
        alarm.update(&calibration);
    }
    assert_eq!(alarm.raised(), None);
}

#[test]
fn a_rival_is_better_only_if_that_is_significant() {
    let mut machine = Machine::new(11);
    let mut calibration = Calibration::new();
    for _ in 0..1440 {
        machine.minute(&mut calibration, 600.0, 600.0, Some(600.0));
    }
    assert!(!calibration.is_rival_better() && calibration.is_rival_worse());
    for _ in 0..1440 {
        machine.minute(&mut calibration, 600.0, 6000.0, Some(600.0));
    }
    assert!(calibration.is_rival_better());
    for _ in 0..3 * 1440 {
        machine.minute(&mut calibration, 600.0, 600.0, Some(6000.0));
    }
    assert!(calibration.is_rival_worse());
}

#[test]
fn concordance_is_within_one_moment() {
    let mut calibration = Calibration::new();
    let holes: Vec<Hole> = (0..4).map(|n| hole(&format!("n{n}"))).collect();
    // n0 < n1 < n2 = n3 by forecast; they end as n1 < n0 < n2, and n3 stays open.
    let said = exponential([100.0, 200.0, 300.0, 300.0]);
    calibration.observe(at(0), at(0), &holes, &said, None);
    for (node, end) in [(1, 50), (0, 70), (2, 90)] {
        calibration.closed(&holes[node].node, at(end));
    }
    assert_eq!(calibration.concordance(), None);
    calibration.observe(at(3601), at(3601), &[], &said, None);
    // Of six pairs, that of n0 and n1 is wrong and that of n2 and n3 is tied.
    assert!((calibration.concordance().unwrap() - 4.5 / 6.0).abs() < 1e-9);
    assert_eq!(calibration.pending(), 0);
}

#[test]
fn a_clock_that_is_set_back_drops_all_questions() {
    let mut calibration = Calibration::new();
    let holes = [hole("a")];
    calibration.observe(at(90_000), at(90_000), &holes, &three_quarters(1), None);
    calibration.observe(at(100), at(100), &holes, &three_quarters(1), None);
    assert_eq!(calibration.pending(), 4);
    calibration.closed(&holes[0].node, at(130));
    calibration.observe(at(200), at(200), &[], &three_quarters(0), None);
    assert_eq!(calibration.scores()[0].answered, 1);
    assert_eq!(calibration.scores()[0].open, 0);
}
