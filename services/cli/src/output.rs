//! Output of results: one JSON value, a table, or lines for programs. Also the formats of times,
//! counts and rates.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use lacuna_model::{Span, Timestamp};

use crate::error::{CliError, Result};

/// The switch of all commands with a result.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct JsonArg {
    /// Print exactly one JSON value (times ISO-8601 UTC, durations in seconds); errors as
    /// {"error": ...} with exit code 1.
    #[arg(long)]
    pub json: bool,
}

/// The text without control characters of terminals and without marks of text direction: a result
/// may hold text of any user. Line ends and tabs stay.
#[must_use]
pub(crate) fn plain(text: &str) -> String {
    let odd = |c: char| {
        (c.is_control() && !matches!(c, '\n' | '\t'))
            || matches!(
                c,
                '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            )
    };
    text.replace(odd, "\u{fffd}")
}

/// Writes text to standard output, without control characters. A reader that has closed the pipe
/// (`| head`) is no error.
///
/// # Errors
/// Any other failure to write, such as a full disk behind a redirection.
pub fn print(text: &str) -> Result<()> {
    print_raw(&plain(text))
}

/// Writes text to standard output unchanged.
///
/// # Errors
/// As [`print()`].
pub(crate) fn print_raw(text: &str) -> Result<()> {
    let end = if text.ends_with('\n') { "" } else { "\n" };
    write(&[text, end]).map(|_| ())
}

/// Writes a part of a text to standard output, without a line end of its own, and unchanged if
/// `raw`. Returns whether the reader is still there.
///
/// # Errors
/// As [`print()`].
pub(crate) fn print_part(text: &str, raw: bool) -> Result<bool> {
    match raw {
        true => write(&[text]),
        false => write(&[plain(text).as_str()]),
    }
}

/// Writes to standard output; false if its reader has closed the pipe.
fn write(parts: &[&str]) -> Result<bool> {
    let mut out = std::io::stdout().lock();
    let written = parts
        .iter()
        .try_for_each(|part| out.write_all(part.as_bytes()));
    match written.and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(e) => Err(CliError::failed(format!(
            "cannot write to standard output: {e}"
        ))),
    }
}

/// Writes a line to standard error and ignores failures, such as a closed standard error or a full
/// disk behind a redirection: the caller must continue.
pub(crate) fn print_error(text: &str) {
    let _ = std::io::stderr().write_all(format!("{}\n", plain(text)).as_bytes());
}

/// Writes one JSON value and a line end.
///
/// # Errors
/// As [`print()`].
pub fn print_json<T: Serialize>(value: &T) -> Result<()> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|e| CliError::failed(format!("cannot write the result as json: {e}")))?;
    print(&text)
}

/// A progress bar of this length and template on standard error; hidden if `hidden`, or without a
/// terminal.
#[must_use]
pub fn progress_bar(hidden: bool, length: u64, template: &str) -> ProgressBar {
    if hidden || !std::io::stderr().is_terminal() {
        return ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
    }
    let bar = ProgressBar::new(length);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}

/// ISO-8601 in UTC, with milliseconds only if they are not zero.
#[must_use]
pub fn iso(at: Timestamp) -> String {
    at.to_string()
}

/// ISO-8601 without fractions of seconds, for tables.
#[must_use]
pub fn iso_short(at: Timestamp) -> String {
    iso(Timestamp::from_unix_ms(
        at.unix_ms().div_euclid(1000) * 1000,
    ))
}

/// Reads a time: ISO-8601 with an offset or `Z`, or Unix seconds.
///
/// # Errors
/// The text is no time; the error names the accepted forms.
pub fn parse_time(text: &str) -> std::result::Result<Timestamp, String> {
    if let Ok(seconds) = text.parse::<f64>() {
        if seconds.is_finite() && seconds.abs() < 1e13 {
            return Ok(Timestamp::from_unix_ms((seconds * 1000.0).round() as i64));
        }
        return Err(format!("{text} is no time in Unix seconds"));
    }
    text.parse::<jiff::Timestamp>()
        .map(|t| Timestamp::from_unix_ms(t.as_millisecond()))
        .map_err(|_| {
            format!("{text:?} is no time: expected ISO-8601 (2026-01-31T12:00:00Z) or Unix seconds")
        })
}

/// Parses a length of time.
///
/// # Errors
/// The text is no length of time; the error names the accepted forms.
pub fn parse_span(text: &str) -> std::result::Result<Span, String> {
    text.parse::<Span>().map_err(|e| e.to_string())
}

/// A count with a unit prefix in at most five characters: `999`, `12.3k`, `4.56M`, `1.20G`.
#[must_use]
pub fn short(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        v if !v.is_finite() => return "-".to_owned(),
        v if v >= 1e12 => (value / 1e12, "T"),
        v if v >= 1e9 => (value / 1e9, "G"),
        v if v >= 1e6 => (value / 1e6, "M"),
        v if v >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let digits = match scaled.abs() {
        v if unit.is_empty() && (v >= 100.0 || v.fract() == 0.0) => 0,
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    format!("{scaled:.digits$}{unit}")
}

/// A share in percent, with two digits.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

/// Seconds in the most readable of us, ms and s; `-` for none.
#[must_use]
pub fn latency(seconds: Option<f64>) -> String {
    match seconds {
        None => "-".to_owned(),
        Some(s) if s < 0.001 => format!("{:.0} us", s * 1e6),
        Some(s) if s < 0.0995 => format!("{:.1} ms", s * 1e3),
        Some(s) if s < 1.0 => format!("{:.0} ms", s * 1e3),
        Some(s) => format!("{s:.2} s"),
    }
}

/// The value at a quantile of a sorted list (nearest rank).
#[must_use]
pub fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_has_no_control_characters_of_terminals() {
        let said = "done\u{1b}]0;x\u{7}\t\u{9b}2J\u{202e}\r\nnext";
        let kept = "done\u{fffd}]0;x\u{fffd}\t\u{fffd}2J\u{fffd}\u{fffd}\nnext";
        assert_eq!(plain(said), kept);
    }

    #[test]
    fn times_are_iso_and_round_trip() {
        let at = Timestamp::from_unix(1_612_988_475);
        assert_eq!(iso(at), "2021-02-10T20:21:15Z");
        assert_eq!(parse_time("2021-02-10T20:21:15Z").unwrap(), at);
        assert_eq!(parse_time("2021-02-10T21:21:15+01:00").unwrap(), at);
        assert_eq!(parse_time("1612988475").unwrap(), at);
        assert_eq!(
            iso(Timestamp::from_unix_ms(1_612_988_475_250)),
            "2021-02-10T20:21:15.25Z"
        );
        assert_eq!(
            iso_short(Timestamp::from_unix_ms(-1)),
            "1969-12-31T23:59:59Z"
        );
        for bad in [
            "yesterday",
            "2021-02-30T00:00:00Z",
            "1e99",
            "2021-02-10 20:21",
        ] {
            assert!(parse_time(bad).is_err(), "{bad:?} was accepted");
        }
    }

    #[test]
    fn numbers_are_short() {
        let cases = [
            (0.0, "0"),
            (7.0, "7"),
            (7.25, "7.25"),
            (999.6, "1000"),
            (9999.0, "9999"),
            (12_345.0, "12.3k"),
            (4_560_000.0, "4.56M"),
            (-2.5e9, "-2.50G"),
            (f64::NAN, "-"),
        ];
        for (value, text) in cases {
            assert_eq!(short(value), text);
        }
        assert_eq!(latency(Some(0.0123)), "12.3 ms");
        assert_eq!(latency(Some(0.000_2)), "200 us");
        assert_eq!(latency(None), "-");
    }

    #[test]
    fn quantiles_are_nearest_rank() {
        let list: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(quantile(&list, 0.5), Some(50.0));
        assert_eq!(quantile(&list, 0.99), Some(99.0));
        assert_eq!(quantile(&list, 1.0), Some(100.0));
        assert_eq!(quantile(&[], 0.5), None);
    }
}
