//! The token of an incarnation.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What each token begins with, so that it is found in a text.
const BEGIN: &str = "lacuna-token-";
/// Hexadecimal digits behind that.
const DIGITS: usize = 32;
/// What is shown in place of a token.
const STARS: &str = "***";

/// What the members of one incarnation show to the store in which they meet. Control makes it. Only
/// the agents of the incarnation's nodes and their programs learn it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(String);

impl Token {
    /// The token of a number that nothing else can guess.
    #[must_use]
    pub fn new(number: u128) -> Self {
        Self(format!("{BEGIN}{number:0DIGITS$x}"))
    }

    /// Its text.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The first bytes of a text, if they have the form of a token.
    #[must_use]
    pub fn leading(text: &[u8]) -> Option<&[u8]> {
        let (token, _) = text.split_at_checked(BEGIN.len() + DIGITS)?;
        let digits = token.strip_prefix(BEGIN.as_bytes())?;
        let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        digits.iter().all(is_digit).then_some(token)
    }

    /// The text with stars in place of tokens. `torchrun` prints its token in some errors.
    #[must_use]
    pub fn hide_in(text: &str) -> String {
        let mut hidden = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, found)) = rest.find(BEGIN).map(|at| rest.split_at(at)) {
            hidden.push_str(before);
            let token = Self::leading(found.as_bytes());
            hidden.push_str(if token.is_some() { STARS } else { BEGIN });
            let length = token.map_or(BEGIN.len(), <[u8]>::len);
            rest = found.get(length..).unwrap_or_default();
        }
        hidden.push_str(rest);
        hidden
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(STARS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_found_at_the_beginning_and_hidden_everywhere() {
        let (one, two) = (Token::new(7), Token::new(u128::MAX));
        let text = format!("{}.0/key of {}", one.reveal(), two.reveal());
        let bytes = text.as_bytes();
        assert_eq!(Token::leading(bytes), Some(one.reveal().as_bytes()));
        assert_eq!(Token::leading(&bytes[1..]), None);
        assert_eq!(Token::leading(&bytes[..20]), None);
        assert_eq!(Token::hide_in(&text), "***.0/key of ***");
        for plain in [
            "",
            "no token",
            "lacuna-token-",
            "lacuna-token-x\u{e9} lacuna-t",
        ] {
            assert_eq!(Token::hide_in(plain), plain);
        }
        assert_eq!(format!("{one:?}"), "***");
    }
}
