//! What the steps of a trainer teach and wait for, from a line of a list.

use lacuna_model::{Cause, Steps, StepsAt};
use serde_json::{Map, Value};

use super::{count, list};
use crate::FieldError;

/// The steps of a line or of a stage of it; nothing if it says nothing of them. `place` names the
/// stage in errors.
pub(super) fn steps(
    line: &Map<String, Value>,
    stage: &Map<String, Value>,
    place: &str,
) -> Result<Option<Steps>, FieldError> {
    let is_given = |field: &str| stage.get(field).is_some_and(|value| !value.is_null());
    let fields = ["batch", "efficiency", "waits"];
    let Some(first) = fields.into_iter().find(|field| is_given(field)) else {
        return Ok(None);
    };
    let nodes = list(line, "nodes", "a whole number, zero or more", count)?;
    let numbers = |of: &Map<String, Value>, field: &str| {
        let values = list(of, field, "a number", Value::as_f64)?;
        let (expected, found) = (nodes.len(), values.len());
        if expected == found {
            return Ok(values);
        }
        let expected = format!("{expected} values, one for each of nodes");
        let place = format!("field {place}{field}");
        Err(FieldError::new(place, expected, found.to_string()))
    };
    let batch = numbers(stage, "batch")?;
    let efficiency = numbers(stage, "efficiency")?;
    let mut rows: Vec<(u32, StepsAt)> = (nodes.iter().zip(batch).zip(efficiency))
        .map(|((&nodes, batch), efficiency)| {
            let at = StepsAt {
                batch,
                efficiency,
                ..StepsAt::default()
            };
            (nodes, at)
        })
        .collect();
    if let Some(given) = stage.get("waits").filter(|value| !value.is_null()) {
        let names = Cause::ALL.map(Cause::name);
        let wrong = || {
            let expected = format!("an object with shares of a step by {}", names.join(", "));
            FieldError::new(format!("field {place}waits"), expected, given.to_string())
        };
        let given = given.as_object().ok_or_else(wrong)?;
        for cause in given.keys() {
            let at = names
                .iter()
                .position(|name| name == cause)
                .ok_or_else(wrong)?;
            for (row, share) in rows.iter_mut().zip(numbers(given, cause)?) {
                if let Some(waits) = row.1.waits.get_mut(at) {
                    *waits = share;
                }
            }
        }
    }
    let steps = Steps::new(rows);
    let found = || stage.get(first).map(Value::to_string).unwrap_or_default();
    steps
        .map(Some)
        .map_err(|expected| FieldError::new(format!("field {place}{first}"), expected, found()))
}
