//! A growing node set with its first hits.

use crate::placement::{FirstHits, Member, Scenarios, Settings};

/// A node set with its first hit in each scenario.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct NodeSet {
    hits: FirstHits,
    nodes: u32,
}

impl NodeSet {
    /// The node set of these places in the scenarios.
    pub(super) fn of(
        scenarios: &Scenarios,
        settings: &Settings,
        places: impl IntoIterator<Item = usize>,
    ) -> Self {
        let mut node_set = Self {
            hits: FirstHits::valued(scenarios, settings),
            nodes: 0,
        };
        for place in places {
            node_set.add(scenarios, place);
        }
        node_set
    }

    /// Adds a node.
    pub(super) fn add(&mut self, scenarios: &Scenarios, place: usize) {
        self.hits.add(scenarios, place);
        self.nodes += 1;
    }

    /// Number of nodes.
    pub(super) const fn nodes(&self) -> u32 {
        self.nodes
    }

    /// Expected seconds until the first hit, within the horizon; 0 without nodes.
    pub(super) fn until_s(&self) -> f64 {
        if self.nodes == 0 {
            return 0.0;
        }
        self.hits.means().until
    }

    /// Probability of a hit within the horizon; 0 without nodes.
    pub(super) fn ends(&self) -> f64 {
        self.hits.means().hit
    }

    /// V of [`crate::placement`] without the switching cost, objective units; 0 without nodes.
    pub(super) fn value(&self, member: &Member<'_>, shadow_price: f64) -> f64 {
        if self.nodes == 0 {
            return 0.0;
        }
        self.hits.means().value(member, shadow_price)
    }
}

/// Cost of a change to a node set, objective units.
pub(super) fn cost(member: &Member<'_>, node_set: &NodeSet) -> f64 {
    // A hysteresis of 1: the plain cost.
    member.switching_cost(&node_set.hits.shape(), 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::set_value;
    use crate::{Far, Item, Lost};

    #[test]
    fn the_value_is_that_of_the_decision() {
        let value: Vec<f64> = (0..=4).map(|n| f64::from(n * 10)).collect();
        let item = Item {
            current: 0,
            min: 1,
            max: 4,
            value: value.into(),
            rate_now: 0.0,
            up_s: 10.0,
            pilot_s: 0.0,
            far: Far::default(),
            down_s: 5.0,
            lost: Lost::default(),
            kinds: None,
        };
        let member = Member {
            item: &item,
            hit: false,
            start_s: 0.0,
        };
        // Two futures of three nodes.
        let scenarios = Scenarios::new(3, vec![50.0, 80.0, 200.0, 90.0, 300.0, 300.0]);
        let settings = Settings {
            horizon_s: 100.0,
            ..Settings::default()
        };
        let node_set = NodeSet::of(&scenarios, &settings, [0, 1]);
        assert_eq!((node_set.until_s(), node_set.ends()), (70.0, 1.0));
        // 20 x (70 - 5) and, at 2 a node-second, the (70 + 90) - 2 x 70 that are left.
        assert_eq!(node_set.value(&member, 2.0), 20.0 * 65.0 + 2.0 * 20.0);
        for places in [vec![0], vec![2], vec![0, 1], vec![1, 2], vec![0, 1, 2]] {
            let mine = NodeSet::of(&scenarios, &settings, places.iter().copied());
            let theirs = set_value(&member, &scenarios, places, 100.0, 2.0);
            assert!((mine.value(&member, 2.0) - theirs).abs() < 1e-9);
        }
        assert_eq!(
            NodeSet::of(&scenarios, &settings, []).value(&member, 2.0),
            0.0
        );
    }
}
