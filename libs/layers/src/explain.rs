//! What one more unit of each kind is worth.

use serde::Serialize;

use crate::error::Error;
use crate::model::Terms;
use crate::place::{Options, cheapest};
use crate::placement::Placement;
use crate::profile::LayerProfile;

/// The worth of one more unit of a kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct UnitGain {
    /// The kind, as a place in [`LayerProfile::kinds`].
    pub kind: usize,
    /// What the whole work would cost less; 0 for a kind without a limit. Costs are known within the
    /// tolerance, so smaller savings may be missed.
    pub saves: f64,
    /// The rate of the placement with one more unit, samples/s.
    pub rate: f64,
}

/// What one more unit of each kind would save of a placement that [`crate::place`] found.
///
/// # Errors
/// None is expected: a higher limit takes no placement away.
pub fn worth_of_one_more(
    profile: &LayerProfile,
    placement: &Placement,
    options: &Options,
) -> Result<Vec<UnitGain>, Error> {
    let mut worths = Vec::new();
    for (kind, of) in profile.kinds().iter().enumerate() {
        let none = UnitGain {
            kind,
            saves: 0.0,
            rate: placement.rate,
        };
        let Some(limit) = of.limit() else {
            worths.push(none);
            continue;
        };
        let more = limit.saturating_add(1);
        let raised = profile.clone().with_limit(of.name(), Some(more))?;
        let terms = Terms::new(&raised);
        let known = placement.plan(&terms);
        let found = cheapest(&raised, &terms, options, Some(known));
        worths.push(found.map_or(none, |found| UnitGain {
            kind,
            saves: (placement.cost - found.cost).max(0.0),
            rate: found.rate,
        }));
    }
    Ok(worths)
}
