//! The page of a comparison.

use std::fmt::Write;

use super::charts::comparison as charts;
use super::comparison::{Agreement, ComparedFigure, Comparison, Group};
use super::shell::{self, Cell, Table};
use super::svg::{escape, value};

/// Draws a comparison as one self-contained HTML page.
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

/// The table of a group: our value, published value and difference of each figure.
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
