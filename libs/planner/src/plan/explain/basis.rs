//! The basis of a rate as text.

use lacuna_model::{Basis, MeasuredRate, Timestamp};

use super::nodes;

/// The basis of a trainer's rate on `count` nodes at `now`, as a clause.
#[must_use]
pub fn known(basis: &Basis, count: u32, now: Timestamp) -> String {
    match basis {
        Basis::Measured(rate) => format!(
            "its rate on {} is measured: {}",
            nodes(count),
            measured(rate, now)
        ),
        Basis::Between { below: 0, above } => format!(
            "its rate on {} is interpolated between 0 and the measured rate on {above}",
            nodes(count)
        ),
        Basis::Between { below, above } => format!(
            "its rate on {} is interpolated between the measured rates on {below} and {above}",
            nodes(count)
        ),
        Basis::Replayed { nodes: of, error } => format!(
            "its rate on {} is not measured: from the replay of a step on {}, which is {:.0} % off \
             where it can be checked",
            nodes(count),
            nodes(*of),
            100.0 * error
        ),
        Basis::Limited { last } => format!(
            "its rate on {} is not measured: beyond {last} its loaders limit, and more nodes bring \
             nothing",
            nodes(count)
        ),
        Basis::Beyond { last } => format!(
            "its rate on {} is assumed: beyond {last} it is not measured, and goes on linearly",
            nodes(count)
        ),
        Basis::Assumed => format!(
            "its rate on {} is assumed: nothing was measured yet",
            nodes(count)
        ),
        Basis::Submitted => format!("its rate on {} is as submitted", nodes(count)),
        Basis::Brings => "its rate is what it brings its trainer".to_owned(),
    }
}

/// A measured rate with its spread, how often it was measured, how long ago, and on whom.
#[must_use]
pub fn measured(rate: &MeasuredRate, now: Timestamp) -> String {
    let from = match &rate.from {
        Some(other) => format!(", of {other}, same program"),
        None => String::new(),
    };
    format!(
        "{} +- {} samples/s ({} times, newest {} ago{from})",
        digits(rate.rate),
        digits(rate.spread),
        rate.count,
        age(now.since(rate.at).as_secs_f64())
    )
}

/// Three significant digits, or all of a larger number.
fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 || size == 0.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// A length of time in its largest unit.
fn age(seconds: f64) -> String {
    let seconds = seconds.max(0.0);
    match seconds {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.0} h", s / 3600.0),
        s => format!("{:.0} days", s / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lacuna_model::TrainerId;

    #[test]
    fn how_a_rate_is_known_is_said_plainly() {
        let now = Timestamp::from_unix(1000);
        let mut rate = MeasuredRate {
            nodes: 4,
            rate: 12.34,
            spread: 0.4,
            count: 14,
            at: Timestamp::from_unix(820),
            from: None,
        };
        assert_eq!(
            known(&Basis::Measured(rate.clone()), 4, now),
            "its rate on 4 nodes is measured: 12.3 +- 0.400 samples/s (14 times, newest 3 min ago)"
        );
        rate.from = TrainerId::new("x").ok();
        assert!(measured(&rate, now).ends_with("newest 3 min ago, of x, same program)"));
        let text = |basis| known(&basis, 3, now);
        let between = |below| text(Basis::Between { below, above: 4 });
        assert!(between(2).ends_with("between the measured rates on 2 and 4"));
        assert!(between(0).ends_with("between 0 and the measured rate on 4"));
        assert!(text(Basis::Beyond { last: 2 }).contains("assumed: beyond 2"));
        let replayed = Basis::Replayed {
            nodes: 2,
            error: 0.031,
        };
        let expected = "from the replay of a step on 2 nodes, which is 3 % off where";
        assert!(text(replayed).contains(expected));
        assert!(text(Basis::Limited { last: 2 }).contains("beyond 2 its loaders limit"));
        assert!(text(Basis::Assumed).contains("nothing was measured"));
    }
}
