//! The results as Markdown.

use std::fmt::Write as _;

use lacuna_cli::output::latency;

use super::results::{Figures, Results};
use super::study::VARIATIONS;
use crate::reproduce::table::aligned;

/// All tables as one document.
pub(super) fn markdown(results: &Results) -> String {
    let mut text = format!(
        "# Layers on kinds of node, after HeterPS\n\n\
         Costs over that of the exact placement, medians of {} seeds. All choices are provisioned\n\
         exactly. Networks, speeds and prices are ours, since the paper's (arXiv 2111.10635) are not\n\
         public; 1,500 evaluations for random, genetic, local and RL, 150 for Bayesian optimization.\n\n",
        results.seeds.len()
    );
    text += &costs(results);
    text += "\n## Time\n\nProcessor time of the whole search in one thread, least of all runs, and of nine for the exact one:\na busy machine makes runs longer, none shorter.\n\n";
    text += &times(results);
    text += "\n## Placements\n\n";
    text += &placements(results);
    text += "\n## The cost model beside a simulated pipeline\n\n\
             By how much the model's rate is above that of the pipeline, largest of all instances, by\n\
             the coefficient of variation. Either a whole stage varies at each batch, or each unit\n\
             and the stage waits for the slowest.\n\n";
    text += &optimism(results);
    text += "\n## What can be said of the published figures\n\n";
    text += &published(results);
    text += "\n## Goals\n\n";
    let mut lines = vec![["goal", "found", "met"].map(str::to_owned).to_vec()];
    lines.extend(results.goals().into_iter().map(|goal| {
        let met = if goal.met { "yes" } else { "NO" };
        vec![goal.aim, goal.found, met.to_owned()]
    }));
    text + &aligned(&lines)
}

fn label(row: &Figures) -> String {
    format!("{}, {}", row.network, row.kinds)
}

fn names(results: &Results) -> Vec<String> {
    let first = results.rows.first();
    let columns = first.iter().flat_map(|row| &row.columns);
    columns.map(|column| column.name.to_owned()).collect()
}

fn costs(results: &Results) -> String {
    let mut lines = vec![
        [
            vec!["network-layers, kinds".to_owned()],
            names(results),
            vec!["exact, $ for 1e9 samples".to_owned()],
        ]
        .concat(),
    ];
    for row in &results.rows {
        let mut line = vec![label(row)];
        line.extend(
            row.columns
                .iter()
                .map(|column| match row.ratio(column.name) {
                    None => "-".to_owned(),
                    Some(ratio) if ratio > 1e3 => "none".to_owned(),
                    Some(ratio) => format!("{ratio:.3}"),
                }),
        );
        line.push(format!("{:.4}", row.exact.cost));
        lines.push(line);
    }
    aligned(&lines)
}

fn times(results: &Results) -> String {
    let mut head = vec!["network-layers, kinds".to_owned(), "exact".to_owned()];
    head.extend(names(results));
    head.push("rates solved".to_owned());
    let mut lines = vec![head];
    for row in &results.rows {
        let mut line = vec![label(row), latency(Some(row.seconds))];
        let columns = row.columns.iter();
        line.extend(columns.map(|column| latency(column.seconds())));
        line.push(row.exact.solved.to_string());
        lines.push(line);
    }
    aligned(&lines)
}

fn placements(results: &Results) -> String {
    let head = ["network-layers, kinds", "samples/s", "gap", "stages"];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    for row in &results.rows {
        let stages = row.exact.stages.iter().map(|stage| {
            let kind = row.kind_names.get(stage.kind).map_or("?", String::as_str);
            let (from, to) = (stage.layers.start + 1, stage.layers.end);
            format!("{from}-{to} on {} {kind}", stage.units)
        });
        lines.push(vec![
            label(row),
            format!("{:.0}", row.exact.rate),
            format!("{:.0e}", row.exact.gap()),
            stages.collect::<Vec<_>>().join("; "),
        ]);
    }
    aligned(&lines)
}

fn optimism(results: &Results) -> String {
    let mut head = vec!["what varies".to_owned()];
    head.extend(VARIATIONS.iter().map(|v| format!("{v}")));
    head.push(String::new());
    let mut lines = vec![head];
    for (name, by_unit) in [("stages", false), ("units", true)] {
        let mut line = vec![name.to_owned()];
        for variation in VARIATIONS {
            let all = results.rows.iter().flat_map(|row| &row.optimism);
            let of = all.filter(|one| one.by_unit == by_unit && one.variation == variation);
            let most = of.map(|one| one.share).fold(0.0, f64::max);
            line.push(format!("{:.1} %", most * 100.0));
        }
        line.push(String::new());
        lines.push(line);
    }
    aligned(&lines)
}

/// The abstract's two numbers beside what a scheduler alone can show.
fn published(results: &Results) -> String {
    let two = results.rows.iter().filter(|row| row.kinds == 2);
    let two: Vec<&Figures> = two.collect();
    let range = |name: &str| {
        let ratios: Vec<f64> = two.iter().filter_map(|row| row.ratio(name)).collect();
        let ratios = ratios.iter().filter(|ratio| **ratio < 1e3);
        let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
        ratios.for_each(|&ratio| (least, most) = (least.min(ratio), most.max(ratio)));
        (most > 0.0).then(|| format!("{least:.2} to {most:.2}"))
    };
    let mut text = String::from(
        "\"Throughput 14.5 times higher\" compares frameworks, so a scheduler cannot repeat it. Within\n\
         the model the ratio of rates at equal spend is the ratio of costs. \"Monetary cost 312.3 %\n\
         smaller\" can only mean a baseline of 4.123 times the cost.\n",
    );
    for (name, words) in [("gpu", "GPUs alone"), ("cpu", "CPUs alone")] {
        if let Some(range) = range(name) {
            let _ = write!(
                text,
                "At 2 kinds {words} cost {range} times the exact placement. "
            );
        }
    }
    text.push_str(
        "\nThese depend on the prices and speeds above, and are no figures of the paper.\n",
    );
    text
}
