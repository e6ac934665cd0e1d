//! `lacuna-lab bench parse`: the speed of reading logs, beside a plain count of their lines.

mod generated;

use std::io::{Cursor, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use jiff::tz::TimeZone;

use lacuna_cli::error::{Result, file_error};
use lacuna_cli::output::{JsonArg, quantile, short};
use lacuna_runtime::clock::Stopwatch;
use lacuna_trace::{Format, JobRecord, Log, Reading};

use super::data::unreadable;
use crate::table::{Cell, Column, Table};

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

fn measure(name: &Path, bytes: &Arc<[u8]>, args: &ParseBenchArgs) -> Result<Vec<Cell>> {
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
    let (rate, counting_rate) = (megabytes / seconds, megabytes / counting_s);
    Ok(vec![
        Cell::words(name.display().to_string()),
        Cell::words(found.format),
        Cell::new(format!("{megabytes:.1}"), bytes.len()),
        Cell::count(found.lines),
        Cell::count(found.records),
        Cell::count(found.damaged_lines),
        Cell::new("", seconds),
        Cell::number(Some(rate), 0),
        Cell::new(short(counting_rate), counting_rate),
        Cell::number(Some(seconds / counting_s), 1),
    ])
}

/// Runs `bench parse`.
///
/// # Errors
/// A file cannot be read or its format is not known.
pub(crate) fn run(args: &ParseBenchArgs) -> Result<()> {
    let columns = [
        Column::words("log", "log"),
        Column::words("format", "format"),
        Column::figures("bytes", "MB"),
        Column::figures("lines", "lines"),
        Column::figures("records", "records"),
        Column::figures("damaged_lines", "damaged"),
        Column::in_json("seconds"),
        Column::figures("mb_per_s", "MB/s"),
        Column::figures("line_count_mb_per_s", "count MB/s"),
        Column::figures("times_line_count", "times count"),
    ];
    let mut table = Table::new("Logs", columns);
    for path in &args.files {
        let mut bytes = Vec::new();
        lacuna_trace::open(path)
            .map_err(unreadable)?
            .read_to_end(&mut bytes)
            .map_err(|e| file_error("read", path, &e))?;
        table.push(measure(path, &Arc::from(bytes), args)?);
    }
    if args.files.is_empty() {
        let bytes = args.megabytes as usize * 1_000_000;
        for (name, text) in [
            ("(generated swf)", generated::swf(bytes, args.seed)),
            ("(generated sacct)", generated::sacct(bytes, args.seed)),
        ] {
            let text: Arc<[u8]> = Arc::from(text.into_bytes());
            table.push(measure(Path::new(name), &text, args)?);
        }
    }
    table.print(args.json.json)
}
