//! Secret text. It prints and serialises as stars, and its memory is cleared when it is dropped.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};
use zeroize::Zeroizing;

/// The text that replaces a secret.
const STARS: &str = "***";

/// A password, a seed or a token. Only [`Secret::reveal`] gives its text.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// The text, for sending or computing with it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(Zeroizing::new(text))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(STARS)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(STARS)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(STARS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_printed() {
        let secret = Secret::from("geheim".to_owned());
        let json = serde_json::to_string(&secret).unwrap();
        for shown in [format!("{secret}"), format!("{secret:?}"), json] {
            assert!(!shown.contains("geheim"), "{shown}");
        }
        assert_eq!(secret.reveal(), "geheim");
    }
}
