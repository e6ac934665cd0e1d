//! The report on a decision by forecasts.

use lacuna_model::{Doubt, ForecastReport, OrderSource};

use super::input::{ForecastVerdicts, ReportInput};
use super::numbers::Reasons;
use super::verdicts;
use super::weighed::Weighed;
use crate::placement::forecast::Evaluation;

/// The verdicts and the report of a decision.
pub(in crate::plan) fn report(input: &ReportInput<'_>) -> ForecastVerdicts {
    match input.decision.evaluation.as_deref() {
        Some(evaluation) => of_evaluation(input, evaluation),
        None => of_doubt(input),
    }
}

/// The report of a decision in doubt: every trainer keeps its nodes.
fn of_doubt(input: &ReportInput<'_>) -> ForecastVerdicts {
    let owners = &input.decision.owners;
    let reasons = Reasons::of_doubt(input, owners);
    let doubt = input.decision.doubt.clone();
    let report = ForecastReport {
        horizon_s: input.settings.horizon_s,
        hysteresis: input.settings.hysteresis,
        scenarios: 0,
        shadow_price: 0.0,
        order: OrderSource::Expectation,
        proposal: "standing".to_owned(),
        doubts: doubt.into_iter().collect::<Vec<Doubt>>(),
        classes: Vec::new(),
        class_of: vec![None; input.pool.holes.len()],
        trainers: reasons.trainers,
    };
    ForecastVerdicts {
        trainers: verdicts::of_trainers(input, &report.trainers, &reasons.old_value),
        holes: verdicts::of_holes(input, owners, |_| true),
        report,
    }
}

fn of_evaluation(input: &ReportInput<'_>, evaluation: &Evaluation) -> ForecastVerdicts {
    let request = evaluation.request();
    let reasons = Reasons::new(&Weighed {
        input,
        view: &evaluation.view,
        request: &request,
        members: request.members(true).collect(),
        assignment: &evaluation.assignment,
        prices: &evaluation.prices(),
        scenarios: &evaluation.scenarios,
        participants: &evaluation.participants,
        owners: &input.decision.owners,
    });
    let report = ForecastReport {
        horizon_s: input.settings.horizon_s,
        hysteresis: input.settings.hysteresis,
        scenarios: evaluation.scenarios.count() as u32,
        shadow_price: evaluation.assignment.shadow_price,
        order: evaluation.view.line.source,
        proposal: evaluation.proposal.to_owned(),
        doubts: evaluation.doubts.clone(),
        classes: reasons.classes,
        class_of: reasons.class_of,
        trainers: reasons.trainers,
    };
    let taken = |hole: usize| {
        let class = report.class_of.get(hole).copied().flatten();
        let class = class.and_then(|class| report.classes.get(class as usize));
        class.is_none_or(|class| class.offer.is_some())
    };
    ForecastVerdicts {
        trainers: verdicts::of_trainers(input, &report.trainers, &reasons.old_value),
        holes: verdicts::of_holes(input, &input.decision.owners, taken),
        report,
    }
}
