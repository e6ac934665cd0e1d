//! What the helper remembers: ended trainers, submitted pilots, and refusals. Its folder is locked
//! while a request is answered.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use lacuna_model::{Timestamp, TrainerId};
use lacuna_owner::Ticket;
use lacuna_scheduler::job::JobId;
use nix::unistd::geteuid;
use serde::{Deserialize, Serialize};

const FILE: &str = "book.json";
const LOCK: &str = "lock";

/// What is written down.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Pages {
    /// Trainers that are over, by owner, with the end of their tickets.
    #[serde(default)]
    over: BTreeMap<String, BTreeMap<TrainerId, Timestamp>>,
    /// The same of releases before, of any owner. Nothing is added to it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    ended: BTreeMap<TrainerId, Timestamp>,
    /// Submitted pilots, by job.
    pilots: BTreeMap<String, Pilot>,
    /// Refusals by cause.
    refused: BTreeMap<String, u64>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Pilot {
    owner: String,
    trainer: TrainerId,
}

impl Pilot {
    fn is_of(&self, ticket: &Ticket) -> bool {
        self.trainer == ticket.trainer && self.owner == ticket.owner
    }
}

/// The book, open and locked.
#[derive(Debug)]
pub(crate) struct Book {
    folder: PathBuf,
    _lock: File,
    pages: Pages,
}

impl Book {
    /// Opens the book of a folder, which is made if it does not exist. Waits for other requests.
    ///
    /// # Errors
    /// If the folder is not this user's alone, or its book cannot be read.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        match DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let found = fs::symlink_metadata(folder)?;
        if !found.is_dir() || found.uid() != geteuid().as_raw() || found.mode() & 0o077 != 0 {
            let text = format!("{} must be a folder of root and mode 700", folder.display());
            return Err(io::Error::other(text));
        }
        let lock = private()
            .create(true)
            .append(true)
            .open(folder.join(LOCK))?;
        lock.lock()?;
        let pages = match fs::read(folder.join(FILE)) {
            Ok(text) => serde_json::from_slice(&text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Pages::default(),
            Err(error) => return Err(error),
        };
        Ok(Self {
            folder: folder.to_owned(),
            _lock: lock,
            pages,
        })
    }

    /// Whether the trainer of a ticket is over.
    pub(crate) fn has_ended(&self, ticket: &Ticket) -> bool {
        let of_owner = self.pages.over.get(&ticket.owner);
        of_owner.is_some_and(|over| over.contains_key(&ticket.trainer))
            || self.pages.ended.contains_key(&ticket.trainer)
    }

    /// The trainer of a ticket is over. It stays so until its ticket is stale.
    pub(crate) fn end(&mut self, ticket: &Ticket, now: Timestamp) -> io::Result<()> {
        let Pages {
            over,
            ended,
            pilots,
            ..
        } = &mut self.pages;
        ended.retain(|_, until| *until > now);
        over.retain(|_, of_owner| {
            of_owner.retain(|_, until| *until > now);
            !of_owner.is_empty()
        });
        let of_owner = over.entry(ticket.owner.clone()).or_default();
        of_owner.insert(ticket.trainer.clone(), ticket.not_after);
        pilots.retain(|_, pilot| !pilot.is_of(ticket));
        self.write()
    }

    /// The number of pilots that were submitted for a trainer and are not known to be over.
    pub(crate) fn pilots(&self, ticket: &Ticket) -> usize {
        let pilots = self.pages.pilots.values();
        pilots.filter(|pilot| pilot.is_of(ticket)).count()
    }

    /// Forgets the pilots of an owner that the scheduler does not list.
    pub(crate) fn keep(&mut self, owner: &str, listed: &BTreeSet<String>) {
        self.pages
            .pilots
            .retain(|job, pilot| pilot.owner != owner || listed.contains(job));
    }

    /// A pilot was submitted.
    pub(crate) fn submitted(&mut self, job: &JobId, ticket: &Ticket) -> io::Result<()> {
        let pilot = Pilot {
            owner: ticket.owner.clone(),
            trainer: ticket.trainer.clone(),
        };
        self.pages.pilots.insert(job.to_string(), pilot);
        self.write()
    }

    /// A request was refused.
    pub(crate) fn refused(&mut self, cause: &str) -> io::Result<()> {
        *self.pages.refused.entry(cause.to_owned()).or_default() += 1;
        self.write()
    }

    /// Refusals by cause.
    pub(crate) const fn refusals(&self) -> &BTreeMap<String, u64> {
        &self.pages.refused
    }

    fn write(&self) -> io::Result<()> {
        let beside = self.folder.join("book.new");
        let mut options = private();
        let mut file = options
            .create(true)
            .truncate(true)
            .write(true)
            .open(&beside)?;
        file.write_all(&serde_json::to_vec(&self.pages)?)?;
        file.sync_all()?;
        fs::rename(beside, self.folder.join(FILE))
    }
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}
