//! Reading a file of trainers.

use std::collections::HashSet;
use std::io::BufRead;
use std::path::{Path, PathBuf};

use lacuna_model::{KindRates, Stages, TrainerId, TrainerSpec};
use lacuna_trace::{ReadError, open};

use crate::error::{Fault, TrainerFileError};
use crate::layers::Layers;
use crate::syntax;

/// What trainers are read for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// They are submitted to a cluster.
    Submit,
    /// A replay simulates them, programs too.
    Replay,
}

/// The trainers of a file, in its order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TrainerList {
    /// The trainers. One without `not_before` has time zero as its time of submission: control
    /// replaces it by the time of arrival, and a replay begins with it.
    pub trainers: Vec<TrainerSpec>,
    /// The stages of trainers whose curves change, and what is known of steps; for replays alone.
    pub stages: Stages,
}

/// A file while it is read.
pub(crate) struct Reader<'f> {
    pub(crate) path: &'f Path,
    pub(crate) file: String,
    pub(crate) purpose: Purpose,
    /// Rates of profiles with their most nodes: trainers often share one.
    pub(crate) of_layers: Vec<(Layers, u32, KindRates)>,
    names: HashSet<TrainerId>,
    list: TrainerList,
}

/// Reads a file: TOML, or JSON lines if it begins with `{`; plain, gzip or zstd.
///
/// # Errors
/// [`TrainerFileError`] names file, line and key, with a remedy.
pub fn read(path: &Path, purpose: Purpose) -> Result<TrainerList, TrainerFileError> {
    parse(path, open(path)?, purpose)
}

/// Reads a stream, as [`read`]. `path` is named in errors, and its folder has what trainers name.
///
/// # Errors
/// As [`read`].
pub fn parse(
    path: &Path,
    mut stream: impl BufRead,
    purpose: Purpose,
) -> Result<TrainerList, TrainerFileError> {
    let mut reader = Reader {
        path,
        file: path.display().to_string(),
        purpose,
        of_layers: Vec::new(),
        names: HashSet::new(),
        list: TrainerList::default(),
    };
    let mut text = Vec::new();
    let mut line = 0;
    loop {
        let begin = text.len();
        let read = stream.read_until(b'\n', &mut text);
        let read = read.map_err(|source| ReadError::interrupted(path, line, source))?;
        line += 1;
        let (number, written) = (line as usize, text.get(begin..).unwrap_or_default());
        let written = written
            .strip_prefix("\u{feff}".as_bytes())
            .unwrap_or(written);
        let is_blank = written.trim_ascii().is_empty();
        if written.trim_ascii_start().starts_with(b"{") {
            reader.line(written, number)?;
            text.clear();
        } else if read > 0 && is_blank {
            // A table of TOML has no blank before its first `[`, and an empty line is neither's.
        } else if reader.list.trainers.is_empty() && read > 0 {
            let rest = stream.read_to_end(&mut text);
            rest.map_err(|source| ReadError::interrupted(path, line, source))?;
            reader.toml(&text)?;
            break;
        } else if read > 0 {
            reader.line(written, number)?;
        } else {
            break;
        }
    }
    if reader.list.trainers.is_empty() {
        return Err(TrainerFileError::Empty { file: reader.file });
    }
    Ok(reader.list)
}

impl Reader<'_> {
    /// The folder of the file, if the current folder is known.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        let file = std::path::absolute(self.path).ok()?;
        Some(file.parent()?.to_owned())
    }

    fn line(&mut self, text: &[u8], number: usize) -> Result<(), TrainerFileError> {
        let written = syntax::json(text);
        let read = written.and_then(|written| self.add(written));
        read.map_err(|fault| fault.at(&self.file, number))
    }

    fn toml(&mut self, text: &[u8]) -> Result<(), TrainerFileError> {
        let line = |before: &[u8]| before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let text = std::str::from_utf8(text).map_err(|error| {
            let before = text.get(..error.valid_up_to()).unwrap_or(text);
            let fault = Fault::new("text", "is not UTF-8", "save the file as UTF-8");
            fault.at(&self.file, line(before))
        })?;
        let at = |place: usize, fault: Fault, file: &str| {
            let before = text.as_bytes().get(..place).unwrap_or(text.as_bytes());
            fault.at(file, line(before))
        };
        let tables = syntax::tables(text);
        for table in tables.map_err(|(place, fault)| at(place, fault, &self.file))? {
            let written = table.written();
            let written = written.map_err(|(place, fault)| at(place, fault, &self.file))?;
            self.add(written)
                .map_err(|fault| at(table.place_of(&fault.key), fault, &self.file))?;
        }
        Ok(())
    }

    fn add(&mut self, written: crate::written::Written) -> Result<(), Fault> {
        let (spec, staged) = self.trainer(written)?;
        if !self.names.insert(spec.id.clone()) {
            let problem = format!("{} is the name of a trainer above", spec.id);
            return Err(Fault::new("name", problem, "write another one"));
        }
        if let Some(staged) = staged {
            self.list.stages.insert(spec.id.clone(), staged);
        }
        self.list.trainers.push(spec);
        Ok(())
    }
}
