//! A placement as JSON.

use serde_json::{Value, json};

use lacuna_layers::Obstacle;

use super::shown::Shown;

/// All of it; seconds a sample, samples/s, prices of an hour.
pub(super) fn value(shown: &Shown) -> Value {
    let placement = &shown.placement;
    let stages = placement.stages.iter().map(|stage| {
        json!({
            "layers": shown.layers(stage),
            "kind": shown.kind(stage.kind),
            "units": stage.units,
            "compute_s": stage.compute_s,
            "communication_s": stage.communication_s,
            "bound": stage.bound,
        })
    });
    let kinds = shown
        .profile
        .kinds()
        .iter()
        .enumerate()
        .map(|(place, kind)| {
            json!({
                "kind": kind.name(),
                "used": placement.used.get(place),
                "limit": kind.limit(),
                "price_per_hour": kind.price_per_s() * 3600.0,
                "one_more_saves": shown.saves(place),
            })
        });
    let why = shown.why.iter().map(|obstacle| match obstacle {
        Obstacle::Limit {
            kind,
            with_one_more,
            without_limit,
        } => json!({
            "limit_of": shown.kind(*kind),
            "rate_with_one_more": with_one_more,
            "rate_without_limit": without_limit,
        }),
        Obstacle::NoLimit {
            kind,
            units,
            rate,
            units_then,
        } => json!({
            "no_limit_of": shown.kind(*kind),
            "units": units,
            "rate_of_nine_tenths": rate,
            "units_then": units_then,
        }),
        Obstacle::Serial { stage, part } => json!({"stage": stage, "part": part}),
    });
    json!({
        "network": shown.profile.name(),
        "min_rate": shown.profile.min_rate(),
        "is_met": shown.is_met,
        "rate": placement.rate,
        "cost": placement.cost,
        "cost_at_least": placement.cost_at_least,
        "gap": placement.gap(),
        "spend_per_hour": placement.spend_per_s * 3600.0,
        "samples": shown.profile.samples(),
        "slowest": placement.slowest(),
        "stages": stages.collect::<Vec<_>>(),
        "kinds": kinds.collect::<Vec<_>>(),
        "in_the_way": why.collect::<Vec<_>>(),
    })
}
