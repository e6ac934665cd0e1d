//! What a replay follows as a trainer learns: stages of its curves, and what steps teach and wait for.

use std::collections::BTreeMap;

use lacuna_model::{Cause, ScalingCurve, Stage, Staged, Steps, StepsAt};

use crate::error::Fault;
use crate::written::{RawStage, Scaling};

/// The stages of a trainer, and what is known of its steps; nothing if its file says nothing of them.
pub(crate) fn staged(
    scaling: Option<&Scaling>,
    stages: &[RawStage],
) -> Result<Option<Staged>, Fault> {
    let Some(scaling) = scaling else {
        let remedy = "write scaling beside them, whose nodes they follow";
        let missing = Fault::new("stages", "given without scaling", remedy);
        return stages.is_empty().then_some(None).ok_or(missing);
    };
    let nodes = &scaling.nodes;
    let learnt = Learnt {
        goodput: scaling.goodput.as_deref(),
        batch: scaling.batch.as_deref(),
        efficiency: scaling.efficiency.as_deref(),
        waits: scaling.waits.as_ref(),
    };
    let mut staged = Staged {
        steps: learnt.steps(nodes, &|key| scaling.key(key))?,
        goodput: optional(nodes, learnt.goodput, &scaling.key("goodput"))?,
        later: Vec::new(),
    };
    for (at, stage) in stages.iter().enumerate() {
        let key = |key: &str| format!("stages[{at}].{key}");
        let before = staged.later.last().map_or(0.0, |last| last.from);
        if !stage.from.is_finite() || stage.from <= before {
            let problem = format!("is {}", stage.from);
            let remedy = "write more samples than the stage before begins with";
            return Err(Fault::new(key("from"), problem, remedy));
        }
        let learnt = Learnt {
            goodput: stage.goodput.as_deref(),
            batch: stage.batch.as_deref(),
            efficiency: stage.efficiency.as_deref(),
            waits: stage.waits.as_ref(),
        };
        staged.later.push(Stage {
            from: stage.from,
            throughput: curve(nodes, &stage.samples_per_s, &key("samples_per_s"))?,
            objective: optional(nodes, stage.objective.as_deref(), &key("objective"))?,
            goodput: optional(nodes, learnt.goodput, &key("goodput"))?,
            steps: learnt.steps(nodes, &key)?,
        });
    }
    Ok((staged != Staged::default()).then_some(staged))
}

/// A scaling curve, which `key` names.
pub(crate) fn curve(nodes: &[u32], rates: &[f64], key: &str) -> Result<ScalingCurve, Fault> {
    ScalingCurve::from_lists(nodes, rates).map_err(|error| {
        let remedy = "give one positive rate for each node count, counts growing";
        Fault::new(key, error, remedy)
    })
}

pub(crate) fn optional(
    nodes: &[u32],
    rates: Option<&[f64]>,
    key: &str,
) -> Result<Option<ScalingCurve>, Fault> {
    rates.map(|rates| curve(nodes, rates, key)).transpose()
}

/// What is known of steps at some node counts.
struct Learnt<'w> {
    goodput: Option<&'w [f64]>,
    batch: Option<&'w [f64]>,
    efficiency: Option<&'w [f64]>,
    waits: Option<&'w BTreeMap<String, Vec<f64>>>,
}

impl Learnt<'_> {
    fn steps(&self, nodes: &[u32], key: &dyn Fn(&str) -> String) -> Result<Option<Steps>, Fault> {
        let (batch, efficiency) = match (self.batch, self.efficiency, self.waits) {
            (None, None, None) => return Ok(None),
            (Some(batch), Some(efficiency), _) => (batch, efficiency),
            (batch, _, _) => {
                let missing = if batch.is_none() {
                    "batch"
                } else {
                    "efficiency"
                };
                let remedy = "give batch and efficiency, one value for each node count";
                return Err(Fault::new(key(missing), "missing", remedy));
            }
        };
        let waits = self.waits.into_iter().flatten();
        let of_waits = waits
            .clone()
            .map(|(_, shares)| ("waits", shares.as_slice()));
        let lists = [("batch", batch), ("efficiency", efficiency)].into_iter();
        for (name, values) in lists.chain(of_waits) {
            if values.len() != nodes.len() {
                let problem = format!("{} node counts but {} values", nodes.len(), values.len());
                return Err(Fault::new(key(name), problem, "give one for each of nodes"));
            }
        }
        let rows = nodes.iter().zip(batch).zip(efficiency);
        let mut rows: Vec<(u32, StepsAt)> = rows
            .map(|((&nodes, &batch), &efficiency)| {
                let at = StepsAt {
                    batch,
                    efficiency,
                    ..StepsAt::default()
                };
                (nodes, at)
            })
            .collect();
        for (cause, shares) in waits {
            let names = Cause::ALL.map(Cause::name);
            let Some(at) = names.iter().position(|name| name == cause) else {
                let remedy = format!("write shares of a step by {}", names.join(", "));
                return Err(Fault::new(
                    key("waits"),
                    format!("{cause:?} is no cause"),
                    remedy,
                ));
            };
            for (row, share) in rows.iter_mut().zip(shares) {
                if let Some(waits) = row.1.waits.get_mut(at) {
                    *waits = *share;
                }
            }
        }
        let wrong = |expected| {
            let problem = "a value of batch, efficiency or waits is out of range";
            Fault::new(key("batch"), problem, format!("give {expected}"))
        };
        Steps::new(rows).map(Some).map_err(wrong)
    }
}
