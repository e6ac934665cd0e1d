//! The same messages by NATS alone, on the same server and in the same run: the yardstick of
//! Lacuna.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::jetstream::stream::{Config, PersistenceMode, RetentionPolicy};
use futures::StreamExt as _;
use serde::Serialize;

use lacuna_cli::client::{Client, from_bus};
use lacuna_cli::error::{CliError, Result};
use lacuna_runtime::clock::Stopwatch;

use super::cluster::event;
use super::quantiles::Quantiles;
use super::sustained::Load;

const SUBJECT: &str = "lacuna.bench.plain";
const STREAM: &str = "lacuna_bench_plain";

/// The result of one way of sending.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Plain {
    /// The way of sending.
    pub(crate) what: &'static str,
    /// Messages a second in a burst.
    pub(crate) per_s: f64,
    /// Latency at the steady rate.
    pub(crate) latency: Quantiles,
}

fn bad(error: impl std::fmt::Display) -> CliError {
    CliError::failed(format!("plain NATS: {error}"))
}

/// A payload of the size of an event with its headers.
fn payload() -> Vec<u8> {
    const HEADERS: usize = 190;
    let node = lacuna_model::NodeId::new("n00000");
    let event = node.map_or_else(
        |_| String::new(),
        |node| event("node.idle", &node).to_string(),
    );
    vec![b' '; HEADERS + event.len()]
}

/// Sends at a steady rate: `send` is called for each message.
async fn pace<F: Future<Output = Result<()>>>(
    load: Load,
    mut send: impl FnMut() -> F,
) -> Result<()> {
    let watch = Stopwatch::start();
    let mut ticks = tokio::time::interval(Duration::from_millis(10));
    let (total, mut sent) = (load.seconds * u64::from(load.rate), 0);
    while sent < total {
        ticks.tick().await;
        let due = ((watch.seconds() * f64::from(load.rate)) as u64).min(total);
        while sent < due {
            send().await?;
            sent += 1;
        }
    }
    Ok(())
}

/// Publish/subscribe between two connections, without a stream.
async fn publish_subscribe(client: &Client, burst: u64, load: Load) -> Result<Plain> {
    let address = format!(
        "nats://127.0.0.1:{}",
        client.nats()?.client.server_info().port
    );
    let other = async_nats::connect(address).await.map_err(bad)?;
    let mut received = other.subscribe(SUBJECT).await.map_err(bad)?;
    other.flush().await.map_err(bad)?;
    let sender = &client.nats()?.client;
    let text = payload();
    // The server knows the subscription before the first message comes.
    loop {
        sender
            .publish(SUBJECT, text.clone().into())
            .await
            .map_err(bad)?;
        let soon = tokio::time::timeout(Duration::from_millis(20), received.next());
        if soon.await.is_ok() {
            break;
        }
    }
    while tokio::time::timeout(Duration::from_millis(50), received.next())
        .await
        .is_ok()
    {}
    let watch = Stopwatch::start();
    let all = async {
        for _ in 0..burst {
            received.next().await;
        }
    };
    let send = async {
        for _ in 0..burst {
            sender
                .publish(SUBJECT, text.clone().into())
                .await
                .map_err(bad)?;
        }
        sender.flush().await.map_err(bad)
    };
    let (sent, _) = tokio::join!(send, tokio::time::timeout(Duration::from_secs(60), all));
    sent?;
    let per_s = burst as f64 / watch.seconds();
    let (clock, list) = (Stopwatch::start(), Arc::new(Mutex::new(Vec::new())));
    let seen = Arc::clone(&list);
    let listening = tokio::spawn(async move {
        while let Some(message) = received.next().await {
            let now = clock.seconds();
            if let Some(sent) = message.payload.first_chunk::<8>() {
                let mut list = seen.lock().unwrap_or_else(PoisonError::into_inner);
                list.push(now - f64::from_le_bytes(*sent));
            }
        }
    });
    pace(load, || {
        let mut text = text.clone();
        text.splice(..8, clock.seconds().to_le_bytes());
        async { sender.publish(SUBJECT, text.into()).await.map_err(bad) }
    })
    .await?;
    sender.flush().await.map_err(bad)?;
    tokio::time::sleep(Duration::from_millis(200)).await;
    listening.abort();
    let list = std::mem::take(&mut *list.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(Plain {
        what: "publish/subscribe",
        per_s,
        latency: Quantiles::of("publish/subscribe: publish -> received", list),
    })
}

/// Publishes into a stream, up to the acknowledgement.
async fn into_stream(
    client: &Client,
    burst: u64,
    load: Load,
    (what, latency): (&'static str, &'static str),
    mode: Option<PersistenceMode>,
) -> Result<Plain> {
    let bus = client.bus();
    let config = Config {
        name: STREAM.to_owned(),
        subjects: vec![SUBJECT.to_owned()],
        retention: RetentionPolicy::Limits,
        max_bytes: 64 << 20,
        persist_mode: mode,
        ..Config::default()
    };
    let streams = &client.nats()?.jetstream;
    streams.create_stream(config).await.map_err(bad)?;
    let text = payload();
    let watch = Stopwatch::start();
    let mut acks = tokio::task::JoinSet::new();
    for _ in 0..burst {
        let ack = bus.store_raw(SUBJECT, &[], text.clone()).await;
        let ack = ack.map_err(|e| from_bus(&e))?;
        acks.spawn(async move { ack.wait().await.map(|_| 0.0) });
    }
    while acks.join_next().await.is_some() {}
    let per_s = burst as f64 / watch.seconds();
    let acks = Arc::new(tokio::sync::Mutex::new(acks));
    pace(load, || {
        let (text, acks) = (text.clone(), Arc::clone(&acks));
        async move {
            let watch = Stopwatch::start();
            let ack = bus.store_raw(SUBJECT, &[], text).await;
            let ack = ack.map_err(|e| from_bus(&e))?;
            acks.lock()
                .await
                .spawn(async move { ack.wait().await.map(|_| watch.seconds()) });
            Ok(())
        }
    })
    .await?;
    let mut list = Vec::new();
    while let Some(ack) = acks.lock().await.join_next().await {
        list.extend(ack.ok().and_then(std::result::Result::ok));
    }
    streams.delete_stream(STREAM).await.map_err(bad)?;
    Ok(Plain {
        what,
        per_s,
        latency: Quantiles::of(latency, list),
    })
}

/// Measures all three ways, one after the other.
///
/// # Errors
/// NATS does not answer.
pub(crate) async fn measure(client: &Client, burst: u64, load: Load) -> Result<Vec<Plain>> {
    let synced = (
        "stream, synced",
        "stream, each write synced: publish -> kept",
    );
    let behind = (
        "stream, written behind",
        "stream, written behind: publish -> kept",
    );
    Ok(vec![
        publish_subscribe(client, burst, load).await?,
        into_stream(client, burst, load, synced, None).await?,
        into_stream(client, burst, load, behind, Some(PersistenceMode::Async)).await?,
    ])
}
