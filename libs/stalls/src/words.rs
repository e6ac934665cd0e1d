//! Where the time of a step goes, in words.

use std::fmt::Write;

use lacuna_model::StepCosts;

use crate::advice::{advice_in_words, time};

/// The whole answer as lines: the step, what each cause costs, and the advice or why there is none.
#[must_use]
pub fn in_words(found: &StepCosts) -> String {
    let members = match found.members {
        1 => "1 member".to_owned(),
        members => format!("{members} members"),
    };
    let mut text = format!(
        "a step of {members} takes {}, a mean of {} steps\n",
        time(found.measured),
        found.steps
    );
    if found.left_out > 0 {
        let _ = writeln!(text, "  left out: {} unusual steps", found.left_out);
    }
    let width = 30.0;
    let bar = |seconds: f64| {
        let part = if found.replayed > 0.0 {
            seconds / found.replayed
        } else {
            0.0
        };
        let full = (part.clamp(0.0, 1.0) * width).round();
        (0..30_u32)
            .map(|i| if f64::from(i) < full { '#' } else { '.' })
            .collect::<String>()
    };
    let _ = writeln!(
        text,
        "  {:<12} {} {:>8}",
        "computes",
        bar(found.computes),
        time(found.computes)
    );
    for cost in &found.costs {
        let name = cost.cause.name();
        // Moving a slow member to the mean of the others can cost a little.
        let seconds = cost.seconds.max(0.0);
        let percent = cost.percent.max(0.0);
        let _ = writeln!(
            text,
            "  {name:<12} {} {:>8} {percent:>4.0} %",
            bar(seconds),
            time(seconds)
        );
    }
    if !found.trusted {
        let off = 100.0 * (found.replayed / found.measured - 1.0);
        let _ = writeln!(
            text,
            "  the replayed step is {off:+.1} % off the measured one: this program does something \
             that the replay does not know, so there is no advice"
        );
    }
    for advice in &found.advice {
        let _ = writeln!(text, "  {}", advice_in_words(advice));
    }
    text
}
