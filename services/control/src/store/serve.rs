//! The connections of the store.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lacuna_model::{Span, Token, TrainerId};
use lacuna_runtime::HealthCheck;
use prometheus::IntCounter;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufWriter};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::keys::{Answer, Client, Keys, Part};
use super::protocol::{Malformed, Request, STOP_WAITING, opening, parse};

/// Most connections. PyTorch 1.13 opens two for each member.
const CONNECTIONS: usize = 16_384;
/// Open files that control needs beside the store, at least.
const LEAST_FILES: u64 = 256;
/// Bytes of a request that any connection may hold, and the number of connections that may hold a
/// longer one at a time.
const SMALL: usize = 8 << 10;
const LARGE: usize = 8;
/// Most connections of one address that have shown no token, beyond those that have: PyTorch opens a
/// second one that may never say anything.
const SILENT: u32 = 256;
/// Longest time between the first byte of a request and its last, and until a connection shows a token
/// that is not the second one of a member.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);
/// Least time between two log lines about closed connections.
const QUIET: Duration = Duration::from_secs(10);
/// Time between two signs of life, and the longest that counts as one.
const BEAT: Duration = Duration::from_secs(5);
pub(super) const STILL: Span = Span::from_secs(30);

/// Lets this process have as many open files as it needs, if the system allows them. Gives the number of
/// connections for which half of them are enough: the other half is for the bus, commands and pages.
///
/// # Errors
/// If the limit is below what control needs.
pub(super) fn places() -> io::Result<usize> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (mut soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    // The scheduler's commands inherit the limit. Some close each file that they may have.
    let enough = hard.min(2 * CONNECTIONS as u64);
    if soft < enough && setrlimit(Resource::RLIMIT_NOFILE, enough, hard).is_ok() {
        soft = enough;
    }
    if soft < 2 * LEAST_FILES {
        let reason = format!(
            "this process may have {soft} open files, and needs {}: raise LimitNOFILE= of its unit, or \
             `ulimit -n`",
            2 * LEAST_FILES
        );
        return Err(io::Error::other(reason));
    }
    let places = usize::try_from(soft / 2).unwrap_or(CONNECTIONS);
    if places < CONNECTIONS {
        tracing::warn!(
            files = soft,
            connections = places,
            most = CONNECTIONS,
            "few open files are allowed: members of large trainers may not meet (LimitNOFILE=)"
        );
    }
    Ok(places.min(CONNECTIONS))
}

/// Serves the store on a thread of its own, until `stop`.
///
/// # Errors
/// If the thread cannot be started.
pub(super) fn run(
    listener: std::net::TcpListener,
    store: Arc<Shared>,
    (places, alive): (usize, HealthCheck),
    stop: CancellationToken,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let serve = async move {
        match TcpListener::from_std(listener) {
            Ok(listener) => tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = accept(listener, store, places, &alive) => {}
            },
            Err(error) => {
                tracing::error!(%error, "the store of members is not served");
                alive.fail(error.to_string());
            }
        }
    };
    std::thread::Builder::new()
        .name("store".to_owned())
        .spawn(move || runtime.block_on(serve))?;
    Ok(())
}

/// The keys, and the signal of each connection that its wait may have ended.
#[derive(Debug, Default)]
struct State {
    keys: Keys,
    signals: BTreeMap<Client, Arc<Notify>>,
    /// When the log last had a line about a closed connection, and how many were closed since.
    logged: Option<Instant>,
    closed: u64,
}

/// The connections of one address.
#[derive(Debug, Default)]
struct Peers {
    /// Those that have shown a token.
    entered: u32,
    /// Those that have not.
    silent: u32,
}

/// A connection among those of its address.
struct Peer<'s> {
    store: &'s Shared,
    address: IpAddr,
    has_entered: bool,
}

impl<'s> Peer<'s> {
    /// Nothing if too many of the address's connections have shown no token.
    fn new(store: &'s Shared, address: IpAddr) -> Option<Self> {
        let mut all = store.peers();
        let peers = all.entry(address).or_default();
        if peers.silent >= SILENT.saturating_add(peers.entered) {
            return None;
        }
        peers.silent += 1;
        Some(Self {
            store,
            address,
            has_entered: false,
        })
    }

    /// Whether it has shown no token, and more of its address have not than have.
    fn is_stray(&self) -> bool {
        let all = self.store.peers();
        let peers = all.get(&self.address);
        !self.has_entered && peers.is_some_and(|peers| peers.silent > peers.entered)
    }

    /// It has shown a token.
    fn enter(&mut self) {
        if !std::mem::replace(&mut self.has_entered, true)
            && let Some(peers) = self.store.peers().get_mut(&self.address)
        {
            peers.silent = peers.silent.saturating_sub(1);
            peers.entered = peers.entered.saturating_add(1);
        }
    }
}

impl Drop for Peer<'_> {
    fn drop(&mut self) {
        let mut all = self.store.peers();
        if let Some(peers) = all.get_mut(&self.address) {
            let count = if self.has_entered {
                &mut peers.entered
            } else {
                &mut peers.silent
            };
            *count = count.saturating_sub(1);
            if (peers.entered, peers.silent) == (0, 0) {
                all.remove(&self.address);
            }
        }
    }
}

/// The store, as its connections and control share it.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    large: Arc<Semaphore>,
    peers: Mutex<BTreeMap<IpAddr, Peers>>,
    /// Connections that were closed: without a token, or with what is no request.
    refused: IntCounter,
}

impl Shared {
    pub(super) fn new(refused: IntCounter) -> Self {
        Self {
            state: Mutex::default(),
            large: Arc::new(Semaphore::new(LARGE)),
            peers: Mutex::default(),
            refused,
        }
    }

    /// See [`Keys::begin`].
    pub(super) fn begin(&self, trainer: &TrainerId, token: Option<&Token>) {
        self.state().keys.begin(trainer, token, Instant::now());
    }

    /// Counts and logs a connection that is closed. Keys may hold tokens, so none is logged.
    fn refuse(&self, peer: SocketAddr, why: Malformed) {
        self.refused.inc();
        let mut state = self.state();
        state.closed += 1;
        if state.logged.is_none_or(|logged| logged.elapsed() >= QUIET) {
            tracing::warn!(%peer, %why, closed = state.closed, "a connection to the store is closed");
            state.logged = Some(Instant::now());
            state.closed = 0;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn peers(&self) -> MutexGuard<'_, BTreeMap<IpAddr, Peers>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn join(&self, client: Client) -> Arc<Notify> {
        let signal = Arc::new(Notify::new());
        self.state().signals.insert(client, Arc::clone(&signal));
        signal
    }

    fn leave(&self, client: Client) {
        let mut state = self.state();
        state.signals.remove(&client);
        state.keys.leave(client);
    }

    fn has_entered(&self, client: Client) -> bool {
        self.state().keys.has_entered(client)
    }

    fn take_stopped(&self, client: Client) -> bool {
        self.state().keys.take_stopped(client)
    }

    fn handle(&self, client: Client, request: Request<'_>) -> Result<Vec<Part>, Malformed> {
        let mut state = self.state();
        let Answer { reply, woken } = state.keys.handle(client, request, Instant::now())?;
        for client in &woken {
            if let Some(signal) = state.signals.get(client) {
                signal.notify_one();
            }
        }
        Ok(reply)
    }
}

async fn accept(listener: TcpListener, store: Arc<Shared>, most: usize, alive: &HealthCheck) {
    let places = Arc::new(Semaphore::new(most));
    let mut beat = tokio::time::interval(BEAT);
    let mut failed = false;
    let mut last = 0;
    loop {
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await;
            Ok::<_, io::Error>((place.map_err(io::Error::other)?, listener.accept().await?))
        };
        let accepted = tokio::select! {
            biased;
            _ = beat.tick() => {
                if places.available_permits() == 0 {
                    alive.fail(format!("all {most} connections are taken"));
                } else if !failed {
                    alive.ok();
                }
                failed = false;
                continue;
            }
            accepted = next => accepted,
        };
        let (place, (mut stream, peer)) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a member's connection to the store is not accepted");
                alive.fail(error.to_string());
                failed = true;
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        last += 1;
        let (store, client) = (Arc::clone(&store), Client(last));
        tokio::spawn(async move {
            let Some(mut own) = Peer::new(&store, peer.ip()) else {
                store.refuse(peer, Malformed::NoToken);
                return;
            };
            let signal = store.join(client);
            let ended = converse(&mut stream, &store, (client, &mut own), &signal).await;
            store.leave(client);
            drop(own);
            match ended {
                Ok(()) => {}
                Err(End::Refused(why)) => store.refuse(peer, why),
                // A member that is killed resets its connection.
                Err(End::Lost(error)) => {
                    tracing::debug!(%peer, %error, "a connection to the store has ended");
                }
            }
            // Behind the count: a peer that sees the end sees that too.
            drop(stream);
            drop(place);
        });
    }
}

/// Why a connection has ended, if its peer has not closed it.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error(transparent)]
    Refused(#[from] Malformed),
    #[error(transparent)]
    Lost(#[from] io::Error),
}

/// Answers the requests of one connection in their order.
async fn converse(
    stream: &mut TcpStream,
    store: &Shared,
    (client, own): (Client, &mut Peer<'_>),
    signal: &Notify,
) -> Result<(), End> {
    stream.set_nodelay(true)?;
    let (mut read, write) = stream.split();
    let mut write = BufWriter::new(write);
    let mut buffer: Vec<u8> = Vec::with_capacity(SMALL);
    let mut large: Option<OwnedSemaphorePermit> = None;
    let mut dialect = None;
    // When the request began that is not complete.
    let mut begun: Option<Instant> = None;
    let mut look = tokio::time::interval_at(Instant::now() + PATIENCE, PATIENCE);
    loop {
        if buffer.len() == buffer.capacity() {
            if large.is_none() {
                // The first request of a member is short.
                if !store.has_entered(client) {
                    return Err(Malformed::NoToken.into());
                }
                let permit = Arc::clone(&store.large).acquire_owned().await;
                large = Some(permit.map_err(io::Error::other)?);
            }
            buffer.reserve(buffer.len());
        }
        tokio::select! {
            biased;
            () = signal.notified() => {
                if store.take_stopped(client) {
                    write.write_all(&[STOP_WAITING]).await?;
                }
            }
            () = late(begun) => return Err(io::Error::from(io::ErrorKind::TimedOut).into()),
            _ = look.tick(), if !own.has_entered => if own.is_stray() {
                return Err(Malformed::NoToken.into());
            },
            more = read.read_buf(&mut buffer) => {
                if more? == 0 {
                    return Ok(());
                }
                let mut used = 0;
                loop {
                    let rest = buffer.get(used..).unwrap_or_default();
                    let Some(speaks) = dialect else {
                        let Some((found, length)) = opening(rest) else {
                            break;
                        };
                        dialect = Some(found);
                        used += length;
                        continue;
                    };
                    let Some((request, length)) = parse(speaks, rest)? else {
                        break;
                    };
                    let reply = store.handle(client, request)?;
                    if store.has_entered(client) {
                        own.enter();
                    }
                    used += length;
                    for part in reply {
                        write.write_all(&part).await?;
                    }
                }
                buffer.drain(..used);
                begun = match begun {
                    _ if buffer.is_empty() => None,
                    Some(begun) if used == 0 => Some(begun),
                    _ => Some(Instant::now()),
                };
                if buffer.len() < SMALL {
                    large = None;
                    buffer.shrink_to(SMALL);
                }
            }
        }
        write.flush().await?;
    }
}

/// Returns when a request that began then has taken too long.
async fn late(begun: Option<Instant>) {
    match begun {
        Some(begun) => tokio::time::sleep_until(begun + PATIENCE).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use lacuna_runtime::Health;

    use super::*;
    use crate::store::keys::LINGER;
    use crate::store::protocol::LONGEST;

    async fn store(tokens: &[Token]) -> (SocketAddr, Arc<Shared>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let refused = IntCounter::new("refused", "refused").unwrap();
        let store = Arc::new(Shared::new(refused));
        for (number, token) in tokens.iter().enumerate() {
            let trainer = TrainerId::new(format!("t{number}")).unwrap();
            store.begin(&trainer, Some(token));
        }
        let shared = Arc::clone(&store);
        let alive = Health::default().check("store", Some(STILL));
        tokio::spawn(async move { accept(listener, shared, CONNECTIONS, &alive).await });
        (at, store)
    }

    async fn said(stream: &mut TcpStream, bytes: usize) -> Vec<u8> {
        let mut read = vec![0; bytes];
        let whole = tokio::time::timeout(PATIENCE, stream.read_exact(&mut read));
        whole.await.unwrap().unwrap();
        read
    }

    #[tokio::test]
    async fn an_address_has_few_connections_that_say_nothing() {
        let (at, _store) = store(&[]).await;
        let mut silent = Vec::new();
        for _ in 0..SILENT {
            silent.push(TcpStream::connect(at).await.unwrap());
        }
        let mut further = TcpStream::connect(at).await.unwrap();
        assert!(is_closed(&mut further).await);
        // One that ends leaves its place.
        silent.pop();
        tokio::time::sleep(Duration::from_millis(100)).await;
        let mut next = TcpStream::connect(at).await.unwrap();
        let read = tokio::time::timeout(Duration::from_millis(300), next.read(&mut [0; 1])).await;
        assert!(read.is_err(), "{read:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_a_token_ends_unless_it_is_the_second_of_a_member() {
        let (at, _store) = store(&[Token::new(1)]).await;
        let mut stray = TcpStream::connect(at).await.unwrap();
        assert_eq!(stray.read(&mut [0; 1]).await.unwrap(), 0);
        let mut member = TcpStream::connect(at).await.unwrap();
        let get = text(&format!("/{}/k", Token::new(1).reveal()));
        member
            .write_all(&[[2_u8].as_slice(), &get].concat())
            .await
            .unwrap();
        assert_eq!(member.read_u64_le().await.unwrap(), 0);
        let mut second = TcpStream::connect(at).await.unwrap();
        let an_hour = Duration::from_secs(3600);
        let read = tokio::time::timeout(an_hour, second.read(&mut [0; 1])).await;
        assert!(read.is_err(), "{read:?}");
        let mut third = TcpStream::connect(at).await.unwrap();
        let (mut one, mut other) = ([0; 1], [0; 1]);
        let ends = async {
            tokio::select! {
                read = second.read(&mut one) => read,
                read = third.read(&mut other) => read,
            }
        };
        assert_eq!(ends.await.unwrap(), 0);
    }

    /// Whether the store has closed the connection, without an answer.
    async fn is_closed(stream: &mut TcpStream) -> bool {
        let read = tokio::time::timeout(PATIENCE, stream.read(&mut [0; 1])).await;
        // What was sent and not read resets it.
        !matches!(read.unwrap(), Ok(1))
    }

    fn text(of: &str) -> Vec<u8> {
        let length = (of.len() as u64).to_le_bytes();
        [length.as_slice(), of.as_bytes()].concat()
    }

    #[tokio::test]
    async fn members_of_any_version_meet() {
        let (at, store) = store(&[Token::new(1)]).await;
        let key = format!("/{}/k", Token::new(1).reveal());
        let mut early = TcpStream::connect(at).await.unwrap();
        let mut newer = TcpStream::connect(at).await.unwrap();
        let hello = [0, 0xCE, 0xF7, 0x85, 0x3C, 13, 1, 2, 3, 4];
        newer.write_all(&hello).await.unwrap();
        assert_eq!(said(&mut newer, 4).await, [1, 2, 3, 4]);
        let one = 1_u64.to_le_bytes();
        let wait = [[6_u8].as_slice(), &one, &text(&key)].concat();
        newer.write_all(&wait).await.unwrap();
        // A request may come in pieces.
        let set = [[0_u8].as_slice(), &text(&key), &text("1")].concat();
        for byte in set {
            early.write_all(&[byte]).await.unwrap();
        }
        assert_eq!(said(&mut newer, 1).await, [STOP_WAITING]);
        let get = [[3_u8].as_slice(), &text(&key)].concat();
        newer.write_all(&get).await.unwrap();
        assert_eq!(said(&mut newer, 9).await, text("1"));
        // A long value, with the next request behind it.
        let long = "x".repeat(1 << 20);
        let both = [
            [1_u8].as_slice(),
            &text("long"),
            &text(&long),
            &[3],
            &text("long"),
        ]
        .concat();
        newer.write_all(&both).await.unwrap();
        assert_eq!(said(&mut newer, long.len() + 8).await, text(&long));
        // What is no request ends its own connection alone.
        early.write_all(&[7]).await.unwrap();
        assert!(is_closed(&mut early).await);
        newer.write_all(&get).await.unwrap();
        assert_eq!(said(&mut newer, 9).await, text("1"));
        let huge = (LONGEST as u64 + 1).to_le_bytes();
        newer
            .write_all(&[[3_u8].as_slice(), &huge].concat())
            .await
            .unwrap();
        assert!(is_closed(&mut newer).await);
        assert_eq!(store.refused.get(), 2);
    }

    #[tokio::test]
    async fn who_shows_no_token_of_a_present_incarnation_is_refused_and_counted() {
        let (at, store) = store(&[Token::new(1), Token::new(2)]).await;
        let key = |number| format!("/{}/k", Token::new(number).reveal());
        let rendezvous = format!("/torch.rendezvous.{}", Token::new(3).reveal());
        let mut secret = TcpStream::connect(at).await.unwrap();
        let set = [[0_u8].as_slice(), &text(&key(1)), &text("secret")].concat();
        secret.write_all(&set).await.unwrap();
        let get = |key: &str| [[2_u8].as_slice(), &text(key)].concat();
        secret.write_all(&get(&key(1))).await.unwrap();
        assert_eq!(said(&mut secret, 14).await, text("secret"));
        let listed = [0, 0xCE, 0xF7, 0x85, 0x3C, 17];
        let long = [[0_u8].as_slice(), &text("k"), &text(&"x".repeat(SMALL))].concat();
        let two = 2_u64.to_le_bytes();
        let both = [[4_u8].as_slice(), &two, &text(&key(2)), &text(&key(1))].concat();
        let refused = [
            get("/k"),
            get("/init/"),
            get(&key(3)),
            get(&rendezvous),
            [[0_u8].as_slice(), &text(&key(3)), &text("1")].concat(),
            // The number of keys, their list, a request that takes memory, and two rooms at once.
            vec![6],
            listed.to_vec(),
            long,
            both,
        ];
        for (count, request) in (1..).zip(&refused) {
            let mut stranger = TcpStream::connect(at).await.unwrap();
            stranger.write_all(request).await.unwrap();
            assert!(is_closed(&mut stranger).await, "request {count}");
            assert_eq!(store.refused.get(), count);
        }
        // A token of another trainer opens no room but its own.
        let mut other = TcpStream::connect(at).await.unwrap();
        other.write_all(&get(&key(2))).await.unwrap();
        assert_eq!(said(&mut other, 8).await, text(""));
        assert_eq!(store.refused.get(), refused.len() as u64);
    }

    #[tokio::test]
    async fn the_token_of_an_ended_incarnation_is_refused() {
        let (at, store) = store(&[Token::new(1)]).await;
        let get = |number| {
            let key = format!("/{}/k", Token::new(number).reveal());
            [[2_u8].as_slice(), &text(&key)].concat()
        };
        let mut member = TcpStream::connect(at).await.unwrap();
        member.write_all(&get(1)).await.unwrap();
        assert_eq!(said(&mut member, 8).await, text(""));
        let ended = Instant::now().checked_sub(LINGER).unwrap();
        let trainer = TrainerId::new("t0").unwrap();
        let next = Token::new(2);
        store.state().keys.begin(&trainer, Some(&next), ended);
        member.write_all(&get(2)).await.unwrap();
        assert_eq!(said(&mut member, 8).await, text(""));
        assert_eq!(store.refused.get(), 0);
        member.write_all(&get(1)).await.unwrap();
        assert!(is_closed(&mut member).await);
        assert_eq!(store.refused.get(), 1);
    }
}
