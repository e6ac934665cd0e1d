//! What the simulated scheduler believes of the present holes, as changes from step to step.

use lacuna_timeline::batch::Wanted;

use crate::EndHint;

/// Nobody wants the hole.
const NEVER: i64 = i64::MAX;

/// The newest belief about each node that has been told.
#[derive(Debug, Clone)]
pub(super) struct Beliefs {
    /// The recording's start, Unix seconds.
    from_s: i64,
    /// Unix seconds by node.
    told: Vec<i64>,
    hints: Vec<EndHint>,
}

impl Beliefs {
    /// Nobody wants any of `nodes` nodes.
    pub(super) fn new(nodes: u32, from_s: i64) -> Self {
        Self {
            from_s,
            told: vec![NEVER; nodes as usize],
            hints: Vec::new(),
        }
    }

    /// A step at a Unix second: the holes of some nodes end, and of the present ones this is
    /// believed, ascending. What should have come by now is expected any second.
    pub(super) fn step(&mut self, now: i64, closed: &[u32], wanted: &[Wanted]) {
        self.hints.clear();
        let soonest = now.saturating_add(1);
        // What was said of a hole ends with it.
        for &node in closed {
            if let Some(told) = self.told.get_mut(node as usize) {
                *told = NEVER;
            }
        }
        for wanted in wanted {
            let at = wanted.at.map_or(NEVER, |at| at.max(soonest));
            let at_s = match at {
                NEVER => f64::INFINITY,
                at => at.saturating_sub(self.from_s) as f64,
            };
            for node in wanted.nodes.nodes() {
                if let Some(told) = self.told.get_mut(node as usize)
                    && *told != at
                {
                    *told = at;
                    self.hints.push(EndHint { node, at_s });
                }
            }
        }
    }

    /// What the newest step changed.
    pub(super) fn hints(&self) -> &[EndHint] {
        &self.hints
    }
}

#[cfg(test)]
mod tests {
    use lacuna_timeline::batch::Run;

    use super::*;

    fn wanted(first: u32, count: u32, at: Option<i64>) -> Wanted {
        let nodes = Run { first, count };
        Wanted { nodes, at }
    }

    fn told(beliefs: &Beliefs) -> Vec<(u32, f64)> {
        let hints = beliefs.hints().iter();
        hints.map(|hint| (hint.node, hint.at_s)).collect()
    }

    #[test]
    fn only_changes_are_told_and_an_end_withdraws_what_was_said() {
        let mut beliefs = Beliefs::new(4, 1000);
        beliefs.step(1000, &[], &[wanted(0, 2, Some(1100)), wanted(2, 1, None)]);
        assert_eq!(told(&beliefs), [(0, 100.0), (1, 100.0)]);
        beliefs.step(
            1000,
            &[],
            &[wanted(0, 2, Some(1100)), wanted(2, 1, Some(1050))],
        );
        assert_eq!(told(&beliefs), [(2, 50.0)]);
        // Node 0 leaves; the hole that it has later is another.
        beliefs.step(1000, &[0], &[wanted(1, 1, None), wanted(2, 1, Some(1050))]);
        assert_eq!(told(&beliefs), [(1, f64::INFINITY)]);
        beliefs.step(1000, &[], &[wanted(0, 1, Some(1100)), wanted(1, 1, None)]);
        assert_eq!(told(&beliefs), [(0, 100.0)]);
        // Second 1100 has come, and the hole is still there.
        beliefs.step(1120, &[], &[wanted(0, 1, Some(1100))]);
        assert_eq!(told(&beliefs), [(0, 121.0)]);
    }
}
