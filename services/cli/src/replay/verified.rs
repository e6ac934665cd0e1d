//! The comparison of each decision with that of a second method, in words.

use lacuna_sim::{Settings, Summary, Verified};

use crate::error::{CliError, Result};
use crate::output::percent;

/// The error of a verification that failed.
///
/// # Errors
/// A decision is wrong, or falls short of what is allowed.
pub(super) fn disagreement(summary: &Summary, settings: &Settings) -> Result<()> {
    let Some(verified) = summary.verified.filter(|_| settings.verify) else {
        return Ok(());
    };
    if verified.is_good() {
        return Ok(());
    }
    let unproven = format!("{} solves were not proven optimal", verified.unproven);
    Err(CliError::failed(if settings.policy.forecasts() {
        format!(
            "verify: {} of {} plans by forecasts are wrong: not worth what they say (to 1e-6), worth \
             less than keeping all, or short of the judge's answer by more than {}; in sum \
             plans fall short by {}, allowed {}; {unproven}",
            verified.disagreements,
            verified.decisions,
            percent(Verified::SHORT_OF_ONE),
            percent(verified.shortfall),
            percent(Verified::SHORT_OF_ALL),
        )
    } else {
        format!(
            "verify: dp and milp disagree at {} of {} events (worst relative difference {:.3e}, \
             allowed 1e-6); {unproven}",
            verified.disagreements, verified.decisions, verified.worst_difference
        )
    }))
}

/// The result of the verification in words.
pub(super) fn in_words(verified: &Verified, by_forecasts: bool) -> String {
    if !by_forecasts {
        return format!(
            "{} decisions by dp and milp, worst relative difference {:.1e}, {} disagree",
            verified.decisions, verified.worst_difference, verified.disagreements
        );
    }
    format!(
        "{} plans: {} wrong; short of the judge's answers by {} in sum (allowed {}), by {} at \
         worst (allowed {}); below the bound by {} on average, {} at the median, {} \
         at 99 %",
        verified.decisions,
        verified.disagreements,
        percent(verified.shortfall),
        percent(Verified::SHORT_OF_ALL),
        percent(verified.worst_difference),
        percent(Verified::SHORT_OF_ONE),
        percent(verified.mean_gap),
        percent(verified.p50_gap),
        percent(verified.p99_gap),
    )
}
