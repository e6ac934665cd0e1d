//! Samples of a simulated trainer: those done, and the stall debt that time pays first.
//!
//! Time `dt` at the rate `r` makes `dt * r` samples. They pay the debt first, and the rest of them
//! is work done. So `done - debt` grows by exactly `dt * r` over time, and falls by exactly each
//! charge.

/// Samples done and stall debt of a simulated trainer.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Ledger {
    done: f64,
    debt: f64,
}

impl Ledger {
    /// A ledger without samples done, and with this stall debt, samples.
    #[must_use]
    pub const fn indebted(debt: f64) -> Self {
        Self { done: 0.0, debt }
    }

    /// Samples done.
    #[must_use]
    pub const fn done(&self) -> f64 {
        self.done
    }

    /// Stall debt, samples.
    #[must_use]
    pub const fn debt(&self) -> f64 {
        self.debt
    }

    /// Adds to the stall debt, samples.
    pub fn charge(&mut self, samples: f64) {
        self.debt += samples.max(0.0);
    }

    /// Lets `dt_s` seconds pass at `rate` samples/s. Returns the samples gained, never negative.
    pub fn advance(&mut self, dt_s: f64, rate: f64) -> f64 {
        let made = rate * dt_s.max(0.0);
        let gained = (made - self.debt).max(0.0);
        self.debt = (self.debt - made).max(0.0);
        self.done += gained;
        gained
    }

    /// Seconds at `rate` samples/s until `work` samples are done: 0 if they are done, infinite at a
    /// rate of 0.
    #[must_use]
    pub fn time_to(&self, work: f64, rate: f64) -> f64 {
        if self.done >= work {
            0.0
        } else if rate > 0.0 {
            (self.debt + (work - self.done)) / rate
        } else {
            f64::INFINITY
        }
    }

    /// The trainer goes back to this many samples done, without stall debt.
    pub const fn go_back(&mut self, samples: f64) {
        self.done = samples;
        self.debt = 0.0;
    }

    /// The trainer has ended with its work: exactly `work` samples count as done, without the
    /// effects of rounding and of time after the end.
    pub const fn finish(&mut self, work: f64) {
        self.done = work;
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    #[test]
    fn debt_is_paid_before_anything_counts() {
        let mut ledger = Ledger::default();
        assert_eq!(ledger.advance(10.0, 5.0), 50.0);
        ledger.charge(60.0);
        assert_eq!(ledger.time_to(70.0, 8.0), 10.0);
        assert_eq!(ledger.time_to(70.0, 0.0), f64::INFINITY);
        assert_eq!(
            ledger.time_to(50.0, 0.0),
            0.0,
            "work that is done stays done"
        );
        assert_eq!(ledger.advance(2.0, 8.0), 0.0);
        assert_eq!((ledger.done(), ledger.debt()), (50.0, 44.0));
        assert_eq!(ledger.advance(1e9, 0.0), 0.0, "no node pays nothing");
        assert_eq!(ledger.advance(8.0, 8.0), 20.0);
        assert_eq!((ledger.done(), ledger.debt()), (70.0, 0.0));
        ledger.advance(1.0, 8.0);
        ledger.finish(70.0);
        assert_eq!(ledger.done(), 70.0);
    }

    #[test]
    fn samples_less_debt_are_what_time_made_less_what_was_charged() {
        let seed = 5;
        println!("seed {seed}");
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut indebted = 0;
        for _ in 0..200 {
            let mut ledger = Ledger::default();
            let (mut made, mut charged, mut gained) = (0.0, 0.0, 0.0);
            for _ in 0..50 {
                if rng.random_bool(0.3) {
                    let samples = rng.random_range(0.0..900.0);
                    charged += samples;
                    ledger.charge(samples);
                }
                let dt = rng.random_range(-1.0..20.0_f64);
                let rate = f64::from(rng.random_range(0..4_u8)) * 10.0;
                let (before, ahead) = (ledger, ledger.time_to(ledger.done() + 100.0, rate));
                let more = ledger.advance(dt, rate);
                made += dt.max(0.0) * rate;
                gained += more;
                assert!(more >= 0.0 && ledger.debt() >= 0.0);
                assert!(more <= 0.0 || ledger.debt() <= 0.0, "{before:?}");
                assert_eq!(more >= 100.0 - 1e-9, dt >= ahead - 1e-9, "{before:?}");
                indebted += u32::from(ledger.debt() > 0.0);
            }
            assert!((gained - ledger.done()).abs() < 1e-6);
            let balance = ledger.done() - ledger.debt();
            assert!((balance - (made - charged)).abs() < 1e-6, "{ledger:?}");
        }
        assert!(indebted > 1_000, "{indebted} moments in debt");
    }
}
