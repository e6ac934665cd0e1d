//! What came of a question.

/// What is known of the remaining length of a hole, from the moment of the question on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seen {
    /// Seconds until it ended, or for which it was seen to be open.
    pub length_s: f64,
    /// Whether it ended then; else nobody looked any longer.
    pub ended: bool,
    /// Seconds for which anybody would have looked, whatever the hole did: until the end of the
    /// recording.
    pub watched_s: f64,
}

impl Seen {
    /// Whether the hole was open `after_s` seconds later; nothing if that lies beyond what was
    /// watched. A hole that ends at that very moment is not open.
    #[must_use]
    pub fn open_after(&self, after_s: f64) -> Option<bool> {
        let known = after_s < self.watched_s && (self.ended || after_s < self.length_s);
        known.then_some(self.length_s > after_s)
    }

    /// The remaining length, counted up to `limit_s`; nothing if the limit lies beyond what was
    /// watched.
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
    fn what_the_end_of_the_recording_hides_is_not_known_of_short_holes_either() {
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
        // Lost from sight before the end of the recording.
        let lost = Seen {
            length_s: 100.0,
            ended: false,
            watched_s: 300.0,
        };
        assert_eq!(lost.open_after(60.0), Some(true));
        assert_eq!(lost.open_after(200.0), None);
    }
}
