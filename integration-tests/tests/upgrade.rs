//! An upgrade, service by service: this release and the one before run together, records that the
//! one before has kept come alive, and what a newer one says does no harm.
//!
//! `LACUNA_PREVIOUS_BIN=DIR` names a folder with the services of the release before; without it
//! they are played by those of this one, told to speak its wire (`[bus] speak`).

pub(crate) mod fleet;

use std::path::PathBuf;
use std::time::Duration;

use lacuna_model::{Phase, TrainerRecord};
use lacuna_runtime::Start;
use lacuna_wire::msg::{OLDEST_WIRE, WIRE};
use lacuna_wire::{Message, address, codec};

use crate::support;
use fleet::{Fleet, Release, SERVICES, trainer};

/// How long a trainer of a second's work may take, with a service that starts meanwhile.
const LIMIT: Duration = Duration::from_secs(60);

#[tokio::test]
async fn releases_run_side_by_side_through_an_upgrade() {
    let mut fleet = Fleet::new().await;
    for service in SERVICES {
        fleet.start(service, Release::Previous);
    }
    for node in ["a01", "a02"] {
        fleet.publish_until_kept("node.idle", node).await;
    }
    fleet.trains("before", LIMIT).await;
    // The new services first speak as the old ones do, then as they do themselves.
    for release in [Release::Pinned, Release::New] {
        for service in SERVICES {
            fleet.stop(service);
            fleet.start(service, release);
            fleet.trains(&format!("{service}-{release:?}"), LIMIT).await;
        }
        let wire = match release {
            Release::New => WIRE,
            Release::Pinned | Release::Previous => OLDEST_WIRE,
        };
        let versions = fleet.versions_of_records().await;
        assert_eq!(versions.len(), if release == Release::New { 11 } else { 6 });
        assert!(
            versions.iter().all(|v| *v == wire),
            "{release:?}: {versions:?}"
        );
    }
    let refused = fleet.refused().await;
    assert!(refused.is_empty(), "{refused:?}");
    // And back, while nothing has been written that the one before cannot read.
    let all = fleet.trainers().await;
    assert!(
        all.iter().all(|record| record.phase == Phase::Done),
        "{}",
        fleet.logs()
    );
}

/// A record as version 1 had it, byte for byte.
fn first_version(line: usize) -> Vec<u8> {
    let path: PathBuf = support::root().join("libs/wire/golden/v1/trainer.mp.hex");
    let text = std::fs::read_to_string(path).unwrap();
    let line = text.lines().nth(line).unwrap();
    let bytes = (0..line.len()).step_by(2);
    bytes
        .map(|i| u8::from_str_radix(&line[i..i + 2], 16).unwrap())
        .collect()
}

#[tokio::test]
async fn records_of_the_first_version_come_alive_and_are_written_anew_once() {
    let mut fleet = Fleet::new().await;
    let first = fleet.keep_record("res.net-1", 1, first_version(0)).await;
    fleet.start("control", Release::New);
    let all = fleet.trainers().await;
    assert_eq!(all.len(), 1);
    assert_eq!((all[0].user.as_str(), all[0].order), ("ada", 4));
    // Its run is closed meanwhile: nobody holds its nodes.
    assert!(all[0].samples_before >= 10.25, "{:?}", all[0]);
    let kept = fleet.record("res.net-1").await;
    assert_eq!(kept.version, TrainerRecord::VERSION);
    assert_eq!(kept.value.user, "ada");
    assert!(kept.revision > first);
    assert!(
        fleet.log("control").contains("written anew"),
        "{}",
        fleet.logs()
    );
    fleet.stop("control");
    std::fs::remove_file(fleet.log_path("control")).unwrap();
    fleet.start("control", Release::New);
    assert_eq!(fleet.trainers().await.len(), 1);
    assert!(
        !fleet.log("control").contains("written anew"),
        "{}",
        fleet.logs()
    );
}

#[tokio::test]
async fn a_pinned_control_leaves_records_as_they_were() {
    let mut fleet = Fleet::new().await;
    fleet.keep_record("res.net-1", 1, first_version(0)).await;
    fleet.start("control", Release::Pinned);
    assert_eq!(fleet.trainers().await.len(), 1);
    assert_eq!(fleet.record("res.net-1").await.version, 1);
}

#[tokio::test]
async fn a_record_of_a_newer_release_stops_control_and_is_kept() {
    let mut fleet = Fleet::new().await;
    let bytes = codec::encode(&TrainerRecord::new(trainer("later"), 1)).unwrap();
    let first = fleet.keep_record("later", WIRE + 1, bytes).await;
    fleet.start("control", Release::New);
    assert!(!fleet.ended("control", LIMIT).success(), "{}", fleet.logs());
    let log = fleet.log("control");
    assert!(
        log.contains("upgrade the older side") && log.contains("later"),
        "{log}"
    );
    assert_eq!(
        fleet.revision("later").await,
        first,
        "the record was touched"
    );
}

#[tokio::test]
async fn what_a_newer_release_says_is_refused_with_the_remedy_and_does_no_harm() {
    let mut fleet = Fleet::new().await;
    let mut letters = fleet
        .bus
        .follow(&address::dead_all(&fleet.id), Start::All)
        .await
        .unwrap();
    for service in SERVICES {
        fleet.start(service, Release::New);
    }
    fleet.publish_until_kept("node.idle", "a01").await;
    fleet.trains("one", LIMIT).await;
    let plan = address::plan(&fleet.id);
    fleet.say(plan.as_str(), "lacuna.plan", WIRE + 1).await;
    let letter = tokio::time::timeout(LIMIT, letters.next())
        .await
        .unwrap()
        .unwrap();
    let letter = letter.message;
    assert_eq!(letter.subject, plan.as_str());
    assert!(
        letter.reason.contains("upgrade the older side"),
        "{}",
        letter.reason
    );
    fleet.trains("two", LIMIT).await;
    assert_eq!(fleet.trainers().await.len(), 2);
}

#[tokio::test]
async fn a_command_line_of_the_first_release_is_answered_in_its_words() {
    let mut fleet = Fleet::new().await;
    fleet.keep_record("res.net-1", 1, first_version(0)).await;
    fleet.start("control", Release::New);
    assert_eq!(fleet.trainers().await.len(), 1);
    let (version, answer) = fleet.ask_as_the_first_release().await;
    assert_eq!(version, "1");
    assert!(!answer.is_empty());
}
