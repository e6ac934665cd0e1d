//! Several replays beside each other and beside published figures, as plain data.

use serde::{Deserialize, Serialize};

/// Rows of replays in groups, each a sweep of one setting or a list of variants.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Comparison {
    /// Heading.
    pub title: String,
    /// What stands below it; how many figures agree, if empty.
    #[serde(default)]
    pub subtitle: String,
    /// What stands beside ours, in a few words; what was published, if empty.
    #[serde(default)]
    pub beside: String,
    /// The groups, in the order of the page.
    pub groups: Vec<Group>,
    /// Remarks at the end of the page, one paragraph each.
    pub notes: Vec<String>,
}

/// Rows that belong together.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Group {
    /// Heading.
    pub title: String,
    /// What is swept, with its unit.
    pub x_label: String,
    /// The rows. If all have an `x` and these differ, lines are drawn over it, else one line of
    /// dots for each row.
    pub rows: Vec<ComparedRow>,
}

/// One replay.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ComparedRow {
    /// What it is called.
    pub label: String,
    /// Its value of what is swept.
    pub x: Option<f64>,
    /// Its figures; those of one name are drawn together.
    pub figures: Vec<ComparedFigure>,
}

/// One figure of a replay.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ComparedFigure {
    /// What it is called, with its unit.
    pub name: String,
    /// What came out; not a number if the replay failed.
    pub ours: f64,
    /// What was published, if anything was.
    pub published: Option<f64>,
    /// Largest difference, in the figure's own unit, that counts as agreement.
    pub tolerance: Option<f64>,
}

/// Whether a figure is what was published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Agreement {
    /// Within the tolerance.
    Agrees,
    /// Beyond it, or not a number.
    Differs,
    /// Nothing was published, or no tolerance is known.
    Open,
}

impl ComparedFigure {
    /// Ours less what was published.
    #[must_use]
    pub fn difference(&self) -> Option<f64> {
        self.published.map(|published| self.ours - published)
    }

    /// Whether it is what was published.
    #[must_use]
    pub fn agreement(&self) -> Agreement {
        match (self.difference(), self.tolerance) {
            (Some(difference), Some(tolerance)) => {
                // Not a number is in no tolerance.
                if difference.abs() <= tolerance {
                    Agreement::Agrees
                } else {
                    Agreement::Differs
                }
            }
            _ => Agreement::Open,
        }
    }
}

impl Group {
    /// The names of all figures, in order of first use.
    pub(super) fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for figure in self.rows.iter().flat_map(|row| &row.figures) {
            if !names.contains(&figure.name.as_str()) {
                names.push(&figure.name);
            }
        }
        names
    }
}

impl ComparedRow {
    /// Its figure of a name.
    pub(super) fn figure(&self, name: &str) -> Option<&ComparedFigure> {
        self.figures.iter().find(|figure| figure.name == name)
    }
}
