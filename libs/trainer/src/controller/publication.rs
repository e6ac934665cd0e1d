//! When trainers are published for the planner: [`crate::controller::TrainersView`] and its
//! version.
//!
//! The version grows with every change that a plan depends on, and with nothing else. Figures
//! (samples, rates) go out by the timer under the same version. Without any change the view goes
//! out again now and then, since the last message may have been lost.

use lacuna_model::{Span, Timestamp};

use crate::Now;

/// Without a change the view is published again after this time.
const REPEAT: Span = Span::from_secs(5);

/// The pending publication.
#[derive(Debug)]
pub(crate) struct Publication {
    version: u64,
    changed: bool,
    figures_changed: bool,
    /// Real time of the last publication.
    last: Timestamp,
}

impl Publication {
    /// The next publication has the version after this one, and is due at once.
    pub(crate) fn after(version: u64) -> Self {
        Self {
            version,
            changed: true,
            figures_changed: false,
            last: Timestamp::default(),
        }
    }

    /// The version that was published last.
    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    /// Something that plans depend on has changed.
    pub(crate) const fn change(&mut self) {
        self.changed = true;
    }

    pub(crate) const fn change_if(&mut self, changed: bool) {
        self.changed |= changed;
    }

    /// Only figures have changed.
    pub(crate) const fn change_figures(&mut self) {
        self.figures_changed = true;
    }

    /// Whether a change has not been published yet.
    pub(crate) const fn is_due(&self) -> bool {
        self.changed
    }

    /// Whether a plan of the present version would still be current.
    pub(crate) const fn is_current(&self, version: u64) -> bool {
        self.version == version && !self.changed
    }

    /// Plans depend on figures, for once, if these have changed.
    pub(crate) const fn count_figures(&mut self) {
        self.changed |= self.figures_changed;
    }

    /// Whether to publish at the end of a step; if so, the version is a new one.
    pub(crate) fn by_step(&mut self, now: Now) -> bool {
        let due = std::mem::take(&mut self.changed);
        if due {
            self.version += 1;
            self.published(now);
        }
        due
    }

    /// Whether to publish the present version again, by the timer.
    pub(crate) fn by_timer(&mut self, now: Now) -> bool {
        let again = now.since(self.last) >= REPEAT;
        let due = (self.figures_changed || again) && !self.changed;
        if due {
            self.published(now);
        }
        due
    }

    fn published(&mut self, now: Now) {
        self.figures_changed = false;
        self.last = now.wall;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Now {
        Now {
            cluster: Timestamp::default(),
            wall: Timestamp::from_unix(second),
        }
    }

    #[test]
    fn the_version_grows_with_changes_alone() {
        let mut publication = Publication::after(7);
        assert!(publication.by_step(at(100)));
        assert_eq!(publication.version(), 8);
        publication.change_figures();
        assert!(!publication.by_step(at(101)));
        assert!(publication.by_timer(at(101)));
        assert_eq!(publication.version(), 8);
        publication.change();
        assert!(!publication.is_current(8) && !publication.by_timer(at(102)));
        assert!(publication.by_step(at(102)));
        assert!(publication.is_current(9));
    }

    #[test]
    fn the_view_is_repeated_and_figures_count_when_they_are_asked_to() {
        let mut publication = Publication::after(0);
        assert!(publication.by_step(at(100)));
        assert!(!publication.by_timer(at(104)));
        assert!(publication.by_timer(at(105)));
        publication.count_figures();
        assert!(!publication.is_due());
        publication.change_figures();
        publication.count_figures();
        assert!(publication.is_due());
    }
}
