//! The checkpoints of a trainer that starts again from its last one.

use lacuna_trainer::Ledger;

/// What a trainer has saved, and when it saves next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Saves {
    /// Samples in its last checkpoint.
    samples: f64,
    /// Start of its present run, seconds; nothing while it does not run.
    since_s: Option<f64>,
    /// Whether it has run before.
    has_run: bool,
    /// The moment from which on it may start, seconds.
    may_start_s: f64,
}

impl Default for Saves {
    fn default() -> Self {
        Self {
            samples: 0.0,
            since_s: None,
            has_run: false,
            may_start_s: f64::NEG_INFINITY,
        }
    }
}

impl Saves {
    /// Samples in the last checkpoint.
    pub(super) const fn samples(&self) -> f64 {
        self.samples
    }

    /// Whether the trainer has run.
    pub(super) const fn has_run(&self) -> bool {
        self.has_run
    }

    /// The moment from which on it may start, seconds.
    pub(super) const fn may_start_s(&self) -> f64 {
        self.may_start_s
    }

    /// A run begins.
    pub(super) const fn start(&mut self, now_s: f64) {
        self.since_s = Some(now_s);
        self.has_run = true;
    }

    /// The run ends.
    pub(super) const fn stop(&mut self) {
        self.since_s = None;
    }

    /// The run ends, and none begins before a moment.
    pub(super) const fn kill(&mut self, may_start_s: f64) {
        self.since_s = None;
        self.may_start_s = may_start_s;
    }

    /// Lets `dt_s` seconds pass from `from_s` on, with the ledger and the rate of their beginning. A
    /// checkpoint is written each `every_s` seconds of a run.
    pub(super) fn pass(
        &mut self,
        (from_s, dt_s): (f64, f64),
        ledger: &Ledger,
        rate: f64,
        every_s: f64,
    ) {
        let Some(since_s) = self.since_s else { return };
        let count = ((from_s + dt_s - since_s) / every_s).floor();
        let at_s = since_s + count * every_s;
        if count >= 1.0 && at_s > from_s {
            let mut then = *ledger;
            then.advance(at_s - from_s, rate);
            self.samples = then.done();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_checkpoint_of_an_interval_counts() {
        let mut saves = Saves::default();
        let mut ledger = Ledger::indebted(50.0);
        saves.pass((0.0, 100.0), &ledger, 10.0, 10.0);
        assert_eq!(saves.samples(), 0.0, "it does not run");
        saves.start(100.0);
        // Checkpoints at 110, 120, 130: 10/s, of which the first 5 s pay the debt.
        saves.pass((100.0, 9.0), &ledger, 10.0, 10.0);
        assert_eq!(saves.samples(), 0.0);
        ledger.advance(9.0, 10.0);
        saves.pass((109.0, 25.0), &ledger, 10.0, 10.0);
        assert_eq!(saves.samples(), 250.0);
        ledger.advance(25.0, 10.0);
        saves.pass((134.0, 5.0), &ledger, 10.0, 10.0);
        assert_eq!(saves.samples(), 250.0, "nothing is due before 140");
        saves.kill(200.0);
        saves.pass((139.0, 500.0), &ledger, 10.0, 10.0);
        assert_eq!((saves.samples(), saves.may_start_s()), (250.0, 200.0));
    }
}
