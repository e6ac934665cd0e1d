//! Expressions for single trainers, from a file.

use std::collections::BTreeMap;

use lacuna_model::TrainerId;
use serde::{Deserialize, Serialize};

use super::{Expression, Objective, ObjectiveError};

/// Objectives of trainers by name. A name that ends in `*` is for all trainers whose names
/// begin so; the longest name that fits counts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NamedExpressions(BTreeMap<String, Objective>);

impl NamedExpressions {
    /// Reads one objective a line: `name = "expression"` (so a flat TOML table) or
    /// `name,expression` (so CSV; what comes after the first comma is the expression). In
    /// place of an expression the name of an objective may stand. Blank lines, lines that
    /// begin with `#` and a first line `trainer,objective` count for nothing.
    ///
    /// # Errors
    /// [`ObjectiveError::Line`] names the line and what was expected.
    pub fn read(text: &str) -> Result<Self, ObjectiveError> {
        let mut named = BTreeMap::new();
        let lines = (1..).zip(text.lines().map(str::trim));
        for (line, content) in lines {
            let is_header = line == 1 && content == "trainer,objective";
            if content.is_empty() || content.starts_with('#') || is_header {
                continue;
            }
            let refuse = |what: String| ObjectiveError::Line { line, what };
            // The first sign outside the name decides: comparisons come only after it.
            let Some(at) = content.find([',', '=']) else {
                return Err(refuse(
                    "expected name,expression or name = expression".into(),
                ));
            };
            let (name, objective) = content.split_at(at);
            let name = unquote(name);
            if name.is_empty() {
                return Err(refuse("expected the name of a trainer first".into()));
            }
            let objective = unquote(objective.get(1..).unwrap_or(""));
            let objective: Objective = objective
                .parse()
                .map_err(|error: ObjectiveError| refuse(error.to_string()))?;
            if objective == Objective::Fair {
                let what = "fair is for all trainers or none: expected another objective";
                return Err(refuse(what.into()));
            }
            if named.insert(name.to_owned(), objective).is_some() {
                return Err(refuse(format!("trainer {name} has an objective already")));
            }
        }
        Ok(Self(named))
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of objectives.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The objective of a trainer, if one is named.
    #[must_use]
    pub fn of(&self, trainer: &TrainerId) -> Option<&Objective> {
        let trainer = trainer.as_str();
        if let Some(objective) = self.0.get(trainer) {
            return Some(objective);
        }
        let fits = |name: &&String| {
            let begin = name.strip_suffix('*');
            begin.is_some_and(|begin| trainer.starts_with(begin))
        };
        let name = self.0.keys().filter(fits).max_by_key(|name| name.len())?;
        self.0.get(name)
    }

    /// The names that fit none of these trainers: most likely a slip.
    pub fn unmatched<'a>(
        &'a self,
        trainers: impl Iterator<Item = &'a TrainerId> + Clone,
    ) -> impl Iterator<Item = &'a str> {
        self.0.keys().map(String::as_str).filter(move |name| {
            let fits = |trainer: &TrainerId| match name.strip_suffix('*') {
                Some(begin) => trainer.as_str().starts_with(begin),
                None => trainer.as_str() == *name,
            };
            !trainers.clone().any(fits)
        })
    }

    /// Gives a trainer an objective.
    pub fn insert(&mut self, name: &str, expression: Expression) {
        let objective = Objective::Expression(expression);
        self.0.insert(name.to_owned(), objective);
    }
}

fn unquote(text: &str) -> &str {
    let text = text.trim();
    for quote in ['"', '\''] {
        let inner = text.strip_prefix(quote).and_then(|t| t.strip_suffix(quote));
        if let Some(inner) = inner {
            return inner;
        }
    }
    text
}
