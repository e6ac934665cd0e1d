//! Text of a header, whose length has a fixed most.
//!
//! Ids, sources and kinds come from other programs, and an id becomes the correlation of all that
//! follows. The server refuses long headers for good, so no text may grow on the way.

use std::fmt;
use std::ops::Deref;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use sha2::{Digest as _, Sha256};

/// Characters that CloudEvents escapes in header values (NATS protocol binding 1.0.2, 3.1.3.2):
/// space, double quote, percent, and all outside printable ASCII.
const ESCAPED: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'%');

/// Most bytes of a text, escaped.
const MOST: usize = 128;

/// Text of a header: 128 bytes at most, escaped. A longer one is kept as its SHA-256, so equal texts
/// stay equal and different ones different.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HeaderText(String);

impl HeaderText {
    /// The text, or its hash if it is too long.
    #[must_use]
    pub fn of(text: &str) -> Self {
        // An escaped text is no shorter than the text.
        let escaped = utf8_percent_encode(text, ESCAPED).map(str::len);
        let fits = text.len() <= MOST && escaped.sum::<usize>() <= MOST;
        Self(if fits {
            text.to_owned()
        } else {
            let hash = Sha256::digest(text);
            let hex = hash.iter().map(|byte| format!("{byte:02x}"));
            format!("sha256:{}", hex.collect::<String>())
        })
    }

    /// The text as a header's value.
    #[must_use]
    pub fn escaped(&self) -> String {
        utf8_percent_encode(&self.0, ESCAPED).to_string()
    }
}

impl Deref for HeaderText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl PartialEq<&str> for HeaderText {
    fn eq(&self, text: &&str) -> bool {
        self.0 == *text
    }
}

impl fmt::Display for HeaderText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_kept_as_its_hash_and_stays_what_it_is() {
        for (text, kept) in [("", true), ("a-7", true), (" \"%\u{fc}", true)] {
            assert_eq!(&*HeaderText::of(text) == text, kept);
        }
        let most = "x".repeat(MOST);
        assert_eq!(&*HeaderText::of(&most), most);
        let long = [
            "x".repeat(MOST + 1),
            "x".repeat(900_000),
            "\"".repeat(MOST / 3 + 1),
            "\u{fc}".repeat(23_000),
            "\n".repeat(64),
        ];
        let mut seen = std::collections::BTreeSet::new();
        for text in &long {
            let kept = HeaderText::of(text);
            assert!(kept.escaped().len() <= MOST, "{kept}");
            assert_eq!(HeaderText::of(&kept), kept, "read again");
            assert_eq!(HeaderText::of(text), kept);
            seen.insert(kept);
        }
        assert_eq!(seen.len(), long.len());
    }
}
