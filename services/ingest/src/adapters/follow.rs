//! Follows a file while a scheduler writes it, and keeps its position over a restart. All functions
//! block.
//!
//! The saved position advances only after a stream keeps the events of the lines before it.

use std::fs::File;
use std::io::{Error, ErrorKind, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use lacuna_runtime::Misconfigured;
use lacuna_trace::tail::{BEFORE, FileView, HEAD, Next, Order, Position, Tail, TailCounts};
use serde_json::Value;

/// Version of the state file.
const VERSION: u32 = 1;

/// Bytes read in one look, before their events are published.
const MOST: usize = 16 << 20;

/// Lines of one look.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Whole lines, in order.
    pub(crate) lines: Vec<Vec<u8>>,
    /// Whether the file has further lines.
    pub(crate) more: bool,
}

/// Follows a file, or a folder with a file a day.
#[derive(Debug)]
pub(crate) struct Follower {
    path: PathBuf,
    tail: Tail,
    /// The file read last, kept open so that it can be read to its end after its deletion.
    open: Option<(u64, File)>,
}

impl Follower {
    /// A follower that continues at `position`. `path` is a file, or a folder of files whose names
    /// are days.
    pub(crate) fn new(path: &Path, position: Option<Position>) -> Self {
        let order = match path.is_dir() {
            true => Order::Dated,
            false => Order::Rotated,
        };
        Self {
            path: path.to_owned(),
            tail: Tail::new(order, position),
            open: None,
        }
    }

    pub(crate) fn position(&self) -> Option<&Position> {
        self.tail.position()
    }

    pub(crate) fn counts(&self) -> TailCounts {
        self.tail.counts()
    }

    /// Reads the new lines of the files.
    ///
    /// # Errors
    /// If the file or folder does not exist, or cannot be read.
    pub(crate) fn look(&mut self) -> Result<Batch, Error> {
        let mut batch = Batch::default();
        let mut read = 0_usize;
        loop {
            let files = self.views()?;
            let Some(next) = self.tail.look(&files) else {
                return Ok(batch);
            };
            let bytes = self.bytes(&next)?;
            let lines = &mut batch.lines;
            let mut each = |line: &[u8]| lines.push(line.to_vec());
            let full = bytes.len() >= next.most;
            match next.ends && !full {
                true => self.tail.take_rest(&bytes, &mut each),
                false => self.tail.take(&bytes, &mut each),
            }
            read = read.saturating_add(bytes.len());
            if !full {
                return Ok(batch);
            }
            if read >= MOST {
                batch.more = true;
                return Ok(batch);
            }
        }
    }

    /// All files that may hold lines, older ones first.
    fn views(&self) -> Result<Vec<FileView>, Error> {
        if self.path.is_dir() {
            return self.by_day();
        }
        let present = match self.one(&self.path) {
            // The file has been renamed, and the next one does not exist yet.
            Err(error) if error.kind() == ErrorKind::NotFound && self.position().is_some() => None,
            other => Some(other?),
        };
        if let (Some(present), Some(position)) = (&present, self.position())
            && present.inode == position.inode
            && present.length >= position.offset
            && present.before == position.before
        {
            return Ok(vec![present.clone()]);
        }
        let mut files = self.siblings()?;
        self.with_open(&mut files, present.as_ref());
        files.extend(present);
        Ok(files)
    }

    /// Adds the file that was read last, if it no longer has a name.
    fn with_open(&self, files: &mut Vec<FileView>, present: Option<&FileView>) {
        let Some((inode, file)) = &self.open else {
            return;
        };
        if files.iter().chain(present).any(|view| view.inode == *inode) {
            return;
        }
        // On a network file system, the content of a deleted file may be gone at once.
        if let Ok(view) = self.describe(String::new(), file) {
            files.insert(0, view);
        }
    }

    /// Rotated files: the name with a suffix that is a number or a day, not compressed.
    fn siblings(&self) -> Result<Vec<FileView>, Error> {
        let (Some(folder), Some(name)) = (self.path.parent(), self.path.file_name()) else {
            return Ok(Vec::new());
        };
        let folder = match folder.as_os_str().is_empty() {
            true => Path::new("."),
            false => folder,
        };
        let name = name.to_string_lossy();
        let mut found = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let other = entry.file_name();
            let other = other.to_string_lossy();
            let Some(rest) = other.strip_prefix(name.as_ref()) else {
                continue;
            };
            let is_number = rest.starts_with(['.', '-'])
                && rest.len() > 1
                && rest.chars().skip(1).all(|c| c.is_ascii_digit() || c == '-');
            // A file that has been deleted meanwhile is skipped.
            if is_number
                && let Ok(data) = entry.metadata()
                && let Ok(view) = self.one(&entry.path())
            {
                found.push((data.mtime(), data.mtime_nsec(), view));
            }
        }
        found.sort_by_key(|found| (found.0, found.1));
        Ok(found.into_iter().map(|(_, _, view)| view).collect())
    }

    /// Files whose names are days, from the one that was read last; at first only the newest.
    fn by_day(&self) -> Result<Vec<FileView>, Error> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name.len() == 8 && name.bytes().all(|b| b.is_ascii_digit()) {
                names.push(name);
            }
        }
        names.sort_unstable();
        let from = match self.position() {
            Some(position) => names.partition_point(|name| *name < position.name),
            None => names.len().saturating_sub(1),
        };
        let mut files = Vec::new();
        for name in names.into_iter().skip(from) {
            files.push(self.one(&self.path.join(&name))?);
        }
        if files.is_empty() {
            let text = "no accounting file: their names are days, as in 20261120";
            return Err(Error::new(ErrorKind::NotFound, text));
        }
        Ok(files)
    }

    fn one(&self, path: &Path) -> Result<FileView, Error> {
        let name = path.file_name().unwrap_or(path.as_os_str());
        let name = name.to_string_lossy().into_owned();
        let file = File::open(path)
            .map_err(|error| Error::new(error.kind(), format!("{}: {error}", path.display())))?;
        self.describe(name, &file)
    }

    fn describe(&self, name: String, file: &File) -> Result<FileView, Error> {
        let data = file.metadata()?;
        let offset = self.position().map_or(0, |position| position.offset);
        let from = offset.saturating_sub(u64::try_from(BEFORE).unwrap_or(0));
        let before = match data.len() >= offset {
            true => {
                let length = usize::try_from(offset.saturating_sub(from)).unwrap_or(BEFORE);
                read_at(file, from, length)?
            }
            false => Vec::new(),
        };
        Ok(FileView {
            name,
            inode: data.ino(),
            length: data.len(),
            head: read_at(file, 0, HEAD)?,
            before,
        })
    }

    /// Reads the bytes that the tail requests; none if the name belongs to another file by now.
    fn bytes(&mut self, next: &Next) -> Result<Vec<u8>, Error> {
        if self
            .open
            .as_ref()
            .is_none_or(|(inode, _)| *inode != next.inode)
        {
            let path = match self.path.is_dir() {
                true => self.path.join(&next.name),
                false => self.path.with_file_name(&next.name),
            };
            let file = File::open(path)?;
            if file.metadata()?.ino() != next.inode {
                return Ok(Vec::new());
            }
            self.open = Some((next.inode, file));
        }
        match &self.open {
            Some((_, file)) => read_at(file, next.from, next.most),
            None => Ok(Vec::new()),
        }
    }
}

/// Up to `most` bytes from `from`.
fn read_at(file: &File, from: u64, most: usize) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0; most.min(1 << 16)];
    let mut filled = 0_usize;
    loop {
        let room = bytes.get_mut(filled..).unwrap_or_default();
        let at = from.saturating_add(u64::try_from(filled).unwrap_or(u64::MAX));
        match file.read_at(room, at) {
            Ok(0) => break,
            Ok(count) => filled = filled.saturating_add(count),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if filled == bytes.len() {
            if filled >= most {
                break;
            }
            bytes.resize(filled.saturating_mul(2).min(most), 0);
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Saved {
    version: u32,
    #[serde(rename = "place")]
    position: Option<Position>,
    state: Value,
}

/// Loads the position, and gives `restore` the state of the jobs there. A damaged file is renamed
/// to `*.refused`, and reading starts from the beginning.
///
/// # Errors
/// [`Misconfigured`] if the file exists and cannot be read.
pub(crate) fn load(
    path: Option<&Path>,
    restore: impl FnOnce(Value) -> Result<(), serde_json::Error>,
) -> Result<Option<Position>, Misconfigured> {
    let Some(path) = path else {
        return Ok(None);
    };
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(Misconfigured(format!(
                "configuration: following.state_file {}: {error}",
                path.display()
            )));
        }
    };
    let read: Result<Saved, _> = serde_json::from_slice(&text);
    let refused = match read {
        Ok(saved) if saved.version == VERSION => match restore(saved.state) {
            Ok(()) => return Ok(saved.position),
            Err(error) => error.to_string(),
        },
        Ok(saved) => format!("it has version {}", saved.version),
        Err(error) => error.to_string(),
    };
    tracing::error!(file = %path.display(), reason = refused,
        "the position in the main scheduler's file is lost, reading from the beginning");
    let _ = std::fs::rename(path, path.with_extension("refused"));
    Ok(None)
}

/// Saves the position and the state. The file is written whole or not at all.
///
/// # Errors
/// If the file cannot be written.
pub(crate) fn save(
    path: &Path,
    position: Option<&Position>,
    state: Result<Value, serde_json::Error>,
) -> Result<(), Error> {
    let saved = Saved {
        version: VERSION,
        position: position.cloned(),
        state: state?,
    };
    let text = serde_json::to_vec(&saved)?;
    let part = path.with_extension("part");
    let mut file = File::create(&part)?;
    file.write_all(&text)?;
    file.sync_all()?;
    std::fs::rename(&part, path)
}
