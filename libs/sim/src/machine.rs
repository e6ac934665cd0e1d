//! What a trace shows of the holes of its machine.

use lacuna_forecast::{HazardCore, HazardSettings, MachinePrior, Nodes, OrderBy, Prior};

use crate::{PoolTrace, SimError};

/// What a trace shows of the holes of its machine, for the prior of other machines.
///
/// # Errors
/// [`SimError`] if the trace cannot be read.
pub fn machine(trace: &dyn PoolTrace, name: &str) -> Result<Option<MachinePrior>, SimError> {
    let names: Vec<String> = (0..trace.known_nodes())
        .map(|node| trace.node_name(node).to_string())
        .collect();
    let nodes = Nodes::from_names(names.iter().map(String::as_str), &OrderBy::Learnt);
    let mut hazard = HazardCore::new(
        nodes,
        HazardSettings {
            // No model is needed, and no hole is forgotten.
            needed: u64::MAX,
            half_life: None,
            prior: Prior::scales(),
            ..HazardSettings::default()
        },
    );
    let mut steps = trace.steps()?;
    let start_s = trace.start().unix_seconds();
    let mut opened = Vec::new();
    while let Some(step) = steps.next()? {
        opened.clear();
        opened.extend(
            step.opened
                .iter()
                .map(|&(node, since_ms)| (node, since_ms as f64 / 1000.0)),
        );
        hazard.step(start_s + step.at_s, step.closed, &opened);
    }
    Ok(hazard.machine(name))
}
