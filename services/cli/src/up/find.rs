//! Paths of the programs that `lacuna` starts, and addresses for them.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use lacuna_runtime::config::{Gateway, Http};

use crate::error::{CliError, Exit, Result};

/// A service: its name and the name of its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Service {
    /// Its short name, as in logs and in up.json.
    pub(crate) name: &'static str,
    /// The name of the program.
    pub(crate) program: &'static str,
}

/// The services in the order in which they are started. Any order works; this one gives the first
/// plan soonest.
pub(crate) const SERVICES: [Service; 6] = [
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
        name: "gateway",
        program: "lacuna-gateway",
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

/// The path of a program beside this one, or in `PATH`.
///
/// # Errors
/// `L0005`, with the places that were searched.
pub fn sibling(program: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().ok();
    let beside = own
        .as_deref()
        .and_then(Path::parent)
        .map(|dir| dir.join(program));
    // Test binaries are one directory below the programs.
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

/// The addresses of all processes.
#[derive(Debug)]
pub(crate) struct Addresses {
    /// The port of nats-server on the loopback interface.
    pub(crate) nats: u16,
    /// The address of each service, by name.
    pub(crate) http: BTreeMap<String, SocketAddr>,
    /// The address of the dashboard.
    pub(crate) page: SocketAddr,
    /// A free address at which nats-server shows its state.
    pub(crate) monitor: SocketAddr,
    /// A free address for the store in which members of trainers meet.
    pub(crate) store: SocketAddr,
}

/// Chooses the addresses of all processes. An address of `[http]` or `[gateway]` that is not the
/// default is kept. A default address and port 0 become a free port of the loopback interface, so
/// that several clusters can run side by side. All ports are held until the last is found, so no
/// two are the same. Another program may take one before it is used: nats-server then starts with
/// other addresses, but a service waits for its own, which others know already.
///
/// # Errors
/// `L0004` when an address cannot be used.
pub(crate) fn addresses(
    nats_port: Option<u16>,
    wanted: &Http,
    page: SocketAddr,
) -> Result<Addresses> {
    let busy = |what: String, e: &std::io::Error| {
        CliError::new(
            "L0004",
            Exit::Unavailable,
            format!("{what} cannot be used: {e}"),
        )
    };
    let (usual, free) = (Http::default(), SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let mut held = Vec::new();
    let mut take = |at: SocketAddr| {
        let listener = TcpListener::bind(at)?;
        let at = listener.local_addr()?;
        held.push(listener);
        Ok(at)
    };
    let port = nats_port.unwrap_or(0);
    let nats = take(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).map_err(|e| {
        busy(format!("port {port}"), &e).remedy("leave --nats-port out to get a free one")
    })?;
    let mut listen = |at: SocketAddr, usual: SocketAddr, key: &str| {
        let asked = if at == usual { free } else { at };
        take(asked).map_err(|e| {
            busy(format!("the address {key} = \"{asked}\""), &e)
                .remedy("leave it out to get a free one")
        })
    };
    let mut http = BTreeMap::new();
    for Service { name, .. } in SERVICES {
        let taken = listen(wanted.of(name), usual.of(name), &format!("[http] {name}"))?;
        http.insert(name.to_owned(), taken);
    }
    let page = listen(page, Gateway::default().page, "[gateway] page")?;
    let monitor = take(free).map_err(|e| busy("a free port".to_owned(), &e))?;
    let store = take(free).map_err(|e| busy("a free port".to_owned(), &e))?;
    Ok(Addresses {
        nats: nats.port(),
        http,
        page,
        monitor,
        store,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_addresses_are_distinct_and_a_taken_one_is_refused() {
        let usual = Gateway::default().page;
        let found = addresses(None, &Http::default(), usual).unwrap();
        let services = found.http.values().map(SocketAddr::port);
        let others = [
            found.nats,
            found.page.port(),
            found.monitor.port(),
            found.store.port(),
        ];
        let ports: std::collections::BTreeSet<_> = services.chain(others).collect();
        assert_eq!(ports.len(), SERVICES.len() + 4);
        let held = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let taken = held.local_addr().unwrap();
        let refused = addresses(Some(taken.port()), &Http::default(), usual).unwrap_err();
        assert_eq!(refused.code.as_deref(), Some("L0004"));
        let planner = Http {
            planner: taken,
            ..Http::default()
        };
        let refused = addresses(None, &planner, usual).unwrap_err();
        assert_eq!(refused.code.as_deref(), Some("L0004"));
        let key = format!("[http] planner = \"{taken}\"");
        assert!(refused.message.contains(&key), "{}", refused.message);
        let refused = addresses(None, &Http::default(), taken).unwrap_err();
        assert!(
            refused.message.contains("[gateway] page"),
            "{}",
            refused.message
        );
        drop(held);
        let found = addresses(None, &planner, usual).unwrap();
        assert_eq!(found.http.get("planner"), Some(&taken));
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = sibling("lacuna-no-such-service").unwrap_err();
        assert!(error.message.contains("lacuna-no-such-service"));
    }
}
