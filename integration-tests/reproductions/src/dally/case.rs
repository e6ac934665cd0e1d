//! A case: a trace on a cluster, with its fabric and terms.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use lacuna_cli::error::{CliError, Exit, Result, file_error};
use lacuna_gangs::{
    Calibration, Collective, Contention, Error, Fabric, Job, Layout, Library, Profiles, ShapeRule,
    Speeds, TraceJob, read_jobs,
};

/// The authors' machines: eight a rack, two slots of four GPUs each.
const RACK_MACHINES: u32 = 8;
const SLOTS: u32 = 2;
const SLOT_GPUS: u32 = 4;

/// The length of an iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum CalibrationArg {
    /// By the authors' factor: about one sample
    Authors,
    /// One batch
    Batch,
}

impl CalibrationArg {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Authors => "authors",
            Self::Batch => "batch",
        }
    }

    const fn calibration(self) -> Calibration {
        match self {
            Self::Authors => Calibration::Authors,
            Self::Batch => Calibration::Batch,
        }
    }
}

/// How shapes are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ShapeArg {
    /// As the authors' simulator does
    Coded,
    /// Units within a unit of the next level
    True,
}

/// How gradients are reduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum CollectiveArg {
    /// Whole gradients on every level, as the authors do
    Naive,
    /// Parts of gradients on outer levels
    Hierarchical,
}

/// One case.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Case {
    pub(super) trace: String,
    pub(super) racks: u32,
    pub(super) fabric: String,
    pub(super) calibration: CalibrationArg,
    /// Gangs that have a link's full speed at once.
    pub(super) contention: Option<Contention>,
}

impl Case {
    /// Its words: trace, cluster, fabric, and what differs from the authors' setting.
    pub(super) fn label(&self) -> String {
        let gpus = self.racks * RACK_MACHINES * SLOTS * SLOT_GPUS;
        let mut label = format!(
            "{}, {gpus} GPUs, {} / {}",
            self.trace,
            self.fabric,
            self.calibration.name()
        );
        if let Some(Contention { machine, rack }) = self.contention {
            label += &format!(", shared links {machine}/{rack}");
        }
        label
    }

    /// Whether it is the setting in which the authors measured.
    pub(super) fn is_reference(&self) -> bool {
        self.racks == 2
            && self.fabric == "paper"
            && self.calibration == CalibrationArg::Authors
            && self.contention.is_none()
    }

    /// The layout of its cluster.
    ///
    /// # Errors
    /// The number of racks is out of range.
    pub(super) fn layout(&self) -> Result<Layout> {
        Layout::new(self.racks, RACK_MACHINES, SLOTS, SLOT_GPUS).map_err(|e| refused(&e))
    }
}

/// The files, and what holds for all cases.
#[derive(Debug, Clone)]
pub(super) struct Files {
    folder: PathBuf,
    library: Library,
    fabrics: String,
    /// Measured speeds: the file's name and text.
    speeds: Option<(String, String)>,
    shape: Option<ShapeArg>,
    collective: CollectiveArg,
}

impl Files {
    /// Reads the files of a folder.
    ///
    /// # Errors
    /// A file cannot be read or is malformed.
    pub(super) fn read(
        folder: PathBuf,
        speeds: Option<&Path>,
        shape: Option<ShapeArg>,
        collective: CollectiveArg,
    ) -> Result<Self> {
        let layers = text(&folder.join("layers.csv"))?;
        let scales = text(&folder.join("compute_scale.csv"))?;
        let library = Library::read(("layers.csv", &layers), ("compute_scale.csv", &scales));
        let named = |path: &Path| Ok((path.display().to_string(), text(path)?));
        Ok(Self {
            library: library.map_err(|e| refused(&e))?,
            fabrics: text(&folder.join("fabrics.json"))?,
            speeds: speeds.map(named).transpose()?,
            folder,
            shape,
            collective,
        })
    }

    /// The authors' own runs, as a text.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn reference_runs(&self) -> Result<String> {
        text(&self.folder.join("reference_runs.csv"))
    }

    /// The jobs of a trace: of the folder by its name, else of a file.
    ///
    /// # Errors
    /// The file cannot be read, is malformed or empty.
    pub(super) fn trace(&self, name: &str) -> Result<Vec<TraceJob>> {
        let own = self.folder.join("traces").join(format!("{name}.csv"));
        let path = if own.is_file() {
            own
        } else {
            PathBuf::from(name)
        };
        let jobs = read_jobs(&path.display().to_string(), &text(&path)?);
        let jobs = jobs.map_err(|e| refused(&e))?;
        if jobs.is_empty() {
            return Err(CliError::failed(format!("{name} has no job")));
        }
        Ok(jobs)
    }

    /// Jobs and speeds of a case.
    ///
    /// # Errors
    /// There is no such fabric, a model has no layers, or measured speeds are malformed.
    pub(super) fn world(&self, case: &Case, trace: &[TraceJob]) -> Result<(Vec<Job>, Speeds)> {
        let fabric = Fabric::read("fabrics.json", &self.fabrics, &case.fabric);
        let made = Profiles::new(&self.library, case.calibration.calibration(), trace);
        let (profiles, jobs) = made.map_err(|e| refused(&e))?;
        // The authors' shapes go with their calibration.
        let coded = match self.shape {
            Some(shape) => shape == ShapeArg::Coded,
            None => case.calibration == CalibrationArg::Authors,
        };
        let rule = if coded {
            ShapeRule::Coded
        } else {
            ShapeRule::True
        };
        let collective = match self.collective {
            CollectiveArg::Naive => Collective::Naive,
            CollectiveArg::Hierarchical => Collective::Hierarchical,
        };
        let fabric = fabric.map_err(|e| refused(&e))?;
        let mut speeds = Speeds::new(fabric, (collective, rule), case.layout()?, profiles);
        if let Some((name, text)) = &self.speeds {
            speeds = speeds.measured(name, text).map_err(|e| refused(&e))?;
        }
        Ok((jobs, speeds))
    }
}

fn text(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|e| file_error("read", path, &e))
}

/// An error of the crate `gangs` on the command line.
pub(super) fn refused(error: &Error) -> CliError {
    CliError::new("L0011", Exit::Failed, error.to_string())
}
