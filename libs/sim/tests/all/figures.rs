//! The figures of a replay are those of the accounting core for the same history.

use lacuna_model::{Held, Past, TrainerRecord};
use lacuna_sim::{Life, Settings};
use lacuna_trainer::measure::{self, Offered, Worked};

use crate::common::{hole, run, trainer};

/// Node-time until `end_s`.
fn held(life: &Life, end_s: f64) -> Held {
    let mut held = Held::default();
    let until = life.sizes.iter().skip(1).map(|size| size.0).chain([end_s]);
    for (&(from_s, nodes), until_s) in life.sizes.iter().zip(until) {
        let seconds = until_s - from_s;
        held.node_s += seconds * f64::from(nodes);
        held.seconds += if nodes > 0 { seconds } else { 0.0 };
    }
    held
}

#[test]
fn a_replay_shows_the_figures_of_the_core() {
    // Nodes come and go; two trainers hold all that they can use, four nodes each.
    let holes = [
        hole(0, 0, 400),
        hole(1, 0, 150),
        hole(2, 50, 400),
        hole(3, 60, 90),
        hole(4, 100, 400),
        hole(5, 200, 400),
    ];
    let trainers = [trainer(0, 4, 1e9), trainer(1, 4, 1e9)];
    let replayed = run(&holes, &trainers, &Settings::default()).unwrap();
    let summary = replayed.summary;
    let end_s = summary.hours * 3600.0;
    let lives = replayed.history.unwrap().lives;
    // Each node contributes equally to the samples.
    let share = summary.samples / (summary.harvested_node_hours * 3600.0);
    let record = |life: &Life| {
        let mut record = TrainerRecord::new(trainers[0].clone(), 1);
        record.held = held(life, end_s);
        record.samples_before = share * record.held.node_s;
        record
    };
    let records: Vec<TrainerRecord> = lives.iter().map(record).collect();
    let harvested_node_s: f64 = records.iter().map(|record| record.held.node_s).sum();
    let offered = Offered {
        seconds: end_s,
        idle_node_s: summary.equivalent_nodes * end_s,
        harvested_node_s,
        max_parallel: summary.settings.max_parallel,
    };
    let near = |a: f64, b: f64| (a - b).abs() < 1e-9 * b.abs().max(1.0);
    assert!(
        near(summary.harvested_node_hours * 3600.0, harvested_node_s),
        "{summary:?}"
    );
    let used = measure::idle_share_used(harvested_node_s, offered.idle_node_s).unwrap();
    assert!(near(summary.idle_share_used, used), "{summary:?}");
    let known = |records: &[TrainerRecord]| {
        let trainers = records.iter().map(|record| Worked::of(record, None));
        measure::efficiency_of(trainers, &Past::default(), &offered)
            .known()
            .unwrap()
    };
    let found = known(&records);
    assert!(near(summary.efficiency, found), "{found}: {summary:?}");
    assert!((0.5..0.999).contains(&found), "something is lost: {found}");
    // The same trainers as two kinds: on linear curves the figures are the same.
    let mut two_kinds = records.clone();
    two_kinds[1].spec.max_nodes = 5;
    assert!(
        near(known(&two_kinds), found),
        "{} {found}",
        known(&two_kinds)
    );
    // The losses are the additional work of dedicated nodes.
    let loss = summary.loss;
    let lost = loss.rescale + loss.preempt;
    let shares = summary.rescale_cost_fraction + summary.preempt_cost_fraction;
    assert!(
        near(measure::share(lost, summary.samples), shares),
        "{loss:?}"
    );
    assert!(lost > 0.0, "{loss:?}");
}
