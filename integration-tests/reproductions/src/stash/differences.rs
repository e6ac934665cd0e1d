//! The published method: differences of the durations of several runs, and the bugs of its program.
//!
//! Source: Stash (arXiv 2208.14344) and its program, a fork of DS-Analyzer (VLDB'21). Its stalls add
//! up, so one that hides behind another counts although its removal gains nothing. It has no cause for
//! a slow member: that one counts as link.

use serde::Serialize;

/// Mean seconds of a step in the runs of the method.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Runs {
    /// Samples from memory, one process.
    pub(super) alone: f64,
    /// Samples from memory, all processes.
    pub(super) synthetic: f64,
    /// The real data, nothing of it in memory.
    pub(super) cold: f64,
    /// The real data, right after that run.
    pub(super) warm: f64,
}

/// What the method defines, in seconds of a step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Differences {
    /// All processes against one: `T1 - T0`.
    pub(super) link: f64,
    /// Real data against memory: `T3 - T1`.
    pub(super) preparation: f64,
    /// Cold against warm: `T2 - T3`.
    pub(super) fetch: f64,
}

/// What the program computes instead, where the real runs have `samples` times the samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Coded {
    /// Of `T1`, in per cent.
    pub(super) link_percent: f64,
    /// A difference of scaled durations in per cent of one that is not scaled: too small.
    pub(super) preparation_percent: f64,
    /// `T2/d - prep`, from which `T1` was not subtracted: about the whole step.
    pub(super) fetch: f64,
}

impl Runs {
    /// The stalls as the method defines them.
    #[must_use]
    pub(super) fn differences(&self) -> Differences {
        Differences {
            link: self.synthetic - self.alone,
            preparation: self.warm - self.synthetic,
            fetch: self.cold - self.warm,
        }
    }

    /// The stalls as the program computes them. `samples`: how many times the samples of the other
    /// runs the real ones have; 2 by default there.
    #[must_use]
    pub(super) fn as_coded(&self, samples: f64) -> Coded {
        // The program has durations of whole runs; these here are those of a step.
        let (cold, warm) = (self.cold * samples, self.warm * samples);
        let preparation = warm / samples - self.synthetic;
        Coded {
            link_percent: 100.0 * (self.synthetic - self.alone) / self.synthetic,
            preparation_percent: 100.0 * preparation / warm,
            fetch: cold / samples - preparation,
        }
    }
}
