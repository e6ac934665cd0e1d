//! The sizes of one trainer that can be in an optimum, with their concave hull; kept from solve
//! to solve.

#![expect(
    clippy::indexing_slicing,
    reason = "hot path; all indices are positions of lists built in this file"
)]

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use crate::Item;

/// One size of one trainer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Choice {
    /// Node count.
    pub(super) n: u32,
    /// Net gain, with the tie bonus.
    pub(super) gain: f64,
}

/// A step along a trainer's hull.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Step {
    /// Gain per node.
    pub(super) slope: f64,
    /// The choice that it leads to.
    pub(super) to: u32,
    /// Node count that it leads to.
    pub(super) n: u32,
    /// Number of added nodes.
    pub(super) more: u32,
}

/// The part of a problem on which the choices of all trainers depend.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ProblemKey {
    pub(super) nodes: u32,
    pub(super) horizon_s: f64,
    /// Bonus on the gain of the present size, so that ties go to it.
    pub(super) bonus: f64,
}

/// The key of the choices of a trainer. The address of the rates identifies them; the table keeps
/// them alive, so that no others get the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    value: usize,
    current: u32,
    min: u32,
    top: u32,
    numbers: [u64; 8],
}

impl Key {
    fn new(item: &Item, frame: ProblemKey) -> Self {
        let numbers = [
            item.rate_now,
            item.up_s,
            item.pilot_s,
            item.down_s,
            item.lost.change_s,
            item.lost.stop_s,
            frame.horizon_s,
            frame.bonus,
        ];
        Self {
            value: item.value.as_ptr().addr(),
            current: item.current,
            min: item.min,
            top: item.max.min(frame.nodes),
            numbers: numbers.map(f64::to_bits),
        }
    }
}

/// The undominated choices of a trainer (node count and gain both strictly increase), and the
/// steps of their upper concave hull (slopes strictly fall).
#[derive(Debug, Clone)]
pub(super) struct Table {
    key: Key,
    /// Keeps the rates, and so their place in memory.
    _value: Arc<[f64]>,
    pub(super) list: Vec<Choice>,
    pub(super) hull: Vec<Step>,
}

impl Table {
    fn new(item: &Item, frame: ProblemKey, key: Key, corners: &mut Vec<u32>) -> Self {
        let list = choices(item, frame);
        let hull = hull(&list, corners);
        Self {
            key,
            _value: item.value.clone(),
            list,
            hull,
        }
    }

    /// The fewest nodes that it may have.
    pub(super) fn least(&self) -> u32 {
        self.list.first().map_or(0, |c| c.n)
    }

    /// The choice after `steps` steps of the hull.
    pub(super) fn after(&self, steps: u32) -> u32 {
        match steps.checked_sub(1) {
            Some(last) => self.hull[last as usize].to,
            None => 0,
        }
    }

    /// The node count after `steps` steps of the hull.
    pub(super) fn nodes_after(&self, steps: u32) -> u32 {
        match steps.checked_sub(1) {
            Some(last) => self.hull[last as usize].n,
            None => self.least(),
        }
    }
}

fn choices(item: &Item, frame: ProblemKey) -> Vec<Choice> {
    let horizon_s = frame.horizon_s;
    let top = item.max.min(frame.nodes);
    let mut list = Vec::with_capacity(top as usize + 1);
    // But for pilots and a stop, the cost of a change is one number on each side of the present size.
    let (stop, down, up) = (item.shrink_cost(0), item.shrink_cost(1), item.grow_cost());
    let mut best = f64::NEG_INFINITY;
    let mut consider = |n: u32, value: f64| {
        let gain = match n.cmp(&item.current) {
            std::cmp::Ordering::Less if n == 0 => horizon_s * value - stop,
            std::cmp::Ordering::Less => horizon_s * value - down,
            std::cmp::Ordering::Equal => horizon_s * value + frame.bonus,
            std::cmp::Ordering::Greater => horizon_s * value - up - item.pilot_wait(value),
        };
        if gain > best {
            best = gain;
            list.push(Choice { n, gain });
        }
    };
    consider(0, item.value.first().copied().unwrap_or(0.0));
    let first = item.min.max(1);
    for (n, &value) in (first..=top).zip(item.value.iter().skip(first as usize)) {
        consider(n, value);
    }
    list
}

/// The steps of the upper concave hull; `corners` is memory.
fn hull(list: &[Choice], corners: &mut Vec<u32>) -> Vec<Step> {
    corners.clear();
    for (at, option) in list.iter().enumerate() {
        while let [.., a, b] = corners[..] {
            let (a, b) = (list[a as usize], list[b as usize]);
            // b is under or on the line from a to the new option.
            if slope(a, b) > slope(b, *option) {
                break;
            }
            corners.pop();
        }
        corners.push(at as u32);
    }
    corners
        .windows(2)
        .map(|pair| {
            let (a, b) = (list[pair[0] as usize], list[pair[1] as usize]);
            Step {
                slope: slope(a, b),
                to: pair[1],
                n: b.n,
                more: b.n - a.n,
            }
        })
        .collect()
}

fn slope(a: Choice, b: Choice) -> f64 {
    (b.gain - a.gain) / f64::from(b.n - a.n)
}

/// Most choices that are kept over all tables; beyond that all are forgotten. 16 bytes each.
const MOST_KEPT: usize = 500_000;

/// Mixes the few words of a [`Key`]. The standard hasher, which withstands chosen keys, would
/// take longer than the look-up saves on small pools.
#[derive(Debug, Clone, Copy, Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    fn write_u64(&mut self, word: u64) {
        // The odd constant is the golden ratio's, as in Fibonacci hashing.
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
}

/// Tables by what they depend on.
#[derive(Debug, Clone, Default)]
pub(super) struct Tables {
    all: Vec<Table>,
    places: HashMap<Key, u32, BuildHasherDefault<Mix>>,
    kept: usize,
    corners: Vec<u32>,
}

impl Tables {
    /// Forgets all if there is too much, so that memory stays bounded. Places given before are
    /// void then, which the answer says.
    pub(super) fn make_room(&mut self) -> bool {
        let full = self.kept > MOST_KEPT;
        if full {
            self.clear();
        }
        full
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.all.clear();
        self.places.clear();
        self.kept = 0;
    }

    /// The place of a trainer's table, which is made if it is not known. `likely` is where it
    /// was in the problem before.
    pub(super) fn place(&mut self, item: &Item, frame: ProblemKey, likely: Option<u32>) -> u32 {
        let key = Key::new(item, frame);
        if let Some(place) = likely
            && self.all.get(place as usize).is_some_and(|t| t.key == key)
        {
            return place;
        }
        if let Some(&place) = self.places.get(&key) {
            return place;
        }
        let place = self.all.len() as u32;
        let table = Table::new(item, frame, key, &mut self.corners);
        self.kept += table.list.len() + table.hull.len();
        self.all.push(table);
        self.places.insert(key, place);
        place
    }

    /// The table at a place.
    pub(super) fn at(&self, place: u32) -> &Table {
        &self.all[place as usize]
    }
}
