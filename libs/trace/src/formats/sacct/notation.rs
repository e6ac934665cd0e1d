//! Times in the notation of `SLURM_TIME_FORMAT`, other than the standard one.
//!
//! Source: the manual page of `sacct`, and `src/common/parse_time.c` of Slurm: `standard`,
//! `relative`, or any format of strftime(3). A notation is read if it has a whole date and only one
//! meaning: the month by its name, or the year in front. Weekdays are ignored.

use lacuna_records::fields::unsigned;
use lacuna_records::times::civil;

const MONTHS: [&[u8]; 12] = [
    b"january",
    b"february",
    b"march",
    b"april",
    b"may",
    b"june",
    b"july",
    b"august",
    b"september",
    b"october",
    b"november",
    b"december",
];

const DAYS: [&[u8]; 7] = [
    b"sunday",
    b"monday",
    b"tuesday",
    b"wednesday",
    b"thursday",
    b"friday",
    b"saturday",
];

/// The place of a name of which the first three letters or all are written.
fn place(names: &[&[u8]], word: &[u8]) -> Option<usize> {
    names.iter().position(|name| {
        let short = name.get(..3).unwrap_or(name);
        word.eq_ignore_ascii_case(name) || word.eq_ignore_ascii_case(short)
    })
}

/// The parts of a time.
#[derive(Debug, Default)]
struct Written {
    /// Numbers outside the time of day, as texts.
    numbers: Vec<Vec<u8>>,
    month: Option<usize>,
    /// Hour, minute and second.
    clock: Option<Vec<u64>>,
    is_afternoon: Option<bool>,
    is_utc: bool,
    has_weekday: bool,
    /// A word that no full date has.
    is_odd: bool,
}

impl Written {
    fn of(text: &[u8]) -> Self {
        let mut written = Self::default();
        let is_same = |a: &u8, b: &u8| {
            let of = |byte: &u8| {
                (
                    byte.is_ascii_digit() || *byte == b':',
                    byte.is_ascii_alphabetic(),
                )
            };
            of(a) == of(b)
        };
        for part in text.chunk_by(is_same) {
            match part {
                [first, ..] if first.is_ascii_digit() => written.number(part),
                [first, ..] if first.is_ascii_alphabetic() => written.word(part),
                _ if part.iter().all(|byte| b" -/.,_".contains(byte)) => {}
                _ => written.is_odd = true,
            }
        }
        written
    }

    fn number(&mut self, part: &[u8]) {
        // A shorter part may have been cut off.
        let whole = |(at, part): (usize, &[u8])| {
            let is_whole = part.len() == 2 || (at == 0 && part.len() == 1);
            unsigned(part).filter(|_| is_whole)
        };
        let parts = part.split(|&byte| byte == b':').enumerate();
        let clock: Option<Vec<u64>> = parts.map(whole).collect();
        match (memchr::memchr(b':', part), clock) {
            (None, _) => self.numbers.push(part.to_vec()),
            (Some(_), Some(clock)) if self.clock.is_none() && clock.len() <= 3 => {
                self.clock = Some(clock);
            }
            _ => self.is_odd = true,
        }
    }

    fn word(&mut self, word: &[u8]) {
        let month = place(&MONTHS, word);
        if month.is_some() && self.month.is_none() {
            self.month = month;
        } else if place(&DAYS, word).is_some() {
            self.has_weekday = true;
        } else if word.eq_ignore_ascii_case(b"am") || word.eq_ignore_ascii_case(b"pm") {
            self.is_afternoon = Some(word.eq_ignore_ascii_case(b"pm"));
        } else if [&b"utc"[..], b"gmt", b"z"]
            .iter()
            .any(|utc| word.eq_ignore_ascii_case(utc))
        {
            self.is_utc = true;
        } else if !matches!(word, b"T") {
            self.is_odd = true;
        }
    }

    /// Year, month and day.
    fn date(&self) -> Option<[i64; 3]> {
        let number = |text: &[u8]| unsigned(text).and_then(|number| i64::try_from(number).ok());
        let of = |at: usize| self.numbers.get(at).map(Vec::as_slice);
        match (self.month, self.numbers.as_slice()) {
            (Some(month), [one, two]) => {
                let (year, day) = match (one.len(), two.len()) {
                    (4, 1 | 2) => (one, two),
                    (1 | 2, 4) => (two, one),
                    _ => return None,
                };
                Some([number(year)?, month as i64 + 1, number(day)?])
            }
            (None, [year, month, day]) if year.len() == 4 && month.len() <= 2 && day.len() <= 2 => {
                Some([number(year)?, number(month)?, number(day)?])
            }
            (None, [day, ..]) if day.len() == 8 && self.numbers.len() <= 2 => {
                let part = |from, to| number(of(0)?.get(from..to)?);
                Some([part(0, 4)?, part(4, 6)?, part(6, 8)?])
            }
            _ => None,
        }
    }

    /// Hour, minute and second; seconds may be absent.
    fn time_of_day(&self) -> Option<[i64; 3]> {
        let compact = self.numbers.get(1).filter(|_| self.month.is_none());
        let clock: Vec<u64> = match (&self.clock, compact) {
            (Some(clock), _) => clock.clone(),
            // Behind a date of eight digits, as in `20161221T214334`.
            (None, Some(digits)) if digits.len() == 6 => {
                let part = |from, to| unsigned(digits.get(from..to)?);
                vec![part(0, 2)?, part(2, 4)?, part(4, 6)?]
            }
            _ => return None,
        };
        let [hour, minute, rest @ ..] = clock.as_slice() else {
            return None;
        };
        let hour = match (self.is_afternoon, hour) {
            (None, hour) => *hour,
            (Some(is_afternoon), 1..=12) => hour % 12 + if is_afternoon { 12 } else { 0 },
            (Some(_), _) => return None,
        };
        let second = rest.first().copied().unwrap_or(0);
        let [hour, minute, second] = [hour, *minute, second].map(|n| i64::try_from(n).ok());
        Some([hour?, minute?, second?])
    }
}

/// Seconds since 1970 of a time with one meaning, counted as UTC, and whether it is in UTC.
pub(super) fn local(text: &[u8]) -> Option<(i64, bool)> {
    let written = Written::of(text);
    if written.is_odd {
        return None;
    }
    let ([year, month, day], [hour, minute, second]) = (written.date()?, written.time_of_day()?);
    let local = civil(year, month, day, hour, minute, second)?;
    Some((local, written.is_utc))
}

/// Whether a text is a time with another meaning on another day or in another country: of
/// `SLURM_TIME_FORMAT=relative` (`Ystday 14:22`, `14:22:31`, `Mon 14:22`, `3 Nov 14:22`, `3 Nov 2025`),
/// or with day and month as numbers in front (`03/11/2025 14:22`).
pub(super) fn is_unclear(text: &[u8]) -> bool {
    let relative = [&b"Ystday "[..], b"Tomorr "];
    let rest = relative.iter().find_map(|word| text.strip_prefix(*word));
    let written = Written::of(rest.unwrap_or(text));
    let lengths: Vec<usize> = written.numbers.iter().map(Vec::len).collect();
    let has_clock = written.clock.is_some();
    !written.is_odd
        && match (lengths.as_slice(), written.month) {
            ([], None) => has_clock,
            ([1 | 2], Some(_)) => has_clock,
            ([1 | 2, 4], Some(_)) => !has_clock,
            ([1 | 2, 1 | 2, 2 | 4], None) => true,
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_date_with_one_meaning_is_read() {
        let expected = civil(2025, 11, 3, 14, 22, 31);
        for text in [
            "2025/11/03 14:22:31",
            "2025.11.3 14:22:31",
            "20251103T142231",
            "20251103 14:22:31",
            "Mon Nov  3 14:22:31 2025",
            "Mon, 03 Nov 2025 14:22:31",
            "November 3, 2025 02:22:31 PM",
            "03-Nov-2025 14:22:31",
        ] {
            assert_eq!(
                local(text.as_bytes()),
                expected.map(|at| (at, false)),
                "{text}"
            );
            assert!(!is_unclear(text.as_bytes()), "{text}");
        }
        let minute = civil(2025, 11, 3, 14, 22, 0).map(|at| (at, true));
        assert_eq!(local(b"2025/11/03 14:22 UTC"), minute);
    }

    #[test]
    fn a_time_with_another_meaning_elsewhere_is_unclear() {
        for text in [
            "Ystday 14:22",
            "Tomorr 14:22",
            "14:22:31",
            "Mon 14:22",
            "3 Nov 14:22",
            "3 Nov 2025",
            "03/11/2025 14:22:31",
            "11/03/25 14:22",
        ] {
            assert_eq!(local(text.as_bytes()), None, "{text}");
            assert!(is_unclear(text.as_bytes()), "{text}");
        }
        for text in [
            "",
            "x",
            "2025-11-03T14:22:3",
            "2025-13-03 14:22:31",
            "Unknown",
            "12",
            "CET",
        ] {
            assert_eq!(local(text.as_bytes()), None, "{text}");
            assert!(!is_unclear(text.as_bytes()), "{text}");
        }
    }
}
