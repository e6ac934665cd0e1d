//! Explanations of a plan by forecasts, with its numbers.

use lacuna_model::{
    Doubt, ForecastReport, HoleClass, HoleVerdict, More, NodeId, Offer, OrderSource, Plan,
    TrainerReason, TrainerVerdict, Verdict,
};

use super::{movement, nodes, of_node, units};

/// The look ahead, the doubts and the refused holes of a plan, as lines; empty for a plan without
/// forecasts.
pub(super) fn heading(plan: &Plan) -> String {
    let Some(report) = plan.report.forecast.as_deref() else {
        return String::new();
    };
    let mut text = String::new();
    if report.scenarios > 0 {
        let order = match report.order {
            OrderSource::Scheduler => "in the scheduler's order",
            OrderSource::Expectation => "by what is expected of each",
        };
        text.push_str(&format!(
            "looks {} ahead over {} scenarios, holes {order}; a change must bring {} times its \
             cost\n",
            seconds(report.horizon_s),
            report.scenarios,
            units(report.hysteresis),
        ));
    }
    for doubt in &report.doubts {
        text.push_str(&format!("in doubt: {}\n", of_doubt(doubt)));
    }
    for class in &report.classes {
        let refused = matches!(
            class.verdict,
            HoleVerdict::NotWorthIt | HoleVerdict::NoBidder
        );
        if refused {
            let which = match class.holes {
                1 => format!("{}", class.first),
                _ => format!("{} to {}", class.first, class.last),
            };
            text.push_str(&format!(
                "refused: {} ({which}): {}\n",
                holes(class.holes),
                refusal(report, class)
            ));
        }
    }
    text
}

/// The reason of a hole's verdict; nothing for a plan without forecasts. `at` is its place in the
/// report.
pub(super) fn node(plan: &Plan, at: usize, id: &NodeId, verdict: &HoleVerdict) -> Option<String> {
    let report = plan.report.forecast.as_deref()?;
    let class = report.class_of.get(at).copied().flatten();
    let class = class.and_then(|class| report.classes.get(class as usize));
    let Some(class) = class else {
        let doubt = report.doubts.first();
        let text = of_node(plan, id, verdict);
        return match (verdict, doubt) {
            (HoleVerdict::Unusable, _) | (_, None) => Some(text),
            (HoleVerdict::NotWorthIt | HoleVerdict::NoBidder, Some(doubt)) => Some(format!(
                "hole {id}: no other trainer takes it: {}",
                of_doubt(doubt)
            )),
            (_, Some(doubt)) => Some(format!("{text}: {}", of_doubt(doubt))),
        };
    };
    let like = match class.holes {
        0 | 1 => String::new(),
        more => format!(" (the figures are means over {} like it)", holes(more)),
    };
    Some(match (verdict, &class.offer) {
        (HoleVerdict::Kept { .. } | HoleVerdict::Assigned { .. }, Some(offer)) => format!(
            "{}\n  {}, ends within {} with probability {:.2}; {} to {} adds {}{like}",
            of_node(plan, id, verdict),
            expected(report, class),
            seconds(offer.within_s),
            offer.ends,
            of_holes(class.holes),
            offer.trainer,
            units(offer.gain),
        ),
        (HoleVerdict::NotWorthIt | HoleVerdict::NoBidder, _) => {
            format!("hole {id}: refused: {}{like}", refusal(report, class))
        }
        _ => of_node(plan, id, verdict),
    })
}

/// The reasons of a trainer's nodes, and the reason against more; nothing for a plan without
/// forecasts.
pub(super) fn trainer(plan: &Plan, verdict: &TrainerVerdict) -> Option<String> {
    let report = plan.report.forecast.as_deref()?;
    let at = plan
        .report
        .trainers
        .iter()
        .position(|v| v.trainer == verdict.trainer)?;
    let reason = report.trainers.get(at)?;
    let id = &verdict.trainer;
    let mut text = format!("{id}: {}", moves(plan, verdict, reason));
    if verdict.after > 0 && reason.more != More::Doubt {
        text.push_str(&format!(
            "\n  why these: one is expected to stay {} of the next {}; the first leaves after {} \
             on average, and one leaves within {} with probability {:.2}; worth {}",
            seconds(reason.stay_s),
            seconds(report.horizon_s),
            seconds(reason.until_s),
            seconds(report.horizon_s),
            reason.ends,
            units(reason.worth),
        ));
    }
    text.push_str(&format!("\n  why not more: {}", limit(report, reason)));
    Some(text)
}

fn moves(plan: &Plan, v: &TrainerVerdict, reason: &TrainerReason) -> String {
    let movement = movement(v);
    let replaced = plan.replaced.contains(&v.trainer);
    let restarts = if replaced {
        format!(
            " ({} kept, {} new: it was hit and restarts anyway)",
            reason.kept, reason.gained
        )
    } else {
        String::new()
    };
    let why = match &v.verdict {
        Verdict::Grow { gain, cost } => {
            format!(": brings {} and costs {}", units(*gain), units(*cost))
        }
        Verdict::Shrink { loss, cost } if v.share.is_some() => format!(
            ": gives up {} and costs {}, for other trainers or owners, or fewer departures",
            units(*loss),
            units(*cost)
        ),
        Verdict::Shrink { loss, cost } => format!(
            ": gives up {} and costs {}, which others or fewer departures make good",
            units(*loss),
            units(*cost)
        ),
        Verdict::TooFewNodes { pool, min } => {
            format!(": it needs at least {min} and the pool has {pool}")
        }
        Verdict::Start
        | Verdict::Keep
        | Verdict::RescaleNotWorthIt { .. }
        | Verdict::Outbid
        | Verdict::DisplacingCosts { .. } => String::new(),
    };
    format!("{movement}{restarts}{why}")
}

fn limit(report: &ForecastReport, reason: &TrainerReason) -> String {
    match &reason.more {
        More::Maximum => "it is at its maximum".to_owned(),
        More::NoneLeft => "no hole is left that it could use".to_owned(),
        More::Shrinks => "it gives nodes up, and cannot take others with that".to_owned(),
        More::Doubt => {
            let doubts: Vec<String> = report.doubts.iter().map(of_doubt).collect();
            format!("in doubt: {}", doubts.join("; "))
        }
        More::NotWorthIt(offer) => format!("{} more would {}", offer.nodes, pays(report, offer)),
        More::Missed(offer) => format!(
            "{} more would {}; that was not found",
            offer.nodes,
            pays(report, offer)
        ),
    }
}

/// Gain and cost of an offer, after "would".
fn pays(report: &ForecastReport, offer: &Offer) -> String {
    let gain = if offer.gain < 0.0 {
        format!("lose {}", units(-offer.gain))
    } else {
        format!("bring {}", units(offer.gain))
    };
    let times = if offer.cost > 0.0 && report.hysteresis > 1.0 {
        format!(
            ", and would have to bring {} times that",
            units(report.hysteresis)
        )
    } else {
        String::new()
    };
    format!("{gain} and cost {}{times}", units(offer.cost))
}

fn refusal(report: &ForecastReport, class: &HoleClass) -> String {
    let expected = expected(report, class);
    let Some(offer) = &class.offer else {
        return format!("no trainer can use more nodes; {expected}");
    };
    format!(
        "{expected}, ends within the {} that a change of {} takes with probability {:.2}; {} for \
         it would {}",
        seconds(offer.within_s),
        offer.trainer,
        offer.ends,
        nodes(offer.nodes),
        pays(report, offer)
    )
}

fn expected(report: &ForecastReport, class: &HoleClass) -> String {
    format!(
        "expected to stay {} of the next {}",
        seconds(class.stay_s),
        seconds(report.horizon_s)
    )
}

fn of_doubt(doubt: &Doubt) -> String {
    match doubt {
        Doubt::StalePool => "the pool is stale, so no trainer grows".to_owned(),
        Doubt::NoForecast => "no hole has a forecast, so no trainer grows".to_owned(),
        Doubt::BrokenOrder => {
            "the order in which holes end does not fit these holes, so no trainer grows".to_owned()
        }
        Doubt::BrokenForecasts { holes: count } => format!(
            "the forecast of {} is missing or broken: a trainer on such a hole keeps its nodes",
            holes(*count)
        ),
        Doubt::Internal { what } => {
            format!("a bug of the planner, please report it: {what}, so no trainer grows")
        }
    }
}

fn of_holes(count: u32) -> String {
    match count {
        1 => "it".to_owned(),
        more => format!("all {more} of its like together"),
    }
}

fn holes(count: u32) -> String {
    if count == 1 {
        "1 hole".to_owned()
    } else {
        format!("{count} holes")
    }
}

fn seconds(length: f64) -> String {
    if length < 10.0 && length.fract() != 0.0 {
        format!("{length:.1} s")
    } else {
        format!("{length:.0} s")
    }
}
