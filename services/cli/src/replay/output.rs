//! Output of the figures of a replay: a table or one JSON value.

use serde_json::{Value, json};

use lacuna_runtime::clock::Stopwatch;
use lacuna_sim::pool_stats::{PoolOptions, PoolStats, pool_stats};
use lacuna_sim::{Replayed, Summary};

use super::case::Case;
use super::failed::failed;
use super::{table, verified};
use crate::error::Result;
use crate::log::{Bar, LogSummary};
use crate::output::{iso, print, print_json};

/// Prints the figures. A verification that failed is the error: of the JSON value, which is exactly
/// one, or after the table.
///
/// # Errors
/// Verification failed, or the output cannot be written.
pub(super) fn show(
    case: &Case<'_>,
    replayed: Replayed,
    json: bool,
    watch: &Stopwatch,
    bar: &Bar,
) -> Result<()> {
    let mut summary = replayed.summary;
    let options = PoolOptions {
        until: Some(summary.until()),
        ..case.pool_options()
    };
    let pool = pool_stats(case.trace, options).map_err(failed)?;
    bar.done();
    summary.wall_seconds = watch.seconds();
    summary.peak_rss_bytes = peak_rss_bytes();
    let disagreement = verified::disagreement(&summary, &case.settings);
    if json {
        disagreement?;
        return print_json(&value(&summary, &pool, &case.log));
    }
    if let Some(warning) = case.log.warning() {
        eprintln!("{warning}");
    }
    print(&table::text(&summary, &pool, &case.log, &case.written()))?;
    disagreement
}

/// The largest resident memory of the process so far.
fn peak_rss_bytes() -> u64 {
    use nix::sys::resource::{UsageWho, getrusage};
    let usage = getrusage(UsageWho::RUSAGE_SELF);
    // Linux reports KiB.
    usage.map_or(0, |usage| usage.max_rss().unsigned_abs() * 1024)
}

/// The JSON value: times as ISO-8601, lengths of time in seconds.
#[expect(
    clippy::indexing_slicing,
    reason = "indexing inserts missing keys into a json object; summary and settings are objects"
)]
fn value(summary: &Summary, pool: &PoolStats, log: &LogSummary) -> Value {
    let mut value = json!(summary);
    value["pool"] = json!({
        "nodes": pool.nodes,
        "equivalent_nodes": pool.equivalent_nodes,
        "share": pool.share,
        "idle": pool.idle,
    });
    value["start"] = json!(iso(summary.start));
    value["end"] = json!(iso(summary.end));
    value["refused_holes"] = json!(log.refused_holes);
    value["log"] = json!(log);
    let settings = &summary.settings;
    value["seed"] = json!(settings.seed);
    value["policy"] = json!(settings.policy);
    value["settings"]["horizon_s"] = json!(settings.horizon.as_secs_f64());
    if let Some(settings) = value["settings"].as_object_mut() {
        settings.remove("horizon");
    }
    value
}
