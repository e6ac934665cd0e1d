//! Files of keys: written whole or not at all, secrets readable by the owner alone.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::error::{CliError, Exit, Result, file_error};

/// The users who may read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readers {
    /// Its owner alone (mode 600).
    Owner,
    /// All users (mode 644).
    All,
}

/// A complete temporary file beside its final place. If it is dropped, it is removed.
#[derive(Debug)]
pub(crate) struct Staged {
    half: PathBuf,
    path: PathBuf,
}

impl Staged {
    /// Writes a temporary file beside `path`. A missing folder is made for the owner alone.
    ///
    /// # Errors
    /// `L0011`.
    pub(crate) fn new(path: &Path, text: &str, readers: Readers) -> Result<Self> {
        let failed = |e: std::io::Error| file_error("write", path, &e);
        if let Some(parent) = path.parent()
            && !parent.is_dir()
        {
            let mut folder = std::fs::DirBuilder::new();
            let made = folder.recursive(true).mode(0o700).create(parent);
            made.map_err(|e| file_error("make", parent, &e))?;
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let half = path.with_file_name(format!(".{name}.{}", std::process::id()));
        // A killed process may have left this file.
        let _ = std::fs::remove_file(&half);
        let mode = match readers {
            Readers::Owner => 0o600,
            Readers::All => 0o644,
        };
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&half)
            .map_err(failed)?;
        let staged = Self {
            half,
            path: path.to_owned(),
        };
        file.write_all(text.as_bytes())
            .and_then(|()| file.sync_all())
            .map_err(failed)?;
        Ok(staged)
    }

    /// Renames the file to its final place, in one step.
    ///
    /// # Errors
    /// `L0011`.
    pub(crate) fn commit(self) -> Result<()> {
        std::fs::rename(&self.half, &self.path).map_err(|e| file_error("write", &self.path, &e))
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // After `commit` the file is gone already.
        let _ = std::fs::remove_file(&self.half);
    }
}

/// Writes a file in one step; the earlier file stays whole until then.
///
/// # Errors
/// `L0011`.
pub(crate) fn write(path: &Path, text: &str, readers: Readers) -> Result<()> {
    Staged::new(path, text, readers)?.commit()
}

/// Locks a folder against a second `lacuna keys` until the returned file is closed.
///
/// # Errors
/// `L0006` when another process holds the lock, `L0011`.
pub(crate) fn lock(dir: &Path) -> Result<File> {
    let path = dir.join(".lock");
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(|e| file_error("open", &path, &e))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => Err(CliError::new(
            "L0006",
            Exit::Failed,
            format!("{} is in use by another lacuna keys", dir.display()),
        )
        .remedy("wait for it to end")),
        Err(std::fs::TryLockError::Error(e)) => Err(file_error("lock", &path, &e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn files_are_replaced_whole_and_secrets_belong_to_the_owner() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/er/secret");
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        for text in ["one", "two"] {
            write(&path, text, Readers::Owner).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
            assert_eq!(mode(&path), 0o600);
        }
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        let folder = std::fs::read_dir(path.parent().unwrap()).unwrap();
        assert_eq!(folder.count(), 1, "a temporary file is left");
    }

    #[test]
    fn a_second_lock_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let held = lock(dir.path()).unwrap();
        assert_eq!(lock(dir.path()).unwrap_err().code.as_deref(), Some("L0006"));
        drop(held);
        lock(dir.path()).unwrap();
    }
}
