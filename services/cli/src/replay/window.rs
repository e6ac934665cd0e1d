//! The part of a replay that is examined: a part of its time, or one of its decisions.

use std::path::PathBuf;
use std::str::FromStr;

use lacuna_model::{Span, Timestamp};

use crate::output::parse_time;

/// A moment: absolute, or relative to the start of the replay.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Moment {
    At(Timestamp),
    After(Span),
}

impl Moment {
    fn since(self, start: Timestamp) -> f64 {
        match self {
            Self::At(at) => at.since(start).as_secs_f64(),
            Self::After(span) => span.as_secs_f64(),
        }
    }
}

/// A part of the replay's time, as `FROM..UNTIL`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Part {
    from: Moment,
    until: Moment,
}

impl Part {
    /// The part in seconds since the start of the replay.
    ///
    /// # Errors
    /// The part ends before it begins.
    pub(super) fn seconds(self, start: Timestamp) -> Result<(f64, f64), String> {
        let (from, until) = (self.from.since(start).max(0.0), self.until.since(start));
        if until > from {
            Ok((from, until))
        } else {
            Err("--gantt: it ends before it begins, or before the replay does".to_owned())
        }
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (from, until) = text
            .split_once("..")
            .ok_or_else(|| format!("{text:?} is no part of time: expected FROM..UNTIL"))?;
        let moment = |text: &str| match text.trim().parse::<Span>() {
            Ok(span) => Ok(Moment::After(span)),
            Err(_) => parse_time(text.trim()).map(Moment::At).map_err(|what| {
                format!("{what}, or a length of time since the start of the replay (6h)")
            }),
        };
        Ok(Self {
            from: moment(from)?,
            until: moment(until)?,
        })
    }
}

/// The choice of one decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// The decision of an event, counted from 0.
    Event(u64),
    /// The decision that took longest.
    Hardest,
}

/// A decision and the file that its problem is saved in, as `FILE[@EVENT|@hardest]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedProblem {
    /// The choice of the decision.
    pub(super) decision: Decision,
    /// The file.
    pub(super) file: PathBuf,
}

impl FromStr for SavedProblem {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = text.rsplit_once('@').and_then(|(file, decision)| {
            let decision = match decision {
                "hardest" => Some(Decision::Hardest),
                number => number.parse().ok().map(Decision::Event),
            };
            decision.map(|decision| (file, decision))
        });
        let (file, decision) = known.unwrap_or((text, Decision::Hardest));
        if file.is_empty() {
            return Err("expected the name of a file before @".to_owned());
        }
        Ok(Self {
            decision,
            file: file.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_time_are_moments_or_lengths() {
        let start = Timestamp::from_unix(946_684_800);
        let part: Part = "2000-01-01T01:00:00Z..6h".parse().unwrap();
        assert_eq!(part.seconds(start), Ok((3600.0, 21_600.0)));
        let part: Part = "946684000..946684860".parse().unwrap();
        assert_eq!(part.seconds(start), Ok((0.0, 60.0)));
        let part: Part = "6h..1h".parse().unwrap();
        assert!(part.seconds(start).is_err());
        for bad in ["6h", "..", "soon..6h", "1h..later"] {
            assert!(bad.parse::<Part>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_decision_is_named_after_the_file() {
        let saved = |text: &str| text.parse::<SavedProblem>().unwrap();
        let of = |file: &str, decision| SavedProblem {
            decision,
            file: file.into(),
        };
        assert_eq!(saved("p.json"), of("p.json", Decision::Hardest));
        assert_eq!(saved("p.json@hardest"), of("p.json", Decision::Hardest));
        assert_eq!(saved("p.json@7"), of("p.json", Decision::Event(7)));
        assert_eq!(saved("a@b.json"), of("a@b.json", Decision::Hardest));
        assert_eq!(saved("p@0"), of("p", Decision::Event(0)));
        assert_eq!(saved("p@last"), of("p@last", Decision::Hardest));
        assert!("@7".parse::<SavedProblem>().is_err());
    }
}
