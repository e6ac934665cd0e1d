//! All policies by name.

use crate::terms::Terms;

use super::dally::{Dally, Timers};
use super::gandiva::Gandiva;
use super::replan::Replan;
use super::tiresias::{Tiresias, Variant};
use super::view::Policy;

/// Leases of history from which Dally tunes its timers.
const HISTORY: f64 = 24.0;

/// A policy of the catalogue.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// Whether it is published, or a variant of a published one.
    pub is_published: bool,
    /// Whether it knows the work of jobs.
    pub knows_work: bool,
    /// Its terms.
    pub terms: Terms,
    make: fn(u64) -> Box<dyn Policy>,
}

impl Entry {
    /// A fresh policy. The seed is for random choices.
    #[must_use]
    pub fn policy(&self, seed: u64) -> Box<dyn Policy> {
        (self.make)(seed)
    }
}

const fn published(
    (name, about): (&'static str, &'static str),
    knows_work: bool,
    terms: Terms,
    make: fn(u64) -> Box<dyn Policy>,
) -> Entry {
    Entry {
        name,
        about,
        is_published: true,
        knows_work,
        terms,
        make,
    }
}

/// All policies.
#[must_use]
pub fn catalogue() -> &'static [Entry] {
    const LEASED: Terms = Terms::LEASED;
    const GANDIVA: Terms = Terms {
        first_shape: true,
        ..Terms::LEASED
    };
    const ALL: &[Entry] = &[
        published(
            ("dally", "Dally, timers tuned from 24 leases"),
            true,
            LEASED,
            |_| Box::new(Dally::new(Timers::Auto(HISTORY))),
        ),
        published(
            ("dally-manual", "Dally, timers of 12 and 24 leases"),
            true,
            LEASED,
            |_| Box::new(Dally::new(Timers::Given(12.0, 24.0))),
        ),
        published(
            ("dally-no-wait", "Dally without timers"),
            true,
            LEASED,
            |_| Box::new(Dally::new(Timers::Given(0.0, 0.0))),
        ),
        published(
            ("dally-full", "Dally, fully consolidated"),
            true,
            LEASED,
            |_| Box::new(Dally::new(Timers::Given(f64::INFINITY, f64::INFINITY))),
        ),
        published(("tiresias", "Tiresias as coded"), false, LEASED, |_| {
            Box::new(Tiresias(Variant::Coded))
        }),
        published(
            ("tiresias-fixed", "Tiresias with its test corrected"),
            false,
            LEASED,
            |_| Box::new(Tiresias(Variant::Fixed)),
        ),
        published(
            ("tiresias-all", "the same, every model sensitive"),
            false,
            LEASED,
            |_| Box::new(Tiresias(Variant::AllSensitive)),
        ),
        published(("gandiva", "Gandiva as coded"), false, GANDIVA, |seed| {
            Box::new(Gandiva::new(seed))
        }),
        Entry {
            name: "replan-shortest",
            about: "ours: re-planned at events, shortest remaining service",
            is_published: false,
            knows_work: true,
            terms: Terms::PLANNED,
            make: |_| Box::new(Replan::default()),
        },
    ];
    ALL
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_policies_are_said_in_a_line() {
        let mut names: Vec<&str> = catalogue().iter().map(|entry| entry.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), catalogue().len());
        assert!(catalogue().iter().all(|entry| entry.about.len() < 70));
    }
}
