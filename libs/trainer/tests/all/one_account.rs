//! Programs of several owners under one account.

use lacuna_model::{TrainerSpec, Work};
use lacuna_trainer::controller::Input;

use crate::common::{World, config, regrouping, spec, trainer};

fn submitted(w: &mut World, trainers: Vec<TrainerSpec>, user: &str) -> Result<(), String> {
    w.submit(user, trainers);
    w.replies.last().unwrap().clone().map(|_| ())
}

fn world(one_account: bool, shared: Option<&str>) -> World {
    let mut config = config();
    config.one_account = one_account;
    config.control.shared_account = shared.map(str::to_owned);
    let mut w = World::new(1, 4, config);
    w.snapshot();
    w
}

fn program(name: &str) -> TrainerSpec {
    TrainerSpec {
        launch: regrouping(),
        ..spec(name, 1, 2, Work::UntilExit)
    }
}

#[test]
fn one_account_takes_programs_of_one_owner() {
    let mut w = world(true, None);
    assert_eq!(submitted(&mut w, vec![program("a")], "ann"), Ok(()));
    assert_eq!(submitted(&mut w, vec![program("b")], "ann"), Ok(()));
    let error = submitted(&mut w, vec![program("c")], "bob").unwrap_err();
    assert!(error.starts_with("programs of bob would run"), "{error}");
    assert!(error.contains("those of ann"), "{error}");
    assert!(error.contains("control.shared_account"), "{error}");
    // The owner that a submission names counts, and not who submits it.
    let of_bob = TrainerSpec {
        owner: Some("bob".to_owned()),
        ..program("d")
    };
    assert!(submitted(&mut w, vec![of_bob], "ann").is_err());
    // A simulated trainer runs no program.
    let simulated = spec("e", 1, 2, Work::UntilExit);
    assert_eq!(submitted(&mut w, vec![simulated], "bob"), Ok(()));
    // What the programs of an ended trainer wrote is still there.
    w.input(Input::Cancel(trainer("a")));
    w.input(Input::Cancel(trainer("b")));
    assert!(submitted(&mut w, vec![program("f")], "bob").is_err());
}

#[test]
fn a_submission_of_two_owners_is_refused_as_a_whole() {
    let mut w = world(true, None);
    let of_bob = TrainerSpec {
        owner: Some("bob".to_owned()),
        ..program("b")
    };
    assert!(submitted(&mut w, vec![program("a"), of_bob], "ann").is_err());
    assert!(w.controller.record(&trainer("a")).is_none());
}

#[test]
fn owners_share_an_account_that_the_configuration_names_or_have_their_own() {
    for mut w in [world(true, Some("lacuna")), world(false, None)] {
        assert_eq!(submitted(&mut w, vec![program("a")], "ann"), Ok(()));
        assert_eq!(submitted(&mut w, vec![program("b")], "bob"), Ok(()));
    }
}
