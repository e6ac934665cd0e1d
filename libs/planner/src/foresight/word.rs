//! A decision by forecasts in words.

use lacuna_model::{Doubt, ForecastReport, OrderSource};

use super::reasons::{Reasons, Weighed};
use super::{Asked, Foreseen, Worded, verdicts};

/// Says why.
pub(crate) fn word(asked: &Asked<'_>) -> Worded {
    match asked.decision.foreseen.as_deref() {
        Some(foreseen) => of_foreseen(asked, foreseen),
        None => of_doubt(asked),
    }
}

/// Every trainer keeps what it has.
fn of_doubt(asked: &Asked<'_>) -> Worded {
    let owners = &asked.decision.owners;
    let reasons = Reasons::of_doubt(asked, owners);
    let doubt = asked.decision.doubt.clone();
    let report = ForecastReport {
        horizon_s: asked.joint.horizon_s,
        hysteresis: asked.joint.hysteresis,
        scenarios: 0,
        salvage: 0.0,
        order: OrderSource::Expectation,
        proposal: "standing".to_owned(),
        doubts: doubt.into_iter().collect::<Vec<Doubt>>(),
        classes: Vec::new(),
        class_of: vec![None; asked.pool.holes.len()],
        trainers: reasons.trainers,
    };
    Worded {
        trainers: verdicts::of_trainers(asked, &report.trainers, &reasons.old_worth),
        holes: verdicts::of_holes(asked, owners, |_| true),
        report,
    }
}

fn of_foreseen(asked: &Asked<'_>, foreseen: &Foreseen) -> Worded {
    let request = foreseen.request();
    let reasons = Reasons::new(&Weighed {
        asked,
        view: &foreseen.view,
        request: &request,
        members: request.members(true).collect(),
        assignment: &foreseen.assignment,
        prices: &foreseen.prices(),
        scenarios: &foreseen.scenarios,
        taking: &foreseen.taking,
        owners: &asked.decision.owners,
    });
    let report = ForecastReport {
        horizon_s: asked.joint.horizon_s,
        hysteresis: asked.joint.hysteresis,
        scenarios: foreseen.scenarios.count() as u32,
        salvage: foreseen.assignment.salvage,
        order: foreseen.view.line.source,
        proposal: foreseen.proposal.to_owned(),
        doubts: foreseen.doubts.clone(),
        classes: reasons.classes,
        class_of: reasons.class_of,
        trainers: reasons.trainers,
    };
    let taken = |hole: usize| {
        let class = report.class_of.get(hole).copied().flatten();
        let class = class.and_then(|class| report.classes.get(class as usize));
        class.is_none_or(|class| class.offer.is_some())
    };
    Worded {
        trainers: verdicts::of_trainers(asked, &report.trainers, &reasons.old_worth),
        holes: verdicts::of_holes(asked, &asked.decision.owners, taken),
        report,
    }
}
