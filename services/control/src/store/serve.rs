//! The connections of the store.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufWriter};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::keys::{Answer, Client, Keys, Part};
use super::protocol::{Malformed, Request, STOP_WAITING, opening, parse};

/// Most connections. PyTorch 1.13 opens two for each member.
const CONNECTIONS: usize = 16_384;
/// Bytes of a request that any connection may hold, and the number of connections that may hold a
/// longer one at a time.
const SMALL: usize = 8 << 10;
const LARGE: usize = 8;
/// Longest time between the first byte of a request and its last.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves the store on a thread of its own, until `stop`.
///
/// # Errors
/// If the thread cannot be started.
pub(super) fn run(listener: std::net::TcpListener, stop: CancellationToken) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let serve = async move {
        match TcpListener::from_std(listener) {
            Ok(listener) => tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = accept(listener) => {}
            },
            Err(error) => tracing::error!(%error, "the store of members is not served"),
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
}

/// The store, as its connections share it.
#[derive(Debug)]
struct Store {
    state: Mutex<State>,
    large: Arc<Semaphore>,
}

impl Store {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn join(&self, client: Client) -> Arc<Notify> {
        let signal = Arc::new(Notify::new());
        self.state().signals.insert(client, Arc::clone(&signal));
        signal
    }

    fn leave(&self, client: Client) {
        let mut state = self.state();
        state.signals.remove(&client);
        state.keys.forget(client);
    }

    fn take_stopped(&self, client: Client) -> bool {
        self.state().keys.take_stopped(client)
    }

    fn handle(&self, client: Client, request: Request<'_>) -> Result<Vec<Part>, Malformed> {
        let mut state = self.state();
        let Answer { reply, woken } = state.keys.handle(client, request)?;
        for client in &woken {
            if let Some(signal) = state.signals.get(client) {
                signal.notify_one();
            }
        }
        Ok(reply)
    }
}

async fn accept(listener: TcpListener) {
    let store = Arc::new(Store {
        state: Mutex::default(),
        large: Arc::new(Semaphore::new(LARGE)),
    });
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let mut last = 0;
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a member's connection to the store is not accepted");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        last += 1;
        let (store, client) = (Arc::clone(&store), Client(last));
        tokio::spawn(async move {
            let signal = store.join(client);
            let ended = converse(stream, &store, client, &signal).await;
            store.leave(client);
            // A member that is killed resets its connection.
            if let Err(error) = ended {
                tracing::debug!(%peer, %error, "a connection to the store has ended");
            }
            drop(place);
        });
    }
}

/// Answers the requests of one connection in their order.
async fn converse(
    stream: TcpStream,
    store: &Store,
    client: Client,
    signal: &Notify,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut read, write) = stream.into_split();
    let mut write = BufWriter::new(write);
    let mut buffer: Vec<u8> = Vec::with_capacity(SMALL);
    let mut large: Option<OwnedSemaphorePermit> = None;
    let mut dialect = None;
    // When the request began that is not complete.
    let mut begun: Option<Instant> = None;
    loop {
        if buffer.len() == buffer.capacity() {
            if large.is_none() {
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
            () = late(begun) => return Err(io::ErrorKind::TimedOut.into()),
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
                    let Some((request, length)) = parse(speaks, rest).map_err(invalid)? else {
                        break;
                    };
                    let reply = store.handle(client, request).map_err(invalid)?;
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

fn invalid(why: Malformed) -> io::Error {
    tracing::warn!(%why, "a connection to the store is closed");
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::store::protocol::LONGEST;

    async fn store() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        tokio::spawn(accept(listener));
        at
    }

    async fn said(stream: &mut TcpStream, bytes: usize) -> Vec<u8> {
        let mut read = vec![0; bytes];
        let whole = tokio::time::timeout(PATIENCE, stream.read_exact(&mut read));
        whole.await.unwrap().unwrap();
        read
    }

    fn text(of: &str) -> Vec<u8> {
        let length = (of.len() as u64).to_le_bytes();
        [length.as_slice(), of.as_bytes()].concat()
    }

    #[tokio::test]
    async fn members_of_any_version_meet() {
        let at = store().await;
        let mut early = TcpStream::connect(at).await.unwrap();
        let mut newer = TcpStream::connect(at).await.unwrap();
        let hello = [0, 0xCE, 0xF7, 0x85, 0x3C, 13, 1, 2, 3, 4];
        newer.write_all(&hello).await.unwrap();
        assert_eq!(said(&mut newer, 4).await, [1, 2, 3, 4]);
        let one = 1_u64.to_le_bytes();
        let wait = [[6_u8].as_slice(), &one, &text("k")].concat();
        newer.write_all(&wait).await.unwrap();
        // A request may come in pieces.
        let set = [[0_u8].as_slice(), &text("k"), &text("1")].concat();
        for byte in set {
            early.write_all(&[byte]).await.unwrap();
        }
        assert_eq!(said(&mut newer, 1).await, [STOP_WAITING]);
        newer
            .write_all(&[[3_u8].as_slice(), &text("k")].concat())
            .await
            .unwrap();
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
        assert_eq!(early.read(&mut [0; 1]).await.unwrap(), 0);
        newer.write_all(&[7]).await.unwrap();
        assert_eq!(said(&mut newer, 8).await, 2_u64.to_le_bytes());
        let huge = (LONGEST as u64 + 1).to_le_bytes();
        newer
            .write_all(&[[3_u8].as_slice(), &huge].concat())
            .await
            .unwrap();
        assert_eq!(newer.read(&mut [0; 1]).await.unwrap(), 0);
    }
}
