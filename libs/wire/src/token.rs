//! Names as subject tokens. A token has only `A-Z a-z 0-9 - _`; every other byte of the name,
//! and `_` itself, becomes `_` and two upper-case hexadecimal digits.

/// Why a token was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("subject token {token:?} is not an escaped name")]
pub struct TokenError {
    /// The token as it was given.
    pub token: String,
}

/// The token of a name: `a01n02.example.org` becomes `a01n02_2Eexample_2Eorg`.
#[must_use]
pub fn escape(name: &str) -> String {
    let mut token = String::with_capacity(name.len() + 8);
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' {
            token.push(char::from(byte));
        } else {
            token.push('_');
            for digit in [byte >> 4, byte & 15] {
                let digit = char::from_digit(u32::from(digit), 16).unwrap_or('0');
                token.push(digit.to_ascii_uppercase());
            }
        }
    }
    token
}

/// The name of a token.
///
/// # Errors
/// [`TokenError`] for anything that [`escape`] does not produce.
pub fn unescape(token: &str) -> Result<String, TokenError> {
    let refuse = || TokenError {
        token: token.to_owned(),
    };
    let mut bytes = Vec::with_capacity(token.len());
    let mut rest = token.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'_' {
            let mut value = 0;
            for _ in 0..2 {
                let digit = rest.next().map(char::from).and_then(|c| c.to_digit(16));
                value = value * 16 + digit.ok_or_else(refuse)?;
            }
            bytes.push(u8::try_from(value).map_err(|_| refuse())?);
        } else {
            bytes.push(byte);
        }
    }
    let name = String::from_utf8(bytes).map_err(|_| refuse())?;
    if escape(&name) == token {
        Ok(name)
    } else {
        Err(refuse())
    }
}

/// The name in the last token of a subject, if it is an escaped one.
#[must_use]
pub fn last_name(subject: &str) -> Option<String> {
    unescape(subject.rsplit('.').next()?).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn dots_and_underscores_are_escaped() {
        assert_eq!(escape("a01.b_c-9"), "a01_2Eb_5Fc-9");
        assert_eq!(unescape("a01_2Eb_5Fc-9").unwrap(), "a01.b_c-9");
        for bad in ["a.b", "a_", "a_2", "a_2e", "a_zz", "_41", "a b", "_FF"] {
            assert!(unescape(bad).is_err(), "{bad:?} was accepted");
        }
    }

    proptest! {
        #[test]
        fn every_name_survives(name in "\\PC{0,40}") {
            let token = escape(&name);
            prop_assert!(token.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'));
            prop_assert_eq!(unescape(&token).unwrap(), name);
        }
    }
}
