//! The file of the report: opened before the run, written whole or not at all after it.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::{CliError, file_error};

/// About the size of the report of a long run, bytes.
const RESERVED: usize = 512 * 1024;

/// The file of a report that can be written.
pub struct Target {
    path: PathBuf,
    file: Place,
}

enum Place {
    /// A temporary file that is renamed at the end.
    Beside(NamedTempFile),
    /// A device or a pipe, which a rename would replace.
    Direct(File),
}

impl Target {
    /// Opens the file and reserves space for it, so that a missing folder and a full disk are found
    /// before the run.
    ///
    /// # Errors
    /// The folder is missing or the disk is full; the error names the file.
    pub fn open(path: &Path) -> Result<Self, CliError> {
        let failed = |source: io::Error| file_error("write the report to", path, &source);
        let place = || -> io::Result<Place> {
            if path.is_dir() {
                return Err(io::ErrorKind::IsADirectory.into());
            }
            if path.exists() && !path.is_file() {
                return Ok(Place::Direct(OpenOptions::new().write(true).open(path)?));
            }
            let folder = match path.parent() {
                Some(folder) if folder != Path::new("") => folder,
                _ => Path::new("."),
            };
            let mut file = tempfile::Builder::new()
                .prefix(".lacuna-report")
                .tempfile_in(folder)?;
            file.write_all(&vec![b' '; RESERVED])?;
            file.as_file().sync_all()?;
            Ok(Place::Beside(file))
        };
        Ok(Self {
            path: path.to_owned(),
            file: place().map_err(failed)?,
        })
    }

    /// Writes the page and renames it to its final place.
    ///
    /// # Errors
    /// The page cannot be written; then no partial file is left.
    pub fn write(self, page: &str) -> Result<(), CliError> {
        let path = self.path;
        let failed = |source: io::Error| file_error("write the report to", &path, &source);
        let write = || -> io::Result<()> {
            match self.file {
                Place::Direct(mut file) => {
                    file.write_all(page.as_bytes())?;
                    file.flush()
                }
                Place::Beside(mut file) => {
                    file.as_file_mut().rewind()?;
                    file.write_all(page.as_bytes())?;
                    file.as_file().set_len(page.len() as u64)?;
                    readable(file.as_file())?;
                    file.as_file().sync_all()?;
                    file.persist(&path).map_err(|error| error.error)?;
                    Ok(())
                }
            }
        };
        write().map_err(failed)
    }
}

/// Makes a file readable for all users; temporary files are for their owner alone.
fn readable(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(std::fs::Permissions::from_mode(0o644))
}

#[cfg(test)]
mod tests {
    use lacuna_testkit::{Need, or_skip};

    use super::*;

    #[test]
    fn a_report_is_written_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.html");
        std::fs::write(&path, "old").unwrap();
        let target = Target::open(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
        target.write("new").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_missing_folder_is_found_before_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("no/such/out.html");
        let error = Target::open(&path).err().unwrap().to_string();
        assert!(error.contains("cannot write the report to"), "{error}");
        assert!(Target::open(folder.path()).is_err());
    }

    #[test]
    fn a_full_disk_is_reported() {
        let full = Path::new("/dev/full");
        or_skip!(Need::DevFull.given(full.exists(), "there is no /dev/full"));
        let error = Target::open(full).unwrap().write("page").unwrap_err();
        assert!(error.to_string().contains("No space left"), "{error}");
    }
}
