//! Until when the certificate of nats-server holds: when it has run out nobody can connect.
//!
//! Users prove themselves by nkeys, so TLS proves the server alone. The time is noted at the first
//! handshake, and by a connection of its own four times a day.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_nats::rustls::client::WebPkiServerVerifier;
use async_nats::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use async_nats::rustls::crypto::{CryptoProvider, ring};
use async_nats::rustls::pki_types::pem::PemObject;
use async_nats::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use async_nats::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use lacuna_model::Timestamp;
use prometheus::{GaugeVec, Registry};

use super::connect::{credentials, servers};
use crate::clock;
use crate::config::BusSettings;
use crate::identity::Identity;
use crate::metrics;

/// Between looks. A connection that stands shows the certificate of its beginning, so each look is
/// a connection of its own.
const EVERY: Duration = Duration::from_secs(6 * 3600);

/// Has no value, and so is absent, until a server has shown a certificate.
pub(super) fn declare(registry: &Registry) -> Result<GaugeVec, prometheus::Error> {
    metrics::gauges(
        registry,
        "lacuna_bus_certificate_seconds",
        "seconds until the end of nats-server's certificate, as of the last six hours",
        &[],
    )
}

/// The first end of the certificates that were shown and trusted, in seconds of Unix time.
#[derive(Debug, Clone)]
pub(super) struct Shown(Arc<AtomicU64>);

impl Default for Shown {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(u64::MAX)))
    }
}

impl Shown {
    fn end(&self) -> Option<Timestamp> {
        let seconds = i64::try_from(self.0.load(Ordering::Relaxed)).ok()?;
        Some(Timestamp::from_unix(seconds))
    }
}

/// Trusts whom the authority vouches for, and nobody else; notes until when.
#[derive(Debug)]
struct Noting {
    trusted: Arc<WebPkiServerVerifier>,
    shown: Shown,
}

impl Noting {
    fn new(ca: &str, shown: &Shown, provider: Arc<CryptoProvider>) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(ca.as_bytes()) {
            let certificate = certificate.map_err(|e| e.to_string())?;
            roots.add(certificate).map_err(|e| e.to_string())?;
        }
        if roots.is_empty() {
            return Err("no certificate in it".to_owned());
        }
        let trusted = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        Ok(Self {
            trusted: trusted.build().map_err(|e| e.to_string())?,
            shown: shown.clone(),
        })
    }
}

impl ServerCertVerifier for Noting {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let at = |now| {
            self.trusted
                .verify_server_cert(certificate, between, name, ocsp, now)
        };
        let verified = at(now)?;
        // What is good now has run out at the end of time, and the refusal says since when.
        let end = at(UnixTime::since_unix_epoch(Duration::MAX));
        if let Err(Error::InvalidCertificate(CertificateError::ExpiredContext {
            not_after, ..
        })) = end
        {
            let end = not_after.as_secs();
            self.shown.0.fetch_min(end, Ordering::Relaxed);
        }
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.trusted
            .verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.trusted
            .verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.trusted.supported_verify_schemes()
    }
}

/// Encryption by which only servers are trusted that this authority vouches for.
pub(super) fn trusting(ca: &str, shown: &Shown) -> Result<ClientConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let noting = Noting::new(ca, shown, provider.clone())?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(noting));
    Ok(config.with_no_client_auth())
}

/// Exports how long the certificate that was shown still holds, and looks again for ever. Does
/// nothing if none was shown.
pub(super) fn watch(
    settings: BusSettings,
    identity: Option<Identity>,
    shown: &Shown,
    gauge: GaugeVec,
) {
    let Some(mut end) = shown.end() else {
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
            end = look(&settings, identity.as_ref()).await.unwrap_or(end);
            export(end);
        }
    });
}

/// The first end of the certificates that the servers show now; nothing if none can be reached.
async fn look(settings: &BusSettings, identity: Option<&Identity>) -> Option<Timestamp> {
    let shown = Shown::default();
    let options = credentials(settings, identity, &shown).await.ok()?;
    let options = options
        .name("lacuna-certificate")
        .connection_timeout(Duration::from_secs(5));
    for server in servers(&settings.url).ok()? {
        if let Err(error) = options.clone().connect(server).await {
            tracing::debug!(%error, "the certificate of nats-server cannot be looked at");
        }
    }
    shown.end()
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, Certificate, CertificateParams, IsCa, Issuer, KeyPair};

    use super::*;

    /// 2030-01-01 and 2031-01-01.
    const ENDS: [u64; 2] = [1_893_456_000, 1_924_992_000];

    struct Authority {
        pem: String,
        issuer: Issuer<'static, KeyPair>,
    }

    impl Authority {
        fn new() -> Self {
            let mut params = CertificateParams::default();
            params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
            let key = KeyPair::generate().unwrap();
            let pem = params.self_signed(&key).unwrap().pem();
            let issuer = Issuer::new(params, key);
            Self { pem, issuer }
        }

        /// A server's certificate until the first of January.
        fn vouch(&self, year: i32) -> Certificate {
            let mut params = CertificateParams::new(vec!["bus".to_owned()]).unwrap();
            params.not_after = rcgen::date_time_ymd(year, 1, 1);
            let key = KeyPair::generate().unwrap();
            params.signed_by(&key, &self.issuer).unwrap()
        }
    }

    /// What is noted when a server shows these certificates at a second, and whether each is
    /// trusted.
    fn noted(
        ca: &str,
        name: &str,
        now: u64,
        certificates: &[Certificate],
    ) -> (Vec<bool>, Option<Timestamp>) {
        let shown = Shown::default();
        let provider = Arc::new(ring::default_provider());
        let noting = Noting::new(ca, &shown, provider).unwrap();
        let (name, now) = (
            ServerName::try_from(name.to_owned()).unwrap(),
            UnixTime::since_unix_epoch(Duration::from_secs(now)),
        );
        let verified = certificates.iter().map(|certificate| {
            noting
                .verify_server_cert(certificate.der(), &[], &name, &[], now)
                .is_ok()
        });
        (verified.collect(), shown.end())
    }

    #[test]
    fn the_first_end_of_what_is_trusted_is_noted_and_nothing_else() {
        let (ours, theirs) = (Authority::new(), Authority::new());
        let at = |seconds: u64| Some(Timestamp::from_unix(seconds.cast_signed()));
        let both = [ours.vouch(2031), ours.vouch(2030)];
        let [first, second] = ENDS;
        let (trusted, end) = noted(&ours.pem, "bus", first - 1, &both);
        assert_eq!((trusted, end), (vec![true, true], at(first)));
        let (trusted, end) = noted(&ours.pem, "bus", first + 1, &both);
        assert_eq!((trusted, end), (vec![true, false], at(second)));
        let (trusted, end) = noted(&theirs.pem, "bus", first - 1, &both);
        assert_eq!((trusted, end), (vec![false, false], None));
        let (trusted, end) = noted(&ours.pem, "other", first - 1, &both);
        assert_eq!((trusted, end), (vec![false, false], None));
    }

    #[test]
    fn an_authority_without_a_certificate_is_refused() {
        let refused = trusting("", &Shown::default()).map(|_| ());
        assert_eq!(refused, Err("no certificate in it".to_owned()));
    }
}
