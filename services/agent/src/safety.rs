//! The safety thread: gives nodes back when everything else hangs. It uses only a clock, signals
//! and `kill`.
//!
//! The thread needs no bus, no async runtime and no file of a program. It knows every program by a
//! [`Ward`], and for every node the moment at which it is [due](Safety::due) to be given back
//! without a renewal. The async side records states and requests ends. Only the thread ends
//! programs, so they end in time whatever the async side waits for.
//!
//! | Condition | Action |
//! |---|---|
//! | a node is due, or a ward must stop | its guard's input ends: SIGTERM, SIGKILL after the grace |
//! | a guard still runs [`GUARD_GRACE`] after that, or a ward must be killed | SIGKILL to all of it |
//! | SIGTERM to a process of its own, and no action of the async side | wards stop, or are killed (pilot) |
//! | a child of the process is no guard, so it has lost its own | SIGKILL to it and its descendants |
//!
//! The thread handles SIGTERM itself. No other thread ends programs.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lacuna_model::NodeId;
use lacuna_runtime::{Stopwatch, virtual_time};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use crate::cgroup::{Cgroup, Cgroups};
use crate::descendants::{adopt, kill_below, kill_children, own_children, wait_for};
use crate::metrics::Metrics;

/// Time for a guard beyond the program's grace, and for killed processes to end.
pub(crate) const GUARD_GRACE: Duration = Duration::from_secs(3);
/// Longest sleep of the thread.
const LOOK: Duration = Duration::from_millis(100);
/// Time after SIGTERM in which the async side may act itself.
const ASYNC_GRACE: Duration = Duration::from_millis(500);
/// Time after SIGTERM until running programs are killed. It is shorter than the time that services
/// have to stop.
pub(crate) const KILL_AFTER: Duration = Duration::from_secs(8);
/// Time after SIGTERM until a pilot's process ends, by the thread if necessary. The next one is for
/// other agents.
const LEAVE_PILOT: Duration = Duration::from_secs(6);
const LEAVE: Duration = Duration::from_secs(25);
/// The exit code of a process that the thread had to end.
const HUNG: i32 = 70;

/// The kind of process in which the thread runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Process {
    /// The agent is one part of the process. Signals and children are not only the agent's.
    Shared,
    /// An agent and nothing else.
    Agent,
    /// A pilot, which ends at once.
    Pilot,
}

/// The handle of the thread. Clones share it, and the thread ends with the last of them.
#[derive(Debug, Clone)]
pub struct Safety(Arc<Handle>);

#[derive(Debug)]
struct Handle(Arc<Shared>);

impl Drop for Handle {
    fn drop(&mut self) {
        // In a process of its own the thread runs until the process ends.
        self.0.state().over = self.0.process == Process::Shared;
        self.0.changed.notify_all();
    }
}

#[derive(Debug)]
struct Shared {
    process: Process,
    grace: Duration,
    metrics: Metrics,
    cgroups: Option<Cgroups>,
    /// SIGTERM or SIGINT was received.
    asked: Arc<AtomicBool>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    wards: BTreeMap<u64, Program>,
    made: u64,
    /// Guards that are being started and are not known yet.
    starting: usize,
    due: BTreeMap<NodeId, Instant>,
    asked: Option<Instant>,
    over: bool,
}

/// The state of one program.
#[derive(Debug)]
struct Program {
    node: NodeId,
    guard: Option<Pid>,
    /// The guard's input, for as long as the program may run.
    input: Option<OwnedFd>,
    /// Whether it was stopped.
    stopping: bool,
    kill_at: Option<Instant>,
    /// Whether it is to be killed without a grace.
    at_once: bool,
    /// The processes that were killed, which may take their time to end.
    killed: Vec<Pid>,
    cgroup: Option<Cgroup>,
}

impl Program {
    fn stop(&mut self, now: Instant, grace: Duration) {
        self.input = None;
        if !self.stopping {
            self.stopping = true;
            self.kill_at = Some(now + grace + GUARD_GRACE);
        }
    }

    fn kill(&mut self, now: Instant) {
        self.stop(now, Duration::ZERO);
        self.kill_at = Some(now);
        self.at_once = true;
    }

    /// Sends SIGKILL to all its processes.
    fn end(&mut self) {
        if let Some(cgroup) = &self.cgroup {
            cgroup.kill();
        }
        if let Some(guard) = self.guard {
            self.killed.extend(kill_below(guard));
            let _ = killpg(guard, Signal::SIGKILL);
            let _ = kill(guard, Signal::SIGKILL);
        }
        // A guard whose input ends earlier would send SIGTERM first.
        self.input = None;
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes one ward, and wakes the thread.
    fn change<T>(&self, ward: u64, change: impl FnOnce(&mut Program) -> T) -> Option<T> {
        let changed = self.state().wards.get_mut(&ward).map(change);
        self.changed.notify_all();
        changed
    }

    /// Kills processes that have lost their guard. Returns the killed processes.
    fn sweep(&self) -> Vec<Pid> {
        if self.process == Process::Shared {
            return Vec::new();
        }
        // The children are read before the known guards. So a guard that has just been started is
        // known, or still counted as starting.
        let mut strangers = own_children();
        {
            let state = self.state();
            if state.starting > 0 {
                return Vec::new();
            }
            strangers.retain(|pid| {
                state
                    .wards
                    .values()
                    .all(|program| program.guard != Some(*pid))
            });
        }
        let killed = kill_children(strangers);
        if !killed.is_empty() {
            tracing::info!(processes = killed.len(), "killed processes without a guard");
        }
        killed
    }
}

impl Safety {
    /// Starts the thread. In a process of its own (not [`Process::Shared`]) it handles signals and
    /// becomes the parent of orphaned processes. `cgroups`: whether to divide the process's group.
    ///
    /// # Errors
    /// If the thread or a signal handler cannot be made.
    pub fn start(
        process: Process,
        cgroups: bool,
        grace: Duration,
        metrics: Metrics,
    ) -> std::io::Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        if process != Process::Shared {
            adopt();
            for signal in [nix::libc::SIGTERM, nix::libc::SIGINT] {
                signal_hook::flag::register(signal, asked.clone())?;
            }
        }
        let shared = Arc::new(Shared {
            process,
            grace,
            metrics,
            cgroups: cgroups.then(divide).flatten(),
            asked,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        // In virtual time there are no programs, and a thread would run in real time.
        if virtual_time::is_on() {
            return Ok(Self(Arc::new(Handle(shared))));
        }
        let of_thread = shared.clone();
        std::thread::Builder::new()
            .name("safety".to_owned())
            .spawn(move || watch(&of_thread))?;
        Ok(Self(Arc::new(Handle(shared))))
    }

    /// Sets the moment at which a node is given back. A later call replaces it.
    pub(crate) fn due(&self, node: &NodeId, at: Option<Instant>) {
        let mut state = self.0.0.state();
        match at {
            Some(at) => drop(state.due.insert(node.clone(), at)),
            None => drop(state.due.remove(node)),
        }
    }

    /// Removes the cgroups of programs.
    pub(crate) fn clean(&self) {
        if let Some(cgroups) = &self.0.0.cgroups {
            cgroups.remove();
        }
    }

    /// Makes a ward for a program that is about to start on a node.
    pub(crate) fn ward(&self, node: &NodeId) -> Ward {
        let shared = self.0.0.clone();
        let cgroup = shared.cgroups.as_ref().and_then(|above| {
            let made = above.make();
            made.inspect_err(|error| tracing::warn!(%error, "no cgroup for a program"))
                .ok()
        });
        let mut state = shared.state();
        state.made += 1;
        let number = state.made;
        let program = Program {
            node: node.clone(),
            guard: None,
            input: None,
            stopping: false,
            kill_at: None,
            at_once: false,
            killed: Vec::new(),
            cgroup,
        };
        state.wards.insert(number, program);
        drop(state);
        Ward {
            safety: self.clone(),
            number,
        }
    }
}

fn divide() -> Option<Cgroups> {
    match Cgroups::divide() {
        Ok(cgroups) => {
            tracing::info!("each program gets a cgroup");
            Some(cgroups)
        }
        Err(error) => {
            tracing::info!(%error, "no cgroups for programs: their guards hold them");
            None
        }
    }
}

/// One program that the thread can end. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Ward {
    safety: Safety,
    number: u64,
}

impl Ward {
    fn shared(&self) -> &Shared {
        &self.safety.0.0
    }

    /// Starts the guard by `start`, which returns the guard's process id and its result. No process
    /// of the program may run before.
    ///
    /// # Errors
    /// Those of `start`.
    pub(crate) fn start<T, E>(
        &self,
        start: impl FnOnce() -> Result<(T, Option<u32>), E>,
    ) -> Result<T, E> {
        self.shared().state().starting += 1;
        let started = start();
        let guard = started.as_ref().ok().and_then(|(_, pid)| *pid);
        let guard = guard.and_then(|pid| i32::try_from(pid).ok());
        let mut state = self.shared().state();
        state.starting -= 1;
        if let (Some(program), Some(pid)) = (state.wards.get_mut(&self.number), guard) {
            let pid = Pid::from_raw(pid);
            program.guard = Some(pid);
            let taken = program.cgroup.as_ref().map(|cgroup| cgroup.take(pid));
            if let Some(Err(error)) = taken {
                tracing::warn!(%error, "program not in its cgroup");
            }
        }
        drop(state);
        started.map(|(made, _)| made)
    }

    /// Takes the guard's input, whose end stops the program. It ends at once if the program was
    /// stopped meanwhile.
    pub(crate) fn hold(&self, input: OwnedFd) {
        self.shared().change(self.number, |program| {
            program.input = (!program.stopping).then_some(input);
        });
    }

    /// Whether the program was stopped.
    pub(crate) fn is_stopping(&self) -> bool {
        let state = self.shared().state();
        state
            .wards
            .get(&self.number)
            .is_none_or(|program| program.stopping)
    }

    /// Stops the program within the grace.
    pub(crate) fn stop(&self) {
        let (now, grace) = (now(), self.shared().grace);
        self.shared()
            .change(self.number, |program| program.stop(now, grace));
    }

    /// Kills the program.
    pub(crate) fn kill(&self) {
        let now = now();
        self.shared()
            .change(self.number, |program| program.kill(now));
    }

    /// Kills a hanging program. Its end counts as its own.
    pub(crate) fn kill_hung(&self) {
        let now = now();
        self.shared().change(self.number, |program| {
            program.kill_at = Some(now);
            program.at_once = true;
        });
    }

    /// To be called when the guard has ended. Afterwards no process of the program is left, or
    /// everything possible was done. Blocks for [`GUARD_GRACE`] at most, usually not at all.
    /// Returns whether the program was stopped.
    pub(crate) fn finish(&self) -> bool {
        let shared = self.shared();
        let program = shared.state().wards.remove(&self.number);
        let Some(program) = program else {
            return false;
        };
        let left = [program.killed, shared.sweep()].concat();
        wait_for(left, GUARD_GRACE);
        if let Some(cgroup) = program.cgroup {
            cgroup.kill();
            let watch = Stopwatch::start();
            while cgroup.populated() && watch.seconds() < GUARD_GRACE.as_secs_f64() {
                std::thread::sleep(Duration::from_millis(2));
            }
            cgroup.end();
        }
        program.stopping
    }
}

fn now() -> Instant {
    Stopwatch::start().instant()
}

/// The body of the thread.
fn watch(shared: &Shared) {
    let mut swept = now();
    loop {
        let now = now();
        {
            let mut state = shared.state();
            if state.over {
                return;
            }
            state.run_due(shared, now);
        }
        if now.duration_since(swept) > LOOK * 5 {
            swept = now;
            shared.sweep();
        }
        let state = shared.state();
        let next = state.next().map_or(LOOK, |at| {
            at.saturating_duration_since(now)
                .clamp(Duration::from_millis(1), LOOK)
        });
        let waited = shared.changed.wait_timeout(state, next);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

impl State {
    /// The moment of the next action.
    fn next(&self) -> Option<Instant> {
        let kills = self.wards.values().filter_map(|program| program.kill_at);
        kills.chain(self.due.values().copied()).min()
    }

    /// Does everything that is due.
    fn run_due(&mut self, shared: &Shared, now: Instant) {
        let due = self.due.iter().filter(|(_, at)| **at <= now);
        let due: Vec<NodeId> = due.map(|(node, _)| node.clone()).collect();
        for node in due {
            self.due.remove(&node);
            for program in self
                .wards
                .values_mut()
                .filter(|program| program.node == node)
            {
                program.stop(now, shared.grace);
            }
        }
        if shared.asked.load(Ordering::Relaxed) {
            self.leave(shared, now);
        }
        for program in self.wards.values_mut() {
            if program.kill_at.is_some_and(|at| at <= now) {
                program.kill_at = Some(now + GUARD_GRACE);
                if !program.at_once {
                    shared.metrics.guard_killed();
                }
                program.end();
            }
        }
    }

    /// Ends the process.
    fn leave(&mut self, shared: &Shared, now: Instant) {
        let asked = *self.asked.get_or_insert(now);
        let (kill_after, leave_after) = match shared.process {
            Process::Pilot => (ASYNC_GRACE, LEAVE_PILOT),
            Process::Agent | Process::Shared => (KILL_AFTER, LEAVE),
        };
        let since = now.duration_since(asked);
        for program in self.wards.values_mut() {
            if since >= kill_after && program.kill_at.is_none_or(|at| at > now + GUARD_GRACE) {
                program.kill(now);
            } else if since >= ASYNC_GRACE {
                program.stop(now, shared.grace);
            }
        }
        if since >= leave_after {
            tracing::error!("the agent hangs, ending its process");
            std::process::exit(HUNG);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use lacuna_runtime::metrics::Registry;

    use super::*;

    const LIMIT_S: f64 = 20.0;

    fn node(name: &str) -> NodeId {
        NodeId::new(name).unwrap()
    }

    fn metrics() -> Metrics {
        Metrics::new(&Registry::new()).unwrap()
    }

    /// A stand-in for a guard, without tokio.
    fn guard(ward: &Ward, script: &str) -> Child {
        let start = || {
            let mut child = Command::new("/bin/sh");
            let child = child.args(["-c", script]).stdin(Stdio::piped()).spawn()?;
            let pid = child.id();
            Ok::<_, std::io::Error>((child, Some(pid)))
        };
        let mut child = ward.start(start).unwrap();
        ward.hold(child.stdin.take().unwrap().into());
        child
    }

    fn ended(child: &mut Child) -> bool {
        child.try_wait().unwrap().is_some()
    }

    fn ends(child: &mut Child) {
        let watch = Stopwatch::start();
        while !ended(child) {
            assert!(watch.seconds() < LIMIT_S, "it has not ended");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn only_a_node_that_is_due_is_given_back() {
        let safety = Safety::start(Process::Shared, false, Duration::ZERO, metrics()).unwrap();
        let wards = ["obedient", "deaf", "renewed"].map(|name| safety.ward(&node(name)));
        // A guard that ends with its input, and one that never ends by itself.
        let mut obedient = guard(&wards[0], "read x");
        let mut deaf = guard(&wards[1], "trap '' TERM; exec sleep 600");
        let mut renewed = guard(&wards[2], "read x");
        let soon = Some(now() + Duration::from_millis(50));
        for name in ["obedient", "deaf", "renewed"] {
            safety.due(&node(name), soon);
        }
        safety.due(&node("renewed"), Some(now() + Duration::from_secs(3600)));
        ends(&mut obedient);
        ends(&mut deaf);
        assert!(!ended(&mut renewed));
        assert!(wards[0].finish() && wards[1].finish(), "stopped");
        wards[2].kill();
        ends(&mut renewed);
    }

    #[test]
    fn a_program_that_was_stopped_before_its_start_stops() {
        let safety = Safety::start(Process::Shared, false, Duration::ZERO, metrics()).unwrap();
        let ward = safety.ward(&node("n1"));
        ward.stop();
        ends(&mut guard(&ward, "read x"));
        assert!(ward.finish());
        let ward = safety.ward(&node("n1"));
        ends(&mut guard(&ward, "exit 3"));
        assert!(!ward.finish(), "it ended by itself");
    }

    #[test]
    fn a_process_with_sigterm_gives_all_nodes_back_without_the_async_side() {
        for (process, kills_at_once) in [(Process::Pilot, true), (Process::Agent, false)] {
            let shared = Shared {
                process,
                grace: Duration::from_secs(60),
                metrics: metrics(),
                cgroups: None,
                asked: Arc::new(AtomicBool::new(true)),
                state: Mutex::default(),
                changed: Condvar::new(),
            };
            let (read, input) = std::io::pipe().unwrap();
            let mut state = shared.state();
            let program = Program {
                node: node("n1"),
                guard: None,
                input: Some(input.into()),
                stopping: false,
                kill_at: None,
                at_once: false,
                killed: Vec::new(),
                cgroup: None,
            };
            state.wards.insert(1, program);
            let start = now();
            state.run_due(&shared, start);
            assert!(state.wards[&1].input.is_some(), "the async side may act");
            state.run_due(&shared, start + ASYNC_GRACE);
            assert!(state.wards[&1].stopping && state.wards[&1].input.is_none());
            assert_eq!(state.wards[&1].at_once, kills_at_once);
            state.run_due(&shared, start + KILL_AFTER / 2);
            assert_eq!(state.wards[&1].at_once, kills_at_once);
            if process == Process::Agent {
                state.run_due(&shared, start + KILL_AFTER);
                assert!(state.wards[&1].at_once, "it outlives its agent");
            }
            drop(read);
        }
    }
}
