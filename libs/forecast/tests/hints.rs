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
    // Nothing is known of soft ones: an even chance.
    assert!(open(1, 590.0) > plain(590.0));
    assert!((open(1, 700.0) - plain(700.0) / 2.0).abs() < 0.02);
    assert_eq!(open(2, 700.0), plain(700.0));
    for place in 0..3 {
        let points = &said.of(place).unwrap().points;
        assert!(points.is_sorted_by(|a, b| a.after_s < b.after_s && a.open >= b.open));
    }
}

#[test]
fn withdrawn_and_moved_plans_cost_their_kind_its_credit() {
    let mut hinted = hinted();
    for round in 0..20 {
        hinted.hint(at(round * 60), &[hint("a", 5000, Certainty::Soft)]);
        hinted.hint(at(round * 60 + 30), &[]);
    }
    let record = hinted.record(Certainty::Soft);
    assert_eq!((record.came_true, record.proved_false), (0, 20));
    assert!(record.reliability() < 0.06, "{}", record.reliability());
    // Moved by an hour: the first was false, the second stands.
    hinted.hint(at(1300), &[hint("a", 5000, Certainty::Soft)]);
    hinted.hint(at(1310), &[hint("a", 8600, Certainty::Soft)]);
    assert_eq!(hinted.record(Certainty::Soft).proved_false, 21);
    hinted.closed(&hole("a"), at(8650));
    assert_eq!(hinted.record(Certainty::Soft).came_true, 1);
    // Past and the hole is still there.
    hinted.hint(at(8700), &[hint("b", 9000, Certainty::Hard)]);
    hinted.hint(at(9200), &[hint("b", 9000, Certainty::Hard)]);
    assert_eq!(hinted.record(Certainty::Hard).proved_false, 1);
}

#[test]
fn hard_hints_that_are_false_are_believed_by_their_own_record() {
    let mut hinted = hinted();
    for round in 0..12 {
        hinted.hint(at(round * 60), &[hint("a", 5000, Certainty::Hard)]);
        hinted.hint(at(round * 60 + 30), &[]);
    }
    let now = at(3600);
    hinted.hint(now, &[hint("a", 4200, Certainty::Hard)]);
    let after = |hinted: &mut Hinted| {
        let said = hinted.forecast(now, &[hole("a")]);
        said.of(0).unwrap().open_after(700.0)
    };
    let doubted = after(&mut hinted);
    assert!(doubted > 0.3);
    // What other announcements are worth says nothing of these.
    for round in 0..50 {
        hinted.hint(
            at(4000 + round),
            &[hint("b", 4000 + round, Certainty::Soft)],
        );
        hinted.closed(&hole("b"), at(4000 + round));
    }
    assert_eq!(hinted.record(Certainty::Soft).came_true, 50);
    hinted.hint(now, &[hint("a", 4200, Certainty::Hard)]);
    let now_doubted = after(&mut hinted);
    assert!(
        (now_doubted - doubted).abs() < 0.1,
        "{doubted} {now_doubted}"
    );
}

#[test]
fn hints_that_come_true_are_believed_and_tie_holes_together() {
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
    assert_eq!(hinted.record(Certainty::Soft).came_true, 60);
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
    let joint = said.joint.unwrap();
    let link = |a: u32, b: u32| {
        let place = |hole| joint.order.iter().position(|&at| at == hole).unwrap();
        let (a, b) = (place(a), place(b));
        joint
            .link
            .get(a.min(b))
            .copied()
            .filter(|_| a.abs_diff(b) == 1)
    };
    assert!(link(0, 1).unwrap() > 0.9);
    assert!(link(1, 2).or(link(0, 2)).unwrap() < 0.1);
    let restored = Hinted::restore(&Choice::hazard(600.0), &bytes).unwrap();
    assert_eq!(
        restored.record(Certainty::Soft),
        hinted.record(Certainty::Soft)
    );
    // An end announced for the last in the order makes it the first to be taken.
    let before = joint.order.clone();
    let last = *before.last().unwrap();
    let name = holes[last as usize].node.clone();
    let told = Hint {
        node: name,
        at: at(start + 60),
        certainty: Certainty::Soft,
    };
    hinted.hint(at(start + 20), &[told]);
    let moved = hinted.forecast(at(start + 20), &holes).joint.unwrap();
    assert_eq!(moved.order[0], last);
    let rest: Vec<u32> = before.into_iter().filter(|place| *place != last).collect();
    assert_eq!(moved.order[1..], rest);
    assert_eq!(moved.link.len(), 2);
    assert!(moved.link[0] < 0.1, "it goes alone: {:?}", moved.link);
}
