//! Where the nodes of a replay are, and what distance costs its trainers.

use std::path::{Path, PathBuf};

use lacuna_model::{Distance, Topology, TrainerSpec};
use lacuna_sim::{Annotated, PoolTrace, leaves_by_name};
use lacuna_trace::read_kinds;
use lacuna_trace::topology::TopologyOptions;

use super::failed::failed;
use crate::error::{CliError, Result};
use crate::log::unreadable;

/// Where nodes are, and what distance costs trainers that do not say it.
#[derive(Debug, Default)]
pub struct Network {
    /// The file that says where nodes are.
    pub file: Option<PathBuf>,
    /// How it is read.
    pub options: TopologyOptions,
    /// Leaves of this number of neighbouring names, in place of a file.
    pub leaves: Option<u32>,
    /// The seed with which nodes are shuffled over those leaves.
    pub shuffled: Option<u64>,
    /// The share of its rate that a trainer loses on several leaves, unless it says so itself.
    pub crossing_cost: f64,
    /// Switches that change nothing without a network.
    pub idle: Vec<&'static str>,
}

impl Network {
    /// The trace with what is known of its nodes: where they are and, by this list, their kinds.
    ///
    /// # Errors
    /// The network or the list cannot be read, or has not all nodes.
    pub(super) fn known<'a>(
        &self,
        trace: &'a dyn PoolTrace,
        kinds: Option<&Path>,
    ) -> Result<Annotated<'a>> {
        let mut known = Annotated::new(trace);
        if let Some(topology) = self.topology(trace)? {
            known = known.with_topology(topology);
        }
        if let Some(file) = kinds {
            let kinds = read_kinds(file).map_err(unreadable)?;
            known = known.with_kinds(&kinds).map_err(failed)?;
        }
        Ok(known)
    }

    /// The topology of the trace's nodes, if there is one.
    ///
    /// # Errors
    /// The file cannot be read, or contradicts itself.
    fn topology(&self, trace: &dyn PoolTrace) -> Result<Option<Topology>> {
        match (&self.file, self.leaves) {
            (Some(path), _) => {
                let read = lacuna_trace::topology::load(path, &self.options).map_err(|e| {
                    CliError::failed(e.to_string()).remedy(
                        "keys and rails stand behind the file: --topology FILE,switch,cabinet",
                    )
                })?;
                match read.note {
                    Some(note) => Err(CliError::failed(format!("{}: {note}", path.display()))
                        .remedy("leave --topology out")),
                    None => Ok(Some(read.topology)),
                }
            }
            (None, Some(size)) => leaves_by_name(trace, size, self.shuffled)
                .map(Some)
                .map_err(|e| CliError::failed(format!("--leaves: {e}"))),
            (None, None) => Ok(None),
        }
    }

    /// Charges trainers that do not say what distance costs them.
    ///
    /// # Errors
    /// The cost is no share.
    pub(super) fn charge(&self, trainers: &mut [TrainerSpec]) -> Result<()> {
        let cost = self.crossing_cost;
        if !(0.0..1.0).contains(&cost) {
            return Err(CliError::failed(format!(
                "--crossing-cost: {cost} is no share of a rate: expected 0 or more, below 1"
            )));
        }
        if cost > 0.0 {
            let silent = trainers.iter_mut().filter(|spec| spec.distance.is_free());
            silent.for_each(|spec| spec.distance = Distance::Shares(vec![1.0 - cost]));
        }
        Ok(())
    }

    /// A caveat of an assumed topology, or what changes nothing without one.
    pub(super) fn note(&self) -> Option<String> {
        let Some(size) = self.leaves else {
            return (self.file.is_none() && !self.idle.is_empty()).then(|| {
                format!(
                    "no effect of {}, since no leaves are known: give --topology or --leaves",
                    self.idle.join(", ")
                )
            });
        };
        let how = match self.shuffled {
            Some(seed) => format!("nodes shuffled with seed {seed}"),
            None => "neighbouring names".to_owned(),
        };
        Some(format!("leaves of {size} nodes are assumed: {how}"))
    }
}
