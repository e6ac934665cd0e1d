//! The main loop of the agent.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use futures::StreamExt;
use lacuna_model::{NodeId, Span, Timestamp};
use lacuna_owner::{Signed, Ticket, VARIABLE};
use lacuna_runtime::clock::Stopwatch;
use lacuna_runtime::{Misconfigured, Running, ServiceError, Start, TextRequest};
use lacuna_trainer::Now;
use lacuna_trainer::settings::RunAs;
use lacuna_wire::msg::{Clock, Pace};
use lacuna_wire::{address, token};
use tokio::sync::{Semaphore, mpsc};

use crate::launcher::{Command, LauncherEvent, Names, Settings, StandIn, Wanted};
use crate::lock::{Lock, LockError};
use crate::metrics::Metrics;
use crate::order::Order;
use crate::safety::{KILL_AFTER, Process, Safety};
use crate::sections::{Config, Context};
use crate::shell::{Serves, Shell};

/// Time between two checks of the lease timeout.
const TICK: Duration = Duration::from_millis(250);
/// Longest time between two reads of a program's progress file.
const POLL: Span = Span::from_ms(500);
/// Statuses that an idle node of an agent that is no pilot sends within the time after which
/// control counts it as silent.
const IDLE_STATUSES: i64 = 3;
/// How long killed programs are waited for.
const KILLED: Duration = Duration::from_secs(1);
/// Most requests for output that are answered at a time. Further ones get no answer.
const ANSWERS: usize = 8;

/// Arguments of the agent.
#[derive(Debug, Clone, Default, Args)]
pub struct AgentArgs {
    /// A node that this process serves; may be repeated
    #[arg(long = "node", value_name = "NAME")]
    nodes: Vec<NodeId>,
    /// Serve every node that receives a command (demonstrations)
    #[arg(long, conflicts_with = "nodes")]
    all_nodes: bool,
    /// Run as a pilot, a job of the main scheduler: at SIGTERM kill the programs and end at once;
    /// end also when control has been silent for the lease timeout
    #[arg(long, requires = "nodes")]
    pilot: bool,
}

/// Runs the agent as a part of a process until it is stopped.
///
/// # Errors
/// If the bus is closed for good, no node is named, or another agent serves it.
pub fn run(ctx: Context, args: AgentArgs) -> Running {
    Box::pin(serve(ctx, args, Process::Shared, None))
}

/// Runs the agent in virtual time, with a stand-in for programs.
///
/// # Errors
/// Those of [`run`].
pub fn run_with(ctx: Context, args: AgentArgs, stand_in: Arc<dyn StandIn>) -> Running {
    Box::pin(serve(ctx, args, Process::Shared, Some(stand_in)))
}

/// Runs the agent in a process of its own. It handles signals whatever the rest of it waits for.
/// Processes that lose their guard become its children and are killed.
///
/// # Errors
/// Those of [`run`].
pub fn run_alone(ctx: Context, args: AgentArgs) -> Running {
    let process = if args.pilot {
        Process::Pilot
    } else {
        Process::Agent
    };
    Box::pin(serve(ctx, args, process, None))
}

async fn serve(
    ctx: Context,
    args: AgentArgs,
    process: Process,
    stand_in: Option<Arc<dyn StandIn>>,
) -> Result<(), ServiceError> {
    let metrics = Metrics::new(&ctx.registry)?;
    let settings = &ctx.config.agent;
    let named: BTreeSet<NodeId> = if args.nodes.is_empty() {
        settings.nodes.iter().cloned().collect()
    } else {
        args.nodes.iter().cloned().collect()
    };
    let serves = if args.all_nodes || (settings.all_nodes && named.is_empty()) {
        Serves::All
    } else if named.is_empty() {
        let text = "no node to serve: give --node NAME, --all-nodes or [agent] nodes";
        return Err(Misconfigured(text.to_owned()).into());
    } else {
        Serves::Nodes(named)
    };
    if settings.run_as == RunAs::Owner {
        may_run_as_owners(args.pilot, ctx.bus.proven())?;
    }
    // Before any file of the folder is touched.
    let _lock = lock(&settings.work_dir, &serves)?;
    let cgroups = settings.cgroups && process == Process::Agent;
    let safety = Safety::start(process, cgroups, settings.grace.to_std(), metrics.clone())?;
    let (sender, events) = mpsc::unbounded_channel();
    let programs = Command::new(
        Settings {
            guard: std::env::current_exe()?,
            poll_every: settings.report_every.min(POLL),
            ticket: ticket(args.pilot)?,
            agent: settings.clone(),
        },
        Names::kept(ctx.bus.clone()),
        safety.clone(),
        ctx.clock.clone(),
        metrics.clone(),
        sender,
    )
    .with_stand_in(stand_in);
    let _ = programs.end_orphans(serves.named());
    let shell = Shell::new(
        ctx.clone(),
        metrics.clone(),
        serves.clone(),
        programs,
        safety.clone(),
    );
    let sending = lacuna_runtime::task::spawn(shell.outbox().send(ctx.clone(), metrics));
    let result = live(ctx, shell, serves, events, args.pilot).await;
    sending.abort();
    safety.clean();
    result
}

/// The ticket of a pilot that runs under its owner's account.
fn ticket(pilot: bool) -> Result<Option<Ticket>, Misconfigured> {
    let word = std::env::var(VARIABLE).ok().filter(|_| pilot);
    let ticket = word.map(|word| Signed::unpacked(&word)).transpose();
    ticket.map_err(|error| Misconfigured(format!("{VARIABLE}: {error}")))
}

/// The job of a pilot, as Slurm or PBS tells it.
fn job(pilot: bool) -> Option<String> {
    let mut names = ["SLURM_JOB_ID", "PBS_JOBID"].into_iter().filter(|_| pilot);
    names.find_map(|name| std::env::var(name).ok())
}

/// Whether this agent may run programs under their owners' accounts. `keyed`: only control's
/// commands reach it.
fn may_run_as_owners(pilot: bool, keyed: bool) -> Result<(), Misconfigured> {
    let root = nix::unistd::geteuid().is_root();
    let why = if pilot && root {
        "a pilot is the job of its owner, and this one is root's"
    } else if !pilot && !root {
        "only root may switch to another account: start this agent as root"
    } else if !keyed {
        "without keys any user of the network could name any owner: run the bus with keys \
         (`lacuna keys init`), and give this agent its identity"
    } else {
        return Ok(());
    };
    Err(Misconfigured(format!("agent.run_as = \"owner\": {why}")))
}

/// Makes sure that no other agent serves these nodes with the same folder. Without locks (on a
/// read-only folder, for example) the agent still runs, since simulated trainers need none.
fn lock(work_dir: &Path, serves: &Serves) -> Result<Option<Lock>, Misconfigured> {
    match Lock::take(work_dir, serves.named()) {
        Ok(lock) => Ok(Some(lock)),
        Err(error @ (LockError::Taken { .. } | LockError::Foreign { .. })) => {
            Err(Misconfigured(error.to_string()))
        }
        Err(error @ LockError::Io { .. }) => {
            tracing::warn!(%error, "a second agent of the same nodes would not be noticed");
            Ok(None)
        }
    }
}

async fn live(
    ctx: Context,
    mut shell: Shell,
    serves: Serves,
    mut events: mpsc::UnboundedReceiver<LauncherEvent>,
    pilot: bool,
) -> Result<(), ServiceError> {
    let (bus, cluster) = (ctx.bus.clone(), ctx.cluster.clone());
    let watch = Stopwatch::start();
    if let Some(clock) = bus.last(&address::clock(&cluster)).await? {
        ctx.clock.update(&clock.message);
    }
    // An agent of one node subscribes to that node's subjects. One of several nodes shares a
    // subscription of each kind.
    let (commands, renewals, logs) = match &serves {
        Serves::Nodes(nodes) if nodes.len() == 1 => match nodes.first() {
            Some(node) => (
                address::command(&cluster, node),
                address::renewal(&cluster, address::shard(node)),
                address::logs(&cluster, node),
            ),
            None => return Ok(()),
        },
        Serves::Nodes(_) | Serves::All => (
            address::commands(&cluster),
            address::renewals(&cluster),
            address::logs_all(&cluster),
        ),
    };
    // Commands in the stream are from before this process, whose programs have ended. They are
    // recognised by time, not by number: an emptied server begins to count again, and its new
    // commands must be obeyed.
    let before = bus.newest_kept(&commands).await?;
    let mut renewals = bus.subscribe(&renewals).await?;
    let mut asked = bus.subscribe_text(&logs).await?;
    let mut clocks = bus
        .follow_direct(&address::clock(&cluster), Start::Last)
        .await?;
    let mut commands = bus.follow_direct(&commands, Start::Last).await?;
    let settings = &ctx.config.agent;
    let mut tick = interval(TICK);
    let mut reports = interval(settings.report_every.to_std());
    let mut idle = interval(idle_every(&ctx.config, pilot).to_std());
    let alive = ctx.health.check("loop", Some(Span::from_secs(30)));
    let mut control_spoke = moment(&ctx, &watch).wall;
    let mut order = Order::new(settings.lease_timeout);
    let job = job(pilot);
    let wanted = asked_back(&ctx);
    let answers = Arc::new(Semaphore::new(ANSWERS));
    let cause = loop {
        alive.ok();
        let now = moment(&ctx, &watch);
        if pilot && now.since(control_spoke) >= settings.lease_timeout {
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
                if !order.accepts(&renewal.subject, &renewal.message, now) {
                    shell.metrics.older_renewals.inc();
                    tracing::debug!(lead = renewal.message.lead, "older renewal ignored");
                    continue;
                }
                control_spoke = now;
                if job.as_ref().is_some_and(|job| renewal.message.forgotten.contains(job)) {
                    break "forgotten";
                }
                let (leases, of) = (&renewal.message.leases, &renewal.envelope.correlation);
                shell.renewed(leases, of, moment(&ctx, &watch));
            }
            command = commands.next() => {
                let command = command?;
                let old = before.is_some_and(|before| command.kept.is_some_and(|kept| kept <= before));
                shell.command(command, old, moment(&ctx, &watch));
            }
            Some(one) = events.recv() => {
                shell.handle_events(vec![one], "", moment(&ctx, &watch));
            }
            () = sleep(finish) => shell.progress(false, "", moment(&ctx, &watch)),
            _ = tick.tick() => shell.tick(moment(&ctx, &watch)),
            _ = reports.tick() => {
                // In lock step the clock decides when.
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
        ended(&mut shell, &mut events).await;
        // For programs that ignore SIGKILL for a while this time is a lower bound.
        shell.gone(asked.map(|since| since.span())).await;
        return Ok(());
    }
    // Every program ends, and reports its progress.
    shell.give_up_all(moment(&ctx, &watch));
    let patience = tokio::time::sleep(KILL_AFTER);
    tokio::pin!(patience);
    while shell.busy() {
        tokio::select! {
            biased;
            () = &mut patience => break,
            Some(one) = events.recv() => {
                shell.handle_events(vec![one], "", moment(&ctx, &watch));
            }
        }
    }
    // No program outlives its agent.
    shell.programs.kill_all();
    ended(&mut shell, &mut events).await;
    shell.flush().await;
    Ok(())
}

/// Waits briefly for killed programs.
async fn ended(shell: &mut Shell, events: &mut mpsc::UnboundedReceiver<LauncherEvent>) {
    let patience = tokio::time::sleep(KILLED);
    tokio::pin!(patience);
    while shell.programs.running() > 0 {
        tokio::select! {
            biased;
            () = &mut patience => break,
            Some(one) = events.recv() => shell.reaped(one),
        }
    }
}

/// Measures the time since SIGTERM, however late the loop handles it.
fn asked_back(ctx: &Context) -> tokio::task::JoinHandle<Stopwatch> {
    let shutdown = ctx.shutdown.clone();
    lacuna_runtime::task::spawn(async move {
        shutdown.cancelled().await;
        Stopwatch::start()
    })
}

/// Time between two statuses of idle nodes. A pilot without work must soon be missed. Many nodes of
/// one process need fewer statuses.
fn idle_every(config: &Config, pilot: bool) -> Span {
    let often = config.agent.report_every;
    if pilot {
        return often;
    }
    let share = config.control.silent_after.as_ms() / IDLE_STATUSES;
    often.max(Span::from_ms(share))
}

/// In lock step every run reports its progress as soon as time has advanced.
fn wants_reports(clock: &Clock) -> bool {
    clock.pace == Pace::LockStep && !clock.complete
}

/// Real time until the next simulated run has done its work.
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

/// The request is `<trainer> <lines>`, for the last lines. A third word is the byte after which the
/// output is wanted, or `-`; the answer then begins with a line `at <byte>`, where the output ends.
/// The loop does not wait until the answer is sent.
fn answer(shell: &Shell, request: TextRequest, answers: &Arc<Semaphore>) {
    let node: Option<NodeId> = token::last_name(&request.subject).and_then(|n| n.parse().ok());
    let mut fields = request.text.split_whitespace();
    let trainer = fields.next().unwrap_or_default();
    let lines = fields.next().and_then(|n| n.parse().ok()).unwrap_or(20);
    let Ok(place) = answers.clone().try_acquire_owned() else {
        return;
    };
    // Another process may serve the node. Without an answer of this one the requester gets that
    // one's.
    let Some(node) = node else {
        return;
    };
    // Without a third field the requester is of an older release, and wants no place.
    let after = fields.next();
    let mut time = || fields.next().and_then(|field| field.parse().ok());
    let wanted = Wanted {
        lines,
        after: after.and_then(|field| field.parse().ok()),
        since: time().map(Timestamp::from_unix_ms),
        is_raw: fields.next() == Some("raw"),
    };
    let Some(read) = shell.output_of(&node, trainer, wanted) else {
        return;
    };
    let is_placed = after.is_some();
    lacuna_runtime::task::spawn(async move {
        // The loop does not wait for the file system of a program.
        let Ok((text, upto)) = lacuna_runtime::task::blocking(read).await else {
            return;
        };
        let text = match is_placed {
            true => format!("at {upto}\n{text}"),
            false => text,
        };
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
    fn programs_run_as_owners_under_root_or_in_their_owners_pilot_and_with_keys() {
        let root = nix::unistd::geteuid().is_root();
        let refused = |pilot, keyed| may_run_as_owners(pilot, keyed).err();
        // Root switches accounts, and a pilot of its owner's has none to switch to.
        assert_eq!(refused(false, true).is_some(), !root);
        assert_eq!(refused(true, true).is_some(), root);
        let text = refused(!root, false).unwrap().to_string();
        assert!(text.contains("`lacuna keys init`"), "{text}");
    }

    #[test]
    fn idle_nodes_send_statuses_before_they_count_as_silent() {
        let mut config = Config::default();
        assert_eq!(idle_every(&config, false), Span::from_secs(10));
        assert_eq!(idle_every(&config, true), Span::from_secs(5));
        config.control.silent_after = Span::from_secs(12);
        config.agent.report_every = Span::from_secs(1);
        assert_eq!(idle_every(&config, false), Span::from_secs(4));
        // Reports are never more frequent than the owner wants, and control waits for two of them.
        config.agent.report_every = Span::from_secs(20);
        assert_eq!(idle_every(&config, false), Span::from_secs(20));
    }
}
