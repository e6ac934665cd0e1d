//! What gives nodes back when all else hangs: one thread with a clock, signals and `kill`.
//!
//! The thread needs no bus, no async runtime and no file of a program. It knows of every program
//! by a [`Ward`], and of every node when it is [due](Safety::due) to be given back for want of a
//! renewal. The async side says what stands and asks for ends; the thread alone carries them out,
//! so they come in time whatever the async side waits for.
//!
//! | What | Then |
//! |---|---|
//! | a node is due, or a ward is to stop | its guard's input ends: SIGTERM, and SIGKILL after the grace |
//! | a guard has not ended [`GUARD_GRACE`] after that, or a ward is to be killed | SIGKILL to all below it and to itself |
//! | SIGTERM to a process of its own, and the async side has not acted | all wards stop; those of a pilot are killed |
//! | a child of the process is no guard: it has lost its own | SIGKILL to it and to all below it |
//!
//! It hears SIGTERM itself. No other thread ends programs.

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

/// Given to a guard beyond the program's grace, and to what was killed to be gone.
pub(crate) const GUARD_GRACE: Duration = Duration::from_secs(3);
/// Longest sleep of the thread.
const LOOK: Duration = Duration::from_millis(100);
/// After SIGTERM the async side may act itself for so long.
const HESITATE: Duration = Duration::from_millis(500);
/// After SIGTERM what still runs is killed. Less than services are given to stop.
pub(crate) const PATIENCE: Duration = Duration::from_secs(8);
/// After SIGTERM the process ends, by the thread if need be: of a pilot, and of another agent.
const LEAVE_PILOT: Duration = Duration::from_secs(6);
const LEAVE: Duration = Duration::from_secs(25);
/// Exit code of a process that the thread had to end.
const HUNG: i32 = 70;

/// What the thread is to know of its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Process {
    /// The agent is one part of it: signals and children are not the agent's alone.
    Shared,
    /// It is an agent and nothing else.
    Agent,
    /// It is a pilot, which leaves at once.
    Pilot,
}

/// The thread's handle; clones are the same thread. It ends with the last of them.
#[derive(Debug, Clone)]
pub struct Safety(Arc<Handle>);

#[derive(Debug)]
struct Handle(Arc<Shared>);

impl Drop for Handle {
    fn drop(&mut self) {
        // A process of its own is watched until it has ended.
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
    /// SIGTERM or SIGINT has come.
    asked: Arc<AtomicBool>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    wards: BTreeMap<u64, Held>,
    made: u64,
    /// Guards that are being started and are not known yet.
    starting: usize,
    due: BTreeMap<NodeId, Instant>,
    asked: Option<Instant>,
    over: bool,
}

/// What is known of one program.
#[derive(Debug)]
struct Held {
    node: NodeId,
    guard: Option<Pid>,
    /// The guard's input, as long as the program may run.
    input: Option<OwnedFd>,
    /// Whether it was told to end.
    told: bool,
    kill_at: Option<Instant>,
    /// Whether it was to be killed without a grace.
    at_once: bool,
    /// What was killed of it: it may take its time to die.
    killed: Vec<Pid>,
    cgroup: Option<Cgroup>,
}

impl Held {
    fn stop(&mut self, now: Instant, grace: Duration) {
        self.input = None;
        if !self.told {
            self.told = true;
            self.kill_at = Some(now + grace + GUARD_GRACE);
        }
    }

    fn kill(&mut self, now: Instant) {
        self.stop(now, Duration::ZERO);
        self.kill_at = Some(now);
        self.at_once = true;
    }

    /// SIGKILL to all of it.
    fn end(&mut self) {
        self.input = None;
        if let Some(cgroup) = &self.cgroup {
            cgroup.kill();
        }
        if let Some(guard) = self.guard {
            self.killed.extend(kill_below(guard));
            let _ = killpg(guard, Signal::SIGKILL);
            let _ = kill(guard, Signal::SIGKILL);
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A change of one ward, at once seen by the thread.
    fn change<T>(&self, ward: u64, change: impl FnOnce(&mut Held) -> T) -> Option<T> {
        let changed = self.state().wards.get_mut(&ward).map(change);
        self.changed.notify_all();
        changed
    }

    /// Kills what has lost its guard. Returns what was killed.
    fn sweep(&self) -> Vec<Pid> {
        if self.process == Process::Shared {
            return Vec::new();
        }
        // First who is there, then who is known: a guard that has just been started is known, or
        // still being started.
        let mut strangers = own_children();
        {
            let state = self.state();
            if state.starting > 0 {
                return Vec::new();
            }
            strangers.retain(|pid| state.wards.values().all(|held| held.guard != Some(*pid)));
        }
        let killed = kill_children(strangers);
        if !killed.is_empty() {
            tracing::info!(processes = killed.len(), "killed what had lost its guard");
        }
        killed
    }
}

impl Safety {
    /// Starts the thread. In a process of its own (not [`Process::Shared`]) it hears signals and
    /// becomes the parent of what loses its own. `cgroups`: whether to divide the process's group.
    ///
    /// # Errors
    /// If there can be no thread or no handler.
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
        // In virtual time there are no programs, and a thread would live in another time.
        if virtual_time::is_on() {
            return Ok(Self(Arc::new(Handle(shared))));
        }
        let of_thread = shared.clone();
        std::thread::Builder::new()
            .name("safety".to_owned())
            .spawn(move || watch(&of_thread))?;
        Ok(Self(Arc::new(Handle(shared))))
    }

    /// The node is given back at this moment, unless another one is said until then.
    pub(crate) fn due(&self, node: &NodeId, at: Option<Instant>) {
        let mut state = self.0.0.state();
        match at {
            Some(at) => drop(state.due.insert(node.clone(), at)),
            None => drop(state.due.remove(node)),
        }
    }

    /// Removes the cgroups that were made.
    pub(crate) fn clean(&self) {
        if let Some(cgroups) = &self.0.0.cgroups {
            cgroups.remove();
        }
    }

    /// A place for a program that is about to start on a node.
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
        let held = Held {
            node: node.clone(),
            guard: None,
            input: None,
            told: false,
            kill_at: None,
            at_once: false,
            killed: Vec::new(),
            cgroup,
        };
        state.wards.insert(number, held);
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

/// One program, under the eyes of the thread. Clones are the same program.
#[derive(Debug, Clone)]
pub(crate) struct Ward {
    safety: Safety,
    number: u64,
}

impl Ward {
    fn shared(&self) -> &Shared {
        &self.safety.0.0
    }

    /// Starts its guard by `start`, which gives the guard's number beside what it makes. Nothing
    /// of the program may have been started yet.
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
        if let (Some(held), Some(pid)) = (state.wards.get_mut(&self.number), guard) {
            let pid = Pid::from_raw(pid);
            held.guard = Some(pid);
            let taken = held.cgroup.as_ref().map(|cgroup| cgroup.take(pid));
            if let Some(Err(error)) = taken {
                tracing::warn!(%error, "program not in its cgroup");
            }
        }
        drop(state);
        started.map(|(made, _)| made)
    }

    /// The guard's input: the program is told to stop by its end. At once if it should have
    /// stopped meanwhile.
    pub(crate) fn hold(&self, input: OwnedFd) {
        self.shared().change(self.number, |held| {
            held.input = (!held.told).then_some(input);
        });
    }

    /// Whether it has been told to end.
    pub(crate) fn told(&self) -> bool {
        let state = self.shared().state();
        state.wards.get(&self.number).is_none_or(|held| held.told)
    }

    /// Has it stop within the grace.
    pub(crate) fn stop(&self) {
        let (now, grace) = (now(), self.shared().grace);
        self.shared()
            .change(self.number, |held| held.stop(now, grace));
    }

    /// Kills it.
    pub(crate) fn kill(&self) {
        let now = now();
        self.shared().change(self.number, |held| held.kill(now));
    }

    /// Kills it as one that hangs: its end counts as its own.
    pub(crate) fn kill_hung(&self) {
        let now = now();
        self.shared().change(self.number, |held| {
            held.kill_at = Some(now);
            held.at_once = true;
        });
    }

    /// Its guard has ended: nothing of the program is left after this, or all that can be done
    /// about it was done. Blocks for [`GUARD_GRACE`] at most, as a rule not at all. Returns whether
    /// it had been told to end.
    pub(crate) fn finish(&self) -> bool {
        let shared = self.shared();
        let held = shared.state().wards.remove(&self.number);
        let Some(held) = held else {
            return false;
        };
        let left = [held.killed, shared.sweep()].concat();
        wait_for(left, GUARD_GRACE);
        if let Some(cgroup) = held.cgroup {
            cgroup.kill();
            let watch = Stopwatch::start();
            while cgroup.populated() && watch.seconds() < GUARD_GRACE.as_secs_f64() {
                std::thread::sleep(Duration::from_millis(2));
            }
            cgroup.end();
        }
        held.told
    }
}

fn now() -> Instant {
    Stopwatch::start().instant()
}

/// The thread.
fn watch(shared: &Shared) {
    let mut swept = now();
    loop {
        let now = now();
        {
            let mut state = shared.state();
            if state.over {
                return;
            }
            state.look(shared, now);
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
    /// When something is to be done next.
    fn next(&self) -> Option<Instant> {
        let kills = self.wards.values().filter_map(|held| held.kill_at);
        kills.chain(self.due.values().copied()).min()
    }

    /// Does what is due by now.
    fn look(&mut self, shared: &Shared, now: Instant) {
        let due = self.due.iter().filter(|(_, at)| **at <= now);
        let due: Vec<NodeId> = due.map(|(node, _)| node.clone()).collect();
        for node in due {
            self.due.remove(&node);
            for held in self.wards.values_mut().filter(|held| held.node == node) {
                held.stop(now, shared.grace);
            }
        }
        if shared.asked.load(Ordering::Relaxed) {
            self.leave(shared, now);
        }
        for held in self.wards.values_mut() {
            if held.kill_at.is_some_and(|at| at <= now) {
                held.kill_at = Some(now + GUARD_GRACE);
                if !held.at_once {
                    shared.metrics.guard_killed();
                }
                held.end();
            }
        }
    }

    /// The process is to end.
    fn leave(&mut self, shared: &Shared, now: Instant) {
        let asked = *self.asked.get_or_insert(now);
        let (kill_after, leave_after) = match shared.process {
            Process::Pilot => (HESITATE, LEAVE_PILOT),
            Process::Agent | Process::Shared => (PATIENCE, LEAVE),
        };
        let since = now.duration_since(asked);
        for held in self.wards.values_mut() {
            if since >= kill_after && held.kill_at.is_none_or(|at| at > now + GUARD_GRACE) {
                held.kill(now);
            } else if since >= HESITATE {
                held.stop(now, shared.grace);
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

    /// In the place of a guard; nothing of tokio is near.
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
    fn a_node_that_is_due_is_given_back_and_others_are_not() {
        let safety = Safety::start(Process::Shared, false, Duration::ZERO, metrics()).unwrap();
        let wards = ["heeds", "deaf", "renewed"].map(|name| safety.ward(&node(name)));
        // One that ends with its input, and one that never would.
        let mut heeds = guard(&wards[0], "read x");
        let mut deaf = guard(&wards[1], "trap '' TERM; exec sleep 600");
        let mut renewed = guard(&wards[2], "read x");
        let soon = Some(now() + Duration::from_millis(50));
        for name in ["heeds", "deaf", "renewed"] {
            safety.due(&node(name), soon);
        }
        safety.due(&node("renewed"), Some(now() + Duration::from_secs(3600)));
        ends(&mut heeds);
        ends(&mut deaf);
        assert!(!ended(&mut renewed));
        assert!(wards[0].finish() && wards[1].finish(), "told to end");
        wards[2].kill();
        ends(&mut renewed);
    }

    #[test]
    fn what_was_to_stop_before_it_started_stops() {
        let safety = Safety::start(Process::Shared, false, Duration::ZERO, metrics()).unwrap();
        let ward = safety.ward(&node("n1"));
        ward.stop();
        ends(&mut guard(&ward, "read x"));
        assert!(ward.finish());
        let ward = safety.ward(&node("n1"));
        ends(&mut guard(&ward, "exit 3"));
        assert!(!ward.finish(), "nobody told it to");
    }

    #[test]
    fn a_process_that_is_asked_back_gives_all_back_though_nobody_says_so() {
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
            let held = Held {
                node: node("n1"),
                guard: None,
                input: Some(input.into()),
                told: false,
                kill_at: None,
                at_once: false,
                killed: Vec::new(),
                cgroup: None,
            };
            state.wards.insert(1, held);
            let start = now();
            state.look(&shared, start);
            assert!(state.wards[&1].input.is_some(), "the async side may act");
            state.look(&shared, start + HESITATE);
            assert!(state.wards[&1].told && state.wards[&1].input.is_none());
            assert_eq!(state.wards[&1].at_once, kills_at_once);
            state.look(&shared, start + PATIENCE / 2);
            assert_eq!(state.wards[&1].at_once, kills_at_once);
            if process == Process::Agent {
                state.look(&shared, start + PATIENCE);
                assert!(state.wards[&1].at_once, "it outlives its agent");
            }
            drop(read);
        }
    }
}
