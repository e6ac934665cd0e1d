//! The measurements of a trainer, and the basis of its rates.

use serde::Serialize;

use lacuna_model::{
    Basis, KindName, Measured, MeasuredPause, MeasuredRate, MeasuredStart, StepModel, Tier,
    Timestamp, TrainerRecord,
};
use lacuna_planner::explain;
use lacuna_rates::{Rates, Shape};

use crate::output::{iso, short};

/// The measurements of a trainer, as `lacuna trainers --json` prints them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ProfileRow {
    /// The basis of its rate on its present nodes: `known` is `measured`, `between`, `replayed`,
    /// `limited`, `beyond` or `assumed`. With rates by kind of node, of the kind that stands for them.
    pub(crate) rate: Basis,
    /// Rates by tier, each by node count.
    pub(crate) rates: Vec<RateRow>,
    /// What the replay of a step says of other sizes, if it can be trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    replay: Option<ReplayRow>,
    /// The measured cost of a start from no nodes, if there is one.
    pub(crate) start: Option<CostRow>,
    /// The measured cost of growing, if there is one.
    pub(crate) up: Option<CostRow>,
    /// The measured cost of shrinking, if there is one.
    pub(crate) down: Option<CostRow>,
    /// Node-seconds that probes of sizes have cost.
    pub(crate) spent_node_s: f64,
    /// Parked nodes: nodes that it holds and leaves idle while it probes a smaller size.
    pub(crate) parked: Vec<String>,
}

/// One measured rate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct RateRow {
    /// The kind of the nodes, of a trainer with rates by kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<KindName>,
    /// How far apart the nodes were: 0 on one leaf.
    pub(crate) tier: Tier,
    /// Node count.
    pub(crate) nodes: u32,
    /// Samples/s.
    pub(crate) rate: f64,
    /// The rate there by what was submitted, samples/s.
    pub(crate) submitted: f64,
    /// Standard deviation of single measurements, samples/s.
    pub(crate) spread: f64,
    /// Number of measurements.
    pub(crate) count: u32,
    /// Time of the last measurement.
    pub(crate) at: String,
    /// The trainer of the same family that was measured, if it is another one.
    pub(crate) from: Option<String>,
}

/// What the replay of a step says of sizes that were not measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct ReplayRow {
    /// Nodes of the step.
    nodes: u32,
    /// By what share it is off where that is known.
    error: f64,
    /// Measured sizes that it meets.
    met: u32,
    /// Node counts and samples/s; none if it is no model of the trainer.
    rates: Vec<(u32, f64)>,
    /// The node count beyond which loaders limit.
    limit: Option<u32>,
    /// Time of the report.
    at: String,
}

impl ReplayRow {
    fn of(replay: &StepModel) -> Self {
        let judged = &replay.judged;
        let rates = judged.rates.iter().map(|point| (point.nodes, point.rate));
        Self {
            nodes: replay.nodes,
            error: judged.error,
            met: judged.met,
            rates: rates.collect(),
            limit: judged.limit,
            at: iso(replay.at),
        }
    }
}

/// One measured cost.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct CostRow {
    /// Mean, seconds.
    pub(crate) mean_s: f64,
    /// The cost that was submitted, seconds.
    pub(crate) submitted_s: f64,
    /// Standard deviation of single changes, seconds.
    pub(crate) spread_s: f64,
    /// Number of measured changes.
    pub(crate) count: u32,
    /// Time of the last measurement.
    pub(crate) at: String,
}

/// The basis of the rate on the present nodes; none for a trainer whose owner states its curve.
pub(crate) fn basis(record: &TrainerRecord) -> Option<Basis> {
    let nodes = record.nodes.len() as u32;
    let is_measured = record.spec.is_profiled();
    is_measured.then(|| Rates::of(record).basis(nodes, Tier(0)))
}

/// A measured rate: the kind of its nodes, if they are told apart, and how far apart they were.
type Place<'a> = (Option<&'a KindName>, Tier, &'a MeasuredRate);

fn places(measured: &Measured) -> impl Iterator<Item = Place<'_>> {
    measured.by_kind().flat_map(|(kind, of)| {
        let rates = of.at_all_tiers();
        rates.map(move |(tier, rate)| (kind, tier, rate))
    })
}

/// Samples/s at the place of a measured rate, by other rates.
fn at_place(rates: &Rates<'_>, (kind, tier, rate): Place<'_>) -> f64 {
    let names: Vec<KindName> = kind.into_iter().cloned().collect();
    let shape = Shape::of(rate.nodes, usize::from(tier.0));
    rates.at(&shape, &names).value
}

impl ProfileRow {
    /// Whether the rate on the present nodes is only assumed.
    pub(crate) const fn is_assumed(&self) -> bool {
        matches!(self.rate, Basis::Beyond { .. } | Basis::Assumed)
    }

    /// The row of a trainer; none if its owner states its curve.
    pub(crate) fn of(record: &TrainerRecord) -> Option<Self> {
        let rate = basis(record)?;
        let nothing = Measured::default();
        let measured = record.measured.as_deref().unwrap_or(&nothing);
        let submitted = Rates::from(&record.spec);
        let as_submitted = submitted.rescale();
        let pause = |pause: &MeasuredPause, submitted_s: f64| CostRow {
            mean_s: pause.mean_s,
            submitted_s,
            spread_s: pause.spread_s,
            count: pause.count,
            at: iso(pause.at),
        };
        let row = |(kind, tier, rate): Place<'_>| RateRow {
            kind: kind.cloned(),
            tier,
            nodes: rate.nodes,
            rate: rate.rate,
            submitted: at_place(&submitted, (kind, tier, rate)),
            spread: rate.spread,
            count: rate.count,
            at: iso(rate.at),
            from: rate.from.as_ref().map(ToString::to_string),
        };
        Some(Self {
            rate,
            rates: places(measured).map(row).collect(),
            replay: measured.replay.as_deref().map(ReplayRow::of),
            start: (measured.start.as_ref()).map(|start| pause(&start.pause, submitted.start_s())),
            up: (measured.up.as_ref()).map(|up| pause(up, as_submitted.up_s)),
            down: (measured.down.as_ref()).map(|down| pause(down, as_submitted.down_s)),
            spent_node_s: measured.spent_node_s,
            parked: measured.parked.iter().map(ToString::to_string).collect(),
        })
    }
}

/// The measurements as lines of names and values.
pub(crate) fn profile_details(
    record: &TrainerRecord,
    now: Timestamp,
) -> Vec<(&'static str, String)> {
    let Some(basis) = basis(record) else {
        return Vec::new();
    };
    let mut rows = Vec::new();
    let nodes = record.nodes.len() as u32;
    if nodes > 0 && record.spec.kinds.is_any() && !matches!(basis, Basis::Measured(_)) {
        rows.push(("sure", explain::known(&basis, nodes, now)));
    }
    let nothing = Measured::default();
    let measured = record.measured.as_deref().unwrap_or(&nothing);
    if measured.is_without_rate() {
        rows.push(("measured", "nothing yet".to_owned()));
    }
    let mut name = "measured";
    let submitted = Rates::from(&record.spec);
    for (kind, tier, rate) in places(measured) {
        let of = if rate.nodes == 1 { "node" } else { "nodes" };
        let of = kind.map_or_else(|| of.to_owned(), |kind| format!("{kind} {of}"));
        let far = match tier {
            Tier(0) => String::new(),
            Tier(far) => format!(" at tier {far}"),
        };
        let said = explain::measured(rate, now);
        let before = at_place(&submitted, (kind, tier, rate));
        let text = format!("on {} {of}{far}: {said}; submitted {before:.1}", rate.nodes);
        rows.push((name, text));
        name = "";
    }
    rows.extend(
        measured
            .replay
            .as_deref()
            .map(|replay| ("replayed", replayed(replay))),
    );
    let rates = Rates::of(record);
    let rescale = rates.rescale();
    let start = measured.start.as_ref();
    // A program that every change starts again pays a start for each, until changes show their own.
    let restart = start.filter(|_| !record.spec.launch.regroups());
    let before = submitted.rescale();
    for (name, pause, as_start, cost_s, submitted_s) in [
        (
            "starting",
            None,
            start,
            rates.start_s(),
            submitted.start_s(),
        ),
        (
            "growing",
            measured.up.as_ref(),
            restart,
            rescale.up_s,
            before.up_s,
        ),
        (
            "shrinking",
            measured.down.as_ref(),
            restart,
            rescale.down_s,
            before.down_s,
        ),
    ] {
        let said = match (pause.or(as_start.map(|start| &start.pause)), as_start) {
            (Some(p), start) => format!(
                "costs {:.1} +- {:.1} s of training ({}); submitted {submitted_s:.1}",
                p.mean_s,
                p.spread_s,
                times_measured(p, start.filter(|_| pause.is_none()))
            ),
            (None, _) if cost_s == submitted_s => {
                format!("costs {cost_s:.1} s of training (submitted)")
            }
            (None, _) => format!(
                "costs {cost_s:.1} s of training (measured of its family); submitted {submitted_s:.1}"
            ),
        };
        rows.push((name, said));
    }
    if measured.spent_node_s > 0.0 || !measured.parked.is_empty() {
        let spent = short(measured.spent_node_s);
        let now = match measured.parked.len() {
            0 => String::new(),
            1 => ", 1 more node is idle for that now".to_owned(),
            parked => format!(", {parked} more nodes are idle for that now"),
        };
        rows.push((
            "trials",
            format!("{spent} node-seconds spent on measuring{now}"),
        ));
    }
    rows
}

/// How often a pause was measured, and of which trainer if it is a start of another one.
fn times_measured(pause: &MeasuredPause, start: Option<&MeasuredStart>) -> String {
    let from = start.and_then(|start| start.from.as_ref());
    let from = from.map_or_else(String::new, |from| format!(", of {from}, same program"));
    match pause.count {
        1 => format!("measured once{from}"),
        count => format!("measured {count} times{from}"),
    }
}

/// What the replay of a step says of sizes that were not measured.
fn replayed(replay: &StepModel) -> String {
    let judged = &replay.judged;
    let off = 100.0 * judged.error;
    if let Some(limit) = judged.limit {
        return format!("beyond {limit} nodes its loaders limit: more bring nothing");
    }
    if judged.rates.is_empty() {
        return format!(
            "a step on {} nodes says nothing of other sizes ({off:.0} % off)",
            replay.nodes
        );
    }
    let rates = judged.rates.iter();
    let rates: Vec<String> = rates
        .map(|at| format!("{:.1} on {}", at.rate, at.nodes))
        .collect();
    format!(
        "{} samples/s, from the replay of a step on {} nodes ({off:.0} % off where it can be checked)",
        rates.join(", "),
        replay.nodes
    )
}

/// What distance costs a trainer and on what that rests, as a line; none where it costs nothing.
pub(crate) fn distance_details(record: &TrainerRecord) -> Option<(&'static str, String)> {
    let (spec, rates) = (&record.spec, Rates::of(record));
    let (now, before) = (rates.distance(), &spec.distance);
    let basis = now.basis()?;
    let nodes = match record.nodes.len() as u32 {
        0 | 1 => spec.max_nodes,
        nodes => nodes,
    };
    let shares = |table: &[Vec<f64>]| {
        let shares = (1..).zip(table).filter_map(|(tier, shares)| {
            let left = 100.0 * shares.last()?;
            Some(format!("{left:.0} % at tier {tier}"))
        });
        shares.collect::<Vec<String>>().join(", ")
    };
    let left = match now.table(rates.curve(), nodes).as_slice() {
        [] => "all of the rate is left at any tier".to_owned(),
        table => format!("of the rate on {nodes} nodes is left {}", shares(table)),
    };
    let submitted = match before.table(&spec.throughput, nodes).as_slice() {
        _ if now == before => String::new(),
        [] => "; submitted: nothing".to_owned(),
        table => format!("; submitted {}", shares(table)),
    };
    Some(("distance", format!("{left} ({basis}{submitted})")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use lacuna_model::{
        CurvePoint, Distance, Elastic, InForce, Judged, Launch, Phase, Program, TrainerId,
    };

    use super::*;
    use crate::table::key_values;
    use crate::view::tests::record;

    #[test]
    fn measurements_are_shown_with_spread_and_age() {
        let mut r = record("new", Phase::Active, 3);
        assert_eq!(ProfileRow::of(&r), None);
        r.spec.launch = Launch::Command(Program {
            program: "train".into(),
            profile: true,
            elastic: Elastic::REGROUP,
            ..Program::default()
        });
        let now = Timestamp::from_unix(10_000);
        assert_eq!(profile_details(&r, now)[1].1, "nothing yet");
        let rate = |nodes: u32, from: Option<&str>| MeasuredRate {
            nodes,
            rate: 100.0 * f64::from(nodes).sqrt(),
            spread: 2.5,
            count: 14,
            at: Timestamp::from_unix(9_800),
            from: from.map(|from| TrainerId::new(from).unwrap()),
        };
        r.measured = Some(Box::new(Measured {
            rates: vec![rate(2, None), rate(4, Some("old"))],
            apart: vec![vec![rate(4, None)]],
            kinds: BTreeMap::new(),
            replay: None,
            up: None,
            down: Some(MeasuredPause {
                mean_s: 0.25,
                spread_s: 0.05,
                count: 3,
                at: Timestamp::from_unix(9_000),
            }),
            start: Some(MeasuredStart {
                pause: MeasuredPause {
                    mean_s: 6.5,
                    spread_s: 0.0,
                    count: 1,
                    at: Timestamp::from_unix(9_000),
                },
                from: Some(TrainerId::new("old").unwrap()),
            }),
            spent_node_s: 120.0,
            parked: vec![r.nodes.pop().unwrap()],
            in_force: InForce::default(),
        }));
        insta::assert_snapshot!(key_values(&profile_details(&r, now)));
        r.nodes.pop();
        let row = ProfileRow::of(&r).unwrap();
        assert_eq!(row.rate, Basis::Between { below: 0, above: 2 });
        assert!(!row.is_assumed());
        insta::assert_json_snapshot!(row);
    }

    #[test]
    fn what_a_replay_says_is_shown_with_its_error() {
        let mut replay = StepModel {
            nodes: 4,
            tier: Tier(0),
            at: Timestamp::from_unix(9_000),
            off: 0.01,
            reading: 0.0,
            speeds: Vec::new(),
            links: Vec::new(),
            judged: Judged {
                error: 0.034,
                met: 1,
                rates: [(1, 100.0), (8, 512.34)]
                    .map(|(nodes, rate)| CurvePoint { nodes, rate })
                    .into(),
                limit: None,
            },
        };
        assert_eq!(
            replayed(&replay),
            "100.0 on 1, 512.3 on 8 samples/s, from the replay of a step on 4 nodes (3 % off where \
             it can be checked)"
        );
        assert_eq!(ReplayRow::of(&replay).rates, [(1, 100.0), (8, 512.34)]);
        replay.judged.rates.clear();
        assert!(replayed(&replay).contains("says nothing of other sizes"));
        replay.judged.limit = Some(4);
        assert!(replayed(&replay).starts_with("beyond 4 nodes its loaders limit"));
    }

    #[test]
    fn the_cost_of_distance_is_shown_with_its_basis() {
        let mut r = record("new", Phase::Active, 4);
        assert_eq!(distance_details(&r), None);
        r.spec.distance = Distance::Shares(vec![0.8, 0.4]);
        let (_, said) = distance_details(&r).unwrap();
        assert_eq!(
            said,
            "of the rate on 4 nodes is left 80 % at tier 1, 40 % at tier 2 (a given share)"
        );
        r.in_force_mut().distance = Some(Distance::Replayed(vec![0.5]));
        let (_, said) = distance_details(&r).unwrap();
        assert_eq!(
            said,
            "of the rate on 4 nodes is left 50 % at tier 1 (the replay of a step; submitted 80 % at \
             tier 1, 40 % at tier 2)"
        );
    }
}
