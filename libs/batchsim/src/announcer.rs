//! Changes of the planned ends of present holes.

use crate::preview::PlannedHoles;

/// No planned start.
const NONE: i64 = i64::MAX;

/// Lists the changes of the planned ends of present holes ([`Simulator::planned_holes`]). A
/// planned end that has passed moves to the next second at each step.
///
/// [`Simulator::planned_holes`]: crate::Simulator::planned_holes
#[derive(Debug, Clone)]
pub struct Announcer {
    /// The planned end by node, seconds.
    at: Vec<i64>,
    changes: Vec<(u32, Option<i64>)>,
}

impl Announcer {
    /// An announcer for `nodes` nodes without planned ends.
    #[must_use]
    pub fn new(nodes: u32) -> Self {
        Self {
            at: vec![NONE; nodes as usize],
            changes: Vec::new(),
        }
    }

    /// Returns the changes at second `now`: node and planned end, ascending by node, with `None`
    /// for a withdrawn plan. `taken` are the nodes whose holes end now, and `holes` are all present
    /// holes. The end of a hole clears its plan without a change in the list.
    pub fn step(
        &mut self,
        now: i64,
        taken: impl IntoIterator<Item = u32>,
        holes: &[PlannedHoles],
    ) -> &[(u32, Option<i64>)] {
        self.changes.clear();
        let soonest = now.saturating_add(1);
        for node in taken {
            if let Some(known) = self.at.get_mut(node as usize) {
                *known = NONE;
            }
        }
        for PlannedHoles { nodes, at } in holes {
            let at = at.map_or(NONE, |at| at.max(soonest));
            for node in nodes.nodes() {
                if let Some(known) = self.at.get_mut(node as usize)
                    && *known != at
                {
                    *known = at;
                    self.changes.push((node, (at != NONE).then_some(at)));
                }
            }
        }
        &self.changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NodeRange;

    fn holes(first: u32, count: u32, at: Option<i64>) -> PlannedHoles {
        let nodes = NodeRange { first, count };
        PlannedHoles { nodes, at }
    }

    #[test]
    fn only_changes_are_listed_and_a_planned_end_is_cleared_with_its_hole() {
        let mut announcer = Announcer::new(4);
        let first = [holes(0, 2, Some(1100)), holes(2, 1, None)];
        let changes = announcer.step(1000, [], &first);
        assert_eq!(changes, [(0, Some(1100)), (1, Some(1100))]);
        let second = [holes(0, 2, Some(1100)), holes(2, 1, Some(1050))];
        assert_eq!(announcer.step(1000, [], &second), [(2, Some(1050))]);
        // The hole of node 0 ends. Its next hole is another one.
        let third = [holes(1, 1, None), holes(2, 1, Some(1050))];
        assert_eq!(announcer.step(1000, [0], &third), [(1, None)]);
        let fourth = [holes(0, 1, Some(1100)), holes(1, 1, None)];
        assert_eq!(announcer.step(1000, [], &fourth), [(0, Some(1100))]);
        // Second 1100 has passed, and the hole is still open.
        let last = [holes(0, 1, Some(1100))];
        assert_eq!(announcer.step(1120, [], &last), [(0, Some(1121))]);
    }
}
