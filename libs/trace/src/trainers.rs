//! Lists of trainers: one JSON object a line.
//!
//! Fields: `name`, `submit` (Unix seconds), `min_nodes`, `max_nodes`, `rescale_up_s`,
//! `rescale_down_s`, `samples` (work), `nodes` and `samples_per_s` (the scaling curve as lists
//! of one length), and, if the objective is not throughput, `objective` over the same `nodes`.
//! `rescale_start_s` is optional: the cost of a start from no nodes. Objectives may use `owner`
//! (text), `priority` (whole number), `weight` and `deadline` (Unix seconds). `distance` is what
//! nodes on several leaves cost ([`Distance`]): `{"shares": [0.8]}` leaves 80 % of the rate at
//! tier 1. Further fields are ignored.
//!
//! `kinds` has a curve for each kind of node, as `{"gpu": {"nodes": [1, 2], "samples_per_s": [9,
//! 17]}}`, and `together` rates over counts of two kinds, as `[{"cpu": 4, "gpu": 1,
//! "samples_per_s": 12}]`. With `kinds` the curve is that of the fastest kind, and need not be
//! given. `layers` makes both from a profile of the network ([`Layers`]), whose path begins at the
//! folder of the list.
//!
//! `stages` has other curves over the same `nodes` from a number of samples on ([`Stage`]), as
//! `[{"from": 5000, "samples_per_s": [9, 17], "objective": [1, 1.9]}]`. A replay follows them.
//!
//! `goodput` over the same `nodes`, of a line or of a stage, is learning in samples/s of the user's
//! batch, where `samples_per_s` counts plain samples. The objective `goodput` maximises it.
//!
//! `batch` and `efficiency` over the same `nodes` say what steps teach ([`lacuna_model::Steps`]):
//! samples of a step, and what one of them is worth in samples of the user's batch. `waits` beside
//! them has the share of a step that each cause costs, as `{"link": [0, 0.2]}`. A stage may have
//! others. A replay shows them over time.

mod steps;

use std::collections::{BTreeMap, HashSet};
use std::io::BufRead;
use std::path::{Path, PathBuf};

use lacuna_model::{
    Distance, KindError, KindName, KindRates, Launch, MixedPoint, RescaleCost, ScalingCurve,
    SpecError, Stage, Staged, Stages, Timestamp, TrainerId, TrainerSpec, Work,
};
use lacuna_records::fields::LATEST_S;
use serde::Deserialize as _;
use serde_json::{Map, Value};

use crate::error::failed;
use crate::{FieldError, Layers, ReadError, open};

/// What a point in time may be.
const MOMENT: &str = "Unix seconds";

/// What an object in the field `distance` may be.
const DISTANCE: &str = "an object with shares, measured or fitted";

/// Streams the trainers of a list in the order of the file. The stream ends after an error.
pub struct TrainerReader<R> {
    path: PathBuf,
    stream: R,
    text: Vec<u8>,
    line: u64,
    names: HashSet<TrainerId>,
    /// Rates of profiles with their most nodes: trainers often share one.
    of_layers: Vec<(Layers, u32, KindRates)>,
    stages: Stages,
    ended: bool,
}

impl<R: BufRead> TrainerReader<R> {
    /// Reads from a stream; `path` is named in errors, and its folder has the profiles of layers.
    pub fn new(path: &Path, stream: R) -> Self {
        Self {
            path: path.to_owned(),
            stream,
            text: Vec::new(),
            line: 0,
            names: HashSet::new(),
            of_layers: Vec::new(),
            stages: Stages::new(),
            ended: false,
        }
    }

    fn advance(&mut self) -> Result<Option<TrainerSpec>, ReadError> {
        loop {
            self.text.clear();
            let read = self.stream.read_until(b'\n', &mut self.text);
            if read.map_err(|source| failed(&self.path, self.line, source))? == 0 {
                return Ok(None);
            }
            self.line += 1;
            if !self.text.trim_ascii().is_empty() {
                return self.trainer().map(Some);
            }
        }
    }

    fn trainer(&mut self) -> Result<TrainerSpec, ReadError> {
        let object = match serde_json::from_slice(&self.text) {
            Ok(Value::Object(object)) => Ok(object),
            Ok(other) => Err(FieldError::new(
                "column 1",
                "a JSON object",
                other.to_string(),
            )),
            Err(error) => {
                let place = format!("column {}", error.column());
                Err(FieldError::new(place, "valid JSON", error.to_string()))
            }
        };
        let wrong = |path: &PathBuf, line: u64, at| ReadError::Field {
            path: path.clone(),
            line,
            at,
        };
        let object = object.map_err(|at| wrong(&self.path, self.line, at))?;
        let layers = layers(&object).map_err(|at| wrong(&self.path, self.line, at))?;
        let of_layers = layers.map(|(layers, most)| self.rates(layers, most));
        let spec =
            spec(&object, of_layers.transpose()?).map_err(|at| wrong(&self.path, self.line, at))?;
        let spec = spec
            .and_then(|spec| spec.check().map(|()| spec))
            .map_err(|source| ReadError::Trainer {
                path: self.path.clone(),
                line: self.line,
                source,
            })?;
        let staged = staged(&object, &spec).map_err(|at| wrong(&self.path, self.line, at))?;
        if self.names.insert(spec.id.clone()) {
            if staged != Staged::default() {
                self.stages.insert(spec.id.clone(), staged);
            }
            return Ok(spec);
        }
        Err(ReadError::Field {
            path: self.path.clone(),
            line: self.line,
            at: FieldError::new(
                "field name",
                "a name that is not in use",
                format!("{}", spec.id),
            ),
        })
    }
}

impl<R: BufRead> TrainerReader<R> {
    /// The rates of layers on up to `most` nodes.
    fn rates(&mut self, layers: Layers, most: u32) -> Result<KindRates, ReadError> {
        let known = |(of, nodes, _): &&(Layers, u32, _)| *of == layers && *nodes == most;
        if let Some((_, _, rates)) = self.of_layers.iter().find(known) {
            return Ok(rates.clone());
        }
        let folder = self.path.parent().unwrap_or(Path::new(""));
        let rates = layers
            .rates(folder, most)
            .map_err(|source| ReadError::Layers {
                path: self.path.clone(),
                line: self.line,
                source: Box::new(source),
            })?;
        self.of_layers.push((layers, most, rates.clone()));
        Ok(rates)
    }
}

impl<R: BufRead> Iterator for TrainerReader<R> {
    type Item = Result<TrainerSpec, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let item = self.advance().transpose();
        self.ended = !matches!(item, Some(Ok(_)));
        item
    }
}

/// Reads a whole list of trainers, plain, gzip or zstd, with the simulated launcher for each.
///
/// # Errors
/// [`ReadError`] for the first damaged line, and for a list without trainers.
pub fn read_trainers(path: &Path) -> Result<Vec<TrainerSpec>, ReadError> {
    Ok(read_staged(path)?.0)
}

/// As [`read_trainers`], with the stages of trainers whose curves change, and what is known of
/// steps.
///
/// # Errors
/// As [`read_trainers`].
pub fn read_staged(path: &Path) -> Result<(Vec<TrainerSpec>, Stages), ReadError> {
    let mut reader = TrainerReader::new(path, open(path)?);
    let trainers: Vec<_> = reader.by_ref().collect::<Result<_, _>>()?;
    if trainers.is_empty() {
        return Err(ReadError::Empty {
            path: path.to_owned(),
            expected: "one trainer a line, as a JSON object",
        });
    }
    Ok((trainers, reader.stages))
}

/// What is known of a trainer's steps, and its stages.
fn staged(object: &Map<String, Value>, spec: &TrainerSpec) -> Result<Staged, FieldError> {
    Ok(Staged {
        steps: steps::steps(object, object, "")?,
        goodput: optional_curve(object, object, "goodput", "")?,
        later: stages(object, spec)?,
    })
}

/// A curve over the nodes of a line, in the line or in a stage of it, which `place` names in errors.
fn optional_curve(
    line: &Map<String, Value>,
    stage: &Map<String, Value>,
    field: &str,
    place: &str,
) -> Result<Option<ScalingCurve>, FieldError> {
    if stage.get(field).is_none_or(Value::is_null) {
        return Ok(None);
    }
    let nodes = list(line, "nodes", "a whole number, zero or more", count)?;
    let rates = list(stage, field, "a number", Value::as_f64)?;
    let wrong = |error: lacuna_model::CurveError| {
        let place = format!("field {place}{field}");
        FieldError::new(place, "a scaling curve over nodes", error.to_string())
    };
    ScalingCurve::from_lists(&nodes, &rates)
        .map(Some)
        .map_err(wrong)
}

/// The stages of a trainer.
fn stages(object: &Map<String, Value>, spec: &TrainerSpec) -> Result<Vec<Stage>, FieldError> {
    let given = optional(object, "stages", "a list of objects", |value| {
        let all = value.as_array()?.iter().map(|one| one.as_object().cloned());
        all.collect::<Option<Vec<_>>>()
    })?;
    let given = given.unwrap_or_default();
    if !given.is_empty() && !spec.kinds.is_any() {
        let expected = "one curve over nodes: stages and rates by kind exclude each other";
        return Err(FieldError::new("field stages", expected, "rates by kind"));
    }
    let mut stages: Vec<Stage> = Vec::new();
    for (at, stage) in given.iter().enumerate() {
        let wrong = |expected: &str, found: String| {
            FieldError::new(format!("field stages[{at}]"), expected, found)
        };
        let place = format!("stages[{at}].");
        let throughput = || {
            let nodes = list(object, "nodes", "a whole number, zero or more", count)?;
            let rates = list(stage, "samples_per_s", "a number", Value::as_f64)?;
            let curve = ScalingCurve::from_lists(&nodes, &rates);
            curve.map_err(|error| wrong("a scaling curve over nodes", error.to_string()))
        };
        let from = number(stage, "from")?;
        let before = stages.last().map_or(0.0, |last| last.from);
        if !from.is_finite() || from <= before {
            return Err(wrong(
                "more samples than the stage before",
                from.to_string(),
            ));
        }
        stages.push(Stage {
            from,
            throughput: throughput()?,
            objective: optional_curve(object, stage, "objective", &place)?,
            goodput: optional_curve(object, stage, "goodput", &place)?,
            steps: steps::steps(object, stage, &place)?,
        });
    }
    Ok(stages)
}

/// The outer error is about the form of a field, the inner error about its meaning.
fn spec(
    object: &Map<String, Value>,
    of_layers: Option<KindRates>,
) -> Result<Result<TrainerSpec, SpecError>, FieldError> {
    let name = get(object, "name")?;
    let id = name
        .as_str()
        .and_then(|name| TrainerId::new(name).ok())
        .ok_or_else(|| unexpected("name", "a text of 1 to 64 of A-Z a-z 0-9 _ - .", name))?;
    let kinds = match of_layers.map_or_else(|| kinds(object), |rates| Ok(Ok(rates)))? {
        Ok(kinds) => kinds,
        Err(source) => return Ok(Err(SpecError::Kinds { id, source })),
    };
    let fastest = kinds.fastest().filter(|_| !object.contains_key("nodes"));
    let (nodes, rates) = match fastest {
        Some(curve) => curve.points().iter().map(|p| (p.nodes, p.rate)).unzip(),
        None => curve_lists(object)?,
    };
    let objective = match object.get("objective") {
        None | Some(Value::Null) => None,
        Some(_) => Some(list(object, "objective", "a number", Value::as_f64)?),
    };
    let submit = get(object, "submit")?;
    let submit = moment(submit).ok_or_else(|| unexpected("submit", MOMENT, submit))?;
    let curve = |rates: &[f64]| {
        ScalingCurve::from_lists(&nodes, rates).map_err(|source| SpecError::Curve {
            id: id.clone(),
            source,
        })
    };
    let (throughput, objective) = match (curve(&rates), objective.map(|o| curve(&o)).transpose()) {
        (Ok(throughput), Ok(objective)) => (throughput, objective),
        (Err(error), _) | (_, Err(error)) => return Ok(Err(error)),
    };
    Ok(Ok(TrainerSpec {
        id,
        owner: optional(object, "owner", "a text", |value| {
            value.as_str().map(str::to_owned)
        })?,
        weight: optional(object, "weight", "a number", Value::as_f64)?,
        deadline: optional(object, "deadline", MOMENT, moment)?,
        priority: optional(object, "priority", "a whole number", priority)?.unwrap_or(0),
        submit,
        min_nodes: whole(object, "min_nodes")?,
        max_nodes: whole(object, "max_nodes")?,
        objective: objective.filter(|objective| *objective != throughput),
        distance: optional(object, "distance", DISTANCE, |value| {
            Distance::deserialize(value).ok()
        })?
        .unwrap_or_default(),
        kinds,
        throughput,
        rescale: RescaleCost {
            up_s: number(object, "rescale_up_s")?,
            down_s: number(object, "rescale_down_s")?,
            start_s: optional(object, "rescale_start_s", "a number", Value::as_f64)?,
        },
        work: Work::Samples(number(object, "samples")?),
        launch: Launch::Simulated,
    }))
}

/// The two lists of a curve: node counts and samples/s.
fn curve_lists(object: &Map<String, Value>) -> Result<(Vec<u32>, Vec<f64>), FieldError> {
    let nodes = list(object, "nodes", "a whole number, zero or more", count)?;
    let rates = list(object, "samples_per_s", "a number", Value::as_f64)?;
    Ok((nodes, rates))
}

/// The layers of a trainer, with its most nodes.
fn layers(object: &Map<String, Value>) -> Result<Option<(Layers, u32)>, FieldError> {
    let given = object.get("layers").filter(|value| !value.is_null());
    let Some(value) = given else {
        return Ok(None);
    };
    let layers = Layers::deserialize(value)
        .map_err(|error| FieldError::new("field layers", error.to_string(), value.to_string()))?;
    let both = ["kinds", "together", "nodes", "samples_per_s"];
    if let Some(field) = both.into_iter().find(|field| object.contains_key(*field)) {
        let place = format!("field {field}");
        let expected = "nothing beside layers, which give the rates";
        return Err(FieldError::new(place, expected, "a value"));
    }
    Ok(Some((layers, whole(object, "max_nodes")?.max(1))))
}

/// The rates by kind of node. The inner error is about their meaning.
fn kinds(object: &Map<String, Value>) -> Result<Result<KindRates, KindError>, FieldError> {
    let named = |name: &str| {
        KindName::new(name).map_err(|e| FieldError::new("field kinds", e.expected, name))
    };
    let mut alone = BTreeMap::new();
    let given = optional(
        object,
        "kinds",
        "an object with a curve for each kind",
        |v| v.as_object().cloned(),
    )?;
    for (name, value) in given.unwrap_or_default() {
        let kind = named(&name)?;
        let curve = value.as_object().ok_or_else(|| {
            unexpected(
                "kinds",
                "a curve as {\"nodes\": [..], \"samples_per_s\": [..]}",
                &value,
            )
        })?;
        let (nodes, rates) = curve_lists(curve)?;
        match ScalingCurve::from_lists(&nodes, &rates) {
            Ok(curve) => alone.insert(kind, curve),
            Err(source) => return Ok(Err(KindError::Curve { kind, source })),
        };
    }
    let mut together = Vec::new();
    let given = optional(object, "together", "a list of points", |v| {
        v.as_array().cloned()
    })?;
    for value in given.unwrap_or_default() {
        let expected = "an object with counts of two kinds and samples_per_s";
        let point = value.as_object();
        let point = point.ok_or_else(|| unexpected("together", expected, &value))?;
        let mut counts = BTreeMap::new();
        for name in point.keys().filter(|name| *name != "samples_per_s") {
            counts.insert(named(name)?, whole(point, name)?);
        }
        let rate = number(point, "samples_per_s")?;
        together.push(MixedPoint { counts, rate });
    }
    Ok(KindRates::new(alone, together))
}

fn moment(value: &Value) -> Option<Timestamp> {
    let latest = LATEST_S as f64;
    let seconds = value.as_f64().filter(|seconds| seconds.abs() <= latest)?;
    Some(Timestamp::from_unix_ms((seconds * 1000.0).round() as i64))
}

fn priority(value: &Value) -> Option<i32> {
    value.as_i64().and_then(|value| i32::try_from(value).ok())
}

/// A field that may be absent or null.
fn optional<T>(
    object: &Map<String, Value>,
    field: &str,
    expected: &str,
    take: impl Fn(&Value) -> Option<T>,
) -> Result<Option<T>, FieldError> {
    match object.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => take(value)
            .map(Some)
            .ok_or_else(|| unexpected(field, expected, value)),
    }
}

fn unexpected(field: &str, expected: &str, found: &Value) -> FieldError {
    FieldError::new(format!("field {field}"), expected, found.to_string())
}

fn get<'a>(object: &'a Map<String, Value>, field: &str) -> Result<&'a Value, FieldError> {
    object
        .get(field)
        .ok_or_else(|| FieldError::new(format!("field {field}"), "a value", "nothing"))
}

fn number(object: &Map<String, Value>, field: &str) -> Result<f64, FieldError> {
    let value = get(object, field)?;
    value
        .as_f64()
        .ok_or_else(|| unexpected(field, "a number", value))
}

fn count(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|count| u32::try_from(count).ok())
}

fn whole(object: &Map<String, Value>, field: &str) -> Result<u32, FieldError> {
    let value = get(object, field)?;
    count(value).ok_or_else(|| unexpected(field, "a whole number, zero or more", value))
}

fn list<T>(
    object: &Map<String, Value>,
    field: &str,
    expected: &str,
    take: impl Fn(&Value) -> Option<T>,
) -> Result<Vec<T>, FieldError> {
    let value = get(object, field)?;
    let items = value
        .as_array()
        .ok_or_else(|| unexpected(field, "a list", value))?;
    let one = |(at, item): (usize, &Value)| {
        take(item).ok_or_else(|| unexpected(&format!("{field}[{at}]"), expected, item))
    };
    items.iter().enumerate().map(one).collect()
}
