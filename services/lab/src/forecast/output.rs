//! Output of an evaluation.

use serde_json::json;

use lacuna_cli::error::Result;
use lacuna_cli::log::LogSummary;
use lacuna_cli::output::{iso, iso_short, print, print_json};
use lacuna_cli::table::{Side, key_values, render};
use lacuna_forecast::LearningStage;
use lacuna_sim::skill::{
    AfterTraining, Evaluation, HorizonSkill, LinkSkill, OrderFigures, PredictorSkill,
};

use super::predictor::short_span;

/// The holes that a young predictor has seen end, and the number that it needs; none once it has
/// enough.
pub(super) fn young(learning: LearningStage) -> Option<(u64, u64)> {
    match learning {
        LearningStage::Young { ended, needed } => Some((ended, needed)),
        LearningStage::Fixed | LearningStage::Learnt { .. } => None,
    }
}

/// Prints one JSON value.
///
/// # Errors
/// Standard output cannot be written.
#[expect(
    clippy::indexing_slicing,
    reason = "indexing inserts missing keys into a json object; an evaluation is one"
)]
pub(super) fn json(evaluation: &Evaluation, log: &LogSummary, wall_seconds: f64) -> Result<()> {
    let mut value = json!(evaluation);
    value["train_until"] = json!(evaluation.train_until.map(iso));
    value["log"] = json!(log);
    value["wall_seconds"] = json!(wall_seconds);
    print_json(&value)
}

/// Prints tables for people.
///
/// # Errors
/// Standard output cannot be written.
pub(super) fn table(
    evaluation: &Evaluation,
    log: &LogSummary,
    span: &str,
    wall_seconds: f64,
) -> Result<()> {
    let mut rows = log.rows();
    rows.push(("from, until", span.to_owned()));
    if let Some(at) = evaluation.train_until {
        let after = match evaluation.after {
            AfterTraining::Learn => "then scored, and learning on",
            AfterTraining::Freeze => "then scored on what was learnt",
        };
        rows.push(("learnt until", format!("{}, {after}", iso_short(at))));
    }
    rows.push(("asked", asked(evaluation)));
    if let Some(words) = constant_words(evaluation) {
        rows.push(("constant", words));
    }
    if let Some(order) = &evaluation.order {
        rows.push(("order", order_words(order)));
    }
    let linked = evaluation.predictors.iter();
    let words = linked.filter_map(|one| Some(link_words(&one.label, one.links.as_ref()?)));
    rows.extend(words.map(|words| ("neighbours", words)));
    rows.push(("seed", evaluation.seed.to_string()));
    rows.push(("took", format!("{wall_seconds:.1} s")));
    let mut text = key_values(&rows);
    let parts = [
        skill(evaluation),
        by_event(evaluation),
        over_constant(evaluation),
        log_loss(evaluation),
        calibration(evaluation),
        pinball(evaluation),
        rests_on(evaluation),
    ];
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        text.push('\n');
        text.push_str(&part);
    }
    print(&text)
}

fn asked(evaluation: &Evaluation) -> String {
    let at = match evaluation.every {
        Some(_) => format!("{} of {} events", evaluation.moments, evaluation.events),
        None => format!("{} moments spread over the time", evaluation.moments),
    };
    let mut words = format!("{} idle nodes at {at}", evaluation.holes);
    if let Some(every) = evaluation.every.filter(|&every| every > 1) {
        words += &format!(" (one in {every})");
    }
    if evaluation.too_young > 0 {
        words += &format!(
            "; at {} before a predictor was too young",
            evaluation.too_young
        );
    }
    if evaluation.unended > 0 {
        words += &format!("; {} outlasted the log", evaluation.unended);
    }
    words
}

fn link_words(label: &str, links: &LinkSkill) -> String {
    format!(
        "of {} pairs {:.3} left together; {label} forecasts each with skill {}, off {} ({})",
        links.answered,
        links.together as f64 / links.answered.max(1) as f64,
        digits(links.skill, 3),
        digits(links.calibration_error, 3),
        links
            .in_the_large
            .map_or_else(|| "-".to_owned(), |large| format!("{large:+.3}"))
    )
}

fn order_words(order: &OrderFigures) -> String {
    format!(
        "by {}: mean place of taken nodes {} ± {} ({} if each of {} events counts once; 0 front, .5 \
         no order, 1 end): {}",
        order.by,
        digits(order.place, 3),
        digits(order.standard_error, 3),
        digits(order.by_event, 3),
        order.events,
        order.words()
    )
}

fn digits(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

/// A figure with its standard error by event.
fn with_error(value: Option<f64>, error: Option<f64>) -> String {
    match (value, error) {
        (Some(value), Some(error)) => format!("{value:.3} ±{error:.3}"),
        (value, _) => digits(value, 3),
    }
}

/// A table with a column for each horizon, after other columns.
fn by_horizon(
    evaluation: &Evaluation,
    heading: &str,
    first: &[&str],
    cells: &dyn Fn(&PredictorSkill) -> Vec<String>,
    cell: &dyn Fn(&HorizonSkill) -> String,
) -> String {
    let horizons = evaluation
        .predictors
        .first()
        .map_or(&[][..], |one| &one.horizons);
    let names: Vec<String> = first
        .iter()
        .map(|&name| name.to_owned())
        .chain(
            horizons
                .iter()
                .map(|one| format!("{heading} {}", short_span(one.horizon_s).to_uppercase())),
        )
        .collect();
    let mut columns = vec![("PREDICTOR", Side::Left)];
    columns.extend(names.iter().map(|name| (name.as_str(), Side::Right)));
    let rows: Vec<Vec<String>> = evaluation
        .predictors
        .iter()
        .map(|one| {
            let mut row = vec![one.label.clone()];
            row.extend(cells(one));
            row.extend(one.horizons.iter().map(cell));
            row
        })
        .collect();
    render(&columns, &rows)
}

fn skill(evaluation: &Evaluation) -> String {
    by_horizon(
        evaluation,
        "SKILL",
        &["C ALL", "C EVENT"],
        &|one| {
            let order = one.concordance;
            vec![
                digits(order.all, 3),
                with_error(order.within, order.within_error),
            ]
        },
        &|horizon| with_error(horizon.skill, horizon.skill_error),
    )
}

/// The skill with equal weight for each event.
fn by_event(evaluation: &Evaluation) -> String {
    by_horizon(evaluation, "BY EVENT", &[], &|_| Vec::new(), &|horizon| {
        digits(horizon.skill_by_event, 3)
    })
}

/// The skill over the constant of the learning time; none without such a time.
fn over_constant(evaluation: &Evaluation) -> String {
    let mut horizons = evaluation.predictors.iter().flat_map(|one| &one.horizons);
    if horizons.all(|horizon| horizon.constant.is_none()) {
        return String::new();
    }
    by_horizon(
        evaluation,
        "OVER CONSTANT",
        &[],
        &|_| Vec::new(),
        &|horizon| digits(horizon.skill_over_constant, 3),
    )
}

/// That constant in words: the share of holes that stay open at each horizon.
fn constant_words(evaluation: &Evaluation) -> Option<String> {
    let words: Vec<String> = evaluation
        .predictors
        .first()?
        .horizons
        .iter()
        .filter_map(|one| {
            let span = short_span(one.horizon_s);
            let later = one.open as f64 / one.answered.max(1) as f64;
            Some(format!(
                "{:.3} after {span} ({later:.3} later)",
                one.constant?
            ))
        })
        .collect();
    (!words.is_empty()).then(|| format!("while learning stayed idle: {}", words.join(", ")))
}

fn log_loss(evaluation: &Evaluation) -> String {
    by_horizon(evaluation, "LOG LOSS", &[], &|_| Vec::new(), &|horizon| {
        digits(horizon.log_loss, 4)
    })
}

fn calibration(evaluation: &Evaluation) -> String {
    by_horizon(evaluation, "OFF", &[], &|_| Vec::new(), &|horizon| match (
        horizon.calibration_error,
        horizon.in_the_large,
    ) {
        (Some(error), Some(large)) => format!("{error:.3} ({large:+.3})"),
        _ => "-".to_owned(),
    })
}

fn pinball(evaluation: &Evaluation) -> String {
    let levels = evaluation
        .predictors
        .first()
        .map_or(&[][..], |one| &one.quantiles);
    let names: Vec<[String; 2]> = levels
        .iter()
        .map(|one| [format!("PINBALL {:.1}", one.level), "SKILL".to_owned()])
        .collect();
    let mut columns = vec![("PREDICTOR", Side::Left)];
    columns.extend(
        names
            .iter()
            .flatten()
            .map(|name| (name.as_str(), Side::Right)),
    );
    let rows: Vec<Vec<String>> = evaluation
        .predictors
        .iter()
        .map(|one| {
            let cells = one
                .quantiles
                .iter()
                .flat_map(|q| [digits(q.loss_s, 1), digits(q.skill, 3)]);
            std::iter::once(one.label.clone()).chain(cells).collect()
        })
        .collect();
    render(&columns, &rows)
}

/// The data that each forecast rests on, which may be less than its name suggests.
fn rests_on(evaluation: &Evaluation) -> String {
    let rows: Vec<Vec<String>> = evaluation
        .predictors
        .iter()
        .map(|one| vec![one.label.clone(), one.rests_on.clone()])
        .collect();
    render(
        &[("PREDICTOR", Side::Left), ("RESTS ON", Side::Left)],
        &rows,
    )
}
