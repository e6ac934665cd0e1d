//! The only module that reads clocks.

use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lacuna_model::{Span, Timestamp};
use lacuna_wire::msg::{Clock, Pace};
use nix::time::{ClockId, clock_gettime};

use crate::virtual_time;

/// The wall clock's time.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the clock module")]
pub fn wall() -> Timestamp {
    if let Some(wall) = virtual_time::wall() {
        return wall;
    }
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp::from_unix_ms(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Measures lengths of time. Time in which the machine is suspended counts, since other machines
/// run on.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch {
    started: Instant,
    /// The start on the clock that a suspension does not stop.
    boot: Duration,
}

/// Time since the machine's start, suspensions included; in virtual time, since the world's start.
fn boot() -> Duration {
    if let Some(elapsed) = virtual_time::elapsed() {
        return elapsed;
    }
    let now = clock_gettime(ClockId::CLOCK_BOOTTIME);
    // Every Linux since 2.6.39 has it.
    now.map_or(Duration::ZERO, Duration::from)
}

/// Processor time of this thread, seconds; None if the system does not report it. Other processes
/// do not lengthen it.
#[must_use]
pub fn processor_s() -> Option<f64> {
    let now = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).ok()?;
    Some(Duration::from(now).as_secs_f64())
}

impl Stopwatch {
    /// Starts a measurement now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the clock module")]
    pub fn start() -> Self {
        Self {
            started: match virtual_time::is_on() {
                true => tokio::time::Instant::now().into_std(),
                false => Instant::now(),
            },
            boot: boot(),
        }
    }

    fn elapsed(&self) -> Duration {
        boot().saturating_sub(self.boot)
    }

    /// Seconds since the start.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.elapsed().as_secs_f64()
    }

    /// Time since the start, to the millisecond.
    #[must_use]
    pub fn span(&self) -> Span {
        Span::from_ms(i64::try_from(self.elapsed().as_millis()).unwrap_or(i64::MAX))
    }

    /// The start on the monotonic clock, for timers of tokio.
    #[must_use]
    pub fn instant(&self) -> Instant {
        self.started
    }
}

/// The cluster's time, kept up to date with the [`Clock`] messages of ingest. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct ClusterClock(Arc<RwLock<Option<Clock>>>);

impl ClusterClock {
    /// A clock that shows wall time until its first tick.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a tick. In lock step a tick with an older step of the same recording is ignored,
    /// unless the recording has ended and begins again.
    pub fn update(&self, tick: &Clock) {
        let mut latest = self.0.write().unwrap_or_else(|e| e.into_inner());
        let older = latest.as_ref().is_some_and(|now| {
            tick.pace == Pace::LockStep
                && now.pace == Pace::LockStep
                && tick.recording == now.recording
                && !now.ended
                && tick.step < now.step
        });
        if !older {
            *latest = Some(tick.clone());
        }
    }

    /// The newest tick.
    #[must_use]
    pub fn latest(&self) -> Option<Clock> {
        self.0.read().unwrap_or_else(|e| e.into_inner()).clone()
    }

    /// The cluster's time now; wall time before the first tick.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        at(self.latest().as_ref(), wall())
    }

    /// Seconds of cluster time in one second: 1 in real time, 0 in lock step.
    #[must_use]
    pub fn rate(&self) -> f64 {
        match self.latest().map(|c| c.pace) {
            None | Some(Pace::Real) => 1.0,
            Some(Pace::Scaled { rate, .. }) => rate,
            Some(Pace::LockStep) => 0.0,
        }
    }

    /// Whether time waits for the loop to settle.
    #[must_use]
    pub fn lock_step(&self) -> bool {
        self.latest().is_some_and(|c| c.pace == Pace::LockStep)
    }
}

/// The cluster's time at a moment of the wall clock, by the newest tick.
#[must_use]
pub fn at(tick: Option<&Clock>, wall: Timestamp) -> Timestamp {
    match tick {
        None => wall,
        Some(clock) if clock.ended => clock.now,
        Some(clock) => match clock.pace {
            Pace::Real => wall,
            Pace::LockStep => clock.now,
            Pace::Scaled { rate, wall_at } => {
                let passed = wall.since(wall_at).as_secs_f64() * rate;
                clock.now + Span::from_secs_f64(passed)
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tick(pace: Pace, step: u64, now: i64) -> Clock {
        Clock {
            now: Timestamp::from_unix(now),
            pace,
            step,
            events_upto: 0,
            complete: false,
            ended: false,
            recording: String::new(),
        }
    }

    #[test]
    fn each_pace_has_its_time() {
        let wall = Timestamp::from_unix(1_000);
        assert_eq!(at(None, wall), wall);
        let lock = tick(Pace::LockStep, 3, 77);
        assert_eq!(at(Some(&lock), wall), Timestamp::from_unix(77));
        let scaled = Pace::Scaled {
            rate: 600.0,
            wall_at: Timestamp::from_unix(998),
        };
        let mut clock = tick(scaled, 0, 50);
        assert_eq!(at(Some(&clock), wall), Timestamp::from_unix(50 + 1200));
        clock.ended = true;
        assert_eq!(at(Some(&clock), wall), Timestamp::from_unix(50));
    }

    #[test]
    fn an_older_step_does_not_turn_time_back() {
        let clock = ClusterClock::new();
        clock.update(&tick(Pace::LockStep, 5, 500));
        clock.update(&tick(Pace::LockStep, 4, 400));
        assert_eq!(clock.now(), Timestamp::from_unix(500));
        assert!(clock.lock_step());
        clock.update(&tick(Pace::Real, 1, 1));
        assert_eq!(clock.rate(), 1.0);
    }

    #[test]
    fn another_recording_or_one_that_begins_again_has_its_own_time() {
        let of = |recording: &str, step| Clock {
            recording: recording.to_owned(),
            ..tick(Pace::LockStep, step, 100 * step.cast_signed())
        };
        let clock = ClusterClock::new();
        clock.update(&of("a", 9));
        clock.update(&of("b", 2));
        assert_eq!(clock.now(), Timestamp::from_unix(200));
        clock.update(&of("b", 1));
        assert_eq!(clock.now(), Timestamp::from_unix(200));
        clock.update(&Clock {
            ended: true,
            ..of("b", 3)
        });
        clock.update(&of("b", 1));
        assert_eq!(clock.now(), Timestamp::from_unix(100));
    }
}
