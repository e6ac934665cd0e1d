//! The predictors of an evaluation, by name.

use std::str::FromStr;

use lacuna_forecast::{Choice, OrderBy};
use lacuna_model::Span;

/// The length of the constant baseline, seconds, as in BFTrainer.
const CONSTANT_S: f64 = 120.0;

/// A predictor as typed: `NAME`, or `NAME=TIME` if it has a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Named {
    /// Each hole lasts this many seconds more.
    Constant(f64),
    /// Each hole lasts as long again as its age.
    Persistence,
    /// A survival curve by age.
    Survival,
    /// A hazard by age, place in the order and other features.
    Hazard,
}

/// The baselines of each comparison.
const BASELINES: [Named; 3] = [
    Named::Survival,
    Named::Persistence,
    Named::Constant(CONSTANT_S),
];

impl FromStr for Named {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, time) = match text.split_once('=') {
            Some((name, time)) => (name, Some(time)),
            None => (text, None),
        };
        let plain = match name {
            "constant" => {
                let length = time.map_or(Ok(Span::from_secs_f64(CONSTANT_S)), |time| {
                    time.parse::<Span>().map_err(|e| e.to_string())
                })?;
                if length <= Span::ZERO {
                    return Err(format!("{text}: expected a time above zero"));
                }
                return Ok(Self::Constant(length.as_secs_f64()));
            }
            "persistence" => Self::Persistence,
            "survival" | "age" => Self::Survival,
            "hazard" => Self::Hazard,
            _ => {
                return Err(format!(
                    "{name:?} is no predictor: expected hazard, survival (also called age), \
                     persistence, or constant=TIME"
                ));
            }
        };
        match time {
            Some(_) => Err(format!("{name} takes no time: leave the = out")),
            None => Ok(plain),
        }
    }
}

/// A length of time in its largest whole unit: `2m`, `90s`, `1h`.
pub(super) fn short_span(seconds: f64) -> String {
    let whole = |unit: f64| seconds >= unit && (seconds / unit).fract() == 0.0;
    if whole(3600.0) {
        format!("{}h", seconds / 3600.0)
    } else if whole(60.0) {
        format!("{}m", seconds / 60.0)
    } else {
        format!("{seconds}s")
    }
}

impl Named {
    fn label(self) -> String {
        match self {
            Self::Constant(length_s) => format!("constant {}", short_span(length_s)),
            Self::Persistence => "persistence".to_owned(),
            Self::Survival => "age".to_owned(),
            Self::Hazard => "hazard".to_owned(),
        }
    }

    fn choice(self, order: &OrderBy) -> Choice {
        match self {
            Self::Constant(length_s) => Choice::Constant { length_s },
            Self::Persistence => Choice::Persistence,
            Self::Survival => Choice::survival(),
            Self::Hazard => Choice::hazard(order.clone()),
        }
    }
}

/// The chosen predictors (by default the hazard) and the baselines after them, each once.
pub(super) fn all(named: &[Named], order: &OrderBy) -> Vec<(String, Choice)> {
    let asked = if named.is_empty() {
        &[Named::Hazard][..]
    } else {
        named
    };
    let mut all: Vec<Named> = Vec::new();
    for &one in asked {
        if !all.contains(&one) {
            all.push(one);
        }
    }
    for one in BASELINES {
        let is_constant = |one: &Named| matches!(one, Named::Constant(_));
        let there = all.contains(&one) || (is_constant(&one) && all.iter().any(is_constant));
        if !there {
            all.push(one);
        }
    }
    all.into_iter()
        .map(|one| (one.label(), one.choice(order)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(names: &[&str]) -> Vec<String> {
        let named: Vec<Named> = names.iter().map(|name| name.parse().unwrap()).collect();
        all(&named, &OrderBy::Learnt)
            .into_iter()
            .map(|(label, _)| label)
            .collect()
    }

    #[test]
    fn the_baselines_are_always_included_and_no_predictor_is_twice() {
        let usual = ["hazard", "age", "persistence", "constant 2m"];
        assert_eq!(labels(&[]), usual);
        assert_eq!(
            labels(&["constant=5m", "age", "age", "constant=300s"]),
            ["constant 5m", "age", "persistence"]
        );
    }

    #[test]
    fn the_order_is_passed_to_the_hazard() {
        let named = all(&[Named::Hazard], &OrderBy::None);
        assert!(matches!(
            &named[0].1,
            Choice::Hazard {
                order: OrderBy::None,
                ..
            }
        ));
        assert!(named.iter().all(|(_, choice)| choice.check().is_ok()));
    }

    #[test]
    fn errors_name_the_expectation() {
        for (text, words) in [
            ("boosting", "expected hazard"),
            ("constant=0s", "above zero"),
            ("constant=soon", "soon"),
            ("age=5m", "takes no time"),
        ] {
            let error = text.parse::<Named>().unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
