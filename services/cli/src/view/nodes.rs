//! Nodes as rows.

use std::collections::BTreeMap;

use serde::Serialize;

use lacuna_model::{NodeId, Timestamp, UseState, WithheldBy};
use lacuna_wire::msg::{Activity, NodeView, TopologyState};

use crate::commands::Style;
use crate::output::iso;
use crate::table::{Side, parsable, render};
use crate::view::trouble::TroubleRow;

/// One node, as `lacuna nodes --json` prints it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct NodeRow {
    /// The name of the node.
    pub(crate) node: String,
    /// `idle` (in the pool, without a trainer), `drained` (the same, and an operator has drained it),
    /// `leased`, `releasing` (no longer in the pool, but still leased), `down` (or drained, or
    /// rebooting, as the main scheduler says) or `busy`.
    pub(crate) state: &'static str,
    /// The start of its idleness.
    pub(crate) idle_since: Option<String>,
    /// Seconds of cluster time since then.
    pub(crate) idle_s: Option<f64>,
    /// The trainer that holds its lease.
    pub(crate) trainer: Option<String>,
    /// The epoch of its lease, a fencing token.
    pub(crate) epoch: u64,
    /// The last report of its agent: `free`, `running`, `exited`, or none.
    pub(crate) agent: Option<&'static str>,
    /// Seconds since that report.
    pub(crate) silent_s: Option<f64>,
    /// The control that withholds it: `drained`, `list`, `paused`, `window`, `cap`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) withheld: Option<&'static str>,
    /// What keeps it from being used as the others are, or speaks against it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) trouble: Option<TroubleRow>,
    /// The switches above it, the leaf first; none if the topology does not know it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) above: Option<Vec<String>>,
    /// Its kind; none if nothing is known of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<String>,
}

/// Nodes as rows; `now` is the cluster's time, `used` the state of the operator's controls, and
/// `places` says where they are and of which kind.
#[must_use]
pub(crate) fn node_rows(
    nodes: &[NodeView],
    now: Timestamp,
    used: &UseState,
    places: &TopologyState,
) -> Vec<NodeRow> {
    let withheld: BTreeMap<&NodeId, WithheldBy> = used
        .withheld
        .iter()
        .flat_map(|(by, nodes)| nodes.iter().map(|node| (node, *by)))
        .collect();
    nodes
        .iter()
        .map(|n| NodeRow {
            node: n.node.to_string(),
            state: match (n.idle_since, &n.trainer) {
                (Some(_), Some(_)) => "leased",
                (Some(_), None) => match withheld.get(&n.node) {
                    Some(WithheldBy::Drained) => "drained",
                    _ => "idle",
                },
                (None, Some(_)) => "releasing",
                (None, None) if n.is_down => "down",
                (None, None) => "busy",
            },
            idle_since: n.idle_since.map(iso),
            idle_s: n.idle_since.map(|s| now.since(s).as_secs_f64()),
            trainer: n.trainer.as_ref().map(ToString::to_string),
            epoch: n.epoch.0,
            agent: n.activity.as_ref().map(|a| match a {
                Activity::Free => "free",
                Activity::Prepared { ready: false, .. } => "starting",
                Activity::Prepared { ready: true, .. } => "ready",
                Activity::Running { .. } => "running",
                Activity::Exited { .. } => "exited",
            }),
            silent_s: n.silent_s,
            withheld: withheld.get(&n.node).map(|by| by.name()),
            trouble: (n.trouble.as_ref()).map(|trouble| TroubleRow::of(&n.node, trouble)),
            above: places.topology.path(&n.node).map(<[String]>::to_vec),
            kind: places.kinds.of(&n.node).map(ToString::to_string),
        })
        .collect()
}

const COLUMNS: [(&str, Side); 7] = [
    ("NODE", Side::Left),
    ("STATE", Side::Left),
    ("IDLE", Side::Right),
    ("TRAINER", Side::Left),
    ("EPOCH", Side::Right),
    ("AGENT", Side::Left),
    ("SILENT", Side::Right),
];

/// The table of `lacuna nodes`.
#[must_use]
pub(crate) fn node_table(rows: &[NodeRow], style: Style) -> String {
    let dash = || "-".to_owned();
    let span = |s: Option<f64>| {
        s.map_or_else(dash, |s| {
            lacuna_model::Span::from_secs(s as i64).to_string()
        })
    };
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|r| {
            vec![
                r.node.clone(),
                r.state.to_owned(),
                span(r.idle_s),
                r.trainer.clone().unwrap_or_else(dash),
                r.epoch.to_string(),
                r.agent.unwrap_or("-").to_owned(),
                span(r.silent_s),
            ]
        })
        .collect();
    let leaf = |row: &NodeRow| row.above.as_ref()?.first().cloned();
    let withheld = |row: &NodeRow| row.withheld.map(str::to_owned);
    let of = |value: &dyn Fn(&NodeRow) -> Option<String>| rows.iter().map(value).collect();
    let kind = |row: &NodeRow| row.kind.clone();
    let trouble = |row: &NodeRow| {
        let shown = row.trouble.as_ref().filter(|trouble| trouble.is_shown());
        shown.map(|trouble| trouble.kind.to_owned())
    };
    let more: [(&str, Vec<Option<String>>); 4] = [
        ("WITHHELD", of(&withheld)),
        ("LEAF", of(&leaf)),
        ("KIND", of(&kind)),
        ("TROUBLE", of(&trouble)),
    ];
    let mut columns = COLUMNS.to_vec();
    let mut cells = cells;
    for (name, values) in more {
        // People see these columns only if they have a value; programs always get them.
        if style == Style::Table && values.iter().all(Option::is_none) {
            continue;
        }
        columns.push((name, Side::Left));
        for (cells, value) in cells.iter_mut().zip(values) {
            cells.push(value.unwrap_or_else(dash));
        }
    }
    match style {
        Style::Table => render(&columns, &cells),
        Style::Parsable => parsable(&columns, &cells),
    }
}

/// Sentences that are printed, at most.
const TOLD: usize = 10;

/// What keeps these nodes from being used, with remedies, as lines.
#[must_use]
pub(crate) fn node_troubles(rows: &[NodeRow]) -> String {
    let shown = rows.iter().filter_map(|row| row.trouble.as_ref());
    let shown: Vec<&TroubleRow> = shown.filter(|trouble| trouble.is_shown()).collect();
    let mut text = String::new();
    for trouble in shown.iter().take(TOLD) {
        text.push_str(&format!("{}\n  remedy: {}\n", trouble.why, trouble.remedy));
    }
    if shown.len() > TOLD {
        text.push_str(&format!(
            "and {} more: `lacuna explain NODE`\n",
            shown.len() - TOLD
        ));
    }
    text
}

/// The counts by state in one line.
#[must_use]
pub(crate) fn nodes_summary(rows: &[NodeRow]) -> String {
    let count = |state| rows.iter().filter(|r| r.state == state).count();
    let more = |state| match count(state) {
        0 => String::new(),
        some => format!(", {some} {state}"),
    };
    let (drained, down) = (more("drained"), more("down"));
    format!(
        "{} nodes: {} leased, {} idle{drained}, {} releasing, {} busy{down}",
        rows.len(),
        count("leased"),
        count("idle"),
        count("releasing"),
        count("busy"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use lacuna_model::{Epoch, NodeKinds, RunId, Topology, TrainerId};

    #[test]
    fn nodes_are_listed_by_state() {
        let node = |name: &str, idle: Option<i64>, trainer: Option<&str>| NodeView {
            node: NodeId::new(name).unwrap(),
            idle_since: idle.map(Timestamp::from_unix),
            trainer: trainer.map(|t| TrainerId::new(t).unwrap()),
            epoch: Epoch(if trainer.is_some() { 42 } else { 0 }),
            activity: trainer.map(|t| Activity::Running {
                trainer: TrainerId::new(t).unwrap(),
                run: RunId(3),
            }),
            silent_s: trainer.map(|_| 1.25),
            trouble: None,
            is_down: false,
        };
        let rows = node_rows(
            &[
                node("a01n01", Some(0), Some("hpo-1")),
                node("a01n02", Some(7_000), None),
                node("a01n03", None, Some("hpo-1")),
                node("a01n04", None, None),
            ],
            Timestamp::from_unix(7_200),
            &UseState::default(),
            &TopologyState::default(),
        );
        insta::assert_snapshot!(format!(
            "{}{}",
            node_table(&rows, Style::Table),
            nodes_summary(&rows)
        ));
        assert_eq!(rows[0].idle_s, Some(7_200.0));
        let used = UseState {
            withheld: [(WithheldBy::Drained, vec![NodeId::new("a01n02").unwrap()])].into(),
            ..UseState::default()
        };
        let idle = [node("a01n01", Some(0), None), node("a01n02", Some(0), None)];
        let now = Timestamp::from_unix(7_200);
        let rows = node_rows(&idle, now, &used, &TopologyState::default());
        assert_eq!([rows[0].state, rows[1].state], ["idle", "drained"]);
        assert_eq!(
            nodes_summary(&rows),
            "2 nodes: 0 leased, 1 idle, 1 drained, 0 releasing, 0 busy"
        );
        let down = NodeView {
            is_down: true,
            ..node("a01n03", None, None)
        };
        let rows = node_rows(&[down], now, &used, &TopologyState::default());
        assert_eq!(
            (rows[0].state, nodes_summary(&rows).as_str()),
            (
                "down",
                "1 nodes: 0 leased, 0 idle, 0 releasing, 0 busy, 1 down"
            )
        );
        let path = vec!["leaf1".to_owned(), "top".to_owned()];
        let topology = Topology::new([(NodeId::new("a01n02").unwrap(), path)].into()).unwrap();
        let mut places = TopologyState {
            topology,
            ..TopologyState::default()
        };
        let views = [
            node("a01n01", Some(0), None),
            node("a01n02", Some(7_000), None),
        ];
        let now = Timestamp::from_unix(7_200);
        let rows = node_rows(&views, now, &UseState::default(), &places);
        let table = node_table(&rows, Style::Table);
        let last = |line: usize| table.lines().nth(line).unwrap().split_whitespace().last();
        assert_eq!(
            [last(0), last(1), last(2)],
            [Some("LEAF"), Some("-"), Some("leaf1")]
        );
        let json = serde_json::to_value(&rows).unwrap();
        assert_eq!(json[1]["above"], serde_json::json!(["leaf1", "top"]));
        assert_eq!(json[0].get("above"), None);
        let kind = (NodeId::new("a01n01").unwrap(), "gpu".parse().unwrap());
        places.kinds = NodeKinds::new([kind].into());
        let rows = node_rows(&views, now, &UseState::default(), &places);
        let table = node_table(&rows, Style::Table);
        let last = |line: usize| table.lines().nth(line).unwrap().split_whitespace().last();
        assert_eq!(
            [last(0), last(1), last(2)],
            [Some("KIND"), Some("gpu"), Some("-")]
        );
    }
}
