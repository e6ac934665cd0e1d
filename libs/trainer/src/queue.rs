//! The queue of submitted trainers: those of a later time, and those that wait for room.
//!
//! A trainer waits from its submission on. Of those that wait, the first by priority, then by
//! submission, then by order of arrival goes first; one without room lets others pass. A trainer
//! whose least nodes exceed the pool has no room, and takes none from others: see [`has_place`].

use std::cmp::Reverse;
use std::collections::BTreeSet;

use lacuna_model::Timestamp;

/// Whether a trainer takes one of the places of those that are active at a time: it has nodes, or the
/// pool, whoever holds its nodes, has as many as it needs at least. Who needs one fits into every
/// pool, for an empty one is soon another.
#[must_use]
pub const fn has_place(nodes: u32, min_nodes: u32, pool: u32) -> bool {
    nodes > 0 || min_nodes <= 1 || min_nodes <= pool
}

/// Trainers that are active for each place at most: those beyond the places were admitted to a larger
/// pool, and have no nodes.
pub const MOST_ACTIVE: usize = 8;

/// Fields in the order in which those that wait are compared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place<T> {
    priority: Reverse<i32>,
    submit: Timestamp,
    order: u64,
    item: T,
}

/// A queue of items that each stand in it once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue<T> {
    /// By submission.
    future: BTreeSet<(Timestamp, Place<T>)>,
    waiting: BTreeSet<Place<T>>,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self {
            future: BTreeSet::new(),
            waiting: BTreeSet::new(),
        }
    }
}

impl<T: Clone + Ord> Queue<T> {
    /// Adds an item that waits from `submit` on. `order` decides between equals: the smaller
    /// goes first.
    pub fn submit(&mut self, submit: Timestamp, priority: i32, order: u64, item: T) {
        let place = Place {
            priority: Reverse(priority),
            submit,
            order,
            item,
        };
        self.future.insert((submit, place));
    }

    /// Items submitted up to `now` wait from here on.
    pub fn arrive(&mut self, now: Timestamp) {
        while self.next_submission().is_some_and(|submit| submit <= now) {
            self.waiting
                .extend(self.future.pop_first().map(|(_, place)| place));
        }
    }

    /// The earliest submission that has not arrived.
    #[must_use]
    pub fn next_submission(&self) -> Option<Timestamp> {
        self.future.first().map(|(submit, _)| *submit)
    }

    /// Takes the first waiting item that has room.
    pub fn next(&mut self, mut has_room: impl FnMut(&T) -> bool) -> Option<T> {
        let place = self.waiting.iter().find(|place| has_room(&place.item))?;
        let place = place.clone();
        self.waiting.take(&place).map(|place| place.item)
    }

    /// Takes an item out, whether it waits or not. It looks at every item.
    pub fn remove(&mut self, item: &T) {
        self.future.retain(|(_, place)| place.item != *item);
        self.waiting.retain(|place| place.item != *item);
    }

    /// Whether an item waits that has room.
    pub fn waits(&self, mut has_room: impl FnMut(&T) -> bool) -> bool {
        self.waiting.iter().any(|place| has_room(&place.item))
    }

    /// Whether it has no item, now or later.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.future.is_empty() && self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_unix(seconds)
    }

    #[test]
    fn one_without_room_lets_others_pass_and_keeps_its_place() {
        let mut queue = Queue::default();
        queue.submit(at(10), 0, 1, "first");
        queue.submit(at(10), 0, 2, "second");
        queue.submit(at(11), 5, 3, "urgent");
        queue.submit(at(99), 9, 4, "later");
        assert_eq!(queue.next(|_| true), None, "none has arrived");
        queue.arrive(at(11));
        assert_eq!(queue.next_submission(), Some(at(99)));
        assert_eq!(queue.next(|item| *item != "urgent"), Some("first"));
        assert_eq!(queue.next(|_| false), None);
        assert_eq!(queue.next(|_| true), Some("urgent"));
        queue.remove(&"later");
        assert_eq!(queue.next_submission(), None);
        assert!(queue.waits(|_| true) && !queue.waits(|_| false) && !queue.is_empty());
        queue.remove(&"second");
        assert!(!queue.waits(|_| true) && queue.is_empty());
    }

    #[test]
    fn items_leave_as_a_sorted_list_would_give_them() {
        let seed = 11;
        println!("seed {seed}");
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut taken = 0;
        for _ in 0..100 {
            let mut queue = Queue::default();
            let mut list: Vec<(Timestamp, i32, u64, u32)> = Vec::new();
            for step in 0..60_i64 {
                let now = at(step);
                if rng.random_bool(0.6) {
                    let n = u32::try_from(step).unwrap();
                    let submit = at(step + rng.random_range(-3..6));
                    let order = rng.random_range(0..4);
                    let entry = (submit, rng.random_range(-1..2), order, n);
                    queue.submit(entry.0, entry.1, entry.2, entry.3);
                    list.push(entry);
                }
                if rng.random_bool(0.1)
                    && let Some(&(.., n)) = list.first()
                {
                    queue.remove(&n);
                    list.remove(0);
                }
                queue.arrive(now);
                let odd = rng.random_bool(0.5);
                let has_room = |n: &u32| !odd || n % 2 == 1;
                let arrived = list.iter().filter(|e| e.0 <= now && has_room(&e.3));
                let first = arrived
                    .min_by_key(|e| (Reverse(e.1), e.0, e.2, e.3))
                    .copied();
                assert_eq!(queue.next(has_room), first.map(|e| e.3));
                list.retain(|e| Some(*e) != first);
                taken += u32::from(first.is_some());
                let next = list
                    .iter()
                    .map(|e| e.0)
                    .filter(|submit| *submit > now)
                    .min();
                assert_eq!(queue.next_submission(), next);
                assert_eq!(queue.is_empty(), list.is_empty());
            }
        }
        assert!(taken > 1_000, "{taken} were taken");
    }
}
