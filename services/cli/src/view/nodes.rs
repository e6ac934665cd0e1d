//! Nodes as rows.

use std::collections::BTreeMap;

use serde::Serialize;

use lacuna_model::{NodeId, Timestamp, UseState, WithheldBy};
use lacuna_wire::msg::{Activity, NodeView};

use crate::commands::Style;
use crate::output::iso;
use crate::table::{Side, parsable, render};

/// One node, as `lacuna nodes --json` prints it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct NodeRow {
    /// The name of the node.
    pub(crate) node: String,
    /// `idle` (in the pool, without a trainer), `leased`, `releasing` (no longer in the pool, but
    /// still leased) or `busy`.
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
}

/// Nodes as rows; `now` is the cluster's time, `used` the state of the operator's controls.
#[must_use]
pub(crate) fn node_rows(nodes: &[NodeView], now: Timestamp, used: &UseState) -> Vec<NodeRow> {
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
                (Some(_), None) => "idle",
                (None, Some(_)) => "releasing",
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
    // People see the column only if it has a value; programs always get it.
    let shown = style == Style::Parsable || rows.iter().any(|r| r.withheld.is_some());
    let mut columns = COLUMNS.to_vec();
    let mut cells = cells;
    if shown {
        columns.push(("WITHHELD", Side::Left));
        for (cells, row) in cells.iter_mut().zip(rows) {
            cells.push(row.withheld.unwrap_or("-").to_owned());
        }
    }
    match style {
        Style::Table => render(&columns, &cells),
        Style::Parsable => parsable(&columns, &cells),
    }
}

/// The counts by state in one line.
#[must_use]
pub(crate) fn nodes_summary(rows: &[NodeRow]) -> String {
    let count = |state| rows.iter().filter(|r| r.state == state).count();
    format!(
        "{} nodes: {} leased, {} idle, {} releasing, {} busy",
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
    use lacuna_model::{Epoch, RunId, TrainerId};

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
        );
        insta::assert_snapshot!(format!(
            "{}{}",
            node_table(&rows, Style::Table),
            nodes_summary(&rows)
        ));
        assert_eq!(rows[0].idle_s, Some(7_200.0));
    }
}
