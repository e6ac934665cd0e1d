//! Explanations: verdicts and reasons of a plan as text.

mod basis;
mod forecast;

use lacuna_model::{
    HoleVerdict, NodeId, Outcome, OwnerShare, Plan, RuleGain, Solve, TrainerId, TrainerSpec,
    TrainerVerdict, Verdict,
};

pub use basis::{known, measured};

/// The reason of a trainer's nodes. Nothing if the plan does not have the trainer.
#[must_use]
pub fn trainer(plan: &Plan, id: &TrainerId) -> Option<String> {
    let verdict = plan.report.trainers.iter().find(|v| v.trainer == *id)?;
    Some(with_basis(plan, verdict))
}

/// The reason of a trainer's nodes in a clause without amounts. Nothing if the plan does not have
/// the trainer.
#[must_use]
pub fn brief(plan: &Plan, spec: &TrainerSpec) -> Option<String> {
    let v = plan.report.trainers.iter().find(|v| v.trainer == spec.id)?;
    Some(match &v.verdict {
        Verdict::Start | Verdict::Grow { .. } => movement(v),
        Verdict::Shrink { .. } => format!("{}, for others", movement(v)),
        Verdict::Keep if v.after >= spec.max_nodes => {
            "it has as many nodes as it can use".to_owned()
        }
        Verdict::Keep => "no further node is free for it".to_owned(),
        Verdict::RescaleNotWorthIt { .. } => {
            "more nodes would cost more than they bring".to_owned()
        }
        Verdict::TooFewNodes { pool, min } => {
            format!("it needs at least {min} and {} has {pool}", pool_of(v))
        }
        Verdict::Outbid => "others use the nodes better".to_owned(),
        Verdict::DisplacingCosts { .. } => {
            "to displace others would cost more than it brings".to_owned()
        }
    })
}

/// The reason of a node's use. Nothing if the plan does not have the node.
#[must_use]
pub fn node(plan: &Plan, id: &NodeId) -> Option<String> {
    let at = plan.report.holes.iter().position(|(node, _)| node == id)?;
    let (_, verdict) = plan.report.holes.get(at)?;
    if let Some(text) = forecast::node(plan, at, id, verdict) {
        return Some(text);
    }
    Some(of_node(plan, id, verdict))
}

/// A hole's verdict in words, without numbers.
fn of_node(plan: &Plan, id: &NodeId, verdict: &HoleVerdict) -> String {
    match verdict {
        HoleVerdict::Kept { trainer } => format!("hole {id}: stays with {trainer}"),
        HoleVerdict::Assigned { trainer } => {
            let how = plan
                .report
                .trainers
                .iter()
                .find(|v| v.trainer == *trainer)
                .map_or_else(String::new, |v| format!(", which {}", movement(v)));
            format!("hole {id}: given to {trainer}{how}")
        }
        HoleVerdict::NoBidder => {
            format!("hole {id}: stays idle: no trainer can use more nodes")
        }
        HoleVerdict::NotWorthIt => format!(
            "hole {id}: stays idle: for each trainer the rescale costs more than the \
             free nodes bring"
        ),
        HoleVerdict::Unusable => {
            format!("hole {id}: unusable: it is quarantined or its agent is silent")
        }
    }
}

/// The rule that `auto` follows and, of a plan by forecasts, the look ahead, the doubts and the
/// refused holes, as lines.
#[must_use]
pub fn forecast(plan: &Plan) -> String {
    let rule = rule(plan).map_or_else(String::new, |rule| rule + "\n");
    format!("{rule}{}", forecast::heading(plan))
}

/// The rule that `auto` follows and why, in a line. Nothing if the policy compares no rules.
#[must_use]
pub fn rule(plan: &Plan) -> Option<String> {
    let followed = plan.report.followed.as_ref()?;
    let share = |gain: &RuleGain| format!("{} {:.3}", gain.rule.name(), gain.share);
    let brought: Vec<String> = followed.brought.iter().map(share).collect();
    Some(format!(
        "auto has followed {} for {}, since no other rule has brought clearly more; share of the idle node-time that \
         each brought in the last hours, or would have brought: {}",
        followed.rule.name(),
        plan.as_of.since(followed.since),
        brought.join(", ")
    ))
}

/// The whole plan: how it was found, then each trainer.
#[must_use]
pub fn plan(plan: &Plan) -> String {
    let given: usize = plan.allocations.iter().map(|a| a.nodes.len()).sum();
    let mut text = format!(
        "plan {}: {given} of {} holes in use; {}\n",
        plan.generation.0,
        plan.report.holes.len(),
        solve(&plan.report.solve)
    );
    text.push_str(&forecast(plan));
    for verdict in &plan.report.trainers {
        text.push_str(&with_basis(plan, verdict));
        text.push('\n');
    }
    text
}

fn solve(solve: &Solve) -> String {
    let by = match &solve.shortcut {
        Some(shortcut) => format!("{}, short cut {shortcut}", solve.solver),
        None => solve.solver.clone(),
    };
    match solve.outcome {
        Outcome::Optimal => format!("proven optimal ({by})"),
        Outcome::Feasible { gap } => {
            format!("at most {:.2} % from the optimum ({by})", gap * 100.0)
        }
        Outcome::Found => format!("found without a bound ({by})"),
        Outcome::NoIncumbent => format!("no answer in time ({by}): the last allocation is kept"),
        Outcome::Infeasible | Outcome::Failed => {
            format!("the solver failed ({by}): the last allocation is kept")
        }
    }
}

/// Whether the last allocation is kept, since there is no new one.
fn unsolved(solve: &Solve) -> bool {
    match solve.outcome {
        Outcome::Optimal | Outcome::Feasible { .. } | Outcome::Found => false,
        Outcome::NoIncumbent | Outcome::Infeasible | Outcome::Failed => true,
    }
}

/// The change of a trainer's size, as a relative clause.
fn movement(verdict: &TrainerVerdict) -> String {
    let (before, after) = (verdict.before, verdict.after);
    match after.cmp(&before) {
        std::cmp::Ordering::Greater if before == 0 => format!("starts on {}", nodes(after)),
        std::cmp::Ordering::Greater => format!("grows from {before} to {}", nodes(after)),
        std::cmp::Ordering::Less => format!("shrinks from {before} to {}", nodes(after)),
        std::cmp::Ordering::Equal => format!("keeps {}", nodes(after)),
    }
}

/// A trainer's verdict, its owner's share, and how sure the planner is of its rate.
fn with_basis(plan: &Plan, v: &TrainerVerdict) -> String {
    let mut verdict = of_trainer(plan, v);
    if let Some(share) = &v.share {
        verdict.push_str(&of_share(share));
    }
    match &v.basis {
        Some(basis) => format!("{verdict}; {}", known(basis, v.after, plan.as_of)),
        None => verdict,
    }
}

/// The owner's nodes and its fair share, as a clause.
fn of_share(share: &OwnerShare) -> String {
    let who = match &share.owner {
        Some(owner) => format!("its owner {owner} has"),
        None => "trainers without an owner have".to_owned(),
    };
    format!(
        "; {who} {}, and a fair share of {}",
        nodes(share.used),
        share.nodes
    )
}

fn of_trainer(plan: &Plan, v: &TrainerVerdict) -> String {
    if let Some(text) = forecast::trainer(plan, v) {
        return text;
    }
    let id = &v.trainer;
    let movement = movement(v);
    let free = plan
        .report
        .holes
        .iter()
        .filter(|(_, verdict)| matches!(verdict, HoleVerdict::NotWorthIt))
        .count() as u32;
    match &v.verdict {
        Verdict::Start => format!("{id}: {movement}"),
        Verdict::Grow { gain, cost } => {
            format!(
                "{id}: {movement}: brings {} and costs {}",
                units(*gain),
                units(*cost)
            )
        }
        Verdict::Shrink { loss, cost } if v.share.is_some() => format!(
            "{id}: {movement}: gives up {} and costs {}, for other trainers or owners",
            units(*loss),
            units(*cost)
        ),
        Verdict::Shrink { loss, cost } => format!(
            "{id}: {movement}: others gain more than the {} that it gives up and the {} that \
             the change costs",
            units(*loss),
            units(*cost)
        ),
        Verdict::Keep => {
            format!("{id}: {movement}: it is at its maximum, or no node is free for it")
        }
        Verdict::RescaleNotWorthIt { gain, cost } => format!(
            "{id}: {movement} although {} free: growing would bring {} and cost {}",
            if free == 1 {
                "1 is".to_owned()
            } else {
                format!("{free} are")
            },
            units(*gain),
            units(*cost)
        ),
        Verdict::TooFewNodes { pool, min } => {
            let whose = pool_of(v);
            format!("{id}: no nodes: it needs at least {min} and {whose} has {pool}")
        }
        Verdict::Outbid | Verdict::DisplacingCosts { .. } if unsolved(&plan.report.solve) => {
            format!("{id}: no nodes: it had none, and the last allocation is kept")
        }
        Verdict::Outbid if v.share.is_some() => {
            format!("{id}: no nodes: others of its owner bring more with those that it has")
        }
        Verdict::Outbid => {
            format!("{id}: no nodes: others bring more with those that there are")
        }
        Verdict::DisplacingCosts {
            nodes: count,
            from,
            gain,
            loss,
            cost,
        } => {
            let (from, them) = match from.as_slice() {
                [one] => (one.to_string(), "it"),
                many => (format!("{} trainers", many.len()), "them"),
            };
            let taking = format!(
                "taking {} from {from} loses {} and costs {} to shrink {them}",
                nodes(*count),
                units(*loss),
                units(*cost)
            );
            if *gain > loss + cost {
                // Equal share does not weigh this, and a solver may run out of time.
                let gain = units(*gain);
                format!("{id}: no nodes: would bring {gain}, more than {taking}; not weighed")
            } else {
                format!("{id}: no nodes: would bring {}, but {taking}", units(*gain))
            }
        }
    }
}

/// The source of nodes for a trainer.
fn pool_of(v: &TrainerVerdict) -> &'static str {
    match v.share {
        Some(_) => "its owner",
        None => "the pool",
    }
}

fn nodes(count: u32) -> String {
    if count == 1 {
        "1 node".to_owned()
    } else {
        format!("{count} nodes")
    }
}

/// An amount of objective (samples, for throughput), rounded for people: three significant
/// digits below a thousand, whole thousands, millions with a letter above.
fn units(amount: f64) -> String {
    let size = amount.abs();
    if size >= 1e9 {
        format!("{:.2}G", amount / 1e9)
    } else if size >= 1e6 {
        format!("{:.2}M", amount / 1e6)
    } else if size >= 1e4 {
        format!("{:.1}k", amount / 1e3)
    } else if size >= 100.0 || amount.fract() == 0.0 {
        format!("{amount:.0}")
    } else {
        format!("{amount:.2}")
    }
}
