//! Submit files: trainers in TOML, as their owners write them.
//!
//! A file has one `[[trainer]]` table for each trainer; `deploy/examples/` has complete ones.
//! Unknown keys are errors. Relative paths begin at the folder of the file. Environment values may
//! not refer to the submitter's own environment: a trainer must not depend on the user who submits
//! it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use lacuna_model::{
    Directory, Distance, Elastic, KindName, KindRates, Launch, Loaders, Loading, MixedPoint,
    RescaleCost, ScalingCurve, Span, SpecError, Timestamp, TrainerId, TrainerSpec, Work,
};
use lacuna_planner::objective::{Expression, Objective, ValueTable};
use lacuna_trace::Layers;
use serde::Deserialize;
use toml::Spanned;

pub(crate) use fields::is_secret;
use fields::{Files, Word};

/// The share by which the value of a size may be off, where a value for each size is too long.
const VALUE_ERROR: f64 = 1e-6;

/// The reason why a submit file is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SubmitError {
    /// The file cannot be read.
    #[error("{file}: {source}")]
    Read {
        /// The file.
        file: String,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A field is wrong.
    #[error("{file}:{line}: {field}: {problem}: {remedy}")]
    Field {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The key, or the kind of syntax error.
        field: String,
        /// The fault.
        problem: String,
        /// The text to write instead.
        remedy: String,
    },
    /// The file has no trainer.
    #[error("{file}: no trainer: write a [[trainer]] table, as in deploy/examples/simulated.toml")]
    Empty {
        /// The file.
        file: String,
    },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    trainer: Vec<Spanned<Raw>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    name: Spanned<String>,
    owner: Option<Spanned<String>>,
    #[serde(default)]
    priority: i32,
    /// The weight of its work beside that of others.
    weight: Option<Spanned<f64>>,
    /// The time by which its work should be done (RFC 3339).
    deadline: Option<Spanned<String>>,
    /// The earliest time of its start (RFC 3339).
    not_before: Option<Spanned<String>>,
    launcher: Spanned<String>,
    program: Option<Spanned<String>>,
    #[serde(default)]
    arguments: Vec<Spanned<Word>>,
    #[serde(default)]
    environment: BTreeMap<String, Spanned<Word>>,
    /// A file of the nodes, or several, with further variables.
    environment_from: Option<Spanned<Files>>,
    /// The folder in which it runs; by default that of this file, where a node has it.
    directory: Option<Spanned<String>>,
    checkpoint_dir: Option<Spanned<String>>,
    /// Processes that train on each node, under torchrun and regroup.
    workers_per_node: Option<Spanned<u32>>,
    min_nodes: Spanned<u32>,
    max_nodes: Spanned<u32>,
    scaling: Option<Spanned<Scaling>>,
    /// A profile of its layers, which gives rates over counts of nodes of each kind:
    /// `{ profile = "ctr.json", nodes = { gpu = { v100 = 4 } } }`, or the path alone. A relative path
    /// begins at the folder of this file.
    layers: Option<Spanned<Layers>>,
    /// The curve on nodes of each kind: `{ gpu = { nodes = [1], samples_per_s = [90.0] } }`.
    kinds: Option<Spanned<BTreeMap<String, Curve>>>,
    /// Rates on nodes of two kinds: `[{ cpu = 4, gpu = 1, samples_per_s = 120.0 }]`.
    together: Option<Spanned<Vec<BTreeMap<String, f64>>>>,
    /// Idle nodes that prepare its data while it waits for them: `{ kind = "cpu", nodes = 4,
    /// processes = 8 }`.
    loaders: Option<Spanned<RawLoaders>>,
    /// What nodes on several leaves cost: `{ shares = [0.8] }` leaves 80 % of the rate.
    distance: Option<Spanned<Distance>>,
    profile: Option<Spanned<bool>>,
    /// The group of trainers that share measurements; by default those with the same command line.
    family: Option<Spanned<String>>,
    /// `speedup` (the default), `throughput` or an expression, where `scaling.objective` does not
    /// define the objective.
    maximise: Option<Spanned<String>>,
    rescale: Option<Spanned<Rescale>>,
    samples: Option<Spanned<f64>>,
    until: Option<Spanned<String>>,
}

impl Raw {
    /// Whether its curve is measured while it trains: it says so, or a program has no curve.
    fn is_measured(&self) -> bool {
        let is_given = self.scaling.is_some() || self.kinds.is_some() || self.layers.is_some();
        let has_none = !is_given && self.launcher.get_ref() != "simulated";
        self.profile
            .as_ref()
            .map_or(has_none, |said| *said.get_ref())
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scaling {
    nodes: Vec<u32>,
    samples_per_s: Vec<f64>,
    /// The objective at each node count, if it is not throughput.
    objective: Option<Vec<f64>>,
}

/// A curve on nodes of one kind.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Curve {
    nodes: Vec<u32>,
    samples_per_s: Vec<f64>,
}

/// Nodes that prepare data.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLoaders {
    /// Their kind.
    kind: String,
    /// Most of them.
    nodes: u32,
    /// Processes that read on each of them.
    processes: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rescale {
    up: Spanned<String>,
    down: Spanned<String>,
    /// The cost of a start from no nodes.
    start: Option<Spanned<String>>,
}

/// Where the values of a trainer stand that only the whole of it can refuse.
struct Places {
    start: usize,
    given: Vec<(&'static str, usize)>,
}

impl Places {
    fn of(raw: &Raw, start: usize) -> Self {
        fn at<T>(value: &Option<Spanned<T>>) -> Option<usize> {
            value.as_ref().map(|value| value.span().start)
        }
        let given = [
            ("min_nodes", Some(raw.min_nodes.span().start)),
            ("max_nodes", Some(raw.max_nodes.span().start)),
            ("rescale", at(&raw.rescale)),
            ("samples", at(&raw.samples)),
            ("weight", at(&raw.weight)),
            ("workers_per_node", at(&raw.workers_per_node)),
            ("distance", at(&raw.distance)),
            ("scaling", at(&raw.scaling)),
            ("kinds", at(&raw.kinds)),
        ];
        let given = given.into_iter().filter_map(|(key, at)| Some((key, at?)));
        Self {
            start,
            given: given.collect(),
        }
    }

    /// The key and the place of what is wrong; those of the trainer, if it is no single value.
    fn of_error(&self, error: &SpecError) -> (&'static str, usize) {
        let key = match error {
            SpecError::Bounds { max, .. } if *max == 0 || *max > TrainerSpec::MOST_NODES => {
                "max_nodes"
            }
            SpecError::Bounds { .. } => "min_nodes",
            SpecError::CurveTooShort { .. } => "max_nodes",
            SpecError::Number { what, .. } => match *what {
                "work.samples" => "samples",
                "throughput" | "objective" => "scaling",
                what => what.split('.').next().unwrap_or(what),
            },
            SpecError::Distance { .. } => "distance",
            SpecError::Kinds { .. } => "kinds",
            SpecError::TooLong { .. } | SpecError::Curve { .. } => "trainer",
        };
        let at = |key: &str| self.given.iter().copied().find(|(name, _)| *name == key);
        let is_rate = key == "scaling";
        at(key)
            .or_else(|| at("kinds").filter(|_| is_rate))
            .unwrap_or(("trainer", self.start))
    }
}

/// Reads a submit file. A trainer without `not_before` gets time zero as its time of submission;
/// control replaces it by the time of arrival.
///
/// # Errors
/// [`SubmitError`] names file, line and field, with a remedy.
pub(crate) fn read(path: &Path) -> Result<Vec<TrainerSpec>, SubmitError> {
    let file = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|source| SubmitError::Read {
        file: file.clone(),
        source,
    })?;
    parse(&file, &text)
}

fn parse(file: &str, text: &str) -> Result<Vec<TrainerSpec>, SubmitError> {
    let context = Context { file, text };
    let parsed: File = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let message = error.message().replace('\n', " ");
        let key = fields::key_of(text, at, &message);
        let remedy = fields::remedy(&message, key);
        let key = key.unwrap_or("syntax or keys");
        context.error(at, key, fields::shortened(message.clone()), &remedy)
    })?;
    if parsed.trainer.is_empty() {
        return Err(SubmitError::Empty {
            file: file.to_owned(),
        });
    }
    parsed
        .trainer
        .into_iter()
        .map(|raw| context.trainer(raw))
        .collect()
}

struct Context<'t> {
    file: &'t str,
    text: &'t str,
}

impl Context<'_> {
    fn error(&self, at: usize, field: &str, problem: impl ToString, remedy: &str) -> SubmitError {
        let before = self.text.get(..at).unwrap_or(self.text);
        SubmitError::Field {
            file: self.file.to_owned(),
            line: before.matches('\n').count() + 1,
            field: field.to_owned(),
            problem: fields::cut(problem.to_string()),
            remedy: remedy.to_owned(),
        }
    }

    fn trainer(&self, raw: Spanned<Raw>) -> Result<TrainerSpec, SubmitError> {
        let start = raw.span().start;
        let raw = raw.into_inner();
        let id = TrainerId::new(raw.name.get_ref()).map_err(|e| {
            let at = raw.name.span().start;
            self.error(at, "name", e, "use letters, digits, `_`, `-` and `.`")
        })?;
        let is_option = raw.name.get_ref().starts_with('-');
        if is_option || raw.name.get_ref().trim_matches('.').is_empty() {
            let problem = format!("trainer name {:?} is not usable", raw.name.get_ref());
            let remedy = "begin it with a letter: other commands take it for an option or a folder";
            return Err(self.error(raw.name.span().start, "name", problem, remedy));
        }
        let submit = match &raw.not_before {
            None => Timestamp::default(),
            Some(text) => self.moment("not_before", text)?,
        };
        let deadline = raw.deadline.as_ref();
        let deadline = deadline
            .map(|text| self.moment("deadline", text))
            .transpose()?;
        let max_nodes = *raw.max_nodes.get_ref();
        let kinds = self.loaders(&raw, self.kinds(&raw)?)?;
        let (throughput, objective) = self.scaling(&raw, &kinds, start)?;
        let maximise = raw.maximise.clone();
        let places = Places::of(&raw, start);
        for (field, text) in [("owner", &raw.owner), ("family", &raw.family)] {
            if let Some(text) = text {
                self.line(field, text.get_ref(), text.span().start)?;
            }
        }
        let spec = TrainerSpec {
            id,
            owner: raw.owner.clone().map(Spanned::into_inner),
            weight: raw.weight.as_ref().map(|weight| *weight.get_ref()),
            deadline,
            priority: raw.priority,
            submit,
            min_nodes: *raw.min_nodes.get_ref(),
            max_nodes,
            distance: raw
                .distance
                .clone()
                .map(Spanned::into_inner)
                .unwrap_or_default(),
            kinds,
            throughput,
            objective,
            rescale: self.rescale(&raw)?,
            work: self.work(&raw, start)?,
            launch: self.launch(raw, start)?,
        };
        spec.check().map_err(|e| {
            let (field, at) = places.of_error(&e);
            self.error(at, field, e, "correct the named numbers")
        })?;
        match maximise {
            Some(text) if !matches!(text.get_ref().as_str(), "speedup" | "throughput") => {
                self.expressed(spec, &text)
            }
            _ => Ok(spec),
        }
    }

    /// A trainer that maximises an expression: the value at each size becomes its curve.
    fn expressed(
        &self,
        mut spec: TrainerSpec,
        text: &Spanned<String>,
    ) -> Result<TrainerSpec, SubmitError> {
        let refuse = |problem: String| {
            let remedy = "write \"speedup\" (compares trainers fairly), \"throughput\", or an \
                          expression such as \"weight * speedup ^ 0.9\"";
            self.error(text.span().start, "maximise", problem, remedy)
        };
        let expression = text
            .get_ref()
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
            .map_err(|e| self.error(text.span().start, "maximise", e, remedy))?;
        Ok(spec)
    }

    /// A text of one line that says something.
    fn line(&self, field: &str, text: &str, at: usize) -> Result<(), SubmitError> {
        if text.trim().is_empty() {
            return Err(self.error(at, field, "is empty", "write a text, or leave the key out"));
        }
        self.without(field, text, at, char::is_control)
    }

    /// A text without some characters.
    fn without(
        &self,
        field: &str,
        text: &str,
        at: usize,
        is_wrong: fn(char) -> bool,
    ) -> Result<(), SubmitError> {
        let Some(wrong) = text.chars().find(|c| is_wrong(*c)) else {
            return Ok(());
        };
        let problem = format!("has the character {}", wrong.escape_default());
        Err(self.error(at, field, problem, "leave that character out"))
    }

    fn moment(&self, field: &str, text: &Spanned<String>) -> Result<Timestamp, SubmitError> {
        text.get_ref()
            .parse::<jiff::Timestamp>()
            .map(|t| Timestamp::from_unix_ms(t.as_millisecond()))
            .map_err(|e| {
                let remedy = "write it as \"2026-03-01T08:00:00Z\"";
                self.error(text.span().start, field, e, remedy)
            })
    }

    /// The rates by kind of node.
    fn kinds(&self, raw: &Raw) -> Result<KindRates, SubmitError> {
        if let Some(layers) = &raw.layers {
            return self.layers(raw, layers);
        }
        let spanned = raw.kinds.as_ref().map(Spanned::span);
        let spanned = spanned.or_else(|| raw.together.as_ref().map(Spanned::span));
        let at = spanned.map_or(0, |span| span.start);
        let remedy = "write kinds = { gpu = { nodes = [1], samples_per_s = [90.0] } }, and together = \
                      [{ cpu = 4, gpu = 1, samples_per_s = 120.0 }]";
        let refuse = |problem: String| self.error(at, "kinds", problem, remedy);
        let named = |name: &str| KindName::new(name).map_err(|e| refuse(e.to_string()));
        let mut alone = BTreeMap::new();
        for (name, curve) in raw.kinds.iter().flat_map(Spanned::get_ref) {
            let rates = ScalingCurve::from_lists(&curve.nodes, &curve.samples_per_s)
                .map_err(|e| refuse(format!("{name}: {e}")))?;
            alone.insert(named(name)?, rates);
        }
        let mut points = Vec::new();
        for point in raw.together.iter().flat_map(Spanned::get_ref) {
            let mut counts = BTreeMap::new();
            let mut rate = None;
            for (name, value) in point {
                if name == "samples_per_s" {
                    if !(1e-9..=1e12).contains(value) {
                        let problem = format!(
                            "together: samples_per_s is {value}: expected a \
                                               number from 1e-9 to 1e12"
                        );
                        return Err(refuse(problem));
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
            let rate =
                rate.ok_or_else(|| refuse("together: samples_per_s is missing".to_owned()))?;
            points.push(MixedPoint { counts, rate });
        }
        KindRates::new(alone, points).map_err(|e| refuse(e.to_string()))
    }

    /// Rates by kind with the nodes that prepare data.
    fn loaders(&self, raw: &Raw, rates: KindRates) -> Result<KindRates, SubmitError> {
        let Some(given) = &raw.loaders else {
            return Ok(rates);
        };
        let remedy = "write loaders = { kind = \"cpu\", nodes = 4, processes = 8 }, beside kinds";
        let refuse = |problem: String| self.error(given.span().start, "loaders", problem, remedy);
        let RawLoaders {
            kind,
            nodes,
            processes,
        } = given.get_ref();
        let kind = KindName::new(kind).map_err(|e| refuse(e.to_string()))?;
        let (nodes, processes) = (*nodes, *processes);
        let loaders = Loaders {
            kind,
            nodes,
            processes,
        };
        rates
            .with_loading(Loading::By(loaders))
            .map_err(|e| refuse(e.to_string()))
    }

    fn scaling(
        &self,
        raw: &Raw,
        kinds: &KindRates,
        start: usize,
    ) -> Result<(ScalingCurve, Option<ScalingCurve>), SubmitError> {
        if raw.is_measured() {
            let at = raw.profile.as_ref().map_or(start, |said| said.span().start);
            return self.unmeasured(raw, at);
        }
        if let (Some(fastest), None) = (kinds.fastest(), &raw.scaling) {
            let by_speedup = raw
                .maximise
                .as_ref()
                .is_none_or(|m| m.get_ref() == "speedup");
            return Ok((fastest.clone(), by_speedup.then(|| fastest.speedup())));
        }
        let Some(scaling) = &raw.scaling else {
            let remedy = if raw.profile.is_some() {
                "remove profile = false, and it is measured while it trains"
            } else {
                "write scaling = { nodes = [1, 4], samples_per_s = [100.0, 350.0] }"
            };
            return Err(self.error(start, "scaling", "missing", remedy));
        };
        let at = scaling.span().start;
        let scaling = scaling.get_ref();
        let curve = |rates: &[f64], field| {
            ScalingCurve::from_lists(&scaling.nodes, rates).map_err(|e| {
                let remedy = "give one positive rate for each node count, counts growing";
                self.error(at, field, e, remedy)
            })
        };
        let throughput = curve(&scaling.samples_per_s, "scaling.samples_per_s")?;
        let objective = scaling
            .objective
            .as_ref()
            .map(|rates| curve(rates, "scaling.objective"))
            .transpose()?;
        let objective = match (objective, &raw.maximise) {
            (given, None) => given.or_else(|| Some(throughput.speedup())),
            (None, Some(text)) => match text.get_ref().as_str() {
                "speedup" => Some(throughput.speedup()),
                "throughput" => None,
                // An expression needs the whole trainer: see `expressed`.
                _ => None,
            },
            (Some(_), Some(text)) => {
                return Err(self.error(
                    text.span().start,
                    "maximise",
                    "given beside scaling.objective",
                    "keep one of the two",
                ));
            }
        };
        Ok((throughput, objective))
    }

    /// The rates by kind of node that a profile of its layers gives.
    fn layers(&self, raw: &Raw, layers: &Spanned<Layers>) -> Result<KindRates, SubmitError> {
        let at = layers.span().start;
        let given = [
            ("scaling", raw.scaling.is_some()),
            ("profile", raw.profile.is_some()),
            ("kinds", raw.kinds.is_some()),
            ("together", raw.together.is_some()),
        ];
        if let Some((field, _)) = given.into_iter().find(|(_, given)| *given) {
            let problem = format!("given beside {field}");
            let remedy = "keep one of the two: a profile of layers gives all rates by kind";
            return Err(self.error(at, "layers", problem, remedy));
        }
        let folder = Path::new(self.file).parent().unwrap_or(Path::new(""));
        let rates = layers.get_ref().rates(folder, *raw.max_nodes.get_ref());
        rates.map_err(|error| self.error(at, "layers", error, "see deploy/layers.md"))
    }

    /// The curve of a trainer that is measured while it trains: one sample/s for each node, until
    /// control has measured rates.
    fn unmeasured(
        &self,
        raw: &Raw,
        at: usize,
    ) -> Result<(ScalingCurve, Option<ScalingCurve>), SubmitError> {
        if raw.scaling.is_some() || raw.kinds.is_some() {
            let remedy = "keep one of the two";
            return Err(self.error(at, "profile", "given beside scaling or kinds", remedy));
        }
        if raw.launcher.get_ref() == "simulated" {
            return Err(self.error(
                at,
                "profile",
                "a simulated trainer follows its curve: there is nothing to measure",
                "write scaling = { nodes = [1, 4], samples_per_s = [100.0, 350.0] }",
            ));
        }
        // As with a known curve, speed-up is the default objective: samples of different programs
        // cannot be compared.
        let by_throughput = raw
            .maximise
            .as_ref()
            .is_some_and(|m| m.get_ref() == "throughput");
        ScalingCurve::linear(1.0, *raw.max_nodes.get_ref())
            .map(|curve| {
                let objective = (!by_throughput).then(|| curve.speedup());
                (curve, objective)
            })
            .map_err(|e| {
                self.error(
                    raw.max_nodes.span().start,
                    "max_nodes",
                    e,
                    "write 1 or more",
                )
            })
    }

    fn rescale(&self, raw: &Raw) -> Result<RescaleCost, SubmitError> {
        let span = |text: &Spanned<String>, field| {
            text.get_ref()
                .parse::<Span>()
                .map(Span::as_secs_f64)
                .map_err(|e| self.error(text.span().start, field, e, "write it as \"18s\""))
        };
        // Defaults without measurements: for torchrun the assumption of the published data, for
        // regroup an upper bound of measured costs.
        let (up_s, down_s) = match raw.launcher.get_ref().as_str() {
            "regroup" => (0.5, 0.5),
            _ => (18.0, 12.0),
        };
        let Some(rescale) = raw.rescale.as_ref().map(Spanned::get_ref) else {
            return Ok(RescaleCost {
                up_s,
                down_s,
                start_s: None,
            });
        };
        let start = rescale.start.as_ref();
        Ok(RescaleCost {
            up_s: span(&rescale.up, "rescale.up")?,
            down_s: span(&rescale.down, "rescale.down")?,
            start_s: start.map(|s| span(s, "rescale.start")).transpose()?,
        })
    }

    fn work(&self, raw: &Raw, start: usize) -> Result<Work, SubmitError> {
        match (&raw.samples, &raw.until) {
            (Some(samples), None) if (0.0..1.0).contains(samples.get_ref()) => Err(self.error(
                samples.span().start,
                "samples",
                "less than one sample is no work",
                "write how many it trains on, or until = \"exit\" without samples",
            )),
            (Some(samples), None) => Ok(Work::Samples(*samples.get_ref())),
            (None, Some(until)) if until.get_ref() == "exit" => Ok(Work::UntilExit),
            (None, Some(until)) => Err(self.error(
                until.span().start,
                "until",
                format!("{:?} is not known", until.get_ref()),
                "write until = \"exit\"",
            )),
            (Some(_), Some(until)) => Err(self.error(
                until.span().start,
                "until",
                "given beside samples",
                "keep one of the two",
            )),
            (None, None) => Err(self.error(
                start,
                "samples",
                "missing",
                "write samples = 1e6, or until = \"exit\"",
            )),
        }
    }

    /// The reaction of the launcher's program to a change of its nodes.
    fn elastic(&self, raw: &Raw) -> Result<Elastic, SubmitError> {
        let workers = raw.workers_per_node.as_ref();
        let refuse = |problem, remedy| {
            let at = workers.map_or(0, |workers| workers.span().start);
            Err(self.error(at, "workers_per_node", problem, remedy))
        };
        let workers_per_node = workers.map_or(1, |workers| *workers.get_ref());
        match raw.launcher.get_ref().as_str() {
            "torchrun" | "regroup" if workers_per_node == 0 => {
                refuse("0", "write 1 or more: one for each GPU, or 1")
            }
            "torchrun" => Ok(Elastic::Torchrun { workers_per_node }),
            "regroup" => Ok(Elastic::Regroup { workers_per_node }),
            _ if workers.is_some() => refuse(
                "only torchrun and regroup start several workers on a node",
                "remove it, or write launcher = \"torchrun\" or \"regroup\"",
            ),
            _ => Ok(Elastic::Restart),
        }
    }

    /// The folder of this file, if the current folder is known.
    fn folder(&self) -> Option<PathBuf> {
        let file = std::path::absolute(self.file).ok()?;
        Some(file.parent()?.to_owned())
    }

    /// A path as nodes need it: one that is relative begins at the folder of this file. `at` is the
    /// place of the field.
    fn whole(&self, field: &str, path: &str, at: usize) -> Result<String, SubmitError> {
        let refuse = |problem: &str| {
            let problem = format!("{path:?} {problem}");
            self.error(at, field, problem, "write it from / on")
        };
        self.line(field, path, at)?;
        if path.starts_with('~') {
            return Err(refuse("begins with ~, which only a shell knows"));
        }
        let whole = self.folder().unwrap_or_default().join(path);
        let whole: PathBuf = whole.components().collect();
        if !whole.is_absolute() {
            return Err(refuse("is relative to a folder that is not known"));
        }
        let text = whole.to_str().map(str::to_owned);
        text.ok_or_else(|| refuse("is below a folder whose name is no text"))
    }

    fn whole_path(&self, field: &str, path: &Spanned<String>) -> Result<String, SubmitError> {
        self.whole(field, path.get_ref(), path.span().start)
    }

    /// The folder in which its program runs.
    fn directory(&self, given: Option<&Spanned<String>>) -> Result<Directory, SubmitError> {
        if let Some(folder) = given {
            return self
                .whole_path("directory", folder)
                .map(Directory::Required);
        }
        let folder = self.folder();
        let folder = folder.and_then(|folder| folder.to_str().map(str::to_owned));
        Ok(folder.map_or(Directory::OfNode, Directory::Preferred))
    }

    /// The files of nodes with further variables.
    fn environment_from(&self, given: &Spanned<Files>) -> Result<Vec<String>, SubmitError> {
        let at = given.span().start;
        let is_here = |file: &str| self.folder().is_some_and(|at| at.join(file).exists());
        let whole = |file: &String| {
            if !fields::is_variable(file) || is_here(file) {
                return self.whole("environment_from", file, at);
            }
            let remedy = "write NAME=value lines into a file that only you can read (chmod 600) and \
                          all nodes have, and name the file: a value that travels with a trainer is \
                          readable by all who may watch the cluster";
            let problem = format!("{file:?} is no file");
            Err(self.error(at, "environment_from", problem, remedy))
        };
        given.get_ref().0.iter().map(whole).collect()
    }

    /// A word of a command line or an environment; numbers and booleans as they are written.
    fn word(&self, field: &str, word: Spanned<Word>) -> Result<String, SubmitError> {
        let span = word.span();
        match word.into_inner() {
            Word::Text(text) => {
                // No program can be given it.
                self.without(field, &text, span.start, |c| c == '\0')?;
                Ok(text)
            }
            Word::Written(value) => Ok(self.text.get(span).map_or(value, str::to_owned)),
        }
    }

    /// A variable of its environment.
    fn variable(
        &self,
        (name, value): (String, Spanned<Word>),
    ) -> Result<(String, String), SubmitError> {
        let at = value.span().start;
        self.line("environment", &name, at)?;
        if name.contains('=') {
            let problem = format!("the name {name:?} has a =");
            let remedy = "write environment = { NAME = \"value\" }";
            return Err(self.error(at, "environment", problem, remedy));
        }
        Ok((name, self.word("environment", value)?))
    }

    fn launch(&self, raw: Raw, start: usize) -> Result<Launch, SubmitError> {
        match raw.launcher.get_ref().as_str() {
            "simulated" => {
                if let Some(program) = &raw.program {
                    return Err(self.error(
                        program.span().start,
                        "program",
                        "a simulated trainer starts no program",
                        "remove it, or write launcher = \"command\"",
                    ));
                }
                if raw.until.is_some() {
                    return Err(self.error(
                        start,
                        "until",
                        "a simulated trainer never exits",
                        "write samples = ... instead",
                    ));
                }
                Ok(Launch::Simulated)
            }
            "command" | "torchrun" | "regroup" => {
                let elastic = self.elastic(&raw)?;
                let profile = raw.is_measured();
                let Some(program) = &raw.program else {
                    return Err(self.error(
                        start,
                        "program",
                        "missing",
                        "name the program that trains, e.g. program = \"torchrun\"",
                    ));
                };
                // torchrun starts a script by its path, and any other program as a shell does.
                let by_path = matches!(elastic, Elastic::Torchrun { .. })
                    && program.get_ref().ends_with(".py");
                self.line("program", program.get_ref(), program.span().start)?;
                let program = match by_path || program.get_ref().contains('/') {
                    true => self.whole_path("program", program)?,
                    false => program.get_ref().clone(),
                };
                let folder = raw.checkpoint_dir.as_ref();
                let folder = folder.map(|folder| self.whole_path("checkpoint_dir", folder));
                let env = raw.environment.into_iter();
                let from = raw.environment_from.as_ref();
                let from = from.map(|files| self.environment_from(files));
                Ok(Launch::Command {
                    program,
                    args: raw
                        .arguments
                        .into_iter()
                        .map(|word| self.word("arguments", word))
                        .collect::<Result<_, _>>()?,
                    env: env
                        .map(|one| self.variable(one))
                        .collect::<Result<_, _>>()?,
                    checkpoint_dir: folder.transpose()?,
                    directory: self.directory(raw.directory.as_ref())?,
                    environment_from: from.transpose()?.unwrap_or_default(),
                    profile,
                    family: raw.family.map(Spanned::into_inner),
                    elastic,
                })
            }
            other => Err(self.error(
                raw.launcher.span().start,
                "launcher",
                format!("{other:?} is not known"),
                "write \"simulated\", \"command\", \"torchrun\" or \"regroup\"",
            )),
        }
    }
}

mod fields;
#[cfg(test)]
mod tests;
