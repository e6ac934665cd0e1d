//! The free room over time, and the first time at which a job fits.
//!
//! A profile is a list of times, each with the room until the next one; the last room holds
//! forever. The room is a number of nodes where nodes are interchangeable. Where they are not
//! (adjacent nodes, or drained or reserved ones) it is a set of nodes, and a job must fit onto the
//! same nodes for its whole length.

use crate::job::NodeRange;
use crate::machine::Layout;
use crate::nodes::NodeSet;

/// Nodes that are free at one time.
pub(crate) trait Room: Clone {
    /// The part of the room that one job holds.
    type Part: Clone + std::fmt::Debug;

    /// The number of free nodes.
    fn count(&self) -> u32;
    /// Keeps only the nodes that `other` has too.
    fn narrow(&mut self, other: &Self);
    /// Nodes for a job; `None` if there are too few.
    fn pick(&self, nodes: u32, layout: Layout) -> Option<Self::Part>;
    /// Whether all of these nodes are free.
    fn holds(&self, part: &Self::Part) -> bool;
    /// Removes nodes from the room.
    fn take(&mut self, part: &Self::Part);
    /// Returns nodes to the room.
    fn give(&mut self, part: &Self::Part);
}

/// Interchangeable nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Count(pub(crate) u32);

impl Room for Count {
    type Part = u32;

    fn count(&self) -> u32 {
        self.0
    }

    fn narrow(&mut self, other: &Self) {
        self.0 = self.0.min(other.0);
    }

    fn pick(&self, nodes: u32, _: Layout) -> Option<u32> {
        (self.0 >= nodes).then_some(nodes)
    }

    fn holds(&self, part: &u32) -> bool {
        self.0 >= *part
    }

    fn take(&mut self, part: &u32) {
        self.0 = self.0.saturating_sub(*part);
    }

    fn give(&mut self, part: &u32) {
        self.0 = self.0.saturating_add(*part);
    }
}

impl Room for NodeSet {
    type Part = Vec<NodeRange>;

    fn count(&self) -> u32 {
        NodeSet::count(self)
    }

    fn narrow(&mut self, other: &Self) {
        self.keep(other);
    }

    fn pick(&self, nodes: u32, layout: Layout) -> Option<Vec<NodeRange>> {
        match layout {
            Layout::FirstFit => self.lowest(nodes),
            Layout::Contiguous => self.block(nodes).map(|range| vec![range]),
        }
    }

    fn holds(&self, part: &Vec<NodeRange>) -> bool {
        self.contains(part)
    }

    fn take(&mut self, part: &Vec<NodeRange>) {
        self.remove(part);
    }

    fn give(&mut self, part: &Vec<NodeRange>) {
        self.insert(part);
    }
}

/// The room over time. The first time is the present.
#[derive(Debug, Clone)]
pub(crate) struct Profile<R> {
    points: Vec<(i64, R)>,
}

impl<R: Room> Profile<R> {
    /// Times in ascending order with their rooms. At equal times the last one counts.
    pub(crate) fn new(now: i64, room: R) -> Self {
        Self {
            points: vec![(now, room)],
        }
    }

    /// Appends the room from `at` on; `at` is not before the newest time.
    pub(crate) fn then(&mut self, at: i64, room: R) {
        match self.points.last_mut() {
            Some(last) if last.0 >= at => last.1 = room,
            _ => self.points.push((at, room)),
        }
    }

    /// Drops all times before `now`.
    pub(crate) fn advance(&mut self, now: i64) {
        let passed = self.points.partition_point(|(at, _)| *at <= now);
        self.points.drain(..passed.saturating_sub(1));
        if let Some(first) = self.points.first_mut() {
            first.0 = now;
        }
    }

    /// The first time from which a job of this size and length fits, with its nodes. `None` if
    /// there is no such time.
    pub(crate) fn find(&self, nodes: u32, length: i64, layout: Layout) -> Option<(i64, R::Part)> {
        let mut from = 0;
        while let Some((start, _)) = self.points.get(from) {
            match self.fits(from, nodes, start.saturating_add(length), layout) {
                Ok(part) => return Some((*start, part)),
                Err(next) => from = next,
            }
        }
        None
    }

    /// Nodes for a job that starts now; `None` if it does not fit.
    pub(crate) fn fits_now(&self, nodes: u32, length: i64, layout: Layout) -> Option<R::Part> {
        let (now, _) = self.points.first()?;
        let end = now.saturating_add(length);
        self.fits(0, nodes, end, layout).ok()
    }

    /// Nodes for a job from point `from` until `end`, or else the next point from which it might
    /// fit.
    fn fits(&self, from: usize, nodes: u32, end: i64, layout: Layout) -> Result<R::Part, usize> {
        let points = self.points.get(from..).unwrap_or_default();
        let Some(((_, first), later)) = points.split_first() else {
            return Err(from + 1);
        };
        if first.count() < nodes {
            return Err(from + 1);
        }
        // Numbers are compared first: a time with too few nodes rules out all starts before it.
        // Sets of nodes are compared only then.
        let mut within = 0;
        for (at, room) in later {
            if *at >= end {
                break;
            }
            within += 1;
            if room.count() < nodes {
                return Err(from + within + 1);
            }
        }
        if within == 0 {
            return first.pick(nodes, layout).ok_or(from + 1);
        }
        let mut common = first.clone();
        for (_, room) in later.iter().take(within) {
            common.narrow(room);
            if common.count() < nodes {
                return Err(from + 1);
            }
        }
        common.pick(nodes, layout).ok_or(from + 1)
    }

    /// Whether a job of this size might fit at some time before `start`, by numbers alone.
    pub(crate) fn room_before(&self, start: i64, nodes: u32) -> bool {
        let mut before = self.points.iter().take_while(|(at, _)| *at < start);
        before.any(|(_, room)| room.count() >= nodes)
    }

    /// Whether these nodes are free in `[start, end)`.
    pub(crate) fn holds(&self, start: i64, end: i64, part: &R::Part) -> bool {
        let first = self.points.partition_point(|(at, _)| *at <= start);
        let Some(first) = first.checked_sub(1) else {
            return false;
        };
        self.points
            .iter()
            .skip(first)
            .take_while(|(at, _)| *at < end)
            .all(|(_, room)| room.holds(part))
    }

    /// Takes nodes in `[start, end)`.
    pub(crate) fn take(&mut self, start: i64, end: i64, part: &R::Part) {
        self.change(start, end, |room| room.take(part));
    }

    /// Gives nodes back in `[start, end)`.
    pub(crate) fn give(&mut self, start: i64, end: i64, part: &R::Part) {
        self.change(start, end, |room| room.give(part));
    }

    fn change(&mut self, start: i64, end: i64, mut change: impl FnMut(&mut R)) {
        let first = self.split(start);
        let last = self.split(end);
        let within = self.points.get_mut(first..last).unwrap_or_default();
        for (_, room) in within {
            change(room);
        }
    }

    /// Inserts `at` as a point of the profile and returns its place.
    fn split(&mut self, at: i64) -> usize {
        let place = self.points.partition_point(|(moment, _)| *moment < at);
        if self.points.get(place).is_some_and(|point| point.0 == at) {
            return place;
        }
        let before = place.checked_sub(1).and_then(|i| self.points.get(i));
        if let Some(room) = before.map(|point| point.1.clone()) {
            self.points.insert(place, (at, room));
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: u32, count: u32) -> NodeRange {
        NodeRange { first, count }
    }

    #[test]
    fn a_job_starts_where_its_whole_length_fits() {
        // 2 nodes free now, 5 from 10 on, 1 from 20 on, 8 from 30 on.
        let mut profile = Profile::new(0, Count(2));
        profile.then(10, Count(5));
        profile.then(20, Count(1));
        profile.then(30, Count(8));
        let start = |nodes, length| {
            let found = profile.find(nodes, length, Layout::FirstFit);
            found.map(|(at, _)| at)
        };
        assert_eq!(start(2, 20), Some(0));
        assert_eq!(start(2, 21), Some(30));
        assert_eq!(start(5, 10), Some(10));
        assert_eq!(start(5, 11), Some(30));
        assert_eq!(start(9, 1), None);
        assert!(profile.room_before(30, 5) && !profile.room_before(10, 5));
    }

    #[test]
    fn room_that_is_taken_and_returned_is_unchanged() {
        let mut profile = Profile::new(0, Count(4));
        profile.then(10, Count(8));
        profile.take(5, 15, &3);
        assert_eq!(
            profile.points,
            [(0, Count(4)), (5, Count(1)), (10, Count(5)), (15, Count(8))]
        );
        assert!(profile.holds(4, 15, &1) && !profile.holds(4, 15, &2));
        profile.give(5, 15, &3);
        let rooms: Vec<u32> = profile.points.iter().map(|point| point.1.0).collect();
        assert_eq!(rooms, [4, 4, 8, 8]);
        profile.advance(12);
        assert_eq!(profile.points, [(12, Count(8)), (15, Count(8))]);
    }

    #[test]
    fn a_job_needs_the_same_nodes_for_its_whole_length() {
        // Nodes 0 and 1 are free until 10, 2 and 3 from 5 to 20, all from 20 on.
        let set = |ranges: &[NodeRange]| {
            let mut set = NodeSet::empty(4);
            set.insert(ranges);
            set
        };
        let mut profile = Profile::new(0, set(&[range(0, 2)]));
        profile.then(5, set(&[range(0, 4)]));
        profile.then(10, set(&[range(2, 2)]));
        profile.then(20, set(&[range(0, 4)]));
        let find = |nodes, length, layout| profile.find(nodes, length, layout);
        let fit = Layout::FirstFit;
        assert_eq!(find(2, 10, fit), Some((0, vec![range(0, 2)])));
        assert_eq!(find(2, 11, fit), Some((5, vec![range(2, 2)])));
        assert_eq!(find(3, 6, fit), Some((20, vec![range(0, 3)])));
        let block = Layout::Contiguous;
        assert_eq!(find(3, 5, block), Some((5, vec![range(0, 3)])));
    }
}
