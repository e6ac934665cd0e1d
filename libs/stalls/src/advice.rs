//! What to change, in words.

use lacuna_model::{Advice, Cause};

/// One piece of advice as a clause, without a full stop.
#[must_use]
pub fn advice_in_words(advice: &Advice) -> String {
    match *advice {
        Advice::Workers {
            now,
            then,
            step,
            faster,
        } => format!(
            "a loader with {then} {} and not {now} would take {}",
            if then == 1 { "worker" } else { "workers" },
            gain(step, faster)
        ),
        Advice::Remove {
            cause,
            step,
            faster,
        } => format!("{} would take {}", remedy(cause), gain(step, faster)),
        Advice::SlowMember {
            rank,
            behind,
            step,
            faster,
        } => format!(
            "member {rank} is {} behind in each step: another node, or a smaller share for it, \
             would take {}",
            time(behind),
            gain(step, faster)
        ),
        Advice::Together {
            step,
            alone,
            faster,
        } => format!(
            "stalls hide each other: one by one their removal saves {} in all, together {}",
            time(alone),
            time(step - faster)
        ),
        Advice::Nothing { step, faster } => format!(
            "the step of {} computes: without any stall it would take {}",
            time(step),
            time(faster)
        ),
    }
}

fn remedy(cause: Cause) -> &'static str {
    match cause {
        Cause::Preparation => "samples that are prepared beforehand, or on more cores,",
        Cause::Fetch => "a faster file system, or data on the node's own disk,",
        Cause::Link => {
            "nodes that are nearer, smaller messages (half precision: wire=, or fp16_compress_hook of DDP), or a larger batch"
        }
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
pub(crate) fn time(seconds: f64) -> String {
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
