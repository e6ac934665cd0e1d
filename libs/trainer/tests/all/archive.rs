//! Ended trainers move from the controller to the archive.

use lacuna_model::{Span, Timestamp, Work};
use lacuna_trainer::controller::{Input, Tally};

use crate::common::{World, config, plan, spec, trainer};

const WEEK: Span = Span::from_secs(7 * 86_400);

/// A world in which two trainers of `ann` have done work and ended, and one of hers goes on.
fn world() -> World {
    let mut w = World::new(1, 6, config());
    w.snapshot();
    (0..6).for_each(|n| w.open(n));
    let trainers = ["a", "b", "c"].map(|name| {
        let mut spec = spec(name, 1, 2, Work::UntilExit);
        spec.owner = Some("ann".to_owned());
        spec
    });
    w.submit("ann", trainers.into());
    let view = w.present();
    let sizes: [(&str, &[usize]); 3] = [("a", &[0, 1]), ("b", &[2, 3]), ("c", &[4, 5])];
    let plan = plan(1, w.seq, w.now.cluster, &sizes);
    w.give(plan, &view);
    w.quiesce();
    for name in ["b", "a"] {
        w.input(Input::Cancel(trainer(name)));
        w.quiesce();
    }
    w.quiesce();
    w
}

/// Asserts that the sums do not change when a trainer is archived, within a millionth.
fn like(one: &Tally, other: &Tally) {
    let figures = |t: &Tally| {
        [
            t.samples,
            t.rescale_cost,
            t.preempt_cost,
            t.restart_cost,
            t.stalls.preempt.seconds,
            t.efficiency.known().unwrap_or(-1.0),
            t.preemptions as f64,
            t.rescales as f64,
            t.done as f64,
        ]
    };
    for (one, other) in figures(one).into_iter().zip(figures(other)) {
        assert!((one - other).abs() <= 1e-6 * one.abs(), "{one} {other}");
    }
}

#[test]
fn ended_trainers_are_archived_in_order_and_their_sums_stay() {
    let mut w = world();
    assert!(
        w.controller.retire(WEEK, 10, w.now).is_empty(),
        "it is not time"
    );
    let before = w.controller.tally();
    assert!(before.samples > 0.0, "{before:?}");
    let attained = |w: &World| {
        let now: Timestamp = w.now.cluster;
        let view = w.controller.trainers_view(w.now);
        view.trainers.first().map(|t| t.attained.by(now))
    };
    let of_ann = attained(&w).unwrap();
    let version = w.controller.version();
    // The trainer that ended first goes first, up to the limit.
    let first = w.controller.retire(Span::ZERO, 1, w.now);
    assert_eq!(first.len(), 1);
    assert_eq!(first[0].spec.id, trainer("b"));
    assert_eq!(w.controller.past().moved, [trainer("b")]);
    let second = w.controller.retire(Span::ZERO, 10, w.now);
    assert_eq!(second.len(), 1, "who goes on stays");
    assert_eq!(w.controller.past().moved, [trainer("a")]);
    assert_eq!(w.controller.past().trainers, 2);
    assert!(w.controller.record(&trainer("a")).is_none());
    assert_eq!(w.controller.version(), version, "no plan depends on it");
    like(&before, &w.controller.tally());
    assert!((attained(&w).unwrap() - of_ann).abs() <= 1e-6 * of_ann);
    // A restarted control does not have them, but has the same sums.
    let kept = [&first[0], &second[0]].map(|record| record.spec.id.clone());
    w.records.retain(|id, _| !kept.contains(id));
    let before = w.controller.tally();
    w.crash_control();
    like(&before, &w.controller.tally());
    assert!((attained(&w).unwrap() - of_ann).abs() <= 1e-3 * of_ann);
    // Orders of arrival go on.
    w.submit("", vec![spec("d", 1, 1, Work::UntilExit)]);
    assert_eq!(w.record("d").order, 4);
}

#[test]
fn a_trainer_whose_last_report_may_still_come_stays() {
    let mut w = World::new(1, 2, config());
    w.snapshot();
    w.submit("", vec![spec("a", 1, 2, Work::UntilExit)]);
    w.input(Input::Cancel(trainer("a")));
    assert!(w.controller.retire(Span::ZERO, 1, w.now).is_empty());
    w.pass(Span::from_secs(121));
    assert_eq!(w.controller.retire(Span::ZERO, 1, w.now).len(), 1);
}
