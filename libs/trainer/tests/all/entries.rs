//! An owner that enters again and again does not keep other owners from training.

use lacuna_model::{Span, TrainerSpec, Work};
use lacuna_trainer::controller::{ControllerConfig, Input, Note, Tick};

use crate::common::{World, config, spec, trainer};
use crate::controller::apply;

/// Six free nodes.
fn world(config: ControllerConfig) -> World {
    let mut w = World::new(1, 12, config);
    w.snapshot();
    (0..6).for_each(|n| w.open(n));
    w
}

/// Trainers of a user, named by the user and a number.
fn submit(w: &mut World, user: &str, numbers: std::ops::Range<u32>, most: u32) {
    let of = |n: u32| -> TrainerSpec { spec(&format!("{user}-{n}"), 1, most, Work::UntilExit) };
    w.submit(user, numbers.map(of).collect());
}

fn cancel(w: &mut World, name: &str) {
    w.input(Input::Cancel(trainer(name)));
    w.deliver(usize::MAX);
}

fn second(w: &mut World) {
    w.pass(Span::from_secs(1));
    w.renew();
    w.statuses();
    w.deliver(usize::MAX);
    w.input(Input::Timer);
    w.deliver(usize::MAX);
}

/// Names of a user's admitted trainers.
fn active(w: &World, user: &str) -> Vec<String> {
    let view = w.present();
    let names = view.trainers.iter().map(|t| t.spec.id.to_string());
    names.filter(|name| name.starts_with(user)).collect()
}

/// Half of the nodes for each of the two owners; all for ann where she is alone.
fn deal(w: &mut World) {
    match active(w, "eve").first() {
        Some(eve) => apply(w, &[("ann-0", &[0, 1, 2]), (eve, &[3, 4, 5])]),
        None => apply(w, &[("ann-0", &[0, 1, 2, 3, 4, 5])]),
    }
}

#[test]
fn an_owner_that_keeps_submitting_and_cancelling_stops_others_a_few_times() {
    let mut w = world(config());
    submit(&mut w, "ann", 0..1, 8);
    deal(&mut w);
    for n in 0..20 {
        submit(&mut w, "eve", n..n + 1, 8);
        deal(&mut w);
        second(&mut w);
        cancel(&mut w, &format!("eve-{n}"));
        deal(&mut w);
        second(&mut w);
    }
    let rescales = w.controller.record(&trainer("ann-0")).unwrap().rescales;
    assert!((3..=6).contains(&rescales), "{rescales} rescales");
    assert_eq!(w.nodes_of("ann-0"), 6);
    let came = w.notes.iter().filter(
        |note| matches!(note, Note::Admitted { trainer } if trainer.as_str().starts_with("eve")),
    );
    assert_eq!(came.count(), 3);
    // All waiting trainers enter together when the oldest entry is a minute old.
    submit(&mut w, "eve", 20..22, 8);
    second(&mut w);
    assert!(active(&w, "eve").is_empty());
    (0..20).for_each(|_| second(&mut w));
    assert_eq!(active(&w, "eve"), ["eve-20", "eve-21"]);
}

#[test]
fn a_sweep_beside_another_owner_goes_on_as_fast_as_its_trainers_end() {
    let mut config = config();
    config.control.max_parallel = 4;
    let mut w = world(config);
    submit(&mut w, "ann", 0..1, 8);
    submit(&mut w, "eve", 0..12, 2);
    for n in 0..9 {
        second(&mut w);
        let expected: Vec<String> = (n..n + 3).map(|n| format!("eve-{n}")).collect();
        assert_eq!(active(&w, "eve"), expected);
        cancel(&mut w, &format!("eve-{n}"));
    }
    assert_eq!(active(&w, "eve"), ["eve-9", "eve-10", "eve-11"]);
}

#[test]
fn an_owner_that_is_alone_does_not_wait() {
    let mut w = world(config());
    for n in 0..20 {
        submit(&mut w, "eve", n..n + 1, 8);
        assert_eq!(active(&w, "eve"), [format!("eve-{n}")]);
        second(&mut w);
        cancel(&mut w, &format!("eve-{n}"));
    }
}

#[test]
fn in_lock_step_owners_enter_without_a_bound_as_in_a_replay() {
    let mut w = world(config());
    submit(&mut w, "ann", 0..1, 8);
    for n in 0..20 {
        w.pass(Span::from_secs(1));
        w.input(Input::Clock(Tick {
            now: w.now.cluster,
            step: u64::from(n) + 1,
            events_upto: w.seq,
            complete: true,
            lock_step: true,
            is_wall: false,
        }));
        submit(&mut w, "eve", n..n + 1, 8);
        assert_eq!(active(&w, "eve"), [format!("eve-{n}")]);
        cancel(&mut w, &format!("eve-{n}"));
    }
}
