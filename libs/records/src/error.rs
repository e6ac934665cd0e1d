//! A wrong value in a text.

/// A wrong value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: expected {expected}, found {found}")]
pub struct FieldError {
    /// Column number and name, or field name.
    pub place: String,
    /// Values that are accepted.
    pub expected: String,
    /// The found value, cut after 60 characters.
    pub found: String,
}

impl FieldError {
    /// An error at `place`; `found` is cut after 60 characters.
    pub fn new(
        place: impl Into<String>,
        expected: impl Into<String>,
        found: impl AsRef<str>,
    ) -> Self {
        Self {
            place: place.into(),
            expected: expected.into(),
            found: excerpt(found.as_ref()),
        }
    }
}

/// At most 60 characters of a text, so that a binary file does not flood a terminal.
pub fn excerpt(text: &str) -> String {
    let mut short: String = text.chars().take(60).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
