//! Planned starts of the present holes, as changes from moment to moment.

use crate::outlook::Wanted;

/// No planned start.
const NONE: i64 = i64::MAX;

/// Tells how planned starts of present holes change ([`Simulator::wanted`]). One that has passed
/// is told for the next second, again and again.
///
/// [`Simulator::wanted`]: crate::Simulator::wanted
#[derive(Debug, Clone)]
pub struct Announcer {
    /// Seconds by node.
    told: Vec<i64>,
    changes: Vec<(u32, Option<i64>)>,
}

impl Announcer {
    /// None of `nodes` nodes has a planned start.
    #[must_use]
    pub fn new(nodes: u32) -> Self {
        Self {
            told: vec![NONE; nodes as usize],
            changes: Vec::new(),
        }
    }

    /// At second `now` the holes of the nodes `taken` end, and those that are present are
    /// `wanted`. Gives what has changed of these: node and planned start, ascending by node;
    /// nothing for a plan that is withdrawn. A planned start ends with its hole untold.
    pub fn step(
        &mut self,
        now: i64,
        taken: impl IntoIterator<Item = u32>,
        wanted: &[Wanted],
    ) -> &[(u32, Option<i64>)] {
        self.changes.clear();
        let soonest = now.saturating_add(1);
        for node in taken {
            if let Some(told) = self.told.get_mut(node as usize) {
                *told = NONE;
            }
        }
        for Wanted { nodes, at } in wanted {
            let at = at.map_or(NONE, |at| at.max(soonest));
            for node in nodes.nodes() {
                if let Some(told) = self.told.get_mut(node as usize)
                    && *told != at
                {
                    *told = at;
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
    use crate::Run;

    fn wanted(first: u32, count: u32, at: Option<i64>) -> Wanted {
        let nodes = Run { first, count };
        Wanted { nodes, at }
    }

    #[test]
    fn only_changes_are_told_and_a_planned_start_ends_with_its_hole() {
        let mut told = Announcer::new(4);
        let first = [wanted(0, 2, Some(1100)), wanted(2, 1, None)];
        let changes = told.step(1000, [], &first);
        assert_eq!(changes, [(0, Some(1100)), (1, Some(1100))]);
        let second = [wanted(0, 2, Some(1100)), wanted(2, 1, Some(1050))];
        assert_eq!(told.step(1000, [], &second), [(2, Some(1050))]);
        // Node 0 leaves; the hole that it has later is another.
        let third = [wanted(1, 1, None), wanted(2, 1, Some(1050))];
        assert_eq!(told.step(1000, [0], &third), [(1, None)]);
        let fourth = [wanted(0, 1, Some(1100)), wanted(1, 1, None)];
        assert_eq!(told.step(1000, [], &fourth), [(0, Some(1100))]);
        // Second 1100 has come, and the hole is still there.
        let last = [wanted(0, 1, Some(1100))];
        assert_eq!(told.step(1120, [], &last), [(0, Some(1121))]);
    }
}
