//! Saved models: restores, refusals and their reasons.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;

use lacuna_forecast::{Choice, ModelError, OrderBy};
use lacuna_forecast_service::{
    Forecaster, Found, Models, PredictorSettings, Refused, Role, Situation, Store, Upto,
};
use lacuna_model::{ClusterId, Span, Timestamp};

use crate::machine::MachinePrior;

fn situation(now: i64) -> Situation {
    Situation {
        cluster: ClusterId::new("main").unwrap(),
        recording: String::new(),
        now: Some(Timestamp::from_unix(now)),
    }
}

fn store(dir: &Path) -> Store {
    Store::new(dir, &situation(0).cluster)
}

fn wanted() -> PredictorSettings {
    PredictorSettings::of(Choice::hazard(OrderBy::Learnt))
}

/// The saved model of a hazard that has learnt.
fn learnt() -> Found {
    use lacuna_forecast::Predictor;
    let mut machine = MachinePrior::new(2, 32, 1000);
    let mut forecaster = Forecaster::new(Models::new(wanted()));
    for event in machine.steps(400) {
        forecaster.event(&event, "");
    }
    forecaster.pool(machine.at());
    let first = forecaster.models().predictor(Role::First).unwrap();
    Found {
        model: first.save().unwrap(),
        upto: forecaster.upto().unwrap(),
    }
}

fn restore(found: &Found) -> Result<(), ModelError> {
    Models::new(wanted()).restore(Role::First, &found.model, found.upto)
}

#[test]
fn a_saved_model_is_found_and_the_old_one_stays_until_then() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let now = situation(1_000_000);
    assert_eq!(store.load("hazard", &now).unwrap(), None);
    let found = learnt();
    store.save("hazard", &now, &found).unwrap();
    // A save that was killed half way leaves a partial file beside the model.
    std::fs::write(store.path("hazard").with_extension("new"), b"LACU").unwrap();
    let again = store.load("hazard", &now).unwrap().unwrap();
    assert_eq!(again, found);
    restore(&again).unwrap();
    let newer = Found {
        upto: Upto {
            seq: found.upto.seq + 1,
            ..found.upto
        },
        ..found
    };
    store.save("hazard", &now, &newer).unwrap();
    assert_eq!(
        store.load("hazard", &now).unwrap().unwrap().upto,
        newer.upto
    );
}

#[test]
fn any_damaged_byte_is_found_out() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let now = situation(1_000_000);
    store.save("hazard", &now, &learnt()).unwrap();
    let path = store.path("hazard");
    let whole = std::fs::read(&path).unwrap();
    let steps = (whole.len() / 97).max(1);
    let places = (0..300.min(whole.len())).chain((300..whole.len()).step_by(steps));
    let mut words = std::collections::BTreeMap::new();
    for place in places {
        let mut bytes = whole.clone();
        bytes[place] ^= 0x41;
        std::fs::write(&path, &bytes).unwrap();
        let word = match store.load("hazard", &now) {
            Err(refused) => refused.word(),
            Ok(found) => match restore(&found.unwrap()) {
                Err(source) => Refused::Model {
                    path: path.clone(),
                    source,
                }
                .word(),
                Ok(()) => panic!("byte {place} of {} is damaged and taken", whole.len()),
            },
        };
        *words.entry(word).or_insert(0) += 1;
    }
    println!("{words:?}");
    assert!(words["damaged"] > 200, "{words:?}");
    for length in [0, 3, 4, 40, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&path, &whole[..length]).unwrap();
        let is_refused = match store.load("hazard", &now) {
            Err(refused) => refused.word() == "damaged",
            Ok(found) => restore(&found.unwrap()).is_err(),
        };
        assert!(is_refused, "{length} bytes of {}", whole.len());
    }
}

#[test]
fn foreign_and_future_models_are_refused_with_their_reason() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let found = learnt();
    let learnt_upto = found.upto.at.unix_ms() / 1000;
    let now = situation(learnt_upto + 10);
    store.save("hazard", &now, &found).unwrap();
    let refused = |situation: &Situation| store.load("hazard", situation).unwrap_err();
    let played = Situation {
        recording: "holes.csv (1 MB)".to_owned(),
        ..now.clone()
    };
    let error = refused(&played);
    assert_eq!(error.word(), "foreign");
    assert!(error.to_string().contains("holes.csv"), "{error}");
    let other = Situation {
        cluster: ClusterId::new("other").unwrap(),
        ..now.clone()
    };
    assert_eq!(refused(&other).word(), "foreign");
    let before = situation(learnt_upto - 3600);
    assert_eq!(refused(&before).word(), "ahead");
    // A bus that lost its newest seconds does not make the model one of the future.
    let little = Situation {
        now: Some(found.upto.at - Span::from_secs(30)),
        ..now.clone()
    };
    assert!(store.load("hazard", &little).unwrap().is_some());
    // A new cluster has no known time.
    assert!(
        store
            .load("hazard", &Situation { now: None, ..now })
            .unwrap()
            .is_some()
    );
}

#[test]
fn an_old_version_and_another_predictor_have_their_own_errors() {
    use lacuna_forecast::Predictor;
    let found = learnt();
    let word = |bytes: &[u8]| {
        let source = Models::new(wanted())
            .restore(Role::First, bytes, found.upto)
            .unwrap_err();
        let path = Path::new("x").to_owned();
        Refused::Model { path, source }.word()
    };
    let mut old = found.model.clone();
    // The version follows the mark of eight bytes.
    old[8] ^= 1;
    assert_eq!(word(&old), "other_version");
    let survival = lacuna_forecast::WithPlannedStarts::new(Choice::survival().build());
    assert_eq!(word(&survival.save().unwrap()), "other_predictor");
    assert_eq!(word(b"no model at all"), "damaged");
}

#[test]
fn a_refused_file_is_renamed() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let path = store.path("hazard");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, b"damaged").unwrap();
    let aside = store.rename_refused("hazard").unwrap();
    assert_eq!(std::fs::read(aside).unwrap(), b"damaged");
    assert_eq!(store.load("hazard", &situation(0)).unwrap(), None);
    // A folder instead of the file cannot be read.
    std::fs::create_dir(&path).unwrap();
    let error = store.load("hazard", &situation(0)).unwrap_err();
    assert_eq!(error.word(), "unreadable");
}
