//! The loop.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use futures::StreamExt;
use lacuna_model::{NodeId, Span, Timestamp};
use lacuna_runtime::clock::Stopwatch;
use lacuna_runtime::{Config, Context, Misconfigured, Running, ServiceError, Start, TextRequest};
use lacuna_trainer::Now;
use lacuna_wire::msg::{Clock, Pace};
use lacuna_wire::{address, token};
use tokio::sync::{Semaphore, mpsc};

use crate::launcher::{Command, Happened, Names, Settings};
use crate::lock::{Lock, LockError};
use crate::metrics::Metrics;
use crate::order::Order;
use crate::safety::{PATIENCE, Process, Safety};
use crate::shell::{Plays, Shell};

/// The dead man looks at the clock this often.
const TICK: Duration = Duration::from_millis(250);
/// Progress files of programs are looked at this often at least.
const POLL: Span = Span::from_ms(500);
/// Idle nodes of an agent that is no pilot speak this often in the time after which control takes
/// them for silent.
const IDLE_WORDS: i64 = 3;
/// Programs that were killed are waited for so long.
const KILLED: Duration = Duration::from_secs(1);
/// So many requests for output are answered at a time; others get no answer.
const ANSWERS: usize = 8;

/// Arguments of the agent.
#[derive(Debug, Clone, Default, Args)]
pub struct AgentArgs {
    /// A node that this process plays; may be repeated
    #[arg(long = "node", value_name = "NAME")]
    nodes: Vec<NodeId>,
    /// Play every node that a command comes for (demonstrations)
    #[arg(long, conflicts_with = "nodes")]
    all_nodes: bool,
    /// Run as a pilot, a job of the main scheduler: at SIGTERM kill what runs and be gone at
    /// once, and end when control has been silent for the dead man's time
    #[arg(long, requires = "nodes")]
    pilot: bool,
}

/// Runs the agent until it is told to stop, as a part of a process.
///
/// # Errors
/// If the bus is closed for good, no node is named, or another agent plays it.
pub fn run(ctx: Context, args: AgentArgs) -> Running {
    Box::pin(serve(ctx, args, Process::Shared))
}

/// Runs it in a process that does nothing else: it hears signals whatever the rest of it waits
/// for, and what loses its guard becomes its child and is killed.
///
/// # Errors
/// As [`run`].
pub fn run_alone(ctx: Context, args: AgentArgs) -> Running {
    let process = if args.pilot {
        Process::Pilot
    } else {
        Process::Agent
    };
    Box::pin(serve(ctx, args, process))
}

async fn serve(ctx: Context, args: AgentArgs, process: Process) -> Result<(), ServiceError> {
    let metrics = Metrics::new(&ctx.registry)?;
    let settings = &ctx.config.agent;
    let named: BTreeSet<NodeId> = if args.nodes.is_empty() {
        settings.nodes.iter().cloned().collect()
    } else {
        args.nodes.iter().cloned().collect()
    };
    let plays = if args.all_nodes || (settings.all_nodes && named.is_empty()) {
        Plays::All
    } else if named.is_empty() {
        let text = "no node to play: give --node NAME, --all-nodes or [agent] nodes";
        return Err(Misconfigured(text.to_owned()).into());
    } else {
        Plays::Nodes(named)
    };
    // Before anything in the folder is touched.
    let _lock = lock(&settings.work_dir, &plays)?;
    let cgroups = settings.cgroups && process == Process::Agent;
    let safety = Safety::start(process, cgroups, settings.grace.to_std(), metrics.clone())?;
    let (told, happened) = mpsc::unbounded_channel();
    let programs = Command::new(
        Settings {
            guard: std::env::current_exe()?,
            poll_every: settings.report_every.min(POLL),
            agent: settings.clone(),
        },
        Names::kept(ctx.bus.clone()),
        safety.clone(),
        ctx.clock.clone(),
        metrics.clone(),
        told,
    );
    let _ = programs.end_orphans(plays.named());
    let shell = Shell::new(
        ctx.clone(),
        metrics.clone(),
        plays.clone(),
        programs,
        safety.clone(),
    );
    let saying = lacuna_runtime::task::spawn(shell.outbox().say(ctx.clone(), metrics));
    let result = live(ctx, shell, plays, happened, args.pilot).await;
    saying.abort();
    safety.clean();
    result
}

/// Makes sure that no other agent plays these nodes with the same folder. A folder that does
/// not allow locks (read-only, say) is no reason not to run: simulated trainers need none.
fn lock(work_dir: &Path, plays: &Plays) -> Result<Option<Lock>, Misconfigured> {
    match Lock::take(work_dir, plays.named()) {
        Ok(lock) => Ok(Some(lock)),
        Err(error @ (LockError::Taken { .. } | LockError::Foreign { .. })) => {
            Err(Misconfigured(error.to_string()))
        }
        Err(error @ LockError::Io { .. }) => {
            tracing::warn!(%error, "another agent of the same nodes would not be noticed");
            Ok(None)
        }
    }
}

async fn live(
    ctx: Context,
    mut shell: Shell,
    plays: Plays,
    mut happened: mpsc::UnboundedReceiver<Happened>,
    pilot: bool,
) -> Result<(), ServiceError> {
    let (bus, cluster) = (ctx.bus.clone(), ctx.cluster.clone());
    let watch = Stopwatch::start();
    if let Some(clock) = bus.last(&address::clock(&cluster)).await? {
        ctx.clock.update(&clock.message);
    }
    // One node hears its own subjects; several share a subscription of each kind.
    let (commands, renewals, logs) = match &plays {
        Plays::Nodes(nodes) if nodes.len() == 1 => match nodes.first() {
            Some(node) => (
                address::command(&cluster, node),
                address::renewal(&cluster, address::shard(node)),
                address::logs(&cluster, node),
            ),
            None => return Ok(()),
        },
        Plays::Nodes(_) | Plays::All => (
            address::commands(&cluster),
            address::renewals(&cluster),
            address::logs_all(&cluster),
        ),
    };
    // What the stream holds now is from before this process: whatever it asked for is gone.
    // Its times tell, not its numbers: a server that was emptied begins to count anew, and what
    // it is told now must be obeyed.
    let before = bus.newest_kept(&commands).await?;
    let mut renewals = bus.subscribe(&renewals).await?;
    let mut asked = bus.subscribe_text(&logs).await?;
    let mut clocks = bus.look(&address::clock(&cluster), Start::Last).await?;
    let mut commands = bus.look(&commands, Start::Last).await?;
    let settings = &ctx.config.agent;
    let mut tick = interval(TICK);
    let mut reports = interval(settings.report_every.to_std());
    let mut idle = interval(idle_every(&ctx.config, pilot).to_std());
    let alive = ctx.health.check("loop", Some(Span::from_secs(30)));
    let mut control_spoke = moment(&ctx, &watch).wall;
    let mut order = Order::new(settings.dead_man);
    let wanted = asked_back(&ctx);
    let answers = Arc::new(Semaphore::new(ANSWERS));
    let cause = loop {
        alive.ok();
        let now = moment(&ctx, &watch);
        if pilot && now.since(control_spoke) >= settings.dead_man {
            break "alone";
        }
        let finish = until_finish(&ctx, &shell);
        tokio::select! {
            biased;
            () = ctx.shutdown.cancelled() => break "wanted",
            clock = clocks.next() => {
                let clock = clock?;
                ctx.clock.update(&clock.message);
                let all = wants_reports(&clock.message);
                shell.progress(all, &clock.envelope.correlation, moment(&ctx, &watch));
            }
            renewal = renewals.next() => {
                let renewal = renewal?;
                let now = moment(&ctx, &watch).wall;
                if !order.heeds(&renewal.subject, &renewal.message, now) {
                    shell.metrics.older_renewals.inc();
                    tracing::debug!(lead = renewal.message.lead, "older renewal not heeded");
                    continue;
                }
                control_spoke = now;
                let (leases, of) = (&renewal.message.leases, &renewal.envelope.correlation);
                shell.renewed(leases, of, moment(&ctx, &watch));
            }
            command = commands.next() => {
                let command = command?;
                let old = before.is_some_and(|before| command.kept.is_some_and(|kept| kept <= before));
                shell.command(command, old, moment(&ctx, &watch));
            }
            Some(one) = happened.recv() => {
                shell.happened(vec![one], "", moment(&ctx, &watch));
            }
            () = sleep(finish) => shell.progress(false, "", moment(&ctx, &watch)),
            _ = tick.tick() => shell.tick(moment(&ctx, &watch)),
            _ = reports.tick() => {
                // In lock step the clock says when.
                shell.progress(!ctx.clock.lock_step(), "", moment(&ctx, &watch));
                shell.statuses(true);
            }
            _ = idle.tick() => shell.statuses(false),
            Some(request) = asked.next() => answer(&shell, request, &answers),
        }
    };
    if pilot {
        shell.leave(cause);
        shell.flush().await;
        let asked = if cause == "wanted" {
            wanted.await.ok()
        } else {
            None
        };
        ended(&mut shell, &mut happened).await;
        // Of programs that no signal ends this says too little, but that it took long.
        shell.gone(asked.map(|since| since.span())).await;
        return Ok(());
    }
    // Every program ends, and says how far it has come.
    shell.give_up_all(moment(&ctx, &watch));
    let patience = tokio::time::sleep(PATIENCE);
    tokio::pin!(patience);
    while shell.busy() {
        tokio::select! {
            biased;
            () = &mut patience => break,
            Some(one) = happened.recv() => {
                shell.happened(vec![one], "", moment(&ctx, &watch));
            }
        }
    }
    // Nothing outlives its agent.
    shell.programs.kill_all();
    ended(&mut shell, &mut happened).await;
    shell.flush().await;
    Ok(())
}

/// Waits a little for programs that were killed.
async fn ended(shell: &mut Shell, happened: &mut mpsc::UnboundedReceiver<Happened>) {
    let patience = tokio::time::sleep(KILLED);
    tokio::pin!(patience);
    while shell.programs.living() > 0 {
        tokio::select! {
            biased;
            () = &mut patience => break,
            Some(one) = happened.recv() => shell.reaped(one),
        }
    }
}

/// Tells since when this process is to end, however late the loop hears of it.
fn asked_back(ctx: &Context) -> tokio::task::JoinHandle<Stopwatch> {
    let shutdown = ctx.shutdown.clone();
    lacuna_runtime::task::spawn(async move {
        shutdown.cancelled().await;
        Stopwatch::start()
    })
}

/// How often nodes without work say so. A pilot without work is soon missed; many nodes of one
/// process need not say so that often.
fn idle_every(config: &Config, pilot: bool) -> Span {
    let often = config.agent.report_every;
    if pilot {
        return often;
    }
    let share = config.control.silent_after.as_ms() / IDLE_WORDS;
    often.max(Span::from_ms(share))
}

/// In lock step every run tells where it stands as soon as time has advanced.
fn wants_reports(clock: &Clock) -> bool {
    clock.pace == Pace::LockStep && !clock.complete
}

/// Real time until the next simulated run will have done its work.
fn until_finish(ctx: &Context, shell: &Shell) -> Option<Duration> {
    let rate = ctx.clock.rate();
    let finish = shell.simulated.next_finish()?;
    let left = finish.since(ctx.clock.now()).as_secs_f64().max(0.0);
    (rate > 0.0).then(|| Duration::from_secs_f64((left / rate).clamp(0.001, 3600.0)))
}

async fn sleep(length: Option<Duration>) {
    match length {
        Some(length) => tokio::time::sleep(length).await,
        None => std::future::pending().await,
    }
}

/// The question is `<trainer> <lines>`. Nothing waits until the answer has gone out.
fn answer(shell: &Shell, request: TextRequest, answers: &Arc<Semaphore>) {
    let node: Option<NodeId> = token::last_name(&request.subject).and_then(|n| n.parse().ok());
    let mut words = request.text.split_whitespace();
    let trainer = words.next().unwrap_or_default();
    let lines = words.next().and_then(|n| n.parse().ok()).unwrap_or(20);
    let Ok(place) = answers.clone().try_acquire_owned() else {
        return;
    };
    // Another process may play the node: silence leaves the answer to it.
    let Some(text) = node.and_then(|node| shell.output(&node, trainer, lines)) else {
        return;
    };
    lacuna_runtime::task::spawn(async move {
        if let Err(error) = request.respond(text).await {
            tracing::warn!(%error, "request for output not answered");
        }
        drop(place);
    });
}

fn moment(ctx: &Context, watch: &Stopwatch) -> Now {
    Now {
        cluster: ctx.clock.now(),
        wall: Timestamp::from_unix(1) + watch.span(),
    }
}

fn interval(every: Duration) -> tokio::time::Interval {
    let mut interval = tokio::time::interval(every.max(Duration::from_millis(10)));
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    interval
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_nodes_speak_often_enough_not_to_be_taken_for_silent() {
        let mut config = Config::default();
        assert_eq!(idle_every(&config, false), Span::from_secs(10));
        assert_eq!(idle_every(&config, true), Span::from_secs(5));
        config.control.silent_after = Span::from_secs(12);
        config.agent.report_every = Span::from_secs(1);
        assert_eq!(idle_every(&config, false), Span::from_secs(4));
        // Reports are never more frequent than the owner wants; control waits for two of them.
        config.agent.report_every = Span::from_secs(20);
        assert_eq!(idle_every(&config, false), Span::from_secs(20));
    }
}
