//! A start: the controller's state from the buckets.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt as _, TryStreamExt as _};
use lacuna_model::{NodeId, Span, TrainerId, TrainerRecord, Troubled};
use lacuna_runtime::ServiceError;
use lacuna_runtime::clock::wall;
use lacuna_trainer::controller::{Controller, Effect, Tally};
use lacuna_trainer::{Now, account};
use lacuna_wire::address;
use lacuna_wire::msg::{LeaseRecord, Totals};

use crate::archive::{Archive, Sums};
use crate::room::Room;
use crate::sections::Context;
use crate::settings;

/// Reports that are read at the same time.
const AT_ONCE: usize = 64;

/// Bytes of the reports of one trainer from one node, at most. The stream keeps the last sixteen.
const REPORT_BYTES: u64 = 1 << 20;

/// Reports of incarnations that ended longer ago are not read again. The stream keeps none of them.
const KEPT: Span = Span::from_secs(86_400);

/// The controller as the bus has kept its state.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) controller: Controller,
    /// Its first effects.
    pub(crate) first: Vec<Effect>,
    /// Revision of each trainer's record.
    pub(crate) revisions: BTreeMap<TrainerId, u64>,
    /// Revisions of leases that have been written again ([`LeaseRecord::epoch`]).
    pub(crate) restored: BTreeMap<NodeId, u64>,
    /// The newest write in the bucket of leases.
    pub(crate) newest_lease: u64,
    /// The room in the bucket of records.
    pub(crate) room: Room,
    /// Moves trainers that ended long ago.
    pub(crate) archive: Archive,
}

/// Recovers the controller. Call it once the clock is known, or is known not to run yet.
pub(crate) async fn recover(ctx: &Context, now: Now) -> Result<Recovered, ServiceError> {
    let cluster = &ctx.cluster;
    let bucket = address::trainers_bucket(cluster);
    let mut room = Room::new(bucket.max_bytes.unsigned_abs());
    let trainers = ctx.bus.bucket(bucket);
    let mut records = Vec::new();
    let mut revisions = BTreeMap::new();
    let Sums { past, sequence } = Sums::read(ctx).await?;
    let moved: BTreeSet<TrainerId> = past.moved.iter().cloned().collect();
    let mut left = Vec::new();
    for entry in trainers.list().await? {
        let id = &entry.value.spec.id;
        revisions.insert(id.clone(), entry.revision);
        room.stored(&entry.value);
        if moved.contains(id) {
            left.push((entry.value, entry.revision));
        } else {
            records.push(entry.value);
        }
    }
    catch_up(ctx, &mut records, now).await?;
    let bucket = ctx
        .bus
        .bucket::<LeaseRecord>(address::leases_bucket(cluster));
    let mut leases = Vec::new();
    let mut restored = BTreeMap::new();
    let mut newest_lease = 0;
    for entry in bucket.list().await? {
        newest_lease = entry.revision.max(newest_lease);
        let node: NodeId = entry.key.parse()?;
        if entry.value.epoch.is_some() {
            restored.insert(node.clone(), entry.revision);
        }
        let epoch = entry.value.epoch(entry.revision);
        leases.push((node, entry.value.trainer, epoch));
    }
    let last = ctx.bus.last(&address::trainers(cluster)).await?;
    let last = last.map_or(0, |last| last.message.version);
    // A bus that has lost all must not bring old numbers back.
    let version = last.max(u64::try_from(wall().unix_ms()).unwrap_or_default());
    let totals = ctx.bus.last(&address::totals(cluster)).await?;
    let tally = totals.map(|last| tally(&last.message));
    tracing::info!(
        trainers = records.len(),
        archived = past.trainers,
        leases = leases
            .iter()
            .filter(|(_, owner, _)| owner.is_some())
            .count(),
        version,
        "controller state recovered"
    );
    let config = settings::controller(&ctx.config);
    // The cluster's time in which agents give back what no control renews. In lock step it waits for control.
    let held_for = match ctx.clock.rate() {
        0.0 => Span::from_ms(i64::MAX),
        rate => Span::from_secs_f64(config.lease_timeout.as_secs_f64() * rate),
    };
    let (controller, first) = Controller::recover(
        config,
        records,
        past,
        leases,
        tally.as_ref().map(|tally| (tally, held_for)),
        version,
        now,
    );
    Ok(Recovered {
        controller,
        first,
        revisions,
        restored,
        newest_lease,
        room,
        archive: Archive::new(ctx, sequence, left),
    })
}

/// Counts what incarnations have reported since their records were written. The start may end one
/// that has lost a node. Its successor's reports, or its own after its end, hide all of these.
async fn catch_up(
    ctx: &Context,
    records: &mut [TrainerRecord],
    now: Now,
) -> Result<(), ServiceError> {
    let read = (0..).zip(records.iter()).flat_map(|(at, record)| {
        let ended = record.ended_runs.iter();
        let ended = ended.filter(|ended| ended.until + KEPT >= now.cluster);
        let ended = ended.flat_map(|ended| &ended.leaders);
        let nodes: BTreeSet<&NodeId> = record.leaders().iter().chain(ended).collect();
        nodes.into_iter().map(move |node| {
            let subject = address::progress(&ctx.cluster, node, &record.spec.id);
            async move { Ok((at, ctx.bus.read_from(&subject, 1, REPORT_BYTES).await?)) }
        })
    });
    let read: Vec<_> = read.collect();
    let reports = futures::stream::iter(read).buffered(AT_ONCE);
    let reports: Result<Vec<(usize, _)>, ServiceError> = reports.try_collect().await;
    for (at, (reports, _)) in reports? {
        if let Some(record) = records.get_mut(at) {
            for report in &reports {
                account::catch_up(record, report);
            }
        }
    }
    Ok(())
}

/// The sums that the bus has kept; none if there are none yet.
pub(crate) async fn last_tally(ctx: &Context) -> Result<Tally, ServiceError> {
    let totals = ctx.bus.last(&address::totals(&ctx.cluster)).await?;
    let Some(totals) = totals.map(|last| last.message) else {
        return Ok(Tally::default());
    };
    Ok(Tally {
        samples: totals.samples,
        rescale_cost: totals.rescale_cost,
        preempt_cost: totals.preempt_cost,
        restart_cost: totals.restart_cost,
        stalls: totals.stalls,
        ..tally(&totals)
    })
}

/// The sums of the totals; the rest comes from the records.
fn tally(totals: &Totals) -> Tally {
    Tally {
        since: Some(totals.since),
        upto: Some(totals.now),
        idle_node_s: totals.idle_node_s,
        harvested_node_s: totals.harvested_node_s,
        kinds: totals.kinds.clone(),
        harm: totals.harm.clone(),
        unconfirmed: totals.unconfirmed,
        ..Tally::default()
    }
}

/// Totals with those of each owner, for answers and for the kept days.
pub(crate) fn whole(controller: &Controller, now: Now) -> Totals {
    Totals {
        owners: controller.owners(),
        ..totals(&controller.tally(), controller.troubled(now), now)
    }
}

/// Totals as others see them.
pub(crate) fn totals(tally: &Tally, troubled: Vec<Troubled>, now: Now) -> Totals {
    Totals {
        since: tally.since.unwrap_or(now.cluster),
        now: tally.upto.unwrap_or(now.cluster),
        idle_node_s: tally.idle_node_s,
        harvested_node_s: tally.harvested_node_s,
        samples: tally.samples,
        rescale_cost: tally.rescale_cost,
        preempt_cost: tally.preempt_cost,
        restart_cost: tally.restart_cost,
        stalls: tally.stalls,
        efficiency: tally.efficiency,
        preemptions: tally.preemptions,
        rescales: tally.rescales,
        trainers_done: tally.done,
        pool_nodes: tally.pool_nodes,
        leased_nodes: tally.leased_nodes,
        queued: tally.queued,
        active: tally.active,
        kinds: tally.kinds.clone(),
        harm: tally.harm.clone(),
        unconfirmed: tally.unconfirmed,
        troubled,
        owners: BTreeMap::new(),
    }
}
