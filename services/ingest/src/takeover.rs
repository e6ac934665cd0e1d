//! Start of ingest: restores the state of the process before, and takes the cluster over from an
//! ingest that still runs.
//!
//! The first snapshot, written by compare-and-set, is the moment of the handover. Once it is
//! stored, the other ingest acknowledges nothing more. Its acknowledged events were published
//! before, and a second look at the stream finds them. External events that it has not acknowledged
//! come again, in order. The correlation id of a snapshot is that of the newest event, else
//! `snapshot-<seq>`.

use std::time::Duration;

use lacuna_model::NodeEvent;
use lacuna_runtime::{Bus, ServiceError, clock};
use lacuna_wire::address;

use crate::ledger::Ledger;
use crate::metrics::Metrics;
use crate::recover::recover;
use crate::sections::Context;
use crate::trace_source::{Trace, TraceSource};
use crate::writer::Writer;

/// Pause between attempts to write.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);

/// The parts of a process that has taken over.
pub(crate) struct Begun {
    pub ledger: Ledger,
    pub source: Option<TraceSource>,
    pub writer: Writer,
}

/// Restores the state and takes the cluster over; `None` if the process stops before.
///
/// # Errors
/// If the streams cannot be read.
pub(crate) async fn take_over(
    ctx: &Context,
    empty: &Ledger,
    recorded: Option<&Trace>,
    metrics: &Metrics,
) -> Result<Option<Begun>, ServiceError> {
    let event = address::event(&ctx.cluster);
    let mut writer = Writer::new(ctx.bus.clone());
    let mut base = writer.look().await?;
    let mut floor = 0;
    while !ctx.shutdown.is_cancelled() {
        let mut ledger = empty.clone();
        let snapshot = base.as_ref().map(|b| &b.message);
        let found = recover(&ctx.bus, &mut ledger, snapshot, floor).await?;
        let source = match recorded {
            Some(trace) => Some(TraceSource::begin(trace.clone(), found.clock, &mut ledger)),
            None => {
                if found.clock.is_some_and(|tick| !tick.recording.is_empty()) {
                    // The nodes of the trace before are not ours.
                    ledger.reset(ledger.seq(), clock::wall());
                }
                None
            }
        };
        // Before any event: its number may be far ahead of all events that consumers know.
        let snapshot = ledger.snapshot(ledger.newest_at());
        if let Err(error) = writer.write(&snapshot, &cause_of(&snapshot, "")).await {
            if !error.is_conflict() {
                tracing::warn!(%error, "snapshot not kept, trying again");
            }
            metrics.retries.inc();
            tokio::time::sleep(PAUSE).await;
            match writer.look().await? {
                // The snapshot was stored nevertheless; the one before it is in `base`.
                Some(own) if Bus::sender(&own.envelope) == ctx.bus.instance() => {
                    floor = own.message.seq;
                }
                last => base = last,
            }
            continue;
        }
        metrics.snapshots.inc();
        let newest = ctx.bus.last(&event).await?.map_or(0, |e| e.sequence);
        if newest > found.newest {
            tracing::warn!("another ingest has written meanwhile, reading again");
            floor = snapshot.seq;
            continue;
        }
        return Ok(Some(Begun {
            ledger,
            source,
            writer,
        }));
    }
    Ok(None)
}

/// Correlation id of a snapshot: that of the newest event, or its own number.
pub(crate) fn cause_of(snapshot: &NodeEvent, newest: &str) -> String {
    if newest.is_empty() {
        format!("snapshot-{}", snapshot.seq)
    } else {
        newest.to_owned()
    }
}
