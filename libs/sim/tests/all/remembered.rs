//! The history of a replay: losses, days, nodes in a window, and its bounds.

use lacuna_model::{HoleRecord, Timestamp, TrainerSpec, Work};
use lacuna_sim::{Day, GanttSegment, GanttWindow, LIVES, POINTS, Replayed, SIZES, Settings};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::common::{self, hole, trainer};

fn run(holes: &[HoleRecord], trainers: &[TrainerSpec], settings: &Settings) -> Replayed {
    common::run(holes, trainers, settings).unwrap()
}

/// A trainer that never ends.
fn endless(name: u32, max: u32) -> TrainerSpec {
    TrainerSpec {
        work: Work::UntilExit,
        ..trainer(name, max, 0.0)
    }
}

/// Two nodes, of which one leaves at 40. t0 has both until 10 and holds them until 40; t1 then
/// has the other until 50.
fn two_trainers() -> Replayed {
    let holes = [hole(0, 0, 100), hole(1, 0, 40)];
    let trainers = [trainer(0, 2, 200.0), trainer(1, 2, 100.0)];
    let settings = Settings {
        max_parallel: 1,
        gantt: Some(GanttWindow {
            from_s: 5.0,
            until_s: 45.0,
            nodes: 10,
        }),
        ..Settings::published()
    };
    run(&holes, &trainers, &settings)
}

#[test]
fn nodes_of_trainers_whose_work_is_done_count_as_idling() {
    let loss = two_trainers().summary.loss;
    // 90 node-seconds in 50 s are 1.8 nodes, so 18 samples/s for 50 s.
    assert!((loss.dedicated - 900.0).abs() < 1e-9, "{loss:?}");
    assert!((loss.done - 300.0).abs() < 1e-9, "{loss:?}");
    assert!((loss.idling - 600.0).abs() < 1e-9, "{loss:?}");
    assert_eq!((loss.rescale, loss.preempt, loss.waiting), (0.0, 0.0, 0.0));
    assert!(loss.curve.abs() < 1e-9, "{loss:?}");
}

#[test]
fn in_an_endless_list_no_node_idles_until_the_next_event() {
    let settings = Settings {
        max_parallel: 1,
        endless: true,
        gantt: Some(GanttWindow {
            from_s: 0.0,
            until_s: 100.0,
            nodes: 10,
        }),
        ..Settings::published()
    };
    // Done at 10, it trains on until 40, when the pool changes and the next one comes.
    let holes = [hole(0, 0, 100), hole(1, 0, 40)];
    let replayed = run(&holes, &[trainer(0, 2, 200.0)], &settings);
    assert_eq!(replayed.summary.loss.idling, 0.0);
    let history = replayed.history.unwrap();
    assert_eq!(history.lives[0].ended_s, Some(40.0));
    let mut segments = history.gantt.iter().flat_map(|gantt| &gantt.rows);
    assert!(
        segments.all(|row| row.segments.iter().all(|part| part.trainer.is_some())),
        "{:?}",
        history.gantt
    );
}

#[test]
fn nodes_without_a_trainer_are_counted_as_waiting() {
    // The second trainer would have had the second node, but comes only after the end.
    let holes = [hole(0, 0, 100), hole(1, 50, 100)];
    let late = TrainerSpec {
        submit: Timestamp::from_unix(200),
        ..trainer(1, 1, 100.0)
    };
    let summary = run(
        &holes,
        &[trainer(0, 1, 2000.0), late],
        &Settings::published(),
    )
    .summary;
    let loss = summary.loss;
    // Two at a time on one and a half dedicated nodes do 15 samples/s for 100 s.
    assert!((loss.dedicated - 1500.0).abs() < 1e-9, "{loss:?}");
    assert!((loss.done - 1000.0).abs() < 1e-9, "{loss:?}");
    assert!((loss.waiting - 500.0).abs() < 1e-9, "{loss:?}");
    assert!(
        loss.curve.abs() < 1e-9 && loss.idling.abs() < 1e-9,
        "{loss:?}"
    );
}

#[test]
fn nodes_that_no_trainer_of_the_list_could_use_are_no_loss() {
    let holes = [hole(0, 0, 100), hole(1, 0, 50)];
    let summary = run(&holes, &[trainer(0, 1, 500.0)], &Settings::published()).summary;
    let loss = summary.loss;
    // One trainer of one node does 10 samples/s for 50 s on two dedicated nodes too.
    assert_eq!(
        (loss.dedicated, loss.done, loss.waiting),
        (500.0, 500.0, 0.0)
    );
    assert_eq!(summary.efficiency, 1.0);
}

#[test]
fn a_window_has_the_trainers_of_its_nodes() {
    let gantt = two_trainers().history.unwrap().gantt.unwrap();
    let segment = |from_s, until_s, trainer| GanttSegment {
        from_s,
        until_s,
        trainer,
    };
    assert_eq!((gantt.from_s, gantt.until_s), (5.0, 45.0));
    let names: Vec<_> = gantt.rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["n0", "n1"]);
    let first = [
        segment(5.0, 10.0, Some(0)),
        segment(10.0, 40.0, None),
        segment(40.0, 45.0, Some(1)),
    ];
    assert_eq!(gantt.rows[0].segments, first);
    assert_eq!(gantt.rows[1].segments, first[..2]);
}

#[test]
fn a_window_without_an_event_has_the_state_before_it() {
    // t0 ends at 30, which counts only at the end of the trace.
    let settings = Settings {
        gantt: Some(GanttWindow {
            from_s: 20.0,
            until_s: 40.0,
            nodes: 10,
        }),
        ..Settings::published()
    };
    let trainers = [trainer(0, 1, 300.0), endless(1, 1)];
    let replayed = run(&[hole(0, 0, 100)], &trainers, &settings);
    let gantt = replayed.history.unwrap().gantt.unwrap();
    let shown: Vec<_> = gantt.rows[0]
        .segments
        .iter()
        .map(|s| (s.from_s, s.until_s, s.trainer))
        .collect();
    assert_eq!(shown, [(20.0, 30.0, Some(0)), (30.0, 40.0, None)]);
}

/// Holes of some nodes over some days.
fn holes(nodes: u32, days: i64, longest: i64, seed: u64) -> Vec<HoleRecord> {
    println!("seed {seed}");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut holes = Vec::new();
    for node in 0..nodes {
        let mut at = 0;
        while at < days * 86_400 {
            let from = at + rng.random_range(1..longest);
            at = from + rng.random_range(1..longest);
            holes.push(hole(node, from, at));
        }
    }
    holes
}

#[test]
fn days_and_losses_add_up() {
    let holes = holes(20, 3, 4000, 7);
    let trainers: Vec<_> = (0..40).map(|k| trainer(k, 1 + k % 6, 2e5)).collect();
    for endless in [false, true] {
        let settings = Settings {
            endless,
            max_parallel: 4,
            ..Settings::published()
        };
        let replayed = run(&holes, &trainers, &settings);
        let (summary, history) = (replayed.summary, replayed.history.unwrap());
        let days = &history.days;
        let close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0);
        let sum = |of: fn(&Day) -> f64| days.iter().map(of).sum::<f64>();
        assert!(days.len() >= 2 && days[0].until_s == 86_400.0, "{days:?}");
        assert!(close(sum(|d| d.samples), summary.samples));
        assert!(close(
            sum(|d| d.used),
            summary.harvested_node_hours * 3600.0
        ));
        let loss = summary.loss;
        assert!(close(sum(|d| d.rescale), loss.rescale));
        assert!(close(sum(|d| d.preempt), loss.preempt));
        let parts = loss.rescale + loss.preempt + loss.waiting + loss.idling + loss.curve;
        assert!(close(loss.dedicated, loss.done + parts), "{loss:?}");
        assert!(close(loss.done, summary.samples));
        assert!(close(loss.done / loss.dedicated, summary.efficiency));
        assert!(
            loss.preempt > 0.0 && loss.waiting > 0.0 && loss.rescale > 0.0,
            "{loss:?}"
        );
        // With linear trainers the loss to the curve is only the effect of their mixture.
        for day in days {
            assert!(
                day.dedicated > 0.0 && day.samples < 1.5 * day.dedicated,
                "{day:?}"
            );
            assert!(
                day.used + day.waiting <= day.offered * (1.0 + 1e-12),
                "{day:?}"
            );
        }
    }
}

#[test]
fn a_history_is_bounded_and_loses_no_node_time() {
    let holes = holes(12, 30, 1500, 9);
    // One trainer never ends, and many end soon.
    let mut trainers = vec![endless(0, 12)];
    trainers.extend((1..3000).map(|k| trainer(k, 2, 5000.0)));
    let settings = Settings {
        max_parallel: 3,
        ..Settings::published()
    };
    let replayed = run(&holes, &trainers, &settings);
    let (summary, history) = (replayed.summary, replayed.history.unwrap());
    assert!(summary.events > 20_000, "{}", summary.events);
    assert!(history.points.len() <= POINTS && history.points.len() > POINTS / 4);
    assert_eq!(history.lives.len(), LIVES);
    assert!(history.lives_left_out > 0);
    let longest = &history.lives[0];
    assert!(longest.sizes.len() <= SIZES && longest.sizes.len() > SIZES / 8);
    assert!(replayed.solve_seconds.len() <= 4096);
    assert_eq!(replayed.solve_times.len(), summary.events);
    let end = summary.hours * 3600.0;
    let ends = history.points.iter().skip(1).map(|p| p.at_s).chain([end]);
    let mut offered = 0.0;
    for (point, end) in history.points.iter().zip(ends) {
        offered += point.pool_mean * (end - point.at_s);
        assert!(point.used <= point.pool && point.used_mean <= point.pool_mean);
    }
    assert!(
        (offered / (summary.equivalent_nodes * end) - 1.0).abs() < 1e-9,
        "{offered}"
    );
}
