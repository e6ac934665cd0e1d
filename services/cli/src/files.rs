//! Files that are written whole or not at all: to a temporary file, then renamed.

use std::fs::{File, Metadata};
use std::io::BufWriter;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use lacuna_model::HoleRecord;
use lacuna_trace::{Compression, HoleWriter};

use crate::error::{CliError, Result, file_error};

/// A function that writes one hole.
type WriteHole<'a> = &'a mut dyn FnMut(&HoleRecord) -> std::io::Result<()>;

/// Writes a hole list to a temporary file and renames it, so that no partial list is left.
///
/// # Errors
/// The disk is full or the directory cannot be written.
pub fn write_holes(path: &Path, holes: &[HoleRecord]) -> Result<()> {
    write_list(path, &mut |write| holes.iter().try_for_each(&mut *write))
}

/// As [`write_holes`], for holes that are handed out one by one.
///
/// # Errors
/// As [`write_holes`], or an error of `holes`.
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

/// Writes a whole file; it is compressed if its name ends in `.gz`.
///
/// # Errors
/// As [`replace`].
pub fn write_whole(
    path: &Path,
    fill: impl FnOnce(BufWriter<File>, Compression) -> std::io::Result<BufWriter<File>>,
) -> Result<()> {
    let zipped = path.extension().is_some_and(|e| e == "gz");
    let compression = if zipped {
        Compression::Gzip
    } else {
        Compression::Plain
    };
    replace(path, |half| {
        let file = BufWriter::new(File::create(half)?);
        fill(file, compression)?
            .into_inner()
            .map_err(std::io::IntoInnerError::into_error)?
            .sync_all()
            .or_else(not_a_file)
    })
}

/// Writes a file: `fill` writes a temporary one, which is then renamed. A failure leaves none.
///
/// # Errors
/// `L0011` with the error of `fill` or of the rename.
pub fn replace(path: &Path, fill: impl FnOnce(&Path) -> std::io::Result<()>) -> Result<()> {
    let half = beside(path);
    let written = fill(&half).and_then(|()| settle(&half, path));
    written.map_err(|e| {
        discard(&half, path);
        file_error("write", path, &e)
    })
}

/// Checks that no file that a command writes is one that it reads.
///
/// # Errors
/// One is, by whatever name or link.
pub fn spare<'a>(
    written: impl IntoIterator<Item = &'a PathBuf>,
    read: impl Iterator<Item = &'a PathBuf> + Clone,
) -> Result<()> {
    let place = |path: &PathBuf| {
        let file = std::fs::metadata(path).ok().filter(Metadata::is_file)?;
        Some((file.dev(), file.ino()))
    };
    for out in written {
        let is_same = |read: &&PathBuf| place(out).is_some_and(|at| Some(at) == place(read));
        if let Some(read) = read.clone().find(is_same) {
            let (out, read) = (out.display(), read.display());
            return Err(
                CliError::failed(format!("{out}: not written over {read}, which is read"))
                    .remedy("name another file to write"),
            );
        }
    }
    Ok(())
}

/// Checks that [`replace`] can write a file.
///
/// # Errors
/// `L0011` with the reason.
pub(crate) fn can_write(path: &Path) -> Result<()> {
    let half = beside(path);
    let opened = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&half);
    discard(&half, path);
    opened.map(drop).map_err(|e| file_error("write", path, &e))
}

/// The temporary path of a file, in the same folder. A device or a pipe is its own path: a rename
/// would replace it.
pub(crate) fn beside(path: &Path) -> PathBuf {
    if path.exists() && !path.is_file() {
        return path.to_owned();
    }
    let mut half = path.as_os_str().to_owned();
    half.push(".new");
    PathBuf::from(half)
}

/// Renames a complete temporary file to its final place.
fn settle(half: &Path, path: &Path) -> std::io::Result<()> {
    if half == path {
        return Ok(());
    }
    std::fs::rename(half, path)
}

/// Removes a partial temporary file.
pub(crate) fn discard(half: &Path, path: &Path) {
    if half != path {
        let _ = std::fs::remove_file(half);
    }
}

/// Ignores the error of syncing a pipe or a device, which need no sync.
pub fn not_a_file(error: std::io::Error) -> std::io::Result<()> {
    match error.kind() {
        std::io::ErrorKind::InvalidInput => Ok(()),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use lacuna_testkit::{Need, or_skip};

    use super::*;
    use lacuna_model::{NodeId, Timestamp};

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
            let read = lacuna_trace::read_holes(&path).unwrap();
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
