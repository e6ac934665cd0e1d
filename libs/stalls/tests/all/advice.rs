//! What is advised, and when nothing is.

use lacuna_model::{Advice, Cause, StepCosts};
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
