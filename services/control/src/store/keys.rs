//! The keys of the store and the clients that wait for them: plain state, without I/O.
//!
//! A trainer's keys are needed while its members meet. `regroup` deletes its own, `torchrun` does
//! not, so the oldest keys make room for new ones.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::protocol::{Malformed, NOT_READY, READY, Request, STOP_WAITING, WAIT_CANCELED};

/// Most bytes of all keys and values, and as many of awaited keys. The addresses of a thousand
/// members of gloo are 140 MB.
const MOST: usize = 256 << 20;
/// What a key takes beside its bytes, roughly.
const OVERHEAD: usize = 128;

/// A connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Client(pub(super) u64);

/// A part of a reply. Large values are shared, not copied.
pub(super) type Part = Arc<[u8]>;

/// The answer to a request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// The parts of the reply in their order; none for a request without one.
    pub(super) reply: Vec<Part>,
    /// Clients whose wait has ended: see [`Keys::take_stopped`].
    pub(super) woken: Vec<Client>,
}

#[derive(Debug)]
struct Entry {
    value: Part,
    /// Number of the write.
    written: u64,
}

/// All keys.
#[derive(Debug)]
pub(super) struct Keys {
    most: usize,
    entries: BTreeMap<Part, Entry>,
    /// Keys by the number of their last write.
    ages: BTreeMap<u64, Part>,
    writes: u64,
    bytes: usize,
    /// The clients that wait for a key. A client that names a key twice is there twice.
    waiting: BTreeMap<Vec<u8>, Vec<Client>>,
    waiting_bytes: usize,
    /// The number of keys that a client waits for.
    awaited: BTreeMap<Client, usize>,
    /// Clients whose wait has ended, and that have not been told.
    stopped: BTreeSet<Client>,
}

impl Default for Keys {
    fn default() -> Self {
        Self::with_most(MOST)
    }
}

impl Keys {
    fn with_most(most: usize) -> Self {
        Self {
            most,
            entries: BTreeMap::new(),
            ages: BTreeMap::new(),
            writes: 0,
            bytes: 0,
            waiting: BTreeMap::new(),
            waiting_bytes: 0,
            awaited: BTreeMap::new(),
            stopped: BTreeSet::new(),
        }
    }

    /// Answers a request of a client. The end of its own wait, if it has not been told, comes
    /// before the reply: a client reads answers in the order of its requests.
    pub(super) fn handle(
        &mut self,
        client: Client,
        request: Request<'_>,
    ) -> Result<Answer, Malformed> {
        let mut answer = Answer::default();
        if self.take_stopped(client) {
            answer.reply.push(byte(STOP_WAITING));
        }
        match request {
            Request::Set { key, value } => answer.woken = self.put(key, Arc::from(value)),
            Request::CompareSet {
                key,
                expected,
                wanted,
            } => {
                let present = self.entries.get(key).map(|entry| Arc::clone(&entry.value));
                let (value, is_set): (Part, bool) = match present {
                    None => match expected {
                        [] => (Arc::from(wanted), true),
                        // As PyTorch's own store answers.
                        _ => (Arc::from(expected), false),
                    },
                    Some(present) if *present == *expected => (Arc::from(wanted), true),
                    Some(present) => (present, false),
                };
                if is_set {
                    answer.woken = self.put(key, Arc::clone(&value));
                }
                answer.reply.extend(sized(value));
            }
            Request::Get { key } => answer.reply.extend(sized(self.value(key))),
            Request::Add { key, by } => {
                let sum = self.sum(key, by)?;
                answer.woken = self.put(key, decimal(sum));
                answer.reply.push(number(sum));
            }
            Request::Check { keys } => {
                let all = keys.into_iter().all(|key| self.entries.contains_key(key));
                answer.reply.push(byte(if all { READY } else { NOT_READY }));
            }
            Request::Wait { keys } => {
                let mut missing = keys;
                missing.retain(|key| !self.entries.contains_key(*key));
                if missing.is_empty() {
                    answer.reply.push(byte(STOP_WAITING));
                } else {
                    self.wait(client, &missing)?;
                }
            }
            Request::Count => answer.reply.push(number(self.entries.len() as i64)),
            Request::Delete { key } => answer.reply.push(number(i64::from(self.remove(key)))),
            Request::Append { key, value } => {
                let value = [&*self.value(key), value].concat();
                answer.woken = self.put(key, Arc::from(value));
            }
            Request::GetAll { keys } => {
                let values = keys.into_iter().flat_map(|key| sized(self.value(key)));
                answer.reply.extend(values);
            }
            Request::SetAll { pairs } => {
                for (key, value) in pairs {
                    let woken = self.put(key, Arc::from(value));
                    answer.woken.extend(woken);
                }
            }
            Request::CancelWait => {
                self.forget(client);
                answer.reply.push(byte(WAIT_CANCELED));
            }
            Request::Ping { nonce } => answer.reply.push(Arc::from(nonce.as_slice())),
            Request::List => {
                answer.reply.push(number(self.entries.len() as i64));
                let keys = self.entries.keys().cloned();
                answer.reply.extend(keys.flat_map(sized));
            }
            Request::Barrier { key, members } => {
                let count = self.sum(key, 1)?;
                self.write(key, decimal(count));
                if count < members {
                    self.wait(client, &[key])?;
                } else {
                    answer.woken = self.wake(key);
                    answer.reply.push(byte(STOP_WAITING));
                }
            }
        }
        Ok(answer)
    }

    /// Whether the client's wait has ended. The caller sends [`STOP_WAITING`] then.
    /// The answer is true once.
    pub(super) fn take_stopped(&mut self, client: Client) -> bool {
        self.stopped.remove(&client)
    }

    /// The client waits no more: it says so, or has gone.
    pub(super) fn forget(&mut self, client: Client) {
        self.stopped.remove(&client);
        if self.awaited.remove(&client).is_none() {
            return;
        }
        let Self {
            waiting,
            waiting_bytes,
            ..
        } = self;
        waiting.retain(|key, clients| {
            clients.retain(|other| *other != client);
            if clients.is_empty() {
                *waiting_bytes -= key.len() + OVERHEAD;
            }
            !clients.is_empty()
        });
    }

    /// The value of a key; empty without one.
    fn value(&self, key: &[u8]) -> Part {
        let entry = self.entries.get(key);
        entry.map_or_else(|| Arc::from([]), |entry| Arc::clone(&entry.value))
    }

    fn sum(&self, key: &[u8], by: i64) -> Result<i64, Malformed> {
        let present = match self.entries.get(key) {
            None => Some(0),
            Some(entry) => std::str::from_utf8(&entry.value)
                .ok()
                .and_then(|text| text.trim().parse::<i64>().ok()),
        };
        let sum = present.and_then(|present| present.checked_add(by));
        sum.ok_or(Malformed::NoNumber)
    }

    /// Sets a key. Returns the clients whose wait has ended by it.
    fn put(&mut self, key: &[u8], value: Part) -> Vec<Client> {
        self.write(key, value);
        self.wake(key)
    }

    fn write(&mut self, key: &[u8], value: Part) {
        self.remove(key);
        let key: Part = Arc::from(key);
        self.writes += 1;
        self.bytes += key.len() + value.len() + OVERHEAD;
        self.ages.insert(self.writes, Arc::clone(&key));
        let written = self.writes;
        self.entries.insert(key, Entry { value, written });
        while self.bytes > self.most
            && let Some((_, oldest)) = self.ages.pop_first()
        {
            self.remove(&oldest);
        }
    }

    fn remove(&mut self, key: &[u8]) -> bool {
        let Some((key, entry)) = self.entries.remove_entry(key) else {
            return false;
        };
        self.ages.remove(&entry.written);
        self.bytes -= key.len() + entry.value.len() + OVERHEAD;
        true
    }

    fn wait(&mut self, client: Client, keys: &[&[u8]]) -> Result<(), Malformed> {
        self.forget(client);
        self.awaited.insert(client, keys.len());
        for key in keys {
            if let Some(clients) = self.waiting.get_mut(*key) {
                clients.push(client);
            } else {
                self.waiting_bytes += key.len() + OVERHEAD;
                self.waiting.insert(key.to_vec(), vec![client]);
            }
        }
        if self.waiting_bytes > self.most {
            self.forget(client);
            return Err(Malformed::NoRoom);
        }
        Ok(())
    }

    fn wake(&mut self, key: &[u8]) -> Vec<Client> {
        let mut woken = Vec::new();
        let Some(clients) = self.waiting.remove(key) else {
            return woken;
        };
        self.waiting_bytes -= key.len() + OVERHEAD;
        for client in clients {
            let Some(left) = self.awaited.get_mut(&client) else {
                continue;
            };
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.awaited.remove(&client);
                self.stopped.insert(client);
                woken.push(client);
            }
        }
        woken
    }
}

fn byte(byte: u8) -> Part {
    Arc::from([byte])
}

fn number(number: i64) -> Part {
    Arc::from(number.to_le_bytes())
}

fn decimal(number: i64) -> Part {
    Arc::from(number.to_string().into_bytes())
}

/// A text of the protocol: its length and its bytes.
fn sized(value: Part) -> [Part; 2] {
    [Arc::from((value.len() as u64).to_le_bytes()), value]
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Client = Client(1);
    const B: Client = Client(2);
    const C: Client = Client(3);

    fn ask(keys: &mut Keys, client: Client, request: Request<'_>) -> (Vec<u8>, Vec<Client>) {
        let Answer { reply, woken } = keys.handle(client, request).unwrap();
        (reply.concat(), woken)
    }

    fn set(keys: &mut Keys, key: &[u8], value: &[u8]) -> Vec<Client> {
        let (reply, woken) = ask(keys, B, Request::Set { key, value });
        assert_eq!(reply, b"", "no answer is read");
        woken
    }

    fn names(of: &[&'static str]) -> Vec<&'static [u8]> {
        of.iter().map(|name| name.as_bytes()).collect()
    }

    fn text(of: &[u8]) -> Vec<u8> {
        sized(Arc::from(of)).concat()
    }

    #[test]
    fn keys_are_set_compared_added_listed_and_deleted() {
        let mut keys = Keys::default();
        let reply = |keys: &mut Keys, request| ask(keys, A, request).0;
        let compare = |key, expected, wanted| Request::CompareSet {
            key,
            expected,
            wanted,
        };
        // Members look for a key by a comparison that sets nothing.
        assert_eq!(reply(&mut keys, compare(b"k", b"?", b"?")), text(b"?"));
        assert_eq!(reply(&mut keys, Request::Get { key: b"k" }), text(b""));
        assert_eq!(reply(&mut keys, compare(b"k", b"", b"1")), text(b"1"));
        assert_eq!(reply(&mut keys, compare(b"k", b"", b"2")), text(b"1"));
        assert_eq!(reply(&mut keys, compare(b"k", b"1", b"2")), text(b"2"));
        let add = |by| Request::Add { key: b"n", by };
        assert_eq!(reply(&mut keys, add(5)), 5_i64.to_le_bytes());
        assert_eq!(reply(&mut keys, add(-7)), (-2_i64).to_le_bytes());
        assert_eq!(reply(&mut keys, Request::Get { key: b"n" }), text(b"-2"));
        set(&mut keys, b"word", b"x");
        let append = Request::Append {
            key: b"word",
            value: b"y",
        };
        assert_eq!(reply(&mut keys, append), b"");
        let two = names(&["word", "n"]);
        let values = Request::GetAll { keys: two.clone() };
        let both = [text(b"xy"), text(b"-2")].concat();
        assert_eq!(reply(&mut keys, values), both);
        assert_eq!(reply(&mut keys, Request::Check { keys: two }), [READY]);
        let none = names(&["none"]);
        assert_eq!(reply(&mut keys, Request::Check { keys: none }), [NOT_READY]);
        assert_eq!(reply(&mut keys, Request::Count), 3_i64.to_le_bytes());
        let listed = [3_u64.to_le_bytes().to_vec(), text(b"k"), text(b"n")].concat();
        assert!(reply(&mut keys, Request::List).starts_with(&listed));
        for deleted in [1_i64, 0] {
            let delete = Request::Delete { key: b"word" };
            assert_eq!(reply(&mut keys, delete), deleted.to_le_bytes());
        }
        let nonce = [1, 2, 3, 4];
        assert_eq!(reply(&mut keys, Request::Ping { nonce }), nonce);
        let to_text = Request::Add { key: b"k", by: 1 };
        assert_eq!(reply(&mut keys, to_text), 3_i64.to_le_bytes());
        set(&mut keys, b"k", b"x");
        let to_word = Request::Add { key: b"k", by: 1 };
        assert_eq!(keys.handle(A, to_word), Err(Malformed::NoNumber));
        set(&mut keys, b"k", b"9223372036854775807");
        let beyond = Request::Add { key: b"k", by: 1 };
        assert_eq!(keys.handle(A, beyond), Err(Malformed::NoNumber));
    }

    #[test]
    fn a_wait_ends_when_all_its_keys_are_there() {
        let mut keys = Keys::default();
        let wait = || Request::Wait {
            keys: names(&["x", "y", "z"]),
        };
        set(&mut keys, b"y", b"1");
        assert_eq!(ask(&mut keys, A, wait()), (vec![], vec![]));
        assert!(set(&mut keys, b"x", b"1").is_empty());
        assert!(set(&mut keys, b"y", b"2").is_empty(), "it is there already");
        assert_eq!(set(&mut keys, b"z", b"1"), [A]);
        assert!(keys.take_stopped(A) && !keys.take_stopped(A));
        assert_eq!(ask(&mut keys, C, wait()), (vec![STOP_WAITING], vec![]));
        // A client that has gone is not told.
        let other = Request::Wait {
            keys: names(&["w"]),
        };
        ask(&mut keys, C, other);
        keys.forget(C);
        assert!(set(&mut keys, b"w", b"1").is_empty());
        assert_eq!((keys.waiting.len(), keys.waiting_bytes), (0, 0));
    }

    #[test]
    fn the_end_of_a_wait_is_told_before_its_withdrawal_is_confirmed() {
        let mut keys = Keys::default();
        let wait = || Request::Wait {
            keys: names(&["x"]),
        };
        ask(&mut keys, A, wait());
        let late = ask(&mut keys, A, Request::CancelWait).0;
        assert_eq!(late, [WAIT_CANCELED]);
        assert!(set(&mut keys, b"x", b"1").is_empty(), "it waits no more");
        ask(&mut keys, B, Request::Delete { key: b"x" });
        ask(&mut keys, A, wait());
        assert_eq!(set(&mut keys, b"x", b"1"), [A]);
        let both = ask(&mut keys, A, Request::CancelWait).0;
        assert_eq!(both, [STOP_WAITING, WAIT_CANCELED]);
        assert!(!keys.take_stopped(A));
    }

    #[test]
    fn a_barrier_opens_for_its_last_member() {
        let mut keys = Keys::default();
        let barrier = || Request::Barrier {
            key: b"b",
            members: 3,
        };
        assert_eq!(ask(&mut keys, A, barrier()), (vec![], vec![]));
        assert_eq!(ask(&mut keys, B, barrier()), (vec![], vec![]));
        let last = ask(&mut keys, C, barrier());
        assert_eq!(last, (vec![STOP_WAITING], vec![A, B]));
    }

    #[test]
    fn the_oldest_keys_make_room_and_waits_are_bounded() {
        let mut keys = Keys::with_most(3 * (OVERHEAD + 2));
        for key in [b"a", b"b", b"c"] {
            set(&mut keys, key, b"1");
        }
        set(&mut keys, b"a", b"2");
        set(&mut keys, b"d", b"1");
        let left: Vec<&[u8]> = keys.entries.keys().map(|key| &**key).collect();
        assert_eq!(left, [b"a", b"c", b"d"], "b was written first");
        assert_eq!(keys.ages.len(), 3);
        let many = Request::Wait {
            keys: names(&["p", "q", "r", "s"]),
        };
        assert_eq!(keys.handle(A, many), Err(Malformed::NoRoom));
        assert_eq!((keys.waiting.len(), keys.waiting_bytes), (0, 0));
    }
}
