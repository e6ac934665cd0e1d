//! `up.json`: how other commands find a running `lacuna up`.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{CliError, Exit, Result, file_error};

/// Its name in the data directory.
pub(crate) const FILE: &str = "up.json";

/// What a running `lacuna up` says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeFile {
    /// Its process id.
    pub(crate) pid: u32,
    /// Where NATS is.
    pub nats: String,
    /// The cluster.
    pub cluster: String,
    /// Address of each service's /metrics and /healthz.
    pub http: BTreeMap<String, String>,
    /// The operator's page.
    #[serde(default)]
    pub(crate) page: Option<String>,
    /// Who whoever reads this is on the bus, if it knows users by keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) identity: Option<PathBuf>,
    /// Process ids of the children, by name.
    pub children: BTreeMap<String, u32>,
}

/// The data directory where none is given: `$XDG_STATE_HOME/lacuna`, else
/// `~/.local/state/lacuna`, else `lacuna-data` here.
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
    /// Writes it in one step, so that no reader sees half of it.
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

    /// Reads that of a running `lacuna up`; none if there is none, or if it has died.
    #[must_use]
    pub fn read(data_dir: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(data_dir.join(FILE)).ok()?;
        let file: Self = serde_json::from_str(&text).ok()?;
        let pid = nix::unistd::Pid::from_raw(i32::try_from(file.pid).ok()?);
        // EPERM means that it runs as somebody else.
        let alive = !matches!(
            nix::sys::signal::kill(pid, None),
            Err(nix::errno::Errno::ESRCH)
        );
        alive.then_some(file)
    }

    /// Removes it.
    pub(crate) fn remove(data_dir: &Path) {
        let _ = std::fs::remove_file(data_dir.join(FILE));
    }
}

/// Holds a data directory against a second `lacuna up`; the kernel lets go of it when this
/// process ends, however it ends.
#[derive(Debug)]
pub(crate) struct DirLock {
    _file: File,
}

impl DirLock {
    /// Makes the directory if need be and takes it.
    ///
    /// # Errors
    /// `L0006` when another process holds it, `L0011` when it cannot be made.
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
    fn a_runtime_file_of_a_dead_process_counts_for_nothing() {
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
    fn two_cannot_hold_one_data_directory() {
        let dir = tempfile::tempdir().unwrap();
        let first = DirLock::take(dir.path()).unwrap();
        let error = DirLock::take(dir.path()).unwrap_err();
        assert_eq!(error.code.as_deref(), Some("L0006"));
        drop(first);
        DirLock::take(dir.path()).unwrap();
    }
}
