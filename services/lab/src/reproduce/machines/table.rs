//! The cells as Markdown and as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::cells::{Cells, Goal, WINDOWS};
use super::column::COLUMNS;
use crate::reproduce::row::Done;
use crate::reproduce::table::aligned;

/// What the cells are, in words.
const ABOUT: &str = "\
Share kept of the zero-cost bound, from one start until the end of each window. The first third of a
log (of Summit its first five days) is history, which only the column `learnt` and the look-ahead
know; `prior` starts with what the traces of the other machines show. Trainers are an endless list of
ShuffleNet on ImageNet. A window that is longer than what is left of a log is left out. Theta is its first
month, SURF its first eleven days, Summit its first 1,024 nodes.
";

/// A table for each window, and the figures over all cells.
pub(super) fn markdown(cells: &[Cells], goals: &[Goal]) -> String {
    let mut text = format!("# Machines that Lacuna was not built on\n\n{ABOUT}");
    for (window, (name, _)) in WINDOWS.iter().enumerate() {
        let mut lines = vec![vec!["machine, costs".to_owned()]];
        if let Some(heading) = lines.first_mut() {
            heading.extend(COLUMNS.iter().map(|column| column.title.to_owned()));
        }
        for cell in cells.iter().filter(|cell| cell.window == window) {
            let mut line = vec![format!("{}, x{}", cell.machine, cell.cost)];
            line.extend(cell.shares.iter().map(|share| figure(*share)));
            lines.push(line);
        }
        if lines.len() > 1 {
            let _ = write!(text, "\n## {name}\n\n{}", aligned(&lines));
        }
    }
    let mut lines = vec![
        ["figure", "found", "asked", "where"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for goal in goals {
        let least = |least: f64| {
            let met = if goal.is_met() { "met" } else { "MISSED" };
            format!("{least} ({met})")
        };
        lines.push(vec![
            goal.what.clone(),
            format!("{:.4}", goal.found),
            goal.least.map_or_else(String::new, least),
            goal.at.clone().unwrap_or_default(),
        ]);
    }
    let _ = write!(text, "\n## over all cells\n\n{}", aligned(&lines));
    text
}

fn figure(share: Option<f64>) -> String {
    share.map_or_else(String::new, |share| format!("{share:.3}"))
}

/// The cells, the figures, and the commands of the replays.
pub(super) fn json(cells: &[Cells], goals: &[Goal], replays: &[Done]) -> Value {
    let cell = |cell: &Cells| {
        let shares = COLUMNS.iter().zip(&cell.shares);
        let shares: serde_json::Map<String, Value> = shares
            .map(|(column, share)| (column.name.to_owned(), json!(share)))
            .collect();
        json!({
            "machine": cell.machine,
            "cost": cell.cost,
            "window": WINDOWS.get(cell.window).map(|(name, _)| name),
            "shares": shares,
        })
    };
    let goal = |goal: &Goal| {
        json!({
            "figure": goal.what, "found": goal.found, "asked": goal.least,
            "met": goal.is_met(), "where": goal.at,
        })
    };
    json!({
        "cells": cells.iter().map(cell).collect::<Vec<_>>(),
        "figures": goals.iter().map(goal).collect::<Vec<_>>(),
        "commands": replays.iter().map(|done| &done.row.command).collect::<Vec<_>>(),
    })
}
