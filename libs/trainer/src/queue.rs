//! The queue of submitted trainers: those of a later time, and those that wait for a place.
//!
//! A trainer waits from its submission on. Waiting trainers are admitted by priority, then by time
//! of submission, then by order of arrival. A trainer without room lets others pass. A trainer
//! whose minimum exceeds the pool has no room, and takes none from others: see [`has_place`].
//!
//! An early owner keeps no other owner out: an owner with less than an equal share of the places is
//! admitted even if none is free, see [`Places`].

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use lacuna_model::Timestamp;

/// Whether an active trainer takes a place: it has nodes, or the pool has its minimum of nodes,
/// leased or not. A trainer with a minimum of one node fits into every pool, since an empty pool
/// does not stay empty.
#[must_use]
pub const fn has_place(nodes: u32, min_nodes: u32, pool: u32) -> bool {
    nodes > 0 || min_nodes <= 1 || min_nodes <= pool
}

/// Most active trainers for each place. Trainers of owners without a share of the places exceed the
/// places, and so do trainers that were admitted to a larger pool and have no nodes.
const MOST_ACTIVE: usize = 8;

/// The places for active trainers, and how many of them each owner has taken.
#[derive(Debug, Clone)]
pub struct Places<O> {
    most: usize,
    active: usize,
    taken: usize,
    owners: BTreeMap<O, usize>,
}

impl<O: Ord> Places<O> {
    /// `most` places, and the owner of each active trainer with whether that trainer takes a place
    /// ([`has_place`]).
    pub fn new(most: usize, active: impl IntoIterator<Item = (O, bool)>) -> Self {
        let mut places = Self {
            most,
            active: 0,
            taken: 0,
            owners: BTreeMap::new(),
        };
        for (owner, takes) in active {
            places.active += 1;
            if takes {
                places.taken += 1;
                *places.owners.entry(owner).or_default() += 1;
            }
        }
        places
    }

    /// Whether a place is free for any owner.
    #[must_use]
    pub const fn free(&self) -> bool {
        self.taken < self.most && self.open()
    }

    /// Whether this owner has a place: a free one, or one within its equal share of all places,
    /// which is at least one.
    #[must_use]
    pub fn free_for(&self, owner: &O) -> bool {
        let own = self.owners.get(owner).copied().unwrap_or_default();
        let owners = self.owners.len() + usize::from(own == 0);
        self.free() || (own < (self.most / owners.max(1)).max(1) && self.open())
    }

    const fn open(&self) -> bool {
        self.active < self.most.saturating_mul(MOST_ACTIVE)
    }
}

/// Key of an item. The order of the fields is the order of comparison.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place<T> {
    priority: Reverse<i32>,
    submit: Timestamp,
    order: u64,
    item: T,
}

/// The items of one owner.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Line<T> {
    /// Items of a later time, by submission.
    future: BTreeSet<(Timestamp, Place<T>)>,
    waiting: BTreeSet<Place<T>>,
}

/// A queue of distinct items, each with an owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue<O, T> {
    /// Items by owner; no line is empty.
    lines: BTreeMap<O, Line<T>>,
}

impl<O, T> Default for Queue<O, T> {
    fn default() -> Self {
        Self {
            lines: BTreeMap::new(),
        }
    }
}

impl<O: Clone + Ord, T: Clone + Ord> Queue<O, T> {
    /// Adds an item that waits from `submit` on. Of two items alike in priority and `submit`, the
    /// one with the smaller `order` goes first.
    pub fn submit(&mut self, submit: Timestamp, priority: i32, order: u64, owner: O, item: T) {
        let place = Place {
            priority: Reverse(priority),
            submit,
            order,
            item,
        };
        let line = self.lines.entry(owner).or_insert_with(|| Line {
            future: BTreeSet::new(),
            waiting: BTreeSet::new(),
        });
        line.future.insert((submit, place));
    }

    /// Lets the items wait that were submitted up to `now`.
    pub fn arrive(&mut self, now: Timestamp) {
        for Line { future, waiting } in self.lines.values_mut() {
            while future.first().is_some_and(|(submit, _)| *submit <= now) {
                waiting.extend(future.pop_first().map(|(_, place)| place));
            }
        }
    }

    /// The earliest submission of a later time, among owners with a place.
    pub fn next_submission(&self, mut has_place: impl FnMut(&O) -> bool) -> Option<Timestamp> {
        let admissible = self.lines.iter().filter(|(owner, _)| has_place(owner));
        let firsts = admissible.filter_map(|(_, line)| line.future.first());
        firsts.map(|(submit, _)| *submit).min()
    }

    /// Takes the first waiting item that has room, among owners with a place.
    pub fn next(
        &mut self,
        mut has_place: impl FnMut(&O) -> bool,
        mut has_room: impl FnMut(&T) -> bool,
    ) -> Option<T> {
        let admissible = self.lines.iter().filter(|(owner, _)| has_place(owner));
        let firsts = admissible.filter_map(|(owner, line)| {
            let first = line.waiting.iter().find(|place| has_room(&place.item))?;
            Some((first, owner))
        });
        let (first, owner) = firsts.min()?;
        let (first, owner) = (first.clone(), owner.clone());
        self.lines.get_mut(&owner)?.waiting.remove(&first);
        self.forget_empty();
        Some(first.item)
    }

    /// Removes an item, whether it waits or not. Linear in the number of items.
    pub fn remove(&mut self, item: &T) {
        for Line { future, waiting } in self.lines.values_mut() {
            future.retain(|(_, place)| place.item != *item);
            waiting.retain(|place| place.item != *item);
        }
        self.forget_empty();
    }

    fn forget_empty(&mut self) {
        let empty = |line: &Line<T>| line.future.is_empty() && line.waiting.is_empty();
        self.lines.retain(|_, line| !empty(line));
    }

    /// Whether an item with room waits whose owner has a place.
    pub fn waits(
        &self,
        mut has_place: impl FnMut(&O) -> bool,
        mut has_room: impl FnMut(&T) -> bool,
    ) -> bool {
        let mut admissible = self.lines.iter().filter(|(owner, _)| has_place(owner));
        admissible.any(|(_, line)| line.waiting.iter().any(|place| has_room(&place.item)))
    }

    /// Whether it has no item, waiting or of a later time.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
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
    fn an_item_without_room_lets_others_pass_and_keeps_its_place() {
        let mut queue = Queue::default();
        queue.submit(at(10), 0, 1, "ann", "first");
        queue.submit(at(10), 0, 2, "bob", "second");
        queue.submit(at(11), 5, 3, "ann", "urgent");
        queue.submit(at(99), 9, 4, "bob", "later");
        assert_eq!(queue.next(|_| true, |_| true), None, "none has arrived");
        queue.arrive(at(11));
        assert_eq!(queue.next_submission(|_| true), Some(at(99)));
        assert_eq!(queue.next_submission(|o| *o == "ann"), None);
        assert_eq!(
            queue.clone().next(|o| *o == "bob", |_| true),
            Some("second")
        );
        let calm = |item: &&str| *item != "urgent";
        assert_eq!(queue.next(|_| true, calm), Some("first"));
        assert_eq!(queue.next(|_| true, |_| false), None);
        assert_eq!(queue.next(|_| false, |_| true), None);
        assert_eq!(queue.next(|_| true, |_| true), Some("urgent"));
        queue.remove(&"later");
        assert_eq!(queue.next_submission(|_| true), None);
        assert!(queue.waits(|_| true, |_| true) && !queue.waits(|_| true, |_| false));
        assert!(!queue.waits(|o| *o == "ann", |_| true) && !queue.is_empty());
        queue.remove(&"second");
        assert!(!queue.waits(|_| true, |_| true) && queue.is_empty());
    }

    #[test]
    fn an_owner_with_all_places_keeps_no_other_owner_out() {
        let taken = |all: &[&'static str]| {
            let active: Vec<_> = all.iter().map(|owner| (*owner, true)).collect();
            Places::new(4, active)
        };
        let full = taken(&["eve"; 4]);
        assert!(!full.free() && !full.free_for(&"eve"));
        // Half of the places for the second owner, a third for the third, and one at least.
        assert!(full.free_for(&"ann"));
        assert!(taken(&["eve", "eve", "eve", "eve", "ann"]).free_for(&"ann"));
        let shared = taken(&["eve", "eve", "eve", "eve", "ann", "ann"]);
        assert!(!shared.free_for(&"ann") && !shared.free_for(&"eve") && shared.free_for(&"bob"));
        let many = taken(&["a", "b", "c", "d", "e", "f"]);
        assert!(many.free_for(&"g") && !many.free_for(&"a"));
        // Trainers that fit into no pool take no place, up to `MOST_ACTIVE` for each place.
        let misfits = vec![("eve", false); 31];
        assert!(Places::new(4, misfits.clone()).free_for(&"eve"));
        let more = misfits.into_iter().chain([("eve", false)]);
        assert!(!Places::new(4, more).free_for(&"ann"));
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
                    queue.submit(entry.0, entry.1, entry.2, n % 3, entry.3);
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
                let kept_out = rng.random_range(0..4);
                let has_place = |owner: &u32| *owner != kept_out;
                let arrived = list
                    .iter()
                    .filter(|e| e.0 <= now && has_room(&e.3) && has_place(&(e.3 % 3)));
                let first = arrived
                    .min_by_key(|e| (Reverse(e.1), e.0, e.2, e.3))
                    .copied();
                assert_eq!(queue.waits(has_place, has_room), first.is_some());
                assert_eq!(queue.next(has_place, has_room), first.map(|e| e.3));
                list.retain(|e| Some(*e) != first);
                taken += u32::from(first.is_some());
                let next = list
                    .iter()
                    .map(|e| e.0)
                    .filter(|submit| *submit > now)
                    .min();
                assert_eq!(queue.next_submission(|_| true), next);
                assert_eq!(queue.is_empty(), list.is_empty());
            }
        }
        assert!(taken > 1_000, "{taken} were taken");
    }
}
