//! Round trips by plain NATS on this machine: publish, echo by another connection, answer.

use std::time::Duration;

use futures::StreamExt as _;

use lacuna_cli::client::Client;
use lacuna_cli::error::{CliError, Result};
use lacuna_runtime::clock::Stopwatch;

use super::quantiles::Quantiles;

const SUBJECT: &str = "lacuna.bench.echo";

/// Measures round trips of a small message, one at a time, between two connections.
///
/// # Errors
/// NATS does not answer.
pub(crate) async fn measure(client: &Client, samples: u32) -> Result<Quantiles> {
    let bad = |e: String| CliError::failed(format!("echo: {e}"));
    let nats = &client.nats()?.client;
    let url = nats.server_info();
    let address = format!("nats://127.0.0.1:{}", url.port);
    let other = async_nats::connect(address)
        .await
        .map_err(|e| bad(e.to_string()))?;
    let mut asked = other
        .subscribe(SUBJECT)
        .await
        .map_err(|e| bad(e.to_string()))?;
    other.flush().await.map_err(|e| bad(e.to_string()))?;
    let answering = tokio::spawn(async move {
        while let Some(message) = asked.next().await {
            if let Some(reply) = message.reply {
                let _ = other.publish(reply, message.payload).await;
            }
        }
    });
    let payload = vec![0u8; 200];
    let ask = || nats.request(SUBJECT, payload.clone().into());
    // A flush does not prove that the server has read the other connection's subscription.
    let mut answer = ask().await;
    for _ in 0..50 {
        if answer.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        answer = ask().await;
    }
    answer.map_err(|e| bad(e.to_string()))?;
    let mut list = Vec::with_capacity(samples as usize);
    for _ in 0..samples {
        let watch = Stopwatch::start();
        ask().await.map_err(|e| bad(e.to_string()))?;
        list.push(watch.seconds());
    }
    answering.abort();
    Ok(Quantiles::of("plain NATS echo", list))
}
