//! A plan and its reasons, as text and as JSON.

use serde::Serialize;
use serde_json::{Value, json};

use lacuna_model::{
    Basis, Followed, HoleVerdict, JudgedPlan, More, Outcome, Plan, Timestamp, TrainerVerdict,
    Verdict,
};
use lacuna_wire::msg::PlanState;

use crate::output::{iso, latency, percent, short};
use crate::table::{Side, key_values, render};

/// A plan, as `lacuna plan --json` prints it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct PlanView {
    /// The generation of the plan.
    pub(crate) generation: u64,
    /// The moment of its pool.
    pub(crate) as_of: String,
    /// The last event that it takes into account.
    pub(crate) event: u64,
    /// `optimal`, `feasible`, `no_incumbent`, `infeasible`, `failed`.
    pub(crate) outcome: String,
    /// Gap between bound and objective, relative, if not optimal.
    pub(crate) gap: Option<f64>,
    /// Value of the objective.
    pub(crate) objective: f64,
    /// The solver of the answer.
    pub(crate) solver: String,
    /// The short cut that made a solver unnecessary.
    pub(crate) shortcut: Option<String>,
    /// Seconds from the newest input to this plan.
    pub(crate) latency_s: f64,
    /// Number of holes in its pool.
    pub(crate) holes: usize,
    /// Number of nodes that it assigns.
    pub(crate) nodes_used: usize,
    /// The decision for each trainer.
    pub(crate) trainers: Vec<Value>,
    /// The nodes of each trainer.
    pub(crate) allocations: Value,
    /// Trainers that restart on other nodes after a departure.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) replaced: Vec<String>,
    /// The figures of a plan by forecasts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) forecast: Option<Value>,
    /// The rule that `auto` follows, and what each rule brought.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) followed: Option<Followed>,
    /// What the judge found last about an earlier plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) judged: Option<JudgedPlan>,
}

fn outcome(of: Outcome) -> (String, Option<f64>) {
    match of {
        Outcome::Optimal => ("optimal".to_owned(), None),
        Outcome::Feasible { gap } => ("feasible".to_owned(), Some(gap)),
        Outcome::Found => ("found".to_owned(), None),
        Outcome::NoIncumbent => ("no_incumbent".to_owned(), None),
        Outcome::Infeasible => ("infeasible".to_owned(), None),
        Outcome::Failed => ("failed".to_owned(), None),
    }
}

fn verdict_json(v: &TrainerVerdict) -> Value {
    let mut value = json!({
        "trainer": v.trainer.as_str(),
        "before": v.before,
        "after": v.after,
        "verdict": v.verdict,
    });
    if let (Value::Object(map), Some(basis)) = (&mut value, &v.basis) {
        map.insert("rate".to_owned(), json!(basis));
    }
    value
}

/// A plan as data.
#[must_use]
pub(crate) fn plan_view(state: &PlanState) -> PlanView {
    let plan = &state.plan;
    let (outcome, gap) = outcome(plan.report.solve.outcome);
    let allocations: serde_json::Map<String, Value> = plan
        .allocations
        .iter()
        .map(|a| (a.trainer.to_string(), json!(a.nodes)))
        .collect();
    PlanView {
        generation: plan.generation.0,
        as_of: iso(plan.as_of),
        event: plan.seq,
        outcome,
        gap,
        objective: plan.report.solve.objective,
        solver: plan.report.solve.solver.clone(),
        shortcut: plan.report.solve.shortcut.clone(),
        latency_s: state.latency_s,
        holes: plan.report.holes.len(),
        nodes_used: plan.allocations.iter().map(|a| a.nodes.len()).sum(),
        trainers: plan.report.trainers.iter().map(verdict_json).collect(),
        allocations: Value::Object(allocations),
        replaced: plan.replaced.iter().map(ToString::to_string).collect(),
        forecast: plan.report.forecast.as_deref().map(|report| json!(report)),
        followed: plan.report.followed.clone(),
        judged: state.judged,
    }
}

fn reason(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Start => "starts".to_owned(),
        Verdict::Grow { gain, cost } => {
            format!("grows: gains {}, costs {}", short(*gain), short(*cost))
        }
        Verdict::Shrink { loss, cost } => {
            format!(
                "shrinks for others: loses {}, costs {}",
                short(*loss),
                short(*cost)
            )
        }
        Verdict::Keep => "keeps its size".to_owned(),
        Verdict::RescaleNotWorthIt { gain, cost } => {
            format!(
                "rescale not worth it: gain {}, cost {}",
                short(*gain),
                short(*cost)
            )
        }
        Verdict::TooFewNodes { pool, min } => format!("needs {min} nodes, {pool} are in the pool"),
        Verdict::Outbid => "others bring more for the same nodes".to_owned(),
        Verdict::DisplacingCosts {
            nodes,
            gain,
            loss,
            cost,
            ..
        } => format!(
            "{nodes} nodes of others: gain {}, they lose {}, cost {}",
            short(*gain),
            short(*loss),
            short(*cost)
        ),
    }
}

/// The expectation for the nodes of the trainer at this place, if the plan was made by forecasts.
fn forecast_note(plan: &Plan, at: usize) -> String {
    let Some(report) = plan.report.forecast.as_deref() else {
        return String::new();
    };
    match report.trainers.get(at) {
        Some(reason) if reason.more == More::Doubt => "; in doubt".to_owned(),
        Some(reason) if reason.kept + reason.gained > 0 => format!(
            "; the first node leaves after {:.0} s, one within {:.0} s with probability {:.2}",
            reason.until_s, report.horizon_s, reason.ends
        ),
        _ => String::new(),
    }
}

/// A note, if the rate of a trainer at that size could be measured but is not.
fn rate_note(verdict: &TrainerVerdict) -> &'static str {
    match verdict.basis.as_deref() {
        None | Some(Basis::Measured(_) | Basis::Submitted | Basis::Brings) => "",
        Some(Basis::Between { .. }) => "; rate between measured ones",
        Some(Basis::Replayed { .. }) => "; rate from the replay of a step",
        Some(Basis::Limited { .. }) => "; beyond, loaders limit",
        Some(Basis::Beyond { .. } | Basis::Assumed) => "; rate assumed",
    }
}

/// What the judge found last, for a plan of this moment.
fn judged(judged: &JudgedPlan, as_of: Timestamp) -> String {
    let known = match judged.shortfall {
        lacks if lacks > 1e-6 => format!("; a plan {} better is known", percent(lacks)),
        _ => String::new(),
    };
    format!(
        "decision {}, {} earlier: {} below the judge's bound{known}",
        judged.generation.0,
        as_of.since(judged.as_of),
        percent(judged.gap)
    )
}

/// The plan as a heading of named values and a table of decisions.
#[must_use]
pub(crate) fn plan_table(state: &PlanState) -> String {
    let view = plan_view(state);
    let solved = match (&view.shortcut, view.gap) {
        (Some(cut), _) => format!("{} by {} (short cut: {cut})", view.outcome, view.solver),
        (None, Some(gap)) => format!(
            "{} by {}, gap {:.3}%",
            view.outcome,
            view.solver,
            gap * 100.0
        ),
        (None, None) => format!("{} by {}", view.outcome, view.solver),
    };
    let mut head = vec![
        ("plan", format!("{} for {}", view.generation, view.as_of)),
        (
            "solved",
            format!(
                "{solved}, {} after its newest input",
                latency(Some(view.latency_s))
            ),
        ),
        ("objective", short(view.objective)),
        (
            "nodes",
            format!("{} of {} holes used", view.nodes_used, view.holes),
        ),
    ];
    let last = state.judged.iter();
    head.extend(last.map(|last| ("judged", judged(last, state.plan.as_of))));
    let head = key_values(&head);
    let head = format!("{head}{}", lacuna_planner::explain::forecast(&state.plan));
    let rows: Vec<Vec<String>> = state
        .plan
        .report
        .trainers
        .iter()
        .enumerate()
        .map(|(at, v)| {
            let change = i64::from(v.after) - i64::from(v.before);
            vec![
                v.trainer.to_string(),
                v.before.to_string(),
                v.after.to_string(),
                if change == 0 {
                    String::new()
                } else {
                    format!("{change:+}")
                },
                format!(
                    "{}{}{}",
                    reason(&v.verdict),
                    forecast_note(&state.plan, at),
                    rate_note(v)
                ),
            ]
        })
        .collect();
    let columns = [
        ("TRAINER", Side::Left),
        ("BEFORE", Side::Right),
        ("AFTER", Side::Right),
        ("CHANGE", Side::Right),
        ("WHY", Side::Left),
    ];
    if rows.is_empty() {
        return format!("{head}\nno trainers\n");
    }
    format!("{head}\n{}", render(&columns, &rows))
}

/// The plan's entry for a trainer or a node of this name, as data; none if there is none.
#[must_use]
pub(crate) fn explain_json(plan: &Plan, name: &str) -> Option<Value> {
    let forecast = plan.report.forecast.as_deref();
    let mut trainers = plan.report.trainers.iter().enumerate();
    let trainer = trainers.find(|(_, v)| v.trainer.as_str() == name);
    if let Some((at, v)) = trainer {
        let nodes = plan
            .allocations
            .iter()
            .find(|a| a.trainer == v.trainer)
            .map(|a| &a.nodes);
        let mut value = verdict_json(v);
        if let Value::Object(map) = &mut value {
            map.insert(
                "nodes".to_owned(),
                json!(nodes.cloned().unwrap_or_default()),
            );
            map.insert("generation".to_owned(), json!(plan.generation.0));
            if let Some(followed) = &plan.report.followed {
                map.insert("followed".to_owned(), json!(followed));
            }
            if let Some(report) = forecast {
                map.insert(
                    "replaced".to_owned(),
                    json!(plan.replaced.contains(&v.trainer)),
                );
                map.insert("reason".to_owned(), json!(report.trainers.get(at)));
                map.insert("doubts".to_owned(), json!(report.doubts));
            }
        }
        return Some(value);
    }
    let mut holes = plan.report.holes.iter().enumerate();
    let (at, (node, verdict)) = holes.find(|(_, (n, _))| n.as_str() == name)?;
    let (what, who) = match verdict {
        HoleVerdict::Kept { trainer } => ("kept", Some(trainer)),
        HoleVerdict::Assigned { trainer } => ("assigned", Some(trainer)),
        HoleVerdict::NoBidder => ("no_bidder", None),
        HoleVerdict::NotWorthIt => ("not_worth_it", None),
        HoleVerdict::Unusable => ("unusable", None),
    };
    let mut value = json!({
        "node": node.as_str(),
        "verdict": what,
        "trainer": who.map(|t| t.as_str()),
        "generation": plan.generation.0,
    });
    if let (Value::Object(map), Some(report)) = (&mut value, forecast) {
        let class = report.class_of.get(at).copied().flatten();
        let class = class.and_then(|class| report.classes.get(class as usize));
        map.insert("class".to_owned(), json!(class));
        map.insert("doubts".to_owned(), json!(report.doubts));
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use lacuna_model::{Generation, Rule, Span};

    use super::*;
    use crate::view::tests::{forecast_state, plan_state};

    #[test]
    fn a_plan_reads_as_a_table_of_decisions() {
        insta::assert_snapshot!(plan_table(&plan_state()));
    }

    #[test]
    fn a_plan_is_one_json_value() {
        let view = plan_view(&plan_state());
        assert_eq!((view.nodes_used, view.holes), (3, 4));
        insta::assert_json_snapshot!(view);
        let plan = plan_state().plan;
        assert_eq!(
            explain_json(&plan, "n4").unwrap()["verdict"],
            "not_worth_it"
        );
        assert_eq!(explain_json(&plan, "b").unwrap()["nodes"], json!([]));
        assert_eq!(explain_json(&plan, "no-such-name"), None);
    }

    #[test]
    fn the_followed_rule_is_in_the_plan_and_beside_each_trainer() {
        let mut state = forecast_state();
        state.plan.report.followed = Some(Followed {
            rule: Rule::Dp,
            since: state.plan.as_of,
            brought: Vec::new(),
        });
        let of_plan = json!(plan_view(&state))["followed"]["rule"].clone();
        let beside = explain_json(&state.plan, "a").unwrap()["followed"]["rule"].clone();
        assert_eq!((of_plan, beside), (json!("dp"), json!("dp")));
        let text = plan_table(&state);
        assert!(text.contains("auto has followed dp for"), "{text}");
    }

    #[test]
    fn a_plan_says_what_the_judge_found_last() {
        let mut state = plan_state();
        assert!(!plan_table(&state).contains("judged"));
        let mut last = JudgedPlan {
            generation: Generation(12),
            as_of: state.plan.as_of - Span::from_secs(300),
            gap: 0.003,
            shortfall: 0.001,
            proven: false,
        };
        let mut line = |gap, shortfall| {
            (last.gap, last.shortfall) = (gap, shortfall);
            state.judged = Some(last);
            assert_eq!(json!(plan_view(&state))["judged"]["gap"], json!(gap));
            let text = plan_table(&state);
            let line = text.lines().find(|line| line.starts_with("judged"));
            line.unwrap().to_owned()
        };
        assert_eq!(
            line(0.003, 0.001),
            "judged     decision 12, 5m00s earlier: 0.30 % below the judge's bound; a plan 0.10 % better is known"
        );
        assert_eq!(
            line(0.003, 0.0),
            "judged     decision 12, 5m00s earlier: 0.30 % below the judge's bound"
        );
    }

    #[test]
    fn a_plan_by_forecasts_shows_its_numbers() {
        let state = forecast_state();
        insta::assert_snapshot!(plan_table(&state));
        let plan = &state.plan;
        let refused = explain_json(plan, "n4").unwrap();
        assert_eq!(refused["class"]["stay_s"], 45.0);
        assert_eq!(refused["class"]["offer"]["gain"], 310.0);
        let a = explain_json(plan, "a").unwrap();
        assert_eq!(
            (&a["replaced"], &a["reason"]["ends"]),
            (&json!(true), &json!(0.25))
        );
        assert_eq!(plan_view(&state).forecast.unwrap()["scenarios"], 32);
        assert_eq!(
            lacuna_planner::explain::node(plan, &plan.report.holes[3].0).unwrap(),
            "hole n4: refused: expected to stay 45 s of the next 600 s, ends within the 20 s that \
             a change of c takes with probability 0.40; 1 node for it would bring 310 and cost \
             700, and would have to bring 2 times that"
        );
    }
}
