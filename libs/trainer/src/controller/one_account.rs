//! One account for programs of several owners. Programs under one account read each other's files
//! and memory, and end each other. So it takes programs of one owner alone, unless the
//! configuration names it (`control.shared_account`). Simulated trainers run no program.
//!
//! Trainers that are over count as long as control knows them: what their programs wrote is still
//! there.

use lacuna_model::{Launch, TrainerSpec};

use crate::controller::trainers::Trainer;
use crate::controller::{Controller, Refusal, RefusalKind};

impl Controller {
    /// Refuses programs of an owner beside those of another.
    pub(super) fn check_account(&self, specs: &[TrainerSpec], user: &str) -> Result<(), Refusal> {
        if !self.config.one_account || self.config.control.shared_account.is_some() {
            return Ok(());
        }
        let programs = specs.iter().filter(|spec| spec.launch != Launch::Simulated);
        let asked: Vec<&str> = programs.map(|spec| spec.owner_or(user)).collect();
        let known = self.trainers.iter().filter(|trainer| trainer.is_program());
        let known = known.map(Trainer::owner);
        let beside = |owner: &&str| asked.iter().any(|asked| asked != owner);
        let Some(other) = known.chain(asked.iter().copied()).find(beside) else {
            return Ok(());
        };
        let owner = asked.iter().find(|owner| **owner != other);
        let owner = owner.copied().unwrap_or_default();
        Err(Refusal {
            kind: RefusalKind::Account,
            reason: format!(
                "programs of {owner} would run under the same account as those of {other}, and could \
                 read and end them: an operator runs each under its owner's account (agent.run_as = \
                 \"owner\"), or accepts one account for all by its name (control.shared_account)"
            ),
        })
    }
}
