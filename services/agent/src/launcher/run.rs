//! One program on one node, from its start to its end.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use lacuna_model::{Assignment, Launch, NodeId, Progress, RunId, Timestamp};
use lacuna_runtime::ClusterClock;
use nix::unistd::Pid;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::Instant;

use super::devices::Devices;
use super::environment::{PROGRESS_FILE, command_line, environment, passed};
use super::files::{Files, last_lines};
use super::names::Names;
use super::talk::{LastHeard, Said, Talk};
use super::{Happened, Settings};
use crate::guard::{GUARD, code};
use crate::metrics::Metrics;
use crate::safety::Ward;
use crate::tail::{Line, Tail};

/// Longest last words.
const WORDS: usize = 300;
/// Longest wait for a word that a program had said before it ended, and for all of them.
const LAST_WORD: Duration = Duration::from_millis(200);
const LAST_WORDS: Duration = Duration::from_secs(1);
/// A program's reports are told no faster than this: of those between, the newest of each run,
/// and of so many runs.
const REPORTS: Duration = Duration::from_millis(200);
const RUNS: usize = 4;
/// Longest wait for a file of the program: its file system may hang.
const FILES: Duration = Duration::from_secs(2);
/// While a device is open, processes are looked at this often.
const DEVICES: Duration = Duration::from_millis(100);
/// Longest wait until a guard has taken the program's environment.
const HANDOVER: Duration = Duration::from_secs(5);
/// Before there is a program, whether it is still wanted is looked at this often.
const WANTED: Duration = Duration::from_millis(20);
/// Last words of what was told to stop before there was a program.
const TOLD: &str = "told to stop before its start";

/// What a program is to do besides ending, which its ward is told.
#[derive(Debug)]
pub(super) enum Order {
    /// Be a member of this run from now on.
    Run(Box<Assignment>),
    /// It is about to be told to stop: until when it may save.
    Leave(Timestamp),
}

/// What was read of a program's progress file, on threads that may wait for its file system.
struct Seen {
    /// Absent while it is read.
    tail: Option<Tail>,
    reading: Option<JoinHandle<(Tail, Vec<Line>)>>,
    garbage: u64,
    /// The newest checkpoint of this run, and the samples that it covers.
    saved: Option<(String, f64)>,
}

impl Seen {
    fn new(tail: Tail) -> Self {
        Self {
            tail: Some(tail),
            reading: None,
            garbage: 0,
            saved: None,
        }
    }

    /// Begins to read on, unless it still does.
    fn read(&mut self) {
        if let Some(mut tail) = self.tail.take() {
            self.reading = Some(spawn_blocking(move || {
                let lines = tail.read();
                (tail, lines)
            }));
        }
    }

    /// The lines that were read; waits while nothing is being read.
    async fn lines(&mut self) -> Vec<Line> {
        let Some(reading) = &mut self.reading else {
            return std::future::pending().await;
        };
        let read = reading.await;
        self.reading = None;
        let Ok((tail, lines)) = read else {
            return Vec::new();
        };
        self.tail = Some(tail);
        lines
    }

    /// All that is still to be read, unless the file system hangs.
    async fn rest(&mut self) -> Vec<Line> {
        let rest = async {
            let mut lines = Vec::new();
            if self.reading.is_some() {
                lines = self.lines().await;
            }
            self.read();
            lines.extend(self.lines().await);
            lines
        };
        tokio::time::timeout(FILES, rest).await.unwrap_or_default()
    }
}

/// Reports of a program that regroups, no faster than they may be told: the newest of each run, and
/// of the newest runs.
#[derive(Default)]
struct Pace {
    told: Option<Instant>,
    held: BTreeMap<RunId, Progress>,
}

impl Pace {
    fn hold(&mut self, report: Progress) {
        self.held.insert(report.run, report);
        if self.held.len() > RUNS {
            self.held.pop_first();
        }
    }

    /// Waits until what is held may be told, and takes it.
    async fn next(&mut self) -> BTreeMap<RunId, Progress> {
        if self.held.is_empty() {
            return std::future::pending().await;
        }
        if let Some(told) = self.told {
            tokio::time::sleep_until(told + REPORTS).await;
        }
        self.told = Some(Instant::now());
        std::mem::take(&mut self.held)
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
    /// Who ends it, and who else it may be ended by.
    pub(super) ward: Ward,
    pub(super) files: Files,
    pub(super) settings: Settings,
    /// Where it is learned who trains with it.
    pub(super) names: Names,
    pub(super) clock: ClusterClock,
    pub(super) metrics: Metrics,
    pub(super) told: mpsc::UnboundedSender<Happened>,
}

impl Run {
    pub(super) async fn live(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        let started = match self.members(&mut orders).await {
            Ok(members) => self.start(&members).await.map(|made| (members, made)),
            Err(reason) => Err(reason),
        };
        let (members, (mut talk, mut child)) = match started {
            Ok(started) => started,
            Err(reason) => {
                let told = self.finish().await;
                return self.ended(told, 127, reason);
            }
        };
        let devices = child.id().and_then(|guard| self.devices(guard));
        let mut seen = Seen::new(Tail::new(self.files.progress.clone()));
        let mut pace = Pace::default();
        let mut poll = tokio::time::interval(self.settings.poll_every.to_std());
        poll.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut hung = false;
        let (mut gone, mut alone) = (false, false);
        let last = talk.is_some().then(|| self.last.clone());
        let (started, settings) = (Instant::now(), self.settings.clone());
        if self.member
            && let Some(talk) = &talk
        {
            talk.run(&self.assignment, &members);
        }
        drop(members);
        // Who trains in a run that it is to be told of, and why that cannot be learned.
        let mut asked: Option<Asked> = None;
        let mut unknown: Option<String> = None;
        let status = loop {
            tokio::select! {
                status = child.wait() => break status,
                order = orders.recv(), if !alone => match order {
                    Some(Order::Run(next)) => {
                        self.join(*next);
                        asked = Some(self.ask());
                    }
                    Some(Order::Leave(deadline)) => if let Some(talk) = &talk {
                        talk.leave(deadline);
                    },
                    // An agent that is gone wants it to stop.
                    None => {
                        alone = true;
                        self.ward.stop();
                    }
                },
                members = answer(&mut asked) => match members {
                    Ok(members) => if let Some(talk) = &talk {
                        talk.run(&self.assignment, &members);
                    },
                    Err(reason) => {
                        tracing::warn!(node = %self.node, trainer = %self.assignment.trainer,
                            reason, "killing a program that cannot be told of its run");
                        unknown = Some(reason);
                        self.ward.kill_hung();
                    }
                },
                said = heard(talk.as_mut()) => gone = self.said(said, &mut pace),
                reports = pace.next() => reports.into_values().for_each(|one| self.tell(one)),
                () = silence(last.as_ref(), started, &settings), if !hung => {
                    tracing::warn!(node = %self.node, trainer = %self.assignment.trainer,
                        "program says nothing, killing it");
                    self.metrics.hung();
                    hung = true;
                    self.ward.kill_hung();
                }
                lines = seen.lines() => self.look(&mut seen, &lines),
                _ = poll.tick() => seen.read(),
            }
        };
        let told = self.finish().await;
        let held = self.devices_closed(devices).await;
        // What it had said before it ended. One that never spoke has nothing to say.
        let spoke = last.as_ref().is_some_and(|last| last.get().is_some());
        let end = Instant::now() + LAST_WORDS;
        while spoke && !gone && Instant::now() < end {
            let Ok(said) = tokio::time::timeout(LAST_WORD, heard(talk.as_mut())).await else {
                break;
            };
            gone = self.said(said, &mut pace);
        }
        std::mem::take(&mut pace.held)
            .into_values()
            .for_each(|one| self.tell(one));
        let lines = seen.rest().await;
        self.look(&mut seen, &lines);
        let words = self.last_words().await;
        let code = if unknown.is_some() {
            127
        } else {
            exit_code(status)
        };
        let words = if let Some(unknown) = unknown {
            unknown
        } else if hung && !spoke {
            format!(
                "said nothing for {} since its start",
                self.settings.agent.start_limit
            )
        } else if hung {
            format!("said nothing for {}", self.settings.agent.hang_after)
        } else {
            words
        };
        let words = match held {
            Some(held) if words.is_empty() => held,
            Some(held) => format!("{words} ({held})"),
            None => words,
        };
        self.ended(told, code, words);
    }

    /// Asks who trains in its run.
    fn ask(&self) -> Asked {
        let limit = self.settings.agent.start_limit.to_std();
        let (part, node) = (self.assignment.clone(), self.node.clone());
        self.names.clone().of(part, node, limit).boxed()
    }

    /// Who trains in the run that it begins with. Whoever wants its end does not wait for that.
    async fn members(
        &mut self,
        orders: &mut mpsc::UnboundedReceiver<Order>,
    ) -> Result<Vec<NodeId>, String> {
        let mut asked = self.ask();
        let ward = self.ward.clone();
        let unwanted = async {
            while !ward.told() {
                tokio::time::sleep(WANTED).await;
            }
        };
        tokio::pin!(unwanted);
        loop {
            tokio::select! {
                members = &mut asked => return members,
                () = &mut unwanted => return Err(TOLD.to_owned()),
                order = orders.recv() => match order {
                    Some(Order::Run(next)) => {
                        self.assignment = *next;
                        self.member = true;
                        asked = self.ask();
                    }
                    // Its ward is told, too.
                    Some(Order::Leave(_)) => {}
                    // An agent that is gone wants it to stop.
                    None => {
                        self.ward.stop();
                        return Err(TOLD.to_owned());
                    }
                },
            }
        }
    }

    /// Its program is a member of this run from now on.
    fn join(&mut self, next: Assignment) {
        self.assignment = next;
        // A successor of this agent must not begin it once more.
        if let Err(error) = self.files.begin(self.assignment.run) {
            tracing::warn!(node = %self.node, %error, "run not noted");
        }
    }

    /// Nothing of the program is left after this. Returns whether it had been told to end.
    async fn finish(&self) -> bool {
        let ward = self.ward.clone();
        spawn_blocking(move || ward.finish()).await.unwrap_or(false)
    }

    /// What to look for when its guard has ended.
    fn devices(&self, guard: u32) -> Option<Devices> {
        let guard = Pid::from_raw(i32::try_from(guard).ok()?);
        let mark = std::path::absolute(&self.files.progress).ok()?;
        Devices::of(&self.settings.agent.devices, &mark, guard)
    }

    /// Waits until no device is open any more, for `device_wait` at most. Says who has one open
    /// then.
    async fn devices_closed(&self, devices: Option<Devices>) -> Option<String> {
        let devices = devices?;
        let limit = Instant::now() + self.settings.agent.device_wait.to_std();
        loop {
            let look = devices.clone();
            let held = spawn_blocking(move || look.holders()).await.ok()?;
            let first = held.first()?;
            if Instant::now() >= limit {
                let (pid, device) = (first.pid, first.device.display());
                self.metrics.device_held();
                tracing::error!(node = %self.node, trainer = %self.assignment.trainer, %pid,
                    %device, processes = held.len(), "node given back with an open device");
                return Some(format!("process {pid} keeps {device} open"));
            }
            tokio::time::sleep(DEVICES).await;
        }
    }

    /// The last line that the program has printed; its files are cleared.
    async fn last_words(&self) -> String {
        let files = self.files.clone();
        let read = spawn_blocking(move || {
            let words = last_lines(&files.output, 1).pop().unwrap_or_default();
            files.clear();
            words
        });
        let read = tokio::time::timeout(FILES, read).await;
        let words = read.ok().and_then(Result::ok).unwrap_or_default();
        words.chars().take(WORDS).collect()
    }

    fn ended(&self, told: bool, code: i32, reason: String) {
        let (node, run) = (self.node.clone(), self.started);
        let _ = self.told.send(if told {
            Happened::Stopped { node, run }
        } else {
            Happened::Exited {
                node,
                run,
                code,
                reason,
            }
        });
    }

    fn listen(&self) -> Result<Option<Talk>, String> {
        if !self.assignment.launch.regroups() {
            return Ok(None);
        }
        Talk::listen(self.last.clone())
            .map(Some)
            .map_err(|e| format!("no socket for the program: {e}"))
    }

    async fn start(&self, members: &[NodeId]) -> Result<(Option<Talk>, Child), String> {
        let talk = self.listen()?;
        let child = self.spawn(members, talk.as_ref()).await?;
        Ok((talk, child))
    }

    async fn spawn(&self, members: &[NodeId], talk: Option<&Talk>) -> Result<Child, String> {
        let line = command_line(&self.assignment, &self.settings.agent.torchrun, &self.files)?;
        let Launch::Command { env, program, .. } = &*self.assignment.launch else {
            return Err("not a trainer with a program".to_owned());
        };
        let in_dir = |e: std::io::Error| format!("{}: {e}", self.files.dir.display());
        let output = self.files.prepare().map_err(in_dir)?;
        let run = self.assignment.run;
        self.files.begin(run).map_err(in_dir)?;
        let errors = output.try_clone().map_err(in_dir)?;
        // What the submitter wants reaches the program alone, through its guard's input.
        let mut theirs = env.clone();
        let ours = environment(&self.assignment, &self.node, members, &self.files);
        theirs.extend(
            ours.into_iter()
                .map(|(name, value)| (name.to_owned(), value)),
        );
        if let Some(talk) = talk {
            let socket = talk.path().display().to_string();
            theirs.insert("LACUNA_SOCKET".to_owned(), socket);
        }
        let mark = theirs.get(PROGRESS_FILE).cloned().unwrap_or_default();
        let mut command = std::process::Command::new(&self.settings.guard);
        command
            .arg(GUARD)
            .arg(self.settings.agent.grace.as_ms().max(0).to_string())
            .arg(&self.files.deadline)
            .args(line)
            .env_clear()
            .envs(passed(std::env::vars_os(), &self.settings.agent.pass_env))
            .env(PROGRESS_FILE, mark)
            .stdin(Stdio::piped())
            .stdout(output)
            .stderr(errors)
            .process_group(0);
        let mut child = self
            .ward
            .start(|| {
                let child = tokio::process::Command::from(command).spawn()?;
                let pid = child.id();
                Ok::<_, std::io::Error>((child, pid))
            })
            .map_err(|e| format!("cannot start {}: {e}", self.settings.guard.display()))?;
        let input = child.stdin.take().ok_or("no way to stop the program")?;
        let handed = tokio::time::timeout(HANDOVER, hand_over(input, &theirs)).await;
        match handed {
            Ok(Ok(input)) => self.ward.hold(input),
            // Its input has ended, and nothing was started: its end follows.
            Ok(Err(error)) => tracing::warn!(node = %self.node, %error, "program not started"),
            Err(_) => tracing::warn!(node = %self.node, "the guard takes nothing"),
        }
        self.metrics.started();
        tracing::info!(node = %self.node, trainer = %self.assignment.trainer,
            run = run.0, program, "program started");
        Ok(child)
    }

    /// What a program that regroups says. Returns whether it has hung up.
    fn said(&self, said: Said, pace: &mut Pace) -> bool {
        match said {
            Said::Gone => return true,
            Said::Ready => {
                let (node, run) = (self.node.clone(), self.started);
                let _ = self.told.send(Happened::Ready { node, run });
            }
            Said::Progress(line) => {
                let progress = Progress {
                    node: self.node.clone(),
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
                pace.hold(progress);
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

    /// Takes new progress; rank 0 tells the newest of it, and of the newest checkpoint. Torchrun
    /// ranks its workers itself, so there whoever writes is heard.
    fn look(&self, seen: &mut Seen, lines: &[Line]) {
        if let Some(tail) = &seen.tail {
            self.metrics.garbage(tail.garbage() - seen.garbage);
            seen.garbage = tail.garbage();
        }
        for line in lines {
            if let Some(checkpoint) = &line.checkpoint {
                seen.saved = Some((checkpoint.clone(), line.samples));
            }
        }
        let heard = self.assignment.rank == 0 || self.assignment.launch.by_torchrun();
        if let Some(line) = lines.last().filter(|_| heard) {
            self.tell(self.progress(line, seen.saved.clone()));
        }
    }

    fn tell(&self, progress: Progress) {
        let _ = self.told.send(Happened::Progress(progress));
    }

    fn progress(&self, line: &Line, saved: Option<(String, f64)>) -> Progress {
        let (checkpoint, saved) = saved.unzip();
        Progress {
            node: self.node.clone(),
            trainer: self.assignment.trainer.clone(),
            run: self.assignment.run,
            at: self.clock.now(),
            samples: line.samples,
            owed: 0.0,
            step: line.step,
            world_size: line.world_size.unwrap_or(self.assignment.nodes),
            loss: line.loss,
            checkpoint,
            saved,
            base: None,
        }
    }
}

/// Writes the program's environment to its guard, which starts it then. Gives the input back, to
/// be held.
async fn hand_over(
    mut input: ChildStdin,
    environment: &BTreeMap<String, String>,
) -> std::io::Result<OwnedFd> {
    let mut line = serde_json::to_vec(environment)?;
    line.push(b'\n');
    input.write_all(&line).await?;
    input.into_owned_fd()
}

fn exit_code(status: std::io::Result<ExitStatus>) -> i32 {
    status.map_or(127, code)
}

/// What has been learned of who trains in a run.
type Asked = BoxFuture<'static, Result<Vec<NodeId>, String>>;

/// The answer, if one is waited for.
async fn answer(asked: &mut Option<Asked>) -> Result<Vec<NodeId>, String> {
    let Some(one) = asked else {
        return std::future::pending().await;
    };
    let members = one.await;
    *asked = None;
    members
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
            Some(last) => last + settings.agent.hang_after.to_std(),
            None => started + settings.agent.start_limit.to_std(),
        };
        if end <= Instant::now() {
            return;
        }
        tokio::time::sleep_until(end).await;
    }
}
