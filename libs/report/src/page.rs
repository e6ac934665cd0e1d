//! The page of a report.

use std::fmt::Write;

use lacuna_sim::skill::Evaluation;
use lacuna_trainer::measure;

use super::data::{
    BesideKind, BesideRow, DayRow, LossKind, LossPart, Losses, Report, TrainerRow, bin_solves,
};
use super::shell::{self, Panel, Table};
use super::svg::{HALF, WIDTH, both, count, escape, percent, share, span, value};
use super::{answer, charts, pool_page};

/// Most days that are shown day by day; more are shown by week.
const DAYS: usize = 70;
/// Most trainers of the table.
const ROWS: usize = 30;

/// Draws a report as one self-contained HTML page.
#[must_use]
pub fn render(report: &Report) -> String {
    let mut out = String::new();
    answer::draw(&mut out, &report.answer, &report.tiles, &report.caveats);
    beside(&mut out, &report.beside);
    let end_s = end(report);
    if !report.pool.is_empty() {
        let legend = "<i class='pool'></i>nodes in the pool <i class='used'></i>nodes that train";
        let chart = both(WIDTH, |width| charts::pool(&report.pool, end_s, width));
        shell::section(&mut out, "Pool and use", legend, &chart, "");
    }
    work(&mut out, report, end_s);
    if !report.harm.is_empty() {
        let mut text = String::from("<div class='harm'>");
        for paragraph in &report.harm {
            let _ = write!(text, "<p>{}</p>", escape(paragraph));
        }
        text.push_str("</div>");
        shell::half(&mut out, "Possible harm", "", &text, "");
    }
    if !report.trainers.is_empty() {
        trainers(&mut out, report, end_s);
    }
    if let Some(gantt) = report.gantt.as_ref().filter(|gantt| !gantt.rows.is_empty()) {
        let legend = format!(
            "{} to {} after the start; <i class='batch'></i>batch job <i class='trainer'></i>hole with a \
             trainer <i class='hole'></i>idle hole (low)",
            span(gantt.from_s),
            span(gantt.until_s)
        );
        let chart = both(WIDTH, |width| charts::gantt(gantt, &report.trainers, width));
        shell::section(&mut out, "Node by node", &legend, &chart, "");
    }
    holes(&mut out, report);
    appendix(&mut out, report);
    for note in &report.notes {
        let _ = write!(out, "<p class='note'>{}</p>", escape(note));
    }
    shell::page(&report.title, &report.subtitle, &out)
}

/// The policy, and what one would have instead: as bars, and as a table.
fn beside(out: &mut String, rows: &[BesideRow]) {
    if rows.is_empty() {
        return;
    }
    let dash = || "-".to_owned();
    let mut table = Table::new(&[
        "on the same holes",
        "samples",
        "of the zero-cost bound",
        "hours",
        "node-hours used",
        "restarts",
        "policy over it, per hour",
    ]);
    for row in rows {
        table.row([
            row.name.clone(),
            value(row.samples),
            row.share.map_or_else(dash, |share| percent(share, 1)),
            format!("{:.1}", row.hours),
            count(row.node_hours),
            count(row.restarts as f64),
            row.ratio.map_or_else(dash, |ratio| format!("{ratio:.2} x")),
        ]);
    }
    let bounded = rows.iter().all(|row| row.share.is_some());
    let what = match bounded {
        true => "samples as a share of the zero-cost bound",
        false => "samples an hour",
    };
    let mut legend = format!("{what}; <i class='full'></i>Lacuna");
    for (kind, words) in [
        (BesideKind::Rule, "<i class='sky'></i>simple rules"),
        (
            BesideKind::Practice,
            "<i class='pale'></i>what centres run today",
        ),
    ] {
        if rows.iter().any(|row| row.kind == kind) {
            let _ = write!(legend, " {words}");
        }
    }
    shell::section(
        out,
        "Beside what one would have instead",
        &legend,
        &both(HALF, |width| charts::beside(rows, width)),
        &table.html(),
    );
}

/// What tells how the answer came about: further figures, forecasts, decisions, settings.
fn appendix(out: &mut String, report: &Report) {
    let mut parts = String::new();
    shell::pairs(&mut parts, "figures", &report.figures);
    if let Some(calibrated) = &report.calibration {
        calibration(&mut parts, calibrated);
    }
    decisions(&mut parts, report);
    for (heading, pairs) in [
        ("The log and its machine", &report.machine),
        ("Settings", &report.settings),
    ] {
        if !pairs.is_empty() {
            let mut list = String::new();
            shell::pairs(&mut list, "settings", pairs);
            shell::section(&mut parts, heading, "", &list, "");
        }
    }
    if !parts.is_empty() {
        let summary = "Appendix: all figures, forecasts, decisions and settings";
        let _ = writeln!(
            out,
            "<details class='appendix'><summary>{summary}</summary>{parts}</details>"
        );
    }
}

/// Draws the beginning of a report: its first answer, pool and use, and the nodes of its window.
#[must_use]
pub fn drawing(report: &Report) -> String {
    let mut panels = Vec::new();
    if !report.pool.is_empty() {
        panels.push(Panel {
            title: "Pool and use",
            legend: "light: nodes in the pool; dark: nodes that train",
            chart: charts::pool(&report.pool, end(report), WIDTH),
            height: charts::POOL_HEIGHT,
        });
    }
    let legend;
    if let Some(gantt) = report.gantt.as_ref().filter(|gantt| !gantt.rows.is_empty()) {
        legend = format!(
            "{} to {} after the start; grey: batch job; coloured: hole with a trainer; low, orange: \
             hole without one",
            span(gantt.from_s),
            span(gantt.until_s)
        );
        panels.push(Panel {
            title: "Node by node",
            legend: &legend,
            chart: charts::gantt(gantt, &report.trainers, WIDTH),
            height: charts::gantt_height(gantt),
        });
    }
    shell::drawing(&report.title, &words(report), &panels)
}

/// The text of the first answer.
fn words(report: &Report) -> Vec<String> {
    let gain = report.answer.first();
    gain.map(|gain| gain.text.clone()).into_iter().collect()
}

/// The last moment in the report's data, seconds.
fn end(report: &Report) -> f64 {
    let pool = report.pool.last().map_or(0.0, |p| p.at_s);
    let efficiency = report.efficiency.last().map_or(0.0, |p| p.0);
    let ends = report.trainers.iter().filter_map(|row| row.ended_s);
    ends.fold(pool.max(efficiency), f64::max).max(1.0)
}

/// Sections of efficiency over time, of losses and of days.
fn work(out: &mut String, report: &Report, end_s: f64) {
    if !report.efficiency.is_empty() {
        shell::half(
            out,
            "Efficiency so far",
            "work done since the start, over the work of the same trainers on as much dedicated node-time",
            &both(HALF, |width| {
                charts::efficiency(&report.efficiency, end_s, width)
            }),
            "",
        );
    }
    for line in &report.learning {
        let (heading, chart) = (
            format!("Learning: {}", line.name),
            both(HALF, |width| charts::line(line, end_s, width)),
        );
        shell::half(out, &heading, &escape(&line.meaning), &chart, "");
    }
    if !report.days.is_empty() {
        days(out, report);
    }
    if let Some(split) = &report.loss {
        let part = |label: &str, kind, samples| LossPart {
            label: label.to_owned(),
            kind,
            samples,
        };
        let whole = part("on dedicated nodes", LossKind::Whole, split.dedicated);
        let done = part("done", LossKind::Done, split.done);
        let mut table = Table::new(&["part", "samples", "of dedicated"]);
        for part in [&whole].into_iter().chain(&split.parts).chain([&done]) {
            let of_whole = share(part.samples, split.dedicated);
            table.row([
                part.label.clone(),
                count(part.samples),
                percent(of_whole, 3),
            ]);
        }
        shell::half(
            out,
            "Losses",
            "from the work of dedicated nodes with the same node-time to the work done, in samples",
            &both(HALF, |width| {
                charts::loss(&whole, &split.parts, &done, width)
            }),
            &table.folded("as a table"),
        );
    } else if let Some(losses) = &report.losses {
        shell::section(
            out,
            "Work done and lost",
            "in samples, as shares of the work done and lost",
            &both(HALF, |width| charts::simple(&charged(losses), width)),
            "",
        );
    }
}

fn charged(losses: &Losses) -> [LossPart; 3] {
    [
        ("done", LossKind::Done, losses.samples),
        ("lost to rescaling", LossKind::Rescale, losses.rescale),
        ("lost to preemption", LossKind::Preempt, losses.preempt),
    ]
    .map(|(label, kind, samples)| LossPart {
        label: label.to_owned(),
        kind,
        samples,
    })
}

/// Sums of each seven days from the first. Efficiencies are weighted by dedicated samples.
fn weeks(days: &[DayRow]) -> Vec<DayRow> {
    let one = |days: &[DayRow]| {
        let sum = |of: fn(&DayRow) -> f64| days.iter().map(of).sum::<f64>();
        let measured = days.iter().filter_map(|day| {
            let efficiency = day.efficiency.filter(|u| *u > 0.0)?;
            Some((day.samples, day.samples / efficiency))
        });
        let (done, dedicated) = measured.fold((0.0, 0.0), |(a, b), (done, of)| (a + done, b + of));
        DayRow {
            label: days
                .first()
                .map_or_else(String::new, |day| day.label.clone()),
            offered_node_hours: sum(|day| day.offered_node_hours),
            used_node_hours: sum(|day| day.used_node_hours),
            samples: sum(|day| day.samples),
            rescale: sum(|day| day.rescale),
            preempt: sum(|day| day.preempt),
            efficiency: (dedicated > 0.0).then(|| done / dedicated),
        }
    };
    days.chunks(7).map(one).collect()
}

fn days(out: &mut String, report: &Report) {
    let (heading, days) = if report.days.len() > DAYS {
        ("Efficiency by week", weeks(&report.days))
    } else {
        ("Efficiency by day", report.days.clone())
    };
    let mut table = Table::new(&[
        "day",
        "node-hours offered",
        "trained",
        "samples",
        "rescaling",
        "preemption",
        "efficiency",
    ]);
    for day in &days {
        let of_done = |lost: f64| match measure::share_lost(lost, day.samples) {
            Some(share) if day.samples > 0.0 => percent(share, 2),
            _ => "-".to_owned(),
        };
        let trained = measure::idle_share_used(day.used_node_hours, day.offered_node_hours);
        table.row([
            day.label.clone(),
            count(day.offered_node_hours),
            trained.map_or_else(|| "-".to_owned(), |trained| percent(trained, 1)),
            value(day.samples),
            of_done(day.rescale),
            of_done(day.preempt),
            day.efficiency
                .map_or_else(|| "-".to_owned(), |u| percent(u, 1)),
        ]);
    }
    shell::half(
        out,
        heading,
        "the wider a bar, the more node-time was offered",
        &both(HALF, |width| charts::days(&days, width)),
        &table.folded("as a table"),
    );
}

fn trainers(out: &mut String, report: &Report, end_s: f64) {
    let rows = &report.trainers;
    let mut table = Table::new(&[
        "trainer",
        "admitted",
        "ended",
        "ran for",
        "samples",
        "samples/s",
        "mean nodes",
        "preemptions",
    ]);
    for row in rows.iter().take(ROWS) {
        table.row(trainer(row, end_s));
    }
    let mut after = table.folded("as a table");
    let more = rows.len().saturating_sub(ROWS) as u64 + report.trainers_left_out;
    if more > 0 {
        let _ = write!(
            after,
            "<p class='legend'>{} of {} trainers in the table, {} in the chart</p>",
            count(rows.len().min(ROWS) as f64),
            count(rows.len() as f64 + report.trainers_left_out as f64),
            count(rows.len() as f64)
        );
    }
    let mut legend =
        "one lane for each trainer at a time; colour is its size in nodes, a thin cut is \
                      the next trainer"
            .to_owned();
    // Trainers that are left out come last, so the chart ends with the others.
    let mut until = end_s;
    if report.trainers_left_out > 0 {
        let lasts = rows.iter().filter_map(|row| row.ended_s);
        until = lasts.fold(1.0, f64::max).min(end_s);
        let _ = write!(
            legend,
            "; the first {} trainers, until {} after the start",
            count(rows.len() as f64),
            span(until)
        );
    }
    let chart = both(WIDTH, |width| charts::trainers(rows, until, width));
    let heading = if report.trainers_left_out > 0 {
        "The first trainers"
    } else {
        "Trainers"
    };
    shell::section(out, heading, &legend, &chart, &after);
}

fn trainer(row: &TrainerRow, end_s: f64) -> [String; 8] {
    let until = row.ended_s.unwrap_or(end_s);
    let lasted = (until - row.admitted_s).max(f64::MIN_POSITIVE);
    [
        row.name.clone(),
        span(row.admitted_s),
        row.ended_s.map_or_else(|| "-".to_owned(), span),
        span(lasted),
        count(row.samples),
        count(row.samples / lasted),
        format!("{:.1}", row.node_seconds(until) / lasted),
        row.preemptions.to_string(),
    ]
}

fn holes(out: &mut String, report: &Report) {
    if let Some(stats) = &report.pool_stats {
        pool_page::size_section(out, stats);
        pool_page::length_section(out, stats);
        pool_page::week_section(out, stats);
        let table = pool_page::figures(stats).html();
        shell::half(out, "The pool in figures", "", &table, "");
    } else if report.holes.iter().any(|bin| bin.count > 0) {
        shell::section(
            out,
            "Holes by length",
            "<i class='pale'></i>% of all holes <i class='full'></i>% of their node-time",
            &both(HALF, |width| charts::holes(&report.holes, width)),
            "",
        );
    }
}

fn calibration(out: &mut String, calibrated: &Evaluation) {
    let digits =
        |score: Option<f64>| score.map_or_else(|| "-".to_owned(), |score| format!("{score:.4}"));
    let mut table = Table::new(&[
        "predictor",
        "horizon",
        "asked",
        "stayed open",
        "Brier score",
        "of the base rate",
        "skill",
    ]);
    for predictor in &calibrated.predictors {
        for score in &predictor.horizons {
            let answered = score.answered.max(1) as f64;
            table.row([
                predictor.label.clone(),
                span(score.horizon_s),
                count(score.answered as f64),
                percent(score.open as f64 / answered, 1),
                digits(score.brier),
                digits(score.brier_of_base_rate),
                score
                    .skill
                    .map_or_else(|| "-".to_owned(), |skill| format!("{skill:+.3}")),
            ]);
        }
    }
    let mut legend = String::new();
    for (number, predictor) in calibrated.predictors.iter().enumerate() {
        let class = if number == 0 { "dot" } else { "dot2" };
        let _ = write!(
            legend,
            "<i class='{class}'></i>{} ",
            escape(&predictor.label)
        );
    }
    let _ = write!(
        legend,
        "- share of holes that stayed open over the probability forecast; the area of a dot is the \
         number of forecasts; {} questions at {} moments, before the ends were known",
        count(calibrated.holes as f64),
        count(calibrated.moments as f64)
    );
    shell::section(
        out,
        "Are forecasts right?",
        &legend,
        &both(HALF, |width| {
            charts::calibration(&calibrated.predictors.iter().collect::<Vec<_>>(), width)
        }),
        &table.html(),
    );
}

fn decisions(out: &mut String, report: &Report) {
    let binned;
    let bins = if report.solves.is_empty() && report.solve_seconds.iter().any(|&s| s > 0.0) {
        binned = bin_solves(report.solve_seconds.iter().map(|&s| (s, 1)));
        &binned
    } else {
        &report.solves
    };
    if bins.iter().any(|bin| bin.count > 0) {
        shell::section(
            out,
            "Time per decision",
            "number of decisions by wall-clock time",
            &both(WIDTH, |width| charts::solves(bins, width)),
            "",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Answer;

    #[test]
    fn the_answer_and_its_doubts_stand_before_all_figures() {
        let page = render(&Report {
            figures: vec![("efficiency U".to_owned(), "83.93 %".to_owned())],
            answer: vec![Answer {
                question: "Gained?".to_owned(),
                text: "As much as <10> nodes.".to_owned(),
            }],
            caveats: vec!["2 lines & more were damaged".to_owned()],
            ..Report::default()
        });
        let places = ["Gained?", "&lt;10&gt; nodes", "2 lines &amp; more", "83.93"]
            .map(|words| page.find(words).unwrap());
        assert!(places.is_sorted(), "{places:?}");
        assert!(!render(&Report::default()).contains("class='answer'"));
    }

    #[test]
    fn weeks_are_weighted_by_the_work_of_dedicated_nodes() {
        let day = |samples, efficiency| DayRow {
            label: format!("{samples}"),
            offered_node_hours: 10.0,
            samples,
            efficiency,
            ..DayRow::default()
        };
        let days = [
            day(80.0, Some(0.8)),
            day(0.0, None),
            day(30.0, Some(0.5)),
            day(0.0, None),
            day(0.0, None),
            day(0.0, None),
            day(0.0, None),
            day(9.0, Some(0.9)),
        ];
        let weeks = weeks(&days);
        assert_eq!(weeks.len(), 2);
        assert_eq!(
            (weeks[0].label.as_str(), weeks[0].offered_node_hours),
            ("80", 70.0)
        );
        assert!((weeks[0].efficiency.unwrap() - 110.0 / 160.0).abs() < 1e-12);
        assert_eq!(weeks[1].efficiency, Some(0.9));
    }
}
