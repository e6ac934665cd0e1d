//! From the configuration to predictors.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use lacuna_forecast::settings::{ForecastSection, NodeOrder, Predictor};
use lacuna_forecast::{Choice, Limits, OrderBy};

/// The settings of the core of the service.
#[derive(Debug, Clone, PartialEq)]
pub struct PredictorSettings {
    /// The predictor that forecasts.
    pub first: Choice,
    /// The predictor that is scored beside the first and may take over.
    pub rival: Option<Choice>,
    /// Whether the rival may take over. It is scored in any case.
    pub fallback: bool,
    /// Calibration limits; beyond them the fallback predictor takes over.
    pub limits: Limits,
    /// Whether forecasts include planned starts and reservations.
    pub announced_ends: bool,
}

impl PredictorSettings {
    /// A predictor without a rival, with default limits.
    #[must_use]
    pub fn of(first: Choice) -> Self {
        let usual = ForecastSection::default();
        Self {
            first,
            rival: None,
            fallback: usual.fallback,
            limits: limits(&usual),
            announced_ends: usual.planned_starts,
        }
    }

    /// Adds a rival.
    #[must_use]
    pub fn beside(self, rival: Choice) -> Self {
        Self {
            rival: Some(rival),
            ..self
        }
    }

    /// The settings by the configuration. Reads the file of the order if there is one.
    ///
    /// # Errors
    /// [`OrderError`] with file and line.
    pub fn from_config(config: &ForecastSection) -> Result<Self, OrderError> {
        let seconds = config.constant.as_secs_f64();
        let by_age = Choice::survival();
        let (first, rival) = match config.predictor {
            // Predictors that learn nothing are chosen on purpose and get no rival.
            Predictor::Constant => (Choice::Constant { length_s: seconds }, None),
            Predictor::Persistence => (Choice::Persistence, None),
            Predictor::Survival => (by_age, None),
            Predictor::Hazard => {
                let hazard = Choice::hazard(order(config)?);
                (hazard, Some(by_age))
            }
        };
        Ok(Self {
            first,
            rival,
            fallback: config.fallback,
            limits: limits(config),
            announced_ends: config.planned_starts,
        })
    }
}

fn limits(config: &ForecastSection) -> Limits {
    Limits {
        ended: f64::from(config.drift_ended),
        off: config.drift_bias,
    }
}

/// The reason why the file of an order cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OrderError {
    /// The file cannot be read.
    #[error("cannot read the order of nodes {path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the file system.
        source: std::io::Error,
    },
    /// A line is not as expected.
    #[error("{path}:{line}: {text:?}: expected {expected}", path = path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
        /// The text of the line.
        text: String,
        /// The expected form.
        expected: &'static str,
    },
    /// The file names no node.
    #[error("the order of nodes {path} names no node", path = path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

fn order(config: &ForecastSection) -> Result<OrderBy, OrderError> {
    let path = config.order_file.as_deref().unwrap_or(Path::new(""));
    Ok(match config.order {
        NodeOrder::Learnt => OrderBy::Learnt,
        NodeOrder::Names => OrderBy::Names,
        NodeOrder::None => OrderBy::None,
        NodeOrder::List => OrderBy::List(list(path)?),
        NodeOrder::Weights => OrderBy::Weights(weights(path)?),
    })
}

/// The lines with text, each with its number and without comments.
fn lines(path: &Path) -> Result<Vec<(usize, String)>, OrderError> {
    let text = std::fs::read_to_string(path).map_err(|source| OrderError::Read {
        path: path.to_owned(),
        source,
    })?;
    let lines: Vec<(usize, String)> = (1..)
        .zip(text.lines())
        .map(|(number, line)| {
            let text = line.split('#').next().unwrap_or_default().trim();
            (number, text.to_owned())
        })
        .filter(|(_, text)| !text.is_empty())
        .collect();
    if lines.is_empty() {
        return Err(OrderError::Empty {
            path: path.to_owned(),
        });
    }
    Ok(lines)
}

fn list(path: &Path) -> Result<Vec<String>, OrderError> {
    let expected = "one name of a node a line, once";
    let mut list: Vec<String> = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    for (line, name) in lines(path)? {
        if name.split_whitespace().count() != 1 || !seen.insert(name.clone()) {
            return Err(refuse(path, line, name, expected));
        }
        list.push(name);
    }
    Ok(list)
}

fn weights(path: &Path) -> Result<BTreeMap<String, f64>, OrderError> {
    let expected = "the name of a node and its weight, a number, once for each node";
    let mut weights = BTreeMap::new();
    for (line, text) in lines(path)? {
        let mut words = text.split_whitespace();
        let weight = match (words.next(), words.next(), words.next()) {
            (Some(name), Some(weight), None) => weight.parse().ok().map(|number| (name, number)),
            _ => None,
        };
        match weight.filter(|(_, weight): &(&str, f64)| weight.is_finite()) {
            Some((name, weight)) if !weights.contains_key(name) => {
                weights.insert(name.to_owned(), weight);
            }
            _ => return Err(refuse(path, line, text, expected)),
        }
    }
    Ok(weights)
}

fn refuse(path: &Path, line: usize, text: String, expected: &'static str) -> OrderError {
    OrderError::Line {
        path: path.to_owned(),
        line,
        text,
        expected,
    }
}
