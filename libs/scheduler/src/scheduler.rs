//! A batch scheduler: one trait, one folder, one row of a list ([`row`](crate::row)).
//!
//! **One more scheduler** needs six files of the product:
//!
//! | file | what the scheduler needs there |
//! |---|---|
//! | `<name>/` | a folder: the section of the configuration, a [`Live`] that reads answers, a [`crate::submit::Submitter`] for pilots if it runs them, and a [`Scheduler`] that names them |
//! | `scheduler.rs` in `lacuna-model` | the variant of [`SchedulerName`], and its place in `ALL` |
//! | `scheduler.rs` | its section in [`Sections`] |
//! | `list.rs` | its [`row`](crate::row) |
//! | `lib.rs` | the module, and the name of its section in `settings` |
//! | `ingest.rs` | the section, a line each in the struct `Ingest`, in its default and in `sections` |
//!
//! Beside them `tests/all/<name>.rs`, with its `mod` in `main.rs`, has answers, recorded or from the
//! manual; `tests/all/schedulers.rs` its section in the struct of all; `deploy/configure.md` its line of
//! contents, its section and its row in the table of schedulers, which a test demands; `CHANGELOG.md` a
//! line; the docs of `lib.rs` and `ARCHITECTURE.md` its name. With labels of nodes also the table of
//! `kinds.rs`.
//!
//! The section `[ingest.<name>]` alone chooses the scheduler. `flux/mod.rs` (polled) and `lsf/mod.rs`
//! (followed) are the ones to copy.
//!
//! Every method but a few has a default, which refuses with a remedy ([`Unsupported`]). Ingest, control,
//! pilot-helper and `lacuna check` take their schedulers from [`SchedulerName::ALL`]; none names one.

use std::fmt;

pub use lacuna_model::SchedulerName;

use crate::check::{Filler, Finding};
use crate::live::Live;
use crate::settings::{Flux, Lsf, Pbs, Slurm};
use crate::submit::{CommandLine, Pilots};
use crate::unsupported::{Unsupported, lacks};

/// The sections `[ingest.<name>]` of a configuration.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sections<'a> {
    /// `[ingest.slurm]`.
    pub slurm: Option<&'a Slurm>,
    /// `[ingest.pbs]`.
    pub pbs: Option<&'a Pbs>,
    /// `[ingest.lsf]`.
    pub lsf: Option<&'a Lsf>,
    /// `[ingest.flux]`.
    pub flux: Option<&'a Flux>,
}

/// A batch scheduler, as Lacuna knows it.
pub trait Scheduler: fmt::Debug + Sync {
    /// Its name.
    fn name(&self) -> SchedulerName;

    /// The live scheduler of its section, if there is one.
    fn live(&self, sections: &Sections<'_>) -> Option<Box<dyn Live>>;

    /// How the labels of its nodes begin, as `partition` in `partition:gpu`.
    fn labels(&self) -> &'static [&'static str];

    /// How pilots are submitted to it.
    ///
    /// # Errors
    /// [`Unsupported`] if none are.
    fn pilots(&self) -> Result<Pilots, Unsupported> {
        Err(lacks(
            self.name(),
            "submission of pilots",
            "slurm, pbs or flux; elsewhere the site starts agents",
        ))
    }

    /// Commands whose output [`Scheduler::findings`] judges. Empty commands are replaced by the
    /// scheduler's own.
    ///
    /// # Errors
    /// [`Unsupported`] if its configuration is not understood.
    fn questions(
        &self,
        scontrol: &[String],
        sacctmgr: &[String],
    ) -> Result<Vec<CommandLine>, Unsupported> {
        let _ = (scontrol, sacctmgr);
        let remedy = "a look at the guide of pilots: which job of the site yields to which";
        Err(lacks(self.name(), "site check", remedy))
    }

    /// Whether pilots harm batch jobs at a site with these answers to the questions, in their order;
    /// a question without an answer has none.
    fn findings(&self, answers: &[Option<String>], filler: &Filler) -> Vec<Finding> {
        let _ = (answers, filler);
        Vec::new()
    }
}
