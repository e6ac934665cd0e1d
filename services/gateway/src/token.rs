//! The token of the page.

use std::path::{Path, PathBuf};

/// The shortest accepted token, in characters.
const SHORTEST: usize = 16;

/// Why the token cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenError {
    /// Its file cannot be read.
    #[error("gateway.token_file: cannot read {path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The file holds no token.
    #[error(
        "gateway.token_file: {path} holds no token: expected one line of {SHORTEST} characters or \
         more, letters, digits, - and _ (openssl rand -hex 24)", path = path.display()
    )]
    Unusable {
        /// The file.
        path: PathBuf,
    },
}

/// A secret that is never printed, not even in a log.
#[derive(Clone)]
pub(crate) struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

impl Token {
    /// Reads the token of a file.
    ///
    /// # Errors
    /// If the file cannot be read, or holds no usable token.
    pub(crate) fn read(path: &Path) -> Result<Self, TokenError> {
        let text = std::fs::read_to_string(path).map_err(|source| TokenError::Read {
            path: path.to_owned(),
            source,
        })?;
        let token = text.trim();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        if token.len() < SHORTEST || !token.chars().all(plain) {
            return Err(TokenError::Unusable {
                path: path.to_owned(),
            });
        }
        Ok(Self(token.to_owned()))
    }

    /// Whether the given token is the right one. A wrong one of the same length takes the same
    /// time.
    pub(crate) fn is(&self, given: &str) -> bool {
        let (own, given) = (self.0.as_bytes(), given.as_bytes());
        let differ = own.iter().zip(given).fold(0, |all, (a, b)| all | (a ^ b));
        own.len() == given.len() && differ == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_compared_and_never_printed() {
        let token = Token("0123456789abcdef".to_owned());
        assert!(token.is("0123456789abcdef"));
        for wrong in [
            "",
            "0123456789abcdeF",
            "0123456789abcde",
            "0123456789abcdef0",
        ] {
            assert!(!token.is(wrong), "{wrong}");
        }
        assert!(!format!("{token:?}").contains("0123"));
    }

    #[test]
    fn a_file_without_a_token_is_refused_with_its_name() {
        let error = Token::read(Path::new("/nonexistent/token")).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/token"), "{error}");
        let error = Token::read(Path::new("/dev/null")).unwrap_err();
        assert!(error.to_string().contains("holds no token"), "{error}");
    }
}
