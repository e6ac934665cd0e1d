//! The keys of the store and the clients that wait for them: plain state, without I/O.
//!
//! Each incarnation has a room of its own, which its token opens. A client that has shown the token
//! of a room is in that room until it shows another one, since PyTorch uses some keys without the
//! prefix of its program (`ProcessGroupNCCL`: the store behind all prefixes). The room of an ended
//! incarnation stays for members that have not heard of the next one, and takes its keys along.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use lacuna_model::{Token, TrainerId};
use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use tokio::time::Instant;

use super::protocol::{Malformed, NOT_READY, READY, Request, STOP_WAITING, WAIT_CANCELED, shown};

/// Most bytes of all keys and values, and as many of awaited keys. The addresses of a thousand
/// members of gloo are 140 MB.
const MOST: usize = 256 << 20;
/// What a key takes beside its bytes, roughly.
const OVERHEAD: usize = 128;
/// Time after the end of an incarnation in which its members may still need its keys: a group waits
/// as long for a member at most, and torchrun asks its store until it is stopped.
pub(super) const LINGER: Duration = Duration::from_secs(600);

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

/// The digest of a token. How long a digest is searched for tells nothing of the tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Mark([u8; SHA256_OUTPUT_LEN]);

impl Mark {
    fn of(token: &[u8]) -> Self {
        let mut mark = Self::default();
        let digest = digest(&SHA256, token);
        mark.0.copy_from_slice(digest.as_ref());
        mark
    }
}

#[derive(Debug)]
struct Entry {
    value: Part,
    /// Number of the write.
    written: u64,
}

/// The keys of one incarnation.
#[derive(Debug, Default)]
struct Room {
    /// When the incarnation ended.
    ended: Option<Instant>,
    entries: BTreeMap<Part, Entry>,
    /// Keys by the number of their last write.
    ages: BTreeMap<u64, Part>,
    bytes: usize,
    /// The clients that wait for a key. A client that names a key twice is there twice.
    waiting: BTreeMap<Vec<u8>, Vec<Client>>,
}

impl Room {
    fn is_open(&self, now: Instant) -> bool {
        self.ended.is_none_or(|ended| now < ended + LINGER)
    }

    /// Returns the bytes that a key has taken.
    fn remove(&mut self, key: &[u8]) -> Option<usize> {
        let (key, entry) = self.entries.remove_entry(key)?;
        self.ages.remove(&entry.written);
        let bytes = key.len() + entry.value.len() + OVERHEAD;
        self.bytes -= bytes;
        Some(bytes)
    }
}

/// All keys.
#[derive(Debug)]
pub(super) struct Keys {
    most: usize,
    rooms: BTreeMap<Mark, Room>,
    /// The room of each trainer's present incarnation.
    present: BTreeMap<TrainerId, Mark>,
    /// The rooms in which clients are.
    entered: BTreeMap<Client, Mark>,
    writes: u64,
    bytes: usize,
    waiting_bytes: usize,
    /// The number of keys that a client waits for, and their room.
    awaited: BTreeMap<Client, (Mark, usize)>,
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
            rooms: BTreeMap::new(),
            present: BTreeMap::new(),
            entered: BTreeMap::new(),
            writes: 0,
            bytes: 0,
            waiting_bytes: 0,
            awaited: BTreeMap::new(),
            stopped: BTreeSet::new(),
        }
    }

    /// A trainer has begun an incarnation with this token; without one it trains no more. The
    /// incarnation before has ended.
    pub(super) fn begin(&mut self, trainer: &TrainerId, token: Option<&Token>, now: Instant) {
        let mark = token.map(|token| Mark::of(token.reveal().as_bytes()));
        let before = match mark {
            Some(mark) => self.present.insert(trainer.clone(), mark),
            None => self.present.remove(trainer),
        };
        let before = before.filter(|before| Some(*before) != mark);
        if let Some(room) = before.and_then(|before| self.rooms.get_mut(&before)) {
            room.ended = Some(now);
        }
        if let Some(mark) = mark {
            self.rooms.entry(mark).or_default().ended = None;
        }
        let rooms = self.rooms.iter();
        let closed = rooms.filter(|(_, room)| !room.is_open(now));
        for mark in closed.map(|(mark, _)| *mark).collect::<Vec<_>>() {
            self.close(mark);
        }
    }

    /// Drops a room. Those who wait there wait until their own limit.
    fn close(&mut self, mark: Mark) {
        let Some(room) = self.rooms.remove(&mark) else {
            return;
        };
        self.bytes -= room.bytes;
        for (key, clients) in room.waiting {
            self.waiting_bytes -= key.len() + OVERHEAD;
            for client in clients {
                self.awaited.remove(&client);
            }
        }
    }

    /// Whether a client has shown a token.
    pub(super) fn has_entered(&self, client: Client) -> bool {
        self.entered.contains_key(&client)
    }

    /// The open room that a request is about. All its keys are of one room.
    fn enter(&mut self, client: Client, keys: &[&[u8]], now: Instant) -> Result<Mark, Malformed> {
        let mut marks = keys.iter().filter_map(|key| shown(key)).map(Mark::of);
        let first = marks.next();
        let entered = self.entered.get(&client).copied();
        let mark = first.or(entered).ok_or(Malformed::NoToken)?;
        let is_open = self.rooms.get(&mark).is_some_and(|room| room.is_open(now));
        if !is_open || marks.any(|other| other != mark) {
            return Err(Malformed::NoToken);
        }
        self.entered.insert(client, mark);
        Ok(mark)
    }

    /// Answers a request of a client. The end of its own wait, if it has not been told, comes
    /// before the reply: a client reads answers in the order of its requests.
    pub(super) fn handle(
        &mut self,
        client: Client,
        request: Request<'_>,
        now: Instant,
    ) -> Result<Answer, Malformed> {
        // A request without keys is about no room.
        let room = match request.keys() {
            keys if keys.is_empty() => Mark::default(),
            keys => self.enter(client, &keys, now)?,
        };
        let mut answer = Answer::default();
        if self.take_stopped(client) {
            answer.reply.push(byte(STOP_WAITING));
        }
        match request {
            Request::Set { key, value } => answer.woken = self.put(room, key, Arc::from(value)),
            Request::CompareSet {
                key,
                expected,
                wanted,
            } => {
                let present = self.entry(room, key).map(|entry| Arc::clone(&entry.value));
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
                    answer.woken = self.put(room, key, Arc::clone(&value));
                }
                answer.reply.extend(sized(value));
            }
            Request::Get { key } => answer.reply.extend(sized(self.value(room, key))),
            Request::Add { key, by } => {
                let sum = self.sum(room, key, by)?;
                answer.woken = self.put(room, key, decimal(sum));
                answer.reply.push(number(sum));
            }
            Request::Check { keys } => {
                let all = keys.into_iter().all(|key| self.entry(room, key).is_some());
                answer.reply.push(byte(if all { READY } else { NOT_READY }));
            }
            Request::Wait { keys } => {
                let mut missing = keys;
                missing.retain(|key| self.entry(room, key).is_none());
                if missing.is_empty() {
                    answer.reply.push(byte(STOP_WAITING));
                } else {
                    self.wait(client, room, &missing)?;
                }
            }
            Request::Delete { key } => {
                answer.reply.push(number(i64::from(self.remove(room, key))));
            }
            Request::Append { key, value } => {
                let value = [&*self.value(room, key), value].concat();
                answer.woken = self.put(room, key, Arc::from(value));
            }
            Request::GetAll { keys } => {
                let values = keys
                    .into_iter()
                    .flat_map(|key| sized(self.value(room, key)));
                answer.reply.extend(values);
            }
            Request::SetAll { pairs } => {
                for (key, value) in pairs {
                    let woken = self.put(room, key, Arc::from(value));
                    answer.woken.extend(woken);
                }
            }
            Request::CancelWait => {
                self.forget(client);
                answer.reply.push(byte(WAIT_CANCELED));
            }
            Request::Ping { nonce } => answer.reply.push(Arc::from(nonce.as_slice())),
            Request::Barrier { key, members } => {
                let count = self.sum(room, key, 1)?;
                self.write(room, key, decimal(count));
                if count < members {
                    self.wait(client, room, &[key])?;
                } else {
                    answer.woken = self.wake(room, key);
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

    /// The client has gone.
    pub(super) fn leave(&mut self, client: Client) {
        self.entered.remove(&client);
        self.forget(client);
    }

    /// The client waits no more.
    fn forget(&mut self, client: Client) {
        self.stopped.remove(&client);
        let Some((mark, _)) = self.awaited.remove(&client) else {
            return;
        };
        let Some(room) = self.rooms.get_mut(&mark) else {
            return;
        };
        room.waiting.retain(|key, clients| {
            clients.retain(|other| *other != client);
            if clients.is_empty() {
                self.waiting_bytes -= key.len() + OVERHEAD;
            }
            !clients.is_empty()
        });
    }

    fn entry(&self, room: Mark, key: &[u8]) -> Option<&Entry> {
        self.rooms.get(&room)?.entries.get(key)
    }

    /// The value of a key; empty without one.
    fn value(&self, room: Mark, key: &[u8]) -> Part {
        let entry = self.entry(room, key);
        entry.map_or_else(|| Arc::from([]), |entry| Arc::clone(&entry.value))
    }

    fn sum(&self, room: Mark, key: &[u8], by: i64) -> Result<i64, Malformed> {
        let present = match self.entry(room, key) {
            None => Some(0),
            Some(entry) => std::str::from_utf8(&entry.value)
                .ok()
                .and_then(|text| text.trim().parse::<i64>().ok()),
        };
        let sum = present.and_then(|present| present.checked_add(by));
        sum.ok_or(Malformed::NoNumber)
    }

    /// Sets a key. Returns the clients whose wait has ended by it.
    fn put(&mut self, room: Mark, key: &[u8], value: Part) -> Vec<Client> {
        self.write(room, key, value);
        self.wake(room, key)
    }

    /// Writes a key. If there is no room for it, the oldest keys of an ended incarnation go, else of
    /// the one with most bytes.
    fn write(&mut self, room: Mark, key: &[u8], value: Part) {
        self.remove(room, key);
        let Some(room) = self.rooms.get_mut(&room) else {
            return;
        };
        let key: Part = Arc::from(key);
        self.writes += 1;
        let (written, bytes) = (self.writes, key.len() + value.len() + OVERHEAD);
        self.bytes += bytes;
        room.bytes += bytes;
        room.ages.insert(written, Arc::clone(&key));
        room.entries.insert(key, Entry { value, written });
        while self.bytes > self.most {
            let rooms = self.rooms.values_mut().filter(|room| room.bytes > 0);
            let Some(room) = rooms.max_by_key(|room| (room.ended.is_some(), room.bytes)) else {
                return;
            };
            while self.bytes > self.most
                && let Some((_, oldest)) = room.ages.pop_first()
            {
                self.bytes -= room.remove(&oldest).unwrap_or_default();
            }
        }
    }

    fn remove(&mut self, room: Mark, key: &[u8]) -> bool {
        let room = self.rooms.get_mut(&room);
        let freed = room.and_then(|room| room.remove(key));
        self.bytes -= freed.unwrap_or_default();
        freed.is_some()
    }

    fn wait(&mut self, client: Client, mark: Mark, keys: &[&[u8]]) -> Result<(), Malformed> {
        self.forget(client);
        let Some(room) = self.rooms.get_mut(&mark) else {
            return Ok(());
        };
        self.awaited.insert(client, (mark, keys.len()));
        for key in keys {
            if let Some(clients) = room.waiting.get_mut(*key) {
                clients.push(client);
            } else {
                self.waiting_bytes += key.len() + OVERHEAD;
                room.waiting.insert(key.to_vec(), vec![client]);
            }
        }
        if self.waiting_bytes > self.most {
            self.forget(client);
            return Err(Malformed::NoRoom);
        }
        Ok(())
    }

    fn wake(&mut self, room: Mark, key: &[u8]) -> Vec<Client> {
        let mut woken = Vec::new();
        let room = self.rooms.get_mut(&room);
        let Some(clients) = room.and_then(|room| room.waiting.remove(key)) else {
            return woken;
        };
        self.waiting_bytes -= key.len() + OVERHEAD;
        for client in clients {
            let Some((_, left)) = self.awaited.get_mut(&client) else {
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

    /// Keys of one incarnation, in which three clients are: most requests show no token here.
    fn keys(most: usize) -> Keys {
        let mut keys = Keys::with_most(most);
        let now = Instant::now();
        keys.begin(&trainer("t"), Some(&Token::new(1)), now);
        let own = key(1, "");
        for client in [A, B, C] {
            let delete = Request::Delete { key: &own };
            keys.handle(client, delete, now).unwrap();
        }
        keys
    }

    fn trainer(name: &str) -> TrainerId {
        TrainerId::new(name).unwrap()
    }

    /// A key that shows a token, as PyTorch sends it.
    fn key(token: u128, rest: &str) -> Vec<u8> {
        format!("/{}/{rest}", Token::new(token).reveal()).into_bytes()
    }

    fn one_at(key: &[u8]) -> Request<'_> {
        Request::Set { key, value: b"1" }
    }

    fn handle(keys: &mut Keys, client: Client, request: Request<'_>) -> Result<Answer, Malformed> {
        keys.handle(client, request, Instant::now())
    }

    fn ask(keys: &mut Keys, client: Client, request: Request<'_>) -> (Vec<u8>, Vec<Client>) {
        let Answer { reply, woken } = handle(keys, client, request).unwrap();
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
    fn keys_are_set_compared_added_and_deleted() {
        let mut keys = keys(MOST);
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
        assert_eq!(handle(&mut keys, A, to_word), Err(Malformed::NoNumber));
        set(&mut keys, b"k", b"9223372036854775807");
        let beyond = Request::Add { key: b"k", by: 1 };
        assert_eq!(handle(&mut keys, A, beyond), Err(Malformed::NoNumber));
    }

    #[test]
    fn a_wait_ends_when_all_its_keys_are_there() {
        let mut keys = keys(MOST);
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
        keys.leave(C);
        assert!(set(&mut keys, b"w", b"1").is_empty());
        assert!(keys.awaited.is_empty() && keys.waiting_bytes == 0);
    }

    #[test]
    fn the_end_of_a_wait_is_told_before_its_withdrawal_is_confirmed() {
        let mut keys = keys(MOST);
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
        let mut keys = keys(MOST);
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
        let mut keys = keys(3 * (OVERHEAD + 2));
        for key in [b"a", b"b", b"c"] {
            set(&mut keys, key, b"1");
        }
        set(&mut keys, b"a", b"2");
        set(&mut keys, b"d", b"1");
        let room = keys.rooms.values().next().unwrap();
        let left: Vec<&[u8]> = room.entries.keys().map(|key| &**key).collect();
        assert_eq!(left, [b"a", b"c", b"d"], "b was written first");
        assert_eq!(room.ages.len(), 3);
        let many = Request::Wait {
            keys: names(&["p", "q", "r", "s"]),
        };
        assert_eq!(handle(&mut keys, A, many), Err(Malformed::NoRoom));
        assert!(keys.awaited.is_empty() && keys.waiting_bytes == 0);
    }

    #[test]
    fn a_token_opens_the_room_of_one_incarnation_until_some_time_after_its_end() {
        let mut keys = Keys::default();
        let now = Instant::now();
        let (one, other) = (key(1, "k"), key(2, "k"));
        let get = |keys: &mut Keys, client, key: &[u8], now| {
            let got = keys.handle(client, Request::Get { key }, now);
            got.map(|answer| answer.reply.concat())
        };
        keys.begin(&trainer("t"), Some(&Token::new(1)), now);
        keys.begin(&trainer("u"), Some(&Token::new(2)), now);
        for wrong in [&b"/k"[..], b"/init/", &key(3, "k")] {
            assert_eq!(get(&mut keys, A, wrong, now), Err(Malformed::NoToken));
        }
        assert!(!keys.has_entered(A));
        keys.handle(A, one_at(&one), now).unwrap();
        assert!(keys.has_entered(A));
        // Behind its first key a client is in the room, whatever its other keys are.
        keys.handle(A, one_at(b"/bare"), now).unwrap();
        keys.handle(B, one_at(&other), now).unwrap();
        assert_eq!(get(&mut keys, A, b"/bare", now), Ok(text(b"1")));
        assert_eq!(get(&mut keys, B, b"/bare", now), Ok(text(b"")));
        assert_eq!(
            get(&mut keys, B, &one, now),
            Ok(text(b"1")),
            "it knows both"
        );
        let both = vec![&*one, &*other];
        let check = Request::Check { keys: both };
        assert_eq!(keys.handle(A, check, now), Err(Malformed::NoToken));
        // The next incarnation: keys of the one before are there for a while.
        keys.begin(&trainer("t"), Some(&Token::new(4)), now);
        assert_eq!(get(&mut keys, A, &key(4, "k"), now), Ok(text(b"")));
        assert_eq!(get(&mut keys, A, &one, now), Ok(text(b"1")));
        let later = now + LINGER;
        assert_eq!(get(&mut keys, A, &one, later), Err(Malformed::NoToken));
        keys.begin(&trainer("u"), None, later);
        assert_eq!(keys.rooms.len(), 2, "the first room is dropped");
        assert_eq!(get(&mut keys, B, &other, later), Ok(text(b"1")));
        keys.begin(&trainer("u"), None, later + LINGER);
        assert_eq!((keys.rooms.len(), keys.bytes), (1, 0));
        assert_eq!(get(&mut keys, B, &other, later), Err(Malformed::NoToken));
        // A client that has gone is in no room.
        keys.leave(A);
        assert_eq!(get(&mut keys, A, b"/bare", now), Err(Malformed::NoToken));
    }

    #[test]
    fn an_incarnation_with_many_keys_takes_none_of_another() {
        let mut keys = Keys::with_most(8 << 10);
        let now = Instant::now();
        keys.begin(&trainer("t"), Some(&Token::new(1)), now);
        keys.begin(&trainer("u"), Some(&Token::new(2)), now);
        let other = key(2, "k");
        keys.handle(B, one_at(&other), now).unwrap();
        for number in 0..100 {
            let many = key(1, &number.to_string());
            keys.handle(A, one_at(&many), now).unwrap();
        }
        let kept = Request::Check { keys: vec![&other] };
        assert_eq!(ask(&mut keys, B, kept).0, [READY]);
        assert!(keys.bytes <= keys.most);
        // Those of an ended incarnation go first.
        keys.begin(&trainer("u"), None, now);
        let last = key(1, "last");
        keys.handle(A, one_at(&last), now).unwrap();
        let gone = Request::Check { keys: vec![&other] };
        assert_eq!(ask(&mut keys, B, gone).0, [NOT_READY]);
    }
}
