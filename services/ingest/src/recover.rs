//! Recovery after a restart: the newest snapshot, the events after it, the newest tick.

use std::time::Duration;

use lacuna_model::{EventKind, NodeEvent};
use lacuna_pool::RESTART_JUMP;
use lacuna_runtime::{Bus, BusError, Start};
use lacuna_wire::address;
use lacuna_wire::msg::Clock;

use crate::ledger::Ledger;

/// Wait for the events after the snapshot, which are already in the stream.
const LIMIT: Duration = Duration::from_secs(5);

/// Events that another, ending ingest may write between and behind ours.
const SLACK: u64 = 1024;

/// Events before the snapshot that are read again. By them, external events that wait unnumbered on
/// the bus are judged, so that they are not refused as old.
const LOOK_BACK: u64 = 4096;

/// Findings of the recovery besides the ledger.
#[derive(Debug)]
pub(crate) struct Found {
    /// The newest tick.
    pub clock: Option<Clock>,
    /// Sequence number of the newest event in the stream; 0 without events.
    pub newest: u64,
}

/// Restores the state of the process before into an empty ledger, from the newest snapshot and the
/// events after it. Numbers then go on well beyond those events and beyond `floor`.
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
        // The last event of the stream need not have the greatest number: an ending ingest may
        // write behind its successor.
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
                // Ingest restarted between the two events, and its snapshot is lost.
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
            "state restored, going on"
        );
    }
    let newest = last.map_or(0, |e| e.sequence);
    Ok(Found { clock, newest })
}
