//! What was published before a restart: the newest snapshot, the events after it, the newest
//! tick.

use std::time::Duration;

use lacuna_model::{EventKind, NodeEvent};
use lacuna_runtime::{Bus, BusError, Start};
use lacuna_timeline::RESTART_JUMP;
use lacuna_wire::address;
use lacuna_wire::msg::Clock;

use crate::ledger::Ledger;

/// How long to wait for the events after the snapshot; they are in the stream already.
const LIMIT: Duration = Duration::from_secs(5);

/// So many events of another ingest, on its way out, may stand between and behind ours.
const SLACK: u64 = 1024;

/// So many events of before the snapshot are read again: words that the bus has kept and that no
/// ingest has numbered yet are judged by them, and are not lost because they are old by now.
const LOOK_BACK: u64 = 4096;

/// What was found besides the state.
#[derive(Debug)]
pub(crate) struct Found {
    /// The newest tick.
    pub clock: Option<Clock>,
    /// The sequence number, in the stream, of the newest event; 0 if there is none.
    pub newest: u64,
}

/// Brings an empty ledger to where the last process was, by its newest snapshot and the events
/// after it, and its numbers well beyond those, and beyond `floor`.
///
/// # Errors
/// [`BusError`] if the streams cannot be read.
pub(crate) async fn recover(
    bus: &Bus,
    ledger: &mut Ledger,
    snapshot: Option<&NodeEvent>,
    floor: u64,
) -> Result<Found, BusError> {
    let cluster = bus.cluster();
    let subject = address::event(cluster);
    if let Some(snapshot) = snapshot {
        ledger.recall(snapshot);
    }
    let from = ledger.seq();
    let last = bus.last(&subject).await?;
    let mut newest = from;
    if let Some(last) = &last {
        // The last in the stream need not have the greatest number: an ingest on its way out may
        // have written behind its successor.
        let many = last.message.seq.saturating_sub(from);
        let many = many.saturating_add(SLACK + LOOK_BACK);
        let mut events = bus.follow(&subject, Start::Newest(many)).await?;
        loop {
            let Ok(event) = tokio::time::timeout(LIMIT, events.next()).await else {
                tracing::warn!(from, newest, "events after the snapshot are missing");
                newest = newest.max(last.message.seq);
                break;
            };
            let event = event?;
            let seq = event.message.seq;
            if seq <= from {
                ledger.recall_past(&event.message);
            }
            if seq > from && seq > ledger.seq().saturating_add(RESTART_JUMP) {
                // Between them ingest had started anew; its snapshot is lost.
                ledger.skip_to(seq - 1);
            }
            let known = seq <= ledger.seq();
            if !known && !matches!(event.message.kind, EventKind::Snapshot { .. }) {
                ledger.recall(&event.message);
            }
            newest = newest.max(seq);
            if event.sequence >= last.sequence {
                break;
            }
        }
    }
    ledger.skip_to(newest);
    let known = ledger.seq();
    let clock = bus.last(&address::clock(cluster)).await?.map(|c| c.message);
    if snapshot.is_some() || last.is_some() || clock.is_some() {
        ledger.skip_to(floor);
        ledger.restart();
        tracing::info!(
            known,
            seq = ledger.seq(),
            idle = ledger.idle(),
            "going on where we were"
        );
    }
    let newest = last.map_or(0, |e| e.sequence);
    Ok(Found { clock, newest })
}
