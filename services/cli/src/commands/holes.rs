//! `lacuna holes`: statistics of the idle nodes of a machine, before anything trains.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use lacuna_model::{HoleRecord, NodeId, Timestamp};
use lacuna_report::{About, pool_drawing, render_pool};
use lacuna_sim::PoolTrace;
use lacuna_sim::pool_stats::{PoolOptions, PoolStats, pool_stats};

use crate::error::{CliError, Result, file_error};
use crate::files::{spare, write_list};
use crate::log::{Bar, Input, LeftOut, LogSummary, WholeLogArgs, load};
use crate::output::{JsonArg, iso, iso_short, print, print_json};
use crate::table::key_values;

/// Arguments of `holes`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna holes theta_2022.swf.gz --machine-nodes 4392
  lacuna holes sacct.log.gz --columns jobid,user,submit,start,end,nnodes,timelimit,nodelist
  lacuna holes sinfo.txt.gz --time-zone Europe/Warsaw --report holes.html --svg holes.svg
  lacuna holes accounting.log --out holes.csv.gz
  lacuna holes --from-slurm 90d --report holes.html

Takes any log that `lacuna replay` takes. A simulated batch scheduler places jobs that name no
nodes. The list of holes that --out writes can be replayed.")]
pub(crate) struct HolesArgs {
    #[command(flatten)]
    json: JsonArg,
    /// Write the statistics as a self-contained HTML page
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write the statistics as one SVG drawing
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write the holes as a list (CSV; compressed if the name ends in .gz)
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    // These arguments come last, since their headings apply to all that follow.
    #[command(flatten)]
    log: WholeLogArgs,
}

/// Runs `holes`.
///
/// # Errors
/// The log cannot be read, or a file cannot be written.
pub(crate) fn run(args: &HolesArgs) -> Result<()> {
    let written = [&args.out, &args.report, &args.svg];
    let mut options = args.log.options()?;
    options.finds_outages = true;
    spare(written.into_iter().flatten(), options.files())?;
    let mut bar = Bar::new(args.json.json);
    let Input {
        summary: log,
        recording,
    } = load(&options, &mut bar)?;
    let recording = recording.as_ref();
    let pool = PoolOptions {
        machine_nodes: log.machine_nodes,
        until: None,
        utc_offset_s: options.utc_offset_s(recording.start()),
    };
    let stats = pool_stats(recording, pool).map_err(|e| CliError::failed(e.to_string()))?;
    let written = args.out.as_deref().map(|path| {
        write_list(path, &mut |write| {
            each_hole(recording, write).map_err(std::io::Error::other)
        })
    });
    written.transpose()?;
    bar.done();
    let (mut machine, notes) = log.about();
    machine.push((
        "from, until".to_owned(),
        format!("{} to {}", iso_short(stats.start), iso_short(stats.end)),
    ));
    let left_out = log.left_out.as_ref().map(LeftOut::words);
    let about = About {
        name: &log.file,
        machine: &machine,
        left_out: left_out.as_deref(),
        notes: &notes,
    };
    for (path, page) in [
        (
            &args.report,
            render_pool as fn(&PoolStats, &About<'_>) -> String,
        ),
        (&args.svg, pool_drawing),
    ] {
        if let Some(path) = path {
            std::fs::write(path, page(&stats, &about))
                .map_err(|e| file_error("write", path, &e))?;
        }
    }
    if args.json.json {
        return print_json(&value(&log, &stats));
    }
    if let Some(warning) = log.warning() {
        eprintln!("{warning}");
    }
    let mut rows = log.rows();
    rows.push((
        "from, until",
        format!("{} to {}", iso_short(stats.start), iso_short(stats.end)),
    ));
    let figures = log.headline(&stats).into_iter().chain(stats.figures());
    let figures: Vec<_> = figures.collect();
    print(&format!("{}\n{}", key_values(&figures), key_values(&rows)))
}

#[expect(
    clippy::indexing_slicing,
    reason = "indexing inserts missing keys into a json object; statistics are one"
)]
fn value(log: &LogSummary, stats: &PoolStats) -> serde_json::Value {
    let mut value = json!(stats);
    value["start"] = json!(iso(stats.start));
    value["end"] = json!(iso(stats.end));
    value["log"] = json!(log);
    value
}

/// The `from` of a node that has no open hole.
const BUSY: i64 = i64::MIN;

/// Hands out every hole of a trace, in order of their ends, clipped to the trace.
///
/// # Errors
/// The trace cannot be read, or `each` fails.
pub(crate) fn each_hole(
    recording: &dyn PoolTrace,
    each: &mut dyn FnMut(&HoleRecord) -> std::io::Result<()>,
) -> std::result::Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let (start, end) = (recording.start(), recording.end());
    let mut since = vec![BUSY; recording.nodes() as usize];
    let mut close = |node: u32, from_ms: i64, until: Timestamp, censored| {
        let hole = HoleRecord {
            node: NodeId::new(&*recording.node_name(node))?,
            from: Timestamp::from_unix_ms(from_ms).max(start),
            until,
            censored,
        };
        if hole.until > hole.from {
            each(&hole)?;
        }
        Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    };
    let mut steps = recording.steps()?;
    while let Some(step) = steps.next()? {
        let at = start + lacuna_model::Span::from_secs_f64(step.at_s);
        if at >= end {
            break;
        }
        for &node in step.closed {
            if let Some(from) = since.get_mut(node as usize) {
                let from = std::mem::replace(from, BUSY);
                if from != BUSY {
                    close(node, from, at, false)?;
                }
            }
        }
        for &(node, from) in step.opened {
            if let Some(since) = since.get_mut(node as usize) {
                *since = from;
            }
        }
    }
    for (node, from) in (0..).zip(since) {
        if from != BUSY {
            close(node, from, end, true)?;
        }
    }
    Ok(())
}
