//! The page of forecast skill.

use std::fmt::Write;

use lacuna_sim::skill::{AfterTraining, Evaluation, HorizonSkill, OrderFigures, PredictorSkill};

use super::charts::{self, Panel};
use super::data::Answer;
use super::pool_page::About;
use super::shell::{self, Table};
use super::svg::{WIDTH, both, count, escape, percent, span};
use super::{answer, from_history};

/// Skill below this is cut in the drawing: any negative skill is worse than the base rate.
const LEAST: f64 = -0.25;

/// Draws an evaluation as one self-contained HTML page.
#[must_use]
pub fn render_skill(evaluation: &Evaluation, about: &About<'_>) -> String {
    let mut body = String::new();
    answer::draw(&mut body, &answers(evaluation), &[], about.notes);
    shell::pairs(&mut body, "figures", &headline(evaluation));
    skill_section(&mut body, evaluation);
    for predictor in &evaluation.predictors {
        reliability_section(&mut body, predictor);
    }
    quantile_section(&mut body, evaluation);
    link_section(&mut body, evaluation);
    if let Some(order) = &evaluation.order {
        order_section(&mut body, order);
    }
    if !about.machine.is_empty() {
        let mut list = String::new();
        shell::pairs(&mut list, "settings", about.machine);
        shell::section(&mut body, "The log and its machine", "", &list, "");
    }
    let _ = write!(body, "<p class='note'>{}</p>", escape(&how(evaluation)));
    shell::page("Lacuna: how good forecasts are", about.name, &body)
}

/// The method of the evaluation, in words.
fn how(evaluation: &Evaluation) -> String {
    let when = match evaluation.every {
        Some(1) => "at every event".to_owned(),
        Some(every) => format!("at every {every}th event"),
        None => "at moments spread evenly over time".to_owned(),
    };
    format!(
        "A forecast uses only the knowledge of its moment, and is scored when the truth is known. \
         Questions are drawn {when}, about a random sample of the idle nodes, and every question \
         counts once. A question counts for a horizon only if the trace still ran then, \
         whether or not the hole had ended by that time. Lengths are ranked up to a day, and \
         quantiles are scored up to an hour. Skill is one less the ratio of the score to that of \
         the best constant, which is known only afterwards. Seed {}.",
        evaluation.seed
    )
}

/// A horizon in words.
fn ahead(seconds: f64) -> String {
    match seconds / 60.0 {
        minutes if minutes.fract() == 0.0 => format!("{minutes} min"),
        _ => span(seconds),
    }
}

fn digits(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

fn signed(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:+.3}"))
}

/// The skill of the first predictor in words, beside the best of the others.
fn answers(evaluation: &Evaluation) -> Vec<Answer> {
    let Some(first) = evaluation.predictors.first() else {
        return Vec::new();
    };
    let at = |predictor: &PredictorSkill, number: usize| {
        predictor.horizons.get(number).and_then(|one| one.skill)
    };
    let mut text = format!(
        "Of two idle nodes at one moment, the forecast of {} is right about the one that stays \
         longer in {} of 100 cases (50 is chance). Its skill on whether a node is still idle five \
         minutes later is {} (0 is the base rate, 1 is certainty).",
        first.label,
        digits(first.concordance.within.map(|share| share * 100.0), 0),
        digits(at(first, 1), 2)
    );
    let others = evaluation.predictors.iter().skip(1);
    let best = others
        .filter_map(|other| Some((other, at(other, 1)?)))
        .max_by(|a, b| a.1.total_cmp(&b.1));
    if let Some((other, skill)) = best {
        let _ = write!(
            text,
            " The best of the others, {}, has {skill:.2}.",
            other.label
        );
    }
    vec![Answer {
        question: "How good are the forecasts?".to_owned(),
        text,
    }]
}

fn headline(evaluation: &Evaluation) -> Vec<(String, String)> {
    let row = |label: &str, value: String| (label.to_owned(), value);
    let mut rows = vec![
        row("questions", count(evaluation.holes as f64)),
        row("at moments", count(evaluation.moments as f64)),
    ];
    if let Some(at) = evaluation.train_until {
        rows.push(row("learning until", from_history::date(at)));
        let after = match evaluation.after {
            AfterTraining::Learn => "goes on",
            AfterTraining::Freeze => "stops",
        };
        rows.push(row("learning afterwards", after.to_owned()));
    }
    if let Some(first) = evaluation.predictors.first() {
        rows.push(row(
            "concordance, one event",
            digits(first.concordance.within, 3),
        ));
        rows.push(row("over all", digits(first.concordance.all, 3)));
        if let Some(five) = first.horizons.get(1) {
            rows.push(row("skill at 5 min", digits(five.skill, 3)));
            rows.push(row("calibration error", digits(five.calibration_error, 3)));
        }
    }
    rows
}

fn skill_section(out: &mut String, evaluation: &Evaluation) {
    let predictors = &evaluation.predictors;
    let names: Vec<&str> = predictors.iter().map(|one| one.label.as_str()).collect();
    let all: Vec<f64> = predictors
        .iter()
        .flat_map(|one| one.horizons.iter().filter_map(|h| h.skill))
        .collect();
    let most = all.iter().fold(0.1_f64, |most, &skill| most.max(skill));
    let least = all.iter().fold(0.0_f64, |least, &skill| least.min(skill));
    let horizons = predictors.first().map_or(&[][..], |one| &one.horizons);
    let mut panels: Vec<Panel> = horizons
        .iter()
        .enumerate()
        .map(|(at, horizon)| Panel {
            title: format!("skill, {}", ahead(horizon.horizon_s)),
            base: 0.0,
            range: (least.max(LEAST), most),
            values: predictors
                .iter()
                .map(|one| one.horizons.get(at).and_then(|h| h.skill))
                .collect(),
        })
        .collect();
    panels.push(Panel {
        title: "concordance".to_owned(),
        base: 0.5,
        range: (0.5, 1.0),
        values: predictors
            .iter()
            .map(|one| one.concordance.within)
            .collect(),
    });
    let mut table = Table::new(&[
        "predictor",
        "concordance over all",
        "within one event",
        "standard error",
        "rests on",
    ]);
    for one in predictors {
        table.row([
            one.label.clone(),
            digits(one.concordance.all, 3),
            digits(one.concordance.within, 3),
            digits(one.concordance.within_error, 4),
            one.rests_on.clone(),
        ]);
    }
    shell::section(
        out,
        "Skill by horizon",
        "skill of the Brier score over the best constant, from 0; concordance within one event, \
         from .5; orange: worse than knowing nothing",
        &charts::skill(&names, &panels),
        &table.html(),
    );
}

fn reliability_section(out: &mut String, predictor: &PredictorSkill) {
    let mut table = Table::new(&[
        "horizon",
        "asked",
        "stayed open",
        "Brier score",
        "of the base rate",
        "skill",
        "calibration error",
        "mean forecast less share open",
    ]);
    for score in &predictor.horizons {
        table.row([
            ahead(score.horizon_s),
            count(score.answered as f64),
            open_share(score),
            digits(score.brier, 4),
            digits(score.brier_of_base_rate, 4),
            score.skill_error.map_or_else(
                || signed(score.skill),
                |error| format!("{} ± {error:.3}", signed(score.skill)),
            ),
            digits(score.calibration_error, 3),
            signed(score.in_the_large),
        ]);
    }
    let heading = format!("Do forecasts come true? {}", predictor.label);
    // A constant forecast has one dot, which shows nothing.
    if predictor.horizons.iter().all(|score| score.bins.len() < 2) {
        shell::section(out, &heading, "", &table.html(), "");
        return;
    }
    shell::section(
        out,
        &heading,
        "share of holes that stayed open over the probability that was forecast; the area of a dot \
         is the number of forecasts; on the dashed line they come true",
        &both(WIDTH, |width| charts::calibration(&[predictor], width)),
        &table.html(),
    );
}

fn open_share(score: &HorizonSkill) -> String {
    if score.answered == 0 {
        return "-".to_owned();
    }
    percent(score.open as f64 / score.answered as f64, 1)
}

fn quantile_section(out: &mut String, evaluation: &Evaluation) {
    let mut table = Table::new(&[
        "predictor",
        "quantile",
        "asked",
        "pinball loss (s)",
        "of the best constant (s)",
        "skill",
        "at most the quantile",
    ]);
    for one in &evaluation.predictors {
        for quantile in &one.quantiles {
            table.row([
                one.label.clone(),
                format!("{:.1}", quantile.level),
                count(quantile.answered as f64),
                digits(quantile.loss_s, 1),
                digits(quantile.loss_of_constant_s, 1),
                signed(quantile.skill),
                quantile
                    .coverage
                    .map_or_else(|| "-".to_owned(), |share| percent(share, 1)),
            ]);
        }
    }
    shell::section(
        out,
        "Quantiles of the remaining length",
        "of the length up to an hour",
        &table.html(),
        "",
    );
}

fn link_section(out: &mut String, evaluation: &Evaluation) {
    let mut table = Table::new(&[
        "predictor",
        "pairs",
        "ended together",
        "Brier score",
        "skill",
        "calibration error",
        "mean forecast less share",
    ]);
    for one in &evaluation.predictors {
        let Some(links) = &one.links else {
            continue;
        };
        let together = links.together as f64 / links.answered.max(1) as f64;
        table.row([
            one.label.clone(),
            count(links.answered as f64),
            percent(together, 1),
            digits(links.brier, 4),
            signed(links.skill),
            digits(links.calibration_error, 3),
            signed(links.in_the_large),
        ]);
    }
    if table.rows.is_empty() {
        return;
    }
    shell::section(
        out,
        "Which nodes leave together",
        "neighbours in the order in which nodes are taken: when the first of the two leaves, the \
         other leaves in the same event",
        &table.html(),
        "",
    );
}

fn order_section(out: &mut String, order: &OrderFigures) {
    let mut list = String::new();
    let row = |label: &str, value: String| (label.to_owned(), value);
    let verdict = order.words();
    shell::pairs(
        &mut list,
        "settings",
        &[
            row("order", order.by.clone()),
            row("events", count(order.events as f64)),
            row("nodes", count(order.nodes as f64)),
            row("mean place of a node", digits(order.place, 3)),
            row("standard error, by event", digits(order.standard_error, 3)),
            row("mean place of an event", digits(order.by_event, 3)),
            row("standard errors before .5", digits(order.z, 1)),
            row("verdict", verdict.to_owned()),
        ],
    );
    shell::section(
        out,
        "The order in which nodes are taken",
        "places of the taken nodes among the idle ones: 0 is the front of the order, 1 its end, .5 \
         the mean without an order",
        &list,
        "",
    );
}
