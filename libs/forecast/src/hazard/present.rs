//! The present holes in their orders, with the state of each.

use std::collections::BTreeMap;

use crate::Nodes;
use crate::co_departure::PairFeatures;
use crate::lengths::Watched;

/// The group of an absent node.
const NONE: u32 = u32::MAX;

/// Holes of one step that begin within this many seconds are one release: some schedulers write the
/// ends of a job node by node.
const TOGETHER_S: f64 = 1.0;

/// A node passed over at most this often counts as fresh: it delays the nodes behind it.
const FRESH: u16 = 3;

/// The state of a node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Slot {
    pub(crate) since_s: f64,
    /// When the hole was first seen.
    seen_s: f64,
    pub(crate) group: u32,
    pub(crate) passed: u16,
    pub(crate) is_present: bool,
    pub(crate) is_leaving: bool,
}

const ABSENT: Slot = Slot {
    since_s: 0.0,
    seen_s: 0.0,
    group: NONE,
    passed: 0,
    is_present: false,
    is_leaving: false,
};

/// The holes of one release.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Group {
    pub(crate) size: u32,
    pub(crate) left: u32,
    /// The number of earlier releases.
    serial: u32,
    /// The place of its first member, valid in the walk with this stamp.
    front: u32,
    stamp: u32,
}

/// A list of present nodes sorted by a key.
#[derive(Debug, Clone, Default)]
struct Sorted {
    key: Vec<u64>,
    list: Vec<u32>,
}

impl Sorted {
    fn sort(&mut self) {
        let key = &self.key;
        // The list is sorted but for its end, which the standard sort exploits.
        self.list
            .sort_by_key(|&node| key.get(node as usize).copied().unwrap_or(u64::MAX));
    }
}

/// The key of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// The given order, or its reverse.
    Rank,
    /// The learnt order.
    Taken,
    /// Newest release first, since young holes end first.
    Release,
}

/// The present holes.
#[derive(Debug, Clone)]
pub(crate) struct Present {
    pub(crate) nodes: Nodes,
    pub(crate) slots: Vec<Slot>,
    pub(crate) groups: Vec<Group>,
    spare: Vec<u32>,
    in_block: Vec<u32>,
    lists: [Sorted; 3],
    releases: u32,
    pub(crate) leaving: Vec<u32>,
    stamp: u32,
    is_reversed: bool,
}

impl Present {
    pub(crate) fn new(nodes: Nodes) -> Self {
        let mut present = Self {
            nodes: Nodes::default(),
            slots: Vec::new(),
            groups: Vec::new(),
            spare: Vec::new(),
            in_block: Vec::new(),
            lists: Default::default(),
            releases: 0,
            leaving: Vec::new(),
            stamp: 0,
            is_reversed: false,
        };
        present.renumber(nodes);
        present
    }

    fn list_of(&self, by: By) -> &Sorted {
        let [rank, taken, release] = &self.lists;
        match by {
            By::Rank => rank,
            By::Taken => taken,
            By::Release => release,
        }
    }

    /// The present nodes in an order.
    pub(crate) fn list(&self, by: By) -> &[u32] {
        &self.list_of(by).list
    }

    /// Sets new ranks and blocks, or adds nodes.
    pub(crate) fn renumber(&mut self, mut nodes: Nodes) {
        let is_reversed = self.is_reversed;
        nodes.grow(self.slots.len());
        let count = nodes.count();
        self.slots.resize(count, ABSENT);
        let [rank, taken, release] = &mut self.lists;
        rank.key = (0..count as u32)
            .map(|node| {
                let place = u64::from(nodes.rank(node));
                if is_reversed { u64::MAX - place } else { place }
            })
            .collect();
        let known = taken.key.len();
        taken.key.extend(
            (known as u32..count as u32).map(|node| (1 << 40) + u64::from(nodes.rank(node))),
        );
        release.key.resize(count, 0);
        self.in_block = vec![0; nodes.blocks() as usize];
        for &node in &rank.list {
            if let Some(count) = self.in_block.get_mut(nodes.block(node) as usize) {
                *count += 1;
            }
        }
        self.nodes = nodes;
        for list in &mut self.lists {
            list.sort();
        }
    }

    /// Sets the direction of the given order.
    pub(crate) fn reverse(&mut self, reversed: bool) {
        let nodes = std::mem::take(&mut self.nodes);
        self.is_reversed = reversed;
        self.renumber(nodes);
    }

    /// Sets a new learnt order.
    pub(crate) fn learn(&mut self, ranks: &[u32]) {
        let [_, taken, _] = &mut self.lists;
        for (key, &rank) in taken.key.iter_mut().zip(ranks) {
            *key = u64::from(rank);
        }
        taken.sort();
    }

    /// Makes room for a node, and tells whether it was known.
    pub(crate) fn make_room(&mut self, node: u32) -> bool {
        let known = (node as usize) < self.slots.len();
        if !known {
            let mut nodes = std::mem::take(&mut self.nodes);
            nodes.grow(node as usize + 1);
            self.renumber(nodes);
        }
        known
    }

    /// Marks a present node as leaving. `false` if it is absent or marked already.
    pub(crate) fn mark(&mut self, node: u32) -> bool {
        match self.slots.get_mut(node as usize) {
            Some(slot) if slot.is_present && !slot.is_leaving => {
                slot.is_leaving = true;
                self.leaving.push(node);
                true
            }
            _ => false,
        }
    }

    pub(crate) fn slot(&self, node: u32) -> Slot {
        self.slots.get(node as usize).copied().unwrap_or(ABSENT)
    }

    /// The hole of a node as it has been watched up to a time.
    pub(crate) fn watched(&self, node: u32, until_s: f64) -> Watched {
        let slot = self.slot(node);
        Watched {
            from_s: slot.seen_s - slot.since_s,
            until_s: until_s - slot.since_s,
            share: 1.0 / f64::from(self.group(slot.group).size.max(1)),
        }
    }

    pub(crate) fn in_block(&self, node: u32) -> u32 {
        let block = self.nodes.block(node) as usize;
        self.in_block.get(block).copied().unwrap_or(0)
    }

    /// The place of a node among all nodes of the machine in an order, as a share.
    pub(crate) fn rank_share(&self, by: By, node: u32) -> f32 {
        let count = self.slots.len().max(1) as u64;
        let place = match by {
            By::Taken => {
                let keys = &self.list_of(by).key;
                keys.get(node as usize).copied().unwrap_or(count)
            }
            By::Rank | By::Release => {
                let rank = u64::from(self.nodes.rank(node));
                if self.is_reversed {
                    count.saturating_sub(rank + 1)
                } else {
                    rank
                }
            }
        };
        place.min(count) as f32 / count as f32
    }

    pub(crate) fn group(&self, group: u32) -> Group {
        self.groups.get(group as usize).copied().unwrap_or_default()
    }

    /// The mean place of the leaving nodes in a list: 0 if they are its front, 1 if they are its
    /// end, .5 on average for random nodes. `None` if no node stays.
    pub(crate) fn mean_place(&self, by: By) -> Option<f64> {
        let list = self.list(by);
        if self.leaving.is_empty() || self.leaving.len() >= list.len() {
            return None;
        }
        let places: f64 = list
            .iter()
            .enumerate()
            .filter(|&(_, &node)| self.slot(node).is_leaving)
            .map(|(place, _)| place as f64 + 0.5)
            .sum();
        let (leaving, all) = (self.leaving.len() as f64, list.len() as f64);
        Some((places / leaving - leaving / 2.0) / (all - leaving))
    }

    /// The features that two nodes share.
    pub(crate) fn pair_features(&self, a: u32, b: u32) -> PairFeatures {
        let (a_group, b_group) = (self.slot(a).group, self.slot(b).group);
        let left = self.group(a_group).left.min(self.group(b_group).left);
        PairFeatures {
            release: a_group == b_group,
            left,
            block: self.nodes.block(a) == self.nodes.block(b),
        }
    }

    /// Counts once more for every node in front of the last leaving one that it was passed over.
    pub(crate) fn pass_over(&mut self, by: By) {
        let [rank, taken, release] = &self.lists;
        let list = match by {
            By::Rank => rank,
            By::Taken => taken,
            By::Release => release,
        };
        let last = list.list.iter().rposition(|&node| {
            self.slots
                .get(node as usize)
                .is_some_and(|slot| slot.is_leaving)
        });
        for &node in list.list.iter().take(last.unwrap_or(0)) {
            if let Some(slot) = self.slots.get_mut(node as usize)
                && !slot.is_leaving
            {
                slot.passed = slot.passed.saturating_add(1);
            }
        }
    }

    /// Bounds the starts of holes by `now_s`.
    pub(crate) fn turn_back(&mut self, now_s: f64) {
        for slot in self.slots.iter_mut().filter(|slot| slot.is_present) {
            slot.since_s = slot.since_s.min(now_s);
            slot.seen_s = slot.seen_s.min(now_s);
        }
    }

    /// Removes the marked nodes.
    pub(crate) fn remove_marked(&mut self) {
        if self.leaving.is_empty() {
            return;
        }
        for list in &mut self.lists {
            let slots = &self.slots;
            list.list
                .retain(|&node| slots.get(node as usize).is_some_and(|s| !s.is_leaving));
        }
        for node in std::mem::take(&mut self.leaving) {
            if let Some(slot) = self.slots.get_mut(node as usize) {
                let group = std::mem::replace(slot, ABSENT).group;
                if let Some(entry) = self.groups.get_mut(group as usize) {
                    entry.left = entry.left.saturating_sub(1);
                    if entry.left == 0 {
                        self.spare.push(group);
                    }
                }
            }
            let block = self.nodes.block(node) as usize;
            if let Some(count) = self.in_block.get_mut(block) {
                *count = count.saturating_sub(1);
            }
        }
    }

    /// Opens holes that are first seen now, given as `(node, start in seconds)`. None of the nodes
    /// is present.
    pub(crate) fn open(&mut self, now_s: f64, opened: &[(u32, f64)]) {
        // The keys are starts in units of `TOGETHER_S`.
        let mut together: BTreeMap<i64, u32> = BTreeMap::new();
        for &(node, since_s) in opened {
            let unit = (since_s / TOGETHER_S).floor() as i64;
            // A start in the unit before may be less than one unit away.
            let near = [unit, unit - 1].into_iter().find_map(|at| {
                let group = together.get(&at).copied()?;
                Some(group)
            });
            let group = near.unwrap_or_else(|| self.new_group());
            together.entry(unit).or_insert(group);
            if let Some(entry) = self.groups.get_mut(group as usize) {
                entry.size += 1;
                entry.left += 1;
            }
            if let Some(slot) = self.slots.get_mut(node as usize) {
                *slot = Slot {
                    since_s,
                    seen_s: now_s,
                    group,
                    passed: 0,
                    is_present: true,
                    is_leaving: false,
                };
            }
            let block = self.nodes.block(node) as usize;
            if let Some(count) = self.in_block.get_mut(block) {
                *count += 1;
            }
            let serial = self.group(group).serial;
            let newest_first = u64::from(u32::MAX - serial) << 32;
            let key = newest_first | u64::from(self.nodes.rank(node));
            let [_, _, release] = &mut self.lists;
            if let Some(slot) = release.key.get_mut(node as usize) {
                *slot = key;
            }
            for list in &mut self.lists {
                list.list.push(node);
            }
        }
        if !opened.is_empty() {
            for list in &mut self.lists {
                list.sort();
            }
        }
    }

    fn new_group(&mut self) -> u32 {
        self.releases = self.releases.wrapping_add(1);
        let fresh = Group {
            serial: self.releases,
            ..Group::default()
        };
        let reused = self.spare.pop();
        if let Some(entry) = reused.and_then(|group| self.groups.get_mut(group as usize)) {
            *entry = fresh;
        } else {
            self.groups.push(fresh);
        }
        reused.unwrap_or((self.groups.len() - 1) as u32)
    }

    /// Walks along a list and calls `each(self, place, node, fresh nodes in front, place of the
    /// first node of its group)`.
    pub(crate) fn walk(&mut self, by: By, mut each: impl FnMut(&Self, u32, u32, u32, u32)) {
        self.stamp = self.stamp.wrapping_add(1);
        let list = {
            let [rank, taken, release] = &mut self.lists;
            std::mem::take(match by {
                By::Rank => &mut rank.list,
                By::Taken => &mut taken.list,
                By::Release => &mut release.list,
            })
        };
        let mut fresh = 0;
        for (place, &node) in (0u32..).zip(&list) {
            let slot = self.slot(node);
            let stamp = self.stamp;
            let front = self.groups.get_mut(slot.group as usize).map_or(0, |group| {
                if group.stamp != stamp {
                    (group.stamp, group.front) = (stamp, place);
                }
                group.front
            });
            each(self, place, node, fresh, front);
            fresh += u32::from(slot.passed <= FRESH);
        }
        let [rank, taken, release] = &mut self.lists;
        match by {
            By::Rank => rank.list = list,
            By::Taken => taken.list = list,
            By::Release => release.list = list,
        }
    }
}
