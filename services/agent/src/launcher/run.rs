//! One program on one node, from its start to its end.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use lacuna_model::{Assignment, Ending, Launch, NodeId, Program, Progress, RunId, Timestamp};
use lacuna_owner::Account;
use lacuna_runtime::{ClusterClock, clock, task};
use lacuna_trainer::agent::Exit;
use nix::unistd::{Pid, geteuid};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::Instant;

use super::costs::Costs;
use super::crew::{Crew, LastMessages};
use super::devices::Devices;
use super::environment::{command_line, environment, is_personal, of_account, passed, threads};
use super::failure::Failure;
use super::files::{Files, last_lines, telling};
use super::front;
use super::names::Names;
use super::past;
use super::talk::{FromProgram, Message, Talk};
use super::{LauncherEvent, Settings};
use crate::account::of_program;
use crate::guard::{GUARD, PROGRESS_FILE, SUSPENDED, Surroundings, Task, code};
use crate::metrics::Metrics;
use crate::removal::{Remover, Temporary};
use crate::safety::Ward;
use crate::tail::{Line, Tail};

/// Lines at the end of an output in which the reason of its end is looked for.
const LAST_LINES: usize = 400;
/// Longest wait for one message that a program had sent before its end, and for all of them.
const LAST_MESSAGE: Duration = Duration::from_millis(200);
const LAST_MESSAGES: Duration = Duration::from_secs(1);
/// Least time between two reports of a program. Between them only the newest report of each run is
/// kept, for this number of runs.
const REPORTS: Duration = Duration::from_millis(200);
const RUNS: usize = 4;
/// Longest wait for a file of the program, since its file system may hang.
const FILES: Duration = Duration::from_secs(2);
/// Time between two checks of processes while a device is open.
const DEVICES: Duration = Duration::from_millis(100);
/// Longest wait until a guard has read the program's environment.
const HANDOVER: Duration = Duration::from_secs(5);
/// Without this variable Python keeps back what it prints to files, as workers of torchrun do.
const UNBUFFERED: &str = "PYTHONUNBUFFERED";
/// Longest wait for the account of an owner.
const LOOKUP: Duration = Duration::from_secs(5);
/// Time between two checks whether a program that has not started is still wanted.
const WANTED: Duration = Duration::from_millis(20);
/// The last line of a program that was stopped before its start.
const NOT_STARTED: &str = "stopped before its start";

/// An order to a running program. Its ward ends it.
#[derive(Debug)]
pub enum Order {
    /// Join this incarnation.
    Run(Box<Assignment>),
    /// The program is about to be stopped. It may save until this time.
    Leave(Timestamp),
}

/// The lines of a program's progress file, read on threads that may wait for its file system.
struct Seen {
    /// Absent during a read.
    tail: Option<Tail>,
    output: PathBuf,
    /// When the length of the output was noted.
    noted: Instant,
    reading: Option<JoinHandle<(Tail, Vec<Line>)>>,
    garbage: u64,
    /// The newest checkpoint of this run, with the samples that it covers.
    saved: Option<(String, f64)>,
    costs: Costs,
}

impl Seen {
    fn new(files: &Files) -> Self {
        Self {
            tail: Some(Tail::new(files.progress.clone())),
            output: files.output.clone(),
            noted: Instant::now(),
            reading: None,
            garbage: 0,
            saved: None,
            costs: Costs::default(),
        }
    }

    /// Starts a read, unless one is running.
    fn read(&mut self) {
        if let Some(mut tail) = self.tail.take() {
            let is_due = self.noted.elapsed() >= past::EVERY.to_std();
            if is_due {
                self.noted = Instant::now();
            }
            let output = is_due.then(|| self.output.clone());
            self.reading = Some(spawn_blocking(move || {
                if let Some(output) = output {
                    past::note_length(&output);
                }
                let lines = tail.read();
                (tail, lines)
            }));
        }
    }

    /// The lines of the running read. Without one this waits.
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

    /// All remaining lines, unless the file system hangs.
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

/// Reports of a program that regroups, at a limited rate: the newest of each run, of the newest
/// runs.
#[derive(Default)]
struct ReportPace {
    sent: Option<Instant>,
    held: BTreeMap<RunId, Progress>,
    costs: Costs,
}

impl ReportPace {
    fn hold(&mut self, mut report: Progress) {
        if let Some(before) = self.held.remove(&report.run) {
            if report.step_costs.is_none() && report.no_replay.is_none() {
                report.step_costs = before.step_costs;
                report.no_replay = before.no_replay;
            }
            report.learning = report.learning.or(before.learning);
        }
        self.held.insert(report.run, report);
        if self.held.len() > RUNS {
            self.held.pop_first();
        }
    }

    /// Waits until the pending reports may be sent, and takes them.
    async fn next(&mut self) -> BTreeMap<RunId, Progress> {
        if self.held.is_empty() {
            return std::future::pending().await;
        }
        if let Some(sent) = self.sent {
            tokio::time::sleep_until(sent + REPORTS).await;
        }
        self.sent = Some(Instant::now());
        std::mem::take(&mut self.held)
    }
}

/// The account of a program that does not run under the agent's.
struct Owned {
    account: Account,
    /// Its temporary folder.
    folder: Temporary,
}

/// A program that was started.
struct Started {
    talk: Option<Talk>,
    guard: Child,
    owned: Option<Owned>,
}

/// One program on one node.
pub(super) struct Run {
    pub(super) node: NodeId,
    /// The incarnation under which it was started, which identifies it.
    pub(super) started: RunId,
    /// The present assignment.
    pub(super) assignment: Assignment,
    /// Whether the program is already a member of that incarnation.
    pub(super) member: bool,
    /// The times of its workers' last messages.
    pub(super) heard: LastMessages,
    /// The handle that ends the program.
    pub(super) ward: Ward,
    pub(super) files: Files,
    /// Removes what the program has left behind.
    pub(super) remover: Remover,
    pub(super) settings: Settings,
    /// The source of the names of its members.
    pub(super) names: Names,
    pub(super) clock: ClusterClock,
    pub(super) metrics: Metrics,
    pub(super) events: mpsc::UnboundedSender<LauncherEvent>,
}

impl Run {
    pub(super) async fn live(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        let started = match self.members(&mut orders).await {
            Ok(members) => self.start(&members).await.map(|made| (members, made)),
            Err(reason) => Err(reason),
        };
        let (members, started) = match started {
            Ok(started) => started,
            Err(reason) => {
                let stopped = self.finish().await;
                return self.ended(stopped, Exit::new(127, reason, Some(clock::wall())));
            }
        };
        let Started {
            mut talk,
            guard: mut child,
            owned,
        } = started;
        let devices = child
            .id()
            .and_then(|guard| self.devices(guard, owned.as_ref()));
        let mut seen = Seen::new(&self.files);
        let mut pace = ReportPace::default();
        let mut poll = tokio::time::interval(self.settings.poll_every.to_std());
        poll.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        // The worker that hangs, with the reason.
        let mut hung: Option<String> = None;
        let (mut gone, mut alone) = (false, false);
        let mut crew = Crew::new(self.workers());
        let heard = talk.is_some().then(|| self.heard.clone());
        let (started, settings) = (Instant::now(), self.settings.clone());
        if self.member
            && let Some(talk) = &talk
        {
            talk.run(&self.assignment, &members);
        }
        drop(members);
        // The request for the members of an incarnation to join.
        let mut asked: Option<Asked> = None;
        // Why the program cannot be a member: of unknown others, or with its workers.
        let mut unfit: Option<String> = None;
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
                    // An agent that has ended stops its programs.
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
                            reason, "killing a program that cannot join its incarnation");
                        unfit = Some(reason);
                        self.ward.kill_hung();
                    }
                },
                message = next_message(talk.as_mut()) => match message.what {
                    FromProgram::Stranger(reason) => {
                        tracing::warn!(node = %self.node, trainer = %self.assignment.trainer,
                            worker = message.worker, reason, "killing a program");
                        unfit.get_or_insert(reason);
                        self.ward.kill_hung();
                    }
                    _ => gone = self.handle(message, &mut crew, &mut pace),
                },
                reports = pace.next() => reports.into_values().for_each(|one| self.report(one)),
                worker = silence(heard.as_ref(), started, &settings), if hung.is_none() => {
                    tracing::warn!(node = %self.node, trainer = %self.assignment.trainer, worker,
                        "program is silent, killing it");
                    self.metrics.hung();
                    hung = Some(self.silent(worker));
                    self.heard.hung(worker);
                    self.ward.kill_hung();
                }
                lines = seen.lines() => self.take_progress(&mut seen, &lines),
                _ = poll.tick() => seen.read(),
            }
        };
        let ended = clock::wall();
        let stopped = self.finish().await;
        let by_signal = status.as_ref().ok().and_then(ExitStatus::signal);
        let is_suspended = by_signal == Some(SUSPENDED as i32)
            && !stopped
            && unfit.is_none()
            && hung.is_none()
            && crew.ending() != Some(Ending::Exiting);
        let held = self.devices_closed(devices).await;
        let account = owned.map(|owned| owned.account);
        // Messages that the program had sent before its end. A program that never sent one has
        // none.
        let spoke = heard.as_ref().is_some_and(LastMessages::any);
        let end = Instant::now() + LAST_MESSAGES;
        while spoke && !gone && Instant::now() < end {
            let next = tokio::time::timeout(LAST_MESSAGE, next_message(talk.as_mut()));
            let Ok(message) = next.await else {
                break;
            };
            gone = self.handle(message, &mut crew, &mut pace);
        }
        std::mem::take(&mut pace.held)
            .into_values()
            .for_each(|one| self.report(one));
        drop(talk);
        let lines = seen.rest().await;
        self.take_progress(&mut seen, &lines);
        let last = self.last_line(account).await;
        let killed = unfit.is_none() && hung.is_some();
        let code = match unfit {
            Some(_) => 127,
            None => crew.exit_code(exit_code(status)),
        };
        let told = seen.tail.as_ref().filter(|_| code != 0);
        let told = told.and_then(|tail| Failure::first(tail.failed(), &last));
        let words = unfit.or(hung);
        let failure = match (words, told) {
            (Some(words), _) => Failure {
                at: ended,
                words,
                lost_peer: false,
            },
            (None, Some(told)) => told,
            (None, None) => Failure::new(ended, &last),
        };
        let reason = failure.words;
        let reason = match held {
            Some(held) if reason.is_empty() => held,
            Some(held) => format!("{reason} ({held})"),
            None => reason,
        };
        self.note_end(stopped || is_suspended, code).await;
        if is_suspended {
            let (node, run) = (self.node.clone(), self.started);
            let _ = self.events.send(LauncherEvent::Suspended { node, run });
            return;
        }
        self.ended(
            stopped,
            Exit {
                code,
                reason,
                killed,
                at: Some(failure.at),
                lost_peer: failure.lost_peer && code != 0,
            },
        );
    }

    fn workers(&self) -> u32 {
        self.assignment.launch.workers_per_node()
    }

    /// The reason to end a program with a silent worker.
    fn silent(&self, worker: u32) -> String {
        let agent = &self.settings.agent;
        let silence = if self.heard.may_be_silent(worker) {
            format!("was silent for {} while it ended", agent.grace)
        } else if self.heard.has_spoken(worker) {
            format!("was silent for {}", agent.hang_after)
        } else {
            format!("was silent for {} since its start", agent.start_limit)
        };
        match self.workers() {
            1 => silence,
            workers => format!("worker {worker} of {workers} {silence}"),
        }
    }

    /// Requests the members of its incarnation.
    fn ask(&self) -> Asked {
        let limit = self.settings.agent.start_limit.to_std();
        let (part, node) = (self.assignment.clone(), self.node.clone());
        self.names.clone().of(part, node, limit).boxed()
    }

    /// The members of its first incarnation. A stop ends the wait.
    async fn members(
        &mut self,
        orders: &mut mpsc::UnboundedReceiver<Order>,
    ) -> Result<Vec<NodeId>, String> {
        let mut asked = self.ask();
        let ward = self.ward.clone();
        let unwanted = async {
            while !ward.is_stopping() {
                tokio::time::sleep(WANTED).await;
            }
        };
        tokio::pin!(unwanted);
        loop {
            tokio::select! {
                members = &mut asked => return members,
                () = &mut unwanted => return Err(NOT_STARTED.to_owned()),
                order = orders.recv() => match order {
                    Some(Order::Run(next)) => {
                        self.assignment = *next;
                        self.member = true;
                        asked = self.ask();
                    }
                    // The ward is stopped too.
                    Some(Order::Leave(_)) => {}
                    // An agent that has ended stops its programs.
                    None => {
                        self.ward.stop();
                        return Err(NOT_STARTED.to_owned());
                    }
                },
            }
        }
    }

    /// Makes the program a member of this incarnation.
    fn join(&mut self, next: Assignment) {
        self.assignment = next;
        // A later agent must not begin the incarnation again.
        if let Err(error) = self.files.begin(self.assignment.run) {
            tracing::warn!(node = %self.node, %error, "run not recorded");
        }
    }

    /// Ends all remaining processes of the program. Returns whether it had been stopped.
    pub(super) async fn finish(&self) -> bool {
        let ward = self.ward.clone();
        let finished = task::blocking(move || ward.finish());
        finished.await.unwrap_or(false)
    }

    /// The devices to check when its guard has ended.
    fn devices(&self, guard: u32, owned: Option<&Owned>) -> Option<Devices> {
        let guard = Pid::from_raw(i32::try_from(guard).ok()?);
        let mark = std::path::absolute(&self.files.progress).ok()?;
        let uid = owned.map_or_else(|| geteuid().as_raw(), |owned| owned.account.uid);
        Devices::of(&self.settings.agent.devices, &mark, guard, uid)
    }

    /// Waits until no device is open any more, for `device_wait` at most. Returns the processes
    /// that keep one open then.
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

    /// The line of the program's output that says why it ended. Its files are removed.
    async fn last_line(&self, account: Option<Account>) -> String {
        let (files, remover) = (self.files.clone(), self.remover.clone());
        let read = spawn_blocking(move || {
            let words = telling(&last_lines(&files.output, LAST_LINES));
            if let Err(error) = files.clear(account.as_ref(), &remover) {
                tracing::warn!(folder = %files.dir.display(), %error, "files not removed");
            }
            words
        });
        let read = tokio::time::timeout(FILES, read).await;
        read.ok().and_then(Result::ok).unwrap_or_default()
    }

    /// Notes beside its output how the program ended.
    async fn note_end(&self, stopped: bool, code: i32) {
        let how = match stopped {
            true => "stopped".to_owned(),
            false => format!("exit code {code}"),
        };
        let output = self.files.output.clone();
        let note = spawn_blocking(move || past::note(&output, &format!("end {how}")));
        let _ = tokio::time::timeout(FILES, note).await;
    }

    pub(super) fn ended(&self, stopped: bool, exit: Exit) {
        let (node, run) = (self.node.clone(), self.started);
        let _ = self.events.send(if stopped {
            LauncherEvent::Stopped { node, run }
        } else {
            LauncherEvent::Exited { node, run, exit }
        });
    }

    /// The account of the program, if it is not the agent's.
    async fn owned(&self) -> Result<Option<Owned>, String> {
        let (part, agent) = (self.assignment.clone(), self.settings.agent.clone());
        let owner = part.owner.as_deref();
        if let Some(ticket) = &self.settings.ticket
            && !ticket.permits(&part.trainer, owner, &part.launch)
        {
            return Err(format!(
                "this pilot is for one program of {}'s trainer {}, by its ticket: no other starts",
                ticket.owner, ticket.trainer
            ));
        }
        let found = spawn_blocking(move || of_program(&part, &agent));
        let found = tokio::time::timeout(LOOKUP, found).await;
        let found = found.map_err(|_| "the directory of users does not answer".to_owned())?;
        let account = found.map_err(|error| error.to_string())?;
        let Some(account) = account.map_err(|error| error.to_string())? else {
            return Ok(None);
        };
        let folder = Temporary::new(&self.remover, Some(&account));
        let folder = folder.and_then(|folder| folder.give().map(|()| folder));
        let folder = folder.map_err(|e| format!("no temporary folder for the program: {e}"))?;
        Ok(Some(Owned { account, folder }))
    }

    fn listen(&self, owned: Option<&Owned>) -> Result<Option<Talk>, String> {
        if !self.assignment.launch.regroups() {
            return Ok(None);
        }
        let account = owned.map(|owned| &owned.account);
        Talk::listen(self.heard.clone(), account, &self.remover)
            .map(Some)
            .map_err(|e| format!("no socket for the program: {e}"))
    }

    async fn start(&self, members: &[NodeId]) -> Result<Started, String> {
        let owned = self.owned().await?;
        let talk = self.listen(owned.as_ref())?;
        let guard = self.spawn(members, talk.as_ref(), owned.as_ref()).await?;
        Ok(Started { talk, guard, owned })
    }

    async fn spawn(
        &self,
        members: &[NodeId],
        talk: Option<&Talk>,
        owned: Option<&Owned>,
    ) -> Result<Child, String> {
        let line = command_line(&self.assignment, &self.settings.agent.torchrun, &self.files)?;
        let Launch::Command(Program {
            env,
            program,
            directory,
            environment_from,
            ..
        }) = &*self.assignment.launch
        else {
            return Err("not a trainer with a program".to_owned());
        };
        let in_dir = |e: std::io::Error| format!("{}: {e}", self.files.dir.display());
        let account = owned.map(|owned| &owned.account);
        let output = self.files.prepare(account, &self.remover).map_err(in_dir)?;
        let run = self.assignment.run;
        self.files.begin(run).map_err(in_dir)?;
        let errors = output.try_clone().map_err(in_dir)?;
        past::note(&self.files.output, &past::start(run)).map_err(in_dir)?;
        // The submitter's variables reach the program only, through its guard's input.
        let mut theirs = env.clone();
        let ours = environment(&self.assignment, &self.node, members, &self.files);
        theirs.extend(
            ours.into_iter()
                .map(|(name, value)| (name.to_owned(), value)),
        );
        // torchrun starts its workers itself.
        let mut workers = 1;
        let mut passed = passed(std::env::vars_os(), &self.settings.agent.pass_env);
        if let Some(Owned { account, folder }) = owned {
            passed.retain(|(name, _)| !is_personal(name));
            for (name, value) in of_account(account, folder.path()) {
                theirs.entry(name.to_owned()).or_insert(value);
            }
        }
        if let Some(talk) = talk {
            let socket = talk.path().display().to_string();
            theirs.insert("LACUNA_SOCKET".to_owned(), socket);
            workers = self.workers();
            if let Some((name, count)) = threads(workers, &passed) {
                theirs.entry(name.to_owned()).or_insert(count);
            }
        }
        if self.assignment.launch.by_torchrun() {
            front::prepare(&self.files.front).map_err(in_dir)?;
            let folder = std::path::absolute(&self.files.front).map_err(in_dir)?;
            let searched = front::searched(&folder, &theirs, &passed);
            theirs.insert(front::SEARCHED.to_owned(), searched);
        }
        theirs
            .entry(UNBUFFERED.to_owned())
            .or_insert_with(|| "1".to_owned());
        let mark = theirs.get(PROGRESS_FILE).cloned().unwrap_or_default();
        let mut command = std::process::Command::new(&self.settings.guard);
        command
            .arg(GUARD)
            .arg(self.settings.agent.grace.as_ms().max(0).to_string())
            .arg(workers.to_string())
            .arg(&self.files.deadline)
            .args(line)
            .env_clear()
            .envs(passed)
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
        let task = Task {
            environment: theirs,
            account: account.cloned(),
            surroundings: Surroundings {
                directory: directory.clone(),
                own: std::path::absolute(&self.files.dir).map_err(in_dir)?,
                environment_from: environment_from.clone(),
            },
        };
        let handed = tokio::time::timeout(HANDOVER, hand_over(input, &task)).await;
        match handed {
            Ok(Ok(input)) => self.ward.hold(input),
            // The guard's input has ended and nothing was started, so the guard ends.
            Ok(Err(error)) => tracing::warn!(node = %self.node, %error, "program not started"),
            Err(_) => tracing::warn!(node = %self.node, "the guard does not read its input"),
        }
        self.metrics.started();
        tracing::info!(node = %self.node, trainer = %self.assignment.trainer,
            run = run.0, program, "program started");
        Ok(child)
    }

    /// Handles a message of a program that regroups. Returns whether the connections of all its
    /// workers have ended.
    fn handle(&self, message: Message, crew: &mut Crew, pace: &mut ReportPace) -> bool {
        let worker = message.worker;
        match message.what {
            FromProgram::Gone => return crew.gone(worker),
            FromProgram::Ready => {
                if crew.ready(worker) {
                    let (node, run) = (self.node.clone(), self.started);
                    let _ = self.events.send(LauncherEvent::Ready { node, run });
                }
            }
            // Rank 0 of a group is a first worker.
            FromProgram::Progress(_) if worker != 0 => {}
            FromProgram::Progress(line) => {
                let mut progress = Progress {
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
                    // The next run reports the samples in its state.
                    saved: None,
                    base: Some(line.base),
                    step_costs: None,
                    no_replay: None,
                    learning: line.worth.learning(),
                };
                pace.costs.tell(line.stalls.as_ref(), &mut progress);
                pace.hold(progress);
            }
            FromProgram::Group { run, broken } => {
                if let Some(broken) = crew.group(worker, run, broken) {
                    let _ = self.events.send(LauncherEvent::Group {
                        node: self.node.clone(),
                        run: self.started,
                        of: RunId(run),
                        broken,
                    });
                }
            }
            FromProgram::Ends(word) => {
                if let Some(ending) = crew.ends(worker, word) {
                    self.say_ending(ending);
                }
            }
            FromProgram::Garbage => self.metrics.garbage(1),
            // The program is being killed.
            FromProgram::Stranger(_) => {}
        }
        false
    }

    /// Takes new lines of progress. Rank 0 reports the newest one with the newest checkpoint.
    /// Where members rank themselves, any node reports.
    fn take_progress(&self, seen: &mut Seen, lines: &[Line]) {
        if let Some(tail) = &seen.tail {
            self.metrics.garbage(tail.garbage() - seen.garbage);
            seen.garbage = tail.garbage();
        }
        for line in lines {
            if let Some(checkpoint) = &line.checkpoint {
                seen.saved = Some((checkpoint.clone(), line.samples));
            }
        }
        if lines.iter().any(|line| line.done) {
            self.say_ending(Some(Ending::Done));
        }
        let reports = self.assignment.rank == 0 || self.assignment.launch.ranks_itself();
        if let Some(line) = lines.last().filter(|_| reports) {
            let said = lines.iter().rev().find_map(|line| line.stalls.as_ref());
            let mut progress = self.progress(line, seen.saved.clone());
            seen.costs.tell(said, &mut progress);
            progress.learning = lines.iter().rev().find_map(|line| line.worth.learning());
            self.report(progress);
        }
    }

    fn say_ending(&self, ending: Option<Ending>) {
        let (node, run) = (self.node.clone(), self.started);
        let _ = self.events.send(LauncherEvent::Ends { node, run, ending });
    }

    fn report(&self, progress: Progress) {
        let _ = self.events.send(LauncherEvent::Progress(progress));
    }

    fn progress(&self, line: &Line, saved: Option<(String, f64)>) -> Progress {
        let (checkpoint, saved) = saved.unzip();
        let (trainer, run) = (self.assignment.trainer.clone(), self.assignment.run);
        let now = self.clock.now();
        Progress {
            step: line.step,
            world_size: line.world_size.unwrap_or(self.assignment.nodes),
            loss: line.loss,
            checkpoint,
            saved,
            ..Progress::new(self.node.clone(), trainer, run, now, line.samples)
        }
    }
}

/// Writes the task to the program's guard, which then starts the program. Returns the input.
async fn hand_over(mut input: ChildStdin, task: &Task) -> std::io::Result<OwnedFd> {
    let mut line = serde_json::to_vec(task)?;
    line.push(b'\n');
    input.write_all(&line).await?;
    input.into_owned_fd()
}

fn exit_code(status: std::io::Result<ExitStatus>) -> i32 {
    status.map_or(127, code)
}

/// A request for the members of an incarnation.
type Asked = BoxFuture<'static, Result<Vec<NodeId>, String>>;

/// The answer of a running request.
async fn answer(asked: &mut Option<Asked>) -> Result<Vec<NodeId>, String> {
    let Some(one) = asked else {
        return std::future::pending().await;
    };
    let members = one.await;
    *asked = None;
    members
}

async fn next_message(talk: Option<&mut Talk>) -> Message {
    match talk {
        Some(talk) => talk.next().await,
        None => std::future::pending().await,
    }
}

/// Returns the worker of a program with a socket that has been silent for too long: since its last
/// message or, before its first one, since its start.
async fn silence(heard: Option<&LastMessages>, started: Instant, settings: &Settings) -> u32 {
    let Some(heard) = heard else {
        return std::future::pending().await;
    };
    let start_end = started + settings.agent.start_limit.to_std();
    loop {
        let limits = (settings.agent.hang_after, settings.agent.grace);
        let (worker, end) = heard.silence((limits.0.to_std(), limits.1.to_std()), start_end);
        if end <= Instant::now() {
            return worker;
        }
        tokio::time::sleep_until(end).await;
    }
}
