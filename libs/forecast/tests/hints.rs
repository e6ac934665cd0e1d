//! What the scheduler announces, and what that is worth.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use lacuna_forecast::{Certainty, Choice, Hint, Hinted, Predictor};
use lacuna_model::{Hole, NodeId, Timestamp};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix(1_600_000_000 + seconds)
}

fn hole(name: &str) -> Hole {
    Hole {
        node: NodeId::new(name).unwrap(),
        since: at(0),
    }
}

fn hint(name: &str, seconds: i64, certainty: Certainty) -> Hint {
    Hint {
        node: NodeId::new(name).unwrap(),
        at: at(seconds),
        certainty,
    }
}

fn hinted() -> Hinted {
    let mut hinted = Hinted::new(Choice::Persistence.build());
    for name in ["a", "b", "c"] {
        hinted.opened(&hole(name), at(0));
    }
    hinted
}

#[test]
fn a_hard_end_is_an_end_and_a_soft_one_as_likely_as_it_was() {
    let mut hinted = hinted();
    let now = at(3600);
    hinted.hint(
        now,
        &[
            hint("a", 4200, Certainty::Hard),
            hint("b", 4200, Certainty::Soft),
        ],
    );
    let holes = [hole("a"), hole("b"), hole("c")];
    let said = hinted.forecast(now, &holes);
    let open = |place, after| said.of(place).unwrap().open_after(after);
    let believed = Choice::Persistence.build().forecast(now, &holes);
    let plain = |after| believed.of(0).unwrap().open_after(after);
    assert!((open(0, 590.0) - plain(590.0)).abs() < 0.02);
    assert_eq!(open(0, 601.0), 0.0);
    // Nothing is known of soft ones: earlier, then, and later are as likely.
    assert!(open(1, 590.0) > 0.65);
    let late = plain(700.0) / plain(600.0) / 3.0;
    assert!((open(1, 700.0) - late).abs() < 0.01);
    assert_eq!(open(2, 700.0), plain(700.0));
    for place in 0..3 {
        let points = &said.of(place).unwrap().points;
        assert!(points.is_sorted_by(|a, b| a.after_s < b.after_s && a.open >= b.open));
    }
}

#[test]
fn withdrawn_and_moved_plans_cost_their_kind_its_credit_once_their_moment_has_passed() {
    let mut hinted = hinted();
    for round in 0..20 {
        // Announced and withdrawn again and again, for the same moment.
        hinted.hint(at(round * 60), &[hint("a", 1500, Certainty::Soft)]);
        hinted.hint(at(round * 60 + 30), &[]);
    }
    let soft = |hinted: &Hinted| {
        let record = hinted.record(Certainty::Soft);
        (record.came_true, record.proved_false)
    };
    assert_eq!(soft(&hinted), (0, 0));
    hinted.hint(at(1600), &[]);
    // Once for each lead at which it was said: up to an hour, and up to a quarter of one.
    assert_eq!(soft(&hinted), (0, 2));
    let reliability = hinted.record(Certainty::Soft).reliability();
    assert!(reliability < 0.26, "{reliability}");
    // Moved by an hour: the first was false, the second comes true.
    hinted.hint(at(1700), &[hint("b", 5000, Certainty::Soft)]);
    hinted.hint(at(1710), &[hint("b", 8600, Certainty::Soft)]);
    hinted.hint(at(5100), &[hint("b", 8600, Certainty::Soft)]);
    assert_eq!(soft(&hinted), (0, 3));
    // Said far ahead, and again when the first moment had passed.
    hinted.closed(&hole("b"), at(8650));
    assert_eq!(soft(&hinted), (2, 3));
    // Past and the hole is still there.
    hinted.hint(at(8700), &[hint("c", 9000, Certainty::Hard)]);
    hinted.hint(at(9200), &[hint("c", 9000, Certainty::Hard)]);
    assert_eq!(hinted.record(Certainty::Hard).proved_false, 1);
    // How a hole that is lost from sight ended is not known.
    hinted.hint(at(9300), &[hint("c", 9500, Certainty::Hard)]);
    hinted.lost(&hole("c"), at(9400));
    hinted.hint(at(9900), &[]);
    let record = hinted.record(Certainty::Hard);
    assert_eq!((record.came_true, record.proved_false), (0, 1));
    assert_eq!(hinted.announced_ends(), 0);
}

#[test]
fn hard_hints_that_are_false_are_believed_by_their_own_record() {
    let mut hinted = hinted();
    for round in 0..12 {
        let now = round * 1000;
        hinted.hint(at(now), &[hint("a", now + 100, Certainty::Hard)]);
        hinted.hint(at(now + 900), &[]);
    }
    let now = at(13_600);
    hinted.hint(now, &[hint("a", 14_200, Certainty::Hard)]);
    let after = |hinted: &mut Hinted| {
        let said = hinted.forecast(now, &[hole("a")]);
        said.of(0).unwrap().open_after(700.0)
    };
    let doubted = after(&mut hinted);
    assert!(doubted > 0.3);
    // What other announcements are worth says nothing of these.
    for round in 0..50 {
        let moment = 13_600 + round;
        hinted.hint(at(moment), &[hint("b", moment, Certainty::Soft)]);
        hinted.closed(&hole("b"), at(moment));
    }
    assert_eq!(hinted.record(Certainty::Soft).came_true, 50);
    hinted.hint(now, &[hint("a", 14_200, Certainty::Hard)]);
    let now_doubted = after(&mut hinted);
    assert!(
        (now_doubted - doubted).abs() < 0.1,
        "{doubted} {now_doubted}"
    );
}

#[test]
fn hints_that_come_true_are_believed_and_passed_on() {
    let mut hinted = Hinted::new(Choice::hazard(600.0).build());
    for round in 0..30i64 {
        let start = round * 1000;
        for name in ["a1", "a2", "a3"] {
            let hole = Hole {
                node: NodeId::new(name).unwrap(),
                since: at(start),
            };
            hinted.opened(&hole, at(start));
        }
        let hints = ["a1", "a2"].map(|name| hint(name, start + 500, Certainty::Soft));
        hinted.hint(at(start + 10), &hints);
        for name in ["a1", "a2", "a3"] {
            let hole = Hole {
                node: NodeId::new(name).unwrap(),
                since: at(start),
            };
            hinted.closed(&hole, at(start + if name == "a3" { 900 } else { 500 }));
        }
    }
    // Both nodes of a round are one announcement.
    assert_eq!(hinted.record(Certainty::Soft).came_true, 30);
    let start = 30_000;
    let holes = ["a1", "a2", "a3"].map(|name| Hole {
        node: NodeId::new(name).unwrap(),
        since: at(start),
    });
    for hole in &holes {
        hinted.opened(hole, at(start));
    }
    let hints = ["a1", "a2"].map(|name| hint(name, start + 500, Certainty::Soft));
    hinted.hint(at(start + 10), &hints);
    let bytes = hinted.save().unwrap();
    let said = hinted.forecast(at(start + 10), &holes);
    assert!(said.of(0).unwrap().open_after(480.0) > 0.95);
    assert!(said.of(0).unwrap().open_after(500.0) < 0.05);
    // Whoever decides is told what is wanted for which moment, and what else was believed.
    let told: Vec<u32> = said.announced.iter().map(|told| told.hole).collect();
    assert_eq!(told, [0, 1]);
    for announced in &said.announced {
        assert!(
            announced.kept > 0.9 && announced.after_s == 490.0,
            "{announced:?}"
        );
        let otherwise = &said.forecasts[announced.otherwise as usize];
        assert_eq!(otherwise, said.of(2).unwrap());
    }
    let pool = said.into_pool(at(start + 10), 1, holes.to_vec());
    assert_eq!(pool.joint.unwrap().announced.len(), 2);
    let restored = Hinted::restore(&Choice::hazard(600.0), &bytes).unwrap();
    assert_eq!(
        restored.record(Certainty::Soft),
        hinted.record(Certainty::Soft)
    );
}
