//! Several replays beside each other and beside what was published.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::charts::compare as charts;
use super::shell::{self, Cell, Table};
use super::svg::{escape, value};

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

/// Draws a comparison as one HTML page that needs nothing else.
#[must_use]
pub fn render_comparison(comparison: &Comparison) -> String {
    let (mut agree, mut judged) = (0_u32, 0_u32);
    for figure in all(comparison) {
        match figure.agreement() {
            Agreement::Agrees => (agree, judged) = (agree + 1, judged + 1),
            Agreement::Differs => judged += 1,
            Agreement::Open => {}
        }
    }
    let subtitle = if !comparison.subtitle.is_empty() {
        comparison.subtitle.clone()
    } else if judged > 0 {
        format!("{agree} of {judged} figures agree with what was published, within its tolerance")
    } else {
        "nothing published to compare with".to_owned()
    };
    let beside = match comparison.beside.as_str() {
        "" => "published, with the tolerance as a whisker",
        beside => beside,
    };
    let beside = escape(beside);
    let legend = format!("<i class='dot'></i>ours <i class='published'></i>{beside}");
    let mut body = String::new();
    for group in &comparison.groups {
        one(&mut body, group, &legend);
    }
    for note in &comparison.notes {
        let _ = write!(body, "<p class='note'>{}</p>", escape(note));
    }
    shell::page(&comparison.title, &subtitle, &body)
}

fn all(comparison: &Comparison) -> impl Iterator<Item = &ComparedFigure> {
    let rows = comparison.groups.iter().flat_map(|group| &group.rows);
    rows.flat_map(|row| &row.figures)
}

fn one(out: &mut String, group: &Group, legend: &str) {
    let mut content = String::from("<div class='pair'>");
    for name in group.names() {
        let _ = write!(
            content,
            "<div><h3>{}</h3>{}</div>",
            escape(name),
            charts::figure(group, name)
        );
    }
    content.push_str("</div>");
    shell::section(out, &group.title, legend, &content, &table(group).html());
}

/// Ours, published and difference of each figure, a line for each row.
fn table(group: &Group) -> Table {
    let mut head = vec![if group.x_label.is_empty() {
        "row".to_owned()
    } else {
        group.x_label.clone()
    }];
    let names = group.names();
    for name in &names {
        head.push((*name).to_owned());
        head.push("published".to_owned());
        head.push("difference".to_owned());
    }
    let mut table = Table {
        head,
        rows: Vec::new(),
    };
    for row in &group.rows {
        let mut cells: Vec<Cell> = vec![row.label.clone().into()];
        for name in &names {
            match row.figure(name) {
                Some(figure) => cells.extend(figure_cells(figure)),
                None => cells.extend(["", "", ""].map(Cell::from)),
            }
        }
        table.rows.push(cells);
    }
    table
}

fn figure_cells(figure: &ComparedFigure) -> [Cell; 3] {
    let ours = if figure.ours.is_finite() {
        value(figure.ours)
    } else {
        "failed".to_owned()
    };
    let published = figure.published.map_or_else(String::new, value);
    let difference = figure
        .difference()
        .filter(|difference| difference.is_finite());
    let words = difference.map_or_else(String::new, |difference| {
        let relative = figure.published.filter(|p| p.abs() > 0.0);
        match relative {
            Some(p) => format!("{:+.1} %", 100.0 * difference / p.abs()),
            None => format!("{difference:+.3}"),
        }
    });
    let (mark, class) = match figure.agreement() {
        Agreement::Agrees => (" ✓", "good"),
        Agreement::Differs => (" ✗", "bad"),
        Agreement::Open => ("", ""),
    };
    [
        ours.into(),
        published.into(),
        Cell {
            text: format!("{words}{mark}"),
            class,
        },
    ]
}
