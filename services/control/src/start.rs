//! A new start: the books from the buckets.

use lacuna_model::Epoch;
use lacuna_runtime::{Context, ServiceError};
use lacuna_trainer::Now;
use lacuna_trainer::book::{Book, Effect, Tally};
use lacuna_wire::address;
use lacuna_wire::msg::{LeaseRecord, Totals};

use crate::settings;

/// The books as the bus has kept them, and what they ask for first. Call it once the clock is
/// known, or is known not to run yet.
pub(crate) async fn books(ctx: &Context, now: Now) -> Result<(Book, Vec<Effect>), ServiceError> {
    let cluster = &ctx.cluster;
    let trainers = ctx.bus.bucket(address::trainers_bucket(cluster));
    let records: Vec<_> = trainers
        .list()
        .await?
        .into_iter()
        .map(|e| e.value)
        .collect();
    let bucket = ctx
        .bus
        .bucket::<LeaseRecord>(address::leases_bucket(cluster));
    let mut leases = Vec::new();
    for entry in bucket.list().await? {
        let node = entry.key.parse()?;
        leases.push((node, entry.value.trainer, Epoch(entry.revision)));
    }
    let last = ctx.bus.last(&address::trainers(cluster)).await?;
    let version = last.map_or(0, |last| last.message.version);
    let totals = ctx.bus.last(&address::totals(cluster)).await?;
    let tally = totals.map(|last| tally(&last.message));
    tracing::info!(
        trainers = records.len(),
        leases = leases
            .iter()
            .filter(|(_, owner, _)| owner.is_some())
            .count(),
        version,
        "books opened"
    );
    let config = settings::book(&ctx.config);
    Ok(Book::recover(
        config,
        records,
        leases,
        tally.as_ref(),
        version,
        now,
    ))
}

/// The sums of the totals; the rest comes from the records.
fn tally(totals: &Totals) -> Tally {
    Tally {
        since: Some(totals.since),
        upto: Some(totals.now),
        idle_node_s: totals.idle_node_s,
        harvested_node_s: totals.harvested_node_s,
        ..Tally::default()
    }
}

/// Totals as others see them.
pub(crate) fn totals(tally: &Tally, now: Now) -> Totals {
    Totals {
        since: tally.since.unwrap_or(now.cluster),
        now: tally.upto.unwrap_or(now.cluster),
        idle_node_s: tally.idle_node_s,
        harvested_node_s: tally.harvested_node_s,
        samples: tally.samples,
        rescale_cost: tally.rescale_cost,
        preempt_cost: tally.preempt_cost,
        preemptions: tally.preemptions,
        rescales: tally.rescales,
        trainers_done: tally.done,
        pool_nodes: tally.pool_nodes,
        leased_nodes: tally.leased_nodes,
        queued: tally.queued,
        active: tally.active,
    }
}
