//! Where the programs are that `lacuna` starts.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

use crate::error::{CliError, Exit, Result};

/// A service: its name and the name of its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Service {
    /// Short, as in logs and in up.json.
    pub(crate) name: &'static str,
    /// The program.
    pub(crate) program: &'static str,
}

/// The services in the order in which they are started. They need no order; this one makes
/// the first plan come soonest.
pub(crate) const SERVICES: [Service; 5] = [
    Service {
        name: "control",
        program: "lacuna-control",
    },
    Service {
        name: "planner",
        program: "lacuna-planner",
    },
    Service {
        name: "forecast",
        program: "lacuna-forecast",
    },
    Service {
        name: "agent",
        program: "lacuna-agent",
    },
    Service {
        name: "ingest",
        program: "lacuna-ingest",
    },
];

fn in_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|dir| dir.join(program))
        .find(|p| p.is_file())
}

/// A program beside this one, or in `PATH`.
///
/// # Errors
/// `L0005` with where it was looked for.
pub(crate) fn sibling(program: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().ok();
    let beside = own
        .as_deref()
        .and_then(Path::parent)
        .map(|dir| dir.join(program));
    // Test binaries live one directory below the programs.
    let above = own
        .as_deref()
        .and_then(Path::parent)
        .and_then(Path::parent)
        .map(|d| d.join(program));
    beside
        .into_iter()
        .chain(above)
        .find(|p| p.is_file())
        .or_else(|| in_path(program))
        .ok_or_else(|| {
            CliError::new(
                "L0005",
                Exit::Failed,
                format!("{program} is neither beside lacuna nor in PATH"),
            )
            .remedy("build everything with `cargo build --release`, or install the whole release")
        })
}

/// Free ports on the loopback interface. All are held until the last is found, so that no two
/// are the same; a service that then finds its port taken dies and is started again.
///
/// # Errors
/// `L0004` when the system has none.
pub(crate) fn free_ports(count: usize) -> Result<Vec<u16>> {
    let busy = |e| CliError::new("L0004", Exit::Unavailable, format!("no free port: {e}"));
    let held: Vec<TcpListener> = (0..count)
        .map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
        .collect::<std::io::Result<_>>()
        .map_err(busy)?;
    held.iter()
        .map(|l| l.local_addr().map(|a| a.port()).map_err(busy))
        .collect()
}

/// Refuses a port that another program listens on.
///
/// # Errors
/// `L0004`.
pub(crate) fn require_free(port: u16) -> Result<()> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .map(drop)
        .map_err(|e| {
            CliError::new(
                "L0004",
                Exit::Unavailable,
                format!("port {port} cannot be used: {e}"),
            )
            .remedy("leave --nats-port out to get a free one")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_ports_are_distinct_and_a_taken_one_is_refused() {
        let ports = free_ports(20).unwrap();
        let distinct: std::collections::BTreeSet<_> = ports.iter().collect();
        assert_eq!(distinct.len(), 20);
        let held = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = held.local_addr().unwrap().port();
        assert_eq!(
            require_free(port).unwrap_err().code.as_deref(),
            Some("L0004")
        );
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = sibling("lacuna-no-such-service").unwrap_err();
        assert!(error.message.contains("lacuna-no-such-service"));
    }
}
