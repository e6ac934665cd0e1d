//! What a study found: tables below a title, in Markdown or as JSON.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use lacuna_cli::error::{Result, file_error};
use lacuna_cli::output::{print, print_json};

use crate::table::Table;

/// The findings of a study.
#[derive(Debug, Clone, PartialEq)]
pub struct Findings {
    /// The title.
    pub title: String,
    /// What the figures are.
    pub about: String,
    /// The tables, each below its title; one without rows is left out.
    pub tables: Vec<Table>,
    /// Remarks below the tables.
    pub notes: Vec<String>,
    /// What was run, with its commands: only JSON has it.
    pub runs: Table,
}

impl Findings {
    /// The findings as one document.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut text = format!("# {}\n", self.title);
        if !self.about.is_empty() {
            let _ = write!(text, "\n{}\n", wrapped(&self.about));
        }
        let filled = || self.tables.iter().filter(|table| !table.is_empty());
        let several = filled().count() > 1;
        for table in filled() {
            // A single table is what the title says.
            if several {
                let _ = write!(text, "\n## {}\n", table.title);
            }
            let _ = write!(text, "\n{}", table.markdown());
        }
        if !self.notes.is_empty() {
            text.push('\n');
        }
        for note in &self.notes {
            let _ = writeln!(text, "- {note}");
        }
        text
    }

    fn json(&self) -> Value {
        let tables = self.tables.iter().filter(|table| !table.is_empty());
        let tables = tables.map(|table| json!({ "title": table.title, "rows": table.json() }));
        json!({
            "title": self.title,
            "tables": tables.collect::<Vec<_>>(),
            "notes": self.notes,
            "runs": self.runs.json(),
        })
    }

    /// Prints the findings, or writes the document to a file.
    ///
    /// # Errors
    /// The file or standard output cannot be written.
    pub fn print(&self, json: bool, out: Option<&Path>) -> Result<()> {
        if let Some(path) = out {
            std::fs::write(path, self.markdown())
                .map_err(|e| file_error("write the table to", path, &e))?;
        }
        match (json, out) {
            (true, _) => print_json(&self.json()),
            (false, Some(_)) => Ok(()),
            (false, None) => print(&self.markdown()),
        }
    }
}

/// A text in lines of a hundred characters.
fn wrapped(text: &str) -> String {
    let (mut lines, mut length) = (String::new(), 0);
    for word in text.split_whitespace() {
        let width = word.chars().count();
        if length > 0 && length + 1 + width > 100 {
            lines.push('\n');
            length = 0;
        } else if length > 0 {
            lines.push(' ');
            length += 1;
        }
        lines.push_str(word);
        length += width;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Cell, Column};

    #[test]
    fn tables_without_rows_and_the_title_of_a_single_one_are_left_out() {
        let table = |title: &str, words: &[&str]| {
            let mut table = Table::new(title, [Column::words("case", "case")]);
            words
                .iter()
                .for_each(|word| table.push([Cell::words(*word)]));
            table
        };
        let mut findings = Findings {
            title: "T".to_owned(),
            about: "a ".repeat(60),
            tables: vec![table("One", &["x"]), table("None", &[])],
            notes: vec!["noted".to_owned()],
            runs: table("Runs", &["y"]),
        };
        let text = findings.markdown();
        assert!(text.starts_with("# T\n\na a"), "{text}");
        assert!(
            text.ends_with("a\n\n| case |\n|------|\n| x    |\n\n- noted\n"),
            "{text}"
        );
        assert!(text.lines().all(|line| line.len() <= 100), "{text}");
        assert_eq!(findings.json()["runs"][0]["case"], "y");
        findings.tables.push(table("Two", &["z"]));
        assert!(findings.markdown().contains("\n## Two\n\n| case |"));
    }
}
