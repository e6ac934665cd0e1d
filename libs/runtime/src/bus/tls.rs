//! TLS to nats-server. Users prove themselves by nkeys, so TLS proves the server alone.
//!
//! The verifier notes when the certificates that it trusts expire.

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

/// The earliest expiry of the certificates that were presented and trusted, in seconds of Unix
/// time.
#[derive(Debug, Clone)]
pub(super) struct Expiry(Arc<AtomicU64>);

impl Default for Expiry {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(u64::MAX)))
    }
}

impl Expiry {
    /// The expiry; nothing until a server has presented a certificate.
    pub(super) fn get(&self) -> Option<Timestamp> {
        let seconds = i64::try_from(self.0.load(Ordering::Relaxed)).ok()?;
        Some(Timestamp::from_unix(seconds))
    }
}

/// Trusts the certificates that the authority has signed, and no others. Notes their expiry.
#[derive(Debug)]
struct NotingVerifier {
    trusted: Arc<WebPkiServerVerifier>,
    expiry: Expiry,
}

impl NotingVerifier {
    fn new(ca: &str, expiry: &Expiry, provider: Arc<CryptoProvider>) -> Result<Self, String> {
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
            expiry: expiry.clone(),
        })
    }
}

impl ServerCertVerifier for NotingVerifier {
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
        // A valid certificate has expired at the end of time; that refusal names the expiry.
        let end = at(UnixTime::since_unix_epoch(Duration::MAX));
        if let Err(Error::InvalidCertificate(CertificateError::ExpiredContext {
            not_after, ..
        })) = end
        {
            let end = not_after.as_secs();
            self.expiry.0.fetch_min(end, Ordering::Relaxed);
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

/// A TLS configuration that trusts only servers with a certificate of this authority (PEM).
///
/// # Errors
/// The reason why the authority cannot be used.
pub(super) fn trusting(ca: &str, expiry: &Expiry) -> Result<ClientConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let verifier = NotingVerifier::new(ca, expiry, provider.clone())?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    Ok(config.with_no_client_auth())
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

        /// A server's certificate that expires on the first of January.
        fn sign(&self, year: i32) -> Certificate {
            let mut params = CertificateParams::new(vec!["bus".to_owned()]).unwrap();
            params.not_after = rcgen::date_time_ymd(year, 1, 1);
            let key = KeyPair::generate().unwrap();
            params.signed_by(&key, &self.issuer).unwrap()
        }
    }

    /// Whether each certificate is trusted at a second, and the expiry that is noted.
    fn noted(
        ca: &str,
        name: &str,
        now: u64,
        certificates: &[Certificate],
    ) -> (Vec<bool>, Option<Timestamp>) {
        let expiry = Expiry::default();
        let provider = Arc::new(ring::default_provider());
        let verifier = NotingVerifier::new(ca, &expiry, provider).unwrap();
        let (name, now) = (
            ServerName::try_from(name.to_owned()).unwrap(),
            UnixTime::since_unix_epoch(Duration::from_secs(now)),
        );
        let verified = certificates.iter().map(|certificate| {
            verifier
                .verify_server_cert(certificate.der(), &[], &name, &[], now)
                .is_ok()
        });
        (verified.collect(), expiry.get())
    }

    #[test]
    fn the_earliest_expiry_of_trusted_certificates_is_noted() {
        let (ours, theirs) = (Authority::new(), Authority::new());
        let at = |seconds: u64| Some(Timestamp::from_unix(seconds.cast_signed()));
        let both = [ours.sign(2031), ours.sign(2030)];
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
        let refused = trusting("", &Expiry::default()).map(|_| ());
        assert_eq!(refused, Err("no certificate in it".to_owned()));
    }
}
