//! The page of results: a head, and a section for each table.

use super::tables::Table;

/// The fields of a section before its table.
pub(super) const FIELDS: [&str; 8] = [
    "Command",
    "Policy",
    "Objective",
    "Seed",
    "Machine",
    "Date",
    "Commit",
    "Took",
];

/// The origin of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin {
    /// The class of the machine.
    pub(super) machine: String,
    /// The day, ISO-8601.
    pub(super) date: String,
    /// The commit.
    pub(super) commit: String,
    /// The duration.
    pub(super) took: String,
}

/// A table with its fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Section {
    /// The table's name.
    pub(super) name: String,
    text: String,
}

impl Section {
    /// The section of a table that has just been made.
    #[must_use]
    pub(super) fn new(table: &Table, origin: &Origin, made: &str) -> Self {
        let commands = format!("`{}`", table.typed().join("`, `"));
        let values = [
            commands.as_str(),
            table.policy,
            table.objective,
            table.seed,
            origin.machine.as_str(),
            origin.date.as_str(),
            origin.commit.as_str(),
            origin.took.as_str(),
        ];
        let mut text = format!("{}.\n\n", table.title);
        for (name, value) in FIELDS.iter().zip(values) {
            text.push_str(&format!("- {name}: {value}\n"));
        }
        text.push_str(&format!("\n{}", made.trim_end()));
        Self {
            name: table.name.to_owned(),
            text,
        }
    }

    /// The value of a field.
    #[must_use]
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.text.lines().filter_map(|line| {
            let (key, value) = line.strip_prefix("- ")?.split_once(": ")?;
            (key == name).then_some(value.trim())
        });
        values.next().filter(|value| !value.is_empty())
    }

    /// Whether the section contains these lines, one after the other.
    fn holds(&self, wanted: &[&str]) -> bool {
        let lines: Vec<&str> = self.text.lines().map(str::trim_end).collect();
        lines.windows(wanted.len()).any(|some| some == wanted)
    }
}

/// The page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Page {
    head: String,
    /// Its sections, in their order.
    pub(super) sections: Vec<Section>,
}

impl Page {
    /// Parses a page; sections have headings of level two.
    #[must_use]
    pub(super) fn parse(text: &str) -> Self {
        let mut parts = text.split("\n## ");
        let head = parts.next().unwrap_or_default().trim().to_owned();
        let section = |part: &str| {
            let (name, text) = part.split_once('\n').unwrap_or((part, ""));
            Section {
                name: name.trim().to_owned(),
                text: text.trim().to_owned(),
            }
        };
        Self {
            head,
            sections: parts.map(section).collect(),
        }
    }

    /// The text of the page.
    #[must_use]
    pub(super) fn text(&self) -> String {
        let mut text = format!("{}\n", self.head);
        for section in &self.sections {
            text.push_str(&format!("\n## {}\n\n{}\n", section.name, section.text));
        }
        text
    }

    /// The section of a table.
    #[must_use]
    pub(super) fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|section| section.name == name)
    }

    /// Replaces the section of the same name, or appends the section.
    pub(super) fn put(&mut self, section: Section) {
        let mut old = self.sections.iter_mut();
        match old.find(|old| old.name == section.name) {
            Some(old) => *old = section,
            None => self.sections.push(section),
        }
    }

    /// The number of tables that a document takes from this page, and the errors among them. Such a
    /// table is below a comment, `<!-- RESULTS.md: NAME -->`.
    #[must_use]
    pub(super) fn check(&self, document: &str) -> (usize, Vec<String>) {
        let mut wrong = Vec::new();
        let mut checked = 0;
        let mut lines = document.lines().peekable();
        while let Some(line) = lines.next() {
            let name = line.trim().strip_prefix("<!-- RESULTS.md: ");
            let Some(name) = name.and_then(|name| name.strip_suffix(" -->")) else {
                continue;
            };
            checked += 1;
            while lines.next_if(|line| line.trim().is_empty()).is_some() {}
            let mut table = Vec::new();
            while let Some(row) = lines.next_if(|line| line.starts_with('|')) {
                table.push(row.trim_end());
            }
            match self.section(name) {
                _ if table.is_empty() => wrong.push(format!("{name}: there is no table")),
                None => wrong.push(format!("{name}: there is no such section")),
                Some(section) if !section.holds(&table) => {
                    wrong.push(format!("{name}: the table is another"));
                }
                Some(_) => {}
            }
        }
        (checked, wrong)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::tables::TABLES;
    use super::*;

    const RESULTS: &str = include_str!("../../../../RESULTS.md");
    const README: &str = include_str!("../../../../README.md");

    #[test]
    fn every_section_is_a_table_and_says_how_it_was_made() {
        let page = Page::parse(RESULTS);
        let names: Vec<&str> = page.sections.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, Table::names(), "each once, in the order of --list");
        for section in &page.sections {
            for field in FIELDS {
                let said = section.field(field);
                assert!(said.is_some(), "{} does not say: {field}", section.name);
            }
            let table = TABLES.iter().find(|table| table.name == section.name);
            let program = format!("`lacuna-lab {}", table.unwrap().commands[0]);
            let command = section.field("Command").unwrap();
            assert!(command.starts_with(&program), "{}: {command}", section.name);
        }
        assert_eq!(page.text(), RESULTS, "a parsed page has the same text");
    }

    #[test]
    fn tables_of_the_readme_are_those_of_the_page() {
        let (checked, wrong) = Page::parse(RESULTS).check(README);
        assert_eq!(wrong, [""; 0]);
        assert!(checked >= 1, "no table is taken from it");
    }

    #[test]
    fn a_section_is_replaced_and_the_others_stay() {
        let mut page =
            Page::parse("# Head\n\n## forecast\n\nold\n\n## other\n\n| a |\n|---|\n| 1 |\n");
        let table = TABLES
            .iter()
            .find(|table| table.name == "forecast")
            .unwrap();
        let origin = Origin {
            machine: "2 cores".to_owned(),
            date: "2026-01-31".to_owned(),
            commit: "`abc`".to_owned(),
            took: "2h05m".to_owned(),
        };
        page.put(Section::new(
            table,
            &origin,
            "### T\n\n| b |\n|---|\n| 2 |\n\n",
        ));
        let text = page.text();
        assert!(
            text.starts_with("# Head\n\n## forecast\n\nWhat a forecast"),
            "{text}"
        );
        assert!(text.contains("\n- Date: 2026-01-31\n"), "{text}");
        assert!(
            text.ends_with("| 2 |\n\n## other\n\n| a |\n|---|\n| 1 |\n"),
            "{text}"
        );
        assert_eq!(Page::parse(&text), page);
        assert_eq!(
            page.section("forecast").unwrap().field("Took"),
            Some("2h05m")
        );
        assert_eq!(page.section("other").unwrap().field("Took"), None);

        let document = "x\n<!-- RESULTS.md: other -->\n\n| a |\n|---|\n| 1 |\ny\n";
        assert_eq!(page.check(document), (1, Vec::new()));
        for (changed, said) in [
            (document.replace("| 1 |", "| 2 |"), "the table is another"),
            (
                document.replace("other", "none"),
                "there is no such section",
            ),
            (document.replace("\n|", "\n"), "there is no table"),
        ] {
            let (checked, wrong) = page.check(&changed);
            assert_eq!((checked, wrong.len()), (1, 1), "{changed}");
            assert!(wrong[0].ends_with(said), "{wrong:?}");
        }
    }

    #[test]
    fn each_table_has_its_own_name_and_commands() {
        let names: BTreeSet<&str> = Table::names().into_iter().collect();
        assert_eq!(names.len(), TABLES.len());
        let commands: Vec<&str> = TABLES.iter().flat_map(|t| t.commands).copied().collect();
        let different: BTreeSet<&str> = commands.iter().copied().collect();
        assert_eq!(different.len(), commands.len());
        let arguments = Table::arguments("a $LACUNA_DATA/b/c.gz -d", std::path::Path::new("/x"));
        assert_eq!(arguments, ["a", "/x/b/c.gz", "-d"]);
    }
}
