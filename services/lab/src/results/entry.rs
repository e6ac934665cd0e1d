//! The tables of a page of results.

use std::path::{Path, PathBuf};

/// The placeholder of the folder of recorded data in a command, as a shell would expand it.
const DATA: &str = "$LACUNA_DATA/";

/// A published table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The heading of its section.
    pub name: &'static str,
    /// Its content, in a line.
    pub title: &'static str,
    /// Its commands: arguments of the program. Their output is the table.
    pub commands: &'static [&'static str],
    /// The policy.
    pub policy: &'static str,
    /// The objective.
    pub objective: &'static str,
    /// The seeds.
    pub seed: &'static str,
}

/// The tables of a page, and the program that makes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listing {
    /// The program.
    pub program: &'static str,
    /// The file of the page, from the folder of the sources.
    pub file: &'static str,
    /// The tables, in their order.
    pub entries: &'static [Entry],
}

impl Listing {
    /// The names of all tables.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        self.entries.iter().map(|entry| entry.name).collect()
    }

    /// The commands of a table as they are typed.
    #[must_use]
    pub fn typed(&self, entry: &Entry) -> Vec<String> {
        let typed = entry.commands.iter();
        typed
            .map(|command| format!("{} {command}", self.program))
            .collect()
    }
}

impl Entry {
    /// A recorded file that the table reads and that is missing in this folder.
    pub(super) fn lacks(&self, data: &Path) -> Option<PathBuf> {
        let words = self.commands.iter().flat_map(|command| command.split(' '));
        let mut files = words.filter_map(|word| word.strip_prefix(DATA));
        files.find_map(|file| Some(data.join(file)).filter(|path| !path.is_file()))
    }

    /// The arguments of a command, with recorded data in this folder.
    pub(super) fn arguments(command: &str, data: &Path) -> Vec<String> {
        let word = |word: &str| match word.strip_prefix(DATA) {
            Some(file) => data.join(file).display().to_string(),
            None => word.to_owned(),
        };
        command.split(' ').map(word).collect()
    }
}
