//! Latencies from event to command, without other load.

use std::time::Duration;

use lacuna_cli::client::from_bus;
use lacuna_cli::error::{CliError, Exit, Result};
use lacuna_model::{Action, Command, EventKind, NodeEvent, NodeId};
use lacuna_runtime::Subscription;
use lacuna_runtime::clock::Stopwatch;
use lacuna_wire::address;
use lacuna_wire::msg::{PlanState, PoolState};

use super::cluster::{TestCluster, event};
use super::quantiles::Quantiles;

/// The system is quiet when no command has come for this long.
const QUIET: Duration = Duration::from_millis(150);
const LIMIT: Duration = Duration::from_secs(10);

/// Subscriptions to the messages of all stages.
struct Subscriptions {
    events: Subscription<NodeEvent>,
    pools: Subscription<PoolState>,
    plans: Subscription<PlanState>,
    commands: Subscription<Command>,
}

/// Seconds from publishing an event to its message at each stage.
#[derive(Default)]
struct StageTimes {
    event: Option<(f64, u64)>,
    pool: Option<f64>,
    plan: Option<f64>,
    first: Option<f64>,
    own: Option<f64>,
}

impl Subscriptions {
    async fn open(bench: &TestCluster) -> Result<Self> {
        let (bus, cluster) = (bench.client.bus(), bench.client.cluster());
        let failed = |e| from_bus(&e);
        Ok(Self {
            events: bus
                .subscribe(&address::event(cluster))
                .await
                .map_err(failed)?,
            pools: bus
                .subscribe(&address::pool(cluster))
                .await
                .map_err(failed)?,
            plans: bus
                .subscribe(&address::plan(cluster))
                .await
                .map_err(failed)?,
            commands: bus
                .subscribe(&address::commands(cluster))
                .await
                .map_err(failed)?,
        })
    }

    /// Waits until no command has come for a while, and discards earlier messages.
    async fn until_quiet(&mut self) {
        loop {
            tokio::select! {
                _ = self.events.next() => {}
                _ = self.pools.next() => {}
                _ = self.plans.next() => {}
                _ = self.commands.next() => continue,
                () = tokio::time::sleep(QUIET) => return,
            }
        }
    }

    /// Waits for the node's own command, or, unless it should run, for the first command.
    async fn listen(&mut self, node: &NodeId, run: bool, watch: Stopwatch) -> Result<StageTimes> {
        let mut times = StageTimes::default();
        loop {
            let upto = times.event.map_or(u64::MAX, |e| e.1);
            tokio::select! {
                event = self.events.next() => {
                    let event = event.map_err(|e| from_bus(&e))?.message;
                    let its = match &event.kind {
                        EventKind::NodeIdle { node } | EventKind::NodeBusy { node } => Some(node),
                        _ => None,
                    };
                    if its == Some(node) {
                        times.event.get_or_insert((watch.seconds(), event.seq));
                    }
                }
                pool = self.pools.next() => {
                    if pool.map_err(|e| from_bus(&e))?.message.pool.seq >= upto {
                        times.pool.get_or_insert(watch.seconds());
                    }
                }
                plan = self.plans.next() => {
                    if plan.map_err(|e| from_bus(&e))?.message.plan.seq >= upto {
                        times.plan.get_or_insert(watch.seconds());
                    }
                }
                command = self.commands.next() => {
                    let command = command.map_err(|e| from_bus(&e))?.message;
                    times.first.get_or_insert(watch.seconds());
                    let starts = command.node == *node && matches!(command.action, Action::Run(_));
                    if starts || !run {
                        times.own = Some(watch.seconds());
                        return Ok(times);
                    }
                }
            }
        }
    }
}

async fn time_to_command(
    bench: &TestCluster,
    subscriptions: &mut Subscriptions,
    kind: &str,
    node: &NodeId,
) -> Result<StageTimes> {
    let watch = Stopwatch::start();
    let (_, ack) = bench
        .client
        .send_external("bench", &event(kind, node))
        .await?;
    let listening = subscriptions.listen(node, kind == "node.idle", watch);
    let times = tokio::time::timeout(LIMIT, listening).await.map_err(|_| {
        let text = format!("no command within 10 s of {kind} {node}");
        CliError::new("L0002", Exit::Failed, text)
    })?;
    ack.wait().await.map_err(|e| from_bus(&e))?;
    times
}

/// Takes a node away and gives it back, `samples` times.
///
/// # Errors
/// A command does not come.
pub(crate) async fn measure(bench: &TestCluster, samples: u32) -> Result<Vec<Quantiles>> {
    let mut subscriptions = Subscriptions::open(bench).await?;
    let (mut down, mut up) = (Vec::new(), Vec::new());
    let all = bench.nodes.len() as u32;
    // The stride is prime to most node counts, so it visits nodes of all trainers.
    for node in bench
        .nodes
        .iter()
        .cycle()
        .step_by(37)
        .take(samples as usize)
    {
        subscriptions.until_quiet().await;
        down.push(time_to_command(bench, &mut subscriptions, "node.busy", node).await?);
        bench.settle(all - 1, all - 1).await?;
        subscriptions.until_quiet().await;
        up.push(time_to_command(bench, &mut subscriptions, "node.idle", node).await?);
        bench.settle(all, all).await?;
    }
    let of = |list: &[StageTimes], pick: fn(&StageTimes) -> Option<f64>| {
        list.iter().filter_map(pick).collect()
    };
    Ok(vec![
        Quantiles::of("idle -> run", of(&up, |h| h.own)),
        Quantiles::of("  to its number", of(&up, |h| h.event.map(|e| e.0))),
        Quantiles::of("  to the pool", of(&up, |h| h.pool)),
        Quantiles::of("  to the plan", of(&up, |h| h.plan)),
        Quantiles::of("  to any command", of(&up, |h| h.first)),
        Quantiles::of("busy -> command", of(&down, |h| h.own)),
    ])
}
