//! A placement as a page.

use lacuna_layers::LayerStage;
use lacuna_report::{Layers, LayersStage};

use super::shown::Shown;
use super::text::{KINDS, kinds};

/// What the page draws.
pub(super) fn page(shown: &Shown) -> Layers {
    let placement = &shown.placement;
    let stage = |stage: &LayerStage| LayersStage {
        kind: shown.kind(stage.kind).to_owned(),
        units: stage.units,
        layers: shown.layers(stage),
        compute_s: stage.compute_s,
        communication_s: stage.communication_s,
    };
    let head = KINDS.iter().map(|(name, _)| name.to_lowercase());
    let figures = shown.figures().into_iter();
    Layers {
        title: format!("{} on kinds of node", shown.profile.name()),
        subtitle: if shown.is_met {
            "the cheapest placement of its layers".to_owned()
        } else {
            let asked = shown.profile.min_rate();
            format!("no placement has {asked:.0} samples/s; the nearest")
        },
        figures: figures
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
        notes: shown.reasons(),
        stages: placement.stages.iter().map(stage).collect(),
        kinds: (head.collect(), kinds(shown)),
    }
}
