//! The results as JSON.

use serde_json::{Map, Value, json};

use super::figures::Measure;
use super::reference::AuthorsRuns;
use super::results::{Cell, Results, is_met};

/// All results; times in hours.
pub(super) fn json(results: &Results, authors: &AuthorsRuns) -> Value {
    let goals = results.goals();
    let goals = goals.iter().map(|one| {
        let (goal, found) = one;
        json!({
            "trace": goal.trace, "fabric": goal.fabric, "policy": goal.policy,
            "figure": figure(goal.measure), "at_most": goal.most, "found": found, "met": is_met(one),
        })
    });
    let compared = results.compared();
    let compared = compared.iter().map(|one| {
        json!({
            "trace": one.cell.case.trace, "policy": one.cell.policy.name, "figure": figure(one.measure),
            "mean": one.ours.mean, "deviation": one.ours.deviation,
            "prototype_mean": one.theirs.mean, "prototype_deviation": one.theirs.deviation,
            "prototype_runs": one.theirs.runs,
            "standard_errors": one.ours.apart(one.theirs), "agrees": one.agrees(),
        })
    });
    json!({
        "orders": results.seeds,
        "lease_s": results.lease_s,
        "published_defect": results.published,
        "taken_as_searched": results.as_searched,
        "cells": results.cells.iter().map(|of| cell(results, authors, of)).collect::<Vec<_>>(),
        "prototype": compared.collect::<Vec<_>>(),
        "goals": goals.collect::<Vec<_>>(),
    })
}

fn figure(measure: Measure) -> &'static str {
    let mut named = Measure::NAMED.iter();
    named
        .find(|(of, _)| *of == measure)
        .map_or("", |(_, name)| name)
}

fn cell(results: &Results, authors: &AuthorsRuns, cell: &Cell) -> Value {
    let case = &cell.case;
    let figures: Map<String, Value> = Measure::NAMED
        .iter()
        .map(|(measure, name)| {
            let spread = cell.spread(*measure);
            let runs: Vec<f64> = cell.runs.iter().map(|run| measure.of(run)).collect();
            let value = json!({"mean": spread.mean, "deviation": spread.deviation, "runs": runs});
            ((*name).to_owned(), value)
        })
        .collect();
    let known = authors.of(&case.trace, case.racks, cell.policy.name, results.published);
    let known = known.filter(|_| case.is_reference());
    json!({
        "trace": case.trace,
        "racks": case.racks,
        "fabric": case.fabric,
        "calibration": case.calibration.name(),
        "restart_s_per_gpu": case.restart_s,
        "shared_links": case.contention.map(|c| json!({"machine": c.machine, "rack": c.rack})),
        "policy": cell.policy.name,
        "about": cell.policy.about,
        "figures": figures,
        "authors_simulator": known.map(|[makespan, mean, lost]| json!({
            "makespan_h": makespan, "mean_completion_h": mean, "communication_h": lost,
        })),
    })
}
