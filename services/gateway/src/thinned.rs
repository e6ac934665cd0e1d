//! Values over time, as many as a picture shows.

use lacuna_model::{Span, Timestamp};

/// A value with its moment.
pub(crate) trait At {
    fn at(&self) -> Timestamp;
}

/// Values in order of time. When there are too many, every other one is dropped, and the least time
/// between two doubles. A clock that goes back starts them again.
#[derive(Debug, Clone)]
pub(crate) struct Thinned<T> {
    most: usize,
    every: Span,
    kept: Vec<T>,
}

impl<T: At> Thinned<T> {
    /// No values; at most `most`, and `every` apart at least.
    pub(crate) const fn new(most: usize, every: Span) -> Self {
        Self {
            most,
            every,
            kept: Vec::new(),
        }
    }

    /// Takes a value, unless it comes too early.
    pub(crate) fn push(&mut self, value: T) {
        let at = value.at();
        if self.kept.last().is_some_and(|last| last.at() > at) {
            self.kept.clear();
        }
        let too_early = |last: &T| at.since(last.at()).as_ms() < self.every.as_ms();
        if self.kept.last().is_some_and(too_early) {
            return;
        }
        self.kept.push(value);
        if self.kept.len() > self.most {
            let mut keep = true;
            self.kept.retain(|_| {
                keep = !keep;
                keep
            });
            self.every = Span::from_ms(self.every.as_ms().saturating_mul(2));
        }
    }

    /// The values that are kept.
    pub(crate) fn kept(&self) -> &[T] {
        &self.kept
    }
}
