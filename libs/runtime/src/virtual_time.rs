//! Virtual time: the services of a whole cluster on one thread, over a
//! [`SimulatedServer`](crate::bus::SimulatedServer), with a clock that jumps to the next timer.
//!
//! [`run`] starts a world from a seed. Each simulated process is a [`Host`]. A host can be killed,
//! paused, and given a wrong clock. All randomness of a world comes from its seed, so the same seed
//! gives the same run.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lacuna_model::Timestamp;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::Instant;

/// The wall clock at the start of a world: 2026-01-01, in milliseconds since 1970.
const BEGIN_MS: i64 = 1_767_225_600_000;

/// A list of tasks is cleared of ended ones at this length, and at twice the length each further
/// time.
const THINNED: usize = 64;

thread_local! {
    static WORLD: Cell<Option<World>> = const { Cell::new(None) };
    static HOST: RefCell<Option<Host>> = const { RefCell::new(None) };
}

#[derive(Debug, Clone, Copy)]
struct World {
    began: Instant,
    dice: Dice,
}

/// A generator of random numbers: splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dice(u64);

impl Dice {
    /// A generator for a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number, of all 64-bit numbers.
    pub const fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`; 0 if `end` is 0.
    pub const fn below(&mut self, end: u64) -> u64 {
        match self.roll().checked_rem(end) {
            Some(number) => number,
            None => 0,
        }
    }
}

/// Runs a world until `main` ends. Only computation takes real time.
///
/// # Errors
/// If no runtime can be started.
pub fn run<T>(seed: u64, main: impl Future<Output = T>) -> std::io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    let _ends = Ends;
    Ok(runtime.block_on(async {
        WORLD.set(Some(World {
            began: Instant::now(),
            dice: Dice::new(seed),
        }));
        main.await
    }))
}

/// Ends the world of this thread when it is dropped.
struct Ends;

impl Drop for Ends {
    fn drop(&mut self) {
        WORLD.set(None);
    }
}

/// Whether this thread runs in virtual time.
#[must_use]
pub fn is_on() -> bool {
    WORLD.get().is_some()
}

/// Time since the world began; nothing in real time.
pub(crate) fn elapsed() -> Option<Duration> {
    WORLD.get().map(|world| world.began.elapsed())
}

/// The wall clock of the present host; nothing in real time.
pub(crate) fn wall() -> Option<Timestamp> {
    let skew = HOST.with_borrow(|host| {
        let host = host.as_ref();
        host.map_or(0, |host| host.0.skew_ms.load(Ordering::Relaxed))
    });
    true_wall().map(|ms| Timestamp::from_unix_ms(ms + skew))
}

/// The time of a correct clock, in milliseconds since 1970; nothing in real time.
pub(crate) fn true_wall() -> Option<i64> {
    let passed = elapsed()?.as_millis();
    Some(BEGIN_MS + i64::try_from(passed).unwrap_or(i64::MAX - BEGIN_MS))
}

/// A unique number: random in real time, from the seed in virtual time.
pub(crate) fn unique() -> u128 {
    let Some(mut world) = WORLD.get() else {
        return uuid::Uuid::new_v4().as_u128();
    };
    let number = u128::from(world.dice.roll()) << 64 | u128::from(world.dice.roll());
    WORLD.set(Some(world));
    number
}

/// The host whose task runs now.
pub(crate) fn host() -> Option<Host> {
    HOST.with_borrow(Clone::clone)
}

/// A simulated process. Clones share it.
#[derive(Debug, Clone)]
pub struct Host(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    name: String,
    paused: AtomicBool,
    skew_ms: AtomicI64,
    ended: watch::Sender<Option<u8>>,
    parts: Mutex<Parts>,
}

#[derive(Debug, Default)]
struct Parts {
    tasks: Vec<AbortHandle>,
    thin_at: usize,
    /// Tasks that were due while the host was paused.
    held: Vec<Waker>,
}

/// The result of [`Host::ended`] for a killed host: that of SIGKILL in a shell.
pub const KILLED: u8 = 137;

impl Host {
    /// A process without tasks.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self(Arc::new(Inner {
            name: name.into(),
            paused: AtomicBool::new(false),
            skew_ms: AtomicI64::new(0),
            ended: watch::Sender::new(None),
            parts: Mutex::default(),
        }))
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Runs a task in the process. All tasks that it spawns with [`crate::task::spawn`] belong to
    /// the process too. An ended process runs no task.
    pub fn spawn<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let handle = tokio::spawn(Hosted {
            host: self.clone(),
            task: Box::pin(task),
        });
        if self.0.ended.borrow().is_some() {
            handle.abort();
            return handle;
        }
        let mut parts = self.parts();
        if parts.tasks.len() >= parts.thin_at {
            parts.tasks.retain(|task| !task.is_finished());
            parts.thin_at = (parts.tasks.len() * 2).max(THINNED);
        }
        parts.tasks.push(handle.abort_handle());
        handle
    }

    /// Kills the process at once, as `kill -9` does.
    pub fn kill(&self) {
        self.end(KILLED);
    }

    /// Ends the process with an exit code.
    pub(crate) fn end(&self, code: u8) {
        self.0.ended.send_if_modified(|ended| {
            let is_first = ended.is_none();
            ended.get_or_insert(code);
            is_first
        });
        let tasks = std::mem::take(&mut self.parts().tasks);
        for task in tasks {
            task.abort();
        }
    }

    /// Waits for the exit code.
    pub async fn ended(&self) -> u8 {
        let mut ended = self.0.ended.subscribe();
        let code = ended.wait_for(Option::is_some).await;
        code.ok().and_then(|code| *code).unwrap_or(KILLED)
    }

    /// Whether it has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.0.ended.borrow().is_some()
    }

    /// Stops the process, as SIGSTOP does. Its timers expire meanwhile, without effect.
    pub fn pause(&self) {
        self.0.paused.store(true, Ordering::Relaxed);
    }

    /// Continues a paused process.
    pub fn go_on(&self) {
        self.0.paused.store(false, Ordering::Relaxed);
        let held = std::mem::take(&mut self.parts().held);
        for task in held {
            task.wake();
        }
    }

    /// Sets the error of the process's wall clock, in milliseconds.
    pub fn set_skew(&self, ms: i64) {
        self.0.skew_ms.store(ms, Ordering::Relaxed);
    }

    fn parts(&self) -> MutexGuard<'_, Parts> {
        self.0.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A task of a host.
struct Hosted<F> {
    host: Host,
    task: Pin<Box<F>>,
}

impl<F: Future> Future for Hosted<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        if self.host.0.paused.load(Ordering::Relaxed) {
            self.host.parts().held.push(context.waker().clone());
            return Poll::Pending;
        }
        let before = HOST.replace(Some(self.host.clone()));
        let polled = self.task.as_mut().poll(context);
        HOST.set(before);
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Stopwatch, wall};
    use crate::task;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn an_hour_passes_at_once_and_clocks_show_it() {
        let real = Stopwatch::start();
        let (passed, shown) = run(1, async {
            let (watch, began) = (Stopwatch::start(), wall());
            tokio::time::sleep(HOUR).await;
            (watch.seconds(), wall().since(began).as_secs_f64())
        })
        .unwrap();
        assert_eq!((passed, shown), (3600.0, 3600.0));
        assert!(real.seconds() < 600.0 && !is_on());
    }

    #[test]
    fn a_killed_host_does_nothing_more_and_its_tasks_are_dropped() {
        run(1, async {
            let host = Host::new("h");
            let (say, mut heard) = tokio::sync::mpsc::unbounded_channel();
            host.spawn(async move {
                task::spawn(async move {
                    loop {
                        let _ = say.send(());
                        tokio::time::sleep(Duration::from_secs(1)).await;
                    }
                });
            });
            tokio::time::sleep(Duration::from_millis(2500)).await;
            host.kill();
            let mut count = 0;
            while heard.recv().await.is_some() {
                count += 1;
            }
            assert_eq!((count, host.ended().await), (3, KILLED));
        })
        .unwrap();
    }

    #[test]
    fn a_paused_host_misses_its_timers_and_a_wrong_clock_is_its_own() {
        run(1, async {
            let host = Host::new("h");
            host.pause();
            host.set_skew(-5000);
            let (watch, began) = (Stopwatch::start(), wall());
            let task = host.spawn(async { wall() });
            tokio::time::sleep(HOUR).await;
            assert!(!task.is_finished());
            host.go_on();
            assert_eq!(task.await.unwrap().since(began).as_secs_f64(), 3595.0);
            assert_eq!(watch.seconds(), 3600.0);
        })
        .unwrap();
    }

    #[test]
    fn a_task_that_exits_ends_its_process() {
        run(1, async {
            let host = Host::new("h");
            host.spawn(async {
                task::exit(75).await;
            });
            assert_eq!(host.ended().await, 75);
            assert!(host.spawn(async {}).await.unwrap_err().is_cancelled());
        })
        .unwrap();
    }
}
