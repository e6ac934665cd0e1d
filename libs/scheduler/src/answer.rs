//! Answers of `sinfo`, `squeue` and `flux resource list`, cut into records and fields.
//!
//! The commands print each field unquoted, followed by the suffix of the format (`type:suffix`).
//! Names and comments are free text and may hold blanks, bars and line ends. So fields end with
//! the control characters that ASCII defines for this purpose. A field with a suffix and no width
//! is not cut short (`_print_str` in Slurm's `print.c`).

use lacuna_model::NodeId;
use lacuna_records::{FieldError, excerpt, hosts};

/// The character behind every field but the last.
pub const SEPARATOR: char = '\u{1f}';

/// The character behind the last field of a record, before the line's end.
pub const RECORD_END: char = '\u{1e}';

/// Why an answer was refused. It is always refused whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// The answer has no record, but must have one.
    #[error("the answer is empty: {expected}")]
    Empty {
        /// Expected content.
        expected: &'static str,
    },
    /// A record has a wrong number of fields.
    #[error(
        "record {record} has {found} fields instead of {expected}: {text:?}; a newer release of the \
         scheduler is needed (Slurm 20.11)"
    )]
    Fields {
        /// Number of the record, from 1.
        record: usize,
        /// Expected number of fields.
        expected: usize,
        /// Number of fields found.
        found: usize,
        /// The record, cut after 60 characters.
        text: String,
    },
    /// The answer ends within a record.
    #[error("the answer ends within record {record}: {text:?}; run the command by hand to see why")]
    Torn {
        /// Number of the record, from 1.
        record: usize,
        /// The beginning of the record, cut after 60 characters.
        text: String,
    },
    /// A field has a wrong value.
    #[error("record {record}: {at}")]
    Field {
        /// Number of the record, from 1.
        record: usize,
        /// The field and its fault.
        at: FieldError,
    },
    /// The answer is not text, or not JSON.
    #[error("the answer cannot be read: {reason}")]
    Unreadable {
        /// Why the text is not readable.
        reason: String,
    },
}

/// The value of `--Format` for these fields.
pub(crate) fn format(fields: &[&str]) -> String {
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

/// Calls `take` with the fields of each record.
///
/// # Errors
/// [`AnswerError`] for a torn record, a wrong number of fields, or an error of `take`.
pub(crate) fn each<const N: usize>(
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
            // Without our record end, the text is another message than an answer.
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

/// A text field. Slurm's words for an absent value become the empty text.
pub(crate) fn text(field: &str) -> &str {
    match field {
        "(null)" | "N/A" | "n/a" | "none" | "None" | "NONE" | "Unknown" => "",
        other => other,
    }
}

/// A list of nodes in Slurm's notation.
pub(crate) fn nodes(place: &str, field: &str) -> Result<Vec<NodeId>, FieldError> {
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
