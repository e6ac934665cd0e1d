//! A ticket says which program may run in pilots under an owner's account, in how many at a time,
//! and until when. The owner signs its text with the key by which the bus knows them.
//!
//! The text is signed as it travels, so no two programs need to write it alike. It names the
//! program by the SHA-256 of its launch as `serde_json` writes it.

use lacuna_model::{ClusterId, Launch, Span, Timestamp, TrainerId};
use nkeys::KeyPair;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::hex::{hex, unhex};

/// The first bytes of every signed text. They are no UTF-8. At a connection nats-server has a user
/// sign a nonce, which may be any UTF-8, so that signature never fits a ticket.
const BEGIN: &[u8] = b"\xfflacuna-ticket-1\n";
/// The longest time for which a ticket is valid: 400 days.
pub const LONGEST: Span = Span::from_secs(400 * 86_400);

/// The variable of a pilot's environment with the ticket of its owner ([`Signed::packed`]).
pub const VARIABLE: &str = "LACUNA_TICKET";

/// What an owner permits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ticket {
    /// The cluster in which it is valid.
    pub cluster: ClusterId,
    /// The trainer. A cluster uses a name once, so the ticket ends with it.
    pub trainer: TrainerId,
    /// The owner, by name.
    pub owner: String,
    /// The program: [`digest`] of its launch.
    pub program: String,
    /// The most pilots at a time.
    pub pilots: u32,
    /// The end of its validity.
    pub not_after: Timestamp,
}

/// A ticket with its signature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signed {
    /// The text of the ticket: a JSON object.
    pub ticket: String,
    /// Ed25519, in hexadecimal.
    pub signature: String,
}

/// Why a ticket is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Its text is no ticket.
    #[error("it is no ticket: {0}")]
    Unreadable(String),
    /// Its signature is by none of its owner's keys.
    #[error("its signature is not by a key of {owner}")]
    Forged {
        /// The owner that it names.
        owner: String,
    },
    /// It is of another cluster.
    #[error("it is for the cluster {0}")]
    Foreign(ClusterId),
    /// Its time is over, or ends too late.
    #[error("its time is over, or longer than 400 days: its owner signs another")]
    Stale,
}

impl Refused {
    /// The cause in logs and metrics.
    #[must_use]
    pub const fn cause(&self) -> &'static str {
        match self {
            Self::Unreadable(_) => "unreadable",
            Self::Forged { .. } => "forged",
            Self::Foreign(_) => "foreign",
            Self::Stale => "stale",
        }
    }
}

impl Ticket {
    /// Whether it is valid at `now`.
    ///
    /// # Errors
    /// [`Refused::Stale`].
    pub fn valid_at(&self, now: Timestamp) -> Result<(), Refused> {
        let left = self.not_after.since(now);
        let valid = left > Span::ZERO && left <= LONGEST;
        if valid { Ok(()) } else { Err(Refused::Stale) }
    }

    /// Whether it permits this program of this trainer.
    #[must_use]
    pub fn permits(&self, trainer: &TrainerId, owner: Option<&str>, launch: &Launch) -> bool {
        self.trainer == *trainer
            && owner == Some(&self.owner)
            && digest(launch).is_ok_and(|program| program == self.program)
    }
}

impl Signed {
    /// Signs a ticket.
    ///
    /// # Errors
    /// If the key has no private part.
    pub fn new(ticket: &Ticket, key: &KeyPair) -> Result<Self, String> {
        let text = serde_json::to_string(ticket).map_err(|error| error.to_string())?;
        let signature = key.sign(&signed(&text));
        let signature = signature.map_err(|error| error.to_string())?;
        Ok(Self {
            ticket: text,
            signature: hex(&signature),
        })
    }

    /// The ticket, if its owner has signed it for this cluster. Its time is not checked.
    /// `keys`: the public keys of an owner.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn open(
        &self,
        keys: impl FnOnce(&str) -> Vec<String>,
        cluster: &ClusterId,
    ) -> Result<Ticket, Refused> {
        let ticket = self.unverified()?;
        let signature = unhex(&self.signature).unwrap_or_default();
        let text = signed(&self.ticket);
        let by = |key: &String| {
            let key = KeyPair::from_public_key(key);
            key.is_ok_and(|key| key.verify(&text, &signature).is_ok())
        };
        if !keys(&ticket.owner).iter().any(by) {
            return Err(Refused::Forged {
                owner: ticket.owner,
            });
        }
        if ticket.cluster != *cluster {
            return Err(Refused::Foreign(ticket.cluster));
        }
        Ok(ticket)
    }

    /// It as one word, for an environment.
    ///
    /// # Errors
    /// If it cannot be written as JSON, which cannot happen.
    pub fn packed(&self) -> Result<String, serde_json::Error> {
        serde_json::to_vec(self).map(|text| hex(&text))
    }

    /// The ticket of a word, by whichever key it is signed: the helper that has put it into a pilot's
    /// environment has verified it.
    ///
    /// # Errors
    /// [`Refused::Unreadable`].
    pub fn unpacked(word: &str) -> Result<Ticket, Refused> {
        Self::from_word(word)?.unverified()
    }

    /// What a word holds ([`Signed::packed`]).
    ///
    /// # Errors
    /// [`Refused::Unreadable`].
    pub fn from_word(word: &str) -> Result<Self, Refused> {
        let text = unhex(word).unwrap_or_default();
        serde_json::from_slice(&text).map_err(|error| Refused::Unreadable(error.to_string()))
    }

    /// The ticket, by whichever key it is signed.
    fn unverified(&self) -> Result<Ticket, Refused> {
        serde_json::from_str(&self.ticket).map_err(|error| Refused::Unreadable(error.to_string()))
    }
}

/// The SHA-256 of a launch, in hexadecimal: program, arguments, environment and launcher.
///
/// # Errors
/// If the launch cannot be written as JSON, which cannot happen.
pub fn digest(launch: &Launch) -> Result<String, serde_json::Error> {
    let text = serde_json::to_vec(launch)?;
    Ok(hex(&Sha256::digest(text)))
}

fn signed(text: &str) -> Vec<u8> {
    [BEGIN, text.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use lacuna_model::{Elastic, Program};

    use super::*;

    fn launch(program: &str) -> Launch {
        Launch::Command(Program {
            program: program.to_owned(),
            args: vec!["--epochs".to_owned(), "9".to_owned()],
            env: BTreeMap::from([("A".to_owned(), "1".to_owned())]),
            checkpoint_dir: Some("/scratch/ann".to_owned()),
            elastic: Elastic::REGROUP,
            ..Program::default()
        })
    }

    fn cluster(name: &str) -> ClusterId {
        ClusterId::new(name).unwrap()
    }

    fn ticket() -> Ticket {
        Ticket {
            cluster: cluster("main"),
            trainer: TrainerId::new("t").unwrap(),
            owner: "ann".to_owned(),
            program: digest(&launch("/bin/train")).unwrap(),
            pilots: 4,
            not_after: Timestamp::from_unix(1000),
        }
    }

    #[test]
    fn only_the_owners_key_signs_and_only_for_its_cluster() {
        let (ann, eve) = (KeyPair::new_user(), KeyPair::new_user());
        let keys = [ann.public_key()];
        let of = |owner: &str| match owner {
            "ann" => keys.to_vec(),
            _ => Vec::new(),
        };
        let signed = Signed::new(&ticket(), &ann).unwrap();
        assert_eq!(signed.open(of, &cluster("main")), Ok(ticket()));
        let cause = |signed: &Signed, id: &str| signed.open(of, &cluster(id)).unwrap_err().cause();
        assert_eq!(cause(&signed, "b"), "foreign");
        assert_eq!(
            cause(&Signed::new(&ticket(), &eve).unwrap(), "main"),
            "forged"
        );
        // Any other word of the text breaks the signature.
        let more = Signed {
            ticket: signed.ticket.replace("\"pilots\":4", "\"pilots\":5"),
            ..signed.clone()
        };
        assert_ne!(more, signed);
        assert_eq!(cause(&more, "main"), "forged");
        // An owner without a key, and what is no ticket or no signature.
        let of_bob = Ticket {
            owner: "bob".to_owned(),
            ..ticket()
        };
        assert_eq!(
            cause(&Signed::new(&of_bob, &ann).unwrap(), "main"),
            "forged"
        );
        for (ticket, signature, expected) in [
            (signed.ticket.as_str(), "", "forged"),
            (&signed.ticket, "zz", "forged"),
            ("{}", &signed.signature, "unreadable"),
        ] {
            let (ticket, signature) = (ticket.to_owned(), signature.to_owned());
            assert_eq!(cause(&Signed { ticket, signature }, "main"), expected);
        }
        // A signed nonce of a connection is no ticket's signature.
        let nonce = ann.sign(signed.ticket.as_bytes()).unwrap();
        let nonce = Signed {
            signature: hex(&nonce),
            ..signed
        };
        assert_eq!(cause(&nonce, "main"), "forged");
    }

    #[test]
    fn a_ticket_has_an_end() {
        let valid = |at| ticket().valid_at(Timestamp::from_unix(at)).is_ok();
        assert!(valid(999) && !valid(1000) && !valid(5000));
        assert!(!valid(1000 - 401 * 86_400), "no ticket lasts forever");
    }

    #[test]
    fn a_ticket_permits_one_program_of_one_trainer() {
        let (ticket, trainer) = (ticket(), TrainerId::new("t").unwrap());
        let program = launch("/bin/train");
        assert!(ticket.permits(&trainer, Some("ann"), &program));
        assert!(!ticket.permits(&trainer, Some("bob"), &program));
        assert!(!ticket.permits(&trainer, None, &program));
        assert!(!ticket.permits(&trainer, Some("ann"), &launch("/bin/other")));
        let other = TrainerId::new("u").unwrap();
        assert!(!ticket.permits(&other, Some("ann"), &program));
    }

    /// Tickets outlive releases: the digest of a program never changes.
    #[test]
    fn a_program_keeps_its_digest() {
        let expected = "a4485dbb404aa31d790a7eb87071d6c36720a3321bf5429ef361d8bf434c1bd1";
        assert_eq!(digest(&launch("/bin/train")).unwrap(), expected);
    }
}
