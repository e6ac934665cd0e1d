//! A table of results: as text, as Markdown and as JSON.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::{Map, Value, json};

use lacuna_cli::error::Result;
use lacuna_cli::output::{latency, print, print_json};
use lacuna_cli::table::{Side, render};

/// A column: its name in JSON, and its heading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    name: String,
    /// None: only JSON has the column.
    heading: Option<(String, Side)>,
}

impl Column {
    /// A column of words.
    #[must_use]
    pub fn words(name: &str, heading: &str) -> Self {
        Self::new(name, heading, Side::Left)
    }

    /// A column of figures.
    #[must_use]
    pub fn figures(name: &str, heading: &str) -> Self {
        Self::new(name, heading, Side::Right)
    }

    /// A column that only JSON has.
    #[must_use]
    pub fn in_json(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            heading: None,
        }
    }

    fn new(name: &str, heading: &str, side: Side) -> Self {
        Self {
            name: name.to_owned(),
            heading: Some((heading.to_owned(), side)),
        }
    }
}

/// A cell: its text, and its value in JSON.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    text: String,
    value: Value,
}

impl Cell {
    /// A text that stands for a value.
    #[must_use]
    pub fn new(text: impl Into<String>, value: impl Serialize) -> Self {
        Self {
            text: text.into(),
            value: json!(value),
        }
    }

    /// Words.
    #[must_use]
    pub fn words(text: impl Into<String>) -> Self {
        let text = text.into();
        Self::new(text.clone(), text)
    }

    /// A count.
    #[must_use]
    pub fn count(count: impl Into<u64>) -> Self {
        let count = count.into();
        Self::new(count.to_string(), count)
    }

    /// A number, with this number of digits after the point.
    #[must_use]
    pub fn number(number: Option<f64>, digits: usize) -> Self {
        let text = number.map(|number| format!("{number:.digits$}"));
        Self::new(text.unwrap_or_else(|| "-".to_owned()), number)
    }

    /// A share in per cent, with this number of digits after the point.
    #[must_use]
    pub fn percent(share: Option<f64>, digits: usize) -> Self {
        let text = share.map(|share| format!("{:.digits$} %", share * 100.0));
        Self::new(text.unwrap_or_else(|| "-".to_owned()), share)
    }

    /// Seconds, in a readable unit.
    #[must_use]
    pub fn seconds(seconds: Option<f64>) -> Self {
        Self::new(latency(seconds), seconds)
    }
}

/// A table.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Its title.
    pub title: String,
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table without rows.
    #[must_use]
    pub fn new(title: impl Into<String>, columns: impl IntoIterator<Item = Column>) -> Self {
        Self {
            title: title.into(),
            columns: columns.into_iter().collect(),
            rows: Vec::new(),
        }
    }

    /// Appends a row: a cell for each column.
    pub fn push(&mut self, row: impl IntoIterator<Item = Cell>) {
        self.rows.push(row.into_iter().collect());
    }

    /// Whether it has no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Heading and side of each column that is shown.
    fn shown(&self) -> Vec<(&str, Side)> {
        let headings = self.columns.iter().filter_map(|c| c.heading.as_ref());
        headings
            .map(|(heading, side)| (heading.as_str(), *side))
            .collect()
    }

    fn texts(&self) -> Vec<Vec<String>> {
        let row = |row: &Vec<Cell>| {
            let cells = self.columns.iter().zip(row);
            let shown = cells.filter(|(column, _)| column.heading.is_some());
            shown.map(|(_, cell)| cell.text.clone()).collect()
        };
        self.rows.iter().map(row).collect()
    }

    /// Its title, and below it columns in the style of squeue.
    #[must_use]
    pub fn text(&self) -> String {
        let columns = self.shown();
        let capitals: Vec<String> = columns
            .iter()
            .map(|(name, _)| name.to_uppercase())
            .collect();
        let sides = columns.iter().map(|(_, side)| *side);
        let columns: Vec<(&str, Side)> = capitals.iter().map(String::as_str).zip(sides).collect();
        format!("{}\n\n{}", self.title, render(&columns, &self.texts()))
    }

    /// Its lines in Markdown, without the title.
    #[must_use]
    pub fn markdown(&self) -> String {
        let columns = self.shown();
        let rows: Vec<Vec<String>> = self
            .texts()
            .into_iter()
            .map(|row| row.iter().map(|cell| cell.replace('|', "/")).collect())
            .collect();
        let width = |at: usize, heading: &str| {
            let cells = rows.iter().filter_map(|row| row.get(at));
            let widths = cells.map(|cell| cell.chars().count());
            widths
                .chain([heading.chars().count(), 3])
                .max()
                .unwrap_or(3)
        };
        let columns: Vec<(&str, Side, usize)> = (0..)
            .zip(&columns)
            .map(|(at, (heading, side))| (*heading, *side, width(at, heading)))
            .collect();
        let line = |cells: &[&str]| {
            let cells = cells
                .iter()
                .zip(&columns)
                .map(|(cell, (_, side, width))| match side {
                    Side::Left => format!("| {cell:<width$} "),
                    Side::Right => format!("| {cell:>width$} "),
                });
            cells.collect::<String>() + "|\n"
        };
        let headings: Vec<&str> = columns.iter().map(|(heading, ..)| *heading).collect();
        let mut text = line(&headings);
        for (_, side, width) in &columns {
            let end = if *side == Side::Left { '-' } else { ':' };
            let _ = write!(text, "|{}{end}", "-".repeat(width + 1));
        }
        text.push_str("|\n");
        for row in &rows {
            text.push_str(&line(&row.iter().map(String::as_str).collect::<Vec<_>>()));
        }
        text
    }

    /// A list with an object for each row.
    #[must_use]
    pub fn json(&self) -> Value {
        let row = |row: &Vec<Cell>| {
            let cells = self.columns.iter().zip(row);
            let fields = cells.map(|(column, cell)| (column.name.clone(), cell.value.clone()));
            Value::Object(fields.collect::<Map<_, _>>())
        };
        Value::Array(self.rows.iter().map(row).collect())
    }

    /// Prints it as text, or as JSON.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn print(&self, json: bool) -> Result<()> {
        if json {
            print_json(&self.json())
        } else {
            print(&self.text())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_table_is_text_markdown_and_json() {
        let columns = [
            Column::words("policy", "policy"),
            Column::figures("kept", "kept"),
            Column::in_json("command"),
            Column::figures("p50_s", "median"),
        ];
        let mut table = Table::new("Two", columns);
        assert!(table.is_empty());
        table.push([
            Cell::words("a|b"),
            Cell::number(Some(0.25), 3),
            Cell::words("replay"),
            Cell::seconds(None),
        ]);
        table.push([
            Cell::words("longer"),
            Cell::percent(Some(0.5), 1),
            Cell::words("replay"),
            Cell::seconds(Some(2.0)),
        ]);
        assert_eq!(
            table.text(),
            "Two\n\nPOLICY    KEPT  MEDIAN\na|b      0.250       -\nlonger  50.0 %  2.00 s\n"
        );
        assert_eq!(
            table.markdown(),
            "| policy |   kept | median |\n|--------|-------:|-------:|\n\
             | a/b    |  0.250 |      - |\n| longer | 50.0 % | 2.00 s |\n"
        );
        assert_eq!(
            table.json(),
            json!([
                { "policy": "a|b", "kept": 0.25, "command": "replay", "p50_s": null },
                { "policy": "longer", "kept": 0.5, "command": "replay", "p50_s": 2.0 },
            ])
        );
    }
}
