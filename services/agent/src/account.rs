//! The account under which a program runs.
//!
//! With `agent.run_as = "owner"` a program runs under the account with the name of its trainer's
//! owner. An agent of root's switches to it; a pilot runs programs of the owner alone whose job it
//! is. The guard of an agent of root's stays root's, so the program cannot end it. Switching
//! needs no other program: `setpriv` would run as root with the environment that the submitter
//! wrote, or show it in its arguments, and `systemd-run` takes processes away from their guard.

use lacuna_model::Assignment;
use lacuna_owner::{Account, NoAccount};
use lacuna_trainer::settings::{Agent, RunAs};
use nix::unistd::{Uid, User};

/// Why a program may not run.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Forbidden {
    /// Control has named no owner.
    #[error("its trainer has no owner, under whose account it would run (agent.run_as)")]
    NoOwner,
    /// The owner has no account here.
    #[error(transparent)]
    NoAccount(#[from] NoAccount),
    /// The pilot is another owner's.
    #[error("this pilot runs under {own}, and starts no program of {owner} (agent.run_as)")]
    Foreign {
        /// The owner of the trainer.
        owner: String,
        /// The account of the pilot.
        own: String,
    },
    /// Programs of several owners may run under one account, and it is not this agent's.
    #[error(
        "control.shared_account is {shared}, and programs here run under {own}: run this agent \
         under {shared}, or name {own} there"
    )]
    Shared {
        /// The account that control names.
        shared: String,
        /// That of this agent.
        own: String,
    },
}

/// The account of a program; nothing if it is the agent's own. Asks the directory of users, which
/// may take its time.
pub(crate) fn of_program(part: &Assignment, agent: &Agent) -> Result<Option<Account>, Forbidden> {
    if agent.run_as == RunAs::Owner {
        let owner = part.owner.as_deref().ok_or(Forbidden::NoOwner)?;
        if Uid::effective().is_root() {
            return Ok(Some(Account::of(owner, agent.min_uid)?));
        }
        return is_owner(owner, own_name()).map(|()| None);
    }
    match part
        .shared_account
        .clone()
        .map(|shared| (shared, own_name()))
    {
        Some((shared, own)) if shared != own => Err(Forbidden::Shared { shared, own }),
        _ => Ok(None),
    }
}

/// Whether the account of this process is the owner's.
fn is_owner(owner: &str, own: String) -> Result<(), Forbidden> {
    if own == owner {
        return Ok(());
    }
    let owner = owner.to_owned();
    Err(Forbidden::Foreign { owner, own })
}

/// The name of the account of this process, or its number if it has none.
fn own_name() -> String {
    let uid = Uid::effective();
    let known = User::from_uid(uid).ok().flatten();
    known.map_or_else(|| uid.to_string(), |user| user.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pilot_runs_programs_of_its_owner_alone() {
        assert_eq!(is_owner("ann", "ann".to_owned()), Ok(()));
        let error = is_owner("bob", "ann".to_owned()).unwrap_err();
        let text = "this pilot runs under ann, and starts no program of bob (agent.run_as)";
        assert_eq!(error.to_string(), text);
    }
}
