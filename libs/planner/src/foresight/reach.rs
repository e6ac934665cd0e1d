//! How far a growing node set reaches before a departure hits it.

use crate::joint::{Member, Scenarios, Set};

/// A node set with its scenarios.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reach {
    set: Set,
    nodes: u32,
}

impl Reach {
    /// Of these places in the scenarios.
    pub(super) fn of(
        scenarios: &Scenarios,
        horizon_s: f64,
        places: impl IntoIterator<Item = usize>,
    ) -> Self {
        let mut reach = Self {
            set: Set::empty(scenarios.count(), horizon_s),
            nodes: 0,
        };
        for place in places {
            reach.add(scenarios, place);
        }
        reach
    }

    /// One node more.
    pub(super) fn add(&mut self, scenarios: &Scenarios, place: usize) {
        self.set.add(scenarios, place);
        self.nodes += 1;
    }

    /// How many nodes it has.
    pub(super) const fn nodes(&self) -> u32 {
        self.nodes
    }

    /// Expected seconds until the first hit, within the horizon; 0 without nodes.
    pub(super) fn until_s(&self) -> f64 {
        if self.nodes == 0 {
            return 0.0;
        }
        self.set.means().until
    }

    /// Probability of a hit within the horizon; 0 without nodes.
    pub(super) fn ends(&self) -> f64 {
        self.set.means().hit
    }

    /// V of [`crate::joint`], the charge for taking the nodes not taken off.
    pub(super) fn worth(&self, member: &Member<'_>, salvage: f64) -> f64 {
        if self.nodes == 0 {
            return 0.0;
        }
        self.set.means().worth(member, self.nodes, salvage)
    }
}

/// What going to `nodes` nodes costs, objective units.
pub(super) fn cost(member: &Member<'_>, nodes: u32) -> f64 {
    // The charge of a change that must be worth no more than it costs.
    member.charge(nodes, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Item;
    use crate::joint::worth;

    #[test]
    fn the_worth_is_the_one_that_decides() {
        let value: Vec<f64> = (0..=4).map(|n| f64::from(n * 10)).collect();
        let item = Item {
            current: 0,
            min: 1,
            max: 4,
            value: value.into(),
            rate_now: 0.0,
            up_s: 10.0,
            down_s: 5.0,
        };
        let member = Member {
            item: &item,
            hit: false,
            start_s: 0.0,
        };
        // Two futures of three nodes.
        let scenarios = Scenarios::new(3, vec![50.0, 80.0, 200.0, 90.0, 300.0, 300.0]);
        let reach = Reach::of(&scenarios, 100.0, [0, 1]);
        assert_eq!((reach.until_s(), reach.ends()), (70.0, 1.0));
        // 20 x (70 - 5) and, at 2 a node-second, the (70 + 90) - 2 x 70 that are left.
        assert_eq!(reach.worth(&member, 2.0), 20.0 * 65.0 + 2.0 * 20.0);
        for places in [vec![0], vec![2], vec![0, 1], vec![1, 2], vec![0, 1, 2]] {
            let mine = Reach::of(&scenarios, 100.0, places.iter().copied());
            let theirs = worth(&member, &scenarios, places, 100.0, 2.0);
            assert!((mine.worth(&member, 2.0) - theirs).abs() < 1e-9);
        }
        assert_eq!(Reach::of(&scenarios, 100.0, []).worth(&member, 2.0), 0.0);
    }
}
