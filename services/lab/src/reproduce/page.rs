//! The rows as plots beside the published figures.

use lacuna_report::{ComparedFigure, ComparedRow, Comparison, Group, render_comparison};

use super::published::{GROUPS, POOL};
use super::row::Done;
use super::table::verdict;

/// The self-contained page.
#[must_use]
pub(super) fn page(rows: &[Done], seeds: &str) -> String {
    render_comparison(&comparison(rows, seeds))
}

fn comparison(rows: &[Done], seeds: &str) -> Comparison {
    let group = |group: &super::published::Group| {
        let within: Vec<&Done> = rows
            .iter()
            .filter(|done| done.row.group == group.name)
            .collect();
        let row = |done: &&Done| match within.as_slice() {
            _ if group.name == POOL => ratio(done),
            all => row(done, all),
        };
        Group {
            title: group.title.to_owned(),
            x_label: group.x_label.to_owned(),
            rows: within.iter().map(row).collect(),
        }
    };
    Comparison {
        title: "BFTrainer reproduced".to_owned(),
        groups: GROUPS
            .iter()
            .map(group)
            .filter(|group| !group.rows.is_empty())
            .collect(),
        notes: notes(rows, seeds),
        ..Comparison::default()
    }
}

/// The figures that were published for any row of the group, and the efficiency; plots of other
/// figures would hide them.
fn row(done: &Done, group: &[&Done]) -> ComparedRow {
    let published = |name: &str| {
        let figures = group.iter().flat_map(|done| &done.row.figures);
        figures
            .clone()
            .any(|f| f.name == name && f.published.is_some())
    };
    let figures = done.row.figures.iter();
    ComparedRow {
        label: done.row.label.clone(),
        x: done.row.x,
        figures: figures
            .filter(|figure| figure.name == "efficiency" || published(figure.name))
            .map(|figure| ComparedFigure {
                name: figure.name.to_owned(),
                ours: done.ours(figure).unwrap_or(f64::NAN),
                published: figure.published,
                tolerance: figure.room(),
            })
            .collect(),
    }
}

/// Figures of different units on one axis: as ratios to the published ones.
fn ratio(done: &Done) -> ComparedRow {
    let figures = done.row.figures.iter();
    let shares = figures.filter_map(|figure| {
        let (ours, published) = (done.ours(figure)?, figure.published?);
        Some((ours, published, figure.digits))
    });
    let shares: Vec<(f64, f64, usize)> = shares.collect();
    let values = shares
        .first()
        .map_or_else(String::new, |(ours, published, digits)| {
            format!(": {ours:.digits$} (published {published:.digits$})")
        });
    ComparedRow {
        label: format!("{}{values}", done.row.label),
        x: None,
        figures: shares
            .iter()
            .map(|(ours, published, _)| ComparedFigure {
                name: "ours over published".to_owned(),
                ours: ours / published,
                published: Some(1.0),
                tolerance: None,
            })
            .collect(),
    }
}

fn notes(rows: &[Done], seeds: &str) -> Vec<String> {
    let mut notes = vec![
        format!("{}. {seeds}", verdict(rows)),
        "Published figures: arXiv 2106.12091 and its public replayer. A row agrees when its hours are within \
         1 % and its efficiency within .01 of the published ones (a share of the zero-cost bound within .02); \
         the model leaves open which of several equal nodes is released, which moves the hours by up to .5 %."
            .to_owned(),
    ];
    for done in rows {
        if let Some(why) = done.failure() {
            notes.push(format!("{} failed: {why}.", done.row.label));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::published::rows;
    use super::super::row::Outcome;
    use super::*;

    #[test]
    fn every_row_is_on_the_page_and_failures_are_named() {
        let done: Vec<Done> = rows(Path::new("/data"))
            .into_iter()
            .map(|row| Done {
                row,
                outcome: Outcome::Failed("no <room>".to_owned()),
            })
            .collect();
        let comparison = comparison(&done, "Seed 3.");
        let shown: usize = comparison.groups.iter().map(|g| g.rows.len()).sum();
        assert_eq!(shown, done.len());
        let page = page(&done, "Seed 3.");
        assert!(page.starts_with("<!doctype html>"), "{page}");
        assert!(page.contains("no &lt;room&gt;") && !page.contains("no <room>"));
    }
}
