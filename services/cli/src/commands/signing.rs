//! Tickets that a researcher signs with their identity.

use std::path::Path;

use lacuna_model::{Span, Timestamp, TrainerSpec};
use lacuna_owner::{LONGEST, Signed, Ticket, digest};
use lacuna_runtime::identity::Identity;
use nkeys::KeyPair;

use crate::error::{CliError, Exit, Result};

/// The time for which a ticket is to be valid.
///
/// # Errors
/// `L0007` if it is none or too long.
pub(super) fn valid(time: Span) -> Result<Span> {
    if time > Span::ZERO && time <= LONGEST {
        return Ok(time);
    }
    let said = format!("{time}: a ticket is valid for some time, and for {LONGEST} at most");
    Err(CliError::new("L0007", Exit::Config, said))
}

/// The identity of a file.
///
/// # Errors
/// `L0044` if the file is none.
pub(super) fn identity(path: &Path) -> Result<Identity> {
    Identity::load(path).map_err(|error| CliError::new("L0044", Exit::Config, error.to_string()))
}

/// A ticket of the identity's holder for one trainer.
pub(super) fn sign_one(
    identity: &Identity,
    spec: &TrainerSpec,
    pilots: Option<u32>,
    not_after: Timestamp,
) -> std::result::Result<Signed, String> {
    let key = KeyPair::from_seed(identity.seed.reveal()).map_err(|error| error.to_string())?;
    let ticket = Ticket {
        cluster: identity.cluster.clone(),
        program: digest(&spec.launch).map_err(|error| error.to_string())?,
        pilots: pilots.unwrap_or(spec.max_nodes),
        owner: identity.holder.user.clone(),
        trainer: spec.id.clone(),
        not_after,
    };
    Signed::new(&ticket, &key)
}
