//! In which order present nodes are expected to leave, in a replay and in a live cluster alike:
//! what is known to end, then what is announced and likely within the horizon, then the scheduler's
//! order, or, where nothing shows that there is one, by what is expected of each.

use std::iter::repeat;

use lacuna_model::OrderSource;

use super::{Curves, Outlook, Promise, Scenarios};

/// The present nodes as a forecaster lists them, with what is known of each. All lists are in
/// that order; those that may be shorter say nothing of the rest.
pub struct Listed<'a> {
    /// Whether the list is in the order in which the scheduler takes nodes. Else it is as they
    /// were released.
    pub source: OrderSource,
    /// The curves that the nodes share.
    pub curves: &'a dyn Curves,
    /// The curve of each node.
    pub curve: &'a [u32],
    /// For each node but the last: probability that it and the next leave in the same event. May
    /// be shorter.
    pub link: &'a [f32],
    /// What the scheduler says of each. May be shorter.
    pub promised: &'a [Promise],
    /// Seconds from now at which each is known to leave, infinite if that is not known. May be
    /// shorter.
    pub known: &'a [f64],
}

/// The nodes in the order in which they are expected to leave, that which is expected first
/// first, and what is known of each in that order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Lineup {
    /// Their places in the list.
    pub places: Vec<u32>,
    /// The curve of each.
    pub curve: Vec<u32>,
    /// For each but the last: probability that it and the next leave in the same event.
    pub link: Vec<f32>,
    /// What the scheduler says of each.
    pub promised: Vec<Promise>,
    /// Seconds from now at which each is known to leave, infinite if that is not known.
    pub known: Vec<f64>,
}

/// Who is at least so likely to be taken by the moment that the scheduler says is before all
/// others in the order.
const LIKELY: f64 = 0.5;

/// A node of the list with what is known of it.
struct Node {
    place: u32,
    curve: u32,
    promise: Promise,
    known: f64,
    /// Probability that it is there at the horizon; 0 where that is not asked for.
    stay: f64,
}

impl Lineup {
    /// Lines nodes up for a decision that looks `horizon_s` ahead:
    ///
    /// 1. who is known to leave, the soonest first;
    /// 2. who is likely to leave as the scheduler says, within the horizon, the soonest first;
    /// 3. the others in the scheduler's order; if none is known, those that are less likely to be
    ///    there at the horizon first, and equals as they were released.
    ///
    /// Nodes that were neighbours in the list and still are keep their link; others have none.
    #[must_use]
    pub fn new(listed: &Listed<'_>, horizon_s: f64) -> Self {
        let promised = listed.promised.iter().copied().chain(repeat(Promise::NONE));
        let known = listed.known.iter().copied().chain(repeat(f64::INFINITY));
        let nodes = (0_u32..).zip(listed.curve).zip(promised.zip(known));
        let mut nodes: Vec<Node> = nodes
            .map(|((place, &curve), (promise, known))| Node {
                place,
                curve,
                promise,
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
        if !listed.promised.is_empty() {
            let soon = |node: &Node| {
                let Promise { at_s, early, kept } = node.promise;
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
        // Where nothing is said of anybody, nothing is kept.
        let told = |is_empty: bool| nodes.iter().take(if is_empty { 0 } else { nodes.len() });
        Self {
            places: nodes.iter().map(|node| node.place).collect(),
            curve: nodes.iter().map(|node| node.curve).collect(),
            link: link.collect(),
            promised: told(listed.promised.is_empty())
                .map(|node| node.promise)
                .collect(),
            known: told(listed.known.is_empty())
                .map(|node| node.known)
                .collect(),
        }
    }

    /// Draws scenarios. Nobody who is not known to leave leaves within `complete_s`.
    #[must_use]
    pub fn draw(
        &self,
        curves: &dyn Curves,
        complete_s: f64,
        scenarios: u32,
        seed: u64,
    ) -> Scenarios {
        let outlook = Outlook {
            curves,
            curve: &self.curve,
            link: &self.link,
            known: &self.known,
            complete_s,
        };
        outlook.draw_promised(&self.promised, scenarios, seed)
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

    fn likely(at_s: f64) -> Promise {
        Promise {
            at_s,
            early: 0.2,
            kept: 0.4,
        }
    }

    fn listed(source: OrderSource) -> Listed<'static> {
        Listed {
            source,
            curves: &Tenths,
            curve: &[5, 5, 2, 9, 1],
            link: &[0.9, 0.8, 0.7, 0.6],
            promised: &[],
            known: &[],
        }
    }

    #[test]
    fn an_order_of_the_scheduler_stands_and_without_one_it_is_sorted_by_expectation() {
        let by_scheduler = Lineup::new(&listed(OrderSource::Scheduler), 600.0);
        assert_eq!(by_scheduler.places, [0, 1, 2, 3, 4]);
        assert_eq!(by_scheduler.link, [0.9, 0.8, 0.7, 0.6]);
        let expected = Lineup::new(&listed(OrderSource::Expectation), 600.0);
        assert_eq!(expected.places, [4, 2, 0, 1, 3]);
        assert_eq!(expected.curve, [1, 2, 5, 5, 9]);
        // Only the two that were neighbours and are are linked.
        assert_eq!(expected.link, [0.0, 0.0, 0.9, 0.0]);
        assert!(expected.promised.is_empty() && expected.known.is_empty());
    }

    #[test]
    fn what_is_announced_goes_first_within_the_horizon_and_what_is_known_before_it() {
        let unlikely = Promise {
            kept: 0.1,
            ..likely(10.0)
        };
        let promised = [
            unlikely,
            likely(900.0),
            Promise::NONE,
            likely(60.0),
            likely(30.0),
        ];
        for (source, expected) in [
            (OrderSource::Scheduler, [4, 3, 0, 1, 2]),
            (OrderSource::Expectation, [4, 3, 2, 0, 1]),
        ] {
            let listed = Listed {
                promised: &promised,
                ..listed(source)
            };
            let lineup = Lineup::new(&listed, 600.0);
            assert_eq!(lineup.places, expected, "{source:?}");
            assert_eq!(lineup.promised[0], likely(30.0));
            assert_eq!(lineup.link[0], 0.0);
            let listed = Listed {
                known: &[INF, 50.0, INF, INF, INF],
                ..listed
            };
            let lineup = Lineup::new(&listed, 600.0);
            assert_eq!(lineup.places[0], 1, "{source:?}");
            assert_eq!(lineup.known, [50.0, INF, INF, INF, INF]);
        }
    }
}
