//! What was learnt, as bytes that say what they are.
//!
//! Layout: the mark `LACUNAFC`, the version of the predictor's format (two bytes, least first),
//! the length of the predictor's name (one byte) and the name, the CRC-32 of the rest (four
//! bytes), and the rest: MessagePack. A damaged file is told from an old one and from one of
//! another predictor, so that whoever falls back can say why.

use serde::Serialize;
use serde::de::DeserializeOwned;

const MARK: &[u8; 8] = b"LACUNAFC";

/// Why what was saved cannot be taken up again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// The bytes are not what was written.
    #[error("the saved model is damaged: {what}")]
    Damaged {
        /// What gives it away.
        what: String,
    },
    /// It was written by a version that forecasts otherwise.
    #[error("the saved model has format version {found}, expected {expected}")]
    OtherVersion {
        /// The version found.
        found: u16,
        /// The version that can be read.
        expected: u16,
    },
    /// It is of another predictor.
    #[error("the saved model is of the predictor {found:?}, expected {expected:?}")]
    OtherPredictor {
        /// The name found.
        found: String,
        /// The name expected.
        expected: &'static str,
    },
    /// The predictor learns nothing, so there is nothing to take up.
    #[error("the predictor {name:?} learns nothing that could be restored")]
    NothingToLearn {
        /// Its name.
        name: &'static str,
    },
}

fn damaged(what: impl Into<String>) -> ModelError {
    ModelError::Damaged { what: what.into() }
}

/// Writes what was learnt; nothing if it cannot be written, which no predictor's memory is known
/// to be.
#[must_use]
pub fn seal(name: &str, version: u16, memory: &impl Serialize) -> Option<Vec<u8>> {
    let payload = rmp_serde::to_vec_named(memory).ok()?;
    let mut bytes = Vec::with_capacity(payload.len() + 64);
    bytes.extend(MARK);
    bytes.extend(version.to_le_bytes());
    bytes.push(u8::try_from(name.len()).ok()?);
    bytes.extend(name.as_bytes());
    bytes.extend(crc32fast::hash(&payload).to_le_bytes());
    bytes.extend(payload);
    Some(bytes)
}

/// Reads what [`seal`] wrote.
///
/// # Errors
/// [`ModelError`] says what is wrong with the bytes.
pub fn open<T: DeserializeOwned>(
    name: &'static str,
    version: u16,
    bytes: &[u8],
) -> Result<T, ModelError> {
    let short = || damaged("it ends before it begins");
    let rest = bytes
        .strip_prefix(MARK)
        .ok_or_else(|| damaged("it does not begin as a saved model does"))?;
    let (found, rest) = rest.split_first_chunk::<2>().ok_or_else(short)?;
    let (&length, rest) = rest.split_first().ok_or_else(short)?;
    let (named, rest) = rest
        .split_at_checked(usize::from(length))
        .ok_or_else(short)?;
    let named = String::from_utf8_lossy(named);
    if named != name {
        return Err(ModelError::OtherPredictor {
            found: named.into_owned(),
            expected: name,
        });
    }
    let found = u16::from_le_bytes(*found);
    if found != version {
        return Err(ModelError::OtherVersion {
            found,
            expected: version,
        });
    }
    let (sum, payload) = rest.split_first_chunk::<4>().ok_or_else(short)?;
    if crc32fast::hash(payload) != u32::from_le_bytes(*sum) {
        return Err(damaged("its checksum does not fit"));
    }
    rmp_serde::from_slice(payload).map_err(|error| damaged(error.to_string()))
}
