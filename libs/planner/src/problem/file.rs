//! Allocation problems as files: a solve can be saved, inspected, solved again and kept as a test
//! case.
//!
//! A file is one JSON object with a kind and a version. The list `curves` has each shared table of
//! rates once, and trainers refer to it by place:
//!
//! ```json
//! {"lacuna": "allocation-problem", "version": 1, "nodes": 3, "horizon_s": 120.0,
//!  "curves": [[0.0, 10.0, 18.0]],
//!  "trainers": [{"name": "a", "current": 1, "min": 1, "max": 2, "curve": 0,
//!                "rate_now": 10.0, "up_s": 18.0, "down_s": 12.0}],
//!  "answer": {"counts": [2], "objective": 1980.0}}
//! ```
//!
//! The names, `note` and `answer` may be absent. Numbers are written in full, so that
//! a problem is the same to the last bit when it is read again.

use std::fmt::Write as _;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::allocation::is_zero;
use crate::{Far, Item, Lost, Problem, Sizes};

/// The kind that a file must name.
pub const KIND: &str = "allocation-problem";
/// The version that is written, and the only one that is read.
pub const VERSION: u32 = 1;

/// The content of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Saved {
    /// The problem.
    pub problem: Problem,
    /// A name for each trainer; empty without a name.
    pub names: Vec<String>,
    /// The origin of the problem, for people.
    pub note: Option<String>,
    /// A known answer.
    pub answer: Option<Sizes>,
}

impl Saved {
    /// A problem without names, note or answer.
    #[must_use]
    pub fn new(problem: Problem) -> Self {
        Self {
            names: vec![String::new(); problem.trainers.len()],
            problem,
            note: None,
            answer: None,
        }
    }
}

/// An error of a file.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file is not JSON of the right form.
    #[error("the file is no allocation problem: {0}")]
    Json(#[from] serde_json::Error),
    /// The file has another kind.
    #[error("the file is of kind {found:?}, expected {KIND:?}")]
    Kind {
        /// The kind in the file.
        found: String,
    },
    /// The file has an unknown version.
    #[error("the file is of version {found}, this program reads version {VERSION}")]
    Version {
        /// The version in the file.
        found: u64,
    },
    /// A value of the problem is invalid.
    #[error("field {field}: expected {expected}, found {found}")]
    Field {
        /// The field.
        field: String,
        /// The expected value.
        expected: String,
        /// The value in the file.
        found: String,
    },
    /// A value of one trainer is invalid.
    #[error("trainer {place}{}, field {field}: expected {expected}, found {found}", quoted(.name))]
    Trainer {
        /// Its place in the list, from 0.
        place: usize,
        /// Its name, or nothing.
        name: String,
        /// The field.
        field: &'static str,
        /// The expected value.
        expected: String,
        /// The value in the file.
        found: String,
    },
}

fn quoted(name: &str) -> String {
    if name.is_empty() {
        String::new()
    } else {
        format!(" ({name})")
    }
}

#[derive(Deserialize)]
struct Head {
    lacuna: String,
    version: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawProblem {
    #[serde(rename = "lacuna")]
    _kind: String,
    #[serde(rename = "version")]
    _version: u64,
    note: Option<String>,
    nodes: u32,
    horizon_s: f64,
    curves: Vec<Vec<f64>>,
    trainers: Vec<RawItem>,
    answer: Option<RawAnswer>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawItem {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    name: String,
    current: u32,
    min: u32,
    max: u32,
    curve: usize,
    rate_now: f64,
    up_s: f64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pilot_s: f64,
    down_s: f64,
    #[serde(default, skip_serializing_if = "Lost::is_nothing")]
    lost: Lost,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAnswer {
    counts: Vec<u32>,
    objective: f64,
}

/// Writes a problem as the text of a file: one line for each curve and each trainer.
///
/// # Errors
/// The errors of [`read`], so that every written file can be read.
pub fn write(saved: &Saved) -> Result<String, FileError> {
    check(saved)?;
    let problem = &saved.problem;
    let mut curves: Vec<&Arc<[f64]>> = Vec::new();
    let mut trainers = Vec::with_capacity(problem.trainers.len());
    for (at, item) in problem.trainers.iter().enumerate() {
        let same = |known: &&Arc<[f64]>| Arc::ptr_eq(known, &item.value) || **known == item.value;
        let curve = curves.iter().position(same).unwrap_or_else(|| {
            curves.push(&item.value);
            curves.len() - 1
        });
        trainers.push(RawItem {
            name: saved.names.get(at).cloned().unwrap_or_default(),
            current: item.current,
            min: item.min,
            max: item.max,
            curve,
            rate_now: item.rate_now,
            up_s: item.up_s,
            pilot_s: item.pilot_s,
            down_s: item.down_s,
            lost: item.lost,
        });
    }
    let mut text = format!("{{\n  \"lacuna\": \"{KIND}\",\n  \"version\": {VERSION},\n");
    let mut field = |name: &str, value: String| {
        // Writing to a text cannot fail.
        let _ = writeln!(text, "  \"{name}\": {value},");
    };
    if let Some(note) = &saved.note {
        field("note", serde_json::to_string(note)?);
    }
    field("nodes", problem.nodes.to_string());
    field("horizon_s", serde_json::to_string(&problem.horizon_s)?);
    if let Some(answer) = &saved.answer {
        let answer = RawAnswer {
            counts: answer.counts.clone(),
            objective: answer.objective,
        };
        field("answer", serde_json::to_string(&answer)?);
    }
    field("curves", lines(curves.iter().map(|curve| curve.as_ref()))?);
    let _ = writeln!(text, "  \"trainers\": {}\n}}", lines(trainers.iter())?);
    Ok(text)
}

/// A JSON list with each item on its own line.
fn lines<T: Serialize>(items: impl Iterator<Item = T>) -> Result<String, FileError> {
    let items: Vec<String> = items
        .map(|item| serde_json::to_string(&item).map(|text| format!("    {text}")))
        .collect::<Result<_, _>>()?;
    Ok(if items.is_empty() {
        "[]".to_owned()
    } else {
        format!("[\n{}\n  ]", items.join(",\n"))
    })
}

/// Reads the text of a file.
///
/// # Errors
/// [`FileError`] for the first fault.
pub fn read(text: &str) -> Result<Saved, FileError> {
    let head: Head = serde_json::from_str(text)?;
    if head.lacuna != KIND {
        return Err(FileError::Kind { found: head.lacuna });
    }
    if head.version != u64::from(VERSION) {
        return Err(FileError::Version {
            found: head.version,
        });
    }
    let raw: RawProblem = serde_json::from_str(text)?;
    let curves: Vec<Arc<[f64]>> = raw.curves.into_iter().map(Arc::from).collect();
    let known = curves.len();
    let mut names = Vec::with_capacity(raw.trainers.len());
    let mut trainers = Vec::with_capacity(raw.trainers.len());
    for (place, item) in raw.trainers.into_iter().enumerate() {
        let Some(value) = curves.get(item.curve) else {
            return Err(FileError::Trainer {
                place,
                name: item.name,
                field: "curve",
                expected: format!("the place of one of {known} curves, from 0"),
                found: item.curve.to_string(),
            });
        };
        names.push(item.name);
        trainers.push(Item {
            current: item.current,
            min: item.min,
            max: item.max,
            value: value.clone(),
            rate_now: item.rate_now,
            up_s: item.up_s,
            pilot_s: item.pilot_s,
            far: Far::default(),
            kinds: None,
            down_s: item.down_s,
            lost: item.lost,
        });
    }
    let saved = Saved {
        problem: Problem {
            nodes: raw.nodes,
            horizon_s: raw.horizon_s,
            trainers,
        },
        names,
        note: raw.note,
        answer: raw.answer.map(|answer| Sizes {
            counts: answer.counts,
            objective: answer.objective,
        }),
    };
    check(&saved)?;
    Ok(saved)
}

/// Checks a problem: bounds in order, a curve up to the maximum of each trainer, numbers from 0 to
/// 1e15, and no more held nodes than there are (lost nodes are no longer `current`).
///
/// # Errors
/// The first [`FileError`], with trainer and field.
pub fn check(saved: &Saved) -> Result<(), FileError> {
    let problem = &saved.problem;
    let field = |field: &str, expected: &str, found: String| FileError::Field {
        field: field.to_owned(),
        expected: expected.to_owned(),
        found,
    };
    if !(sound(problem.horizon_s) && problem.horizon_s > 0.0) {
        let found = problem.horizon_s.to_string();
        return Err(field(
            "horizon_s",
            "seconds, more than 0, 1e15 at most",
            found,
        ));
    }
    for (place, item) in problem.trainers.iter().enumerate() {
        check_item(item).map_err(|(field, expected, found)| FileError::Trainer {
            place,
            name: saved.names.get(place).cloned().unwrap_or_default(),
            field,
            expected,
            found,
        })?;
    }
    let held: u64 = problem.trainers.iter().map(|i| u64::from(i.current)).sum();
    if held > u64::from(problem.nodes) {
        let expected = format!("{} nodes held in all at most", problem.nodes);
        return Err(field("current", &expected, held.to_string()));
    }
    if let Some(answer) = &saved.answer
        && answer.counts.len() != problem.trainers.len()
    {
        let expected = format!("{} counts", problem.trainers.len());
        let found = answer.counts.len().to_string();
        return Err(field("answer", &expected, found));
    }
    Ok(())
}

/// Checks one trainer; an error has the field, the expected and the found value.
fn check_item(item: &Item) -> Result<(), (&'static str, String, String)> {
    let bad = |field, expected: &str, found: String| Err((field, expected.to_owned(), found));
    if item.min == 0 {
        return bad("min", "1 node at least", "0".to_owned());
    }
    if item.max < item.min {
        let expected = format!("no less than min, {}", item.min);
        return bad("max", &expected, item.max.to_string());
    }
    if (item.value.len() as u64) <= u64::from(item.max) {
        let expected = format!("rates for 0..={} nodes", item.max);
        return bad("curve", &expected, format!("{} rates", item.value.len()));
    }
    if let Some((n, rate)) = item.value.iter().enumerate().find(|(_, v)| !sound(**v)) {
        let found = format!("{rate} for {n} nodes");
        return bad("curve", "rates from 0 to 1e15", found);
    }
    for (field, value) in [
        ("rate_now", item.rate_now),
        ("up_s", item.up_s),
        ("pilot_s", item.pilot_s),
        ("down_s", item.down_s),
        ("lost.change_s", item.lost.change_s),
        ("lost.stop_s", item.lost.stop_s),
    ] {
        if !sound(value) {
            return bad(field, "a number from 0 to 1e15", value.to_string());
        }
    }
    Ok(())
}

/// Largest number of a file, so that sums of products of two stay finite.
const MOST: f64 = 1e15;

fn sound(value: f64) -> bool {
    (0.0..=MOST).contains(&value)
}
