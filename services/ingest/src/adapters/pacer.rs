//! Pace of polling: a budget, jitter, back-off after failures, and a circuit breaker on slow
//! answers. Time and random numbers are arguments.
//!
//! - P1 Requests never exceed the budget: a token bucket for ten seconds (at least two requests),
//!   refilled evenly.
//! - P2 After n failures in a row the wait is doubled n times, up to `longest_wait`.
//! - P3 Three cycles in a row with a slow answer open the breaker for `pause`. Then one cycle is a
//!   probe, which closes the breaker, or opens it for twice as long, up to `longest_wait`.
//! - P4 After a cycle, no request is sent for at least the duration of that cycle.

use lacuna_model::Span;
use lacuna_scheduler::settings::Polling;

/// Slow cycles in a row that open the breaker.
const SLOW_IN_ROW: u32 = 3;

/// State of the circuit breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breaker {
    /// Polling goes on as usual.
    Closed,
    /// The next cycle is a probe.
    Probe,
    /// Polling pauses.
    Open,
}

/// Outcome of a polling cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cycle {
    /// Whether a request failed.
    pub failed: bool,
    /// Duration of the slowest request.
    pub slowest: Span,
    /// Duration of the cycle.
    pub took: Span,
}

/// Decides when the next request may be sent (P1 to P4).
#[derive(Debug, Clone)]
pub struct Pacer {
    polling: Polling,
    /// Requests that may be sent now.
    left: f64,
    /// Time at which `left` was computed, seconds on the caller's clock.
    at: f64,
    failures: u32,
    slow: u32,
    breaker: Breaker,
    pause: Span,
}

impl Pacer {
    /// A pacer with a full budget.
    #[must_use]
    pub fn new(polling: Polling) -> Self {
        let mut pacer = Self {
            pause: polling.pause,
            polling,
            left: 0.0,
            at: 0.0,
            failures: 0,
            slow: 0,
            breaker: Breaker::Closed,
        };
        pacer.left = pacer.most();
        pacer
    }

    /// State of the circuit breaker.
    #[must_use]
    pub const fn breaker(&self) -> Breaker {
        self.breaker
    }

    fn most(&self) -> f64 {
        (f64::from(self.polling.requests_per_minute) / 6.0).max(2.0)
    }

    /// Takes `requests` (at most two) out of the budget, at `now` seconds.
    ///
    /// # Errors
    /// The wait until the budget allows them.
    pub fn ask(&mut self, requests: u32, now: f64) -> Result<(), Span> {
        let each_s = f64::from(self.polling.requests_per_minute) / 60.0;
        let passed = (now - self.at).max(0.0);
        self.left = passed.mul_add(each_s, self.left).min(self.most());
        self.at = now;
        let wanted = f64::from(requests).min(self.most());
        if self.left >= wanted {
            self.left -= wanted;
            if self.breaker == Breaker::Open {
                self.breaker = Breaker::Probe;
            }
            return Ok(());
        }
        // One millisecond more than needed, since times are rounded.
        let wait = (wanted - self.left) / each_s + 0.001;
        Err(Span::from_secs_f64(wait))
    }

    /// Wait from the end of a cycle to the next one. `dice`: a random number from 0 to 1.
    pub fn done(&mut self, cycle: Cycle, dice: f64) -> Span {
        let is_slow = cycle.slowest > self.polling.slow_after;
        self.failures = match cycle.failed {
            true => self.failures.saturating_add(1),
            false => 0,
        };
        self.slow = match is_slow {
            true => self.slow.saturating_add(1),
            false => 0,
        };
        match self.breaker {
            Breaker::Probe if is_slow => {
                self.breaker = Breaker::Open;
                self.pause = self.twice(self.pause);
            }
            Breaker::Probe if !cycle.failed => {
                self.breaker = Breaker::Closed;
                self.pause = self.polling.pause;
            }
            Breaker::Closed if self.slow >= SLOW_IN_ROW => self.breaker = Breaker::Open,
            _ => {}
        }
        let mut wait = self.polling.every;
        for _ in 0..self.failures.min(32) {
            wait = self.twice(wait);
        }
        if self.breaker == Breaker::Open {
            wait = wait.max(self.pause);
        }
        let jitter = self.polling.jitter * 2.0f64.mul_add(dice.clamp(0.0, 1.0), -1.0);
        let wait = wait.as_secs_f64() * (1.0 + jitter) - cycle.took.as_secs_f64();
        Span::from_secs_f64(wait.max(cycle.took.as_secs_f64()))
    }

    fn twice(&self, span: Span) -> Span {
        Span::from_ms(span.as_ms().saturating_mul(2)).min(self.polling.longest_wait)
    }
}
