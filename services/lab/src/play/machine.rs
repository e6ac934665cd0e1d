//! A simulated main scheduler: it publishes when nodes become idle and busy.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use lacuna_batchsim::workload::generated_machine;
use lacuna_cli::client::{Client, ConnectArgs, from_bus};
use lacuna_cli::error::{CliError, Exit, Result};
use lacuna_cli::output::{self, JsonArg};
use lacuna_cli::up::stop_token;
use lacuna_model::{HoleRecord, NodeId, Timestamp};
use lacuna_runtime::clock::Stopwatch;

/// Arguments of `play machine`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna-lab play machine                            128 generated nodes, 60 times as fast
  lacuna-lab play machine --holes holes.csv.gz --rate 1
  lacuna-lab play machine --nodes 1000 --seed 7 --once

Events carry no time of their own: they count at their arrival. When the trace ends it begins again,
unless --once is given. At its end, or at a signal, all nodes are reported busy.")]
pub(crate) struct MachineArgs {
    /// A hole list (CSV, plain or gzip) instead of a generated machine
    #[arg(long, value_name = "FILE", conflicts_with_all = ["nodes", "seed"])]
    holes: Option<PathBuf>,
    /// Nodes of the generated machine
    #[arg(long, default_value_t = 128)]
    nodes: u32,
    /// Seed of the generated machine
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Recorded seconds per second
    #[arg(long, default_value_t = 60.0, value_parser = parse_rate)]
    rate: f64,
    /// End with the trace
    #[arg(long)]
    once: bool,
    /// Name of the publishing program, part of the subject and of ce-source
    #[arg(long, default_value = "play")]
    source: String,
    #[command(flatten)]
    json: JsonArg,
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(super) fn parse_rate(text: &str) -> std::result::Result<f64, String> {
    let rate = text.parse::<f64>().ok();
    rate.filter(|rate| rate.is_finite() && *rate > 0.0)
        .ok_or_else(|| "expected a number above zero".to_owned())
}

/// The changes at one moment.
#[derive(Debug, Default, PartialEq)]
struct Change {
    busy: BTreeSet<NodeId>,
    idle: BTreeSet<NodeId>,
}

/// All moments at which a node changes. Holes of one node that touch each other are merged.
fn changes(holes: &[HoleRecord]) -> BTreeMap<Timestamp, Change> {
    let mut changes: BTreeMap<Timestamp, Change> = BTreeMap::new();
    for hole in holes.iter().filter(|hole| hole.from < hole.until) {
        let start = changes.entry(hole.from).or_default();
        start.idle.insert(hole.node.clone());
        let end = changes.entry(hole.until).or_default();
        end.busy.insert(hole.node.clone());
    }
    for change in changes.values_mut() {
        let both: Vec<NodeId> = change.idle.intersection(&change.busy).cloned().collect();
        for node in both {
            change.idle.remove(&node);
            change.busy.remove(&node);
        }
    }
    changes
}

/// The simulated scheduler and its published states.
struct Scheduler {
    client: Client,
    source: String,
    idle: BTreeSet<NodeId>,
    published: u64,
}

/// The number of attempts to publish an unacknowledged event, a second apart.
const ATTEMPTS: u32 = 60;

impl Scheduler {
    /// Publishes a change until it is acknowledged.
    async fn publish(&mut self, change: &Change) -> Result<()> {
        let events: Vec<_> = [("node.busy", &change.busy), ("node.idle", &change.idle)]
            .into_iter()
            .flat_map(|(kind, nodes)| {
                nodes
                    .iter()
                    .map(move |node| json!({ "type": kind, "node": node }))
            })
            .collect();
        let mut attempt = 0;
        loop {
            let mut acks = Vec::with_capacity(events.len());
            for event in &events {
                acks.push(self.client.send_external(&self.source, event).await);
            }
            let mut failed = None;
            for ack in acks {
                let kept = match ack {
                    Ok((_, ack)) => ack.wait().await.map_err(|e| from_bus(&e)),
                    Err(error) => Err(error),
                };
                failed = failed.or(kept.err());
            }
            let Some(error) = failed else { break };
            attempt += 1;
            if attempt >= ATTEMPTS {
                return Err(error);
            }
            // A repeated state is harmless.
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        self.published += events.len() as u64;
        self.idle.retain(|node| !change.busy.contains(node));
        self.idle.extend(change.idle.iter().cloned());
        Ok(())
    }

    /// Plays all changes once.
    async fn play(
        &mut self,
        changes: &BTreeMap<Timestamp, Change>,
        rate: f64,
        stop: &CancellationToken,
    ) -> Result<()> {
        let Some(start) = changes.keys().next().copied() else {
            return Ok(());
        };
        let watch = Stopwatch::start();
        for (at, change) in changes {
            let due = at.since(start).as_secs_f64() / rate;
            let wait = Duration::from_secs_f64((due - watch.seconds()).max(0.0));
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = stop.cancelled() => return Ok(()),
            }
            self.publish(change).await?;
        }
        Ok(())
    }

    /// Reports all nodes busy: a scheduler that is gone lends no node.
    async fn report_all_busy(&mut self) -> Result<()> {
        let change = Change {
            busy: self.idle.clone(),
            idle: BTreeSet::new(),
        };
        self.publish(&change).await
    }
}

fn machine(args: &MachineArgs) -> Result<Vec<HoleRecord>> {
    let wrong = |what: String| CliError::new("L0011", Exit::Failed, what);
    match &args.holes {
        Some(path) => {
            let list = lacuna_trace::read_holes(path).map_err(|e| wrong(e.to_string()))?;
            Ok(list.records)
        }
        None => generated_machine(args.nodes, 2, args.seed)
            .map_err(|e| wrong(format!("cannot generate a machine: {e}"))),
    }
}

pub(super) async fn run(args: MachineArgs) -> Result<()> {
    let stop = stop_token();
    let changes = changes(&machine(&args)?);
    let (Some(from), Some(until)) = (changes.keys().next(), changes.keys().next_back()) else {
        return Err(CliError::new(
            "L0011",
            Exit::Failed,
            "there is no hole in the trace",
        ));
    };
    let client = Client::connect(&args.connect).await?;
    if !args.json.json {
        output::print(&format!(
            "{} of a machine at {} times its speed: one round takes {}; Ctrl-C ends it{}",
            until.since(*from),
            args.rate,
            lacuna_model::Span::from_ms(
                (until.since(*from).as_secs_f64() / args.rate * 1e3) as i64
            ),
            if args.holes.is_none() {
                format!(" (seed {})", args.seed)
            } else {
                String::new()
            },
        ))?;
    }
    let mut scheduler = Scheduler {
        client: client.clone(),
        source: args.source.clone(),
        idle: BTreeSet::new(),
        published: 0,
    };
    loop {
        scheduler.play(&changes, args.rate, &stop).await?;
        scheduler.report_all_busy().await?;
        if args.once || stop.is_cancelled() {
            break;
        }
    }
    client.close().await;
    if args.json.json {
        return output::print_json(&json!({ "published": scheduler.published }));
    }
    output::print(&format!("{} events published", scheduler.published))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hole(name: &str, from: i64, until: i64) -> HoleRecord {
        HoleRecord {
            node: NodeId::new(name).unwrap(),
            from: Timestamp::from_unix(from),
            until: Timestamp::from_unix(until),
            censored: false,
        }
    }

    #[test]
    fn touching_holes_are_merged_and_empty_ones_removed() {
        let changes = changes(&[
            hole("a", 1, 5),
            hole("a", 5, 9),
            hole("b", 5, 5),
            hole("b", 5, 7),
        ]);
        let at = |seconds| changes.get(&Timestamp::from_unix(seconds)).unwrap();
        let node = |name: &str| BTreeSet::from([NodeId::new(name).unwrap()]);
        assert_eq!(at(1).idle, node("a"));
        assert_eq!((&at(5).idle, &at(5).busy), (&node("b"), &BTreeSet::new()));
        assert_eq!(at(7).busy, node("b"));
        assert_eq!(at(9).busy, node("a"));
        assert_eq!(changes.len(), 4);
    }

    #[test]
    fn a_rate_is_a_number_above_zero() {
        assert_eq!(parse_rate("0.5"), Ok(0.5));
        for bad in ["0", "-1", "nan", "inf", "x"] {
            assert!(parse_rate(bad).is_err(), "{bad}");
        }
    }
}
