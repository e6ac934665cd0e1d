//! The nats-server child: its configuration, and the wait for its start.

use std::path::{Path, PathBuf};
use std::time::Duration;

use lacuna_runtime::nats_conf::{NatsConf, ServerKeys};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use super::log::Log;
use crate::error::{CliError, Exit, Result, file_error};

/// The heap of the server grows with the traffic of its streams, far beyond its need. Under
/// 1,000 events/s for a minute it is 840 MiB resident without a limit, 290 MiB with 300 MiB.
pub(crate) const ENVIRONMENT: [(&str, &str); 1] = [("GOMEMLIMIT", "384MiB")];

/// The folder in which the server keeps streams.
#[must_use]
pub(crate) fn store(data_dir: &Path) -> PathBuf {
    data_dir.join("jetstream")
}

/// Writes the server's configuration; the server listens on the loopback interface only.
///
/// # Errors
/// The directory cannot be written.
pub(crate) fn write_config(
    data_dir: &Path,
    port: u16,
    monitor: String,
    keys: Option<ServerKeys>,
) -> Result<PathBuf> {
    let path = data_dir.join("nats.conf");
    let conf = NatsConf {
        listen: format!("127.0.0.1:{port}"),
        monitor: Some(monitor),
        store: store(data_dir),
        log: None,
        keys,
    };
    std::fs::write(&path, conf.text()).map_err(|e| file_error("write", &path, &e))?;
    Ok(path)
}

/// Waits until the server sends its greeting.
///
/// # Errors
/// `L0001` when it does not within 10 seconds; the text ends with the end of its log.
pub(crate) async fn wait_until_up(port: u16, log: &Log) -> Result<()> {
    let greeting = async {
        loop {
            if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)).await {
                let mut start = [0u8; 4];
                if stream.read_exact(&mut start).await.is_ok() && &start == b"INFO" {
                    return;
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), greeting)
        .await
        .map_err(|_| {
            CliError::new(
                "L0001",
                Exit::Unavailable,
                format!("nats-server does not answer on port {port}"),
            )
            .remedy(log.tail(5))
        })
}

/// The error of a server that ended before its greeting; a restart would not help.
#[must_use]
pub(crate) fn ended_at_once(program: &Path, how: &str, log: &Log) -> CliError {
    CliError::new(
        "L0001",
        Exit::Unavailable,
        format!("{} ended at once ({how})", program.display()),
    )
    .remedy(log.tail(5))
}

/// Whether it ended because another program has its port.
#[must_use]
pub(crate) fn is_taken(error: &CliError) -> bool {
    let said = error.remedy.as_deref().unwrap_or_default();
    error.code.as_deref() == Some("L0001") && said.contains("address already in use")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_distinguished_from_other_ends() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nats.log");
        let log = Log::begin(path.clone()).unwrap();
        for (line, taken) in [
            (
                "[FTL] Error listening on port: 127.0.0.1:1, \"bind: address already in use\"",
                true,
            ),
            (
                "[FTL] Error starting JetStream: no space left on device",
                false,
            ),
        ] {
            std::fs::write(&path, format!("{line}\n")).unwrap();
            let error = ended_at_once(Path::new("nats-server"), "exit code 1", &log);
            assert_eq!(is_taken(&error), taken, "{line}");
        }
    }
}
