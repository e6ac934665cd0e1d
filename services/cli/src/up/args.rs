//! `lacuna up`: its arguments and its output.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use lacuna_model::{ClusterId, Timestamp};
use lacuna_runtime::clock::Stopwatch;
use lacuna_scheduler::ingest::{Recording, RecordingPace};

use super::child::ChildEvent;
use super::preflight;
use super::runtime_file::{RuntimeFile, default_data_dir};
use super::stop::stop_token;
use super::supervisor::{Settings, Supervisor, SupervisorEvent};
use crate::Config;
use crate::commands::config;
use crate::error::Result;
use crate::output::{self, JsonArg, parse_time};

/// Arguments of `up`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna up                                     in ~/.local/state/lacuna, on free ports
  lacuna up --data-dir /tmp/try --nats-port 4222
  lacuna up --config lacuna.toml
  lacuna up --secure                            with keys, permissions and TLS
  lacuna up --holes holes.csv.gz --first-nodes 1024 --rate 600
  lacuna up --model model.lacuna                forecasts start with what `lacuna forecast learn` found

Addresses of [http] in the configuration are kept; a default one becomes a free port. Other
commands find the cluster through up.json in the data directory. A service that dies is restarted
after 0.2 s, then after twice as long each time, up to 5 s. After ten deaths without half a minute
of calm everything ends (L0014), unless the disk is full: then restarts go on until there is room.
It ends at once if a service reports a wrong configuration (exit code 64), unless the fault is an
address that another program has taken. A trace is read whole before anything starts. Ctrl-C or
SIGTERM ends everything in order; a second one ends it at once. Logs are in the data
directory under logs/.")]
pub(crate) struct UpArgs {
    /// Folder for data, logs and up.json
    #[arg(long, value_name = "DIR", env = "LACUNA_DATA_DIR")]
    data_dir: Option<PathBuf>,
    /// Configuration of the services (TOML)
    #[arg(long, value_name = "FILE", env = "LACUNA_CONFIG")]
    config: Option<PathBuf>,
    /// Name of the cluster
    #[arg(long, value_name = "ID", env = "LACUNA_CLUSTER")]
    cluster: Option<ClusterId>,
    /// Port of the nats-server [default: a free one]
    #[arg(long, value_name = "PORT")]
    nats_port: Option<u16>,
    /// Play a trace of a machine: a hole list (CSV, plain or gzip)
    #[arg(long, value_name = "FILE")]
    holes: Option<PathBuf>,
    /// Planned starts of the trace: a CSV file, at,node,start (plain or gzip)
    #[arg(long, value_name = "FILE", requires = "holes")]
    planned: Option<PathBuf>,
    /// Order of the nodes of the trace, one a line
    #[arg(long, value_name = "FILE", requires = "holes")]
    nodes_file: Option<PathBuf>,
    /// Play only the first N nodes
    #[arg(long, value_name = "N", requires = "holes")]
    first_nodes: Option<usize>,
    /// Recorded seconds per second
    #[arg(long, default_value_t = 1.0, requires = "holes")]
    rate: f64,
    /// Start in the trace
    #[arg(long, value_name = "TIME", requires = "holes", value_parser = parse_time)]
    start: Option<Timestamp>,
    /// Advance the time of the trace when the loop has settled, instead of at --rate
    #[arg(long, requires = "holes", conflicts_with = "rate")]
    lock_step: bool,
    /// Start forecasts with the model that `lacuna forecast learn` wrote, as the setting
    /// forecast.model does
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Give each user a key and encrypt: nats-server then verifies its users. The keys are kept in
    /// the data directory, under keys/
    #[arg(long, env = "LACUNA_SECURE", value_parser = clap::builder::FalseyValueParser::new())]
    secure: bool,
    /// Also print the logs of the services
    #[arg(long, short)]
    verbose: bool,
    /// Print the content of up.json, as the one JSON value, when everything is up
    #[command(flatten)]
    json: JsonArg,
}

impl UpArgs {
    fn settings(&self) -> Result<Settings> {
        let mut config: Config = config::load(self.config.as_ref())?;
        if let Some(cluster) = &self.cluster {
            config.cluster.id = cluster.clone();
        }
        if let Some(path) = &self.holes {
            config.ingest.recording = Some(Recording {
                path: absolute(path)?,
                planned_file: self.planned.as_deref().map(absolute).transpose()?,
                nodes_file: self.nodes_file.as_deref().map(absolute).transpose()?,
                first_nodes: self.first_nodes,
                pace: if self.lock_step {
                    RecordingPace::LockStep
                } else {
                    RecordingPace::Scaled
                },
                rate: self.rate,
                start: self.start,
                end: None,
            });
        }
        if let Some(model) = &self.model {
            config.forecast.model = Some(absolute(model)?);
        }
        // One machine runs its own agents, so no list of nodes is needed.
        config.ingest.any_node |= self.secure;
        config.check().map_err(|e| {
            crate::error::CliError::new("L0003", crate::error::Exit::Config, e.to_string())
        })?;
        preflight::check(&config.ingest)?;
        Ok(Settings {
            data_dir: self.data_dir.clone().unwrap_or_else(default_data_dir),
            config,
            nats_port: self.nats_port,
        })
    }
}

fn absolute(path: &Path) -> Result<PathBuf> {
    path.canonicalize()
        .map_err(|e| crate::error::file_error("find", path, &e))
}

fn describe(file: &RuntimeFile, data_dir: &Path, seconds: f64) -> String {
    let kept = format!("{} (kept for the next `lacuna up`)", data_dir.display());
    let mut rows = vec![("data", kept), ("nats", file.nats.clone())];
    let services: Vec<(String, String)> = file
        .http
        .iter()
        .map(|(name, at)| (name.clone(), format!("http://{at}/metrics and /healthz")))
        .collect();
    rows.extend(services.iter().map(|(n, v)| (n.as_str(), v.clone())));
    rows.extend(file.page.clone().map(|page| ("page", page)));
    if data_dir != default_data_dir() {
        // So do commands in another terminal find the services.
        let folder = std::path::absolute(data_dir).unwrap_or_else(|_| data_dir.to_owned());
        rows.push((
            "for commands",
            format!("export LACUNA_DATA_DIR={}", folder.display()),
        ));
    }
    format!(
        "{}\nup after {seconds:.1} s; Ctrl-C ends everything\n",
        crate::table::key_values(&rows)
    )
}

fn show(event: &ChildEvent, verbose: bool) {
    match event {
        ChildEvent::Line { name, line } if verbose => {
            output::print_error(&format!("{name:>8} | {line}"));
        }
        ChildEvent::Died { name, how, pause } => output::print_error(&format!(
            "lacuna: {name} died ({how}); starting it again in {:.1} s",
            pause.as_secs_f64()
        )),
        ChildEvent::Full { name, store } => output::print_error(&format!(
            "lacuna: {name} finds no room below {}: nothing more is kept; make room there",
            store.display()
        )),
        ChildEvent::Renewed { name } => output::print_error(&format!(
            "lacuna: there is room again; starting {name} again"
        )),
        ChildEvent::Line { .. } | ChildEvent::Started { .. } => {}
    }
}

/// Runs `up` until a signal comes or the supervisor gives up a child.
///
/// # Errors
/// The start failed, or the supervisor has given up a child.
pub(crate) async fn run(args: UpArgs) -> Result<()> {
    let stop = stop_token();
    let watch = Stopwatch::start();
    let settings = args.settings()?;
    let data_dir = settings.data_dir.clone();
    let mut supervisor = if args.secure {
        Supervisor::start_secure(settings).await?
    } else {
        Supervisor::start(settings).await?
    };
    supervisor.start_ingest()?;
    let ready = tokio::select! {
        ready = supervisor.wait_until_ready(Duration::from_secs(30)) => ready,
        () = stop.cancelled() => Ok(()),
    };
    let mut outcome = ready;
    if outcome.is_ok() && !stop.is_cancelled() {
        let said = if args.json.json {
            output::print_json(&supervisor.file)
        } else {
            output::print(&describe(&supervisor.file, &data_dir, watch.seconds()))
        };
        // The services are up, and up.json names them, even if nothing can be printed.
        if let Err(error) = said {
            output::print_error(&format!("lacuna: {error}"));
        }
    }
    while outcome.is_ok() {
        tokio::select! {
            () = stop.cancelled() => break,
            event = supervisor.next() => match event {
                SupervisorEvent::Child(event) => show(&event, args.verbose),
                SupervisorEvent::GaveUp(e) => outcome = Err(e),
            },
        }
    }
    if stop.is_cancelled() {
        output::print_error(
            "lacuna: all services end in order; Ctrl-C once more ends them at once",
        );
    }
    supervisor.stop().await;
    outcome
}
