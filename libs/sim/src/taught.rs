//! The predictor that starts with a learnt model.

use lacuna_forecast::{Hazard, HazardSettings, Learnt, Unfit, WithPlannedStarts};

use crate::PoolTrace;

/// The predictor that starts with a model, for the machine and the start of a trace.
///
/// # Errors
/// [`Unfit`] if the model is damaged, of another version or machine, or knows the future.
pub(crate) fn taught(
    model: &Learnt,
    settings: HazardSettings,
    trace: &dyn PoolTrace,
) -> Result<WithPlannedStarts, Unfit> {
    let names = (0..trace.known_nodes()).map(|node| trace.node_name(node));
    let names: Vec<_> = names.collect();
    model.check(names.iter().map(AsRef::as_ref), trace.start())?;
    let predictor = WithPlannedStarts::restore_with(model.model(), |inner| {
        Ok(Box::new(match inner {
            Some(inner) => Hazard::restore(settings, inner)?,
            None => Hazard::new(settings),
        }))
    })?;
    Ok(predictor)
}
