//! Saved models on disk: one file for each predictor, written whole or not at all.
//!
//! Layout: the head ([`seal`](lacuna_forecast::saved::seal)ed)
//! [`join`](lacuna_forecast::saved::join)ed with the model as the predictor writes it. Both carry a
//! checksum. The head has the cluster and the recording of the model, and the newest event that it
//! has learnt. A model that has learnt from the future is refused.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use lacuna_forecast::saved::{join, open, seal, split};
use lacuna_forecast::{ModelError, Unfit};
use lacuna_model::{ClusterId, Span, Timestamp};
use serde::{Deserialize, Serialize};

use crate::learner::Upto;

const HEAD: &str = "forecast service";
const VERSION: u16 = 1;

/// How far a model may be ahead of the newest snapshot. A power failure may lose that snapshot and
/// leave the model.
pub(crate) const AHEAD: Span = Span::from_secs(60);

#[derive(Debug, Serialize, Deserialize)]
struct Head {
    cluster: ClusterId,
    recording: String,
    at: Timestamp,
    seq: u64,
}

/// The cluster, recording and time for which models are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Situation {
    /// The cluster.
    pub cluster: ClusterId,
    /// The recording that is played; empty if none is.
    pub recording: String,
    /// The newest known time of the cluster; `None` if no message has come.
    pub now: Option<Timestamp>,
}

/// The reason why a saved model is not restored.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// The file exists and cannot be read.
    #[error("{path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the file system.
        source: std::io::Error,
    },
    /// The model is damaged, old, or of another predictor.
    #[error("{path}: {source}", path = path.display())]
    Model {
        /// The file.
        path: PathBuf,
        /// The error of the model.
        source: ModelError,
    },
    /// The model is of another machine, or has learnt from the future.
    #[error("{path}: {source}", path = path.display())]
    Unfit {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: Unfit,
    },
    /// The model is of another cluster or recording.
    #[error("{path}: the saved model is of {found}, expected {expected}", path = path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The cluster and recording found.
        found: String,
        /// The cluster and recording expected.
        expected: String,
    },
    /// The model has learnt from the future.
    #[error(
        "{path}: the saved model has learnt up to {upto}, and the cluster's time is {now}",
        path = path.display()
    )]
    Ahead {
        /// The file.
        path: PathBuf,
        /// The time of the newest event that was learnt.
        upto: Timestamp,
        /// The cluster's time.
        now: Timestamp,
    },
}

impl Refused {
    /// The reason in a word, for a metric.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Read { .. } => "unreadable",
            Self::Model { source, .. } => source.word(),
            Self::Unfit { source, .. } => source.word(),
            Self::Foreign { .. } => "foreign",
            Self::Ahead { .. } => "ahead",
        }
    }
}

/// A saved model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The bytes from the predictor.
    pub model: Vec<u8>,
    /// The newest event that the model has learnt.
    pub upto: Upto,
}

/// The folder of the models of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    dir: PathBuf,
}

impl Store {
    /// A store in a folder for all clusters. The folder is made at the first save.
    #[must_use]
    pub fn new(dir: &Path, cluster: &ClusterId) -> Self {
        Self {
            dir: dir.join(cluster.as_str()),
        }
    }

    /// The file of the model of a predictor.
    #[must_use]
    pub fn path(&self, predictor: &str) -> PathBuf {
        self.dir.join(format!("{predictor}.model"))
    }

    /// The saved model of a predictor; `None` if there is none.
    ///
    /// # Errors
    /// [`Refused`] if the saved model must not be used.
    pub fn load(&self, predictor: &str, situation: &Situation) -> Result<Option<Found>, Refused> {
        let path = self.path(predictor);
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(Refused::Read { path, source }),
        };
        let (head, model) = match head(&bytes) {
            Ok(parts) => parts,
            Err(source) => return Err(Refused::Model { path, source }),
        };
        let whose = |cluster: &ClusterId, recording: &str| match recording {
            "" => format!("cluster {cluster}"),
            recording => format!("cluster {cluster} playing {recording:?}"),
        };
        if head.cluster != situation.cluster || head.recording != situation.recording {
            return Err(Refused::Foreign {
                path,
                found: whose(&head.cluster, &head.recording),
                expected: whose(&situation.cluster, &situation.recording),
            });
        }
        match situation.now {
            Some(now) if now + AHEAD < head.at => Err(Refused::Ahead {
                path,
                upto: head.at,
                now,
            }),
            _ => Ok(Some(Found {
                model: model.to_vec(),
                upto: Upto {
                    at: head.at,
                    seq: head.seq,
                },
            })),
        }
    }

    /// Saves a model. The new file replaces the old one once it is on disk.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn save(
        &self,
        predictor: &str,
        situation: &Situation,
        found: &Found,
    ) -> std::io::Result<()> {
        let head = Head {
            cluster: situation.cluster.clone(),
            recording: situation.recording.clone(),
            at: found.upto.at,
            seq: found.upto.seq,
        };
        let bytes = seal(HEAD, VERSION, &head).and_then(|head| join(&head, &found.model));
        let bytes = bytes.ok_or_else(|| std::io::Error::other("the head cannot be written"))?;
        std::fs::create_dir_all(&self.dir)?;
        let path = self.path(predictor);
        let new = path.with_extension("new");
        let mut file = File::create(&new)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        std::fs::rename(&new, &path)?;
        File::open(&self.dir)?.sync_all()
    }

    /// Renames a refused file, so that no save overwrites it. The next refused file does.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn rename_refused(&self, predictor: &str) -> std::io::Result<PathBuf> {
        let path = self.path(predictor);
        let renamed = path.with_extension("refused");
        std::fs::rename(&path, &renamed)?;
        Ok(renamed)
    }
}

fn head(bytes: &[u8]) -> Result<(Head, &[u8]), ModelError> {
    let (head, model) = split(bytes)?;
    Ok((open(HEAD, VERSION, head)?, model))
}
