//! The start: goes on where the last process was, and takes the cluster over from an ingest that
//! still runs.
//!
//! The first snapshot, written by compare-and-set, is the moment of the handover. The other ingest
//! acknowledges nothing more once that is kept. All that it has acknowledged was published before,
//! and a second look at the events finds it. External events that it has not acknowledged come
//! again, in order. The correlation id of a snapshot is that of the newest event, else
//! `snapshot-<seq>`.

use std::time::Duration;

use lacuna_model::NodeEvent;
use lacuna_runtime::{Bus, Context, ServiceError, clock};
use lacuna_wire::address;

use crate::ledger::Ledger;
use crate::metrics::Metrics;
use crate::trace_source::{Trace, TraceSource};
use crate::recover::recover;
use crate::writer::Writer;

/// Between attempts to write.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);

/// What a process that has begun works with.
pub(crate) struct Begun {
    pub ledger: Ledger,
    pub source: Option<TraceSource>,
    pub writer: Writer,
}

/// Goes on where the last process was; nothing if it is to stop before.
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
                    // The nodes of a recording are not ours.
                    ledger.reset(ledger.seq(), clock::wall());
                }
                None
            }
        };
        // Before any event: its number may be far ahead of all that consumers have seen.
        let snapshot = ledger.snapshot(ledger.newest_at());
        if let Err(error) = writer.write(&snapshot, &cause_of(&snapshot, "")).await {
            if !error.is_conflict() {
                tracing::warn!(%error, "snapshot not kept, trying again");
            }
            metrics.retries.inc();
            tokio::time::sleep(PAUSE).await;
            match writer.look().await? {
                // It has been kept all the same; what was before it is in `base`.
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
            tracing::warn!("another ingest has written meanwhile, looking again");
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

/// The correlation of a snapshot: the newest event's, or its own number.
pub(crate) fn cause_of(snapshot: &NodeEvent, newest: &str) -> String {
    if newest.is_empty() {
        format!("snapshot-{}", snapshot.seq)
    } else {
        newest.to_owned()
    }
}
