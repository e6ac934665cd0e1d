//! What a trainer has done and what changes cost it, in the published accounting.
//!
//! Between two events a trainer gains `dt * P(n)` less the cost that is pending; a cost is
//! charged in full in the interval that follows, however short (so work may shrink in it).
//! Starting from zero nodes is free, because the rate before is zero.

/// The work account of one trainer.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Account {
    /// Samples done so far.
    pub done: f64,
    /// Samples that the next interval will be short of.
    pub owed: f64,
}

impl Account {
    /// Charges a change of size: `stall_s` seconds at the rate before it. Gives the cost in
    /// samples.
    pub fn charge(&mut self, rate_before: f64, stall_s: f64) -> f64 {
        let cost = rate_before * stall_s;
        self.owed += cost;
        cost
    }

    /// Seconds from now until `work` samples are done at this rate; infinite if never.
    #[must_use]
    pub fn time_to(&self, work: f64, rate: f64) -> f64 {
        let left = work - self.done + self.owed;
        if left <= 0.0 {
            0.0
        } else if rate > 0.0 {
            left / rate
        } else {
            f64::INFINITY
        }
    }

    /// Books an interval of `dt` seconds at this rate. Gives the samples gained, which are
    /// negative if the interval was too short for what was owed.
    pub fn advance(&mut self, dt: f64, rate: f64) -> f64 {
        let gained = dt * rate - self.owed;
        self.owed = 0.0;
        self.done += gained;
        gained
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_charged_in_full_in_the_next_interval() {
        let mut account = Account::default();
        assert_eq!(account.advance(10.0, 5.0), 50.0);
        assert_eq!(account.charge(5.0, 12.0), 60.0);
        assert_eq!(account.time_to(70.0, 8.0), 10.0);
        assert_eq!(account.advance(2.0, 8.0), -44.0);
        assert_eq!(account.done, 6.0);
        assert_eq!(account.advance(2.0, 8.0), 16.0);
        assert_eq!(account.time_to(22.0, 0.0), 0.0);
        assert_eq!(account.time_to(23.0, 0.0), f64::INFINITY);
    }
}
