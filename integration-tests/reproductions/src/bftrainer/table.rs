//! The rows beside the published figures, as tables.

use lacuna_lab::findings::Findings;
use lacuna_lab::runs::commands;
use lacuna_lab::table::{Cell, Column, Table};

use super::figure::{Compared, Figure};
use super::published::GROUPS;

/// When rows agree.
const ABOUT: &str = "Published figures: arXiv 2106.12091 and its public replayer. A row agrees when its \
    hours are within 1 % and its efficiency within .01 of the published ones; the costs, as shares of \
    the work done, are shown beside each other.";

/// One table for each group.
#[must_use]
pub(super) fn findings(rows: &[Compared], seeds: &str) -> Findings {
    let failed = rows.iter().filter_map(|row| {
        let why = row.failure()?;
        Some(format!("{} failed: {why}", row.row.label))
    });
    let of = |(group, title): &(&str, &str)| {
        let within: Vec<&Compared> = rows.iter().filter(|row| row.row.group == *group).collect();
        table(title, &within)
    };
    let done: Vec<_> = rows.iter().map(|row| row.done.clone()).collect();
    Findings {
        title: "BFTrainer reproduced".to_owned(),
        about: format!("{ABOUT} {seeds}"),
        tables: GROUPS.iter().map(of).collect(),
        notes: failed.chain([verdict(rows)]).collect(),
        runs: commands(&done),
    }
}

/// The numbers of rows that agree, do not, and failed.
fn verdict(rows: &[Compared]) -> String {
    let count = |wanted: &dyn Fn(&Compared) -> bool| rows.iter().filter(|row| wanted(row)).count();
    let failed = count(&|row| row.failure().is_some());
    let agree = count(&|row| row.agrees() == Some(true));
    let differ = count(&|row| row.agrees() == Some(false)) - failed;
    let open = count(&|row| row.agrees().is_none());
    format!(
        "Of {} rows {agree} agree, {differ} do not, {failed} failed; {open} have no published figure to be \
         judged by.",
        rows.len()
    )
}

fn table(title: &str, rows: &[&Compared]) -> Table {
    let mut figures: Vec<&Figure> = Vec::new();
    for figure in rows.iter().flat_map(|row| &row.row.figures) {
        if figures.iter().all(|known| known.name != figure.name) {
            figures.push(figure);
        }
    }
    let both = figures.iter().flat_map(|figure| {
        let published = format!("published_{}", figure.name);
        [
            Column::figures(figure.name, figure.name),
            Column::figures(&published, "published"),
        ]
    });
    let first = std::iter::once(Column::words("row", "row"));
    let last = [
        Column::figures("spread", "seeds"),
        Column::words("agrees", "agrees"),
    ];
    let mut table = Table::new(title, first.chain(both).chain(last));
    for row in rows {
        let figure = |name: &str| row.row.figures.iter().find(|figure| figure.name == name);
        let both = figures.iter().flat_map(|column| match figure(column.name) {
            Some(figure) => [
                Cell::number(row.ours(figure), figure.digits),
                Cell::number(figure.published, figure.digits),
            ],
            None => [None, None].map(|none| Cell::number(none, 0)),
        });
        // The spread of the first figure over the seeds.
        let first = row.row.figures.first();
        let spread = first.and_then(|figure| Some((row.spread(figure)?, figure.digits)));
        let words =
            spread.map(|((least, most), digits)| format!("{least:.digits$}-{most:.digits$}"));
        let agrees = match (row.failure(), row.agrees()) {
            (Some(_), _) => "FAILED",
            (None, Some(true)) => "yes",
            (None, Some(false)) => "NO",
            (None, None) => "-",
        };
        let last = [
            Cell::new(words.unwrap_or_default(), spread.map(|(spread, _)| spread)),
            Cell::new(agrees, row.agrees()),
        ];
        table.push(
            std::iter::once(Cell::words(&row.row.label))
                .chain(both)
                .chain(last),
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use lacuna_lab::runs::{Done, Outcome};
    use serde_json::json;

    use super::super::published::rows;
    use super::*;

    #[test]
    fn the_table_names_rows_that_agree() {
        let output = json!({
            "hours": 203.35, "efficiency": 0.839,
            "rescale_cost_fraction": 0.007, "preempt_cost_fraction": 0.027,
        });
        let mut all: Vec<Compared> = rows(Path::new("/data"))
            .into_iter()
            .filter(|row| row.group == "horizon")
            .map(|row| Compared {
                done: Done {
                    row: row.to_run(),
                    outcome: Outcome::Done(vec![output.clone()]),
                },
                row,
            })
            .collect();
        all[0].done.outcome = Outcome::Failed("no | room".to_owned());
        let text = findings(&all, "Seed 7.").markdown();
        let line = |start: &str| text.lines().find(|l| l.starts_with(start)).unwrap();
        assert!(line("| T = 10 s").contains("| FAILED"), "{text}");
        assert!(text.contains("\n- T = 10 s failed: no | room\n"), "{text}");
        assert!(line("| T = 120 s").contains("| yes"), "{text}");
        assert!(line("| T = 120 s").contains("203.35 |    203.35"), "{text}");
        assert!(
            text.contains("Of 6 rows 5 agree, 0 do not, 1 failed"),
            "{text}"
        );
        assert!(text.contains("Seed 7"), "{text}");
    }
}
