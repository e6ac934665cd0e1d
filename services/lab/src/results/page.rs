//! The page of results: a head, and a section for each table.

use super::entry::{Entry, Listing};

/// The fields of a section before its table.
pub const FIELDS: [&str; 8] = [
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
pub struct Section {
    /// The table's name.
    pub name: String,
    text: String,
}

impl Section {
    /// The section of a table that has just been made.
    #[must_use]
    pub(super) fn new(listing: &Listing, table: &Entry, origin: &Origin, made: &str) -> Self {
        let commands = format!("`{}`", listing.typed(table).join("`, `"));
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
    pub fn field(&self, name: &str) -> Option<&str> {
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
pub struct Page {
    head: String,
    /// Its sections, in their order.
    pub sections: Vec<Section>,
}

impl Page {
    /// Parses a page; sections have headings of level two.
    #[must_use]
    pub fn parse(text: &str) -> Self {
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
    pub fn text(&self) -> String {
        let mut text = format!("{}\n", self.head);
        for section in &self.sections {
            text.push_str(&format!("\n## {}\n\n{}\n", section.name, section.text));
        }
        text
    }

    /// The section of a table.
    #[must_use]
    pub fn section(&self, name: &str) -> Option<&Section> {
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

    /// What is wrong with the page of a listing: sections in another order, a field that is missing, or
    /// the command of another table.
    #[must_use]
    pub fn faults(&self, listing: &Listing) -> Vec<String> {
        let names: Vec<&str> = self.sections.iter().map(|s| s.name.as_str()).collect();
        let mut faults = Vec::new();
        if names != listing.names() {
            faults.push(format!("the sections are {}", names.join(", ")));
        }
        for (section, entry) in self.sections.iter().zip(listing.entries) {
            let lacks = FIELDS.iter().filter(|field| section.field(field).is_none());
            faults.extend(lacks.map(|field| format!("{} does not say: {field}", section.name)));
            let said = section.field("Command").unwrap_or_default();
            let first = said
                .trim_start_matches('`')
                .split('`')
                .next()
                .unwrap_or_default();
            // A section keeps the command that made it: its first word may be another today.
            let wanted = entry.commands.first().copied().unwrap_or_default();
            let wanted = wanted.split_once(' ').map_or(wanted, |(_, more)| more);
            if !first.ends_with(wanted) {
                faults.push(format!("{} was made by {first}", section.name));
            }
        }
        faults
    }

    /// The number of tables that a document takes from this page, and the errors among them. Such a
    /// table is below a comment, `<!-- RESULTS.md: NAME -->`.
    #[must_use]
    pub fn check(&self, document: &str) -> (usize, Vec<String>) {
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

    use super::super::own::OWN;
    use super::*;

    const RESULTS: &str = include_str!("../../../../RESULTS.md");
    const README: &str = include_str!("../../../../README.md");

    #[test]
    fn every_section_is_a_table_and_says_how_it_was_made() {
        let page = Page::parse(RESULTS);
        assert_eq!(page.faults(&OWN), [""; 0]);
        assert_eq!(page.text(), RESULTS, "a parsed page has the same text");
        assert!(
            RESULTS.len() < 40 * 1024,
            "the page is too long to be read: {}",
            RESULTS.len()
        );
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
        let forecast = |entry: &&Entry| entry.name == "forecast";
        let table = OWN.entries.iter().find(forecast).unwrap();
        let origin = Origin {
            machine: "2 cores".to_owned(),
            date: "2026-01-31".to_owned(),
            commit: "`abc`".to_owned(),
            took: "2h05m".to_owned(),
        };
        page.put(Section::new(
            &OWN,
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
        let names: BTreeSet<&str> = OWN.names().into_iter().collect();
        assert_eq!(names.len(), OWN.entries.len());
        let commands: Vec<&str> = OWN
            .entries
            .iter()
            .flat_map(|t| t.commands)
            .copied()
            .collect();
        let different: BTreeSet<&str> = commands.iter().copied().collect();
        assert_eq!(different.len(), commands.len());
        let arguments = Entry::arguments("a $LACUNA_DATA/b/c.gz -d", std::path::Path::new("/x"));
        assert_eq!(arguments, ["a", "/x/b/c.gz", "-d"]);
    }
}
