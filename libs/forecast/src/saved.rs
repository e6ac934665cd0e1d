//! The format of saved models.
//!
//! Layout: the mark `LACUNAFC`, the version of the predictor's format (two bytes, least first),
//! the length of the predictor's name (one byte) and the name, the CRC-32 of the rest (four
//! bytes), and the rest: MessagePack. So a damaged file, an old one and one of another predictor
//! have different errors, and a fallback can report its reason.

use serde::Serialize;
use serde::de::DeserializeOwned;

const MARK: &[u8; 8] = b"LACUNAFC";

/// The reason why a saved model cannot be restored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// The bytes differ from those that were written.
    #[error("the saved model is damaged: {what}")]
    Damaged {
        /// The sign of the damage.
        what: String,
    },
    /// The model is of another version of the format.
    #[error("the saved model has format version {found}, expected {expected}")]
    OtherVersion {
        /// The version found.
        found: u16,
        /// The version that can be read.
        expected: u16,
    },
    /// The model is of another predictor.
    #[error("the saved model is of the predictor {found:?}, expected {expected:?}")]
    OtherPredictor {
        /// The name found.
        found: String,
        /// The name expected.
        expected: &'static str,
    },
    /// The predictor learns nothing, so it has no saved model.
    #[error("the predictor {name:?} learns nothing that could be restored")]
    NothingToLearn {
        /// The name of the predictor.
        name: &'static str,
    },
}

impl ModelError {
    /// The reason in a word, for a metric.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Damaged { .. } => "damaged",
            Self::OtherVersion { .. } => "other_version",
            Self::OtherPredictor { .. } | Self::NothingToLearn { .. } => "other_predictor",
        }
    }
}

fn damaged(what: impl Into<String>) -> ModelError {
    ModelError::Damaged { what: what.into() }
}

fn unmarked() -> ModelError {
    damaged("it does not begin as a saved model does")
}

/// Encodes a learnt state. `None` if it cannot be encoded, which is known of no predictor.
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

/// Decodes the bytes of [`seal`].
///
/// # Errors
/// [`ModelError`] if the bytes are damaged, or of another predictor or version.
pub fn open<T: DeserializeOwned>(
    name: &'static str,
    version: u16,
    bytes: &[u8],
) -> Result<T, ModelError> {
    let short = || damaged("it is too short");
    let rest = bytes.strip_prefix(MARK).ok_or_else(unmarked)?;
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
        return Err(damaged("its checksum does not match"));
    }
    rmp_serde::from_slice(payload).map_err(|error| damaged(error.to_string()))
}

/// Puts a head before a model: the length of the head (four bytes, least first), the head, and the
/// model. `None` for a head of more than 4 GiB.
#[must_use]
pub fn join(head: &[u8], model: &[u8]) -> Option<Vec<u8>> {
    let length = u32::try_from(head.len()).ok()?;
    Some([&length.to_le_bytes(), head, model].concat())
}

/// The head and the model of the bytes of [`join`].
///
/// # Errors
/// [`ModelError::Damaged`] if the bytes are shorter than the head, or no head follows its length.
pub fn split(bytes: &[u8]) -> Result<(&[u8], &[u8]), ModelError> {
    let short = || damaged("it is too short");
    let (length, rest) = bytes.split_first_chunk::<4>().ok_or_else(short)?;
    if !rest.starts_with(MARK) {
        return Err(unmarked());
    }
    let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| short())?;
    rest.split_at_checked(length).ok_or_else(short)
}
