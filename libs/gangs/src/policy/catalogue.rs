//! All policies by name.

use crate::terms::Terms;

use super::dally::{Dally, Timers};
use super::gandiva::Gandiva;
use super::learnt::Learnt;
use super::malleable::Malleable;
use super::rank::{Order, Rank};
use super::replan::Replan;
use super::tiresias::{Tiresias, Variant};
use super::view::Policy;
use super::wait::Wait;

/// Leases of history from which Dally tunes its timers.
const HISTORY: f64 = 24.0;

/// Shares of the busy time from which a job is urgent: the mean stays the least, or the makespan is
/// short.
const PATH: f64 = 1.2;
const MAKESPAN: f64 = 1.0;

/// Where a policy is from, and what it knows and may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Published, or a variant of it.
    Published,
    /// Ours; knows the work of jobs.
    Known,
    /// Ours; does not know the work of jobs.
    Unknown,
    /// Ours; knows the work of jobs and resizes gangs.
    Malleable,
}

/// A policy of the catalogue.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// Where it is from.
    pub family: Family,
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

const fn entry(
    (name, about): (&'static str, &'static str),
    family: Family,
    terms: Terms,
    make: fn(u64) -> Box<dyn Policy>,
) -> Entry {
    Entry {
        name,
        about,
        family,
        terms,
        make,
    }
}

/// All policies.
#[must_use]
pub fn catalogue() -> &'static [Entry] {
    use Family::{Known, Malleable as Sizes, Published, Unknown};
    const LEASED: Terms = Terms::LEASED;
    const PLANNED: Terms = Terms::PLANNED;
    const GANDIVA: Terms = Terms {
        first_shape: true,
        ..Terms::LEASED
    };
    const ALL: &[Entry] = &[
        entry(
            ("dally", "Dally, timers tuned from 24 leases"),
            Published,
            LEASED,
            |_| Box::new(Dally::new(Timers::Auto(HISTORY))),
        ),
        entry(
            ("dally-manual", "Dally, timers of 12 and 24 leases"),
            Published,
            LEASED,
            |_| Box::new(Dally::new(Timers::Given(12.0, 24.0))),
        ),
        entry(
            ("dally-no-wait", "Dally without timers"),
            Published,
            LEASED,
            |_| Box::new(Dally::new(Timers::Given(0.0, 0.0))),
        ),
        entry(
            ("dally-full", "Dally, fully consolidated"),
            Published,
            LEASED,
            |_| Box::new(Dally::new(Timers::Given(f64::INFINITY, f64::INFINITY))),
        ),
        entry(("tiresias", "Tiresias as coded"), Published, LEASED, |_| {
            Box::new(Tiresias(Variant::Coded))
        }),
        entry(
            ("tiresias-fixed", "Tiresias with its test corrected"),
            Published,
            LEASED,
            |_| Box::new(Tiresias(Variant::Fixed)),
        ),
        entry(
            ("tiresias-all", "the same, every model sensitive"),
            Published,
            LEASED,
            |_| Box::new(Tiresias(Variant::AllSensitive)),
        ),
        entry(
            ("gandiva", "Gandiva as coded"),
            Published,
            GANDIVA,
            |seed| Box::new(Gandiva::new(seed)),
        ),
        entry(
            ("fifo", "re-planned by arrival, whole machines"),
            Unknown,
            PLANNED,
            |_| Box::new(Replan::new(Order::Of(Rank::Arrival))),
        ),
        entry(
            (
                "wait-score",
                "leases, whole machines or expected value, Dally's priority",
            ),
            Known,
            LEASED,
            |_| Box::new(Wait::new(Order::Of(Rank::Score))),
        ),
        entry(
            ("wait-least", "the same, least attained service"),
            Unknown,
            LEASED,
            |_| Box::new(Wait::new(Order::Of(Rank::Attained))),
        ),
        entry(
            (
                "wait-learnt",
                "the same, cheapest end as learnt from ended jobs",
            ),
            Unknown,
            LEASED,
            |_| Box::new(Wait::new(Order::Learnt(Learnt::default()))),
        ),
        entry(
            ("wait-shortest", "the same, shortest remaining service"),
            Known,
            LEASED,
            |_| Box::new(Wait::new(Order::Of(Rank::Shortest))),
        ),
        entry(
            ("replan-least", "re-planned, least attained service"),
            Unknown,
            PLANNED,
            |_| Box::new(Replan::new(Order::Of(Rank::Attained))),
        ),
        entry(
            (
                "replan-levels",
                "re-planned, levels of service times the price of progress",
            ),
            Unknown,
            PLANNED,
            |_| Box::new(Replan::new(Order::Of(Rank::Levels))),
        ),
        entry(
            (
                "replan-learnt",
                "re-planned, cheapest end as learnt from ended jobs",
            ),
            Unknown,
            PLANNED,
            |_| Box::new(Replan::new(Order::Learnt(Learnt::default()))),
        ),
        entry(
            ("replan-shortest", "re-planned, shortest remaining service"),
            Known,
            PLANNED,
            |_| Box::new(Replan::new(Order::Of(Rank::Shortest))),
        ),
        entry(
            ("replan-aged", "the same, over the square of the age"),
            Known,
            PLANNED,
            |_| Box::new(Replan::new(Order::Of(Rank::Aged))),
        ),
        entry(
            ("replan-longest", "re-planned, longest remaining time"),
            Known,
            PLANNED,
            |_| Box::new(Replan::new(Order::Of(Rank::Longest))),
        ),
        entry(
            (
                "replan-path",
                "shortest remaining service, the critical path first",
            ),
            Known,
            PLANNED,
            |_| Box::new(Replan::new(Order::Of(Rank::Shortest)).with_path(PATH)),
        ),
        entry(
            ("replan-makespan", "the same, jobs are urgent earlier"),
            Known,
            PLANNED,
            |_| Box::new(Replan::new(Order::Of(Rank::Shortest)).with_path(MAKESPAN)),
        ),
        entry(
            ("malleable", "gangs that shrink and grow"),
            Sizes,
            PLANNED,
            |_| Box::new(Malleable::known(PATH)),
        ),
        entry(
            (
                "malleable-learnt",
                "the same, cheapest end as learnt from ended jobs",
            ),
            Unknown,
            PLANNED,
            |_| Box::new(Malleable::learnt()),
        ),
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
