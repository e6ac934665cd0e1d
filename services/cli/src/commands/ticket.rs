//! `lacuna pilots ticket`: a researcher signs for pilots under their own account.

use std::path::PathBuf;

use clap::Args;
use lacuna_model::{Span, Timestamp, TrainerSpec};
use lacuna_owner::Signed;
use lacuna_runtime::clock::wall;
use lacuna_runtime::identity::Identity;

use crate::client::ConnectArgs;
use crate::commands::signing::{identity, sign_one, valid};
use crate::commands::submit;
use crate::error::{CliError, Exit, Result};
use crate::output::{self, parse_span};

/// Arguments of `pilots ticket`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  lacuna pilots ticket trainer.toml --pilots 4 --valid 7d

Prints a signed ticket for each trainer of the file, a JSON object a line. lacuna-pilot-helper submits
pilots for it under your account, that many at a time, until it is stale or the trainer is over. An
agent in such a pilot starts this program alone (deploy/pilots.md).")]
pub(crate) struct TicketArgs {
    /// Trainers as TOML, or as JSON lines
    file: PathBuf,
    /// Most pilots at a time [default: max_nodes of the trainer]
    #[arg(long, value_name = "NUMBER")]
    pilots: Option<u32>,
    /// How long it is valid
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = parse_span)]
    valid: Span,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Runs `pilots ticket`.
///
/// # Errors
/// The file or the identity is wrong, or the time is too long.
pub(crate) fn run(args: &TicketArgs) -> Result<()> {
    let Some(path) = &args.connect.identity else {
        let said = "a ticket is signed with your key, and no identity is named";
        return Err(CliError::new("L0044", Exit::Config, said)
            .remedy("give the identity of `lacuna keys`: --identity FILE or LACUNA_IDENTITY"));
    };
    let until = wall() + valid(args.valid)?;
    let identity = identity(path)?;
    let trainers = submit::read(&args.file)?;
    let signed = sign(&identity, &trainers, args.pilots, until);
    let lines: std::result::Result<Vec<String>, String> = signed.and_then(|signed| {
        let line = |one: &Signed| serde_json::to_string(one).map_err(|error| error.to_string());
        signed.iter().map(line).collect()
    });
    let lines = lines.map_err(|error| CliError::failed(format!("no ticket: {error}")))?;
    output::print(&lines.join("\n"))
}

/// A ticket of the identity's holder for each trainer.
fn sign(
    identity: &Identity,
    trainers: &[TrainerSpec],
    pilots: Option<u32>,
    not_after: Timestamp,
) -> std::result::Result<Vec<Signed>, String> {
    let sign = |spec| sign_one(identity, spec, pilots, not_after);
    trainers.iter().map(sign).collect()
}

#[cfg(test)]
mod tests {
    use lacuna_model::ClusterId;
    use lacuna_runtime::secret::Secret;
    use lacuna_wire::access::{Holder, Role};
    use nkeys::KeyPair;

    use super::*;

    #[test]
    fn a_ticket_is_its_signers_for_the_program_of_the_trainer() {
        let pair = KeyPair::new_user();
        let identity = Identity {
            cluster: ClusterId::new("main").unwrap(),
            holder: Holder {
                user: "ann".to_owned(),
                role: Role::Researcher,
                node: None,
            },
            url: String::new(),
            seed: Secret::from(pair.seed().unwrap()),
            until: None,
            ca: None,
            control: Vec::new(),
        };
        let spec = lacuna_testkit::spec("t", 4);
        let end = Timestamp::from_unix(1000);
        let keys = [pair.public_key()];
        for (pilots, expected) in [(None, 4), (Some(2), 2)] {
            let signed = sign(&identity, std::slice::from_ref(&spec), pilots, end).unwrap();
            let ticket = signed[0]
                .open(|_| keys.to_vec(), &identity.cluster)
                .unwrap();
            assert_eq!((ticket.pilots, ticket.not_after), (expected, end));
            assert!(ticket.permits(&spec.id, Some("ann"), &spec.launch));
        }
    }
}
