//! Dally (arXiv 2401.16492): delay scheduling on a ladder of levels, with timers tuned from history.
//!
//! A job takes a slot or a machine at once. It takes a rack after `T_rack` leases of starvation, and
//! GPUs anywhere after `T_net`; a job that is too large for a level does not wait for it. Jobs that
//! lost the most time to the network go first ([`JobState::score`](crate::JobState::score)).

use std::collections::{HashMap, VecDeque};

use crate::cluster::Cluster;
use crate::job::JobState;
use crate::placement::Placement;

use super::rank::{Rank, sorted};
use super::round::{bidders, round};
use super::view::{Plan, Policy, View};

/// The smallest tuned timers for a rack and for the network, leases.
const FLOORS: (f64, f64) = (6.0, 12.0);

/// The largest tuned timer for a rack, as a share of the history.
const RACK_SHARE: f64 = 0.8;

/// Timers, in leases.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Timers {
    /// Tuned from a history of this many leases.
    Auto(f64),
    /// Given: for a rack, and for the network.
    Given(f64, f64),
}

/// The policy.
#[derive(Debug, Clone)]
pub(super) struct Dally {
    timers: Timers,
    /// Waits by demand: of placements on a slot or machine, and on a rack.
    waits: HashMap<u32, (Waits, Waits)>,
}

impl Dally {
    pub(super) fn new(timers: Timers) -> Self {
        Self {
            timers,
            waits: HashMap::new(),
        }
    }

    /// The timers of a demand for a rack and for the network, leases.
    fn timers(&mut self, demand: u32, now: f64) -> (f64, f64) {
        match self.timers {
            Timers::Given(rack, net) => (rack, net),
            Timers::Auto(history) => {
                let (machine, rack) = self.waits.entry(demand).or_default();
                let of =
                    |waits: &mut Waits, floor: f64| waits.bound(now - history).ceil().max(floor);
                (
                    of(machine, FLOORS.0).min((RACK_SHARE * history).ceil()),
                    of(rack, FLOORS.1).min(history),
                )
            }
        }
    }

    fn place(&mut self, view: &View<'_>, cluster: &Cluster, job: &JobState) -> Option<Placement> {
        let demand = job.job.gpus;
        let layout = cluster.layout();
        let (now, starved) = (
            view.now_s / view.lease_s(),
            (view.now_s - job.waiting_since_s) / view.lease_s(),
        );
        let local = cluster
            .first_slot(demand)
            .or_else(|| cluster.first_machine(demand));
        if local.is_some() {
            self.waits.entry(demand).or_default().0.add(now, starved);
            return local;
        }
        let (rack_after, net_after) = self.timers(demand, now);
        if (starved >= rack_after || demand > layout.machine_gpus())
            && let Some(rack) = cluster.first_rack(demand)
        {
            self.waits.entry(demand).or_default().1.add(now, starved);
            return Some(rack);
        }
        let anywhere = starved >= net_after || demand > layout.rack_gpus();
        anywhere.then(|| cluster.first_gpus(demand)).flatten()
    }
}

impl Policy for Dally {
    fn plan(&mut self, view: &View<'_>) -> Plan {
        let ordered = sorted(bidders(view), |job| Rank::Score.key(view, job));
        round(view, ordered, |cluster, job| self.place(view, cluster, job)).0
    }
}

/// Completed waits of one lease or more: (end, length), in leases.
#[derive(Debug, Clone, Default)]
struct Waits {
    ended: VecDeque<(f64, f64)>,
    /// Mean and two deviations of them; none after a change.
    bound: Option<f64>,
}

impl Waits {
    fn add(&mut self, now: f64, wait: f64) {
        if wait >= 1.0 {
            self.ended.push_back((now, wait));
            self.bound = None;
        }
    }

    /// Mean and two deviations of the waits that ended from `since` on; 1 without any.
    fn bound(&mut self, since: f64) -> f64 {
        while self.ended.front().is_some_and(|(at, _)| *at < since) {
            self.ended.pop_front();
            self.bound = None;
        }
        *self.bound.get_or_insert_with(|| {
            if self.ended.is_empty() {
                return 1.0;
            }
            let count = self.ended.len() as f64;
            let mean = self.ended.iter().map(|(_, wait)| wait).sum::<f64>() / count;
            let squares = self.ended.iter().map(|(_, wait)| (wait - mean).powi(2));
            mean + 2.0 * (squares.sum::<f64>() / count).sqrt()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_of_recent_waits_of_a_lease_and_more() {
        let mut waits = Waits::default();
        assert_eq!(waits.bound(0.0), 1.0);
        for (now, wait) in [(1.0, 0.5), (2.0, 4.0), (3.0, 8.0)] {
            waits.add(now, wait);
        }
        assert_eq!(waits.bound(0.0), 6.0 + 2.0 * 2.0);
        assert_eq!(waits.bound(2.5), 8.0);
        assert_eq!(waits.bound(9.0), 1.0);
    }

    #[test]
    fn timers_have_floors_and_end_with_the_history() {
        let mut dally = Dally::new(Timers::Auto(24.0));
        assert_eq!(dally.timers(4, 0.0), (6.0, 12.0));
        let (machine, rack) = dally.waits.entry(4).or_default();
        machine.add(0.0, 9.5);
        rack.add(0.0, 90.0);
        assert_eq!(dally.timers(4, 1.0), (10.0, 24.0));
        dally.waits.entry(4).or_default().0.add(1.0, 50.0);
        assert_eq!(dally.timers(4, 1.0), (20.0, 24.0));
        assert_eq!(dally.timers(4, 30.0), (6.0, 12.0));
        assert_eq!(
            Dally::new(Timers::Given(0.0, 0.0)).timers(4, 0.0),
            (0.0, 0.0)
        );
    }
}
