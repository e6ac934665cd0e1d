//! Input beyond any centre's that a file can hold: every replay ends, with finite figures or with
//! an error that names the fault.

use std::path::Path;

use lacuna_batchsim::Machine;
use lacuna_model::{HoleRecord, Policy, Timestamp, TrainerSpec};
use lacuna_sim::pool_stats::{PoolOptions, pool_stats};
use lacuna_sim::skill::{SkillOptions, evaluate};
use lacuna_sim::{
    Dedicated, HoleTrace, Objective, PoolTrace, Replayed, Settings, SimError, SimulatedTrace,
    Simulation, TrainerEnd, replay,
};
use lacuna_trace::Reading;
use tempfile::TempDir;

use crate::common::{self, hole, run, trainer};

/// Checks that every figure is finite.
fn sound(replayed: &Replayed) {
    let summary = &replayed.summary;
    for figure in [
        summary.efficiency,
        summary.hours,
        summary.equivalent_nodes,
        summary.harvested_node_hours,
        summary.samples,
        summary.rescale_cost_fraction,
        summary.preempt_cost_fraction,
        summary.loss.curve,
    ] {
        assert!(figure.is_finite(), "{summary:?}");
    }
}

/// Replays, counts and scores forecasts.
fn all_of_it(holes: &[HoleRecord], start: i64) -> Result<(), SimError> {
    let trace = HoleTrace::new(holes, None, Timestamp::from_unix_ms(start), None);
    let trainers = [trainer(0, 3, 1e3), trainer(1, 2, 1e3)];
    let stats = pool_stats(&trace, PoolOptions::default()).map(|_| ());
    let asked = evaluate(&trace, &SkillOptions::default(), &mut |_| {}).map(|_| ());
    let replayed = common::run_trace(
        &trace,
        &trainers,
        &Settings::published(),
        Some(lacuna_sim::History::default()),
    );
    assert_eq!(stats.is_err(), replayed.is_err(), "{stats:?} {replayed:?}");
    assert_eq!(stats.is_err(), asked.is_err(), "{stats:?} {asked:?}");
    let replayed = replayed?;
    sound(&replayed);
    Ok(())
}

fn between(from: i64, until: i64) -> HoleRecord {
    HoleRecord {
        from: Timestamp::from_unix_ms(from),
        until: Timestamp::from_unix_ms(until),
        ..hole(0, 0, 1)
    }
}

#[test]
fn a_recording_of_geological_length_is_refused() {
    for (from, until) in [(i64::MIN, i64::MAX), (0, i64::MAX), (i64::MIN, 0)] {
        let holes = [between(from, until), hole(1, 0, 100)];
        let refused = all_of_it(&holes, from).unwrap_err();
        assert!(matches!(refused, SimError::TooLong { .. }), "{refused}");
        assert!(refused.to_string().contains("years"), "{refused}");
    }
}

#[test]
fn holes_at_the_ends_of_time_are_replayed() {
    let hour = 3_600_000;
    for start in [i64::MIN, i64::MAX - hour] {
        let later = hole(1, 0, 1);
        let holes = [
            between(start, start + hour),
            HoleRecord {
                node: later.node,
                ..between(start + hour / 2, start + hour)
            },
        ];
        all_of_it(&holes, start).unwrap();
    }
    // The start cuts a hole that began at the first representable moment.
    all_of_it(&[between(i64::MIN, hour), hole(1, 0, 100)], 0).unwrap();
}

#[test]
fn a_recording_of_no_length_has_nothing_to_replay() {
    for holes in [vec![], vec![between(0, 0)]] {
        let refused = run(&holes, &[trainer(0, 1, 10.0)], &Settings::published()).unwrap_err();
        let is_named = matches!(refused, SimError::NothingLeft { .. });
        assert!(is_named, "{refused}");
    }
}

#[test]
fn trainers_that_are_too_large_for_the_pool_wait_forever() {
    let holes = [hole(0, 0, 100), hole(1, 20, 60)];
    let large = |number| TrainerSpec {
        min_nodes: 3,
        ..trainer(number, 4, 1e3)
    };
    for policy in Policy::ALL.into_iter().filter(|p| !p.forecasts()) {
        for dedicated in [Dedicated::ByKind, Dedicated::StaticReplay] {
            for endless in [false, true] {
                let settings = Settings {
                    policy,
                    dedicated,
                    endless,
                    trainer_end: TrainerEnd::Immediate,
                    ..Settings::published()
                };
                let replayed = run(&holes, &[large(0), large(1)], &settings).unwrap();
                sound(&replayed);
                let summary = replayed.summary;
                assert_eq!((summary.samples, summary.trainers_done), (0.0, 0));
                assert_eq!(summary.efficiency, 0.0, "{policy:?} {dedicated:?}");
                assert_eq!(summary.unfinished, !endless);
            }
        }
    }
}

#[test]
fn a_pool_without_nodes_does_no_work() {
    let end = Some(Timestamp::from_unix(1000));
    // The only hole begins as the part to replay ends.
    let trace = HoleTrace::new(&[hole(0, 1000, 2000)], None, Timestamp::from_unix(0), end);
    for objective in [
        Objective::AsGiven,
        Objective::Fair,
        Objective::LeastAttained,
    ] {
        let settings = Settings {
            objective,
            ..Settings::published()
        };
        let replayed = common::run_trace(&trace, &[trainer(0, 4, 1e3)], &settings, None).unwrap();
        sound(&replayed);
        assert_eq!(replayed.summary.equivalent_nodes, 0.0);
        assert!(replayed.summary.unfinished);
    }
}

#[test]
fn any_number_in_parallel_is_as_good_as_enough() {
    let holes = [hole(0, 0, 1000), hole(1, 20, 600), hole(2, 50, 900)];
    let trainers: Vec<_> = (0..6).map(|number| trainer(number, 2, 2e3)).collect();
    let with = |max_parallel| {
        let settings = Settings {
            max_parallel,
            ..Settings::published()
        };
        run(&holes, &trainers, &settings)
    };
    let (enough, more) = (with(6).unwrap(), with(100_000).unwrap());
    assert_eq!(enough.history.unwrap().lives, more.history.unwrap().lives);
    let refused = with(u32::MAX).unwrap_err();
    let what = "max-parallel";
    assert!(
        matches!(refused, SimError::Setting { what: found, .. } if found == what),
        "{refused}"
    );
}

/// Work that is done at once, again and again, must not stop time.
#[test]
fn an_endless_list_of_nothing_to_do_ends() {
    let holes = [hole(0, 0, 100), hole(1, 40, 41)];
    for samples in [f64::MIN_POSITIVE, 1e-9] {
        let settings = Settings {
            endless: true,
            trainer_end: TrainerEnd::Immediate,
            ..Settings::published()
        };
        let replayed = run(&holes, &[trainer(0, 1, samples)], &settings);
        let refused = replayed.map(|replayed| sound(&replayed)).unwrap_err();
        assert!(matches!(refused, SimError::Standstill { .. }), "{refused}");
    }
}

#[test]
fn numbers_at_the_limits_of_floating_point_give_figures() {
    let holes = [hole(0, 0, 100), hole(1, 40, 90)];
    for (samples, scale) in [(f64::MAX, 1.0), (1e-300, 1.0), (1e3, 1e9), (1e3, 0.0)] {
        let settings = Settings {
            cost_scale: scale,
            ..Settings::published()
        };
        sound(&run(&holes, &[trainer(0, 2, samples)], &settings).unwrap());
    }
}

#[test]
fn trainers_beyond_any_machine_are_refused() {
    let holes = [hole(0, 0, 100)];
    let with = |max_nodes, up_s| {
        let mut large = trainer(0, 2, 1e3);
        (large.max_nodes, large.rescale.up_s) = (max_nodes, up_s);
        run(&holes, &[large], &Settings::published())
    };
    for (max_nodes, up_s, named) in [
        (u32::MAX, 1.0, "max_nodes is 4294967295"),
        (2, 1e300, "rescale.up_s is 1"),
        (2, f64::NAN, "rescale.up_s is NaN"),
    ] {
        let refused = with(max_nodes, up_s).unwrap_err();
        assert!(matches!(refused, SimError::Trainer { .. }), "{refused}");
        assert!(refused.to_string().contains(named), "{refused}");
    }
}

#[test]
fn trainers_submitted_at_the_ends_of_time_are_early_or_never() {
    let submitted = |submit| TrainerSpec {
        submit: Timestamp::from_unix_ms(submit),
        ..trainer(0, 1, 100.0)
    };
    let of = |submit| {
        let settings = Settings::published();
        let replayed = run(&[hole(0, 0, 100)], &[submitted(submit)], &settings).unwrap();
        sound(&replayed);
        replayed.summary.samples
    };
    assert_eq!(of(i64::MIN), 100.0);
    assert_eq!(of(i64::MAX), 0.0);
}

fn simulated(folder: &Path, jobs: &str, nodes: u32) -> Result<SimulatedTrace, SimError> {
    let path = folder.join("log.swf");
    std::fs::write(
        &path,
        format!("; MaxNodes: {nodes}\n; UnixStartTime: 0\n{jobs}"),
    )
    .unwrap();
    let (machine, simulation) = (Machine::new(nodes), Simulation::default());
    SimulatedTrace::open(&path, &Reading::default(), machine, simulation, &mut |_| {})
}

fn walked(trace: &dyn PoolTrace) -> Result<Replayed, SimError> {
    let (mut progress, trainers) = (|_| {}, [trainer(0, 2, 1e3)]);
    let mut hooks = lacuna_sim::Hooks::new(&|| 0.0, &mut progress);
    let history = Some(lacuna_sim::History::default());
    replay(
        trace,
        &trainers,
        &Settings::published(),
        history,
        &mut hooks,
    )
}

#[test]
fn a_log_of_one_job_is_walked_to_its_end() {
    let folder = TempDir::new().unwrap();
    // One of two nodes is busy for 60 s: after the only submission the part to replay is the job.
    let log = simulated(
        folder.path(),
        "1 0 0 60 1 -1 -1 1 100 -1 1 1 1 -1 1 -1 -1 -1\n",
        2,
    );
    let log = log.unwrap();
    let replayed = walked(&log).unwrap();
    sound(&replayed);
    assert_eq!(log.length_s(), 60.0);
    assert_eq!(replayed.summary.equivalent_nodes, 1.0);
    // A job of no length leaves nothing to replay.
    let log = simulated(
        folder.path(),
        "1 0 0 0 1 -1 -1 1 100 -1 1 1 1 -1 1 -1 -1 -1\n",
        2,
    );
    let refused = log.and_then(|log| walked(&log)).unwrap_err();
    assert!(matches!(refused, SimError::NothingLeft { .. }), "{refused}");
}

#[test]
fn jobs_at_the_ends_of_time_are_replayed_or_refused() {
    let folder = TempDir::new().unwrap();
    for submit in [
        "9223372036854775807",
        "9223372036854775",
        "9999999999999",
        "-9999999999999",
    ] {
        for run_s in ["9223372036854775807", "99999999999", "60"] {
            let jobs = format!(
                "1 0 0 60 1 -1 -1 1 100 -1 1 1 1 -1 1 -1 -1 -1\n\
                 2 {submit} 0 {run_s} 1 -1 -1 1 {run_s} -1 1 1 1 -1 1 -1 -1 -1\n\
                 3 5 0 {run_s} 2 -1 -1 2 {run_s} -1 1 1 1 -1 1 -1 -1 -1\n"
            );
            match simulated(folder.path(), &jobs, 2).and_then(|log| walked(&log)) {
                Ok(replayed) => sound(&replayed),
                Err(error) => println!("{submit} {run_s}: {error}"),
            }
        }
    }
}
