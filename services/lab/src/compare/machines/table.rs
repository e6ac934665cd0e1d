//! The cells as tables.

use super::cells::{Cells, WINDOWS, figures};
use super::column::COLUMNS;
use crate::findings::Findings;
use crate::runs::Done;
use crate::table::{Cell, Column, Table};

/// What the cells are, in words.
const ABOUT: &str = "Share kept of the zero-cost bound, from one start until the end of each window. The first \
    third of a log (of Summit its first five days) is history, which only `learnt` and `ahead` \
    know. `cold`, `prior` and `learnt` are `auto`, the default: knowing nothing, what the other \
    machines' traces show, or its own history; `ahead` also knows what ends within 15 minutes. \
    Trainers are an endless list of ShuffleNet on ImageNet. A window longer than what is left of \
    a log is left out. JSON also has the first week and costs x0.1. Theta is its first month, \
    SURF its first eleven days, Summit its first 1,024 nodes.";

/// The window that only JSON has: it lies between the others.
const WEEK: usize = 2;
/// The costs from which on tables have a row: below, changes are nearly free.
const SHOWN: f64 = 1.0;

/// A table for each window, and the figures over all cells.
pub(super) fn findings(cells: &[Cells], replays: &[Done]) -> Findings {
    let windows = WINDOWS.iter().enumerate();
    let shown = windows.filter(|(at, _)| *at != WEEK);
    let mut tables: Vec<Table> = shown
        .map(|(at, (name, _))| window(cells, at, name))
        .collect();
    tables.push(over_all(cells));
    Findings {
        title: "Machines that Lacuna was not built on".to_owned(),
        about: ABOUT.to_owned(),
        tables,
        notes: Vec::new(),
        runs: all(cells, replays),
    }
}

/// The columns of policies.
fn policies() -> impl Iterator<Item = Column> {
    let columns = COLUMNS.iter();
    columns.map(|column| Column::figures(column.name, column.title))
}

fn shares(cell: &Cells) -> impl Iterator<Item = Cell> {
    cell.shares.iter().map(|share| Cell::number(*share, 3))
}

fn window(cells: &[Cells], window: usize, name: &str) -> Table {
    let first = std::iter::once(Column::words("case", "machine, costs"));
    let mut table = Table::new(name, first.chain(policies()));
    let shown = cells.iter();
    for cell in shown.filter(|cell| cell.window == window && cell.cost >= SHOWN) {
        let label = Cell::words(format!("{}, x{}", cell.machine, cell.cost));
        table.push(std::iter::once(label).chain(shares(cell)));
    }
    table
}

/// All cells, each with the commands of its machine and cost.
fn all(cells: &[Cells], replays: &[Done]) -> Table {
    let first = ["machine", "cost", "window"].map(Column::in_json);
    let columns = first.into_iter().chain(policies());
    let mut table = Table::new("Cells", columns.chain([Column::in_json("commands")]));
    for cell in cells {
        let window = WINDOWS.get(cell.window).map(|(name, _)| *name);
        let of = format!("{}, x{}, ", cell.machine, cell.cost);
        let commands = replays
            .iter()
            .filter(|done| done.row.label.starts_with(&of));
        let commands: Vec<String> = commands.map(|done| done.row.command.join(" ")).collect();
        let first = [
            Cell::words(&cell.machine),
            Cell::new("", cell.cost),
            Cell::new("", window),
        ];
        let cells = first.into_iter().chain(shares(cell));
        table.push(cells.chain([Cell::new("", commands)]));
    }
    table
}

fn over_all(cells: &[Cells]) -> Table {
    let columns = [
        Column::words("figure", "figure"),
        Column::figures("found", "found"),
        Column::words("where", "where"),
    ];
    let mut table = Table::new("over all cells", columns);
    for figure in figures(cells) {
        table.push([
            Cell::words(figure.what),
            Cell::number(Some(figure.found), 4),
            Cell::new(figure.at.clone().unwrap_or_default(), figure.at),
        ]);
    }
    table
}
