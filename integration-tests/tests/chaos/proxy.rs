//! A network between one process and nats-server that cuts, delays, loses, repeats and swaps.

use std::sync::Arc;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::frames::Frames;

/// The state of the network.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Weather {
    /// The way towards the server is cut.
    pub(super) cut_up: bool,
    /// The way from the server is cut.
    pub(super) cut_down: bool,
    /// The longest delay, milliseconds.
    pub(super) delay_ms: u64,
    /// The share of messages that is lost, sent twice, and overtaken by the next.
    pub(super) lose: f64,
    pub(super) double: f64,
    pub(super) swap: f64,
}

impl Weather {
    fn cuts(&self, up: bool) -> bool {
        if up { self.cut_up } else { self.cut_down }
    }
}

/// The way of one process to nats-server. Ends when it is dropped.
pub(super) struct Proxy {
    pub(super) port: u16,
    weather: watch::Sender<Weather>,
    _tasks: JoinSet<()>,
}

impl Proxy {
    pub(super) async fn start(server: u16, seed: u64) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (weather, seen) = watch::channel(Weather::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut ways = JoinSet::new();
            let mut number = 0;
            while let Ok((near, _)) = listener.accept().await {
                number += 1;
                let socket = TcpSocket::new_v4().unwrap();
                // Small, so that the server notices a receiver that stalls.
                let _ = socket.set_recv_buffer_size(16 << 10);
                let seen = seen.clone();
                ways.spawn(async move {
                    let at = ([127, 0, 0, 1], server).into();
                    let Ok(far) = socket.connect(at).await else {
                        return;
                    };
                    let _ = (near.set_nodelay(true), far.set_nodelay(true));
                    let (near_in, near_out) = near.into_split();
                    let (far_in, far_out) = far.into_split();
                    let rng = |n| ChaCha8Rng::seed_from_u64(seed ^ (number << 8) ^ n);
                    // The end of one side ends the other.
                    tokio::select! {
                        () = carry(near_in, far_out, seen.clone(), true, rng(0)) => {}
                        () = carry(far_in, near_out, seen, false, rng(1)) => {}
                    }
                });
                while ways.try_join_next().is_some() {}
            }
        });
        Self {
            port,
            weather,
            _tasks: tasks,
        }
    }

    pub(super) fn set(&self, weather: Weather) {
        self.weather.send_replace(weather);
    }
}

async fn carry(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut weather: watch::Receiver<Weather>,
    up: bool,
    mut rng: ChaCha8Rng,
) {
    let mut frames = Frames::default();
    let mut held: Option<Vec<u8>> = None;
    let mut buffer = vec![0; 64 << 10];
    loop {
        let now = *weather.borrow_and_update();
        if now.cuts(up) {
            // As in a broken network, sent bytes wait and arrive after the repair.
            if weather.changed().await.is_err() {
                return;
            }
            continue;
        }
        let read = tokio::select! {
            _ = weather.changed() => continue,
            read = from.read(&mut buffer) => Some(read),
            () = tokio::time::sleep(Duration::from_millis(20)), if held.is_some() => None,
        };
        let mut out = Vec::new();
        match read {
            None => out.extend(held.take().unwrap_or_default()),
            Some(Ok(0) | Err(_)) => return,
            Some(Ok(count)) => {
                frames.push(buffer.get(..count).unwrap_or_default());
                while let Some(frame) = frames.next() {
                    let copies = match () {
                        () if !frame.message => 1,
                        () if rng.random_bool(now.lose) => 0,
                        () if rng.random_bool(now.double) => 2,
                        () => 1,
                    };
                    if frame.message && copies == 1 && held.is_none() && rng.random_bool(now.swap) {
                        held = Some(frame.bytes);
                        continue;
                    }
                    for _ in 0..copies {
                        out.extend_from_slice(&frame.bytes);
                    }
                    out.extend(held.take().unwrap_or_default());
                }
            }
        }
        if now.delay_ms > 0 {
            let wait = rng.random_range(now.delay_ms / 2..=now.delay_ms);
            tokio::time::sleep(Duration::from_millis(wait)).await;
        }
        // The network may have become worse meanwhile.
        while weather.borrow_and_update().cuts(up) {
            if weather.changed().await.is_err() {
                return;
            }
        }
        if to.write_all(&out).await.is_err() {
            return;
        }
    }
}

/// The other end of lines that go through the proxy.
#[cfg(test)]
async fn through(weather: Weather, said: &[&str]) -> String {
    let server = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let proxy = Proxy::start(server.local_addr().unwrap().port(), 1).await;
    proxy.set(weather);
    let mut near = tokio::net::TcpStream::connect(("127.0.0.1", proxy.port))
        .await
        .unwrap();
    let (mut far, _) = server.accept().await.unwrap();
    for line in said {
        near.write_all(line.as_bytes()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let heard = Arc::new(tokio::sync::Mutex::new(Vec::new()));
    let into = Arc::clone(&heard);
    let listen = async move {
        let mut part = [0; 256];
        while let Ok(count @ 1..) = far.read(&mut part).await {
            let mut all = into.lock().await;
            all.extend_from_slice(part.get(..count).unwrap_or_default());
        }
    };
    let _ = tokio::time::timeout(Duration::from_millis(300), listen).await;
    let heard = heard.lock().await;
    String::from_utf8_lossy(&heard).replace("\r\n", "|")
}

#[tokio::test]
async fn messages_are_lost_doubled_and_swapped_and_the_rest_is_left_alone() {
    let said = ["PING\r\nPUB a 1\r\nx\r\n", "PUB b 1\r\ny\r\nPONG\r\n"];
    let fair = Weather::default();
    let lossy = Weather { lose: 1.0, ..fair };
    let twice = Weather {
        double: 1.0,
        ..fair
    };
    let swapped = Weather { swap: 1.0, ..fair };
    let cut = Weather {
        cut_up: true,
        ..fair
    };
    let heard = [
        through(fair, &said).await,
        through(lossy, &said).await,
        through(twice, &said).await,
        through(swapped, &said).await,
        through(cut, &said).await,
    ];
    let wanted = [
        "PING|PUB a 1|x|PUB b 1|y|PONG|",
        "PING|PONG|",
        "PING|PUB a 1|x|PUB a 1|x|PUB b 1|y|PUB b 1|y|PONG|",
        "PING|PUB b 1|y|PUB a 1|x|PONG|",
        "",
    ];
    assert_eq!(heard, wanted);
}
