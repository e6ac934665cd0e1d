//! The owner of a trainer.

use lacuna_model::TrainerSpec;

/// The owner that a trainer names, else the user who submitted it.
pub(crate) fn owner_of<'a>(spec: &'a TrainerSpec, user: &'a str) -> &'a str {
    spec.owner.as_deref().unwrap_or(user)
}
