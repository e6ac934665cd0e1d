//! A thread for solves, with a queue of one.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// A thread that works on one job at a time and holds at most one that waits: a newer job
/// replaces it, because only the newest problem matters. Made for solves, which block and
/// whose solver wants to stay on one thread; a job carries its own way to answer (a channel
/// or a callback). Dropping it ends the thread after the job at hand; a job that still waits
/// is dropped.
#[derive(Debug)]
pub struct SolverThread<J> {
    shared: Arc<Shared<J>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared<J> {
    state: Mutex<State<J>>,
    changed: Condvar,
}

#[derive(Debug)]
struct State<J> {
    waiting: Option<J>,
    closed: bool,
}

impl<J> Shared<J> {
    fn lock(&self) -> MutexGuard<'_, State<J>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next job, as soon as there is one; nothing when closed.
    fn take(&self) -> Option<J> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(job) = state.waiting.take() {
                return Some(job);
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<J: Send + 'static> SolverThread<J> {
    /// Starts the thread; `work` is called on it for each job.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(mut work: impl FnMut(J) + Send + 'static) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                waiting: None,
                closed: false,
            }),
            changed: Condvar::new(),
        });
        let jobs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("solver".to_owned())
            .spawn(move || {
                while let Some(job) = jobs.take() {
                    work(job);
                }
            })?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Hands in a job. Gives back the one that waited and is now superseded, if any.
    pub fn submit(&self, job: J) -> Option<J> {
        let superseded = self.shared.lock().waiting.replace(job);
        self.shared.changed.notify_one();
        superseded
    }

    /// Whether the thread still works: false after `work` has panicked.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.thread.as_ref().is_some_and(|t| !t.is_finished())
    }
}

impl<J> Drop for SolverThread<J> {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic of the work has been reported where it happened.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn the_newest_job_wins_and_the_one_at_hand_is_finished() {
        let (started, has_started) = mpsc::channel();
        let (go, may_go) = mpsc::channel::<()>();
        let (done, results) = mpsc::channel();
        let thread = SolverThread::start(move |job: u32| {
            started.send(job).unwrap();
            may_go.recv().unwrap();
            done.send(job).unwrap();
        })
        .unwrap();
        assert_eq!(thread.submit(1), None);
        assert_eq!(has_started.recv().unwrap(), 1);
        assert_eq!(thread.submit(2), None);
        assert_eq!(thread.submit(3), Some(2));
        go.send(()).unwrap();
        go.send(()).unwrap();
        assert_eq!(results.recv().unwrap(), 1);
        assert_eq!(results.recv().unwrap(), 3);
        assert!(thread.is_alive());
        drop(thread);
        assert!(results.recv().is_err(), "the thread has ended");
    }
}
