//! What is advised, and when nothing is.

use lacuna_model::{Advice, Cause, Follows, StepCosts};
use lacuna_stalls::{Steps, Trace, advice_in_words, in_words};

use crate::world::World;

const MS: u64 = 1_000_000;

fn training() -> World {
    World::even(2, 121, &[45 * MS, 60 * MS])
}

fn answer(trace: &Trace) -> StepCosts {
    lacuna_stalls::answer(&Steps::read(trace).unwrap()).unwrap()
}

#[test]
fn preparation_is_answered_by_workers() {
    let mut world = training();
    world.prep = vec![vec![120 * MS; 121]; 2];
    let answer = answer(&world.run().0);
    assert!(
        matches!(
            answer.advice[0],
            Advice::Workers {
                now: 1,
                then: 2,
                ..
            }
        ),
        "{answer:?}"
    );
    assert!(
        advice_in_words(&answer.advice[0])
            .starts_with("a loader with 2 workers and not 1 would take a step from 120 ms"),
        "{answer:?}"
    );
}

#[test]
fn a_link_that_costs_is_named_and_a_hidden_one_is_not() {
    let mut world = training();
    world.services = vec![25 * MS; 2];
    let names = |answer: &StepCosts| {
        let link = |a: &Advice| {
            matches!(
                a,
                Advice::Remove {
                    cause: Cause::Link,
                    ..
                }
            )
        };
        answer.advice.iter().any(link)
    };
    assert!(names(&answer(&world.run().0)));
    world.prep = vec![vec![200 * MS; 121]; 2];
    assert!(!names(&answer(&world.run().0)));
}

#[test]
fn stalls_that_hide_each_other_are_said_to() {
    let mut world = training();
    world.workers = 1;
    world.services = vec![40 * MS; 2];
    world.prep = vec![vec![127 * MS; 121]; 2];
    let answer = answer(&world.run().0);
    let together = |a: &Advice| matches!(a, Advice::Together { .. });
    assert!(answer.advice.iter().any(together), "{answer:?}");
}

#[test]
fn a_step_that_computes_needs_nothing() {
    let answer = answer(&training().run().0);
    assert!(
        matches!(answer.advice[..], [Advice::Nothing { .. }]),
        "{answer:?}"
    );
}

#[test]
fn the_slow_member_is_named_in_words() {
    let mut world = training();
    world.slowness[1] = 1.5;
    let text = in_words(&answer(&world.run().0));
    assert!(
        text.contains("member 1 is 30.0 ms behind in each step"),
        "{text}"
    );
}

/// Time in which the program waits though its batch was read cannot be replayed.
#[test]
fn a_replay_that_is_off_advises_nothing() {
    let mut world = training();
    world.prep = vec![vec![120 * MS; 121]; 2];
    let mut trace = world.run().0;
    for times in &mut trace.ranks {
        times.wait.iter_mut().for_each(|wait| *wait += 10_000.0);
    }
    let answer = answer(&trace);
    assert!(!answer.trusted);
    assert!(answer.advice.is_empty());
    assert!(
        in_words(&answer).contains("there is no advice"),
        "{answer:?}"
    );
}

/// Seconds of a step of other members.
fn step_of(trace: &Trace, members: u32) -> f64 {
    let answer = answer(trace);
    let mut rows = answer.elsewhere.iter();
    let row = rows.find(|one| one.members == members && one.is_near());
    row.unwrap().step
}

#[test]
fn other_sizes_have_the_batch_that_the_trainer_has_there() {
    let mut world = training();
    world.services = vec![5 * MS; 2];
    world.ends_known = true;
    let mut trace = world.run().0;
    let own = step_of(&trace, 4);
    trace.follows = Some(Follows::PerNode { samples: 8 });
    assert_eq!(step_of(&trace, 4), own);
    trace.follows = Some(Follows::Whole);
    assert_eq!(answer(&trace).batch(4), Some(1.0));
    // A member has half of the samples, and computes for 30 of 60 ms.
    let shared = step_of(&trace, 4);
    assert!((own - shared - 0.030).abs() < 0.001, "{own} {shared}");
    assert!(step_of(&trace, 1) > 2.0 * shared);
}

/// More members get no more of what all read together: none of them is faster.
#[test]
fn loaders_on_other_nodes_limit_at_the_size_from_which_all_wait_for_them() {
    let mut world = training();
    world.workers = 2;
    world.prep = vec![vec![200 * MS; 121]; 2];
    let mut trace = world.run().0;
    let now = answer(&trace).replayed;
    assert!(
        (step_of(&trace, 8) / now - 1.0).abs() < 0.02,
        "their own ones"
    );
    trace.remote = 2;
    for members in [4, 8, 16] {
        let longer = step_of(&trace, members) / now / f64::from(members / 2);
        assert!((longer - 1.0).abs() < 0.02, "{members}: {longer}");
    }
    // One of both is each member's own: of two workers a member of 4 has one and a half.
    trace.remote = 1;
    let longer = step_of(&trace, 4) / now;
    assert!((longer - 2.0 / 1.5).abs() < 0.02, "{longer}");
    // Fewer members get more.
    assert!(step_of(&trace, 1) < now);
}
