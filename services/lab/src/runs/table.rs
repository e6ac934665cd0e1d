//! What was run, as a table that only JSON has.

use super::row::Done;
use crate::table::{Cell, Column, Table};

/// The rows with their commands.
#[must_use]
pub fn commands(rows: &[Done]) -> Table {
    let mut table = Table::new("Runs", ["run", "command"].map(Column::in_json));
    for done in rows {
        let label = Cell::words(&done.row.label);
        table.push([label, Cell::words(done.row.command.join(" "))]);
    }
    table
}
