//! The rows beside the published figures, as Markdown and as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::published::GROUPS;
use super::row::{Done, Figure};

/// The names of the figures that each row has in JSON, null if unknown.
const ALWAYS: [&str; 4] = ["hours", "efficiency", "rescale", "preempt"];

/// A list with one object for each row: the median of the seeds and their spread. `agrees` is null
/// where no published figure is compared; a failed row has `failed` and does not agree.
#[must_use]
pub(super) fn json(rows: &[Done]) -> Value {
    let row = |done: &Done| {
        let mut ours = serde_json::Map::new();
        let mut published = serde_json::Map::new();
        let mut spread = serde_json::Map::new();
        for name in ALWAYS {
            ours.insert(name.to_owned(), Value::Null);
            published.insert(name.to_owned(), Value::Null);
        }
        for figure in &done.row.figures {
            ours.insert(figure.name.to_owned(), json!(done.ours(figure)));
            published.insert(figure.name.to_owned(), json!(figure.published));
            if let Some((least, most)) = done.spread(figure) {
                spread.insert(figure.name.to_owned(), json!([least, most]));
            }
        }
        let mut value = json!({
            "group": done.row.group,
            "row": done.row.label,
            "ours": ours,
            "spread": spread,
            "published": published,
            "agrees": done.agrees(),
            "command": done.row.command.join(" "),
        });
        if let (Some(why), Some(object)) = (done.failure(), value.as_object_mut()) {
            object.insert("failed".to_owned(), json!(why));
        }
        value
    };
    Value::Array(rows.iter().map(row).collect())
}

/// One table for each group, with aligned columns, readable as plain text.
#[must_use]
pub(super) fn markdown(rows: &[Done], seeds: &str) -> String {
    let mut text = format!(
        "# BFTrainer reproduced\n\n\
         Published figures: arXiv 2106.12091 and its public replayer. A row agrees when its hours\n\
         are within 1 % and its efficiency within .01 of the published ones (a share of the\n\
         zero-cost bound within .02); the costs, as shares of the work done, are shown beside each\n\
         other. {seeds}\n"
    );
    for group in &GROUPS {
        let within: Vec<&Done> = rows
            .iter()
            .filter(|done| done.row.group == group.name)
            .collect();
        if within.is_empty() {
            continue;
        }
        let _ = write!(text, "\n## {}\n\n{}", group.title, one(&within));
    }
    let _ = write!(text, "\n{}\n", verdict(rows));
    text
}

/// The numbers of rows that agree, do not, and failed.
#[must_use]
pub(super) fn verdict(rows: &[Done]) -> String {
    let count = |wanted: &dyn Fn(&Done) -> bool| rows.iter().filter(|done| wanted(done)).count();
    let failed = count(&|done| done.failure().is_some());
    let agree = count(&|done| done.agrees() == Some(true));
    let differ = count(&|done| done.agrees() == Some(false)) - failed;
    let open = count(&|done| done.agrees().is_none());
    let mut text = format!("{agree} rows agree, {differ} do not, {failed} failed");
    if open > 0 {
        let _ = write!(text, "; {open} have no published figure to compare with");
    }
    text
}

fn one(rows: &[&Done]) -> String {
    let mut figures: Vec<&Figure> = Vec::new();
    for figure in rows.iter().flat_map(|done| &done.row.figures) {
        if figures.iter().all(|known| known.name != figure.name) {
            figures.push(figure);
        }
    }
    let mut lines = vec![vec!["row".to_owned()]];
    if let Some(heading) = lines.first_mut() {
        for figure in &figures {
            heading.extend([figure.name.to_owned(), "published".to_owned()]);
        }
        heading.push("seeds".to_owned());
        heading.push("agrees".to_owned());
    }
    for done in rows {
        let mut line = vec![done.row.label.replace('|', "/")];
        for column in &figures {
            let figure = done.row.figures.iter().find(|f| f.name == column.name);
            let number = |value: Option<f64>, figure: &Figure| {
                value.map_or_else(String::new, |v| format!("{v:.*}", figure.digits))
            };
            match figure {
                Some(figure) => line.extend([
                    number(done.ours(figure), figure),
                    number(figure.published, figure),
                ]),
                None => line.extend([String::new(), String::new()]),
            }
        }
        // The spread of the first figure over the seeds.
        let spread = done.row.figures.first().and_then(|figure| {
            let (least, most) = done.spread(figure)?;
            let digits = figure.digits;
            Some(format!("{least:.digits$}-{most:.digits$}"))
        });
        line.push(spread.unwrap_or_default());
        line.push(match (done.failure(), done.agrees()) {
            (Some(_), _) => "FAILED".to_owned(),
            (None, Some(true)) => "yes".to_owned(),
            (None, Some(false)) => "NO".to_owned(),
            (None, None) => "-".to_owned(),
        });
        lines.push(line);
    }
    let mut text = aligned(&lines);
    for done in rows {
        if let Some(why) = done.failure() {
            let _ = write!(text, "\n{} failed: {why}\n", done.row.label);
        }
    }
    text
}

/// A Markdown table: the first line is the heading, the first column words, the others numbers.
pub(super) fn aligned(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.get(column));
        cells
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
            .max(3)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let left = |column: usize| column == 0 || column + 1 == columns;
    let mut text = String::new();
    for (at, line) in lines.iter().enumerate() {
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            let _ = if left(column) {
                write!(text, "| {cell:<width$} ")
            } else {
                write!(text, "| {cell:>width$} ")
            };
        }
        text.push_str("|\n");
        if at == 0 {
            for (column, width) in widths.iter().enumerate() {
                let dashes = "-".repeat(width + 1);
                let _ = if left(column) {
                    write!(text, "|{dashes}-")
                } else {
                    write!(text, "|{dashes}:")
                };
            }
            text.push_str("|\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::published::rows;
    use super::super::row::Outcome;
    use super::*;

    /// Each row of the published table, with a run that has the figures of T = 120.
    fn all() -> Vec<Done> {
        let output = json!({
            "hours": 203.35, "efficiency": 0.839,
            "rescale_cost_fraction": 0.007, "preempt_cost_fraction": 0.027,
        });
        rows(Path::new("/data"))
            .into_iter()
            .map(|row| Done {
                row,
                outcome: Outcome::Done(vec![output.clone()]),
            })
            .collect()
    }

    #[test]
    fn the_table_names_rows_that_agree() {
        let mut rows = all();
        rows.retain(|done| done.row.group == "horizon");
        if let Some(first) = rows.first_mut() {
            first.outcome = Outcome::Failed("no | room".to_owned());
        }
        let text = markdown(&rows, "Seed 7.");
        let line = |start: &str| text.lines().find(|l| l.starts_with(start)).unwrap();
        assert!(line("| T = 10 s").contains("| FAILED"), "{text}");
        assert!(text.contains("\nT = 10 s failed: no | room\n"), "{text}");
        assert!(line("| T = 120 s").contains("| yes"), "{text}");
        assert!(line("| T = 120 s").contains("203.35 |    203.35"), "{text}");
        let ends: Vec<usize> = text
            .lines()
            .filter(|line| line.starts_with('|'))
            .map(|line| line.chars().count())
            .collect();
        assert!(ends.windows(2).all(|two| two[0] == two[1]), "{text}");
        assert!(text.contains("5 rows agree, 0 do not, 1 failed"), "{text}");
        assert!(text.contains("Seed 7"), "{text}");
    }

    #[test]
    fn json_has_the_same_figures_in_every_row() {
        let rows = all();
        let value = json(&rows);
        let list = value.as_array().unwrap();
        assert_eq!(list.len(), rows.len());
        for row in list {
            for side in ["ours", "published"] {
                for name in ALWAYS {
                    assert!(row[side].get(name).is_some(), "{row}");
                }
            }
            assert!(row["agrees"].is_boolean() || row["agrees"].is_null());
        }
        let row = list.iter().find(|row| row["row"] == "T = 120 s").unwrap();
        assert_eq!(row["agrees"], true);
        assert_eq!(row["published"]["hours"], 203.35);
        let far = list
            .iter()
            .find(|row| row["row"] == "5 in parallel")
            .unwrap();
        assert_eq!(far["agrees"], false);
    }
}
