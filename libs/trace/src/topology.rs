//! Files that say where nodes are, as a [`Topology`].
//!
//! [`read`] knows a format by its first lines. Each format is a file of its own below:
//!
//! | Format | Source | What becomes of it |
//! |---|---|---|
//! | `topology.conf`, `scontrol` | `slurm.rs` | a tree of switches, or blocks and their aggregates |
//! | `topology.yaml` | `yaml.rs` | the same, of the cluster's default topology |
//! | `pbsnodes` | `pbs.rs` | the resources of `node_group_key`, the leaf first |
//! | `lsf` | `lsf.rs` | compute units; tried on samples of the manual only |
//! | `ibnetdiscover` | `infiniband.rs` | the switch of each host; of several rails that agree, the first |
//! | `csv` | `csv.rs` | columns `node,leaf[,pod[,...]]` |
//!
//! A topology of a kind that no reader knows is empty, with a note: nothing is known about distance.
//!
//! Trees may be of unequal depth. Short paths are padded with their root, so a leaf directly below
//! the root is as far from others as a leaf at the bottom. A file that contradicts itself is
//! refused with its line.

mod csv;
mod error;
mod infiniband;
mod lsf;
mod pbs;
mod rows;
mod slurm;
mod tree;
mod yaml;

use std::fmt;
use std::io::Read as _;
use std::path::Path;

use lacuna_model::Topology;
use lacuna_records::excerpt;

use crate::{ReadError, open};

pub use error::{Contradiction, Disagreement, Fault, TopologyFileError};

/// A format of topologies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TopologyFormat {
    /// Slurm: `topology.conf`, of a tree or of blocks.
    Conf,
    /// Slurm: `topology.yaml`.
    Yaml,
    /// Slurm: the output of `scontrol show topology`.
    Scontrol,
    /// PBS: the output of `pbsnodes -a -F json`.
    Pbsnodes,
    /// LSF: the section `ComputeUnit` of `lsb.hosts`, or the output of `bmgroup -cu`.
    Lsf,
    /// InfiniBand: the output of `ibnetdiscover`.
    Ibnetdiscover,
    /// Lacuna: `node,leaf[,pod[,...]]`.
    Csv,
}

/// How a format is recognised and read.
struct Entry {
    name: &'static str,
    /// Whether a first line (trimmed, neither blank nor a comment) is of this format.
    knows: fn(&str) -> bool,
    read: fn(&str, &TopologyOptions) -> Result<Noted, TopologyFileError>,
}

/// What a file needs besides its text. Each format ignores what is of another.
#[derive(Debug, Clone, Default)]
pub struct TopologyOptions {
    /// PBS: the resources that name the switches above a node, the leaf first, as in
    /// `node_group_key`.
    pub keys: Vec<String>,
    /// `ibnetdiscover`: patterns of the descriptions of the adapters that count, with `*` for any
    /// text; all without one.
    pub rails: Vec<String>,
}

/// A topology, and what a user should know of it.
#[derive(Debug, Default)]
struct Noted {
    topology: Topology,
    note: Option<String>,
}

impl From<Topology> for Noted {
    fn from(topology: Topology) -> Self {
        let note = None;
        Self { topology, note }
    }
}

impl Noted {
    /// Of a topology of an unknown kind.
    fn unknown(name: &str, kind: &str) -> Self {
        let note = format!(
            "{name} is of the kind {kind}, which Lacuna does not know: nothing is known about distance"
        );
        Self {
            topology: Topology::default(),
            note: Some(note),
        }
    }
}

/// A topology that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct TopologyRead {
    /// The format of the text.
    pub format: TopologyFormat,
    /// Where nodes are.
    pub topology: Topology,
    /// Why nothing is known about distance, if the topology is of an unknown kind.
    pub note: Option<String>,
}

impl TopologyFormat {
    /// All formats, in the order of recognition.
    pub const ALL: [Self; 7] = [
        Self::Scontrol,
        Self::Conf,
        Self::Yaml,
        Self::Pbsnodes,
        Self::Lsf,
        Self::Ibnetdiscover,
        Self::Csv,
    ];

    const fn entry(self) -> Entry {
        match self {
            Self::Scontrol => Entry {
                name: "scontrol",
                knows: slurm::knows_answer,
                read: |text, _| slurm::read(text),
            },
            Self::Conf => Entry {
                name: "topology.conf",
                knows: slurm::knows_file,
                read: |text, _| slurm::read(text),
            },
            Self::Yaml => Entry {
                name: "topology.yaml",
                knows: yaml::knows,
                read: |text, _| yaml::read(text),
            },
            Self::Pbsnodes => Entry {
                name: "pbsnodes",
                knows: pbs::knows,
                read: |text, options| pbs::read(text, &options.keys).map(Noted::from),
            },
            Self::Lsf => Entry {
                name: "lsf",
                knows: lsf::knows,
                read: |text, _| lsf::read(text).map(Noted::from),
            },
            Self::Ibnetdiscover => Entry {
                name: "ibnetdiscover",
                knows: infiniband::knows,
                read: |text, options| infiniband::read(text, &options.rails).map(Noted::from),
            },
            Self::Csv => Entry {
                name: "csv",
                knows: csv::knows,
                read: |text, _| csv::read(text).map(Noted::from),
            },
        }
    }

    /// Name of the format in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.entry().name
    }

    /// Recognises the format by the first line that is neither blank nor a comment.
    #[must_use]
    pub fn detect(text: &str) -> Option<Self> {
        let first = first_line(text)?.1;
        Self::ALL
            .into_iter()
            .find(|format| (format.entry().knows)(first))
    }
}

impl fmt::Display for TopologyFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Number and text of the first line that is neither blank nor a comment.
fn first_line(text: &str) -> Option<(u64, &str)> {
    lines(text).find(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// Lines with their numbers from 1, trimmed.
fn lines(text: &str) -> impl Iterator<Item = (u64, &str)> {
    (1..).zip(text.lines().map(str::trim))
}

/// Reads a topology of any format.
///
/// # Errors
/// [`TopologyFileError`] with the line: the format is unknown, a line is damaged, or the file
/// contradicts itself.
pub fn read(text: &str, options: &TopologyOptions) -> Result<TopologyRead, TopologyFileError> {
    let text = text.trim_start_matches('\u{feff}');
    let Some(format) = TopologyFormat::detect(text) else {
        let (line, found) = first_line(text).unwrap_or((1, ""));
        return Err(TopologyFileError::new(line, Fault::Format(excerpt(found))));
    };
    let Noted { topology, note } = (format.entry().read)(text, options)?;
    Ok(TopologyRead {
        format,
        topology,
        note,
    })
}

/// Reads a file, plain, gzip or zstd; see [`read`].
///
/// # Errors
/// [`ReadError`] if the file cannot be read, with the line of what is wrong in it.
pub fn load(path: &Path, options: &TopologyOptions) -> Result<TopologyRead, ReadError> {
    let mut bytes = Vec::new();
    open(path)?
        .read_to_end(&mut bytes)
        .map_err(|source| ReadError::interrupted(path, 0, source))?;
    let text = String::from_utf8_lossy(&bytes);
    read(&text, options).map_err(|error| ReadError::Unreadable {
        path: path.to_owned(),
        format: TopologyFormat::detect(&text).map_or("a topology", TopologyFormat::name),
        reason: error.to_string(),
    })
}
