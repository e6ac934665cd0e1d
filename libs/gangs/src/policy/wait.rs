//! Wait or take, by expected value.
//!
//! A job takes whole machines at once. It takes GPUs that are spread, where it runs at speed `s`,
//! for the next lease only if that is better than to wait for whole machines, where it runs at `s*`:
//!
//! ```text
//! s > s* E[(L - W)+] / L   and   s >= .5 s*
//! ```
//!
//! W is the remaining wait. Its distribution is that of recent waits of the same demand that are
//! longer than the present one, and one made-up wait of a quarter of a lease.

use std::collections::{HashMap, VecDeque};

use crate::cluster::Cluster;
use crate::job::JobState;
use crate::packing::{scattered, whole};
use crate::placement::Placement;

use super::rank::Order;
use super::round::{bidders, round};
use super::view::{Plan, Policy, View};

/// Waits that ended longer ago are forgotten, leases.
const HISTORY: f64 = 48.0;

/// The remaining wait that is always among the observed ones, leases.
const MADE_UP: f64 = 0.25;

/// GPUs held at a smaller share of the consolidated speed are rather left to others.
const FLOOR: f64 = 0.5;

/// The policy.
#[derive(Debug, Clone)]
pub(super) struct Wait {
    order: Order,
    /// Waits for whole machines by demand: when they ended, and how long they were, leases.
    waits: HashMap<u32, VecDeque<(f64, f64)>>,
}

impl Wait {
    pub(super) fn new(order: Order) -> Self {
        Self {
            order,
            waits: HashMap::new(),
        }
    }

    /// The expected share of a lease that is left when the wait is over.
    fn left_of_lease(&mut self, demand: u32, now: f64, waited: f64) -> f64 {
        let waits = self.waits.entry(demand).or_default();
        while waits.front().is_some_and(|(at, _)| *at < now - HISTORY) {
            waits.pop_front();
        }
        let longer = waits
            .iter()
            .map(|(_, wait)| wait - waited)
            .filter(|left| *left > 0.0);
        let left = longer.chain([MADE_UP]).map(|wait| (1.0 - wait).max(0.0));
        let (sum, count) = left.fold((0.0, 0.0), |(sum, count), left| (sum + left, count + 1.0));
        sum / count
    }

    fn place(&mut self, view: &View<'_>, cluster: &Cluster, job: &JobState) -> Option<Placement> {
        let demand = job.job.gpus;
        let (now, waited) = (
            view.now_s / view.lease_s(),
            (view.now_s - job.waiting_since_s) / view.lease_s(),
        );
        if let Some(placement) = whole(cluster, demand) {
            self.waits
                .entry(demand)
                .or_default()
                .push_back((now, waited));
            return Some(placement);
        }
        let placement = scattered(cluster, demand)?;
        let (speed, best) = (
            view.speeds.speed(&job.job, &placement),
            view.consolidated(job),
        );
        let wins = speed >= FLOOR * best && speed > best * self.left_of_lease(demand, now, waited);
        wins.then_some(placement)
    }
}

impl Policy for Wait {
    fn plan(&mut self, view: &View<'_>) -> Plan {
        let ordered = self.order.sorted(view, bidders(view));
        round(view, ordered, |cluster, job| self.place(view, cluster, job)).0
    }
}

#[cfg(test)]
mod tests {
    use super::super::rank::Rank;
    use super::*;

    #[test]
    fn the_expectation_is_over_longer_recent_waits_and_a_made_up_one() {
        let mut wait = Wait::new(Order::Of(Rank::Shortest));
        assert_eq!(wait.left_of_lease(8, 0.0, 0.0), 0.75);
        let waits = wait.waits.entry(8).or_default();
        waits.extend([(1.0, 0.5), (2.0, 3.0), (3.0, 1.5)]);
        // Half a lease, three, one and a half, and the quarter.
        assert_eq!(wait.left_of_lease(8, 4.0, 0.0), (0.5 + 0.75) / 4.0);
        // After one lease of waiting: two, a half, and the quarter.
        assert_eq!(wait.left_of_lease(8, 4.0, 1.0), (0.5 + 0.75) / 3.0);
        assert_eq!(wait.left_of_lease(8, 100.0, 1.0), 0.75);
        assert_eq!(wait.left_of_lease(4, 4.0, 0.0), 0.75);
    }
}
