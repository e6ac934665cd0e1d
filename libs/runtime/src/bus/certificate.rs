//! The metric of the expiry of nats-server's certificate. With an expired certificate no connection
//! is possible.
//!
//! The expiry is read at the first handshake, and through a separate connection four times a day.

use std::time::Duration;

use lacuna_model::Timestamp;
use prometheus::GaugeVec;

use super::credentials::{credentials, servers};
use super::tls::Expiry;
use crate::clock;
use crate::config::BusSettings;
use crate::identity::Identity;

/// Between checks. An established connection shows the certificate of its beginning, so each check
/// opens a connection of its own.
const EVERY: Duration = Duration::from_secs(6 * 3600);

/// Exports the seconds until the certificate expires, and checks again every six hours. Does
/// nothing if no certificate was presented.
pub(super) fn watch(
    settings: BusSettings,
    identity: Option<Identity>,
    expiry: &Expiry,
    gauge: GaugeVec,
) {
    let Some(mut end) = expiry.get() else {
        return;
    };
    let export = move |end: Timestamp| {
        let left = end.since(clock::wall()).as_secs_f64().floor();
        gauge.with_label_values::<&str>(&[]).set(left);
    };
    export(end);
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(EVERY).await;
            end = check(&settings, identity.as_ref()).await.unwrap_or(end);
            export(end);
        }
    });
}

/// The earliest expiry of the certificates that the servers present now; nothing if no server can
/// be reached.
async fn check(settings: &BusSettings, identity: Option<&Identity>) -> Option<Timestamp> {
    let expiry = Expiry::default();
    let options = credentials(settings, identity, &expiry).await.ok()?;
    let options = options
        .name("lacuna-certificate")
        .connection_timeout(Duration::from_secs(5));
    for server in servers(&settings.url).ok()? {
        if let Err(error) = options.clone().connect(server).await {
            tracing::debug!(%error, "the certificate of nats-server cannot be read");
        }
    }
    expiry.get()
}
