//! Tables in the style of squeue: plain columns under a heading in capitals.

use comfy_table::{CellAlignment, ContentArrangement, Row, Table};

/// The alignment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Left, for words.
    Left,
    /// Right, for numbers.
    Right,
}

/// A table of columns, each with heading and alignment, and rows of cells.
#[must_use]
pub fn render(columns: &[(&str, Side)], rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table
        .load_style(comfy_table::presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(Row::from(columns.iter().map(|c| c.0).collect::<Vec<_>>()));
    for row in rows {
        table.add_row(Row::from(row.clone()));
    }
    for (column, &(_, side)) in table.column_iter_mut().zip(columns) {
        column.set_padding((0, 2)).set_cell_alignment(match side {
            Side::Left => CellAlignment::Left,
            Side::Right => CellAlignment::Right,
        });
    }
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Lines of `name  value`, the names padded to one width.
#[must_use]
pub fn key_values(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|r| r.0.chars().count()).max().unwrap_or(0);
    rows.iter()
        .map(|(name, value)| format!("{name:<width$}  {value}\n"))
        .collect()
}

/// Rows for programs: cells separated by `|`, headings first, as with sacct's --parsable2.
#[must_use]
pub(crate) fn parsable(columns: &[(&str, Side)], rows: &[Vec<String>]) -> String {
    let heading = columns.iter().map(|c| c.0).collect::<Vec<_>>().join("|");
    let mut text = heading + "\n";
    for row in rows {
        let cells: Vec<String> = row
            .iter()
            .map(|c| c.replace('|', "/").replace('\n', " "))
            .collect();
        text.push_str(&cells.join("|"));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_without_trailing_blanks() {
        let text = render(
            &[("NAME", Side::Left), ("N", Side::Right)],
            &[
                vec!["a".into(), "10".into()],
                vec!["longer".into(), "7".into()],
            ],
        );
        assert_eq!(text, "NAME     N\na       10\nlonger   7\n");
        assert_eq!(
            parsable(
                &[("A", Side::Left), ("B", Side::Left)],
                &[vec!["x|y".into(), "z".into()]]
            ),
            "A|B\nx/y|z\n"
        );
        assert_eq!(
            key_values(&[("a", "1".into()), ("bcd", "2".into())]),
            "a    1\nbcd  2\n"
        );
    }
}
