//! The comparison as a table.

use lacuna_cli::output::latency;
use lacuna_cli::table::{Side, render};

use super::Row;

const COLUMNS: [(&str, Side); 8] = [
    ("INSTANCE", Side::Left),
    ("SOLVER", Side::Left),
    ("TIME", Side::Right),
    ("TIMES DP", Side::Right),
    ("OBJECTIVE", Side::Right),
    ("BELOW DP", Side::Right),
    ("GAP", Side::Right),
    ("STATUS", Side::Left),
];

/// The row of the dynamic program on the same instance.
fn dp<'a>(rows: &'a [Row], row: &Row) -> Option<&'a Row> {
    let of = |other: &&Row| other.instance == row.instance && other.solver == "dp";
    rows.iter().find(of)
}

fn percent(share: f64) -> String {
    if share.abs() < 5e-9 {
        "0".to_owned()
    } else if share.abs() < 1e-5 {
        format!("{:.1e} %", share * 100.0)
    } else {
        format!("{:.3} %", share * 100.0)
    }
}

/// The rows under a heading. `TIMES DP` is the time over that of dp, `BELOW DP` the shortfall of
/// the objective to dp's.
#[must_use]
pub(super) fn table(heading: &str, rows: &[Row]) -> String {
    let dash = || "-".to_owned();
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let dp = dp(rows, row).filter(|dp| dp.seconds > 0.0);
            let times = dp.map_or_else(dash, |dp| format!("{:.0}", row.seconds / dp.seconds));
            let below = dp
                .and_then(|dp| dp.objective)
                .zip(row.objective)
                .map_or_else(dash, |(best, this)| percent((best - this) / best.abs()));
            vec![
                row.instance.clone(),
                row.solver.to_owned(),
                latency(Some(row.seconds)),
                times,
                row.objective.map_or_else(dash, |o| format!("{o:.0}")),
                below,
                row.gap.map_or_else(dash, percent),
                row.status.clone(),
            ]
        })
        .collect();
    format!("{heading}\n\n{}", render(&COLUMNS, &cells))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(instance: &str, solver: &'static str, seconds: f64, objective: Option<f64>) -> Row {
        Row {
            instance: instance.to_owned(),
            solver,
            seconds,
            objective,
            gap: objective.map(|_| 0.0),
            status: objective.map_or("killed", |_| "optimal").to_owned(),
        }
    }

    #[test]
    fn solvers_are_compared_with_dp_on_the_same_instance() {
        let rows = [
            row("5x20", "dp", 2e-6, Some(1000.0)),
            row("5x20", "highs", 0.5, Some(990.0)),
            row("10x100", "highs", 40.0, None),
        ];
        let text = table("seed 1", &rows);
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(lines[0], ["seed", "1"]);
        assert_eq!(
            lines[3],
            ["5x20", "dp", "2", "us", "1", "1000", "0", "0", "optimal"]
        );
        assert_eq!(
            lines[4],
            [
                "5x20", "highs", "500", "ms", "250000", "990", "1.000", "%", "0", "optimal"
            ]
        );
        assert_eq!(
            lines[5],
            [
                "10x100", "highs", "40.00", "s", "-", "-", "-", "-", "killed"
            ]
        );
    }
}
