//! The two encodings of payloads: MessagePack with named fields, and JSON.

use std::borrow::Cow;

use serde::de::DeserializeOwned;

/// The encoding of a payload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ContentType {
    /// `application/msgpack`, with named fields.
    #[default]
    MessagePack,
    /// `application/json`.
    Json,
}

impl ContentType {
    /// The value of the header `content-type`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MessagePack => "application/msgpack",
            Self::Json => "application/json",
        }
    }

    /// Reads a header value. Parameters (`; charset=utf-8`) are ignored, and a suffix (`+json`)
    /// names the encoding.
    #[must_use]
    pub fn parse(value: &str) -> Option<Self> {
        let essence = value.split(';').next().unwrap_or(value).trim();
        match essence.to_ascii_lowercase().as_str() {
            "application/msgpack" | "application/x-msgpack" | "application/vnd.msgpack" => {
                Some(Self::MessagePack)
            }
            "application/json" | "text/json" => Some(Self::Json),
            other if other.ends_with("+json") => Some(Self::Json),
            other if other.ends_with("+msgpack") => Some(Self::MessagePack),
            _ => None,
        }
    }
}

/// Reads a value of a payload. JSON, which only people and other systems send, becomes MessagePack
/// first: a decoder of each message for each form would be a third of this crate's code.
///
/// # Errors
/// The text of the decoder.
pub(crate) fn parse<T: DeserializeOwned>(form: ContentType, payload: &[u8]) -> Result<T, String> {
    let packed = match form {
        ContentType::MessagePack => Cow::Borrowed(payload),
        ContentType::Json => {
            let value: serde_json::Value =
                serde_json::from_slice(payload).map_err(|e| e.to_string())?;
            Cow::Owned(rmp_serde::to_vec_named(&value).map_err(|e| e.to_string())?)
        }
    };
    rmp_serde::from_slice(&packed).map_err(|e| e.to_string())
}
