//! What to change, in words.

use std::fmt;

use serde::Serialize;

use crate::change::Cause;

/// One thing that a user can change, and what it saves. Times are seconds of a step.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Advice {
    /// The loader needs more workers.
    Workers {
        /// Now.
        now: u32,
        /// Then.
        then: u32,
        /// The step now.
        step: f64,
        /// The step then.
        faster: f64,
    },
    /// A cause costs much, and removing it alone helps.
    Remove {
        /// The cause.
        cause: Cause,
        /// The step now.
        step: f64,
        /// The step without it.
        faster: f64,
    },
    /// A member is slower than the others.
    SlowRank {
        /// Its rank.
        rank: u32,
        /// How far it is behind.
        behind: f64,
        /// The step now.
        step: f64,
        /// The step if all were as fast as the fastest.
        faster: f64,
    },
    /// Causes hide each other: together they cost more than one by one.
    Together {
        /// The step now.
        step: f64,
        /// The sum of what each alone would save.
        alone: f64,
        /// The step without any of them.
        faster: f64,
    },
    /// Nothing holds the step up.
    Nothing {
        /// The step now.
        step: f64,
        /// The step without any stall.
        faster: f64,
    },
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Workers {
                now,
                then,
                step,
                faster,
            } => write!(
                f,
                "a loader with {then} {} and not {now} would take {}",
                if then == 1 { "worker" } else { "workers" },
                gain(step, faster)
            ),
            Self::Remove {
                cause,
                step,
                faster,
            } => {
                write!(f, "{} would take {}", remedy(cause), gain(step, faster))
            }
            Self::SlowRank {
                rank,
                behind,
                step,
                faster,
            } => write!(
                f,
                "member {rank} is {} behind in each step: another node, or a smaller share for it, \
                 would take {}",
                time(behind),
                gain(step, faster)
            ),
            Self::Together {
                step,
                alone,
                faster,
            } => write!(
                f,
                "stalls hide each other: one by one their removal saves {} in all, together {}",
                time(alone),
                time(step - faster)
            ),
            Self::Nothing { step, faster } => write!(
                f,
                "the step of {} computes: without any stall it would take {}",
                time(step),
                time(faster)
            ),
        }
    }
}

fn remedy(cause: Cause) -> &'static str {
    match cause {
        Cause::Preparation => "samples that are prepared beforehand, or on more cores,",
        Cause::Fetch => "a faster file system, or data on the node's own disk,",
        Cause::Link => "nodes that are nearer, smaller messages (wire=), or a larger batch",
        Cause::Straggler => "members of equal speed",
    }
}

fn gain(step: f64, faster: f64) -> String {
    let times = if faster > 0.0 {
        step / faster
    } else {
        f64::INFINITY
    };
    format!(
        "a step from {} to {}: {times:.2} times as fast",
        time(step),
        time(faster)
    )
}

/// A duration in words: three digits.
fn time(seconds: f64) -> String {
    if seconds >= 1.0 {
        format!("{seconds:.2} s")
    } else if seconds >= 0.1 {
        format!("{:.0} ms", seconds * 1e3)
    } else if seconds >= 0.01 {
        format!("{:.1} ms", seconds * 1e3)
    } else {
        format!("{:.2} ms", seconds * 1e3)
    }
}
