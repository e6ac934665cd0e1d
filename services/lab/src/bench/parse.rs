//! `lacuna-lab bench parse`: the speed of reading logs, beside a plain count of their lines.

mod generated;

use std::io::{Cursor, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use jiff::tz::TimeZone;
use serde::Serialize;

use lacuna_cli::error::{Result, file_error};
use lacuna_cli::output::{self, JsonArg, quantile, short};
use lacuna_cli::table::{Side, render};
use lacuna_runtime::clock::Stopwatch;
use lacuna_trace::{Format, JobRecord, Log, Reading};

use super::data::unreadable;

/// Arguments of `bench parse`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna-lab bench parse
  lacuna-lab bench parse theta_2022.swf.gz --json
  lacuna-lab bench parse jobs.txt --format sacct --columns jobid,start,end,nnodes,nodelist

A file is read and unpacked once, outside the measurement. The plain text is then parsed from
memory repeatedly, with all fields of each record, on one core. A count of line ends in the same
bytes is the yardstick. Without a file, an SWF log and a sacct table are generated from the seed.
MB are 10^6 bytes of plain text.")]
pub(crate) struct ParseBenchArgs {
    /// Logs, plain, gzip or zstd; generated ones if absent
    files: Vec<PathBuf>,
    /// Their format [default: detected from the first lines]
    #[arg(long, value_name = "FORMAT", value_parser = Format::ALL.map(Format::name))]
    format: Option<String>,
    /// The columns of a sacct table without a header line, separated by | or commas
    #[arg(long, value_name = "NAMES")]
    columns: Option<String>,
    /// The zone of times without one, such as Europe/Warsaw [default: UTC]
    #[arg(long, value_name = "ZONE", value_parser = zone)]
    time_zone: Option<TimeZone>,
    /// Size of each generated log, MB
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=4096))]
    megabytes: u32,
    /// Seed of generated logs
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Least duration of each measurement, seconds
    #[arg(long, default_value_t = 1.0, value_parser = parse_seconds)]
    seconds: f64,
    #[command(flatten)]
    json: JsonArg,
}

/// The result of one log; `--json` lists these.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Row {
    log: String,
    format: &'static str,
    bytes: u64,
    lines: u64,
    records: u64,
    damaged_lines: u64,
    /// Median of the repetitions.
    seconds: f64,
    mb_per_s: f64,
    line_count_mb_per_s: f64,
    /// Time of parsing over time of counting lines.
    times_line_count: f64,
}

fn zone(text: &str) -> std::result::Result<TimeZone, String> {
    TimeZone::get(text).map_err(|e| e.to_string())
}

fn parse_seconds(text: &str) -> std::result::Result<f64, String> {
    text.parse::<f64>()
        .ok()
        .filter(|s| (0.0..=600.0).contains(s))
        .ok_or_else(|| format!("{text} is no time from 0 to 600 seconds"))
}

/// The records found by parsing.
#[derive(Debug, Clone, Copy)]
struct Found {
    format: &'static str,
    lines: u64,
    records: u64,
    damaged_lines: u64,
    /// A checksum of all records, so that the compiler cannot remove one.
    digest: i64,
}

fn parse(name: &Path, bytes: &Arc<[u8]>, reading: &Reading) -> Result<Found> {
    let stream = Box::new(Cursor::new(Arc::clone(bytes)));
    let log = Log::from_stream(name, stream, reading).map_err(unreadable)?;
    let (mut records, mut digest) = (0, 0_i64);
    let format = log.format().name();
    Ok(match log {
        Log::Jobs(mut log) => {
            let mut record = JobRecord::default();
            while log.read(&mut record).map_err(unreadable)? {
                records += 1;
                let end = record.end.map_or(0, |end| end.unix_ms());
                digest = digest.wrapping_add(end ^ i64::from(record.nodes));
            }
            Found {
                format,
                lines: log.lines(),
                records,
                damaged_lines: log.damage().lines,
                digest,
            }
        }
        Log::Holes(mut log) => {
            for hole in &mut log {
                let hole = hole.map_err(unreadable)?;
                records += 1;
                digest = digest.wrapping_add(hole.until.unix_ms());
            }
            Found {
                format,
                lines: log.lines(),
                records,
                damaged_lines: log.damage().lines,
                digest,
            }
        }
    })
}

/// The median time of `work`, which runs at least three times and at least `least_s` seconds.
fn median<T>(least_s: f64, mut work: impl FnMut() -> Result<T>) -> Result<(f64, T)> {
    let whole = Stopwatch::start();
    let mut seconds = Vec::new();
    loop {
        let watch = Stopwatch::start();
        let result = work()?;
        seconds.push(watch.seconds());
        if seconds.len() >= 3 && whole.seconds() >= least_s {
            seconds.sort_by(f64::total_cmp);
            return Ok((quantile(&seconds, 0.5).unwrap_or(f64::NAN), result));
        }
    }
}

fn measure(name: &Path, bytes: &Arc<[u8]>, args: &ParseBenchArgs) -> Result<Row> {
    let reading = Reading {
        format: args.format.as_deref().and_then(Format::from_name),
        columns: args.columns.clone(),
        time_zone: args.time_zone.clone(),
        ..Reading::default()
    };
    let (counting_s, lines) = median(args.seconds, || {
        let ends = std::hint::black_box(bytes).iter();
        Ok(ends.filter(|&&byte| byte == b'\n').count())
    })?;
    std::hint::black_box(lines);
    let (seconds, found) = median(args.seconds, || parse(name, bytes, &reading))?;
    std::hint::black_box(found.digest);
    let megabytes = bytes.len() as f64 / 1e6;
    Ok(Row {
        log: name.display().to_string(),
        format: found.format,
        bytes: bytes.len() as u64,
        lines: found.lines,
        records: found.records,
        damaged_lines: found.damaged_lines,
        seconds,
        mb_per_s: megabytes / seconds,
        line_count_mb_per_s: megabytes / counting_s,
        times_line_count: seconds / counting_s,
    })
}

fn table(rows: &[Row]) -> String {
    let columns = [
        ("LOG", Side::Left),
        ("FORMAT", Side::Left),
        ("MB", Side::Right),
        ("LINES", Side::Right),
        ("RECORDS", Side::Right),
        ("DAMAGED", Side::Right),
        ("MB/S", Side::Right),
        ("COUNT MB/S", Side::Right),
        ("TIMES COUNT", Side::Right),
    ];
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            vec![
                row.log.clone(),
                row.format.to_owned(),
                format!("{:.1}", row.bytes as f64 / 1e6),
                row.lines.to_string(),
                row.records.to_string(),
                row.damaged_lines.to_string(),
                format!("{:.0}", row.mb_per_s),
                short(row.line_count_mb_per_s),
                format!("{:.1}", row.times_line_count),
            ]
        })
        .collect();
    render(&columns, &cells)
}

/// Runs `bench parse`.
///
/// # Errors
/// A file cannot be read or its format is not known.
pub(crate) fn run(args: &ParseBenchArgs) -> Result<()> {
    let mut rows = Vec::new();
    for path in &args.files {
        let mut bytes = Vec::new();
        lacuna_trace::open(path)
            .map_err(unreadable)?
            .read_to_end(&mut bytes)
            .map_err(|e| file_error("read", path, &e))?;
        rows.push(measure(path, &Arc::from(bytes), args)?);
    }
    if args.files.is_empty() {
        let bytes = args.megabytes as usize * 1_000_000;
        for (name, text) in [
            ("(generated swf)", generated::swf(bytes, args.seed)),
            ("(generated sacct)", generated::sacct(bytes, args.seed)),
        ] {
            let text: Arc<[u8]> = Arc::from(text.into_bytes());
            rows.push(measure(Path::new(name), &text, args)?);
        }
    }
    if args.json.json {
        return output::print_json(&rows);
    }
    output::print(&table(&rows))
}
