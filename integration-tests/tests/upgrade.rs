//! An upgrade, service by service, and what other versions have kept or say: nothing is lost, and
//! what cannot be read is refused with the remedy and stays as it is. All services are of this
//! build, since there has been no release before it; messages of other versions are made here.

pub(crate) mod fleet;

use std::time::Duration;

use lacuna_model::{Phase, TrainerRecord};
use lacuna_runtime::Start;
use lacuna_wire::msg::PlanState;
use lacuna_wire::{Message, address, codec};

use fleet::{Fleet, SERVICES, trainer};

/// The limit of a trainer with a second's work while a service starts.
const LIMIT: Duration = Duration::from_secs(60);

#[tokio::test]
async fn services_are_replaced_one_by_one_and_nothing_is_lost_or_refused() {
    let mut fleet = Fleet::new().await;
    for service in SERVICES {
        fleet.start(service);
    }
    for node in ["a01", "a02"] {
        fleet.publish_until_kept("node.idle", node).await;
    }
    fleet.trains("before", LIMIT).await;
    for service in SERVICES {
        fleet.stop(service);
        fleet.start(service);
        fleet.trains(service, LIMIT).await;
    }
    let refused = fleet.refused().await;
    assert!(refused.is_empty(), "{refused:?}");
    let all = fleet.trainers().await;
    assert_eq!(all.len(), 1 + SERVICES.len());
    assert!(
        all.iter().all(|record| record.phase == Phase::Done),
        "{}",
        fleet.logs()
    );
}

#[tokio::test]
async fn a_record_of_another_version_stops_control_with_the_remedy_and_is_kept() {
    for (version, remedy) in [
        (TrainerRecord::OLDEST - 1, "stop all services"),
        (TrainerRecord::VERSION + 1, "upgrade the older side"),
    ] {
        let mut fleet = Fleet::new().await;
        let bytes = codec::encode(&TrainerRecord::new(trainer("other"), 1)).unwrap();
        let first = fleet.keep_record("other", version, bytes).await;
        fleet.start("control");
        assert!(!fleet.ended("control", LIMIT).success(), "{}", fleet.logs());
        let log = fleet.log("control");
        assert!(log.contains(remedy) && log.contains("other"), "{log}");
        let now = fleet.revision("other").await;
        assert_eq!(now, first, "the record was touched");
    }
}

#[tokio::test]
async fn messages_of_a_newer_release_are_refused_with_the_remedy_and_do_no_harm() {
    let mut fleet = Fleet::new().await;
    let mut letters = fleet
        .bus
        .follow(&address::dead_all(&fleet.id), Start::All)
        .await
        .unwrap();
    for service in SERVICES {
        fleet.start(service);
    }
    fleet.publish_until_kept("node.idle", "a01").await;
    fleet.trains("one", LIMIT).await;
    let plan = address::plan(&fleet.id);
    let newer = PlanState::VERSION + 1;
    fleet.say(plan.as_str(), PlanState::KIND, newer).await;
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
