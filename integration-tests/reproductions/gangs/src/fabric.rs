//! The fabric: levels from inner to outer, with the time of a ring all-reduce on each, and shapes.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

use crate::error::Error;

/// Number of levels: GPUs of a slot, slots of a machine, machines of a rack, racks.
pub(crate) const LEVELS: usize = 4;

/// Names of the levels, in shapes and in the file of fabrics.
const NAMES: [&str; LEVELS] = ["FC", "SL", "P", "PP"];

/// Bytes per nanosecond of 1 GB/s, as ASTRA-sim reads it: 2^30 bytes a second.
const BYTES_PER_NS: f64 = 1_073_741_824.0 / 1e9;

/// Fixed time of a step and of a collective, ns.
const OVERHEAD_NS: u64 = 10;

/// How the units of a level are linked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Links {
    FullyConnected,
    Ring,
    Switch,
}

impl Links {
    /// Hops of one step of a ring.
    const fn hops(self) -> u64 {
        match self {
            Self::FullyConnected | Self::Ring => 1,
            Self::Switch => 2,
        }
    }

    /// Number of links that the authors' set-up gives a unit among `units`.
    const fn count(self, units: u32) -> u32 {
        match (self, units) {
            (Self::FullyConnected, 2) => 2,
            (Self::FullyConnected, _) => 1,
            (Self::Ring, 2) => 4,
            (Self::Ring, units) => units + units % 2,
            (Self::Switch, units) => units,
        }
    }
}

/// One level: speed of a link in GB/s (2^30 bytes), latency of a hop in ns.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
struct Level {
    kind: Links,
    gbs: f64,
    ns: u64,
}

/// What a unit's bandwidth grows with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum LinkFactor {
    /// With the number of units, as in the authors' set-up.
    Units,
    /// With nothing.
    None,
}

/// How gradients are reduced over several levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Collective {
    /// An all-reduce of the whole gradient on every level, as in the authors' set-up.
    Naive,
    /// Reduce-scatter inside, all-reduce of the part outside, all-gather inside.
    Hierarchical,
}

/// The levels of a cluster's network.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Fabric {
    link_factor: LinkFactor,
    #[serde(rename = "FC")]
    slot: Level,
    #[serde(rename = "SL")]
    machine: Level,
    #[serde(rename = "P")]
    rack: Level,
    #[serde(rename = "PP")]
    racks: Level,
}

impl Fabric {
    /// Reads one fabric of a file: a JSON object of fabrics by name, and texts.
    ///
    /// # Errors
    /// The file is malformed, has no such fabric, or a link is not faster than 0.
    pub fn read(file: &str, text: &str, name: &str) -> Result<Self, Error> {
        let json = |source| Error::Json {
            file: file.to_owned(),
            source,
        };
        let mut all: BTreeMap<String, serde_json::Value> =
            serde_json::from_str(text).map_err(json)?;
        all.retain(|_, value| value.is_object());
        let Some(found) = all.remove(name) else {
            return Err(Error::NoFabric {
                name: name.to_owned(),
                known: all.keys().cloned().collect::<Vec<_>>().join(", "),
            });
        };
        let fabric: Self = serde_json::from_value(found).map_err(json)?;
        for (level, name) in fabric.levels().iter().zip(NAMES) {
            if !(level.gbs > 0.0 && level.gbs.is_finite()) {
                return Err(Error::Value {
                    what: format!("{file}: the speed of level {name}"),
                    value: level.gbs,
                    expected: "GB/s above 0",
                });
            }
        }
        Ok(fabric)
    }

    const fn levels(&self) -> [Level; LEVELS] {
        [self.slot, self.machine, self.rack, self.racks]
    }

    /// Time of the all-reduce of `bytes` on each level that a shape uses, inner first, ns. `shares`
    /// are the shares of each level's bandwidth that the gang gets, in (0, 1].
    pub(crate) fn service_ns(
        &self,
        shape: Shape,
        collective: Collective,
        shares: [f64; LEVELS],
        bytes: u64,
    ) -> impl Iterator<Item = u64> {
        let grows = self.link_factor == LinkFactor::Units;
        let levels = self.levels().into_iter().zip(shape.units).zip(shares);
        let mut size = bytes;
        let used = levels.filter(|((_, units), _)| *units > 1);
        used.map(move |((level, units), share)| {
            let links = if grows { level.kind.count(units) } else { 1 };
            let bandwidth = level.gbs * f64::from(links) * BYTES_PER_NS * share;
            let part = size / u64::from(units);
            let latency = (level.kind.hops() * level.ns) as f64;
            let step = (latency + part as f64 / bandwidth).floor() as u64 + OVERHEAD_NS;
            if collective == Collective::Hierarchical {
                size = part;
            }
            2 * u64::from(units - 1) * step + OVERHEAD_NS
        })
    }
}

/// How units are counted in a placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ShapeRule {
    /// As the authors' simulator does: over the whole placement, cut short at the first remainder.
    Coded,
    /// The largest number of units within a unit of the next level.
    True,
}

/// How many units a placement uses on each level; 1 where the level carries nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Shape {
    /// Units by level, inner first.
    pub units: [u32; LEVELS],
}

impl Shape {
    /// The shape of one GPU, without communication.
    pub const SINGLE: Self = Self { units: [1; LEVELS] };

    /// The shape of `gpus` GPUs over `racks`, `machines` and `slots`, all counted over the whole
    /// placement, as the authors' simulator builds it.
    #[must_use]
    pub fn coded(gpus: u32, racks: u32, machines: u32, slots: u32) -> Self {
        let mut shape = Self::SINGLE;
        let [fc, sl, p, pp] = &mut shape.units;
        let mut left = gpus;
        if racks > 1 {
            if !left.is_multiple_of(racks) {
                *pp = left;
                return shape;
            }
            *pp = racks;
            left /= racks;
        }
        if machines > 1 {
            if !left.is_multiple_of(machines) || left == machines {
                *p = left;
                return shape;
            }
            *p = machines;
            left /= machines;
        }
        if slots > 1 {
            if !left.is_multiple_of(slots) || left == slots {
                *sl = left;
                return shape;
            }
            *sl = slots;
            left /= slots;
        }
        *fc = left;
        shape
    }

    /// The outermost level that carries traffic; none for one GPU.
    #[must_use]
    pub fn outermost(self) -> Option<usize> {
        self.units.iter().rposition(|&units| units > 1)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        for (name, &units) in NAMES.iter().zip(&self.units) {
            if units > 1 {
                write!(f, "{between}{name}{units}")?;
                between = ".";
            }
        }
        if between.is_empty() {
            f.write_str("FC1")?;
        }
        Ok(())
    }
}

impl FromStr for Shape {
    type Err = Error;

    /// Reads `FC4.SL2.P2`: levels from inner to outer, each at most once.
    fn from_str(text: &str) -> Result<Self, Error> {
        let refuse = || Error::Shape {
            text: text.to_owned(),
        };
        let mut shape = Self::SINGLE;
        let mut from = 0;
        for part in text.split('.') {
            let digits = part.find(|c: char| c.is_ascii_digit()).ok_or_else(refuse)?;
            let (name, units) = part.split_at(digits);
            let at = NAMES.iter().position(|known| *known == name);
            let at = at.filter(|&at| at >= from).ok_or_else(refuse)?;
            let units: u32 = units.parse().map_err(|_| refuse())?;
            let place = shape.units.get_mut(at).filter(|_| units > 0);
            *place.ok_or_else(refuse)? = units;
            from = at + 1;
        }
        Ok(shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_built_as_the_authors_do() {
        for (gpus, racks, machines, slots, expected) in [
            (4, 1, 1, 1, "FC4"),
            (8, 1, 1, 2, "FC4.SL2"),
            (2, 1, 1, 2, "SL2"),
            (16, 1, 2, 4, "FC2.SL4.P2"),
            (32, 1, 4, 8, "SL8.P4"),
            (8, 1, 8, 8, "P8"),
            (8, 1, 3, 4, "P8"),
            (16, 2, 2, 4, "SL4.P2.PP2"),
            (9, 2, 2, 3, "PP9"),
            (1, 1, 1, 1, "FC1"),
        ] {
            let shape = Shape::coded(gpus, racks, machines, slots);
            assert_eq!(shape.to_string(), expected);
            assert_eq!(expected.parse::<Shape>().unwrap(), shape);
        }
        for bad in ["", "FC", "4", "SL2.FC4", "FC2.FC2", "XX3", "FC0"] {
            assert!(bad.parse::<Shape>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_fabric_without_speed_is_refused_with_its_level() {
        let level = "{\"kind\": \"ring\", \"gbs\": 1, \"ns\": 0}";
        let text = format!(
            "{{\"note\": \"-\", \"a\": {{\"link_factor\": \"none\", \"FC\": {level}, \"SL\": {level}, \
             \"P\": {level}, \"PP\": {{\"kind\": \"switch\", \"gbs\": 0, \"ns\": 1}}}}}}"
        );
        let error = Fabric::read("f.json", &text, "a").unwrap_err().to_string();
        assert!(error.contains("level PP is 0"), "{error}");
        let error = Fabric::read("f.json", &text, "b").unwrap_err().to_string();
        assert!(error.contains("the file has a"), "{error}");
    }
}
