//! A placement as tables.

use lacuna_layers::LayerStage;

use super::shown::{Shown, bound};
use crate::table::{Side, key_values, render};

/// A row for each kind.
pub(super) fn kinds(shown: &Shown) -> Vec<Vec<String>> {
    let kinds = shown.profile.kinds().iter().enumerate();
    let row = |(place, kind): (usize, &lacuna_layers::Kind)| {
        let used = shown.placement.used.get(place).copied().unwrap_or(0);
        let limit = kind
            .limit()
            .map_or_else(|| "-".to_owned(), |limit| limit.to_string());
        let saves = match (kind.limit(), shown.saves(place)) {
            (Some(_), Some(saves)) => format!("{saves:.4}"),
            _ => "-".to_owned(),
        };
        vec![
            kind.name().to_owned(),
            used.to_string(),
            limit,
            format!("{:.4}", kind.price_per_s() * 3600.0),
            saves,
        ]
    };
    kinds.map(row).collect()
}

/// The columns of [`kinds`].
pub(super) const KINDS: [(&str, Side); 5] = [
    ("KIND", Side::Left),
    ("USED", Side::Right),
    ("LIMIT", Side::Right),
    ("PRICE/H", Side::Right),
    ("ONE MORE SAVES", Side::Right),
];

/// Figures, what is in the way, stages and kinds.
pub(super) fn text(shown: &Shown) -> String {
    let placement = &shown.placement;
    let mut text = String::new();
    if !shown.is_met {
        let asked = shown.profile.min_rate();
        text.push_str(&format!(
            "no placement has {asked:.0} samples/s; the nearest:\n"
        ));
    }
    text.push_str(&key_values(&shown.figures()));
    for reason in shown.reasons() {
        text.push_str(&format!("in the way  {reason}\n"));
    }
    let columns = [
        ("LAYERS", Side::Left),
        ("KIND", Side::Left),
        ("UNITS", Side::Right),
        ("COMPUTE us", Side::Right),
        ("SEND us", Side::Right),
        ("LIMITED BY", Side::Left),
    ];
    let slowest = placement.slowest();
    let row = |(place, stage): (usize, &LayerStage)| {
        let by = bound(stage.bound);
        let mark = if place == slowest {
            ", sets the rate"
        } else {
            ""
        };
        vec![
            shown.run(stage),
            shown.kind(stage.kind).to_owned(),
            stage.units.to_string(),
            format!("{:.3}", stage.compute_s * 1e6),
            format!("{:.3}", stage.communication_s * 1e6),
            format!("{by}{mark}"),
        ]
    };
    let rows: Vec<Vec<String>> = placement.stages.iter().enumerate().map(row).collect();
    text.push('\n');
    text.push_str(&render(&columns, &rows));
    text.push('\n');
    text.push_str(&render(&KINDS, &kinds(shown)));
    text
}
