//! What was learnt, on the disk: one file for each predictor, written whole or not at all.
//!
//! Layout: the length of the head (four bytes, least first), the head
//! ([`seal`](lacuna_forecast::saved::seal)ed), and the model as the predictor writes it. Both
//! carry a checksum. The head says of which cluster and recording the model is, and up to which
//! moment it has learnt: one that knows what is yet to come is refused.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use lacuna_forecast::ModelError;
use lacuna_forecast::saved::{open, seal};
use lacuna_model::{ClusterId, Span, Timestamp};
use serde::{Deserialize, Serialize};

use crate::learner::Upto;

const HEAD: &str = "forecast service";
const VERSION: u16 = 1;

/// A power failure may take the newest snapshot with it and leave the model: so much may it be
/// ahead.
const AHEAD: Span = Span::from_secs(60);

#[derive(Debug, Serialize, Deserialize)]
struct Head {
    cluster: ClusterId,
    recording: String,
    at: Timestamp,
    seq: u64,
}

/// Whose models are wanted, and as of when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Situation {
    /// Of which cluster.
    pub cluster: ClusterId,
    /// What is played; empty if no recording is.
    pub recording: String,
    /// The newest moment that is known; nothing if nothing has been heard.
    pub now: Option<Timestamp>,
}

/// Why a saved model is not taken up.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// The file is there and cannot be read.
    #[error("{path}: {source}", path = path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is damaged, old, or of another predictor.
    #[error("{path}: {source}", path = path.display())]
    Model {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        source: ModelError,
    },
    /// It is of another cluster or recording.
    #[error("{path}: the saved model is of {found}, expected {expected}", path = path.display())]
    Foreign {
        /// Which file.
        path: PathBuf,
        /// Whose it is.
        found: String,
        /// Whose it should be.
        expected: String,
    },
    /// It has learnt from what is yet to come.
    #[error(
        "{path}: the saved model has learnt up to {upto} s, and the cluster's time is {now} s",
        path = path.display(), upto = upto.unix_seconds(), now = now.unix_seconds()
    )]
    Ahead {
        /// Which file.
        path: PathBuf,
        /// Up to when it has learnt.
        upto: Timestamp,
        /// The cluster's time.
        now: Timestamp,
    },
}

impl Refused {
    /// In a word, for a metric.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Read { .. } => "unreadable",
            Self::Model { source, .. } => match source {
                ModelError::Damaged { .. } => "damaged",
                ModelError::OtherVersion { .. } => "other_version",
                ModelError::OtherPredictor { .. } | ModelError::NothingToLearn { .. } => {
                    "other_predictor"
                }
            },
            Self::Foreign { .. } => "foreign",
            Self::Ahead { .. } => "ahead",
        }
    }
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// As the predictor wrote it.
    pub model: Vec<u8>,
    /// Up to which event it has learnt.
    pub upto: Upto,
}

/// The folder of a cluster's models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    dir: PathBuf,
}

impl Store {
    /// In a folder for all clusters. It is made when something is saved.
    #[must_use]
    pub fn new(dir: &Path, cluster: &ClusterId) -> Self {
        Self {
            dir: dir.join(cluster.as_str()),
        }
    }

    /// The file of a predictor's model.
    #[must_use]
    pub fn path(&self, predictor: &str) -> PathBuf {
        self.dir.join(format!("{predictor}.model"))
    }

    /// What was saved of a predictor; nothing if nothing was.
    ///
    /// # Errors
    /// [`Refused`] if there is something that must not be used.
    pub fn load(&self, predictor: &str, situation: &Situation) -> Result<Option<Found>, Refused> {
        let path = self.path(predictor);
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(Refused::Read { path, source }),
        };
        let (head, model) = match split(&bytes) {
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

    /// Saves a model: a file beside the old one takes its place once it is on the disk.
    ///
    /// # Errors
    /// What the file system says.
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
        let head = seal(HEAD, VERSION, &head)
            .ok_or_else(|| std::io::Error::other("the head cannot be written"))?;
        let length = u32::try_from(head.len()).map_err(std::io::Error::other)?;
        std::fs::create_dir_all(&self.dir)?;
        let path = self.path(predictor);
        let new = path.with_extension("new");
        let mut file = File::create(&new)?;
        file.write_all(&length.to_le_bytes())?;
        file.write_all(&head)?;
        file.write_all(&found.model)?;
        file.sync_all()?;
        std::fs::rename(&new, &path)?;
        File::open(&self.dir)?.sync_all()
    }

    /// Puts a refused file aside, where nothing overwrites it until the next one is refused.
    ///
    /// # Errors
    /// What the file system says.
    pub fn put_aside(&self, predictor: &str) -> std::io::Result<PathBuf> {
        let path = self.path(predictor);
        let aside = path.with_extension("refused");
        std::fs::rename(&path, &aside)?;
        Ok(aside)
    }
}

fn split(bytes: &[u8]) -> Result<(Head, &[u8]), ModelError> {
    let short = || ModelError::Damaged {
        what: "it ends before it begins".to_owned(),
    };
    let (length, rest) = bytes.split_first_chunk::<4>().ok_or_else(short)?;
    let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| short())?;
    let (head, model) = rest.split_at_checked(length).ok_or_else(short)?;
    Ok((open(HEAD, VERSION, head)?, model))
}
