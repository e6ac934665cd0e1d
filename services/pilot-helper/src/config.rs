//! The configuration. Root alone may change it, the script and their folders.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use lacuna_model::{ClusterId, Span, SpanText};
use lacuna_scheduler::submit::{Submission, Submitter, mark};
use lacuna_scheduler::{SchedulerName, Unsupported, row};
use nix::unistd::geteuid;
use serde::Deserialize;

use crate::keys::Keys;

/// Write permission of the group and of others.
const OTHERS_WRITE: u32 = 0o022;

/// Why the configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// Another user may change a file or folder.
    #[error(
        "another user may change {path}: it must be root's, and of mode 755 or less",
        path = path.display()
    )]
    Open {
        /// The file or folder.
        path: PathBuf,
    },
    /// A value makes no sense.
    #[error("{path}: {reason}", path = path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// The value, and the remedy.
        reason: String,
    },
}

/// The file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    cluster: ClusterId,
    script: PathBuf,
    keys: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    settings: Settings,
}

/// Settings with a default.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Settings {
    pub(crate) scheduler: SchedulerName,
    /// The helper's own folder, of mode 700.
    pub(crate) state: PathBuf,
    /// A file for Prometheus's node exporter: the number of refusals by cause.
    pub(crate) metrics: Option<PathBuf>,
    /// The least user id of an owner's account.
    pub(crate) min_uid: u32,
    /// The longest time of a pilot.
    #[serde(with = "SpanText")]
    pub(crate) longest: Span,
    /// The longest time of a command of the scheduler.
    #[serde(with = "SpanText")]
    pub(crate) patience: Span,
    /// The whole environment of those commands, which pilots inherit.
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) name: String,
    pub(crate) partition: String,
    pub(crate) account: String,
    pub(crate) qos: String,
    pub(crate) exclusive: bool,
    pub(crate) output: String,
    pub(crate) extra: Vec<String>,
    /// PBS: resources of the chunk besides its host.
    pub(crate) chunk: String,
}

impl Default for Settings {
    fn default() -> Self {
        let path = ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned());
        Self {
            scheduler: SchedulerName::default(),
            state: PathBuf::from("/var/lib/lacuna-pilot-helper"),
            metrics: None,
            min_uid: 1000,
            longest: Span::from_secs(24 * 3600),
            patience: Span::from_secs(30),
            environment: BTreeMap::from([path]),
            name: "lacuna-pilot".to_owned(),
            partition: String::new(),
            account: String::new(),
            qos: String::new(),
            exclusive: true,
            output: "/dev/null".to_owned(),
            extra: Vec::new(),
            chunk: String::new(),
        }
    }
}

/// The configuration.
#[derive(Debug)]
pub(crate) struct Config {
    /// The cluster whose tickets are valid.
    pub(crate) cluster: ClusterId,
    /// The batch script of pilots: its first line, and the rest.
    pub(crate) script: (String, String),
    /// The keys of owners.
    pub(crate) keys: Keys,
    pub(crate) settings: Settings,
}

impl Config {
    /// Reads the file and the script.
    ///
    /// # Errors
    /// [`ConfigError`], with the remedy.
    pub(crate) fn load(path: &Path) -> Result<Self, ConfigError> {
        let wrong = |path: &Path, reason: String| ConfigError::Wrong {
            path: path.to_owned(),
            reason,
        };
        let file: File =
            toml::from_str(&read(path)?).map_err(|error| wrong(path, error.to_string()))?;
        let script = read(&file.script)?;
        let (first, rest) = script.split_once('\n').unwrap_or((&script, ""));
        if !first.starts_with("#!") {
            let text = "a batch script begins with #! and an interpreter".to_owned();
            return Err(wrong(&file.script, text));
        }
        let made = Self {
            cluster: file.cluster,
            script: (first.to_owned(), rest.to_owned()),
            keys: Keys::read(&file.keys).map_err(|reason| wrong(path, reason))?,
            settings: file.settings,
        };
        let submitter = made.submitter(String::new());
        let owned = submitter.and_then(|submitter| submitter.owned(""));
        owned.map_err(|lacks| wrong(path, format!("settings.scheduler: {lacks}")))?;
        Ok(made)
    }

    /// Submits to the scheduler pilots that run this script.
    ///
    /// # Errors
    /// [`Unsupported`] if the scheduler runs no pilots.
    pub(crate) fn submitter(&self, script: String) -> Result<Box<dyn Submitter>, Unsupported> {
        let s = &self.settings;
        let ways = row(s.scheduler).pilots()?;
        Ok((ways.submitter)(Submission {
            name: s.name.clone(),
            mark: mark(&self.cluster),
            partition: s.partition.clone(),
            account: s.account.clone(),
            qos: s.qos.clone(),
            exclusive: s.exclusive,
            output: s.output.clone(),
            extra: s.extra.clone(),
            script,
            chunk: s.chunk.clone(),
            time_min: None,
            all_users: false,
            programs: (ways.programs)(),
        }))
    }
}

/// The text of a file that only this user may change.
fn read(path: &Path) -> Result<String, ConfigError> {
    let failed = |source| ConfigError::Read {
        path: path.to_owned(),
        source,
    };
    let whole = path.canonicalize().map_err(failed)?;
    for part in whole.ancestors().take(2) {
        let found = fs::metadata(part).map_err(failed)?;
        let ours = [0, geteuid().as_raw()].contains(&found.uid());
        if !ours || found.mode() & OTHERS_WRITE != 0 {
            return Err(ConfigError::Open {
                path: part.to_owned(),
            });
        }
    }
    fs::read_to_string(&whole).map_err(failed)
}
