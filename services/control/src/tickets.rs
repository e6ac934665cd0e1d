//! Tickets at the door: where pilots are their owners' jobs (`control.pilots.helper`), a program comes
//! with what its owner has signed. The helper verifies the signature, for which control has no keys.
//! What would be refused there in any case is refused here, with the remedy.

use std::collections::BTreeMap;

use lacuna_model::{ClusterId, Launch, Timestamp, TrainerId, TrainerRecord, TrainerSpec};
use lacuna_owner::{Signed, digest};
use lacuna_runtime::clock::wall;

use crate::access::Denied;
use crate::audit::plain;
use crate::sections::Context;

/// The longest word. A ticket has about 900 characters.
const LONGEST: usize = 8192;

/// Admits submissions whose programs have a ticket that fits. Tickets that are not needed are dropped.
///
/// # Errors
/// L0029, with the fault and the remedy.
pub(crate) fn admit(
    ctx: &Context,
    specs: &[TrainerSpec],
    user: &str,
    tickets: &mut BTreeMap<TrainerId, String>,
) -> Result<(), Denied> {
    let pilots = ctx.config.control.pilots.as_ref();
    if !pilots.is_some_and(lacuna_model::pilots::Pilots::by_helper) {
        tickets.clear();
        return Ok(());
    }
    let programs = || specs.iter().filter(|spec| spec.launch != Launch::Simulated);
    tickets.retain(|id, _| programs().any(|spec| spec.id == *id));
    for spec in programs() {
        let ticket = tickets.get(&spec.id);
        fits(spec, user, ticket, &ctx.cluster, wall()).map_err(|fault| Denied {
            code: "L0029",
            reason: format!(
                "trainer {}: {fault}; programs run here under their owner's account, by a ticket that \
                 the owner signs: `lacuna submit` of this release does, with the owner's identity \
                 (--identity FILE or LACUNA_IDENTITY)",
                spec.id
            ),
        })?;
    }
    Ok(())
}

/// Admits another ticket of a trainer's owner in place of the present one.
///
/// # Errors
/// L0029, with the fault and the remedy.
pub(crate) fn renews(
    ctx: &Context,
    record: &TrainerRecord,
    user: &str,
    ticket: &String,
) -> Result<(), Denied> {
    let pilots = ctx.config.control.pilots.as_ref();
    let is_needed = pilots.is_some_and(lacuna_model::pilots::Pilots::by_helper);
    let fault = if is_needed {
        let owner = record.spec.owner.as_deref().unwrap_or(&record.user);
        let owner = if owner.is_empty() { user } else { owner };
        fits(&record.spec, owner, Some(ticket), &ctx.cluster, wall())
    } else {
        Err("no program needs a ticket here (control.pilots.helper)".to_owned())
    };
    fault.map_err(|fault| Denied {
        code: "L0029",
        reason: format!("trainer {}: {fault}", record.spec.id),
    })
}

/// What is wrong with the ticket of a trainer, if anything is.
fn fits(
    spec: &TrainerSpec,
    user: &str,
    word: Option<&String>,
    cluster: &ClusterId,
    now: Timestamp,
) -> Result<(), String> {
    let word = word.ok_or("it has no ticket")?;
    if word.len() > LONGEST {
        return Err(format!("its ticket is longer than {LONGEST} characters"));
    }
    let ticket = Signed::unpacked(word).map_err(|error| format!("its ticket: {error}"))?;
    let owner = spec.owner.as_deref().unwrap_or(user);
    if ticket.owner != owner {
        return Err(format!(
            "its ticket is signed by {}, and its owner is {}",
            plain(&ticket.owner),
            plain(owner)
        ));
    }
    if ticket.cluster != *cluster {
        return Err(format!("its ticket is for the cluster {}", ticket.cluster));
    }
    if ticket.trainer != spec.id {
        return Err(format!("its ticket is for trainer {}", ticket.trainer));
    }
    let program = digest(&spec.launch).map_err(|error| error.to_string())?;
    if ticket.program != program {
        return Err("its ticket is for another program, arguments or environment".to_owned());
    }
    ticket
        .valid_at(now)
        .map_err(|error| format!("its ticket: {error}"))?;
    if ticket.pilots < spec.min_nodes {
        return Err(format!(
            "its ticket is for {} pilots, and it needs {} nodes",
            ticket.pilots, spec.min_nodes
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use lacuna_model::Span;
    use lacuna_owner::Ticket;
    use nkeys::KeyPair;

    use super::*;

    fn program() -> TrainerSpec {
        TrainerSpec {
            owner: Some("ann".to_owned()),
            min_nodes: 2,
            launch: lacuna_testkit::launch(lacuna_model::Elastic::Restart),
            ..lacuna_testkit::spec("t", 4)
        }
    }

    fn ticket() -> Ticket {
        Ticket {
            cluster: ClusterId::new("main").unwrap(),
            trainer: TrainerId::new("t").unwrap(),
            owner: "ann".to_owned(),
            program: digest(&program().launch).unwrap(),
            pilots: 4,
            not_after: Timestamp::from_unix(2000),
        }
    }

    fn judged(ticket: &Ticket) -> Result<(), String> {
        let signed = Signed::new(ticket, &KeyPair::new_user()).unwrap();
        let word = signed.packed().unwrap();
        let cluster = ClusterId::new("main").unwrap();
        fits(
            &program(),
            "ann",
            Some(&word),
            &cluster,
            Timestamp::from_unix(1000),
        )
    }

    #[test]
    fn a_ticket_fits_one_program_of_one_trainer_of_its_owner() {
        assert_eq!(judged(&ticket()), Ok(()));
        let own = ticket;
        let other = |change: fn(&mut Ticket)| {
            let mut ticket = own();
            change(&mut ticket);
            judged(&ticket).unwrap_err()
        };
        for (fault, said) in [
            (other(|t| t.owner = "eve".to_owned()), "signed by eve"),
            (
                other(|t| t.cluster = ClusterId::new("b").unwrap()),
                "cluster b",
            ),
            (
                other(|t| t.trainer = TrainerId::new("u").unwrap()),
                "trainer u",
            ),
            (other(|t| t.program = "00".to_owned()), "another program"),
            (
                other(|t| t.not_after = Timestamp::from_unix(1000)),
                "time is over",
            ),
            (
                other(|t| t.not_after = t.not_after + Span::from_secs(500 * 86_400)),
                "longer than 400 days",
            ),
            (other(|t| t.pilots = 1), "needs 2 nodes"),
        ] {
            assert!(fault.contains(said), "{fault}");
        }
        let cluster = ClusterId::new("main").unwrap();
        let now = Timestamp::from_unix(1000);
        let mut spec = program();
        for (word, said) in [
            (None, "no ticket"),
            (Some("zz".to_owned()), "no ticket"),
            (Some("0".repeat(9000)), "longer"),
        ] {
            let fault = fits(&spec, "ann", word.as_ref(), &cluster, now).unwrap_err();
            assert!(fault.contains(said), "{fault}");
        }
        // The submitter is the owner, if none is named.
        spec.owner = None;
        let signed = Signed::new(&ticket(), &KeyPair::new_user()).unwrap();
        let word = signed.packed().unwrap();
        assert!(fits(&spec, "eve", Some(&word), &cluster, now).is_err());
        assert_eq!(fits(&spec, "ann", Some(&word), &cluster, now), Ok(()));
    }
}
