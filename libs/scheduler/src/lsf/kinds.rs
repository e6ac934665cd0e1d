//! What a file with the output of `lshosts -w` says of each host, as labels.

use lacuna_model::NodeId;
use lacuna_records::excerpt;

use crate::answer::AnswerError;
use crate::labels::{Labels, some};

/// Whether a text is the output of `lshosts -w`.
#[must_use]
pub fn is_lshosts(text: &str) -> bool {
    text.trim_start().starts_with("HOST_NAME")
}

/// Reads the output of `lshosts -w`: a host a line, with type, model and resources. Tried on
/// samples of the manual only (IBM Spectrum LSF 10.1, command reference, "lshosts").
///
/// # Errors
/// [`AnswerError`] if a line lacks the columns, or the text holds no host.
pub fn read(text: &str) -> Result<Labels, AnswerError> {
    let mut all = Labels::new();
    let lines = (1_usize..).zip(text.lines()).skip(1);
    for (line, text) in lines.filter(|(_, text)| !text.trim().is_empty()) {
        let mut words = text.split_whitespace();
        let (Some(host), Some(kind), Some(model)) = (words.next(), words.next(), words.next())
        else {
            let reason = format!(
                "line {line}: expected HOST_NAME, type and model, found {:?}",
                excerpt(text)
            );
            return Err(AnswerError::Unreadable { reason });
        };
        let node = NodeId::new(host).map_err(|error| AnswerError::Unreadable {
            reason: format!("line {line}: {error}"),
        })?;
        let labels = all.entry(node).or_default();
        labels.insert(format!("type:{kind}"));
        labels.insert(format!("model:{model}"));
        if let Some((_, resources)) = text.rsplit_once('(') {
            let resources = resources.trim_end().trim_end_matches(')');
            let resources = resources.split_whitespace();
            labels.extend(resources.map(|name| format!("resource:{name}")));
        }
    }
    some(all)
}
