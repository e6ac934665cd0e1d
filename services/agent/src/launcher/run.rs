//! One program on one node, from its start to its end.

use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::Duration;

use lacuna_model::{Assignment, Launch, NodeId, Progress, RunId};
use lacuna_runtime::ClusterClock;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::{Child, ChildStdin};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::environment::{command_line, environment};
use super::files::{Files, last_lines};
use super::talk::{LastHeard, Said, Talk};
use super::{Happened, Settings};
use crate::descendants;
use crate::guard::{GUARD, code};
use crate::metrics::Metrics;
use crate::tail::{Line, Tail};

/// Longest last words.
const WORDS: usize = 300;
/// Given to the guard beyond the program's grace.
const GUARD_GRACE: Duration = Duration::from_secs(3);
/// Longest wait for what a program had said before it ended.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// What a program is to do.
#[derive(Debug)]
pub(super) enum Order {
    /// Be a member of this run from now on.
    Run(Box<Assignment>),
    /// Stop within the grace.
    Stop,
    /// Die at once.
    Kill,
}

/// What was read of a program's progress file.
struct Seen {
    tail: Tail,
    garbage: u64,
    /// The newest checkpoint of this run, and the samples that it covers.
    saved: Option<(String, f64)>,
}

impl Seen {
    fn new(tail: Tail) -> Self {
        Self {
            tail,
            garbage: 0,
            saved: None,
        }
    }
}

/// One program on one node.
pub(super) struct Run {
    pub(super) node: NodeId,
    /// The run under which it was started: what it is called by.
    pub(super) started: RunId,
    /// The present run.
    pub(super) assignment: Assignment,
    /// Whether it is a member of that run already.
    pub(super) member: bool,
    /// When its program last said anything.
    pub(super) last: LastHeard,
    pub(super) files: Files,
    pub(super) settings: Settings,
    pub(super) clock: ClusterClock,
    pub(super) metrics: Metrics,
    pub(super) told: mpsc::UnboundedSender<Happened>,
}

impl Run {
    pub(super) async fn live(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        let mut talk = match self.listen() {
            Ok(talk) => talk,
            Err(reason) => return self.exited(127, reason),
        };
        let (mut child, input) = match self.spawn(talk.as_ref()) {
            Ok(started) => started,
            Err(reason) => return self.exited(127, reason),
        };
        let mut input = Some(input);
        let mut seen = Seen::new(Tail::new(self.files.progress.clone()));
        let mut poll = tokio::time::interval(self.settings.poll_every.to_std());
        poll.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        // When the guard is ended if it does not end by itself.
        let mut patience: Option<Instant> = None;
        let mut hung = false;
        let mut gone = false;
        let mut killed = Vec::new();
        let last = talk.is_some().then(|| self.last.clone());
        let (started, settings) = (Instant::now(), self.settings.clone());
        if self.member
            && let Some(talk) = &talk
        {
            talk.run(&self.assignment);
        }
        let status = loop {
            tokio::select! {
                status = child.wait() => break status,
                order = orders.recv() => match order {
                    Some(Order::Run(assignment)) => {
                        self.assignment = *assignment;
                        // A successor of this agent must not begin it once more.
                        let (run, group) = (self.assignment.run, child.id().unwrap_or(0));
                        if let Err(error) = self.files.begin(run, group) {
                            tracing::warn!(node = %self.node, %error, "run not noted");
                        }
                        if let Some(talk) = &talk {
                            talk.run(&self.assignment);
                        }
                    }
                    // An agent that is gone wants it to stop as well.
                    Some(Order::Stop) | None => {
                        if let Some(input) = input.take() {
                            self.ask_to_stop(input, talk.as_ref());
                            let limit = self.settings.grace.to_std() + GUARD_GRACE;
                            patience = Some(Instant::now() + limit);
                        }
                    }
                    Some(Order::Kill) => {
                        drop(input.take());
                        killed.extend(kill(&child));
                        patience.get_or_insert_with(|| Instant::now() + GUARD_GRACE);
                    }
                },
                said = heard(talk.as_mut()) => gone = self.said(said),
                () = at(patience) => {
                    // The guard itself does not answer.
                    self.metrics.guard_killed();
                    killed.extend(kill(&child));
                    patience = Some(Instant::now() + GUARD_GRACE);
                }
                () = silence(last.as_ref(), started, &settings), if !hung => {
                    tracing::warn!(node = %self.node, trainer = %self.assignment.trainer,
                        "program says nothing, killing it");
                    self.metrics.hung();
                    hung = true;
                    killed.extend(kill(&child));
                }
                _ = poll.tick() => self.look(&mut seen),
            }
        };
        descendants::gone(killed, GUARD_GRACE).await;
        // What it had said before it ended. One that never spoke has nothing to say.
        let spoke = last.as_ref().is_some_and(|last| last.get().is_some());
        while spoke && !gone {
            let Ok(said) = tokio::time::timeout(LAST_WORDS, heard(talk.as_mut())).await else {
                break;
            };
            gone = self.said(said);
        }
        self.look(&mut seen);
        let exit = self
            .files
            .exit_code()
            .unwrap_or_else(|| status.map_or(127, code));
        let words = if hung && !spoke {
            format!(
                "said nothing for {} since its start",
                self.settings.start_limit
            )
        } else if hung {
            format!("said nothing for {}", self.settings.hang_after)
        } else {
            last_lines(&self.files.output, 1).pop().unwrap_or_default()
        };
        self.files.clear();
        if input.is_none() {
            let (node, run) = (self.node.clone(), self.started);
            let _ = self.told.send(Happened::Stopped { node, run });
        } else {
            self.exited(exit, words.chars().take(WORDS).collect());
        }
    }

    fn listen(&self) -> Result<Option<Talk>, String> {
        if !self.assignment.launch.regroups() {
            return Ok(None);
        }
        Talk::listen(self.last.clone())
            .map(Some)
            .map_err(|e| format!("no socket for the program: {e}"))
    }

    /// The end of its input tells the guard to stop the program.
    fn ask_to_stop(&self, input: ChildStdin, talk: Option<&Talk>) {
        let deadline = lacuna_runtime::clock::wall() + self.settings.grace;
        let text = format!("{:.3}\n", deadline.unix_seconds());
        if let Err(error) = std::fs::write(&self.files.deadline, text) {
            tracing::warn!(node = %self.node, %error, "deadline not written");
        }
        if let Some(talk) = talk {
            talk.leave(deadline);
        }
        drop(input);
    }

    fn spawn(&self, talk: Option<&Talk>) -> Result<(Child, ChildStdin), String> {
        let line = command_line(&self.assignment, &self.settings.torchrun, &self.files)?;
        let Launch::Command { env, program, .. } = &*self.assignment.launch else {
            return Err("not a trainer with a program".to_owned());
        };
        let in_dir = |e: std::io::Error| format!("{}: {e}", self.files.dir.display());
        let output = self.files.prepare().map_err(in_dir)?;
        let run = self.started;
        self.files.begin(run, 0).map_err(in_dir)?;
        let errors = output.try_clone().map_err(in_dir)?;
        let mut command = std::process::Command::new(&self.settings.guard);
        command
            .arg(GUARD)
            .arg(self.settings.grace.as_ms().max(0).to_string())
            .arg(&self.files.code)
            .args(line)
            .envs(env)
            .envs(environment(&self.assignment, &self.node, &self.files))
            .envs(talk.map(|talk| ("LACUNA_SOCKET", talk.path())))
            .env_remove("LACUNA_PARENT_PIPE")
            // What the agent is on the bus is none of the program's business.
            .env_remove(lacuna_runtime::identity::VARIABLE)
            .env_remove("LACUNA_NATS_PASSWORD")
            .stdin(Stdio::piped())
            .stdout(output)
            .stderr(errors)
            .process_group(0);
        let mut child = tokio::process::Command::from(command)
            .spawn()
            .map_err(|e| format!("cannot start {}: {e}", self.settings.guard.display()))?;
        let input = child.stdin.take().ok_or("no way to stop the program")?;
        if let Err(error) = self.files.begin(run, child.id().unwrap_or(0)) {
            tracing::warn!(node = %self.node, %error, "process group not noted");
        }
        self.metrics.started();
        tracing::info!(node = %self.node, trainer = %self.assignment.trainer,
            run = run.0, program, "program started");
        Ok((child, input))
    }

    /// What a program that regroups says. Returns whether it has hung up.
    fn said(&self, said: Said) -> bool {
        match said {
            Said::Gone => return true,
            Said::Ready => {
                let (node, run) = (self.node.clone(), self.started);
                let _ = self.told.send(Happened::Ready { node, run });
            }
            Said::Progress(line) => {
                let progress = Progress {
                    trainer: self.assignment.trainer.clone(),
                    run: RunId(line.run),
                    at: self.clock.now(),
                    samples: line.samples,
                    owed: 0.0,
                    step: line.step,
                    world_size: line.world_size,
                    loss: line.loss.filter(|loss| loss.is_finite()),
                    checkpoint: line.checkpoint,
                    // Its next run says what its state had absorbed.
                    saved: None,
                    base: Some(line.base),
                };
                let _ = self.told.send(Happened::Progress(progress));
            }
            Said::Group { run, broken } => {
                let _ = self.told.send(Happened::Group {
                    node: self.node.clone(),
                    run: self.started,
                    of: RunId(run),
                    broken,
                });
            }
            Said::Garbage => self.metrics.garbage(1),
        }
        false
    }

    /// Reads new progress; rank 0 tells the newest of it, and of the newest checkpoint. Torchrun
    /// ranks its workers itself, so there whoever writes is heard.
    fn look(&self, seen: &mut Seen) {
        let lines = seen.tail.read();
        self.metrics.garbage(seen.tail.garbage() - seen.garbage);
        seen.garbage = seen.tail.garbage();
        for line in &lines {
            if let Some(checkpoint) = &line.checkpoint {
                seen.saved = Some((checkpoint.clone(), line.samples));
            }
        }
        let heard = self.assignment.rank == 0 || self.assignment.launch.by_torchrun();
        if let Some(line) = lines.last().filter(|_| heard) {
            let progress = self.progress(line, seen.saved.clone());
            let _ = self.told.send(Happened::Progress(progress));
        }
    }

    fn progress(&self, line: &Line, saved: Option<(String, f64)>) -> Progress {
        let (checkpoint, saved) = saved.unzip();
        Progress {
            trainer: self.assignment.trainer.clone(),
            run: self.assignment.run,
            at: self.clock.now(),
            samples: line.samples,
            owed: 0.0,
            step: line.step,
            world_size: line
                .world_size
                .unwrap_or(self.assignment.members.len() as u32),
            loss: line.loss,
            checkpoint,
            saved,
            base: None,
        }
    }

    fn exited(&self, code: i32, reason: String) {
        let _ = self.told.send(Happened::Exited {
            node: self.node.clone(),
            run: self.started,
            code,
            reason,
        });
    }
}

/// SIGKILL to all that the program has started, then to its group, its guard included. Returns
/// what was below the guard: it may end later than this.
fn kill(child: &Child) -> Vec<Pid> {
    let Some(group) = child.id().and_then(|id| i32::try_from(id).ok()) else {
        return Vec::new();
    };
    let guard = Pid::from_raw(group);
    let killed = descendants::kill_below(guard);
    let _ = killpg(guard, Signal::SIGKILL);
    killed
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

async fn heard(talk: Option<&mut Talk>) -> Said {
    match talk {
        Some(talk) => talk.next().await,
        None => std::future::pending().await,
    }
}

/// Ends when a program that talks has been silent for too long, since its last word or, before
/// its first, since its start.
async fn silence(last: Option<&LastHeard>, started: Instant, settings: &Settings) {
    let Some(last) = last else {
        return std::future::pending().await;
    };
    loop {
        let end = match last.get() {
            Some(last) => last + settings.hang_after.to_std(),
            None => started + settings.start_limit.to_std(),
        };
        if end <= Instant::now() {
            return;
        }
        tokio::time::sleep_until(end).await;
    }
}
