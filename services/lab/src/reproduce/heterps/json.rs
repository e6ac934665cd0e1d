//! The results as JSON.

use serde_json::{Value, json};

use super::results::{Figures, Results};

/// All results; seconds, dollars, samples/s.
pub(super) fn json(results: &Results) -> Value {
    let goals = results.goals();
    let goals = goals
        .iter()
        .map(|goal| json!({"goal": goal.aim, "found": goal.found, "met": goal.met}));
    json!({
        "seeds": results.seeds,
        "instances": results.rows.iter().map(instance).collect::<Vec<_>>(),
        "goals": goals.collect::<Vec<_>>(),
    })
}

fn instance(row: &Figures) -> Value {
    let stages = row.exact.stages.iter().map(|stage| {
        json!({
            "layers": [stage.layers.start, stage.layers.end],
            "kind": row.kind_names.get(stage.kind),
            "units": stage.units,
        })
    });
    let schedulers = row.columns.iter().map(|column| {
        let runs = column.runs.iter().map(
            |run| json!({"cost": run.cost, "seconds": run.seconds, "evaluations": run.evaluations}),
        );
        json!({
            "scheduler": column.name,
            "ratio": row.ratio(column.name),
            "runs": runs.collect::<Vec<_>>(),
        })
    });
    let optimism = row
        .optimism
        .iter()
        .map(|one| json!({"by_unit": one.by_unit, "variation": one.variation, "share": one.share}));
    json!({
        "network": row.network,
        "layers": row.layers,
        "kinds": row.kinds,
        "min_rate": row.min_rate,
        "exact": {
            "cost": row.exact.cost,
            "gap": row.exact.gap(),
            "rate": row.exact.rate,
            "seconds": row.seconds,
            "solved": row.exact.solved,
            "stages": stages.collect::<Vec<_>>(),
        },
        "schedulers": schedulers.collect::<Vec<_>>(),
        "optimism": optimism.collect::<Vec<_>>(),
    })
}
