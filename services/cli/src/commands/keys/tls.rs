//! Certificates: a private authority, and the server's certificate signed by it. nats-server knows
//! its users by their keys, so users need no certificates.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};

use lacuna_runtime::Secret;

use super::accounts::SERVER;
use super::files::{self, Readers};
use crate::error::{CliError, Exit, Result, file_error};

/// Validity of the authority and of the server's certificate.
const AUTHORITY_YEARS: i32 = 10;
const SERVER_YEARS: i32 = 1;

/// The first line of the server's certificate file, before the day.
const UNTIL: &str = "# Holds until ";

/// The path of a certificate file: the authority's in `ca`, the server's in its own folder.
fn path(dir: &Path, name: &str) -> PathBuf {
    let folder = if name.starts_with("ca") { "ca" } else { SERVER };
    dir.join(folder).join(name)
}

fn failed(error: &rcgen::Error) -> CliError {
    CliError::new("L0042", Exit::Failed, format!("no certificate: {error}"))
}

/// The authority's certificate, in PEM.
///
/// # Errors
/// `L0011`.
pub(crate) fn authority(dir: &Path) -> Result<String> {
    let path = path(dir, "ca.pem");
    std::fs::read_to_string(&path).map_err(|e| file_error("read", &path, &e))
}

/// Makes a missing authority and a missing server's certificate for these names. With `force` both
/// are made again, and earlier identities no longer trust the server.
///
/// # Errors
/// `L0042` if a name is no host name, `L0011`.
pub(crate) fn ensure(dir: &Path, hosts: &[String], force: bool) -> Result<()> {
    if force || !path(dir, "ca.pem").exists() {
        let key = KeyPair::generate().map_err(|e| failed(&e))?;
        let certificate = root()?.self_signed(&key).map_err(|e| failed(&e))?;
        let secret = Secret::from(key.serialize_pem());
        files::write(&path(dir, "ca-key.pem"), secret.reveal(), Readers::Owner)?;
        files::write(&path(dir, "ca.pem"), &certificate.pem(), Readers::All)?;
        return renew(dir, hosts);
    }
    if path(dir, "server.pem").exists() {
        return Ok(());
    }
    renew(dir, hosts)
}

/// Renews the server's certificate, signed by the same authority; identities stay valid.
///
/// # Errors
/// `L0042` if a name is no host name or the authority's key is missing, `L0011`.
pub(crate) fn renew(dir: &Path, hosts: &[String]) -> Result<()> {
    let from = path(dir, "ca-key.pem");
    let text = std::fs::read_to_string(&from).map_err(|e| {
        let words = format!(
            "the authority's key cannot be read: {}: {e}",
            from.display()
        );
        CliError::new("L0042", Exit::Failed, words)
            .remedy("bring it back, or make everything again: lacuna keys init DIR --force")
    })?;
    let text = Secret::from(text);
    let authority = KeyPair::from_pem(text.reveal()).map_err(|e| failed(&e))?;
    let issuer = Issuer::new(root()?, authority);
    let key = KeyPair::generate().map_err(|e| failed(&e))?;
    let mut params = CertificateParams::new(hosts.to_vec()).map_err(|e| failed(&e))?;
    let name = hosts.first().map_or("nats-server", String::as_str);
    params.distinguished_name = called(name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    let until = during(&mut params, SERVER_YEARS)?;
    let certificate = params.signed_by(&key, &issuer).map_err(|e| failed(&e))?;
    let secret = Secret::from(key.serialize_pem());
    files::write(
        &path(dir, "server-key.pem"),
        secret.reveal(),
        Readers::Owner,
    )?;
    // PEM readers skip the text before the certificate.
    let text = format!("{UNTIL}{until}\n{}", certificate.pem());
    files::write(&path(dir, "server.pem"), &text, Readers::All)
}

/// The last day of the server's certificate, if its file says it.
pub(crate) fn until(dir: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path(dir, "server.pem")).ok()?;
    Some(text.lines().next()?.strip_prefix(UNTIL)?.to_owned())
}

/// The authority without its key. It is always the same, so later certificates match it.
fn root() -> Result<CertificateParams> {
    let mut params = CertificateParams::default();
    params.distinguished_name = called("Lacuna");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    during(&mut params, AUTHORITY_YEARS)?;
    Ok(params)
}

fn called(name: &str) -> DistinguishedName {
    let mut called = DistinguishedName::new();
    called.push(DnType::CommonName, name);
    called
}

/// Sets the validity: from yesterday, since clocks differ, for `years`. Returns the last day.
fn during(params: &mut CertificateParams, years: i32) -> Result<jiff::civil::Date> {
    let today = jiff::Timestamp::from_millisecond(lacuna_runtime::clock::wall().unix_ms())
        .map_err(|e| CliError::failed(e.to_string()))?;
    let today = today.to_zoned(jiff::tz::TimeZone::UTC).date();
    let day = |date: jiff::civil::Date| {
        let (month, day) = (date.month().unsigned_abs(), date.day().unsigned_abs());
        rcgen::date_time_ymd(i32::from(date.year()), month, day)
    };
    let shifted = |span: jiff::Span| {
        let date = today.checked_add(span);
        date.map_err(|e| CliError::failed(e.to_string()))
    };
    params.not_before = day(shifted(jiff::Span::new().days(-1))?);
    let until = shifted(jiff::Span::new().years(years))?;
    params.not_after = day(until);
    Ok(until)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renewed_certificate_keeps_the_authority_and_force_makes_another() {
        let dir = tempfile::tempdir().unwrap();
        let hosts = ["bus.example.org".to_owned(), "127.0.0.1".to_owned()];
        let read = |name: &str| std::fs::read_to_string(path(dir.path(), name)).unwrap();
        ensure(dir.path(), &hosts, false).unwrap();
        let (ca, server) = (read("ca.pem"), read("server.pem"));
        ensure(dir.path(), &hosts, false).unwrap();
        assert_eq!(
            (read("ca.pem"), read("server.pem")),
            (ca.clone(), server.clone())
        );
        renew(dir.path(), &hosts).unwrap();
        assert_eq!(read("ca.pem"), ca);
        assert_ne!(read("server.pem"), server);
        let day: jiff::civil::Date = until(dir.path()).unwrap().parse().unwrap();
        let today = jiff::Zoned::now().date();
        assert!((360..=367).contains(&(day - today).get_days()), "{day}");
        ensure(dir.path(), &hosts, true).unwrap();
        assert_ne!(read("ca.pem"), ca);
    }

    #[test]
    fn without_the_authoritys_key_nothing_is_renewed() {
        let dir = tempfile::tempdir().unwrap();
        let error = renew(dir.path(), &["localhost".to_owned()]).unwrap_err();
        assert_eq!(error.code.as_deref(), Some("L0042"));
    }
}
