//! The model that forecasts start with.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use lacuna_forecast::{Learnt, Unfit};
use lacuna_sim::PoolTrace;

use crate::error::{CliError, Result, file_error};
use crate::output::iso_short;

/// The model that forecasts start with.
#[derive(Debug, Clone, Args)]
pub struct ModelArg {
    /// Start with the forecasts of this file, which `lacuna forecast learn` wrote
    #[arg(long, value_name = "FILE")]
    pub model: Option<PathBuf>,
}

impl ModelArg {
    /// Reads the model, if one is named.
    ///
    /// # Errors
    /// The file cannot be read, or is no model.
    pub fn read(&self) -> Result<Option<Arc<Learnt>>> {
        let Some(path) = &self.model else {
            return Ok(None);
        };
        let bytes = std::fs::read(path).map_err(|e| file_error("read", path, &e))?;
        let model = Learnt::read(&bytes).map_err(|error| self.unfit(&error.into()))?;
        Ok(Some(Arc::new(model)))
    }

    /// The error of a model that cannot be used.
    #[must_use]
    pub fn unfit(&self, error: &Unfit) -> CliError {
        let model = self.words();
        match error {
            Unfit::Model(error) => CliError::failed(format!("{model}: {error}"))
                .remedy("make it again with lacuna forecast learn"),
            Unfit::Ahead { until, now } => CliError::failed(format!(
                "{model}: it has learnt up to {until}, and the part of the log starts at {start}: it would know the \
                 future",
                until = iso_short(*until),
                start = iso_short(*now)
            ))
            .remedy("start later with --from, or learn a model with --until"),
            Unfit::OtherMachine { .. } | Unfit::OtherSize { .. } | Unfit::Simulated => {
                CliError::failed(format!("{model}: {error}"))
            }
        }
    }

    /// What forecasts start with, as a note.
    ///
    /// # Errors
    /// The model is of another machine, or has learnt from what comes after the start. It is of
    /// another machine, too, if it is of a simulated one and the nodes are of a real one, or the
    /// other way round.
    pub fn note(&self, model: &Learnt, trace: &dyn PoolTrace, simulated: bool) -> Result<String> {
        let (from, shown) = (model.from(), self.words());
        if from.simulated != simulated {
            let (of, here) = if simulated {
                ("nodes that a log names", "a simulated scheduler chose here")
            } else {
                (
                    "nodes that a simulated scheduler chose",
                    "the log names here",
                )
            };
            return Err(CliError::failed(format!(
                "{shown}: the model is of another machine: of {of}, and not of those that {here}"
            ))
            .remedy("learn it from the past of the same machine with lacuna forecast learn"));
        }
        let names = (0..trace.known_nodes()).map(|node| trace.node_name(node));
        let names: Vec<_> = names.collect();
        let known = model
            .check(names.iter().map(AsRef::as_ref), trace.start())
            .map_err(|error| self.unfit(&error))?;
        Ok(format!(
            "forecasts start with {shown}, learnt from {} to {} ({} holes ended), which knows {known} of the {} nodes",
            iso_short(from.from),
            iso_short(from.until),
            from.ended,
            names.len()
        ))
    }

    fn words(&self) -> String {
        let path = self.model.as_deref().unwrap_or("".as_ref());
        format!("--model {}", path.display())
    }
}
