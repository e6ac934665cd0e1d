//! What is shown of a placement, in names and sentences.

use lacuna_layers::{Bound, LayerProfile, LayerStage, Obstacle, Placement, UnitGain};

/// What is shown.
pub(super) struct Shown {
    pub(super) profile: LayerProfile,
    pub(super) placement: Placement,
    /// What stands in the way of a higher rate; nothing if it is met and was given.
    pub(super) why: Vec<Obstacle>,
    pub(super) is_met: bool,
    pub(super) worths: Vec<UnitGain>,
}

impl Shown {
    pub(super) fn kind(&self, place: usize) -> &str {
        self.profile
            .kinds()
            .get(place)
            .map_or("?", |kind| kind.name())
    }

    pub(super) fn layer(&self, place: usize) -> &str {
        self.profile
            .layers()
            .get(place)
            .map_or("?", |layer| layer.name())
    }

    pub(super) fn layers(&self, stage: &LayerStage) -> Vec<String> {
        let layers = stage.layers.clone();
        layers.map(|layer| self.layer(layer).to_owned()).collect()
    }

    /// The layers of a stage in a few words.
    pub(super) fn run(&self, stage: &LayerStage) -> String {
        let (first, last) = (stage.layers.start, stage.layers.end.saturating_sub(1));
        if first == last {
            self.layer(first).to_owned()
        } else {
            format!("{} to {}", self.layer(first), self.layer(last))
        }
    }

    /// What stands in the way of the rate, a sentence each.
    pub(super) fn reasons(&self) -> Vec<String> {
        let reason = |obstacle: &Obstacle| match obstacle {
            Obstacle::Limit {
                kind,
                with_one_more,
                without_limit,
            } => {
                let used = self.placement.used.get(*kind).copied().unwrap_or(0);
                format!(
                    "the limit of {}, {used} used: one more unit gives {with_one_more:.0}/s, no limit {without_limit:.0}/s",
                    self.kind(*kind)
                )
            }
            Obstacle::NoLimit {
                kind,
                units,
                rate,
                units_then,
            } => {
                let kind = self.kind(*kind);
                format!(
                    "{kind} has no limit, so {units} of it are used for the last shares of the rate: \
                     give --limit {kind}=N, or --rate {rate:.0}, which takes {units_then}"
                )
            }
            Obstacle::Serial { stage, part } => {
                let layers = self.placement.stages.get(*stage);
                format!(
                    "{} of {}: more units do not divide all of it",
                    bound(*part),
                    layers.map_or_else(String::new, |stage| self.run(stage))
                )
            }
        };
        self.why.iter().map(reason).collect()
    }

    /// The saving by one more unit of a kind.
    pub(super) fn saves(&self, kind: usize) -> Option<f64> {
        let worth = self.worths.iter().find(|worth| worth.kind == kind)?;
        Some(worth.saves)
    }

    pub(super) fn figures(&self) -> Vec<(&'static str, String)> {
        let placement = &self.placement;
        vec![
            ("rate", format!("{:.0} samples/s", placement.rate)),
            (
                "cost",
                format!(
                    "{:.4} for {:.3e} samples",
                    placement.cost,
                    self.profile.samples()
                ),
            ),
            (
                "spend",
                format!("{:.4} an hour", placement.spend_per_s * 3600.0),
            ),
            (
                "proven",
                format!("within {:.4} % of the least cost", placement.gap() * 100.0),
            ),
        ]
    }
}

pub(super) fn bound(bound: Bound) -> &'static str {
    match bound {
        Bound::Computation => "computation",
        Bound::Communication => "communication",
        Bound::Memory => "memory",
        Bound::OneUnit => "one unit is enough",
    }
}
