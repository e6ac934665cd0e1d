//! The start and end of every service: arguments, configuration, telemetry, bind, bus, ready, run.
//! The first signal drains, the second exits.

use std::error::Error;
use std::future::Future;
use std::io::Read;
use std::path::Path;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, CommandFactory, FromArgMatches, Parser};
use lacuna_model::ClusterId;
use prometheus::Registry;
use tokio_util::sync::CancellationToken;

use crate::args::CommonArgs;
use crate::bus::{Bus, SimulatedServer};
use crate::clock::{ClusterClock, Stopwatch};
use crate::config::{Config, NoSections, Sections};
use crate::http::{self, Health};
use crate::leader::{self, Candidate, Leadership, Terms};
use crate::process;
use crate::supervise::{ServiceError, Tasks};
use crate::task;
use crate::telemetry;
use crate::unkept;
use crate::virtual_time::{self, Host};
use crate::watchdog;

/// The configuration cannot be used, as the service finds when it runs. It then exits with
/// [`exit::CONFIG`].
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Misconfigured(pub String);

/// Another instance of the service has become the active one. The service then exits with
/// [`exit::LOST_LEAD`].
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Superseded(pub String);

/// Exit codes, as in sysexits.h.
pub mod exit {
    /// The service ended as it should.
    pub const OK: u8 = 0;
    /// The command line is wrong.
    pub const USAGE: u8 = 2;
    /// The configuration is wrong, or an address of it cannot be used.
    pub const CONFIG: u8 = 64;
    /// No nats-server answers.
    pub const UNAVAILABLE: u8 = 69;
    /// The service failed.
    pub const INTERNAL: u8 = 70;
    /// Another instance is the active one now. Started again, this one is a standby.
    pub const LOST_LEAD: u8 = 75;
    /// Stopped by a second signal.
    pub const INTERRUPTED: u8 = 130;
}

/// How long a service may take to stop after the first signal.
const GRACE: Duration = Duration::from_secs(10);

/// The context of a running service that reads the sections `S` of the configuration.
#[derive(Debug, Clone)]
pub struct Context<S = NoSections> {
    /// The configuration in force.
    pub config: Arc<Config<S>>,
    /// The cluster.
    pub cluster: ClusterId,
    /// The bus, connected, with all streams in place.
    pub bus: Bus,
    /// The registry of the service's metrics.
    pub registry: Registry,
    /// The health checks of the service.
    pub health: Health,
    /// The cluster's time. The service updates it by following [`lacuna_wire::address::clock`].
    pub clock: ClusterClock,
    /// Supervised tasks.
    pub tasks: Tasks,
    /// Cancelled when the service must stop.
    pub shutdown: CancellationToken,
}

impl Context {
    /// The context with the service's own configuration.
    fn with<S>(self, config: Config<S>) -> Context<S> {
        Context {
            config: Arc::new(config),
            cluster: self.cluster,
            bus: self.bus,
            registry: self.registry,
            health: self.health,
            clock: self.clock,
            tasks: self.tasks,
            shutdown: self.shutdown,
        }
    }
}

#[derive(Debug, Parser)]
#[command(version)]
struct Line<A: Args> {
    #[command(flatten)]
    common: CommonArgs,
    #[command(flatten)]
    own: A,
}

/// A running service. It is boxed where it is written, so that its code is compiled once, in its
/// library, and not again in every binary and test.
pub type Running = Pin<Box<dyn Future<Output = Result<(), ServiceError>> + Send>>;

/// Runs a service; for `main`. `service` is its short name (`planner`), `A` its own arguments
/// ([`crate::NoArgs`] if it has none), `S` its sections of the configuration.
pub fn service_main<A: Args + Send + 'static, S: Sections>(
    service: &'static str,
    run: fn(Context<S>, A) -> Running,
) -> ExitCode {
    let command = Line::<A>::command()
        .name(service)
        .bin_name(format!("lacuna-{service}"))
        .display_name(format!("lacuna-{service}"))
        .about(format!("Lacuna's {service} service"));
    let line = match Line::<A>::from_arg_matches(&command.get_matches()) {
        Ok(line) => line,
        Err(e) => e.exit(),
    };
    let (common, own) = (line.common, line.own);
    let config = match common.load::<S>() {
        Ok(config) => config,
        Err(e) => return fail(service, exit::CONFIG, &e),
    };
    if common.print_config {
        return match config.print() {
            Ok(text) => {
                print!("{text}");
                ExitCode::from(exit::OK)
            }
            Err(e) => fail(service, exit::CONFIG, &e),
        };
    }
    if common.check_config {
        return ExitCode::from(exit::OK);
    }
    let shared = config.shared();
    let run = Box::new(move |context: Context| run(context.with(config), own));
    start(service, &common, shared, run)
}

/// The main function of a service, with its arguments and sections. The shell knows neither, so that
/// it is compiled once.
type Run = Box<dyn FnOnce(Context) -> Running + Send>;

fn start(service: &'static str, common: &CommonArgs, config: Config, run: Run) -> ExitCode {
    if let Err(e) = telemetry::init(&config.telemetry) {
        return fail(service, exit::CONFIG, &e);
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(e) => return fail(service, exit::INTERNAL, &e),
    };
    let code = runtime.block_on(live(service, common, config, run));
    runtime.shutdown_timeout(Duration::from_secs(1));
    ExitCode::from(code)
}

/// Writes to standard error why the service does not run.
fn fail(service: &str, code: u8, error: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("lacuna-{service}: {error}");
    ExitCode::from(code)
}

async fn live(service: &'static str, common: &CommonArgs, config: Config, run: Run) -> u8 {
    let registry = Registry::new();
    if let Err(error) = process::export(&registry) {
        tracing::warn!(%error, "usage of the process is not exported");
    }
    let health = Health::default();
    let shutdown = CancellationToken::new();
    watch_signals(shutdown.clone());
    watch_parent(shutdown.clone());
    let listener = match http::bind(common.listen.unwrap_or_else(|| config.http.of(service))).await
    {
        Ok(listener) => listener,
        Err(e) => {
            tracing::error!("{e}");
            return exit::CONFIG;
        }
    };
    let Ok(listening) = listener.local_addr() else {
        return exit::INTERNAL;
    };
    tracing::info!(service, address = %listening, "listening");
    let tasks = Tasks::new(shutdown.clone());
    // Health and metrics are served a little longer than the service runs.
    let http_stop = CancellationToken::new();
    let server = task::spawn(http::serve(
        listener,
        registry.clone(),
        health.clone(),
        http_stop.clone(),
    ));
    watchdog::start(health.clone());
    let bus = Bus::connect(&config.bus, &config.cluster.id, service, &registry, &health);
    let bus = tokio::select! {
        biased;
        bus = bus => bus,
        () = shutdown.cancelled() => return exit::OK,
    };
    let bus = match bus {
        Ok(bus) => bus,
        Err(e) => {
            tracing::error!("{e}");
            return exit::UNAVAILABLE;
        }
    };
    let shell = Shell {
        service,
        config,
        bus,
        registry,
        health,
        tasks,
        shutdown,
    };
    let code = shell.serve(&leader::seat(listening), run).await;
    http_stop.cancel();
    let _ = tokio::time::timeout(Duration::from_secs(1), server).await;
    code
}

/// Runs a service on a host over a simulated server, until it ends or the host is killed. It serves
/// no metrics and handles no signals. It reads its sections of `config` as from a file.
pub fn simulate<T: Sections, S: Sections>(
    host: &Host,
    service: &'static str,
    server: &SimulatedServer,
    config: &Config<T>,
    run: impl FnOnce(Context<S>) -> Running + Send + 'static,
) {
    let (server, file) = (server.clone(), config.print());
    host.spawn(async move {
        let code = match read::<S>(file) {
            Ok(config) => {
                let shared = config.shared();
                let run = Box::new(move |context: Context| run(context.with(config)));
                simulated(service, shared, &server, run).await
            }
            Err(error) => {
                tracing::error!("{error}");
                exit::CONFIG
            }
        };
        task::exit(code).await
    });
}

/// The configuration that another program has printed.
fn read<S: Sections>(
    file: Result<String, toml::ser::Error>,
) -> Result<Config<S>, Box<dyn Error + Send + Sync>> {
    Ok(Config::parse(&file?, Path::new("simulated"))?)
}

async fn simulated(
    service: &'static str,
    config: Config,
    server: &SimulatedServer,
    run: Run,
) -> u8 {
    let (registry, health) = (Registry::new(), Health::default());
    let id = config.cluster.id.clone();
    let bus = Bus::simulated(server, &config.bus, &id, service, &registry, &health).await;
    let bus = match bus {
        Ok(bus) => bus,
        Err(error) => {
            tracing::error!("{error}");
            return exit::UNAVAILABLE;
        }
    };
    let shutdown = CancellationToken::new();
    let shell = Shell {
        service,
        config,
        bus,
        registry,
        health,
        tasks: Tasks::new(shutdown.clone()),
        shutdown,
    };
    let host = virtual_time::host();
    let seat = host.as_ref().map_or(service, |host| host.name());
    shell.serve(seat, run).await
}

/// The environment of a connected service.
struct Shell {
    service: &'static str,
    config: Config,
    bus: Bus,
    registry: Registry,
    health: Health,
    tasks: Tasks,
    shutdown: CancellationToken,
}

impl Shell {
    /// Takes the leadership, runs the service, and gives the exit code. `seat` is the location by
    /// which a later instance recognises that this one has ended.
    async fn serve(self, seat: &str, run: Run) -> u8 {
        let Self {
            service,
            config,
            bus,
            registry,
            health,
            tasks,
            shutdown,
        } = self;
        let lead = match take_leadership(&bus, &config, seat, &registry, &health, &shutdown).await {
            Ok(lead) => lead,
            Err(code) => {
                bus.close().await;
                return code;
            }
        };
        let resign = CancellationToken::new();
        let keeper = task::spawn(keep_leadership(lead, resign.clone()));
        let context = Context {
            cluster: config.cluster.id.clone(),
            config: Arc::new(config),
            bus: bus.clone(),
            registry,
            health,
            clock: ClusterClock::new(),
            tasks: tasks.clone(),
            shutdown: shutdown.clone(),
        };
        tracing::info!(service, cluster = %context.cluster, "ready");
        let ended = tokio::select! {
            biased;
            ended = run(context) => Some(ended),
            () = async { shutdown.cancelled().await; tokio::time::sleep(GRACE).await } => None,
        };
        shutdown.cancel();
        let mut code = exit::OK;
        match ended {
            Some(Ok(())) => {}
            Some(Err(error)) => {
                tracing::error!(service, %error, "service failed");
                code = if error.is::<Misconfigured>() {
                    exit::CONFIG
                } else if error.is::<Superseded>() {
                    exit::LOST_LEAD
                } else {
                    exit::INTERNAL
                };
            }
            None => {
                tracing::error!(service, "service did not stop in time");
                code = exit::INTERNAL;
            }
        }
        tasks.finish(GRACE).await;
        if tasks.failure().is_some() {
            code = exit::INTERNAL;
        }
        // A standby continues at once.
        resign.cancel();
        let _ = keeper.await;
        bus.close().await;
        tracing::info!(service, code, "stopped");
        code
    }
}

/// Waits for the leadership, if the service has one. An error is the exit code of a service that is
/// stopped before.
async fn take_leadership(
    bus: &Bus,
    config: &Config,
    seat: &str,
    registry: &Registry,
    health: &Health,
    shutdown: &CancellationToken,
) -> Result<Option<Leadership>, u8> {
    if !leader::is_led(bus.service()) {
        return Ok(None);
    }
    let terms = Terms {
        length: config.cluster.lead.to_std(),
        still: config.cluster.still.to_std(),
    };
    let candidate = Candidate::new(bus, seat.to_owned(), terms, registry, health);
    let candidate = candidate.map_err(|e| {
        tracing::error!("{e}");
        exit::INTERNAL
    })?;
    let says_why = async {
        match bus.service() {
            "control" => unkept::answer(bus).await,
            _ => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        lead = candidate.wait() => Ok(Some(lead)),
        () = shutdown.cancelled() => Err(exit::OK),
        () = says_why => Err(exit::INTERNAL),
    }
}

/// Keeps the leadership until the service resigns. If it is lost, the process ends at once, so that
/// it writes nothing more.
async fn keep_leadership(lead: Option<Leadership>, resign: CancellationToken) {
    let Some(lead) = lead else {
        return;
    };
    match lead.keep(&resign).await {
        Ok(lead) => lead.resign().await,
        Err(lost) => {
            tracing::error!(code = exit::LOST_LEAD, "{lost}, ending at once");
            task::exit(exit::LOST_LEAD).await;
        }
    }
}

/// Signals within this time belong to one event: a scheduler's daemon and its launcher both send
/// SIGTERM, some milliseconds apart.
const ONE_EVENT_S: f64 = 1.0;

/// The first SIGINT or SIGTERM drains, the second exits.
fn watch_signals(shutdown: CancellationToken) {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
    ) else {
        tracing::warn!("signals cannot be handled");
        return;
    };
    task::spawn(async move {
        let mut first: Option<Stopwatch> = None;
        loop {
            tokio::select! {
                biased;
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            if first.as_ref().is_some_and(|w| w.seconds() < ONE_EVENT_S) {
                continue;
            }
            first.get_or_insert_with(Stopwatch::start);
            if shutdown.is_cancelled() {
                tracing::warn!("second signal, exiting at once");
                std::process::exit(i32::from(exit::INTERRUPTED));
            }
            tracing::info!("signal, stopping");
            shutdown.cancel();
        }
    });
}

/// With `LACUNA_PARENT_PIPE=1`, the end of standard input means that the parent has ended.
fn watch_parent(shutdown: CancellationToken) {
    if std::env::var_os("LACUNA_PARENT_PIPE").is_none_or(|v| v != "1") {
        return;
    }
    std::thread::spawn(move || {
        let mut buffer = [0; 64];
        let mut input = std::io::stdin().lock();
        while input.read(&mut buffer).is_ok_and(|n| n > 0) {}
        tracing::info!("parent is gone, stopping");
        shutdown.cancel();
    });
}
