//! The outcome of a question.

/// The observed remaining length of a hole, from the time of the question on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seen {
    /// The time until the hole ended, or for which it was seen open, seconds.
    pub length_s: f64,
    /// Whether the hole ended then; otherwise the observation ended.
    pub ended: bool,
    /// The time until the end of the trace, seconds, whether or not the hole ended earlier.
    pub watched_s: f64,
}

impl Seen {
    /// Whether the hole was open `after_s` seconds later; `None` if that is beyond the observation.
    /// A hole that ends at that time is not open.
    #[must_use]
    pub fn open_after(&self, after_s: f64) -> Option<bool> {
        let known = after_s < self.watched_s && (self.ended || after_s < self.length_s);
        known.then_some(self.length_s > after_s)
    }

    /// The remaining length, counted up to `limit_s`; `None` if the limit is beyond the
    /// observation.
    #[must_use]
    pub fn length_within(&self, limit_s: f64) -> Option<f64> {
        self.open_after(limit_s)
            .map(|_| self.length_s.clamp(0.0, limit_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_horizon_beyond_the_trace_counts_for_no_hole() {
        let ended = |length_s| Seen {
            length_s,
            ended: true,
            watched_s: 300.0,
        };
        assert_eq!(ended(60.0).open_after(60.0), Some(false));
        assert_eq!(ended(60.001).open_after(60.0), Some(true));
        assert_eq!(ended(10.0).open_after(300.0), None);
        assert_eq!(ended(10.0).length_within(900.0), None);
        assert_eq!(ended(250.0).length_within(200.0), Some(200.0));
        let cut = Seen {
            ended: false,
            ..ended(300.0)
        };
        assert_eq!(cut.open_after(299.0), Some(true));
        assert_eq!(cut.open_after(300.0), None);
        // Lost before the end of the trace.
        let lost = Seen {
            length_s: 100.0,
            ended: false,
            watched_s: 300.0,
        };
        assert_eq!(lost.open_after(60.0), Some(true));
        assert_eq!(lost.open_after(200.0), None);
    }
}
