//! `lacuna generate`: the recording of a machine that does not exist.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use clap::Args;

use lacuna_model::{HoleRecord, PlannedStart, Timestamp};
use lacuna_schedlog::{Compression, HoleWriter, PlannedWriter};
use lacuna_timeline::workload::{Workload, generated_machine, generated_trace};

use super::swf;
use crate::error::{CliError, Result, file_error};
use crate::log::Bar;
use crate::output::{self, JsonArg, iso};

/// Arguments of `generate`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna generate --nodes 1024 --days 3 --out machine.csv.gz
  lacuna replay machine.csv.gz --trainers trainers.jsonl.gz
  lacuna generate --out machine.csv --planned planned.csv
  lacuna replay machine.csv --planned planned.csv --policy auto
  lacuna generate --nodes 4096 --swf workload.swf.gz --jobs 100000
  lacuna replay workload.swf.gz

The batch workload is drawn from the model of Lublin and Feitelson (JPDC 63, 2003), calibrated
so that about 7 % of the machine stays idle, and run through first-come-first-served with EASY
backfill. The same seed gives the same machine. --swf writes the workload itself, before it is
scheduled, in Standard Workload Format; of any length, in constant memory.")]
pub(crate) struct GenerateArgs {
    /// Nodes of the machine
    #[arg(long, default_value_t = 1024)]
    nodes: u32,
    /// Days of the recording
    #[arg(long, default_value_t = 3)]
    days: u32,
    /// Seed of all draws
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Share of the machine that jobs are to use
    #[arg(long, value_name = "SHARE", default_value_t = 0.93, requires = "swf")]
    utilisation: f64,
    /// Where the hole list goes; compressed if it ends in .gz
    #[arg(long, short, value_name = "FILE", required_unless_present = "swf")]
    out: Option<PathBuf>,
    /// Where the planned starts of its batch scheduler go; compressed if it ends in .gz
    #[arg(long, value_name = "FILE", requires = "out")]
    planned: Option<PathBuf>,
    /// Write the workload instead, in Standard Workload Format; compressed if it ends in .gz
    #[arg(long, value_name = "FILE", conflicts_with = "out")]
    swf: Option<PathBuf>,
    /// How many jobs of the workload [default: those of --days]
    #[arg(long, value_name = "N", requires = "swf")]
    jobs: Option<u64>,
    #[command(flatten)]
    json: JsonArg,
}

/// Writes one hole.
type WriteHole<'a> = &'a mut dyn FnMut(&HoleRecord) -> std::io::Result<()>;

/// Writes a hole list beside its place and renames it, so that no half of one is left.
///
/// # Errors
/// The disk is full or the directory cannot be written.
pub(crate) fn write_holes(path: &Path, holes: &[HoleRecord]) -> Result<()> {
    write_list(path, &mut |write| holes.iter().try_for_each(&mut *write))
}

/// As [`write_holes`], of holes that are handed out one by one.
///
/// # Errors
/// As [`write_holes`], and what `holes` says.
pub(crate) fn write_list(
    path: &Path,
    holes: &mut dyn FnMut(WriteHole<'_>) -> std::io::Result<()>,
) -> Result<()> {
    write_whole(path, |file, compression| {
        let mut writer = HoleWriter::new(file, compression)?;
        holes(&mut |hole| writer.write(hole))?;
        writer.finish()
    })
}

/// Writes planned starts as [`write_holes`] writes holes.
fn write_planned(path: &Path, planned: &[PlannedStart]) -> Result<()> {
    write_whole(path, |file, compression| {
        let mut writer = PlannedWriter::new(file, compression)?;
        planned.iter().try_for_each(|one| writer.write(one))?;
        writer.finish()
    })
}

/// Fills a file that is compressed if its name says so.
fn write_whole(
    path: &Path,
    fill: impl FnOnce(BufWriter<File>, Compression) -> std::io::Result<BufWriter<File>>,
) -> Result<()> {
    let zipped = path.extension().is_some_and(|e| e == "gz");
    let compression = if zipped {
        Compression::Gzip
    } else {
        Compression::Plain
    };
    let half = beside(path);
    let write = || {
        let file = BufWriter::new(File::create(&half)?);
        fill(file, compression)?
            .into_inner()
            .map_err(std::io::IntoInnerError::into_error)?
            .sync_all()
            .or_else(not_a_file)?;
        settle(&half, path)
    };
    write().map_err(|e| {
        discard(&half, path);
        file_error("write", path, &e)
    })
}

/// Where a file is written until it is whole: beside its place. A device or a pipe is written
/// itself: renaming onto it would take its place.
pub(crate) fn beside(path: &Path) -> PathBuf {
    if path.exists() && !path.is_file() {
        return path.to_owned();
    }
    let mut half = path.as_os_str().to_owned();
    half.push(".new");
    PathBuf::from(half)
}

/// Puts a whole file into its place.
pub(crate) fn settle(half: &Path, path: &Path) -> std::io::Result<()> {
    if half == path {
        return Ok(());
    }
    std::fs::rename(half, path)
}

/// Takes half a file away.
pub(crate) fn discard(half: &Path, path: &Path) {
    if half != path {
        let _ = std::fs::remove_file(half);
    }
}

/// A pipe cannot be synced, and need not be.
pub(crate) fn not_a_file(error: std::io::Error) -> std::io::Result<()> {
    match error.kind() {
        std::io::ErrorKind::InvalidInput => Ok(()),
        _ => Err(error),
    }
}

/// Runs `generate`.
///
/// # Errors
/// The machine makes no sense or the file cannot be written.
pub(crate) fn run(args: &GenerateArgs) -> Result<()> {
    match (&args.swf, &args.out) {
        (Some(path), _) => workload(args, path),
        (None, Some(path)) => machine(args, path),
        (None, None) => Err(CliError::failed("neither --out nor --swf is given")),
    }
}

fn workload(args: &GenerateArgs, path: &Path) -> Result<()> {
    let workload = Workload {
        nodes: args.nodes,
        days: args.days,
        seed: args.seed,
        utilisation: args.utilisation,
    };
    let mut bar = Bar::new(args.json.json);
    let written = swf::write(path, &workload, args.jobs, &mut bar)?;
    bar.done();
    let last = iso(Timestamp::from_unix(written.last_s));
    if args.json.json {
        return output::print_json(&serde_json::json!({
            "file": path,
            "jobs": written.jobs,
            "nodes": args.nodes,
            "last_submission": last,
            "seed": args.seed,
        }));
    }
    output::print(&format!(
        "{}: {} jobs for {} nodes, the last submitted at {last} (seed {})",
        path.display(),
        written.jobs,
        args.nodes,
        args.seed
    ))
}

fn machine(args: &GenerateArgs, path: &Path) -> Result<()> {
    let (nodes, days, seed) = (args.nodes, args.days, args.seed);
    let made = match &args.planned {
        Some(_) => generated_trace(nodes, days, seed),
        None => generated_machine(nodes, days, seed).map(|holes| (holes, Vec::new())),
    };
    let (holes, planned) = made.map_err(|e| CliError::failed(e.to_string()))?;
    write_holes(path, &holes)?;
    if let Some(path) = &args.planned {
        write_planned(path, &planned)?;
    }
    let idle: f64 = holes.iter().map(|h| h.length().as_secs_f64()).sum();
    let from = holes.iter().map(|h| h.from).min().unwrap_or_default();
    let until = holes.iter().map(|h| h.until).max().unwrap_or_default();
    let whole = until.since(from).as_secs_f64() * f64::from(args.nodes);
    let share = if whole > 0.0 { idle / whole } else { 0.0 };
    if args.json.json {
        return output::print_json(&serde_json::json!({
            "file": path,
            "holes": holes.len(),
            "planned_starts": args.planned.as_ref().map(|_| planned.len()),
            "from": iso(from),
            "until": iso(until),
            "idle_fraction": share,
            "seed": args.seed,
        }));
    }
    let beside = args.planned.as_ref().map_or_else(String::new, |path| {
        let path = path.display();
        format!("\n{path}: {} changes of planned starts", planned.len())
    });
    output::print(&format!(
        "{}: {} holes of {} nodes, {} to {}, {:.1}% idle (seed {}){beside}",
        path.display(),
        holes.len(),
        args.nodes,
        iso(from),
        iso(until),
        share * 100.0,
        args.seed
    ))
}

#[cfg(test)]
mod tests {
    use lacuna_testkit::{Need, or_skip};

    use super::*;
    use lacuna_model::NodeId;

    #[test]
    fn holes_are_written_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let hole = HoleRecord {
            node: NodeId::new("n1").unwrap(),
            from: Timestamp::from_unix(100),
            until: Timestamp::from_unix(200),
            censored: false,
        };
        for name in ["h.csv", "h.csv.gz"] {
            let path = dir.path().join(name);
            write_holes(&path, std::slice::from_ref(&hole)).unwrap();
            let read = lacuna_schedlog::read_holes(&path).unwrap();
            assert_eq!(read.records, vec![hole.clone()]);
        }
        let nowhere = dir.path().join("no-such-folder/h.csv");
        assert_eq!(
            write_holes(&nowhere, &[hole]).unwrap_err().code.as_deref(),
            Some("L0011")
        );
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_device_stays_a_device() {
        use std::os::unix::fs::FileTypeExt as _;
        let full = Path::new("/dev/full");
        let is_device = |path: &Path| {
            let kind = std::fs::metadata(path).map(|m| m.file_type());
            kind.is_ok_and(|kind| kind.is_char_device())
        };
        or_skip!(Need::DevFull.given(is_device(full), "there is no /dev/full"));
        let error = write_holes(full, &[]).unwrap_err();
        assert!(error.message.contains("No space left"), "{error}");
        write_holes(Path::new("/dev/null"), &[]).unwrap();
        assert!(is_device(full) && is_device(Path::new("/dev/null")));
    }
}
