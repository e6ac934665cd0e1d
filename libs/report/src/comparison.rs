//! Several replays beside each other and beside published figures, as plain data.

use serde::{Deserialize, Serialize};

/// Rows of replays in groups, each a sweep of one setting or a list of variants.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Comparison {
    /// Heading of the page.
    pub title: String,
    /// Line under the heading; the number of figures that agree, if empty.
    #[serde(default)]
    pub subtitle: String,
    /// Name of the reference beside our figures; the publication, if empty.
    #[serde(default)]
    pub beside: String,
    /// The groups, in the order of the page.
    pub groups: Vec<Group>,
    /// Remarks at the end of the page, one paragraph each.
    pub notes: Vec<String>,
}

/// A group of rows.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Group {
    /// Heading of the group.
    pub title: String,
    /// Name of the swept setting, with its unit.
    pub x_label: String,
    /// The rows. If all have an `x` and these differ, the chart has lines over `x`, else a line
    /// of dots for each row.
    pub rows: Vec<ComparedRow>,
}

/// The figures of one replay.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ComparedRow {
    /// Label of the replay.
    pub label: String,
    /// Its value of the swept setting.
    pub x: Option<f64>,
    /// Its figures. Figures of one name share a chart.
    pub figures: Vec<ComparedFigure>,
}

/// One figure of a replay.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ComparedFigure {
    /// Name of the figure, with its unit.
    pub name: String,
    /// Our value; NaN if the replay failed.
    pub ours: f64,
    /// Published value, if there is one.
    pub published: Option<f64>,
    /// Largest difference that counts as agreement, in the figure's unit.
    pub tolerance: Option<f64>,
}

/// Agreement of a figure with its published value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Agreement {
    /// Within the tolerance.
    Agrees,
    /// Beyond the tolerance, or NaN.
    Differs,
    /// Without a published value or a tolerance.
    Open,
}

impl ComparedFigure {
    /// Our value less the published one.
    #[must_use]
    pub fn difference(&self) -> Option<f64> {
        self.published.map(|published| self.ours - published)
    }

    /// Agreement with the published value.
    #[must_use]
    pub fn agreement(&self) -> Agreement {
        match (self.difference(), self.tolerance) {
            (Some(difference), Some(tolerance)) => {
                // NaN is in no tolerance.
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
    /// The figure of a name.
    pub(super) fn figure(&self, name: &str) -> Option<&ComparedFigure> {
        self.figures.iter().find(|figure| figure.name == name)
    }
}
