//! How far a growing node set reaches before a departure hits it, scenario by scenario.

use crate::joint::{Member, Scenarios};

/// The first hit of a node set in each scenario.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reach {
    until: Vec<f64>,
    stay: f64,
    nodes: u32,
    horizon_s: f64,
}

impl Reach {
    /// Of these places in the scenarios.
    pub(super) fn of(
        scenarios: &Scenarios,
        horizon_s: f64,
        places: impl IntoIterator<Item = usize>,
    ) -> Self {
        let mut reach = Self {
            until: vec![horizon_s; scenarios.count()],
            stay: 0.0,
            nodes: 0,
            horizon_s,
        };
        for place in places {
            reach.add(scenarios, place);
        }
        reach
    }

    /// One node more.
    pub(super) fn add(&mut self, scenarios: &Scenarios, place: usize) {
        for (s, until) in self.until.iter_mut().enumerate() {
            let leave = scenarios.leave(s).get(place).copied().unwrap_or(0.0);
            *until = until.min(leave);
        }
        self.stay += scenarios.stay_s(place, self.horizon_s);
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
        self.until.iter().sum::<f64>() / self.until.len().max(1) as f64
    }

    /// Probability of a hit within the horizon.
    pub(super) fn ends(&self) -> f64 {
        let hits = self.until.iter().filter(|&&t| t < self.horizon_s).count();
        hits as f64 / self.until.len().max(1) as f64
    }

    /// V of [`crate::joint`], the charge for taking the nodes not taken off.
    pub(super) fn worth(&self, member: &Member<'_>, salvage: f64) -> f64 {
        if self.nodes == 0 {
            return 0.0;
        }
        let rate = rate(member, self.nodes);
        let until_s = self.until_s();
        rate * (until_s - member.item.down_s * self.ends())
            + salvage * (self.stay - f64::from(self.nodes) * until_s)
    }
}

/// Rate on so many nodes, objective units per second; none below the minimum.
pub(super) fn rate(member: &Member<'_>, nodes: u32) -> f64 {
    member
        .item
        .value
        .get(nodes as usize)
        .copied()
        .unwrap_or(0.0)
}

/// What going to `nodes` nodes costs, objective units.
pub(super) fn cost(member: &Member<'_>, nodes: u32) -> f64 {
    if !member.is_loose() {
        member.item.change_cost(nodes)
    } else if member.hit {
        // The departure has paid for it.
        0.0
    } else {
        member.start_s * rate(member, nodes)
    }
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
