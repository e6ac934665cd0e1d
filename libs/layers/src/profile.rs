//! Checked profiles.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::Error;
use crate::raw::{RawKind, RawLayer, RawProfile};

/// Bytes that a unit keeps for each byte of weights: the weight, its gradient, two of the optimizer.
pub(crate) const KEPT_PER_WEIGHT: f64 = 4.0;

/// The most units of a kind, so that a highest rate exists without limits too.
pub(crate) const MOST_UNITS: u32 = 1_000_000;

/// A kind of node, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Kind {
    pub(crate) name: String,
    pub(crate) price_per_s: f64,
    pub(crate) memory_bytes: f64,
    pub(crate) link_bytes_per_s: f64,
    pub(crate) limit: Option<u32>,
}

impl Kind {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The price of a unit for a second.
    #[must_use]
    pub fn price_per_s(&self) -> f64 {
        self.price_per_s
    }

    /// The most units, if there is such a number.
    #[must_use]
    pub fn limit(&self) -> Option<u32> {
        self.limit
    }
}

/// A layer, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    pub(crate) name: String,
    /// By kind, seconds a sample; nothing where it cannot run.
    pub(crate) seconds: Vec<Option<f64>>,
    pub(crate) out_bytes: f64,
    pub(crate) weight_bytes: f64,
    pub(crate) table_bytes: f64,
    pub(crate) alpha: f64,
    pub(crate) beta: f64,
}

impl Layer {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Seconds a sample on one unit of each kind, in the order of the kinds.
    #[must_use]
    pub fn seconds(&self) -> &[Option<f64>] {
        &self.seconds
    }

    /// Bytes a sample that go to the next layer.
    #[must_use]
    pub fn out_bytes(&self) -> f64 {
        self.out_bytes
    }

    /// Bytes of weights.
    #[must_use]
    pub fn weight_bytes(&self) -> f64 {
        self.weight_bytes
    }

    /// Bytes of tables.
    #[must_use]
    pub fn table_bytes(&self) -> f64 {
        self.table_bytes
    }
}

/// Layers by kinds: at least one of each, all numbers in range, no gap, each layer fits somewhere.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerProfile {
    name: String,
    batch: f64,
    samples: f64,
    min_rate: f64,
    kinds: Vec<Kind>,
    layers: Vec<Layer>,
    /// Bytes/s, from a kind (outer) to another.
    bandwidth: Vec<Vec<f64>>,
}

impl LayerProfile {
    /// Reads a profile (JSON) of a file with this name.
    ///
    /// # Errors
    /// The text is no profile, or [`LayerProfile::new`] refuses it.
    pub fn read(file: &str, text: &str) -> Result<Self, Error> {
        let raw = serde_json::from_str(text).map_err(|source| Error::Json {
            file: file.to_owned(),
            source,
        })?;
        Self::new(raw)
    }

    /// Checks a profile.
    ///
    /// # Errors
    /// A list is empty, a name is twice or unknown, a number is out of range, a layer has no seconds
    /// on a kind or fits on none, or no layer takes time on all kinds.
    pub fn new(raw: RawProfile) -> Result<Self, Error> {
        positive("batch", raw.batch)?;
        positive("samples", raw.samples)?;
        positive("min_rate", raw.min_rate)?;
        unique("kind", raw.kinds.iter().map(|kind| &kind.name))?;
        unique("layer", raw.layers.iter().map(|layer| &layer.name))?;
        let bandwidth = bandwidth(&raw.kinds, &raw.bandwidth)?;
        let kinds: Vec<Kind> = raw.kinds.into_iter().map(kind).collect::<Result<_, _>>()?;
        let layers = raw.layers.into_iter().map(|raw| layer(raw, &kinds));
        let layers: Vec<Layer> = layers.collect::<Result<_, _>>()?;
        if kinds.is_empty() {
            return Err(Error::Empty { what: "kinds" });
        }
        if layers.is_empty() {
            return Err(Error::Empty { what: "layers" });
        }
        let takes_time = |layer: &Layer| layer.seconds.iter().all(|s| s.is_none_or(|s| s > 0.0));
        if !layers.iter().any(takes_time) {
            return Err(Error::Instant);
        }
        Ok(Self {
            name: raw.name,
            batch: raw.batch,
            samples: raw.samples,
            min_rate: raw.min_rate,
            kinds,
            layers,
            bandwidth,
        })
    }

    /// The name of the network.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Samples of a batch.
    #[must_use]
    pub fn batch(&self) -> f64 {
        self.batch
    }

    /// Samples of the whole work.
    #[must_use]
    pub fn samples(&self) -> f64 {
        self.samples
    }

    /// The rate that is wanted at least, samples/s.
    #[must_use]
    pub fn min_rate(&self) -> f64 {
        self.min_rate
    }

    /// The kinds, in the order in which placements count them.
    #[must_use]
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// The layers in their order.
    #[must_use]
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// Bytes/s from each kind (outer) to each kind.
    #[must_use]
    pub fn bandwidth(&self) -> &[Vec<f64>] {
        &self.bandwidth
    }

    /// The names of the kinds, for errors.
    pub(crate) fn known(&self) -> String {
        names(self.kinds.iter().map(|kind| &kind.name))
    }

    /// The same network at another rate, samples/s.
    ///
    /// # Errors
    /// The rate is not above 0.
    pub fn with_min_rate(mut self, rate: f64) -> Result<Self, Error> {
        positive("min_rate", rate)?;
        self.min_rate = rate;
        Ok(self)
    }

    /// The same network for another number of samples.
    ///
    /// # Errors
    /// The number is not above 0.
    pub fn with_samples(mut self, samples: f64) -> Result<Self, Error> {
        positive("samples", samples)?;
        self.samples = samples;
        Ok(self)
    }

    /// The same network with another limit of a kind.
    ///
    /// # Errors
    /// There is no such kind, or a layer fits nowhere any more.
    pub fn with_limit(mut self, kind: &str, limit: Option<u32>) -> Result<Self, Error> {
        let known = self.known();
        let found = self.kinds.iter_mut().find(|known| known.name == kind);
        let found = found.ok_or_else(|| Error::NoKind {
            what: "the limit".to_owned(),
            kind: kind.to_owned(),
            known,
        })?;
        found.limit = limit;
        for layer in &self.layers {
            fits_somewhere(layer, &self.kinds)?;
        }
        Ok(self)
    }
}

fn positive(what: &str, value: f64) -> Result<(), Error> {
    in_range(what, value, value > 0.0, "a number above 0")
}

fn in_range(what: &str, value: f64, good: bool, expected: &'static str) -> Result<(), Error> {
    if good && value.is_finite() {
        return Ok(());
    }
    Err(Error::Value {
        what: what.to_owned(),
        value,
        expected,
    })
}

fn from_zero(what: &str, value: f64) -> Result<(), Error> {
    in_range(what, value, value >= 0.0, "a number from 0 on")
}

fn share(what: &str, value: f64) -> Result<(), Error> {
    let good = (0.0..=1.0).contains(&value);
    in_range(what, value, good, "a share from 0 to 1")
}

fn names<'a>(all: impl Iterator<Item = &'a String>) -> String {
    all.cloned().collect::<Vec<_>>().join(", ")
}

fn unique<'a>(what: &'static str, all: impl Iterator<Item = &'a String>) -> Result<(), Error> {
    let mut known = BTreeSet::new();
    for name in all {
        if !known.insert(name) {
            let name = name.clone();
            return Err(Error::Twice { what, name });
        }
    }
    Ok(())
}

fn kind(raw: RawKind) -> Result<Kind, Error> {
    let path = |field: &str| format!("kinds.{}.{field}", raw.name);
    from_zero(&path("price_per_hour"), raw.price_per_hour)?;
    positive(&path("memory_bytes"), raw.memory_bytes)?;
    positive(&path("link_bytes_per_s"), raw.link_bytes_per_s)?;
    if let Some(limit) = raw.limit {
        let good = limit <= MOST_UNITS;
        let expected = "at most a million units, or no limit";
        in_range(&path("limit"), f64::from(limit), good, expected)?;
    }
    Ok(Kind {
        name: raw.name,
        price_per_s: raw.price_per_hour / 3600.0,
        memory_bytes: raw.memory_bytes,
        link_bytes_per_s: raw.link_bytes_per_s,
        limit: raw.limit,
    })
}

fn layer(raw: RawLayer, kinds: &[Kind]) -> Result<Layer, Error> {
    let path = |field: &str| format!("layers.{}.{field}", raw.name);
    from_zero(&path("out_bytes"), raw.out_bytes)?;
    from_zero(&path("weight_bytes"), raw.weight_bytes)?;
    from_zero(&path("table_bytes"), raw.table_bytes)?;
    share(&path("parallel_compute"), raw.parallel_compute)?;
    share(&path("parallel_communication"), raw.parallel_communication)?;
    let known = |kind: &String| kinds.iter().any(|known| known.name == *kind);
    if let Some(kind) = raw.seconds.keys().find(|kind| !known(kind)) {
        return Err(Error::NoKind {
            what: path("seconds"),
            kind: kind.clone(),
            known: names(kinds.iter().map(|kind| &kind.name)),
        });
    }
    let of = |kind: &Kind| {
        let seconds = raw.seconds.get(&kind.name).ok_or_else(|| Error::Gap {
            layer: raw.name.clone(),
            kind: kind.name.clone(),
        })?;
        if let Some(seconds) = seconds {
            from_zero(&path(&format!("seconds.{}", kind.name)), *seconds)?;
        }
        Ok(*seconds)
    };
    let layer = Layer {
        seconds: kinds.iter().map(of).collect::<Result<_, Error>>()?,
        out_bytes: raw.out_bytes,
        weight_bytes: raw.weight_bytes,
        table_bytes: raw.table_bytes,
        alpha: raw.parallel_compute,
        beta: raw.parallel_communication,
        name: raw.name,
    };
    fits_somewhere(&layer, kinds)?;
    Ok(layer)
}

/// A layer must fit on some kind by itself, with as many units as the limit allows.
fn fits_somewhere(layer: &Layer, kinds: &[Kind]) -> Result<(), Error> {
    let mut why = Vec::new();
    for (kind, seconds) in kinds.iter().zip(&layer.seconds) {
        let kept = KEPT_PER_WEIGHT * layer.weight_bytes;
        let free = kind.memory_bytes - kept;
        let name = &kind.name;
        if seconds.is_none() {
            why.push(format!("{name} cannot run it (null)"));
        } else if kind.limit == Some(0) {
            why.push(format!("{name} has a limit of 0"));
        } else if free < 0.0 || (free == 0.0 && layer.table_bytes > 0.0) {
            let has = kind.memory_bytes;
            why.push(format!(
                "{name} has {has} bytes, its weights with gradient and optimizer take {kept}"
            ));
        } else if let Some(limit) = kind.limit
            && layer.table_bytes > free * f64::from(limit)
        {
            let table = layer.table_bytes;
            why.push(format!(
                "{limit} units of {name} hold {:.4e} bytes of a table of {table:.4e}",
                free * f64::from(limit)
            ));
        } else {
            return Ok(());
        }
    }
    Err(Error::FitsNowhere {
        layer: layer.name.clone(),
        why: why.join("; "),
    })
}

/// The receiver's link, unless the profile has a figure for the two kinds.
fn bandwidth(
    kinds: &[RawKind],
    given: &BTreeMap<String, BTreeMap<String, f64>>,
) -> Result<Vec<Vec<f64>>, Error> {
    let known = |what: String, name: &String| {
        if kinds.iter().any(|kind| kind.name == *name) {
            return Ok(());
        }
        Err(Error::NoKind {
            what,
            kind: name.clone(),
            known: names(kinds.iter().map(|kind| &kind.name)),
        })
    };
    for (from, row) in given {
        known("bandwidth".to_owned(), from)?;
        for (to, &value) in row {
            known(format!("bandwidth.{from}"), to)?;
            positive(&format!("bandwidth.{from}.{to}"), value)?;
        }
    }
    let row = |from: &RawKind| {
        let of = |to: &RawKind| {
            let given = given.get(&from.name).and_then(|row| row.get(&to.name));
            given.copied().unwrap_or(to.link_bytes_per_s)
        };
        kinds.iter().map(of).collect()
    };
    Ok(kinds.iter().map(row).collect())
}
