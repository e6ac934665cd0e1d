//! Patterns of node names, with ranges and wildcards.

/// Why a pattern was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no pattern of node names: {wrong} (expected as in a[01-16]n*)")]
pub struct PatternError {
    /// The pattern.
    pub text: String,
    /// The fault in it.
    pub wrong: &'static str,
}

/// The longest pattern.
const LONGEST: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// Exactly this text.
    Text(String),
    /// Any text, the empty one too.
    Any,
    /// Any one character.
    One,
    /// A number within one of these ranges, padded with zeros to the width of the range.
    Number(Vec<Range>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    first: u64,
    last: u64,
    width: usize,
}

impl Range {
    fn has(self, digits: &str) -> bool {
        let Ok(number) = digits.parse::<u64>() else {
            return false;
        };
        // `a[1-16]` means a1 and not a01; `a[01-16]` means a01 and not a1.
        let padded = digits.len() == self.width.max(number.to_string().len());
        padded && (self.first..=self.last).contains(&number)
    }
}

/// A pattern of node names, as in `a[01-16,20]n*`: text, `*` for any text, `?` for one character,
/// and numbers in brackets. Numbers are padded like the first number of their range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    parts: Vec<Part>,
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// [`PatternError`] if it is empty or longer than 256 characters, has white space or commas
    /// outside of brackets, a bracket that is not closed, or a range that runs backwards.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let refuse = |wrong| PatternError {
            text: text.to_owned(),
            wrong,
        };
        if text.is_empty() || text.len() > LONGEST {
            return Err(refuse("it is empty or longer than 256 characters"));
        }
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text.chars();
        while let Some(next) = rest.next() {
            let part = match next {
                '*' => Part::Any,
                '?' => Part::One,
                '[' => {
                    let (inside, after) = rest
                        .as_str()
                        .split_once(']')
                        .ok_or_else(|| refuse("a bracket is not closed"))?;
                    rest = after.chars();
                    Part::Number(ranges(inside).map_err(refuse)?)
                }
                ']' => return Err(refuse("a bracket is closed that was not opened")),
                ',' => return Err(refuse("a comma is outside of brackets")),
                c if c.is_whitespace() => return Err(refuse("it has white space")),
                c => {
                    plain.push(c);
                    continue;
                }
            };
            if !plain.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut plain)));
            }
            if part != Part::Any || parts.last() != Some(&Part::Any) {
                parts.push(part);
            }
        }
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        if parts.iter().filter(|part| **part == Part::Any).count() > 3 {
            return Err(refuse("it has more than three *"));
        }
        Ok(Self { parts })
    }

    /// Whether the pattern matches a whole name.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        fits(&self.parts, name)
    }
}

fn fits(parts: &[Part], name: &str) -> bool {
    let Some((part, more)) = parts.split_first() else {
        return name.is_empty();
    };
    match part {
        Part::Text(text) => name
            .strip_prefix(text.as_str())
            .is_some_and(|n| fits(more, n)),
        Part::One => {
            let mut rest = name.chars();
            rest.next().is_some() && fits(more, rest.as_str())
        }
        Part::Any => {
            let mut ends = name.char_indices().map(|(at, _)| at).chain([name.len()]);
            ends.any(|at| name.get(at..).is_some_and(|n| fits(more, n)))
        }
        Part::Number(ranges) => {
            let digits = name.bytes().take_while(u8::is_ascii_digit).count();
            // More digits may follow a number only if the rest of the pattern matches them.
            (1..=digits).rev().any(|end| {
                name.split_at_checked(end).is_some_and(|(number, rest)| {
                    ranges.iter().any(|range| range.has(number)) && fits(more, rest)
                })
            })
        }
    }
}

fn ranges(inside: &str) -> Result<Vec<Range>, &'static str> {
    inside
        .split(',')
        .map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let number = |text: &str| {
                let digits = text.len() <= 18 && text.bytes().all(|b| b.is_ascii_digit());
                text.parse::<u64>()
                    .ok()
                    .filter(|_| digits)
                    .ok_or("brackets hold numbers and ranges of numbers")
            };
            let range = Range {
                first: number(first)?,
                last: number(last)?,
                // Without padding, numbers have no leading zeros.
                width: if first.starts_with('0') {
                    first.len()
                } else {
                    0
                },
            };
            if range.first > range.last {
                return Err("a range runs backwards");
            }
            Ok(range)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(pattern: &str, name: &str) -> bool {
        Pattern::parse(pattern).is_ok_and(|p| p.matches(name))
    }

    #[test]
    fn ranges_are_padded_as_they_are_written() {
        for name in ["a01", "a09", "a16", "a20"] {
            assert!(has("a[01-16,20]", name), "{name}");
        }
        for name in ["a1", "a17", "a001", "a", "b01", "a01x"] {
            assert!(!has("a[01-16,20]", name), "{name}");
        }
        assert!(has("a[1-16]", "a9") && !has("a[1-16]", "a09"));
        assert!(has("a[8-12]n[0-1]", "a10n0") && !has("a[8-12]n[0-1]", "a10n2"));
        assert!(has("n[098-102]", "n098") && has("n[098-102]", "n102"));
        assert!(has("n[0-3]", "n0"));
    }

    #[test]
    fn stars_and_question_marks_stand_for_text() {
        assert!(has("a[01-02]n*", "a02n17.example.org"));
        assert!(has("*", "x") && has("gpu*7", "gpu-a-17") && has("n?", "nx"));
        assert!(!has("gpu*7", "gpu-a-18") && !has("n?", "n") && !has("n?", "n12"));
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for (text, wrong) in [
            ("", "empty"),
            ("a[01", "not closed"),
            ("a01]", "not opened"),
            ("a[5-2]", "backwards"),
            ("a[x]", "numbers"),
            ("a[]", "numbers"),
            ("a b", "white space"),
            ("a,b", "comma"),
            ("*a*b*c*", "more than three"),
        ] {
            let error = Pattern::parse(text).err().map(|e| e.to_string());
            assert!(
                error.as_ref().is_some_and(|e| e.contains(wrong)),
                "{text}: {error:?}"
            );
        }
    }
}
