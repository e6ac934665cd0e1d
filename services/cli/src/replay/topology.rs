//! Where the nodes of a replay are, and what distance costs its trainers.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use lacuna_model::{Distance, Topology, TrainerSpec};
use lacuna_sim::{Place, PoolTrace, leaves_by_name};
use lacuna_trace::topology::TopologyOptions;

use crate::error::{CliError, Result};

/// The heading of the help.
const NETWORK: &str = "The network";

/// Arguments on where nodes are.
#[derive(Debug, Args)]
pub(crate) struct LocatedArgs {
    /// Where nodes are: a file as for `lacuna check topology`, or CSV (node,leaf[,pod...])
    #[arg(long, help_heading = NETWORK, value_name = "FILE", conflicts_with = "leaves")]
    topology: Option<PathBuf>,
    /// PBS: the resources that name the switches above a node, the leaf first
    #[arg(long, help_heading = NETWORK, value_name = "NAME", value_delimiter = ',', requires = "topology")]
    keys: Vec<String>,
    /// ibnetdiscover: the adapters that count, where a node has several, such as mlx5_0
    #[arg(long, help_heading = NETWORK, value_name = "PATTERN", value_delimiter = ',', requires = "topology")]
    rail: Vec<String>,
    /// Assume leaf switches of N nodes with neighbouring names
    #[arg(long, help_heading = NETWORK, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    leaves: Option<u32>,
    /// Shuffle the nodes over those leaves with this seed
    #[arg(long, help_heading = NETWORK, value_name = "SEED", requires = "leaves")]
    shuffle_leaves: Option<u64>,
    /// The share of its rate that a trainer loses when its nodes are on several leaves, unless it
    /// says so itself
    #[arg(long, help_heading = NETWORK, value_name = "SHARE", default_value_t = 0.0)]
    crossing_cost: f64,
    /// How many trainers on several leaves the uplink of a leaf carries at full speed; more share it,
    /// and are slower [default: all]
    #[arg(long, help_heading = NETWORK, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) uplink: Option<u32>,
    /// How trainers are placed
    #[arg(long, help_heading = NETWORK, value_enum, default_value_t = PlaceArg::Aware)]
    place: PlaceArg,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PlaceArg {
    /// The planner knows where nodes are
    Aware,
    /// It does not know it; work is counted at the true distance
    Unaware,
    /// Sizes by the policy, nodes by the first free names
    FirstFit,
}

impl LocatedArgs {
    /// How trainers are placed.
    pub(super) fn place(&self) -> Place {
        match self.place {
            PlaceArg::Aware => Place::Aware,
            PlaceArg::Unaware => Place::Unaware,
            PlaceArg::FirstFit => Place::FirstFit,
        }
    }

    /// The topology of the trace's nodes, if there is one.
    ///
    /// # Errors
    /// The file cannot be read, or contradicts itself.
    pub(super) fn topology(&self, trace: &dyn PoolTrace) -> Result<Option<Topology>> {
        match (&self.topology, self.leaves) {
            (Some(path), _) => {
                let options = TopologyOptions {
                    keys: self.keys.clone(),
                    rails: self.rail.clone(),
                };
                let read = lacuna_trace::topology::load(path, &options)
                    .map_err(|e| CliError::failed(e.to_string()))?;
                match read.note {
                    Some(note) => Err(CliError::failed(format!("{}: {note}", path.display()))
                        .remedy("leave --topology out")),
                    None => Ok(Some(read.topology)),
                }
            }
            (None, Some(size)) => leaves_by_name(trace, size, self.shuffle_leaves)
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
            let idle = [
                ("--crossing-cost", self.crossing_cost > 0.0),
                ("--uplink", self.uplink.is_some()),
                ("--place", self.place != PlaceArg::Aware),
            ];
            let idle = idle.into_iter().filter(|(_, given)| *given);
            let names: Vec<_> = idle.map(|(name, _)| name).collect();
            return (self.topology.is_none() && !names.is_empty()).then(|| {
                format!(
                    "no effect of {}, since no leaves are known: give --topology or --leaves",
                    names.join(", ")
                )
            });
        };
        let how = match self.shuffle_leaves {
            Some(seed) => format!("nodes shuffled with seed {seed}"),
            None => "neighbouring names".to_owned(),
        };
        Some(format!("leaves of {size} nodes are assumed: {how}"))
    }
}
