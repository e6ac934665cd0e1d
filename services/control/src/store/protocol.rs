//! The protocol of PyTorch's TCPStore (`torch/csrc/distributed/c10d/TCPStore.cpp` and its
//! backends): one byte for the kind of a request, then its fields. Numbers are little-endian, and a
//! text is its length in eight bytes and its bytes.
//!
//! PyTorch 1.13 numbers the kinds from 0. Newer versions begin a connection with a validation,
//! which is their kind 0, so all other kinds up to `WATCH_KEY` moved by one. A validation is no
//! request of an early client: that would set a key of a gigabyte.
//!
//! Not answered: `WATCH_KEY` of 1.13, the queues of PyTorch 2.7, and the number and list of all keys.
//! No process group and no rendezvous uses them.
//!
//! PyTorch's client puts a `/` before each key. Behind it a `PrefixStore` puts its prefix, and the
//! rendezvous of torchrun its own word and its id.

use lacuna_model::Token;

/// Most bytes of a request.
pub(super) const LONGEST: usize = 8 << 20;

/// What `c10d_rendezvous_backend.py` puts before the id of a rendezvous.
const RENDEZVOUS: &[u8] = b"torch.rendezvous.";

/// What a validation says.
const MAGIC: [u8; 4] = 0x3C85_F7CE_u32.to_le_bytes();

/// The answer to a wait whose keys are there.
pub(super) const STOP_WAITING: u8 = 0;
/// The answer to the withdrawal of a wait.
pub(super) const WAIT_CANCELED: u8 = 1;
/// The answers to a check.
pub(super) const READY: u8 = 0;
pub(super) const NOT_READY: u8 = 1;

/// The reason why a connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Malformed {
    /// No kind of request that is answered.
    #[error("kind {0} of a request is not known")]
    Kind(u8),
    /// The request is too long.
    #[error("a request is longer than {most} bytes", most = LONGEST)]
    TooLong,
    /// A sum over a value that is no number, or beyond the range.
    #[error("a value is no number that can be added to")]
    NoNumber,
    /// There is no room for the keys that are waited for.
    #[error("too many keys are waited for")]
    NoRoom,
    /// The keys of a request are not of one present incarnation.
    #[error("it has shown no token of a present incarnation")]
    NoToken,
}

/// The numbering of the kinds of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// That of PyTorch 1.13.
    Early,
    /// That of clients that begin with a validation.
    Validated,
}

/// A request of a client.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Request<'b> {
    /// Sets a key. No answer.
    Set { key: &'b [u8], value: &'b [u8] },
    /// Sets a key if it has the expected value, or has none and none is expected. The answer is its
    /// value then; the expected one, if there is still no key.
    CompareSet {
        key: &'b [u8],
        expected: &'b [u8],
        wanted: &'b [u8],
    },
    /// The value of a key.
    Get { key: &'b [u8] },
    /// Adds to a decimal number. The answer is the sum.
    Add { key: &'b [u8], by: i64 },
    /// Whether all keys are there.
    Check { keys: Vec<&'b [u8]> },
    /// The answer comes when all keys are there.
    Wait { keys: Vec<&'b [u8]> },
    /// Deletes a key. The answer is the number of deleted keys.
    Delete { key: &'b [u8] },
    /// Appends to a value. No answer.
    Append { key: &'b [u8], value: &'b [u8] },
    /// The values of several keys.
    GetAll { keys: Vec<&'b [u8]> },
    /// Sets several keys. No answer.
    SetAll { pairs: Vec<(&'b [u8], &'b [u8])> },
    /// The client waits no more.
    CancelWait,
    /// The answer is the same four bytes.
    Ping { nonce: [u8; 4] },
    /// Counts this client; the answer comes when there are `members`.
    Barrier { key: &'b [u8], members: i64 },
}

impl<'b> Request<'b> {
    /// All its keys.
    pub(super) fn keys(&self) -> Vec<&'b [u8]> {
        match self {
            Request::Set { key, .. }
            | Request::CompareSet { key, .. }
            | Request::Get { key }
            | Request::Add { key, .. }
            | Request::Delete { key }
            | Request::Append { key, .. }
            | Request::Barrier { key, .. } => vec![*key],
            Request::Check { keys } | Request::Wait { keys } | Request::GetAll { keys } => {
                keys.clone()
            }
            Request::SetAll { pairs } => pairs.iter().map(|(key, _)| *key).collect(),
            Request::CancelWait | Request::Ping { .. } => Vec::new(),
        }
    }
}

/// The token that a key shows.
pub(super) fn shown(key: &[u8]) -> Option<&[u8]> {
    let key = key.strip_prefix(b"/").unwrap_or(key);
    Token::leading(key.strip_prefix(RENDEZVOUS).unwrap_or(key))
}

/// How a client numbers its requests, and the length of its validation; nothing before that is
/// certain.
pub(super) fn opening(bytes: &[u8]) -> Option<(Dialect, usize)> {
    match bytes.split_first()? {
        (0, rest) if rest.len() < MAGIC.len() => None,
        (0, rest) if rest.starts_with(&MAGIC) => Some((Dialect::Validated, 1 + MAGIC.len())),
        _ => Some((Dialect::Early, 0)),
    }
}

/// The first request and its length; nothing if it is not complete.
pub(super) fn parse(
    dialect: Dialect,
    bytes: &[u8],
) -> Result<Option<(Request<'_>, usize)>, Malformed> {
    let mut cursor = Cursor { bytes, at: 0 };
    match cursor.request(dialect) {
        Ok(request) => Ok(Some((request, cursor.at))),
        Err(Stop::Incomplete) => Ok(None),
        Err(Stop::Malformed(why)) => Err(why),
    }
}

/// Why no request was read.
enum Stop {
    Incomplete,
    Malformed(Malformed),
}

/// The place in the received bytes up to which they are read.
struct Cursor<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Cursor<'b> {
    fn request(&mut self, dialect: Dialect) -> Result<Request<'b>, Stop> {
        let [said] = self.fixed()?;
        let kind = match (dialect, said) {
            (Dialect::Validated, kind) => kind,
            (Dialect::Early, kind @ 0..=5) => kind + 1,
            (Dialect::Early, kind @ 8..=11) => kind,
            (Dialect::Early, kind) => return Err(Stop::Malformed(Malformed::Kind(kind))),
        };
        Ok(match kind {
            1 => Request::Set {
                key: self.text()?,
                value: self.text()?,
            },
            2 => Request::CompareSet {
                key: self.text()?,
                expected: self.text()?,
                wanted: self.text()?,
            },
            3 => Request::Get { key: self.text()? },
            4 => Request::Add {
                key: self.text()?,
                by: i64::from_le_bytes(self.fixed()?),
            },
            5 => Request::Check {
                keys: self.texts()?,
            },
            6 => Request::Wait {
                keys: self.texts()?,
            },
            8 => Request::Delete { key: self.text()? },
            9 => Request::Append {
                key: self.text()?,
                value: self.text()?,
            },
            10 => Request::GetAll {
                keys: self.texts()?,
            },
            11 => Request::SetAll {
                pairs: self.several(|cursor| Ok((cursor.text()?, cursor.text()?)))?,
            },
            12 => Request::CancelWait,
            13 => Request::Ping {
                nonce: self.fixed()?,
            },
            18 => Request::Barrier {
                key: self.text()?,
                members: i64::from_le_bytes(self.fixed()?),
            },
            kind => return Err(Stop::Malformed(Malformed::Kind(kind))),
        })
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Stop> {
        let taken = self.take(N)?.first_chunk::<N>();
        taken.copied().ok_or(Stop::Incomplete)
    }

    fn length(&mut self) -> Result<usize, Stop> {
        let length = u64::from_le_bytes(self.fixed()?);
        usize::try_from(length).map_err(|_| Stop::Malformed(Malformed::TooLong))
    }

    fn text(&mut self) -> Result<&'b [u8], Stop> {
        let length = self.length()?;
        self.take(length)
    }

    fn texts(&mut self) -> Result<Vec<&'b [u8]>, Stop> {
        self.several(Self::text)
    }

    /// A number, and as many items. An item has eight bytes at least, so the bytes bound the
    /// items.
    fn several<T>(&mut self, item: impl Fn(&mut Self) -> Result<T, Stop>) -> Result<Vec<T>, Stop> {
        let count = self.length()?;
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn take(&mut self, length: usize) -> Result<&'b [u8], Stop> {
        let end = self.at.checked_add(length).filter(|end| *end <= LONGEST);
        let end = end.ok_or(Stop::Malformed(Malformed::TooLong))?;
        let taken = self.bytes.get(self.at..end).ok_or(Stop::Incomplete)?;
        self.at = end;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(of: &str) -> Vec<u8> {
        let mut bytes = (of.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(of.as_bytes());
        bytes
    }

    fn bytes(kind: u8, fields: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = vec![kind];
        bytes.extend(fields.concat());
        bytes
    }

    #[test]
    fn the_first_bytes_tell_the_numbering() {
        let validation: [u8; 5] = [0, 0xCE, 0xF7, 0x85, 0x3C];
        assert_eq!(opening(&validation), Some((Dialect::Validated, 5)));
        for few in 0..5 {
            assert_eq!(opening(&validation[..few]), None, "{few} bytes");
        }
        // 1.13 sets a key of one letter, or gets one.
        let set = bytes(0, &[text("a"), text("1")]);
        assert_eq!(opening(&set), Some((Dialect::Early, 0)));
        assert_eq!(opening(&[2]), Some((Dialect::Early, 0)));
    }

    #[test]
    fn each_request_is_read_whole_or_not_at_all() {
        let number = |n: i64| n.to_le_bytes().to_vec();
        let two = || [number(2), text("a"), text("bc")].concat();
        let cases = [
            (1, 0, vec![text("a"), text("1")]),
            (2, 1, vec![text("a"), text(""), text("1")]),
            (3, 2, vec![text("a")]),
            (4, 3, vec![text("a"), number(-3)]),
            (5, 4, vec![two()]),
            (6, 5, vec![two()]),
            (8, 8, vec![text("a")]),
            (9, 9, vec![text("a"), text("1")]),
            (10, 10, vec![two()]),
            (11, 11, vec![number(1), text("a"), text("1")]),
        ];
        for (kind, early, fields) in cases {
            let whole = bytes(kind, &fields);
            let of_early = bytes(early, &fields);
            for less in 0..whole.len() {
                assert_eq!(parse(Dialect::Validated, &whole[..less]), Ok(None));
                assert_eq!(parse(Dialect::Early, &of_early[..less]), Ok(None));
            }
            let (request, length) = parse(Dialect::Validated, &whole).unwrap().unwrap();
            assert_eq!(length, whole.len(), "{request:?}");
            let again = parse(Dialect::Early, &of_early).unwrap().unwrap();
            assert_eq!((request, length), again);
        }
        let two = bytes(11, &[number(2), text("a"), text("1"), text("b"), text("")]);
        let pair = |key: &'static str, value: &'static str| (key.as_bytes(), value.as_bytes());
        let expected = Request::SetAll {
            pairs: vec![pair("a", "1"), pair("b", "")],
        };
        assert_eq!(
            parse(Dialect::Validated, &two),
            Ok(Some((expected, two.len())))
        );
    }

    #[test]
    fn what_is_no_request_is_refused_before_it_is_read() {
        for (dialect, kind) in [
            (Dialect::Early, 6),
            (Dialect::Early, 7),
            (Dialect::Early, 12),
            (Dialect::Validated, 0),
            (Dialect::Validated, 7),
            (Dialect::Validated, 17),
            (Dialect::Validated, 14),
            (Dialect::Validated, 255),
        ] {
            assert!(matches!(parse(dialect, &[kind]), Err(Malformed::Kind(_))));
        }
        let huge = bytes(3, &[(u64::MAX).to_le_bytes().to_vec()]);
        assert_eq!(parse(Dialect::Validated, &huge), Err(Malformed::TooLong));
        let long = bytes(3, &[(LONGEST as u64).to_le_bytes().to_vec()]);
        assert_eq!(parse(Dialect::Validated, &long), Err(Malformed::TooLong));
        let many = bytes(5, &[(u64::MAX).to_le_bytes().to_vec()]);
        assert_eq!(parse(Dialect::Validated, &many), Ok(None));
    }

    #[test]
    fn a_token_is_shown_by_a_prefix_and_by_the_id_of_a_rendezvous() {
        let token = Token::new(7);
        let token = token.reveal();
        let expected = Some(token.as_bytes());
        for key in [
            format!("/{token}/t/3/0/card/1"),
            format!("/torch.rendezvous.{token}"),
            format!("/torch.rendezvous.{token}.0/MASTER_ADDR"),
        ] {
            assert_eq!(shown(key.as_bytes()), expected, "{key}");
        }
        for key in [
            format!("/t/{token}"),
            format!("//{token}"),
            "/init/".to_owned(),
            token[..20].to_owned(),
        ] {
            assert_eq!(shown(key.as_bytes()), None, "{key}");
        }
    }
}
