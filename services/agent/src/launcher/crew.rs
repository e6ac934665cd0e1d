//! The workers of a program on one node, as the agent hears them: together they are one member.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lacuna_model::Ending;
use tokio::time::Instant;

/// Exit codes above this one name a signal, as those of shells do.
const SIGNAL: i32 = 128;

/// What the workers have said so far.
#[derive(Debug)]
pub(super) struct Crew(Vec<Said>);

#[derive(Debug, Clone, Default)]
struct Said {
    ready: bool,
    /// The newest incarnation whose group it has found broken, and not whole again.
    broken: Option<u64>,
    /// Whether its work is done, and whether it exits.
    done: bool,
    exiting: bool,
    gone: bool,
}

/// A word of a worker on its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LastWord {
    /// Its work is done.
    Done,
    /// Its interpreter ends. Its work need not be done.
    Exiting,
}

impl Crew {
    pub(super) fn new(workers: u32) -> Self {
        Self(vec![Said::default(); workers as usize])
    }

    fn change(&mut self, worker: u32, change: impl FnOnce(&mut Said)) {
        if let Some(said) = self.0.get_mut(worker as usize) {
            change(said);
        }
    }

    /// A worker is ready. Returns whether all are.
    pub(super) fn ready(&mut self, worker: u32) -> bool {
        self.change(worker, |said| said.ready = true);
        self.0.iter().all(|said| said.ready)
    }

    /// A worker has found the group of an incarnation broken, or whole again. Returns whether it is
    /// broken for the node, if that has changed: it is if it is for any worker.
    pub(super) fn group(&mut self, worker: u32, run: u64, broken: bool) -> Option<bool> {
        let before = self.is_broken(run);
        self.change(worker, |said| {
            if broken {
                said.broken = Some(run);
            } else if said.broken == Some(run) {
                said.broken = None;
            }
        });
        let after = self.is_broken(run);
        (before != after).then_some(after)
    }

    fn is_broken(&self, run: u64) -> bool {
        self.0.iter().any(|said| said.broken == Some(run))
    }

    /// A worker says how far its end has come, or begins (`None`). Returns how far that of the node
    /// has, if that has changed: as far as that of every worker.
    pub(super) fn ends(&mut self, worker: u32, word: Option<LastWord>) -> Option<Option<Ending>> {
        let before = self.ending();
        self.change(worker, |said| match word {
            Some(LastWord::Done) => said.done = true,
            Some(LastWord::Exiting) => said.exiting = true,
            None => (said.done, said.exiting) = (false, false),
        });
        let after = self.ending();
        (before != after).then_some(after)
    }

    /// How far the end of the node's program has come.
    pub(super) fn ending(&self) -> Option<Ending> {
        let all = |is: fn(&Said) -> bool| self.0.iter().all(is);
        let done = all(|said| said.done).then_some(Ending::Done);
        done.map(|done| {
            if all(|said| said.exiting) {
                Ending::Exiting
            } else {
                done
            }
        })
    }

    /// The exit code that counts. A signal that ends a mere interpreter changes nothing that the
    /// program has done; in the program's own code, as in an export after its work, it does.
    pub(super) fn exit_code(&self, code: i32) -> i32 {
        match self.ending() {
            Some(Ending::Exiting) if code > SIGNAL => 0,
            _ => code,
        }
    }

    /// The connection of a worker has ended. Returns whether all have.
    pub(super) fn gone(&mut self, worker: u32) -> bool {
        self.change(worker, |said| said.gone = true);
        self.0.iter().all(|said| said.gone)
    }
}

/// The times at which the workers were heard.
#[derive(Debug, Clone)]
pub(super) struct LastMessages(Arc<Mutex<Vec<Heard>>>);

#[derive(Debug, Clone, Copy, Default)]
struct Heard {
    last: Option<Instant>,
    connected: bool,
    gone: bool,
    /// Whether it has said that it ends.
    ends: bool,
    /// Whether it is killed for its silence.
    hung: bool,
}

impl Heard {
    /// Whether its silence is that of a program that ends.
    const fn may_be_silent(&self) -> bool {
        (self.gone || self.ends) && !self.hung
    }
}

impl LastMessages {
    pub(super) fn new(workers: u32) -> Self {
        Self(Arc::new(Mutex::new(vec![
            Heard::default();
            workers as usize
        ])))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Heard>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn workers(&self) -> usize {
        self.lock().len()
    }

    /// A connection is that of this worker. Returns whether there is such a worker without a
    /// connection.
    pub(super) fn connected(&self, worker: u32) -> bool {
        match self.lock().get_mut(worker as usize) {
            Some(one) if !one.connected => {
                (one.connected, one.gone) = (true, false);
                true
            }
            _ => false,
        }
    }

    pub(super) fn set(&self, worker: u32, at: Instant) {
        if let Some(one) = self.lock().get_mut(worker as usize) {
            one.last = Some(at);
        }
    }

    /// The connection of a worker has ended.
    pub(super) fn gone(&self, worker: u32) {
        if let Some(one) = self.lock().get_mut(worker as usize) {
            (one.connected, one.gone) = (false, true);
        }
    }

    /// A worker has said that it ends, or that it begins.
    pub(super) fn ends(&self, worker: u32, ends: bool) {
        if let Some(one) = self.lock().get_mut(worker as usize) {
            one.ends = ends;
        }
    }

    /// A worker is killed for its silence. Its connection ends before the agent knows of its exit.
    pub(super) fn hung(&self, worker: u32) {
        if let Some(one) = self.lock().get_mut(worker as usize) {
            one.hung = true;
        }
    }

    /// Whether a worker's silence is that of a program that ends.
    pub(super) fn may_be_silent(&self, worker: u32) -> bool {
        self.lock()
            .get(worker as usize)
            .is_some_and(Heard::may_be_silent)
    }

    /// Whether a worker has been heard.
    pub(super) fn has_spoken(&self, worker: u32) -> bool {
        let all = self.lock();
        all.get(worker as usize)
            .is_some_and(|one| one.last.is_some())
    }

    /// Whether any worker has been heard.
    pub(super) fn any(&self) -> bool {
        self.lock().iter().any(|one| one.last.is_some())
    }

    /// The workers that should speak: those whose connections have not ended. When all have ended
    /// it is the one that was heard last.
    fn awaited(&self) -> Vec<(u32, Heard)> {
        let all = self.lock();
        let ranked = (0..).zip(all.iter().copied());
        if all.iter().all(|one| one.gone) {
            return Vec::from_iter(ranked.max_by_key(|(_, one)| one.last));
        }
        ranked.filter(|(_, one)| !one.gone).collect()
    }

    /// Whether a worker that has been heard, and does not end, is silent for so long.
    pub(super) fn is_silent_for(&self, limit: Duration) -> bool {
        let awaited = self.awaited().into_iter();
        let mut last = awaited.filter_map(|(_, one)| one.last.filter(|_| !one.may_be_silent()));
        last.any(|last| last.elapsed() >= limit)
    }

    /// The worker that will have been silent for too long first, and when: `hang_after` its last
    /// message, `grace` if it ends or, before its first message, at `start_end`.
    pub(super) fn silence(
        &self,
        (hang_after, grace): (Duration, Duration),
        start_end: Instant,
    ) -> (u32, Instant) {
        let limit = |one: Heard| {
            if one.may_be_silent() {
                grace
            } else {
                hang_after
            }
        };
        let end = |one: Heard| one.last.map_or(start_end, |at| at + limit(one));
        let ends = self
            .awaited()
            .into_iter()
            .map(|(rank, one)| (rank, end(one)));
        ends.min_by_key(|(_, end)| *end).unwrap_or((0, start_end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HANG: Duration = Duration::from_secs(5);
    const GRACE: Duration = Duration::from_secs(20);
    const LIMITS: (Duration, Duration) = (HANG, GRACE);

    #[test]
    fn a_node_is_ready_and_gone_when_all_workers_are() {
        let mut crew = Crew::new(2);
        assert!(!crew.ready(1) && !crew.ready(1));
        assert!(crew.ready(0));
        assert!(!crew.gone(0));
        assert!(crew.gone(1));
        assert!(Crew::new(1).ready(0));
    }

    #[test]
    fn a_group_is_broken_for_a_node_if_it_is_for_any_worker() {
        let mut crew = Crew::new(2);
        assert_eq!(crew.group(1, 7, true), Some(true));
        assert_eq!(crew.group(0, 7, true), None);
        assert_eq!(crew.group(1, 7, false), None);
        assert_eq!(crew.group(0, 7, false), Some(false));
        // A late word on an older incarnation.
        assert_eq!(crew.group(0, 8, true), Some(true));
        assert_eq!(crew.group(0, 7, false), None);
        assert_eq!(crew.group(1, 8, true), None);
        assert_eq!(crew.group(1, 9, true), Some(true));
    }

    #[tokio::test(start_paused = true)]
    async fn the_worker_that_is_silent_longest_counts() {
        let heard = LastMessages::new(3);
        let start_end = Instant::now() + Duration::from_secs(60);
        assert_eq!(heard.silence(LIMITS, start_end).1, start_end);
        assert!(!heard.any() && !heard.is_silent_for(Duration::ZERO));
        heard.set(2, Instant::now());
        tokio::time::advance(Duration::from_secs(1)).await;
        let now = Instant::now();
        for worker in [0, 1] {
            heard.set(worker, now);
        }
        assert_eq!(
            heard.silence(LIMITS, start_end),
            (2, now + Duration::from_secs(4))
        );
        assert!(heard.is_silent_for(Duration::from_secs(1)));
        // A worker that has ended is not awaited, unless all have.
        heard.gone(2);
        assert_eq!(heard.silence(LIMITS, start_end).1, now + HANG);
        assert!(!heard.is_silent_for(Duration::from_secs(1)));
        heard.gone(0);
        heard.gone(1);
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(heard.silence(LIMITS, start_end).1, now + GRACE);
        assert!(!heard.is_silent_for(Duration::from_secs(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_that_is_killed_for_its_silence_is_silent_until_its_exit_is_known() {
        let heard = LastMessages::new(1);
        assert!(heard.connected(0));
        heard.set(0, Instant::now());
        tokio::time::advance(Duration::from_secs(3)).await;
        heard.hung(0);
        heard.gone(0);
        assert!(heard.is_silent_for(Duration::from_secs(2)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_that_ends_may_be_silent_for_the_grace() {
        let heard = LastMessages::new(2);
        let now = Instant::now();
        let start_end = now + Duration::from_secs(60);
        assert!(heard.connected(0) && heard.connected(1));
        for worker in [0, 1] {
            heard.set(worker, now);
        }
        heard.ends(0, true);
        tokio::time::advance(Duration::from_secs(3)).await;
        assert!(heard.is_silent_for(Duration::from_secs(2)), "the other one");
        assert_eq!(heard.silence(LIMITS, start_end), (1, now + HANG));
        heard.ends(1, true);
        assert!(!heard.is_silent_for(Duration::from_secs(2)));
        assert_eq!(heard.silence(LIMITS, start_end).1, now + GRACE);
        heard.ends(1, false);
        assert_eq!(heard.silence(LIMITS, start_end), (1, now + HANG));
    }

    #[test]
    fn a_node_ends_as_far_as_all_of_its_workers() {
        let mut crew = Crew::new(2);
        assert_eq!(crew.ends(0, Some(LastWord::Done)), None);
        assert_eq!(crew.ends(1, Some(LastWord::Exiting)), None, "not done");
        assert_eq!(crew.ends(1, Some(LastWord::Done)), Some(Some(Ending::Done)));
        // The other one may still export: a kill for silence there is a failure.
        assert_eq!((crew.exit_code(137), crew.exit_code(0)), (137, 0));
        let exiting = Some(Some(Ending::Exiting));
        assert_eq!(crew.ends(0, Some(LastWord::Exiting)), exiting);
        assert_eq!((crew.exit_code(137), crew.exit_code(1)), (0, 1));
        assert_eq!(crew.ends(0, None), Some(None), "it begins again");
    }

    #[test]
    fn a_local_rank_has_one_connection() {
        let heard = LastMessages::new(2);
        assert!(heard.connected(0) && heard.connected(1));
        assert!(!heard.connected(0) && !heard.connected(2));
        heard.gone(0);
        assert!(heard.connected(0));
    }
}
