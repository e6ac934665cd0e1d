//! `lacuna wait`: waits until trainers have ended, or train.

use std::collections::BTreeMap;

use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use serde_json::json;

use lacuna_model::{Phase, Span, Timestamp, TrainerId, TrainerRecord};
use lacuna_runtime::clock::Stopwatch;
use lacuna_wire::address;
use lacuna_wire::msg::{Kept, Reply, Request, TrainersState};

use super::selector::TrainerSelector;
use super::trainers::{one, selected, unknown};
use crate::client::{Client, ConnectArgs, Messages, lost, unexpected};
use crate::error::{CliError, Exit, Result};
use crate::output::{self, JsonArg, parse_span};
use crate::up::stop_token;
use crate::view::{failed_on, trainer_row, trainer_rows};

/// Above this number of trainers, control is asked for the list of all trainers.
const FEW: usize = 8;
/// Control publishes the admitted trainers. After this many seconds control is asked for the queued
/// ones, since no message tells that a trainer has left the queue.
const QUEUE_S: f64 = 2.0;
/// The number of steps of the bar.
const STEPS: u64 = 1000;

/// Arguments of `wait`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna wait hpo-12                                   until it has ended
  lacuna wait hpo-12 && ./evaluate.sh                  go on only if its work is done
  lacuna wait hpo-12 --for running --timeout 10m
  lacuna wait 'sw-*'                                   all of these names, as they are now
  lacuna wait hpo-1 hpo-2 hpo-3 --any                  the first of several
  lacuna wait $(lacuna submit --parsable grid.jsonl)   all submitted trainers

A wait changes nothing: Ctrl-C ends the wait, and trainers continue. It survives restarts of
services.

Exit codes:
  0    the awaited state was reached (ended: all are done)
  1    a trainer ended in another state, or there is no such trainer
  124  the awaited state was not reached within --timeout
  130  the wait was ended by Ctrl-C or SIGTERM")]
pub(crate) struct WaitArgs {
    /// The trainers to wait for: names, ranges as in sw-[01-16], or patterns as in sw-*
    #[arg(required = true, value_name = "TRAINER", value_parser = TrainerSelector::parse)]
    trainers: Vec<TrainerSelector>,
    /// The awaited state
    #[arg(long = "for", value_name = "STATE", value_enum, default_value_t = Goal::Ended)]
    goal: Goal,
    /// Give up after this time
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    timeout: Option<Span>,
    /// One trainer in the awaited state is enough
    #[arg(long)]
    any: bool,
    #[command(flatten)]
    json: JsonArg,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// The awaited state of trainers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Goal {
    /// Ended in any way
    Ended,
    /// All work done; fails at once if a trainer failed or was cancelled (also: completed)
    #[value(alias = "completed")]
    Done,
    /// Failed after failures of its program
    Failed,
    /// Cancelled by its owner
    Cancelled,
    /// Training on its nodes
    Running,
}

impl Goal {
    const fn name(self) -> &'static str {
        match self {
            Self::Ended => "ended",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Running => "running",
        }
    }

    /// Whether a trainer has reached the state; none while it still can.
    fn reached(self, record: &TrainerRecord) -> Option<bool> {
        let over = record.phase.is_final();
        let met = match self {
            Self::Ended | Self::Done => record.phase == Phase::Done,
            Self::Failed => record.phase == Phase::Failed,
            Self::Cancelled => record.phase == Phase::Cancelled,
            // A trainer that started and has ended since counts as having run.
            Self::Running if over => record.started.is_some(),
            Self::Running => !record.nodes.is_empty(),
        };
        (met || over).then_some(met)
    }

    /// Whether all trainers, or with `any` one of them, have reached it; none while that is open.
    fn met(self, any: bool, trainers: &[TrainerRecord]) -> Option<bool> {
        let reached = trainers.iter().map(|record| self.reached(record));
        let reached: Vec<Option<bool>> = reached.collect();
        let [met, missed, open] = [Some(true), Some(false), None].map(|r| reached.contains(&r));
        // The end of one trainer does not decide the ends of the others.
        let at_once = (self == Self::Ended) == any;
        match (any, met, missed) {
            (true, true, _) => Some(true),
            (_, _, true) if at_once || !open => Some(false),
            _ if open => None,
            _ => Some(met),
        }
    }
}

/// The result of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Met,
    Missed,
    TimedOut,
    Interrupted,
}

impl Outcome {
    const fn of(met: bool) -> Self {
        if met { Self::Met } else { Self::Missed }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Missed => "missed",
            Self::TimedOut => "timed_out",
            Self::Interrupted => "interrupted",
        }
    }
}

/// The awaited trainers, as last known.
#[derive(Debug)]
struct Watched {
    trainers: Vec<TrainerRecord>,
    now: Timestamp,
    asked: Stopwatch,
}

impl Watched {
    /// Asks control for trainers by name.
    ///
    /// # Errors
    /// `L0009` if there is no such trainer; NATS or control does not answer.
    async fn find(client: &Client, names: &[TrainerId]) -> Result<Self> {
        let mut watched = Self {
            trainers: Vec::with_capacity(names.len()),
            now: Timestamp::default(),
            asked: Stopwatch::start(),
        };
        let mut listed = BTreeMap::new();
        if names.len() > FEW {
            match client.ask(Request::Trainers { all: false }).await? {
                Reply::Trainers { now, trainers } => {
                    watched.now = now;
                    let named = |record: TrainerRecord| (record.spec.id.clone(), record);
                    listed.extend(trainers.into_iter().map(named));
                }
                other => return Err(unexpected(other)),
            }
        }
        for name in names {
            let record = match listed.remove(name) {
                Some(record) => record,
                None => {
                    let Some((now, record, _)) = one(client, name).await? else {
                        return Err(unknown(client, name).await);
                    };
                    watched.now = now;
                    record
                }
            };
            watched.trainers.push(record);
        }
        Ok(watched)
    }

    /// Asks control again for trainers that have not ended.
    ///
    /// # Errors
    /// As [`Watched::find`].
    async fn refresh(&mut self, client: &Client) -> Result<()> {
        let open = self.trainers.iter().filter(|r| !r.phase.is_final());
        let open: Vec<TrainerId> = open.map(|record| record.spec.id.clone()).collect();
        let found = Self::find(client, &open).await;
        self.asked = Stopwatch::start();
        let found = found?;
        self.now = found.now;
        for record in found.trainers {
            self.replace(record);
        }
        Ok(())
    }

    fn replace(&mut self, record: TrainerRecord) {
        let mut known = self.trainers.iter_mut();
        if let Some(known) = known.find(|known| known.spec.id == record.spec.id) {
            *known = record;
        }
    }

    /// Applies the published state of admitted trainers. Returns whether control must be asked for
    /// the others.
    fn apply(&mut self, state: TrainersState, asked_s: f64) -> bool {
        self.now = state.as_of;
        let said = state.trainers.into_iter();
        let mut said: BTreeMap<TrainerId, TrainerRecord> = said
            .map(|record| (record.spec.id.clone(), record))
            .collect();
        let mut ask = false;
        for known in &mut self.trainers {
            match (known.phase, said.remove(&known.spec.id)) {
                // An earlier answer of control may be newer than this message.
                (phase, _) if phase.is_final() => {}
                (_, Some(record)) => *known = record,
                (Phase::Queued, None) => ask |= asked_s >= QUEUE_S,
                (_, None) => ask = true,
            }
        }
        ask
    }

    /// Follows the trainers until they have reached the awaited state, or no longer can.
    ///
    /// # Errors
    /// The connection is closed, or control refuses. While control is silent, the wait continues.
    async fn follow(
        &mut self,
        client: &Client,
        states: &mut Messages<TrainersState>,
        args: &WaitArgs,
        bar: &ProgressBar,
    ) -> Result<bool> {
        loop {
            if let Some(met) = args.goal.met(args.any, &self.trainers) {
                return Ok(met);
            }
            bar.set_position((self.share(args.goal) * STEPS as f64) as u64);
            bar.set_message(self.in_words());
            let state = states.next().await.ok_or_else(lost)?;
            if self.apply(state, self.asked.seconds()) {
                match self.refresh(client).await {
                    // Control publishes its state after a restart; it is asked again then.
                    Err(error) if error.exit == Exit::Unavailable => {}
                    refreshed => refreshed?,
                }
            }
        }
    }

    /// Their progress towards the goal, in `[0, 1]`.
    fn share(&self, goal: Goal) -> f64 {
        let of = |record: &TrainerRecord| match goal.reached(record) {
            Some(_) => 1.0,
            None => trainer_row(record, self.now).progress.unwrap_or(0.0),
        };
        self.trainers.iter().map(of).sum::<f64>() / self.trainers.len().max(1) as f64
    }

    /// Their present states in one line.
    fn in_words(&self) -> String {
        let rows = trainer_rows(&self.trainers, self.now, &[]);
        if let [one] = rows.as_slice() {
            let nodes = match one.nodes.len() {
                0 => String::new(),
                1 => " on 1 node".to_owned(),
                more => format!(" on {more} nodes"),
            };
            let done = one
                .progress
                .map(|share| format!(", {:.1} %", share * 100.0));
            return format!(
                "{} {}{nodes}{}",
                one.trainer,
                one.state,
                done.unwrap_or_default()
            );
        }
        let mut states: BTreeMap<&str, usize> = BTreeMap::new();
        for row in &rows {
            *states.entry(row.state).or_default() += 1;
        }
        let states: Vec<String> = states.iter().map(|(s, n)| format!("{n} {s}")).collect();
        states.join(", ")
    }

    /// Prints the states of the trainers and returns the end of the process.
    ///
    /// # Errors
    /// The outcome, unless it is the awaited one.
    fn print(&self, args: &WaitArgs, outcome: Outcome) -> Result<()> {
        let rows = trainer_rows(&self.trainers, self.now, &[]);
        if args.json.json {
            output::print_json(&json!({
                "now": output::iso(self.now),
                "awaited": args.goal.name(),
                "outcome": outcome.name(),
                "trainers": rows,
            }))?;
        } else {
            let lines = rows.iter().zip(&self.trainers).map(|(row, record)| {
                let state = format!("{} {}", row.trainer, row.state);
                match (row.phase, failed_on(record)) {
                    (Phase::Failed, _) if !row.reason.is_empty() => {
                        format!("{state}: {}", row.reason)
                    }
                    (_, Some(failed)) => format!("{state}; {failed}"),
                    _ => state,
                }
            });
            output::print(&lines.collect::<Vec<_>>().join("\n"))?;
        }
        let exit = match outcome {
            Outcome::Met => return Ok(()),
            Outcome::Missed => Exit::Failed,
            Outcome::TimedOut => Exit::TimedOut,
            Outcome::Interrupted => Exit::Interrupted,
        };
        let message = match args.timeout {
            Some(timeout) if outcome == Outcome::TimedOut && !args.json.json => {
                format!("not {} within {timeout}", args.goal.name())
            }
            _ => String::new(),
        };
        Err(CliError {
            exit,
            ..CliError::failed(message)
        })
    }
}

/// Completes after the timeout; never, if there is none.
async fn limit(timeout: Option<Span>) {
    match timeout {
        Some(timeout) => tokio::time::sleep(timeout.to_std()).await,
        None => std::future::pending().await,
    }
}

/// Runs `wait`.
///
/// # Errors
/// There is no such trainer, the awaited state was not reached, or control does not answer.
pub(crate) async fn run(args: WaitArgs) -> Result<()> {
    let stop = stop_token();
    let client = Client::connect(&args.connect).await?;
    // The subscription starts before control is asked, so that no change is missed.
    let mut states = client.follow(&address::trainers(client.cluster())).await?;
    let asked = selected(&client, &args.trainers, Kept::Live).await?;
    let mut watched = Watched::find(&client, &asked.names).await?;
    let bar = output::progress_bar(args.json.json, STEPS, "{wide_bar} {msg}  {elapsed}");
    let outcome = tokio::select! {
        // A state that is already reached counts, whatever the timeout.
        biased;
        met = watched.follow(&client, &mut states, &args, &bar) => Outcome::of(met?),
        () = stop.cancelled() => Outcome::Interrupted,
        () = limit(args.timeout) => Outcome::TimedOut,
    };
    bar.finish_and_clear();
    watched.print(&args, outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::tests::record;

    #[test]
    fn a_goal_is_met_missed_or_open() {
        let [queued, active, running, done, failed, cancelled] = [
            record("q", Phase::Queued, 0),
            record("a", Phase::Active, 0),
            record("r", Phase::Active, 2),
            record("d", Phase::Done, 0),
            record("f", Phase::Failed, 0),
            record("c", Phase::Cancelled, 0),
        ];
        let (yes, no, open) = (Some(true), Some(false), None);
        for (goal, any, trainers, expected) in [
            (Goal::Ended, false, vec![&done, &running], open),
            (Goal::Ended, false, vec![&failed, &running], open),
            (Goal::Ended, false, vec![&done, &done], yes),
            (Goal::Ended, false, vec![&done, &cancelled], no),
            (Goal::Ended, true, vec![&done, &running], yes),
            (Goal::Ended, true, vec![&failed, &running], no),
            (Goal::Ended, true, vec![&queued, &running], open),
            (Goal::Done, false, vec![&done, &running], open),
            (Goal::Done, false, vec![&failed, &running], no),
            (Goal::Done, true, vec![&failed, &running], open),
            (Goal::Done, true, vec![&failed, &cancelled], no),
            (Goal::Done, true, vec![&failed, &done], yes),
            (Goal::Failed, false, vec![&failed], yes),
            (Goal::Failed, false, vec![&done], no),
            (Goal::Cancelled, false, vec![&cancelled, &queued], open),
            (Goal::Cancelled, false, vec![&cancelled], yes),
            (Goal::Running, false, vec![&queued, &active], open),
            (Goal::Running, false, vec![&running], yes),
            (Goal::Running, false, vec![&running, &active], open),
            (Goal::Running, true, vec![&running, &active], yes),
            (Goal::Running, false, vec![&cancelled], no),
        ] {
            let records: Vec<TrainerRecord> = trainers.into_iter().cloned().collect();
            let said = goal.met(any, &records);
            assert_eq!(said, expected, "{goal:?} {any} {records:?}");
        }
        let ran = TrainerRecord {
            started: Some(Timestamp::from_unix(1)),
            ..record("x", Phase::Done, 0)
        };
        assert_eq!(Goal::Running.met(false, &[ran]), yes, "it has run");
    }

    #[test]
    fn control_is_asked_only_for_trainers_that_it_does_not_publish() {
        let mut watched = Watched {
            trainers: vec![
                record("a", Phase::Active, 2),
                record("q", Phase::Queued, 0),
                record("d", Phase::Done, 0),
            ],
            now: Timestamp::default(),
            asked: Stopwatch::start(),
        };
        let said = |trainers| TrainersState {
            version: 1,
            as_of: Timestamp::from_unix(7),
            trainers,
            unusable: Vec::new(),
            pilot_s: 0.0,
            followed: lacuna_model::Generation(0),
        };
        let grown = || {
            said(vec![
                record("a", Phase::Active, 4),
                record("d", Phase::Active, 1),
            ])
        };
        assert!(!watched.apply(grown(), 0.0), "nothing has ended");
        assert_eq!(watched.trainers[0].nodes.len(), 4);
        assert_eq!(watched.trainers[2].phase, Phase::Done, "it has ended");
        assert!(
            watched.apply(grown(), QUEUE_S),
            "one may have left the queue"
        );
        assert!(watched.apply(said(Vec::new()), 0.0), "one has left");
        let rest = vec![record("a", Phase::Active, 1), record("q", Phase::Active, 1)];
        assert!(!watched.apply(said(rest), QUEUE_S), "all are published");
        assert_eq!(watched.in_words(), "1 done, 2 training");
        watched.trainers.truncate(1);
        assert_eq!(watched.in_words(), "a training on 1 node, 0.0 %");
        assert!(watched.share(Goal::Running) > 0.99);
    }
}
