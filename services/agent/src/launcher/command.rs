//! Any program, one process per node, under a guard.
//!
//! What the program finds in its environment:
//!
//! | Variable | Meaning |
//! |---|---|
//! | `LACUNA_TRAINER`, `LACUNA_RUN` | the trainer, and the number of this membership |
//! | `LACUNA_NODE`, `LACUNA_RANK`, `LACUNA_WORLD_SIZE` | this node, its place, how many there are |
//! | `LACUNA_MEMBERS`, `LACUNA_LEADER` | all nodes by rank, with commas between; the first |
//! | `LACUNA_PROGRESS_FILE` | append progress here, one JSON object a line; rank 0 is heard |
//! | `LACUNA_CHECKPOINT_DIR`, `LACUNA_CHECKPOINT` | where checkpoints go; the newest reported |
//! | `LACUNA_SAMPLES_DONE`, `LACUNA_SAMPLES_TOTAL` | samples of all runs before; all there are to do |
//! | `LACUNA_DEADLINE_FILE` | appears when the program must stop: Unix seconds of the kill |
//!
//! SIGTERM: save and leave; after the grace comes SIGKILL, to the whole process group.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use lacuna_model::{Assignment, Launch, NodeId, Progress, RunId, Span, Timestamp, Work};
use lacuna_runtime::ClusterClock;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::{Child, ChildStdin};
use tokio::sync::{mpsc, oneshot};

use super::files::{Files, last_lines, output};
use super::{Happened, Launcher, orphans};
use crate::guard::{GUARD, code};
use crate::metrics::Metrics;
use crate::tail::{Line, Tail};

/// Longest last words.
const WORDS: usize = 300;
/// Given to the guard beyond the program's grace.
const GUARD_GRACE: Duration = Duration::from_secs(3);

/// Settings of the launcher.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The program that holds the guard: the agent's own.
    pub guard: PathBuf,
    /// Where output and progress files live.
    pub work_dir: PathBuf,
    /// From SIGTERM until SIGKILL.
    pub grace: Span,
    /// Progress files are looked at this often.
    pub poll_every: Span,
}

/// Programs of this agent.
#[derive(Debug)]
pub struct Command {
    settings: Settings,
    clock: ClusterClock,
    metrics: Metrics,
    told: mpsc::UnboundedSender<Happened>,
    /// Where to say that a run must stop.
    runs: BTreeMap<(NodeId, RunId), oneshot::Sender<()>>,
}

impl Command {
    /// A launcher that tells what happens through `told`.
    #[must_use]
    pub fn new(
        settings: Settings,
        clock: ClusterClock,
        metrics: Metrics,
        told: mpsc::UnboundedSender<Happened>,
    ) -> Self {
        Self {
            settings,
            clock,
            metrics,
            told,
            runs: BTreeMap::new(),
        }
    }

    /// Whether it has this run.
    #[must_use]
    pub fn has(&self, node: &NodeId, run: RunId) -> bool {
        self.runs.contains_key(&(node.clone(), run))
    }

    /// Whether this or an earlier agent has begun a run, or a later one, on a node.
    #[must_use]
    pub fn begun(&self, node: &NodeId, assignment: &Assignment) -> bool {
        let trainer = assignment.trainer.as_str();
        Files::new(&self.settings.work_dir, trainer, node, assignment.run)
            .last_begun()
            .is_some_and(|(run, _)| run >= assignment.run)
    }

    /// Kills what an earlier agent of these nodes (all if `None`) has left behind: its guards
    /// are ending it already, but might take the grace for it, and work that nobody counts is
    /// not to run beside what follows. Returns how many process groups were killed.
    #[must_use]
    pub fn end_orphans(&self, nodes: Option<&BTreeSet<NodeId>>) -> usize {
        orphans::end(&self.settings.work_dir, nodes)
    }

    /// Forgets a run that has ended.
    pub fn forget(&mut self, node: &NodeId, run: RunId) {
        self.runs.remove(&(node.clone(), run));
    }
}

impl Launcher for Command {
    fn start(&mut self, node: &NodeId, assignment: Assignment, _: Timestamp) {
        let (stop, stopped) = oneshot::channel();
        self.runs.insert((node.clone(), assignment.run), stop);
        let run = Run {
            files: Files::new(
                &self.settings.work_dir,
                assignment.trainer.as_str(),
                node,
                assignment.run,
            ),
            node: node.clone(),
            assignment,
            settings: self.settings.clone(),
            clock: self.clock.clone(),
            metrics: self.metrics.clone(),
            told: self.told.clone(),
        };
        tokio::spawn(run.live(stopped));
    }

    fn stop(&mut self, node: &NodeId, run: RunId, _: Timestamp) {
        match self.runs.remove(&(node.clone(), run)) {
            // The run tells when it has stopped, also if it was about to end by itself.
            Some(stop) => drop(stop.send(())),
            None => {
                let node = node.clone();
                let _ = self.told.send(Happened::Stopped { node, run });
            }
        }
    }

    fn happened(&mut self) -> Vec<Happened> {
        Vec::new()
    }

    fn output(&self, node: &NodeId, trainer: &str, lines: usize) -> Vec<String> {
        last_lines(&output(&self.settings.work_dir, trainer, node), lines)
    }
}

/// What was read of a program's progress.
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
struct Run {
    node: NodeId,
    assignment: Assignment,
    files: Files,
    settings: Settings,
    clock: ClusterClock,
    metrics: Metrics,
    told: mpsc::UnboundedSender<Happened>,
}

impl Run {
    async fn live(self, mut stop: oneshot::Receiver<()>) {
        let (mut child, input) = match self.spawn() {
            Ok(started) => started,
            Err(reason) => return self.exited(127, reason),
        };
        let mut seen = Seen::new(Tail::new(self.files.progress.clone()));
        let mut poll = tokio::time::interval(self.settings.poll_every.to_std());
        poll.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let stopped = loop {
            tokio::select! {
                _ = &mut stop => break true,
                _ = child.wait() => break false,
                _ = poll.tick() => self.look(&mut seen),
            }
        };
        if stopped {
            self.end(&mut child, input).await;
        }
        self.look(&mut seen);
        let status = child.wait().await;
        let exit = self
            .files
            .exit_code()
            .unwrap_or_else(|| status.map_or(127, code));
        if stopped {
            self.files.clear();
            let (node, run) = (self.node.clone(), self.assignment.run);
            let _ = self.told.send(Happened::Stopped { node, run });
        } else {
            let words = last_lines(&self.files.output, 1).pop().unwrap_or_default();
            self.files.clear();
            self.exited(exit, words.chars().take(WORDS).collect());
        }
    }

    /// The end of its input tells the guard to stop the program.
    async fn end(&self, child: &mut Child, input: ChildStdin) {
        let grace = self.settings.grace;
        let deadline = lacuna_runtime::clock::wall() + grace;
        let text = format!("{:.3}\n", deadline.unix_seconds());
        if let Err(error) = std::fs::write(&self.files.deadline, text) {
            tracing::warn!(node = %self.node, %error, "deadline not written");
        }
        drop(input);
        let limit = grace.to_std() + GUARD_GRACE;
        if tokio::time::timeout(limit, child.wait()).await.is_err() {
            // The guard itself does not answer.
            self.metrics.guard_killed();
            let group = child.id().and_then(|id| i32::try_from(id).ok());
            if let Some(group) = group {
                let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
            }
        }
    }

    fn spawn(&self) -> Result<(Child, ChildStdin), String> {
        let Launch::Command {
            program,
            args,
            env,
            checkpoint_dir,
            profile: _,
        } = &self.assignment.launch
        else {
            return Err("not a trainer with a program".to_owned());
        };
        let in_dir = |e: std::io::Error| format!("{}: {e}", self.files.dir.display());
        let output = self.files.prepare().map_err(in_dir)?;
        let run = self.assignment.run;
        self.files.begin(run, 0).map_err(in_dir)?;
        let errors = output.try_clone().map_err(in_dir)?;
        let mut command = std::process::Command::new(&self.settings.guard);
        command
            .arg(GUARD)
            .arg(self.settings.grace.as_ms().max(0).to_string())
            .arg(&self.files.code)
            .arg(program)
            .args(args)
            .envs(env)
            .envs(self.environment(checkpoint_dir.as_deref()))
            .env_remove("LACUNA_PARENT_PIPE")
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

    fn environment(&self, checkpoint_dir: Option<&str>) -> Vec<(&'static str, String)> {
        let a = &self.assignment;
        let members: Vec<&str> = a.members.iter().map(|m| m.node.as_str()).collect();
        let total = match a.work {
            Work::Samples(samples) => samples.to_string(),
            Work::UntilExit => String::new(),
        };
        let path = |path: &PathBuf| {
            std::path::absolute(path)
                .unwrap_or_else(|_| path.clone())
                .display()
                .to_string()
        };
        vec![
            ("LACUNA_TRAINER", a.trainer.to_string()),
            ("LACUNA_RUN", a.run.0.to_string()),
            ("LACUNA_NODE", self.node.to_string()),
            ("LACUNA_RANK", a.rank.to_string()),
            ("LACUNA_WORLD_SIZE", a.members.len().to_string()),
            ("LACUNA_MEMBERS", members.join(",")),
            (
                "LACUNA_LEADER",
                members.first().copied().unwrap_or_default().to_owned(),
            ),
            ("LACUNA_PROGRESS_FILE", path(&self.files.progress)),
            ("LACUNA_DEADLINE_FILE", path(&self.files.deadline)),
            (
                "LACUNA_CHECKPOINT_DIR",
                checkpoint_dir.unwrap_or_default().to_owned(),
            ),
            (
                "LACUNA_CHECKPOINT",
                a.checkpoint.clone().unwrap_or_default(),
            ),
            ("LACUNA_SAMPLES_DONE", a.samples_before.to_string()),
            ("LACUNA_SAMPLES_TOTAL", total),
        ]
    }

    /// Reads new progress; rank 0 tells the newest of it, and of the newest checkpoint.
    fn look(&self, seen: &mut Seen) {
        let lines = seen.tail.read();
        self.metrics.garbage(seen.tail.garbage() - seen.garbage);
        seen.garbage = seen.tail.garbage();
        for line in &lines {
            if let Some(checkpoint) = &line.checkpoint {
                seen.saved = Some((checkpoint.clone(), line.samples));
            }
        }
        if let (Some(line), 0) = (lines.last(), self.assignment.rank) {
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
        }
    }

    fn exited(&self, code: i32, reason: String) {
        let _ = self.told.send(Happened::Exited {
            node: self.node.clone(),
            run: self.assignment.run,
            code,
            reason,
        });
    }
}
