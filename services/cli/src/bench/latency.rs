//! From event to command.

use std::time::Duration;

use lacuna_model::Command;
use lacuna_model::{Action, NodeId};
use lacuna_runtime::Subscription;
use lacuna_runtime::clock::Stopwatch;
use lacuna_wire::address;

use super::bus::{Bench, Quantiles, event};
use crate::client::from_bus;
use crate::error::{CliError, Exit, Result};

/// Nothing is under way when no command has come for this long.
const QUIET: Duration = Duration::from_millis(150);
const LIMIT: Duration = Duration::from_secs(10);

async fn until_quiet(commands: &mut Subscription<Command>) {
    while tokio::time::timeout(QUIET, commands.next()).await.is_ok() {}
}

/// Publishes an event and measures until a command that fits comes.
async fn until(
    bench: &Bench,
    commands: &mut Subscription<Command>,
    kind: &str,
    node: &NodeId,
    fits: impl Fn(&Command) -> bool,
) -> Result<f64> {
    let watch = Stopwatch::start();
    let (_, ack) = bench
        .client
        .send_external("bench", &event(kind, node))
        .await?;
    let waiting = async {
        loop {
            let command = commands.next().await.map_err(|e| from_bus(&e))?;
            if fits(&command.message) {
                return Ok(watch.seconds());
            }
        }
    };
    let measured = tokio::time::timeout(LIMIT, waiting).await.map_err(|_| {
        CliError::new(
            "L0002",
            Exit::Failed,
            format!("no command within 10 s of {kind} {node}"),
        )
    })?;
    ack.wait().await.map_err(|e| from_bus(&e))?;
    measured
}

/// Takes a node away and gives it back, `samples` times.
///
/// # Errors
/// A command does not come.
pub(crate) async fn measure(bench: &Bench, samples: u32) -> Result<Vec<Quantiles>> {
    let subject = address::commands(bench.client.cluster());
    let mut commands = bench
        .client
        .bus()
        .subscribe(&subject)
        .await
        .map_err(|e| from_bus(&e))?;
    let (mut down, mut up) = (Vec::new(), Vec::new());
    let all = bench.nodes.len() as u32;
    // A stride that is prime to most counts visits nodes of all trainers.
    for node in bench
        .nodes
        .iter()
        .cycle()
        .step_by(37)
        .take(samples as usize)
    {
        until_quiet(&mut commands).await;
        down.push(until(bench, &mut commands, "node.busy", node, |_| true).await?);
        bench.settle(all - 1, all - 1).await?;
        until_quiet(&mut commands).await;
        let starts = |c: &Command| c.node == *node && matches!(c.action, Action::Run(_));
        up.push(until(bench, &mut commands, "node.idle", node, starts).await?);
        bench.settle(all, all).await?;
    }
    Ok(vec![
        Quantiles::of("idle -> run", up),
        Quantiles::of("busy -> command", down),
    ])
}
