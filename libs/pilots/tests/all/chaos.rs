//! Random schedules with faults.

use lacuna_model::Span;
use lacuna_model::pilots::Pace;
use lacuna_pilots::keeper::{Input, Mode, Settings};
use lacuna_scheduler::job::{End, JobStage};
use rand::RngExt;

use crate::world::{Job, Trouble, World, settings, wants};

fn hurried() -> Settings {
    let mut settings = settings();
    settings.pace = Pace {
        rate: 2.0,
        burst: 4,
        max_pending: 6,
        // Shorter than the default, so that it ends within a test.
        quarantine: Span::from_secs(120),
        backoff_max: Span::from_secs(60),
        ..settings.pace
    };
    settings
}

/// Submissions in any window are no more than the burst and the rate allow.
fn rate_kept(world: &World) {
    let times = &world.submissions;
    for (first, &from) in times.iter().enumerate() {
        for (further, &to) in times.iter().enumerate().skip(first) {
            let allowed = f64::from(world.settings.pace.burst)
                + world.settings.pace.rate * (to - from) as f64 / 1000.0
                + 1e-9;
            let made = (further - first + 1) as f64;
            assert!(made <= allowed, "{made} submissions in {} ms", to - from);
        }
    }
}

fn disturb(world: &mut World) {
    let nodes = world.busy.len();
    let node = world.rng.random_range(0..nodes);
    match world.rng.random_range(0..400) {
        0..3 => world.take(node),
        3..7 => world.busy[node] = false,
        7 => {
            // A foreign job of the same name.
            let (id, until) = (world.next, world.ms + 500);
            world.next += 1;
            let job = Job {
                node,
                ours: false,
                stage: JobStage::Pending,
                submitted: id,
                until,
                speaks_at: i64::MAX,
            };
            world.jobs.insert(id, job);
        }
        8 => {
            // An operator requeues or cancels, a program crashes, or a node dies.
            let ids: Vec<u64> = world.jobs.keys().copied().collect();
            if let Some(&id) = ids.get(world.rng.random_range(0..ids.len().max(1))) {
                let end = [End::Cancelled, End::Failed, End::NodeFailed, End::Completed];
                let end = end[world.rng.random_range(0..4)];
                let running = world.jobs[&id].stage == JobStage::Running;
                let fresh = world.next;
                if running && world.rng.random_range(0..2) == 0 {
                    let job = world.jobs.get_mut(&id).unwrap();
                    job.stage = JobStage::Pending;
                    job.submitted = fresh;
                    job.until = world.ms + 2000;
                    job.speaks_at = i64::MAX;
                    world.next += 1;
                } else if running {
                    world.leave(id, end);
                }
            }
        }
        9 if world.rng.random_range(0..10) == 0 => world.restart(),
        10 => {
            world.tell(Input::Link(false));
        }
        11..20 => world.tell(Input::Link(true)),
        20 if world.rng.random_range(0..4) == 0 => {
            let mode = [Mode::On, Mode::Observe, Mode::Off][world.rng.random_range(0..3)];
            world.mode = mode;
            world.tell(Input::Mode(mode));
        }
        21..30 if world.mode != Mode::On => {
            world.mode = Mode::On;
            world.tell(Input::Mode(Mode::On));
        }
        _ => {}
    }
}

#[test]
fn no_node_ever_has_two_pilots_and_no_foreign_job_is_cancelled() {
    let mut ended = 0;
    for seed in 0..40 {
        println!("seed {seed}");
        let mut world = World::new(seed, 3 + (seed as usize % 8), hurried());
        let nodes = world.busy.len();
        world.tell(Input::Demand(wants(nodes as u32)));
        world.trouble = Trouble(8);
        for _ in 0..9000 {
            disturb(&mut world);
            world.pass();
        }
        rate_kept(&world);
        ended += world.notes.len();
        // Then no more faults occur.
        world.trouble = Trouble(0);
        world.mode = Mode::On;
        world.tell(Input::Mode(Mode::On));
        world.tell(Input::Link(true));
        world.busy = vec![false; nodes];
        world.jobs.retain(|_, job| job.ours);
        for _ in 0..6000 {
            world.pass();
        }
        let counts = world.keeper.counts(world.now());
        assert_eq!(counts.running as usize, nodes, "seed {seed}: {counts:?}");
        assert_eq!((counts.pending, counts.submitting), (0, 0), "seed {seed}");
        let live = world.jobs.values().filter(|j| j.ours && j.stage.lives());
        assert_eq!(live.count(), nodes, "seed {seed}: {:?}", world.jobs);
        rate_kept(&world);
    }
    assert!(
        ended > 1000,
        "only {ended} notes: the test disturbs nothing"
    );
}

#[test]
fn an_observer_submits_nothing() {
    for seed in 0..5 {
        println!("seed {seed}");
        let mut world = World::new(seed, 6, hurried());
        world.mode = Mode::Observe;
        world.tell(Input::Mode(Mode::Observe));
        world.tell(Input::Demand(wants(6)));
        for _ in 0..3000 {
            world.pass();
        }
        assert_eq!(world.submissions, Vec::<i64>::new());
    }
}

#[test]
fn two_hundred_and_fifty_six_idle_nodes_have_pilots_within_half_a_minute() {
    let mut world = World::new(1, 256, settings());
    world.tell(Input::Demand(wants(256)));
    world.report();
    let start = world.ms;
    while (world.keeper.counts(world.now()).running as usize) < 256 {
        world.pass();
        assert!(
            world.ms - start < 60_000,
            "{:?}",
            world.keeper.counts(world.now())
        );
    }
    let took = world.ms - start;
    println!("256 pilots after {took} ms");
    assert!(took < 30_000, "{took} ms");
    rate_kept(&world);
}
