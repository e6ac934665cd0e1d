//! The departure order of present nodes, in a replay and in a live cluster alike.
//!
//! Nodes with a known end come first, then nodes with a likely announced end within the horizon.
//! The others follow in the scheduler's order; without one, their expected stay decides.

use std::iter::repeat;

use lacuna_model::OrderSource;

use super::departures::{Curves, DepartureModel, WeighedEnd};
use super::scenarios::Scenarios;

/// The present nodes in the order of a forecaster's list, with curves, links and ends. All lists
/// have that order; a list that may be shorter has no entry for the remaining nodes.
pub struct ListedNodes<'a> {
    /// Source of the list's order: the scheduler's order of taking nodes, or else the order of
    /// release.
    pub source: OrderSource,
    /// The curves that the nodes share.
    pub curves: &'a dyn Curves,
    /// The curve of each node.
    pub curve: &'a [u32],
    /// For each node but the last: probability that it and the next leave in the same event. May
    /// be shorter.
    pub link: &'a [f32],
    /// Announced end of each node. May be shorter.
    pub announced_ends: &'a [WeighedEnd],
    /// Known leave time of each node, seconds from now, infinite if unknown. May be shorter.
    pub known: &'a [f64],
}

/// The nodes in the order in which they are expected to leave, the first to leave first.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DepartureOrder {
    /// Their places in the list.
    pub places: Vec<u32>,
    /// The curve of each.
    pub curve: Vec<u32>,
    /// For each but the last: probability that it and the next leave in the same event.
    pub link: Vec<f32>,
    /// Announced end of each node; empty if none is announced.
    pub announced_ends: Vec<WeighedEnd>,
    /// Known leave time of each node, seconds from now, infinite if unknown; empty without an
    /// oracle.
    pub known: Vec<f64>,
}

/// A node that leaves by its announced end with more than this probability precedes all others.
const LIKELY: f64 = 0.5;

/// A node of the list with its curve and its ends.
struct Node {
    place: u32,
    curve: u32,
    announced_end: WeighedEnd,
    known: f64,
    /// Probability of a stay beyond the horizon; 0 where the order does not need it.
    stay: f64,
}

impl DepartureOrder {
    /// The order for a decision that looks `horizon_s` ahead:
    ///
    /// 1. nodes with a known end, the soonest first;
    /// 2. nodes with a likely announced end within the horizon, the soonest first;
    /// 3. the others in the scheduler's order; without one, by their probability of a stay beyond
    ///    the horizon, the least first, and equals in order of release.
    ///
    /// Only pairs adjacent both before and after sorting stay linked.
    #[must_use]
    pub fn new(listed: &ListedNodes<'_>, horizon_s: f64) -> Self {
        let announced_ends = listed.announced_ends.iter().copied();
        let announced_ends = announced_ends.chain(repeat(WeighedEnd::NONE));
        let known = listed.known.iter().copied().chain(repeat(f64::INFINITY));
        let nodes = (0_u32..).zip(listed.curve).zip(announced_ends.zip(known));
        let mut nodes: Vec<Node> = nodes
            .map(|((place, &curve), (announced_end, known))| Node {
                place,
                curve,
                announced_end,
                known,
                stay: match listed.source {
                    OrderSource::Expectation => listed.curves.open_after(curve, horizon_s),
                    OrderSource::Scheduler => 0.0,
                },
            })
            .collect();
        // All sorts are stable: equals keep their order.
        if listed.source == OrderSource::Expectation {
            nodes.sort_by(|a, b| a.stay.total_cmp(&b.stay));
        }
        if !listed.announced_ends.is_empty() {
            let soon = |node: &Node| {
                let WeighedEnd { at_s, early, kept } = node.announced_end;
                let is_likely = at_s < horizon_s && early + kept > LIKELY;
                if is_likely { at_s } else { f64::INFINITY }
            };
            nodes.sort_by(|a, b| soon(a).total_cmp(&soon(b)));
        }
        if !listed.known.is_empty() {
            nodes.sort_by(|a, b| a.known.total_cmp(&b.known));
        }
        let neighbours = nodes.iter().zip(nodes.iter().skip(1));
        let link = neighbours.map(|(a, b)| match listed.link.get(a.place as usize) {
            Some(&link) if b.place == a.place + 1 => link,
            _ => 0.0,
        });
        // An empty list stays empty.
        let kept = |is_empty: bool| nodes.iter().take(if is_empty { 0 } else { nodes.len() });
        Self {
            places: nodes.iter().map(|node| node.place).collect(),
            curve: nodes.iter().map(|node| node.curve).collect(),
            link: link.collect(),
            announced_ends: kept(listed.announced_ends.is_empty())
                .map(|node| node.announced_end)
                .collect(),
            known: kept(listed.known.is_empty())
                .map(|node| node.known)
                .collect(),
        }
    }

    /// Draws scenarios. A node without a known end stays for at least `complete_s` seconds.
    #[must_use]
    pub fn draw(
        &self,
        curves: &dyn Curves,
        complete_s: f64,
        scenarios: u32,
        seed: u64,
    ) -> Scenarios {
        let model = DepartureModel {
            curves,
            curve: &self.curve,
            link: &self.link,
            known: &self.known,
            complete_s,
        };
        model.draw_with_announced(&self.announced_ends, scenarios, seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Curve c is open after any time with probability c / 10.
    struct Tenths;

    impl Curves for Tenths {
        fn quantile(&self, _: u32, _: f64) -> f64 {
            f64::INFINITY
        }

        fn open_after(&self, curve: u32, _: f64) -> f64 {
            f64::from(curve) / 10.0
        }
    }

    const INF: f64 = f64::INFINITY;

    fn likely(at_s: f64) -> WeighedEnd {
        WeighedEnd {
            at_s,
            early: 0.2,
            kept: 0.4,
        }
    }

    fn listed(source: OrderSource) -> ListedNodes<'static> {
        ListedNodes {
            source,
            curves: &Tenths,
            curve: &[5, 5, 2, 9, 1],
            link: &[0.9, 0.8, 0.7, 0.6],
            announced_ends: &[],
            known: &[],
        }
    }

    #[test]
    fn the_order_of_the_scheduler_is_kept_and_without_one_expectation_decides() {
        let by_scheduler = DepartureOrder::new(&listed(OrderSource::Scheduler), 600.0);
        assert_eq!(by_scheduler.places, [0, 1, 2, 3, 4]);
        assert_eq!(by_scheduler.link, [0.9, 0.8, 0.7, 0.6]);
        let expected = DepartureOrder::new(&listed(OrderSource::Expectation), 600.0);
        assert_eq!(expected.places, [4, 2, 0, 1, 3]);
        assert_eq!(expected.curve, [1, 2, 5, 5, 9]);
        // Only pairs adjacent both before and after sorting stay linked.
        assert_eq!(expected.link, [0.0, 0.0, 0.9, 0.0]);
        assert!(expected.announced_ends.is_empty() && expected.known.is_empty());
    }

    #[test]
    fn announced_ends_within_the_horizon_go_first_and_known_ends_before_them() {
        let unlikely = WeighedEnd {
            kept: 0.1,
            ..likely(10.0)
        };
        let announced_ends = [
            unlikely,
            likely(900.0),
            WeighedEnd::NONE,
            likely(60.0),
            likely(30.0),
        ];
        for (source, expected) in [
            (OrderSource::Scheduler, [4, 3, 0, 1, 2]),
            (OrderSource::Expectation, [4, 3, 2, 0, 1]),
        ] {
            let listed = ListedNodes {
                announced_ends: &announced_ends,
                ..listed(source)
            };
            let departure_order = DepartureOrder::new(&listed, 600.0);
            assert_eq!(departure_order.places, expected, "{source:?}");
            assert_eq!(departure_order.announced_ends[0], likely(30.0));
            assert_eq!(departure_order.link[0], 0.0);
            let listed = ListedNodes {
                known: &[INF, 50.0, INF, INF, INF],
                ..listed
            };
            let departure_order = DepartureOrder::new(&listed, 600.0);
            assert_eq!(departure_order.places[0], 1, "{source:?}");
            assert_eq!(departure_order.known, [50.0, INF, INF, INF, INF]);
        }
    }
}
