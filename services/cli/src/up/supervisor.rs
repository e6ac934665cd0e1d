//! The supervisor of all child processes: it starts, watches and ends them in order.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use lacuna_runtime::http::ask;
use lacuna_runtime::leader::LOOP;

use super::child::{ChildEvent, ChildSpec, GRACE, keep};
use super::find::{Addresses, SERVICES, addresses, sibling};
use super::log::Log;
use super::nats;
use super::runtime_file::{DirLock, RuntimeFile};
use crate::Config;
use crate::commands::keys::{Prepared, prepare};
use crate::error::{CliError, Result, file_error};
use crate::output;

/// The settings of a cluster on this machine.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The folder for data, logs and up.json.
    pub data_dir: PathBuf,
    /// The services' configuration; its NATS address and the default addresses of `[http]` are
    /// replaced.
    pub config: Config,
    /// The port of nats-server; a free one if absent.
    pub nats_port: Option<u16>,
}

/// The supervisor of a running cluster.
pub struct Supervisor {
    /// The content of up.json, by which other commands find the cluster.
    pub file: RuntimeFile,
    /// Number of times that a child died and was restarted.
    pub deaths: u32,
    data_dir: PathBuf,
    /// Whether up.json has the content of `file`.
    is_written: bool,
    events: UnboundedReceiver<ChildEvent>,
    tasks: JoinSet<Result<()>>,
    stop_services: CancellationToken,
    stop_nats: CancellationToken,
    sender: UnboundedSender<ChildEvent>,
    /// The service that is not started yet: ingest.
    ingest: Option<Deferred>,
    started: Vec<&'static str>,
    _lock: DirLock,
}

/// A service that is started later.
struct Deferred {
    name: &'static str,
    program: PathBuf,
    args: Vec<String>,
}

/// An event for the owner of the supervisor.
pub(crate) enum SupervisorEvent {
    /// An event of one child.
    Child(ChildEvent),
    /// One child was given up.
    GaveUp(CliError),
}

/// Starts children and gives each a task that keeps it running.
struct Spawner<'a> {
    tasks: &'a mut JoinSet<Result<()>>,
    events: UnboundedSender<ChildEvent>,
    data_dir: PathBuf,
}

impl Spawner<'_> {
    fn add(
        &mut self,
        name: &'static str,
        program: PathBuf,
        args: Vec<String>,
        stop: CancellationToken,
    ) -> Result<Log> {
        let log = Log::begin(self.data_dir.join("logs").join(format!("{name}.log")))?;
        let (env, store): (&[_], _) = if name == "nats" {
            (&nats::ENVIRONMENT, Some(nats::store(&self.data_dir)))
        } else {
            (&[], None)
        };
        let spec = ChildSpec {
            name,
            program,
            args,
            env,
            log: log.clone(),
            store,
        };
        self.tasks.spawn(keep(spec, self.events.clone(), stop));
        Ok(log)
    }
}

/// The number of ports that are tried for nats-server.
const TRIES: u32 = 5;

fn write_config(data_dir: &Path, config: &Config) -> Result<PathBuf> {
    let path = data_dir.join("lacuna.toml");
    let text = config
        .print()
        .map_err(|e| CliError::failed(e.to_string()))?;
    std::fs::write(&path, text).map_err(|e| file_error("write", &path, &e))?;
    Ok(path)
}

/// Waits for the death of a child and returns its description; other events go to `pending`.
async fn until_death(
    events: &mut UnboundedReceiver<ChildEvent>,
    pending: &mut Vec<ChildEvent>,
) -> String {
    while let Some(event) = events.recv().await {
        if let ChildEvent::Died { how, .. } = event {
            return how;
        }
        pending.push(event);
    }
    std::future::pending().await
}

impl Supervisor {
    /// Starts nats-server, waits for it, then starts all services but ingest. A trace begins to
    /// play when ingest starts, and by then the other services should listen.
    ///
    /// # Errors
    /// A program is missing, the data directory is in use, or nats-server does not come up.
    pub async fn start(settings: Settings) -> Result<Self> {
        Self::begin(settings, false).await
    }

    /// Like [`Supervisor::start`], but each service has its own key with only the permissions that
    /// it needs, and all connections are encrypted.
    ///
    /// # Errors
    /// As [`Supervisor::start`]; the keys cannot be written.
    pub(crate) async fn start_secure(settings: Settings) -> Result<Self> {
        Self::begin(settings, true).await
    }

    /// Tries again with other addresses while nats-server finds that its port, which was free, is
    /// taken.
    async fn begin(settings: Settings, secure: bool) -> Result<Self> {
        let mut tries = 1;
        loop {
            match Self::begin_once(settings.clone(), secure).await {
                Err(error)
                    if settings.nats_port.is_none() && tries < TRIES && nats::is_taken(&error) =>
                {
                    tries += 1;
                }
                begun => return begun,
            }
        }
    }

    async fn begin_once(settings: Settings, secure: bool) -> Result<Self> {
        let Settings {
            data_dir,
            mut config,
            nats_port,
        } = settings;
        let lock = DirLock::take(&data_dir)?;
        let data_dir = data_dir
            .canonicalize()
            .map_err(|e| file_error("find", &data_dir, &e))?;
        // All programs are found before one of them is started.
        let nats_server = lacuna_runtime::nats_server::find()
            .map_err(|e| CliError::new("L0005", crate::error::Exit::Failed, e.to_string()))?;
        let programs = SERVICES
            .iter()
            .map(|s| sibling(s.program))
            .collect::<Result<Vec<_>>>()?;
        let Addresses {
            nats: port,
            http,
            page,
            monitor,
            store,
        } = addresses(nats_port, &config.http, config.gateway.page)?;
        config.gateway.page = page;
        let own = &mut config.control.store;
        own.get_or_insert_with(|| store.to_string());
        let own = &mut config.gateway.bus_monitor;
        let monitor = own.get_or_insert_with(|| monitor.to_string()).clone();
        let bus_store = &mut config.gateway.bus_store;
        bus_store.get_or_insert_with(|| nats::store(&data_dir));
        config.bus.url = format!("nats://127.0.0.1:{port}");
        if config.agent.nodes.is_empty() {
            config.agent.all_nodes = true;
        }
        if config.agent.work_dir.is_relative() {
            config.agent.work_dir = data_dir.join(&config.agent.work_dir);
        }
        let keys = if secure {
            let user = ["USER", "LOGNAME"].map(|name| std::env::var(name).ok());
            let user = user.into_iter().flatten().find(|name| !name.is_empty());
            let user = user.unwrap_or_else(|| "lacuna".to_owned());
            let folder = data_dir.join("keys");
            Some(prepare(
                &folder,
                &config.cluster.id,
                &config.bus.url,
                &user,
            )?)
        } else {
            None
        };
        config.bus.identity = None;
        if let Some(keys) = &keys
            && !config.control.access.operators.contains(&keys.user)
        {
            config.control.access.operators.push(keys.user.clone());
        }
        let cluster = config.cluster.id.to_string();
        let config_file = write_config(&data_dir, &config)?;

        let (sender, mut events) = unbounded_channel::<ChildEvent>();
        let mut tasks = JoinSet::new();
        let (stop_services, stop_nats) = (CancellationToken::new(), CancellationToken::new());
        let mut spawner = Spawner {
            tasks: &mut tasks,
            events: sender.clone(),
            data_dir: data_dir.clone(),
        };
        let server = keys.as_ref().map(|keys| keys.server.clone());
        let conf = nats::write_config(&data_dir, port, monitor, server)?;
        let nats_args = vec!["-c".to_owned(), conf.display().to_string()];
        let log = spawner.add("nats", nats_server.clone(), nats_args, stop_nats.clone())?;
        let mut pending = Vec::new();
        tokio::select! {
            up = nats::wait_until_up(port, &log) => up?,
            how = until_death(&mut events, &mut pending) => {
                return Err(nats::ended_at_once(&nats_server, &how, &log));
            }
            Some(Ok(Err(gone))) = spawner.tasks.join_next() => return Err(gone),
        }
        for event in pending {
            // The receiver is in this function, so the send cannot fail.
            let _ = sender.send(event);
        }
        let (mut ingest, mut started) = (None, Vec::new());
        for (service, program) in SERVICES.iter().zip(programs) {
            let listen = http
                .get(service.name)
                .map_or_else(String::new, ToString::to_string);
            let mut args = vec![
                "--config".to_owned(),
                config_file.display().to_string(),
                "--nats".to_owned(),
                config.bus.url.clone(),
                "--cluster".to_owned(),
                cluster.clone(),
                "--listen".to_owned(),
                listen,
            ];
            let identity = keys.as_ref().and_then(|k| k.services.get(service.name));
            if let Some(identity) = identity {
                args.extend(["--identity".to_owned(), identity.display().to_string()]);
            }
            if service.name == "ingest" {
                ingest = Some(Deferred {
                    name: service.name,
                    program,
                    args,
                });
            } else {
                spawner.add(service.name, program, args, stop_services.clone())?;
                started.push(service.name);
            }
        }
        let file = RuntimeFile {
            pid: std::process::id(),
            nats: config.bus.url,
            cluster,
            http: http
                .into_iter()
                .map(|(name, at)| (name, at.to_string()))
                .collect(),
            page: Some(format!("http://{page}/")),
            identity: keys.map(|keys: Prepared| keys.operator),
            children: BTreeMap::new(),
        };
        file.write(&data_dir)?;
        Ok(Self {
            file,
            deaths: 0,
            data_dir,
            is_written: true,
            events,
            tasks,
            stop_services,
            stop_nats,
            sender,
            ingest,
            started,
            _lock: lock,
        })
    }

    /// Starts ingest, and with it the trace, if there is one.
    ///
    /// # Errors
    /// The data directory cannot be written.
    pub fn start_ingest(&mut self) -> Result<()> {
        let Some(Deferred {
            name,
            program,
            args,
        }) = self.ingest.take()
        else {
            return Ok(());
        };
        let mut spawner = Spawner {
            tasks: &mut self.tasks,
            events: self.sender.clone(),
            data_dir: self.data_dir.clone(),
        };
        spawner.add(name, program, args, self.stop_services.clone())?;
        self.started.push(name);
        Ok(())
    }

    /// Writes up.json if it is out of date. A full disk ends no process; the write is repeated.
    fn write_file(&mut self, is_new: bool) {
        if is_new || !self.is_written {
            let written = self.file.write(&self.data_dir);
            if let (true, Err(error)) = (self.is_written, &written) {
                output::print_error(&format!("lacuna: {error}; trying again"));
            }
            self.is_written = written.is_ok();
        }
    }

    /// The next event. Process ids in up.json are updated.
    pub(crate) async fn next(&mut self) -> SupervisorEvent {
        loop {
            tokio::select! {
                Some(event) = self.events.recv() => {
                    let started = match &event {
                        ChildEvent::Started { name, pid } => {
                            self.file.children.insert((*name).to_owned(), *pid);
                            true
                        }
                        ChildEvent::Line { .. }
                        | ChildEvent::Died { .. }
                        | ChildEvent::Full { .. }
                        | ChildEvent::Renewed { .. } => false,
                    };
                    self.write_file(started);
                    self.deaths += u32::from(matches!(event, ChildEvent::Died { .. }));
                    return SupervisorEvent::Child(event);
                }
                Some(ended) = self.tasks.join_next() => match ended {
                    Ok(Ok(())) => {}
                    Ok(Err(e)) => return SupervisorEvent::GaveUp(e),
                    Err(e) => return SupervisorEvent::GaveUp(CliError::failed(e.to_string())),
                },
                else => return SupervisorEvent::GaveUp(CliError::failed("all children have ended")),
            }
        }
    }

    /// Waits until a child is given up; handles other events meanwhile.
    pub async fn until_failure(&mut self) -> CliError {
        loop {
            if let SupervisorEvent::GaveUp(e) = self.next().await {
                return e;
            }
        }
    }

    /// Waits until each started service answers on its port, and control also on the bus.
    ///
    /// # Errors
    /// A child was given up, or a service does not answer in time.
    pub async fn wait_until_ready(&mut self, limit: Duration) -> Result<()> {
        let addresses: Vec<(String, String)> = self
            .file
            .http
            .iter()
            .filter(|(name, _)| self.started.contains(&name.as_str()))
            .map(|(name, at)| (name.clone(), at.clone()))
            .collect();
        let mut waiting = addresses;
        let poll = async {
            while !waiting.is_empty() {
                let mut left = Vec::new();
                for (name, at) in std::mem::take(&mut waiting) {
                    let answer = ask(&at, "/healthz").await.ok();
                    if !answer.is_some_and(|(_, health)| is_ready(&name, &health)) {
                        left.push((name, at));
                    }
                }
                waiting = left;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let late = tokio::select! {
            done = tokio::time::timeout(limit, poll) => done.is_err(),
            e = self.until_failure() => return Err(e),
        };
        if late {
            let logs = self.data_dir.join("logs");
            return Err(CliError::new(
                "L0002",
                crate::error::Exit::Unavailable,
                format!("a service does not answer after {} s", limit.as_secs()),
            )
            .remedy(format!("see the logs in {}", logs.display())));
        }
        Ok(())
    }

    /// Ends the services, then nats-server, each within its time limit. No child is left running.
    pub async fn stop(mut self) {
        self.stop_services.cancel();
        let patience = GRACE + Duration::from_secs(2);
        let mut ended = 0;
        while ended < self.started.len() {
            match tokio::time::timeout(patience, self.tasks.join_next()).await {
                Ok(Some(_)) => ended += 1,
                _ => break,
            }
        }
        self.stop_nats.cancel();
        while let Ok(Some(_)) = tokio::time::timeout(patience, self.tasks.join_next()).await {}
        RuntimeFile::remove(&self.data_dir);
    }
}

/// Whether a service that answers `/healthz` can be used. Control cannot before its loop runs: it
/// reads no request.
fn is_ready(name: &str, health: &str) -> bool {
    let runs = || {
        let health: serde_json::Value = serde_json::from_str(health).ok()?;
        let mut checks = health.get("checks")?.as_array()?.iter();
        let check = checks.find(|check| check.get("name").is_some_and(|name| name == LOOP))?;
        check.get("ok")?.as_bool()
    };
    name != "control" || runs() == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_is_ready_when_its_loop_runs() {
        let health = |ok: bool| {
            let checks = [("bus", false), ("loop", ok)];
            let checks = checks.map(|(name, ok)| serde_json::json!({ "name": name, "ok": ok }));
            serde_json::json!({ "status": "failing", "checks": checks }).to_string()
        };
        assert!(is_ready("control", &health(true)));
        for not_yet in [health(false), String::new(), r#"{"checks":[]}"#.to_owned()] {
            assert!(!is_ready("control", &not_yet), "{not_yet}");
            assert!(is_ready("planner", &not_yet), "another one answers");
        }
    }
}
