//! A nats-server as a child process.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::clock::Stopwatch;
use crate::nats_conf::NatsConf;

/// The environment variable that names the program.
pub const VARIABLE: &str = "LACUNA_NATS_SERVER";

/// Name of its log in its folder.
const LOG: &str = "nats.log";

/// The text in its log when another program has its port.
const TAKEN: &str = "address already in use";

/// Longest time of a start.
const START: Duration = Duration::from_secs(20);

/// The oldest supported version. Earlier ones lose acknowledged writes in a power failure.
const OLDEST: Version = [2, 12, 3];

/// Longest time for the program to print its version.
const PRINT: Duration = Duration::from_secs(5);

/// Major, minor, patch.
type Version = [u32; 3];

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum NatsServerError {
    /// The program is missing.
    #[error(
        "no nats-server found: looked at {VARIABLE}, beside this program, in PATH and at {looked}: run \
         `make setup`, \
         or install nats-server 2.12.3 or newer and name it in {VARIABLE}",
        looked = looked.display()
    )]
    NotFound {
        /// The last path that was tried.
        looked: PathBuf,
    },
    /// The environment variable does not name a program.
    #[error(
        "{VARIABLE} is {named}, which is not an executable file: name nats-server 2.12.3 or \
         newer, or leave it unset and run `make setup`",
        named = named.display()
    )]
    NoProgram {
        /// The value of the variable.
        named: PathBuf,
    },
    /// The program is too old, or no nats-server.
    #[error(
        "{program} {found}: nats-server 2.12.3 or newer is needed: run `make setup`, or name one in \
         {VARIABLE}",
        program = program.display()
    )]
    TooOld {
        /// The program.
        program: PathBuf,
        /// The version that was found, in words.
        found: String,
    },
    /// A file or folder cannot be written.
    #[error("cannot write {path}: {source}", path = path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The program does not start.
    #[error("{program} does not start: {reason}", program = program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// The reason, with the end of its log if there is one.
        reason: String,
    },
}

/// Finds the program. The environment variable names it (a path, or a name in `PATH`). Otherwise it
/// is the first one of sufficient version in `.cache/bin` of a folder above this program, the
/// folder of this program, `PATH`, and `.cache/bin` of a folder above the present one.
///
/// # Errors
/// [`NatsServerError::NotFound`], [`NatsServerError::NoProgram`] or [`NatsServerError::TooOld`]
/// with a remedy.
pub fn find() -> Result<PathBuf, NatsServerError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if let Some(named) = std::env::var_os(VARIABLE).filter(|v| !v.is_empty()) {
        let program = named_program(PathBuf::from(named), &path)?;
        return new_enough(&program, printed_version(&program)).map(|()| program);
    }
    let exe = std::env::current_exe().unwrap_or_default();
    let here = std::env::current_dir().unwrap_or_default();
    let pinned = |dir: &Path| dir.join(".cache/bin/nats-server");
    let looked = pinned(&here);
    let candidates = exe
        .ancestors()
        .map(pinned)
        .chain(exe.parent().map(|dir| dir.join("nats-server")))
        .chain(std::env::split_paths(&path).map(|dir| dir.join("nats-server")))
        .chain(here.ancestors().map(pinned))
        .filter(|candidate| is_program(candidate));
    first_of(candidates, &printed_version).unwrap_or(Err(NatsServerError::NotFound { looked }))
}

/// The first program of sufficient version; else why the first one is refused.
fn first_of(
    candidates: impl Iterator<Item = PathBuf>,
    version: &dyn Fn(&Path) -> Option<Version>,
) -> Option<Result<PathBuf, NatsServerError>> {
    let mut refused = None;
    for candidate in candidates {
        match new_enough(&candidate, version(&candidate)) {
            Ok(()) => return Some(Ok(candidate)),
            Err(error) => refused = refused.or(Some(Err(error))),
        }
    }
    refused
}

fn new_enough(program: &Path, version: Option<Version>) -> Result<(), NatsServerError> {
    let found = match version {
        Some(version) if version >= OLDEST => return Ok(()),
        Some([major, minor, patch]) => format!("is nats-server {major}.{minor}.{patch}"),
        None => "does not tell its version".to_owned(),
    };
    let program = program.to_owned();
    Err(NatsServerError::TooOld { program, found })
}

/// The version that a program prints.
fn printed_version(program: &Path) -> Option<Version> {
    let mut child = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let waiting = Stopwatch::start();
    while waiting.seconds() < PRINT.as_secs_f64() && matches!(child.try_wait(), Ok(None)) {
        std::thread::sleep(Duration::from_millis(5));
    }
    // A program that keeps running prints no version.
    let _ = child.kill();
    let output = child.wait_with_output().ok()?;
    version_in(&String::from_utf8_lossy(&output.stdout))
}

/// The version in `nats-server: v2.12.3`, without anything after the numbers.
fn version_in(text: &str) -> Option<Version> {
    let version = text.trim().strip_prefix("nats-server: v")?;
    let mut parts = version.split(['.', '-', '+', ' ']).map(str::parse);
    let mut next = || parts.next()?.ok();
    Some([next()?, next()?, next()?])
}

fn named_program(named: PathBuf, path: &OsStr) -> Result<PathBuf, NatsServerError> {
    let found = if named.components().count() == 1 && named.is_relative() {
        std::env::split_paths(path)
            .map(|dir| dir.join(&named))
            .find(|candidate| is_program(candidate))
    } else {
        is_program(&named).then(|| named.clone())
    };
    found.ok_or(NatsServerError::NoProgram { named })
}

fn is_program(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// A running server. It is stopped when this is dropped.
#[derive(Debug)]
pub struct NatsServer {
    program: PathBuf,
    dir: PathBuf,
    port: u16,
    child: Child,
    /// Length of its log at its start. The text before is of earlier runs.
    log_from: usize,
}

impl NatsServer {
    /// Starts a server with JetStream in `dir`, on `port` of the loopback address, and waits until
    /// it answers. With port 0 it takes a free port.
    ///
    /// # Errors
    /// [`NatsServerError`] with the end of the server's log.
    pub fn start(program: &Path, dir: &Path, port: u16) -> Result<Self, NatsServerError> {
        let write = |path: &Path| {
            let path = path.to_owned();
            move |source| NatsServerError::Write { path, source }
        };
        std::fs::create_dir_all(dir).map_err(write(dir))?;
        let path = dir.join("nats.conf");
        let configure = |port: Option<u16>| {
            std::fs::write(&path, configuration(dir, port)).map_err(write(&path))
        };
        forget_ports(dir);
        configure((port != 0).then_some(port))?;
        let mut server = Self {
            program: program.to_owned(),
            dir: dir.to_owned(),
            port,
            log_from: log_length(dir),
            child: launch(program, dir)?,
        };
        if port == 0 {
            server.port = server.wait_for("it does not report its port", || reported_port(dir))?;
            // A restart must use the same port.
            configure(Some(server.port))?;
        }
        server.wait_ready()?;
        Ok(server)
    }

    /// Its address in the form of `--nats`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Kills it at once (`kill -9`), as a crash of its process would.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again after it has ended, on the same port with the same files. If another program
    /// has taken the port meanwhile, this waits for it.
    ///
    /// # Errors
    /// Those of [`NatsServer::start`].
    pub fn restart(&mut self) -> Result<(), NatsServerError> {
        self.kill();
        let waiting = Stopwatch::start();
        loop {
            self.log_from = log_length(&self.dir);
            self.child = launch(&self.program, &self.dir)?;
            match self.wait_ready() {
                Err(NatsServerError::Start { reason, .. })
                    if reason.contains(TAKEN) && waiting.seconds() < START.as_secs_f64() =>
                {
                    eprintln!("port {} is taken, trying again", self.port);
                    std::thread::sleep(Duration::from_millis(200));
                }
                ended => return ended,
            }
        }
    }

    /// Stops it, and kills it if it still runs after 5 s.
    pub fn stop(&mut self) {
        if let Ok(pid) = i32::try_from(self.child.id())
            && self.is_running()
        {
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
        let waiting = Stopwatch::start();
        while self.is_running() && waiting.seconds() < 5.0 {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.kill();
    }

    fn wait_ready(&mut self) -> Result<(), NatsServerError> {
        let address = SocketAddr::from(([127, 0, 0, 1], self.port));
        self.wait_for("it does not answer", || greets(address).then_some(()))
    }

    /// Waits for a condition of a starting server, and kills the server if it does not become true.
    fn wait_for<T>(
        &mut self,
        else_: &str,
        look: impl Fn() -> Option<T>,
    ) -> Result<T, NatsServerError> {
        let waiting = Stopwatch::start();
        let mut how = format!("{else_} within {} s", START.as_secs());
        while waiting.seconds() < START.as_secs_f64() {
            if let Ok(Some(status)) = self.child.try_wait() {
                how = format!("it ended at once ({status})");
                break;
            }
            if let Some(found) = look() {
                return Ok(found);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.kill();
        let log = std::fs::read(self.dir.join(LOG)).unwrap_or_default();
        let log = String::from_utf8_lossy(log.get(self.log_from..).unwrap_or_default());
        let tail: Vec<&str> = log.lines().rev().take(3).collect();
        for line in tail.into_iter().rev() {
            how.push_str(" | ");
            how.push_str(line);
        }
        Err(NatsServerError::Start {
            program: self.program.clone(),
            reason: how,
        })
    }
}

/// Length of the log in `dir`, in bytes.
fn log_length(dir: &Path) -> usize {
    let length = std::fs::metadata(dir.join(LOG)).map_or(0, |m| m.len());
    usize::try_from(length).unwrap_or(usize::MAX)
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn launch(program: &Path, dir: &Path) -> Result<Child, NatsServerError> {
    Command::new(program)
        .arg("-c")
        .arg(dir.join("nats.conf"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|source| NatsServerError::Start {
            program: program.to_owned(),
            reason: source.to_string(),
        })
}

/// Whether a nats-server answers at an address.
fn greets(address: SocketAddr) -> bool {
    let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(200)) else {
        return false;
    };
    let _ = stream.set_read_timeout(Some(Duration::from_millis(500)));
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).is_ok() && line.starts_with("INFO ")
}

/// The files in which servers of this folder report their ports.
fn port_files(dir: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "ports"))
}

/// Removes the port files of killed servers.
fn forget_ports(dir: &Path) {
    for path in port_files(dir) {
        let _ = std::fs::remove_file(path);
    }
}

/// The port that a server has chosen, once it has written it down.
fn reported_port(dir: &Path) -> Option<u16> {
    port_files(dir).find_map(|path| {
        let said: serde_json::Value = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
        let (_, port) = said.get("nats")?.get(0)?.as_str()?.rsplit_once(':')?;
        port.parse().ok()
    })
}

/// The configuration of a server with a port, or with a free one that it writes down in `dir`.
fn configuration(dir: &Path, port: Option<u16>) -> String {
    let conf = NatsConf {
        listen: format!("127.0.0.1:{}", port.map_or(-1, i32::from)),
        monitor: None,
        store: dir.join("jetstream"),
        log: Some(dir.join(LOG)),
        keys: None,
    };
    match port {
        Some(_) => conf.text(),
        None => conf.text() + &format!("\nports_file_dir: {dir:?}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_file_that_is_no_program_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nats-server");
        let look = |named: &Path| named_program(named.to_owned(), dir.path().as_os_str());
        for kind in ["missing", "not executable"] {
            for named in [path.as_path(), Path::new("nats-server")] {
                let error = look(named).unwrap_err().to_string();
                assert!(error.contains(VARIABLE), "{kind}: {error}");
                assert!(error.contains("nats-server"), "{kind}: {error}");
            }
            std::fs::write(&path, "#!/bin/sh\n").unwrap();
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(look(&path).unwrap(), path);
        assert_eq!(look(Path::new("nats-server")).unwrap(), path);
    }

    #[test]
    fn a_version_that_is_too_old_is_skipped_or_refused() {
        for (text, version) in [
            ("nats-server: v2.12.3\n", Some([2, 12, 3])),
            ("nats-server: v2.13.0-RC.1", Some([2, 13, 0])),
            ("nats-server: v2.9", None),
            ("nginx version 1.22", None),
            ("", None),
        ] {
            assert_eq!(version_in(text), version, "{text}");
        }
        let version = |program: &Path| match program.to_str() {
            Some("old") => Some([2, 9, 10]),
            Some("new") => Some([2, 12, 3]),
            _ => None,
        };
        let first = |names: &[&str]| first_of(names.iter().map(PathBuf::from), &version);
        let found = first(&["old", "true", "new"]).unwrap().unwrap();
        assert_eq!(found, Path::new("new"));
        let error = first(&["old", "true"]).unwrap().unwrap_err().to_string();
        for said in [
            "old is nats-server 2.9.10",
            "2.12.3",
            "make setup",
            VARIABLE,
        ] {
            assert!(error.contains(said), "{said}: {error}");
        }
        let error = first(&["true"]).unwrap().unwrap_err().to_string();
        assert!(error.contains("true does not tell its version"), "{error}");
        assert!(first(&[]).is_none());
        assert_eq!(printed_version(Path::new("/bin/true")), None);
    }

    #[test]
    fn a_program_that_ends_fails_at_once_without_lines_of_earlier_logs() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(LOG), "a line of an earlier run\n").unwrap();
        let waiting = Stopwatch::start();
        let error = NatsServer::start(Path::new("/bin/true"), dir.path(), 0)
            .unwrap_err()
            .to_string();
        assert!(waiting.seconds() < START.as_secs_f64() / 2.0);
        assert!(error.contains("ended at once"), "{error}");
        assert!(!error.contains("earlier"), "{error}");
    }
}
