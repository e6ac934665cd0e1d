//! Rates of a trainer: its curve, its objective, rates by kind of node, and what a replay follows.

use std::collections::BTreeMap;
use std::path::Path;

use lacuna_model::{
    KindName, KindRates, Loaders, Loading, MixedPoint, ScalingCurve, SpecError, Staged, TrainerSpec,
};
use lacuna_planner::objective::{Expression, Objective, ValueTable};

use crate::error::Fault;
use crate::layers::Layers;
use crate::read::Reader;
use crate::remedy::form;
use crate::stages::{curve, optional, staged};
use crate::written::{RawLoaders, Written};

/// The share by which the value of a size may be off, where a value for each size is too long.
const VALUE_ERROR: f64 = 1e-6;

/// The rates of a trainer.
pub(crate) struct Curves {
    pub(crate) throughput: ScalingCurve,
    pub(crate) objective: Option<ScalingCurve>,
    pub(crate) kinds: KindRates,
    pub(crate) staged: Option<Staged>,
}

/// What a trainer maximises without an expression.
#[derive(Clone, Copy, PartialEq)]
enum Aim {
    Speedup,
    Throughput,
}

impl Aim {
    fn of(self, curve: &ScalingCurve) -> Option<ScalingCurve> {
        (self == Self::Speedup).then(|| curve.speedup())
    }
}

impl Written {
    /// Whether its curve is measured while it trains: it says so, or a program has no curve.
    pub(crate) fn is_measured(&self) -> bool {
        let is_given = self.scaling.is_some() || self.kinds.is_some() || self.layers.is_some();
        let is_simulated = self.launcher.as_deref() == Some("simulated");
        self.profile.unwrap_or(!is_given && !is_simulated)
    }
}

impl Reader<'_> {
    pub(crate) fn curves(
        &mut self,
        written: &Written,
        max_nodes: u32,
        is_older: bool,
    ) -> Result<Curves, Fault> {
        let kinds = match &written.layers {
            Some(layers) => self.layers(written, layers, max_nodes)?,
            None => kinds(written)?,
        };
        let kinds = loaders(written.loaders.as_ref(), kinds)?;
        let stages = written.stages.as_deref().unwrap_or_default();
        if !stages.is_empty() && !kinds.is_any() {
            let remedy = "keep one of the two: stages have one curve over nodes";
            return Err(Fault::new("stages", "given beside rates by kind", remedy));
        }
        // An expression needs the whole trainer: see `expressed`.
        let aim = match (written.maximise.as_deref(), is_older) {
            (Some("speedup"), _) | (None, false) => Aim::Speedup,
            _ => Aim::Throughput,
        };
        let (throughput, objective) = throughput(written, &kinds, max_nodes, aim)?;
        Ok(Curves {
            throughput,
            objective,
            kinds,
            staged: staged(written.scaling.as_ref(), stages)?,
        })
    }

    /// The rates by kind of node that a profile of its layers gives.
    fn layers(
        &mut self,
        written: &Written,
        layers: &Layers,
        max_nodes: u32,
    ) -> Result<KindRates, Fault> {
        let beside = [
            ("scaling", written.scaling.is_some()),
            ("profile", written.profile.is_some()),
            ("kinds", written.kinds.is_some()),
            ("together", written.together.is_some()),
        ];
        if let Some((key, _)) = beside.into_iter().find(|(_, is_given)| *is_given) {
            let remedy = "keep one of the two: a profile of layers gives all rates by kind";
            return Err(Fault::new("layers", format!("given beside {key}"), remedy));
        }
        let most = max_nodes.max(1);
        let known = |(of, nodes, _): &&(Layers, u32, _)| of == layers && *nodes == most;
        if let Some((_, _, rates)) = self.of_layers.iter().find(known) {
            return Ok(rates.clone());
        }
        let folder = self.path.parent().unwrap_or(Path::new(""));
        let rates = layers.rates(folder, most);
        let rates = rates.map_err(|error| Fault::new("layers", error, "see deploy/layers.md"))?;
        self.of_layers.push((layers.clone(), most, rates.clone()));
        Ok(rates)
    }
}

/// The curve, and the objective if it is another one.
fn throughput(
    written: &Written,
    kinds: &KindRates,
    max_nodes: u32,
    aim: Aim,
) -> Result<(ScalingCurve, Option<ScalingCurve>), Fault> {
    let is_simulated = written.launcher.as_deref() == Some("simulated");
    if written.is_measured() {
        if written.scaling.is_some() {
            let problem = "given beside scaling";
            return Err(Fault::new("profile", problem, "keep one of the two"));
        }
        if is_simulated {
            let problem = "a simulated trainer follows its curve: there is nothing to measure";
            return Err(Fault::new("profile", problem, form("scaling")));
        }
        // Rates by kind hold until control has measured them.
        if let Some(fastest) = kinds.fastest() {
            return Ok((fastest.clone(), aim.of(fastest)));
        }
        // One sample/s for each node, until control has measured rates. As with a known curve,
        // speed-up is the default objective: samples of different programs cannot be compared.
        let curve = ScalingCurve::linear(1.0, max_nodes)
            .map_err(|error| Fault::new("max_nodes", error, "write 1 or more"))?;
        let is_throughput = written.maximise.as_deref() == Some("throughput");
        let objective = (!is_throughput).then(|| curve.speedup());
        return Ok((curve, objective));
    }
    let Some(scaling) = &written.scaling else {
        if let Some(fastest) = kinds.fastest() {
            return Ok((fastest.clone(), aim.of(fastest)));
        }
        let remedy = match written.profile {
            Some(_) if !is_simulated => {
                "remove profile = false, and it is measured while it trains".to_owned()
            }
            _ => form("scaling"),
        };
        return Err(Fault::new("scaling", "missing", remedy));
    };
    let nodes = &scaling.nodes;
    let throughput = curve(nodes, &scaling.samples_per_s, &scaling.key("samples_per_s"))?;
    let key = scaling.key("objective");
    let objective = match optional(nodes, scaling.objective.as_deref(), &key)? {
        Some(_) if written.maximise.is_some() => {
            let problem = format!("given beside {key}");
            return Err(Fault::new("maximise", problem, "keep one of the two"));
        }
        // One that equals throughput is none.
        Some(given) => Some(given).filter(|given| *given != throughput),
        None => aim.of(&throughput),
    };
    Ok((throughput, objective))
}

/// The rates by kind of node.
fn kinds(written: &Written) -> Result<KindRates, Fault> {
    let key = if written.kinds.is_some() {
        "kinds"
    } else {
        "together"
    };
    let remedy = "write kinds = { gpu = { nodes = [1], samples_per_s = [90.0] } }, and together = \
                  [{ cpu = 4, gpu = 1, samples_per_s = 120.0 }]";
    let refuse = |problem: String| Fault::new(key, problem, remedy);
    let named = |name: &str| KindName::new(name).map_err(|e| refuse(e.to_string()));
    let mut alone = BTreeMap::new();
    for (name, curve) in written.kinds.iter().flatten() {
        let rates = ScalingCurve::from_lists(&curve.nodes, &curve.samples_per_s)
            .map_err(|error| refuse(format!("the curve of {name}: {error}")))?;
        alone.insert(named(name)?, rates);
    }
    let mut points = Vec::new();
    for point in written.together.iter().flatten() {
        let mut counts = BTreeMap::new();
        let mut rate = None;
        for (name, value) in point {
            if name == "samples_per_s" {
                // A rate of 0 says that it does not run there.
                if *value != 0.0 && !(1e-9..=1e12).contains(value) {
                    return Err(refuse(format!(
                        "together: samples_per_s is {value}: expected 0, or a number from 1e-9 to 1e12"
                    )));
                }
                rate = Some(*value);
            } else if (0.0..=f64::from(TrainerSpec::MOST_NODES)).contains(value)
                && value.fract() == 0.0
            {
                counts.insert(named(name)?, *value as u32);
            } else {
                return Err(refuse(format!(
                    "together: {name} is {value}: no count of nodes"
                )));
            }
        }
        let rate = rate.ok_or_else(|| refuse("together: samples_per_s is missing".to_owned()))?;
        points.push(MixedPoint { counts, rate });
    }
    KindRates::new(alone, points).map_err(|error| refuse(error.to_string()))
}

/// Rates by kind with the nodes that prepare data.
fn loaders(given: Option<&RawLoaders>, rates: KindRates) -> Result<KindRates, Fault> {
    let Some(RawLoaders {
        kind,
        nodes,
        processes,
    }) = given
    else {
        return Ok(rates);
    };
    let remedy = format!("{}, beside kinds", form("loaders"));
    let refuse = |problem: String| Fault::new("loaders", problem, remedy.clone());
    let loaders = Loaders {
        kind: KindName::new(kind).map_err(|error| refuse(error.to_string()))?,
        nodes: *nodes,
        processes: *processes,
    };
    let rates = rates.with_loading(Loading::By(loaders));
    rates.map_err(|error| refuse(error.to_string()))
}

/// A trainer that maximises an expression: the value at each size becomes its curve.
pub(crate) fn expressed(mut spec: TrainerSpec, text: &str) -> Result<TrainerSpec, Fault> {
    let refuse = |problem: String| {
        let remedy = "write \"speedup\" (compares trainers fairly), \"throughput\", or an \
                      expression such as \"weight * speedup ^ 0.9\"";
        Fault::new("maximise", problem, remedy)
    };
    let expression = text
        .parse::<Expression>()
        .map_err(|e| refuse(e.to_string()))?;
    if expression.is_dynamic() {
        return Err(refuse(
            "names samples_left, which changes while it trains".to_owned(),
        ));
    }
    let worth = ValueTable::new(&spec, &Objective::Expression(expression))
        .map_err(|e| refuse(e.to_string()))?;
    let sizes = spec.min_nodes..=spec.max_nodes;
    let values = sizes.filter_map(|n| Some((n, *worth.initial().get(n as usize)?)));
    let curve = ScalingCurve::new(values).map_err(|e| refuse(e.to_string()))?;
    spec.objective = Some(curve.clone());
    if matches!(spec.check(), Err(SpecError::TooLong { .. })) {
        spec.objective = Some(curve.thinned(VALUE_ERROR));
    }
    let remedy = "lower max_nodes, or give the values at fewer sizes as scaling.objective";
    spec.check()
        .map_err(|error| Fault::new("maximise", error, remedy))?;
    Ok(spec)
}
