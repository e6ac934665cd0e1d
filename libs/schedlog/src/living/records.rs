//! Answers of `sinfo` and `squeue`, cut into records and fields.
//!
//! Both print each field as it is and put behind it whatever the format says (`type:suffix`).
//! Names and comments are their users' own words and may hold blanks, bars and line ends, so
//! that fields end with the control characters that ASCII keeps for this purpose. A field with
//! a suffix and no width is not cut short (`_print_str` in Slurm's `print.c`).

use crate::error::excerpt;
use crate::{FieldError, hosts};
use lacuna_model::NodeId;

/// Stands behind every field but the last.
pub const SEPARATOR: char = '\u{1f}';

/// Stands behind the last field of a record, before the line's end.
pub const RECORD_END: char = '\u{1e}';

/// Why an answer was not taken. Nothing of it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// There is no record where there must be some.
    #[error("the answer is empty: {expected}")]
    Empty {
        /// What should be there.
        expected: &'static str,
    },
    /// A record has another number of fields.
    #[error(
        "record {record} has {found} fields instead of {expected}: {text:?}; Slurm 20.11 or newer \
         is needed"
    )]
    Fields {
        /// Which record, from 1.
        record: usize,
        /// How many there should be.
        expected: usize,
        /// How many there are.
        found: usize,
        /// The record, cut after 60 characters.
        text: String,
    },
    /// The answer ends within a record.
    #[error("the answer ends within record {record}: {text:?}; see by hand what the command says")]
    Torn {
        /// Which record, from 1.
        record: usize,
        /// What there is of it, cut after 60 characters.
        text: String,
    },
    /// A field is not what it should be.
    #[error("record {record}: {at}")]
    Field {
        /// Which record, from 1.
        record: usize,
        /// Which field, and what is wrong with it.
        at: FieldError,
    },
    /// It is not text, or not JSON.
    #[error("the answer cannot be read: {reason}")]
    Unreadable {
        /// Why.
        reason: String,
    },
}

/// The value of `--Format` that asks for these fields.
pub(super) fn format(fields: &[&str]) -> String {
    let mut text = String::new();
    for (at, field) in fields.iter().enumerate() {
        let last = at + 1 == fields.len();
        text.push_str(field);
        text.push(':');
        text.push(if last { RECORD_END } else { SEPARATOR });
        if !last {
            text.push(',');
        }
    }
    text
}

/// Hands out each record with its number, from 1.
pub(super) fn each<const N: usize>(
    answer: &str,
    mut take: impl FnMut([&str; N]) -> Result<(), FieldError>,
) -> Result<(), AnswerError> {
    let mut rest = answer;
    let mut record = 0_usize;
    loop {
        rest = rest.trim_start_matches(['\r', '\n']);
        if rest.is_empty() {
            return Ok(());
        }
        record = record.saturating_add(1);
        let Some((text, after)) = rest.split_once(RECORD_END) else {
            // With none of our marks it is no answer to our question at all.
            let text = excerpt(rest);
            return Err(AnswerError::Torn { record, text });
        };
        rest = after;
        let mut fields = [""; N];
        let mut found = 0_usize;
        for field in text.split(SEPARATOR) {
            if let Some(place) = fields.get_mut(found) {
                *place = field.trim();
            }
            found += 1;
        }
        if found != N {
            return Err(AnswerError::Fields {
                record,
                expected: N,
                found,
                text: excerpt(text),
            });
        }
        take(fields).map_err(|at| AnswerError::Field { record, at })?;
    }
}

/// A text that may be absent.
pub(super) fn text(field: &str) -> &str {
    match field {
        "(null)" | "N/A" | "n/a" | "none" | "None" | "NONE" | "Unknown" => "",
        other => other,
    }
}

/// A list of nodes in Slurm's notation.
pub(super) fn nodes(place: &str, field: &str) -> Result<Vec<NodeId>, FieldError> {
    let field = text(field);
    let mut nodes = Vec::new();
    let mut wrong = None;
    hosts::expand(field, &mut |name| match NodeId::new(name) {
        Ok(node) => nodes.push(node),
        Err(error) => {
            wrong.get_or_insert_with(|| FieldError::new(place, error.expected, name));
        }
    })
    .map_err(|error| FieldError {
        place: place.to_owned(),
        ..error
    })?;
    wrong.map_or(Ok(nodes), Err)
}
