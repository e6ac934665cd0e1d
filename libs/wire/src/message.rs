//! The trait of all messages.

use serde::{Deserialize, Serialize};

use crate::content::ContentType;

/// A message type with its address on the bus: the kind that goes into `ce-type` and the
/// version of its fields.
///
/// The version of a kind grows by one when its fields change so that older readers would misread
/// them. An optional field needs no new version, since readers ignore unknown fields. Nor does a
/// new variant of a request, since readers refuse an unknown variant.
pub trait Message: Serialize + for<'de> Deserialize<'de> {
    /// Kind, e.g. `lacuna.pool`.
    const KIND: &'static str;
    /// Version of the fields that is written. A receiver refuses a newer one.
    const VERSION: u16;
    /// The oldest version that is still read.
    const OLDEST: u16;

    /// Whether control signs messages of this kind. An agent with keys refuses unsigned ones.
    const SIGNED: bool = false;

    /// The nodes and trainers that the message concerns, in the order in which they end its
    /// subject. A sender with permission for one subject cannot send messages about another.
    fn about(&self) -> Vec<&str> {
        Vec::new()
    }

    /// Reads a payload of a version from `OLDEST` to `VERSION`.
    ///
    /// # Errors
    /// The text of the decoder, for a payload that is not of this version.
    fn read(version: u16, form: ContentType, payload: &[u8]) -> Result<Self, String>;
}
