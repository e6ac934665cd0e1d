//! Authentication at nats-server: nkeys and TLS of an identity, a credentials file, or a password.

use async_nats::ConnectOptions;
use lacuna_wire::access::inbox;

use super::BusError;
use super::tls::{self, Expiry};
use crate::config::BusSettings;
use crate::identity::Identity;

/// The options that authenticate this user. `expiry` takes the expiry of the server's certificate.
///
/// # Errors
/// [`BusError::Credentials`] or [`BusError::NotTrusted`] if a file or the authority cannot be read.
pub(super) async fn credentials(
    settings: &BusSettings,
    identity: Option<&Identity>,
    expiry: &Expiry,
) -> Result<ConnectOptions, BusError> {
    let unreadable = |path: &std::path::Path, source| BusError::Credentials {
        path: path.display().to_string(),
        source,
    };
    let mut options = ConnectOptions::new();
    if let Some(identity) = identity {
        options = options
            .nkey(identity.seed.reveal().to_owned())
            .custom_inbox_prefix(inbox(&identity.holder.user));
        if let Some(ca) = &identity.ca {
            let trusting = tls::trusting(ca, expiry).map_err(|reason| BusError::NotTrusted {
                url: settings.url.clone(),
                reason: format!("the authority in the identity cannot be read: {reason}"),
            })?;
            options = options.require_tls(true).tls_client_config(trusting);
        }
        return Ok(options);
    }
    if let Some(path) = &settings.credentials {
        options = options
            .credentials_file(path)
            .await
            .map_err(|e| unreadable(path, e))?;
    }
    if let Some(user) = &settings.user {
        let password = match (&settings.password, &settings.password_file) {
            (Some(password), _) => password.reveal().to_owned(),
            (None, Some(path)) => std::fs::read_to_string(path)
                .map_err(|e| unreadable(path, e))?
                .trim_end()
                .to_owned(),
            (None, None) => String::new(),
        };
        options = options.user_and_password(user.clone(), password);
    }
    Ok(options)
}

/// The addresses in a comma-separated list.
///
/// # Errors
/// [`BusError::Unreachable`] if one is no address.
pub(super) fn servers(url: &str) -> Result<Vec<async_nats::ServerAddr>, BusError> {
    url.split(',')
        .map(|part| part.trim().parse())
        .collect::<Result<_, _>>()
        .map_err(|e: std::io::Error| BusError::Unreachable {
            url: url.to_owned(),
            reason: e.to_string(),
        })
}
