//! What was published before a restart: the newest snapshot, the events after it, the newest
//! tick.

use std::time::Duration;

use lacuna_model::EventKind;
use lacuna_runtime::{Bus, BusError, Start};
use lacuna_timeline::RESTART_JUMP;
use lacuna_wire::address;
use lacuna_wire::msg::Clock;

use crate::ledger::Ledger;

/// How long to wait for the events after the snapshot; they are in the stream already.
const LIMIT: Duration = Duration::from_secs(5);

/// Brings an empty ledger to where the last process was, and its numbers well beyond. Gives
/// the newest tick.
///
/// # Errors
/// [`BusError`] if the streams cannot be read.
pub(crate) async fn recover(bus: &Bus, ledger: &mut Ledger) -> Result<Option<Clock>, BusError> {
    let cluster = bus.cluster();
    let subject = address::event(cluster);
    let snapshot = bus.last(&address::snapshot(cluster)).await?;
    if let Some(snapshot) = &snapshot {
        ledger.recall(&snapshot.message);
    }
    let from = ledger.seq();
    let newest = bus.last(&subject).await?.map_or(0, |e| e.message.seq);
    if newest > from {
        let mut events = bus.follow(&subject, Start::Newest(newest - from)).await?;
        loop {
            match tokio::time::timeout(LIMIT, events.next()).await {
                Ok(event) => {
                    let event = event?;
                    if event.message.seq > ledger.seq().saturating_add(RESTART_JUMP) {
                        // Between them ingest had started anew; its snapshot is lost.
                        ledger.skip_to(event.message.seq - 1);
                    }
                    if !matches!(event.message.kind, EventKind::Snapshot { .. }) {
                        ledger.recall(&event.message);
                    }
                    if event.message.seq >= newest {
                        break;
                    }
                }
                Err(_) => {
                    tracing::warn!(from, newest, "events after the snapshot are missing");
                    break;
                }
            }
        }
    }
    ledger.skip_to(newest);
    let known = ledger.seq();
    let clock = bus.last(&address::clock(cluster)).await?.map(|c| c.message);
    if snapshot.is_some() || newest > 0 || clock.is_some() {
        ledger.restart();
        tracing::info!(
            known,
            seq = ledger.seq(),
            idle = ledger.idle(),
            "going on where we were"
        );
    }
    Ok(clock)
}
