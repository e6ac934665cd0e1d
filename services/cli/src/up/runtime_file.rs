//! `up.json`: the file by which other commands find a running `lacuna up`.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{CliError, Exit, Result, file_error};

/// The name of the file in the data directory.
pub(crate) const FILE: &str = "up.json";

/// The content of `up.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeFile {
    /// The process id of `lacuna up`.
    pub(crate) pid: u32,
    /// The address of nats-server.
    pub nats: String,
    /// The name of the cluster.
    pub cluster: String,
    /// The address of each service's /metrics and /healthz.
    pub http: BTreeMap<String, String>,
    /// The address of the dashboard.
    #[serde(default)]
    pub(crate) page: Option<String>,
    /// The identity file for readers of this file, if the bus knows users by keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) identity: Option<PathBuf>,
    /// Process ids of the children, by name.
    pub children: BTreeMap<String, u32>,
}

/// The default data directory: `$XDG_STATE_HOME/lacuna`, else `~/.local/state/lacuna`, else
/// `lacuna-data` in the working directory.
#[must_use]
pub(crate) fn default_data_dir() -> PathBuf {
    let absolute = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|p| p.is_absolute())
    };
    absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
        .map_or_else(
            || PathBuf::from("lacuna-data"),
            |state| state.join("lacuna"),
        )
}

impl RuntimeFile {
    /// Writes the file in one step, so that no reader sees a partial one.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub(crate) fn write(&self, data_dir: &Path) -> Result<()> {
        let path = data_dir.join(FILE);
        let half = data_dir.join(".up.json.new");
        let text = serde_json::to_string_pretty(self)
            .map_err(|e| CliError::failed(format!("cannot write {}: {e}", path.display())))?;
        std::fs::write(&half, text + "\n")
            .and_then(|()| std::fs::rename(&half, &path))
            .map_err(|e| file_error("write", &path, &e))
    }

    /// Reads the file of a running `lacuna up`; none if there is no file, or its process has died.
    #[must_use]
    pub fn read(data_dir: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(data_dir.join(FILE)).ok()?;
        let file: Self = serde_json::from_str(&text).ok()?;
        let pid = nix::unistd::Pid::from_raw(i32::try_from(file.pid).ok()?);
        // EPERM means that the process runs as another user.
        let alive = !matches!(
            nix::sys::signal::kill(pid, None),
            Err(nix::errno::Errno::ESRCH)
        );
        alive.then_some(file)
    }

    /// Removes the file.
    pub(crate) fn remove(data_dir: &Path) {
        let _ = std::fs::remove_file(data_dir.join(FILE));
    }
}

/// A lock on a data directory against a second `lacuna up`. The kernel releases it when this
/// process ends, however it ends.
#[derive(Debug)]
pub(crate) struct DirLock {
    _file: File,
}

impl DirLock {
    /// Makes the directory if it is missing, and locks it.
    ///
    /// # Errors
    /// `L0006` when another process holds the lock, `L0011` when the directory cannot be made.
    pub(crate) fn take(data_dir: &Path) -> Result<Self> {
        std::fs::create_dir_all(data_dir.join("logs"))
            .map_err(|e| file_error("make", data_dir, &e))?;
        let path = data_dir.join("lock");
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(|e| file_error("open", &path, &e))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(std::fs::TryLockError::WouldBlock) => {
                let who = RuntimeFile::read(data_dir)
                    .map_or_else(String::new, |f| format!(" (process {})", f.pid));
                Err(CliError::new(
                    "L0006",
                    Exit::Failed,
                    format!(
                        "{} is in use by a running lacuna up{who}",
                        data_dir.display()
                    ),
                )
                .remedy("stop it, or give another --data-dir"))
            }
            Err(std::fs::TryLockError::Error(e)) => Err(file_error("lock", &path, &e)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(pid: u32) -> RuntimeFile {
        RuntimeFile {
            pid,
            nats: "nats://127.0.0.1:4222".into(),
            cluster: "main".into(),
            http: BTreeMap::from([("ingest".to_owned(), "127.0.0.1:1".to_owned())]),
            page: None,
            identity: None,
            children: BTreeMap::new(),
        }
    }

    #[test]
    fn a_runtime_file_of_a_dead_process_is_ignored() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(RuntimeFile::read(dir.path()), None);
        let mine = file(std::process::id());
        mine.write(dir.path()).unwrap();
        assert_eq!(RuntimeFile::read(dir.path()), Some(mine));
        // Process ids end at 2^22 on Linux.
        file(0x3fff_ffff).write(dir.path()).unwrap();
        assert_eq!(RuntimeFile::read(dir.path()), None);
        RuntimeFile::remove(dir.path());
        assert!(!dir.path().join(FILE).exists());
    }

    #[test]
    fn a_locked_data_directory_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let first = DirLock::take(dir.path()).unwrap();
        let error = DirLock::take(dir.path()).unwrap_err();
        assert_eq!(error.code.as_deref(), Some("L0006"));
        drop(first);
        DirLock::take(dir.path()).unwrap();
    }
}
