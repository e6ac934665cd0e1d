//! Text that nobody may see: it prints as stars, is serialised as stars, and leaves no copy in
//! memory when it goes.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};
use zeroize::Zeroizing;

/// What stands where a secret would.
const STARS: &str = "***";

/// A password, a seed or a token. [`Secret::reveal`] is the only way to its text.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// The text itself, for whoever needs to send it or to compute with it.
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
    fn a_secret_shows_itself_to_nobody() {
        let secret = Secret::from("geheim".to_owned());
        let json = serde_json::to_string(&secret).unwrap();
        for shown in [format!("{secret}"), format!("{secret:?}"), json] {
            assert!(!shown.contains("geheim"), "{shown}");
        }
        assert_eq!(secret.reveal(), "geheim");
    }
}
