//! Signatures: control signs its commands to agents. An agent that knows control's key refuses all
//! others. So another user with permission for the subject cannot command a node, and neither can
//! an answer that the server sends there.
//!
//! The signature covers the subject, the envelope as the receiver reads it, and the payload. It is
//! in a header, which streams keep.

use async_nats::HeaderMap;
use lacuna_wire::access::Role;
use lacuna_wire::{Envelope, Message};
use nkeys::KeyPair;

use super::{BusError, pairs};
use crate::identity::Identity;

/// The header with the signature, Ed25519 in hexadecimal.
const HEADER: &str = "Lacuna-Signature";

/// The first bytes of every signed text. They are no UTF-8. At a connection nats-server has a user
/// sign a nonce, which may be any UTF-8, so that signature never fits a message.
const BEGIN: &[u8] = b"\xfflacuna-1\n";

/// Whether this process signs messages, or verifies signatures.
#[derive(Default)]
pub(super) enum Seal {
    /// Neither: there are no keys, or the process is neither control nor an agent.
    #[default]
    None,
    /// It signs with this key.
    Signs(Box<KeyPair>),
    /// It accepts signatures by any of these keys.
    Asks(Vec<KeyPair>),
}

impl Seal {
    /// The seal of the holder of an identity.
    ///
    /// # Errors
    /// If a key in the identity is invalid.
    pub(super) fn of(identity: Option<&Identity>) -> Result<Self, nkeys::error::Error> {
        let Some(identity) = identity else {
            return Ok(Self::None);
        };
        Ok(match identity.holder.role {
            Role::Control => Self::Signs(Box::new(KeyPair::from_seed(identity.seed.reveal())?)),
            Role::Agent => {
                let keys = identity.control.iter();
                let keys = keys.map(|key| KeyPair::from_public_key(key));
                Self::Asks(keys.collect::<Result<_, _>>()?)
            }
            _ => Self::None,
        })
    }

    /// Signs a message of a kind that is signed.
    ///
    /// # Errors
    /// If the headers are no envelope, or the key has no private part. Neither can happen for
    /// messages of Lacuna and the seed of an identity.
    pub(super) fn sign<M: Message>(
        &self,
        subject: &str,
        payload: &[u8],
        headers: &mut HeaderMap,
    ) -> Result<(), BusError> {
        if let Self::Signs(key) = self
            && M::SIGNED
        {
            // The envelope as the receiver reads it.
            let envelope = Envelope::read(pairs(headers));
            let envelope = envelope.map_err(|e| BusError::other(subject, e))?;
            let signature = key.sign(&text(subject, &envelope, payload));
            let signature = signature.map_err(|e| BusError::other(subject, e))?;
            headers.insert(HEADER, hex(&signature).as_str());
        }
        Ok(())
    }

    /// Why a message is refused, if it is.
    pub(super) fn refuses<M: Message>(
        &self,
        subject: &str,
        envelope: &Envelope,
        payload: &[u8],
        headers: Option<&HeaderMap>,
    ) -> Option<&'static str> {
        let Self::Asks(keys) = self else {
            return None;
        };
        if !M::SIGNED {
            return None;
        }
        let Some(signature) = headers.and_then(|headers| headers.get_last(HEADER)) else {
            return Some("it has no signature of control");
        };
        let signature = unhex(signature.as_str()).unwrap_or_default();
        let text = text(subject, envelope, payload);
        let true_by = |key: &KeyPair| key.verify(&text, &signature).is_ok();
        (!keys.iter().any(true_by)).then_some("its signature is not control's")
    }
}

fn text(subject: &str, envelope: &Envelope, payload: &[u8]) -> Vec<u8> {
    let mut text = BEGIN.to_vec();
    text.extend_from_slice(subject.as_bytes());
    // Names and values contain no line ends.
    for (name, value) in envelope.headers() {
        text.extend_from_slice(format!("\n{name}:{value}").as_bytes());
    }
    text.extend_from_slice(b"\n\n");
    text.extend_from_slice(payload);
    text
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = text.chars().map(|c| c.to_digit(16)).collect();
    let pairs = digits?;
    let byte = |pair: &[u32]| match pair {
        [high, low] => u8::try_from(high * 16 + low).ok(),
        _ => None,
    };
    pairs.chunks(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use lacuna_model::{Epoch, Timestamp};
    use lacuna_wire::msg::{Command, Members, Renewal, Settled};
    use lacuna_wire::{ContentType, HeaderText, codec};

    use super::*;

    fn envelope() -> Envelope {
        Envelope {
            id: HeaderText::of("a b-7"),
            source: HeaderText::of("lacuna/control"),
            kind: HeaderText::of(Renewal::KIND),
            version: Renewal::VERSION,
            time: Timestamp::from_unix_ms(1_700_000_000_123),
            correlation: HeaderText::of(" \"e%31\u{fc}\n\""),
            content_type: ContentType::MessagePack,
        }
    }

    fn headers(envelope: &Envelope) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in envelope.headers() {
            headers.insert(name, value.as_str());
        }
        headers
    }

    /// Whether the receiver refuses the message.
    fn refuses(keys: &[&KeyPair], subject: &str, headers: &HeaderMap, payload: &[u8]) -> bool {
        let keys = keys.iter().map(|key| key.public_key());
        let keys = keys.map(|key| KeyPair::from_public_key(&key).unwrap());
        let seal = Seal::Asks(keys.collect());
        let envelope = Envelope::read(pairs(headers)).unwrap();
        let reason = seal.refuses::<Renewal>(subject, &envelope, payload, Some(headers));
        reason.is_some()
    }

    #[test]
    fn a_message_signed_by_control_is_accepted_and_a_changed_one_is_not() {
        let (control, other) = (KeyPair::new_user(), KeyPair::new_user());
        let renewal = Renewal {
            lead: 1,
            number: 2,
            leases: Vec::new(),
            forgotten: Vec::new(),
        };
        let payload = codec::encode(&renewal).unwrap();
        let own = KeyPair::from_seed(&control.seed().unwrap()).unwrap();
        let seal = Seal::Signs(Box::new(own));
        let mut signed = headers(&envelope());
        seal.sign::<Renewal>("s.1", &payload, &mut signed).unwrap();
        assert!(!refuses(&[&control], "s.1", &signed, &payload));
        assert!(!refuses(&[&other, &control], "s.1", &signed, &payload));
        // A signature by another key, or none.
        assert!(refuses(&[&other], "s.1", &signed, &payload));
        assert!(refuses(&[], "s.1", &signed, &payload));
        assert!(refuses(&[&control], "s.1", &headers(&envelope()), &payload));
        // Another subject or another payload.
        assert!(refuses(&[&control], "s.2", &signed, &payload));
        let mut changed = payload.clone();
        changed[1] ^= 1;
        assert!(refuses(&[&control], "s.1", &signed, &changed));
        for (name, value) in [
            ("ce-id", "a b-9"),
            ("ce-type", Command::KIND),
            ("ce-time", "2030-01-01T00:00:00Z"),
            ("ce-dataversion", "1"),
            ("content-type", "application/json"),
            (HEADER, ""),
            (HEADER, "zz"),
            (HEADER, "\u{fc}"),
        ] {
            let mut changed = signed.clone();
            changed.insert(name, value);
            assert!(refuses(&[&control], "s.1", &changed, &payload), "{name}");
        }
    }

    #[test]
    fn the_longest_headers_of_a_signed_message_are_bounded() {
        let long = HeaderText::of(&"\u{1}".repeat(42));
        let envelope = Envelope {
            id: long.clone(),
            source: long.clone(),
            kind: long.clone(),
            version: u16::MAX,
            time: Timestamp::from_unix_ms(253_402_300_799_999),
            correlation: long,
            content_type: ContentType::MessagePack,
        };
        let mut headers = headers(&envelope);
        headers.insert(HEADER, "f".repeat(128).as_str());
        headers.insert(
            async_nats::header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE,
            u64::MAX.to_string().as_str(),
        );
        let lines = pairs(&headers).map(|(name, value)| name.len() + value.len() + ": \r\n".len());
        let bytes = "NATS/1.0\r\n\r\n".len() + lines.sum::<usize>();
        assert!(bytes <= codec::MOST_HEADERS, "{bytes}");
        assert!(bytes * 10 > codec::MOST_HEADERS * 8, "{bytes}");
    }

    #[test]
    fn only_commands_to_nodes_are_signed_and_only_with_keys() {
        let signed = [Command::SIGNED, Members::SIGNED, Renewal::SIGNED];
        assert_eq!((signed, Settled::SIGNED), ([true; 3], false));
        let payload = codec::encode(&Renewal {
            lead: Epoch(1).0,
            number: 2,
            leases: Vec::new(),
            forgotten: Vec::new(),
        });
        let payload = payload.unwrap();
        let mut plain = headers(&envelope());
        Seal::None
            .sign::<Renewal>("s", &payload, &mut plain)
            .unwrap();
        assert!(plain.get(HEADER).is_none());
        let believed = Seal::None.refuses::<Renewal>("s", &envelope(), &payload, None);
        assert_eq!(believed, None);
        let asks = Seal::Asks(Vec::new());
        assert!(
            asks.refuses::<Renewal>("s", &envelope(), &payload, None)
                .is_some()
        );
        assert_eq!(
            asks.refuses::<Settled>("s", &envelope(), &payload, None),
            None
        );
    }
}
