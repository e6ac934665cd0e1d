//! The caveat on a log of ended jobs: jobs that still ran at its end are missing, and their nodes
//! seem idle.

use lacuna_batchsim::occupancy::Occupied;
use lacuna_model::{Span, Timestamp};

use crate::output::iso_short;

/// The extent to which the end of a log is unreliable.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Caveat {
    /// From this moment on holes may be false.
    from: Timestamp,
    /// The beginning and the end of the log.
    begins: Timestamp,
    ends: Timestamp,
    /// Mean number of idle nodes in its first and its last quarter.
    early: f64,
    late: f64,
}

/// The caveat, if holes at the end may be false because jobs are missing.
pub(super) fn caveat(occupied: &Occupied) -> Option<Caveat> {
    let found = &occupied.summary;
    let from = found.doubtful_from()?;
    let mean = |from: Timestamp, until: Timestamp| {
        let within = occupied.holes.iter().map(|hole| {
            let part = hole.until.min(until).since(hole.from.max(from));
            part.as_ms().max(0) as f64
        });
        // An empty sum of floats is -0.
        (within.sum::<f64>() + 0.0) / until.since(from).as_ms().max(1) as f64
    };
    let quarter = Span::from_ms(found.until.since(found.from).as_ms() / 4);
    Some(Caveat {
        from,
        begins: found.from,
        ends: found.until,
        early: mean(found.from, found.from + quarter),
        late: mean(found.until - quarter, found.until),
    })
}

impl Caveat {
    /// The text, if the part up to `until` reaches into the unreliable time.
    pub(super) fn text(&self, until: Timestamp) -> Option<String> {
        if until <= self.from {
            return None;
        }
        let remedy = if self.from > self.begins {
            format!(
                "holes of its last {} may be false (leave them out with --until {})",
                self.ends.since(self.from),
                iso_short(self.from)
            )
        } else {
            "many jobs are as long as the log itself, so any hole may be false, the later the \
             likelier"
                .to_owned()
        };
        Some(format!(
            "the log has only jobs that ended, so that some that ran at its end are missing: \
             {remedy}; idle nodes on average: {:.1} in its first quarter, {:.1} in its last",
            self.early, self.late
        ))
    }
}
