//! Scores of forecasts from predictions and outcomes.

use lacuna_forecast::HORIZONS_S;
use lacuna_forecast::skill::{
    Brier, Concordance, LEVELS, Pinball, Ranked, best_constant, concordance,
};

use super::figures::{
    ConcordanceFigures, Evaluation, HorizonSkill, LIMIT_S, LinkSkill, PredictorSkill, QuantileSkill,
};
use super::plan::Plan;
use super::walk::{Prediction, Question, Walked};
use super::{SampleTimes, SkillOptions};
use crate::PoolTrace;

/// Scores the questions of a walk.
pub(super) fn score(
    trace: &dyn PoolTrace,
    options: &SkillOptions,
    plan: &Plan,
    walked: Walked,
) -> Evaluation {
    let questions = &walked.questions;
    let mut lengths: Vec<f64> = questions
        .iter()
        .filter_map(|one| one.seen.length_within(LIMIT_S))
        .collect();
    let best = LEVELS.map(|level| best_constant(level, &mut lengths));
    let predictors = walked
        .predictors
        .iter()
        .enumerate()
        .map(|(number, (label, predictor))| {
            let predictions =
                |one: &Question| one.predictions.get(number).copied().unwrap_or_default();
            PredictorSkill {
                label: label.clone(),
                rests_on: predictor.label(),
                learning: predictor.learning(),
                concordance: order(questions, &predictions),
                horizons: horizons(questions, &predictions, &walked.constant),
                quantiles: quantiles(questions, &predictions, best),
                links: walked.links.get(number).copied().flatten().map(links),
            }
        })
        .collect();
    Evaluation {
        seed: options.seed,
        train_until: options.train_until.map(|at| at.max(trace.start())),
        after: options.after,
        events: plan.events,
        every: matches!(options.moments, SampleTimes::Events(_)).then_some(plan.asking.every),
        moments: walked.moments,
        too_young: walked.too_young,
        holes: questions.len() as u64,
        unended: questions.iter().filter(|one| !one.seen.ended).count() as u64,
        order: walked.order,
        predictors,
    }
}

fn links(sums: Brier) -> LinkSkill {
    LinkSkill {
        answered: sums.answered(),
        together: sums.open(),
        brier: sums.score(),
        skill: sums.skill(),
        calibration_error: sums.calibration_error(),
        in_the_large: sums.in_the_large(),
    }
}

fn horizons(
    questions: &[Question],
    predictions: &dyn Fn(&Question) -> Prediction,
    constant: &[Option<f64>; HORIZONS_S.len()],
) -> Vec<HorizonSkill> {
    let mut sums = HORIZONS_S.map(|_| Brier::new());
    for one in questions {
        let predicted = predictions(one).open;
        for ((sums, predicted), &after_s) in sums.iter_mut().zip(predicted).zip(&HORIZONS_S) {
            if let Some(open) = one.seen.open_after(after_s) {
                sums.add(predicted, open);
            }
        }
    }
    sums.iter()
        .zip(HORIZONS_S)
        .zip(constant)
        .enumerate()
        .map(|(place, ((sums, horizon_s), &constant))| {
            let of_constant = constant.and_then(|constant| sums.of_constant(constant));
            let answer = |one: &Question| {
                let predicted = predictions(one).open.get(place).copied()?;
                Some((predicted, one.seen.open_after(horizon_s)?))
            };
            HorizonSkill {
                horizon_s,
                answered: sums.answered(),
                open: sums.open(),
                brier: sums.score(),
                log_loss: sums.log_loss(),
                brier_of_base_rate: sums.of_base_rate(),
                skill: sums.skill(),
                skill_error: skill_error(questions, sums, &answer),
                skill_by_event: skill_by_event(questions, &answer),
                constant,
                brier_of_constant: of_constant,
                skill_over_constant: of_constant
                    .filter(|&score| score > 0.0)
                    .and_then(|score| Some(1.0 - sums.score()? / score)),
                calibration_error: sums.calibration_error(),
                in_the_large: sums.in_the_large(),
                bins: sums.bins(),
            }
        })
        .collect()
}

/// The standard error of a skill, from the contribution of each moment to both scores.
fn skill_error(
    questions: &[Question],
    sums: &Brier,
    answer: &dyn Fn(&Question) -> Option<(f64, bool)>,
) -> Option<f64> {
    let rate = sums.open() as f64 / sums.answered().max(1) as f64;
    let moments = questions
        .chunk_by(|a, b| a.moment == b.moment)
        .map(|moment| {
            let answers = moment.iter().filter_map(answer);
            answers.fold((0.0, 0.0), |(own, base), (predicted, open)| {
                let outcome = f64::from(u8::from(open));
                (
                    own + (predicted - outcome).powi(2),
                    base + (rate - outcome).powi(2),
                )
            })
        });
    ratio_error(moments.filter(|&(_, base)| base > 0.0))
}

/// The skill over the base rate with equal weights of moments.
fn skill_by_event(
    questions: &[Question],
    answer: &dyn Fn(&Question) -> Option<(f64, bool)>,
) -> Option<f64> {
    let (mut moments, mut open, mut squares) = (0.0, 0.0, 0.0);
    for moment in questions.chunk_by(|a, b| a.moment == b.moment) {
        let (mut answered, mut of_open, mut of_squares) = (0.0, 0.0, 0.0);
        for (predicted, is_open) in moment.iter().filter_map(answer) {
            let outcome = f64::from(u8::from(is_open));
            answered += 1.0;
            of_open += outcome;
            of_squares += (predicted - outcome).powi(2);
        }
        if answered > 0.0 {
            moments += 1.0;
            open += of_open / answered;
            squares += of_squares / answered;
        }
    }
    let base = open * (1.0 - open / moments);
    (moments > 0.0 && base > 0.0).then(|| 1.0 - squares / base)
}

fn quantiles(
    questions: &[Question],
    predictions: &dyn Fn(&Question) -> Prediction,
    best: [Option<f64>; LEVELS.len()],
) -> Vec<QuantileSkill> {
    let mut sums = LEVELS.map(Pinball::new);
    for one in questions {
        if let Some(length_s) = one.seen.length_within(LIMIT_S) {
            for (sum, quantile_s) in sums.iter_mut().zip(predictions(one).quantiles_s) {
                sum.add(quantile_s, length_s);
            }
        }
    }
    sums.iter()
        .zip(best)
        .map(|(sum, best)| QuantileSkill {
            level: sum.level(),
            answered: sum.count(),
            loss_s: sum.loss(),
            loss_of_constant_s: best,
            skill: best
                .filter(|&best| best > 0.0)
                .and_then(|best| Some(1.0 - sum.loss()? / best)),
            coverage: sum.coverage(),
        })
        .collect()
}

fn order(
    questions: &[Question],
    predictions: &dyn Fn(&Question) -> Prediction,
) -> ConcordanceFigures {
    let ranked = |one: &Question| Ranked {
        expected: predictions(one).expected_s,
        length_s: one.seen.length_s,
        ended: one.seen.ended,
    };
    let mut set: Vec<Ranked> = questions.iter().map(ranked).collect();
    let all = concordance(&mut set);
    let mut within = Concordance::default();
    let moments: Vec<Concordance> = questions
        .chunk_by(|a, b| a.moment == b.moment)
        .map(|moment| {
            set.clear();
            set.extend(moment.iter().map(ranked));
            let found = concordance(&mut set);
            within.add(found);
            found
        })
        .collect();
    ConcordanceFigures {
        all: all.share(),
        all_pairs: all.comparable,
        within: within.share(),
        within_pairs: within.comparable,
        within_error: ratio_error(moments.iter().filter(|one| one.comparable > 0).map(|one| {
            (
                one.concordant as f64 + one.tied as f64 / 2.0,
                one.comparable as f64,
            )
        })),
    }
}

/// The standard error of a ratio of sums over independent moments, to first order (Cochran,
/// "Sampling Techniques", 1977, ch. 6).
fn ratio_error(moments: impl Iterator<Item = (f64, f64)> + Clone) -> Option<f64> {
    let (mut count, mut above, mut below) = (0_u64, 0.0, 0.0);
    for (part, whole) in moments.clone() {
        count += 1;
        above += part;
        below += whole;
    }
    let rest = count.checked_sub(1).filter(|&rest| rest > 0)?;
    let ratio = above / below;
    let off = |(part, whole): (f64, f64)| whole.mul_add(-ratio, part).powi(2);
    let squares: f64 = moments.map(off).sum();
    (below > 0.0).then(|| (squares * count as f64 / rest as f64).sqrt() / below)
}
