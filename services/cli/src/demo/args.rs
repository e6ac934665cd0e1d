//! Arguments of `lacuna demo`, and its course.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use tokio_util::sync::CancellationToken;

use lacuna_model::Span;
use lacuna_runtime::clock::Stopwatch;
use lacuna_scheduler::ingest::{Recording, RecordingPace};

use super::input::{self, Input};
use super::{outcome, play, report};
use crate::Config;
use crate::client::Client;
use crate::error::{Result, file_error};
use crate::output::{self, JsonArg, parse_span};
use crate::up::{Settings, Supervisor, stop_token};

/// Arguments of `demo`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna demo
  lacuna demo --wall 30s --report /tmp/demo.html
  lacuna demo --nodes 256 --data none            a generated machine

The demonstration starts a nats-server and all services in a temporary folder, on free ports. It
plays the first --nodes nodes of the recorded machine in --data (or, without one, of a generated
machine) at --rate times its speed. It trains 1,000 equal trainers in its holes, ten at a time,
and draws the cluster. On a terminal it redraws in place; elsewhere it prints a line every five
seconds.

How to read it:
  pool           nodes idle now, and how many of them train
  harvested      node-hours under a lease, the idle node-hours, and the share used
  efficiency U   samples done over those of the same trainers on as many dedicated nodes; - with
                 the reason where it is not known
  lost           samples lost over samples done: stalls at a change of size, and repeated work
                 that no checkpoint covers
  preemptions    losses of nodes of a trainer to the main scheduler
  rescales       changes of a trainer's size by the planner
  plan latency   from the newest pool or trainers at the planner to its plan")]
pub(crate) struct DemoArgs {
    /// Folder with recorded data; `none` for a generated machine [default: LACUNA_DATA, else
    /// ../shared/data if it is there]
    #[arg(long, value_name = "DIR", env = "LACUNA_DATA")]
    data: Option<PathBuf>,
    /// Duration of the demonstration
    #[arg(long, default_value = "120s", value_parser = parse_span)]
    wall: Span,
    /// Recorded seconds per second
    #[arg(long, default_value_t = 600.0)]
    rate: f64,
    /// Number of nodes of the machine
    #[arg(long, default_value_t = 1024)]
    nodes: u32,
    /// Number of trainers admitted at a time
    #[arg(long, default_value_t = 10)]
    max_parallel: u32,
    /// File of the report
    #[arg(long, value_name = "FILE", default_value = "lacuna-demo.html")]
    report: PathBuf,
    /// Seed of the generated machine
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Keep data and logs in this folder instead of a temporary one
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    json: JsonArg,
}

fn config(args: &DemoArgs, input: &Input) -> Config {
    let mut config = Config::default();
    config.ingest.recording = Some(Recording {
        path: input.holes.clone(),
        planned_file: None,
        nodes_file: input.nodes_file.clone(),
        first_nodes: Some(args.nodes as usize),
        pace: RecordingPace::Scaled,
        rate: args.rate,
        start: Some(input.start),
        end: None,
    });
    config.control.max_parallel = args.max_parallel;
    // At 600 times its speed a second is ten minutes of the machine. Reports and reconciliation are
    // therefore more frequent than on a real one, so that the end of a trainer is seen within a
    // recorded minute.
    let often = Span::from_ms(100);
    config.agent.report_every = often;
    config.control.reconcile_every = Span::from_ms(500);
    config.planner.debounce = Span::from_ms(2);
    config.forecast.publish_every = Span::from_ms(5);
    config
}

/// Runs the demonstration.
///
/// # Errors
/// A program is missing, a service keeps dying, or the report cannot be written.
pub(crate) async fn run(args: DemoArgs) -> Result<()> {
    let stop = stop_token();
    report::require_writable(&args.report)?;
    let mut spent = outcome::TimeSpent::default();
    let watch = Stopwatch::start();
    let temporary = tempfile::Builder::new()
        .prefix("lacuna-demo-")
        .tempdir()
        .map_err(|e| file_error("make", &std::env::temp_dir(), &e))?;
    let folder = args
        .data_dir
        .clone()
        .unwrap_or_else(|| temporary.path().to_owned());
    std::fs::create_dir_all(&folder).map_err(|e| file_error("make", &folder, &e))?;
    let shown = Span::from_secs_f64(args.wall.as_secs_f64() * args.rate);
    let input = input::find(args.data.as_deref(), args.nodes, args.seed, shown, &folder)?;
    spent.prepare_s = watch.seconds();
    if !args.json.json {
        output::print(&format!("{}\n{}\n", input.machine, input.workload))?;
    }

    let watch = Stopwatch::start();
    let settings = Settings {
        data_dir: folder,
        config: config(&args, &input),
        nats_port: None,
    };
    let mut supervisor = Supervisor::start(settings).await?;
    let ready = tokio::select! {
        ready = supervisor.wait_until_ready(Duration::from_secs(30)) => ready,
        () = stop.cancelled() => Ok(()),
    };
    spent.start_s = watch.seconds();

    let watch = Stopwatch::start();
    let played = match ready {
        Ok(()) => {
            let plan = play::Playback {
                wall: args.wall.to_std(),
                rate: args.rate,
                quiet: args.json.json,
            };
            play_with(&mut supervisor, &input, &plan, &stop).await
        }
        Err(e) => Err(e),
    };
    spent.play_s = watch.seconds();
    // Everything is stopped, whatever the result of the demonstration.
    let watch = Stopwatch::start();
    let deaths = supervisor.deaths;
    supervisor.stop().await;
    let played = played?;
    let mut outcome = outcome::Outcome::new(&input, &played, deaths, &spent, &args.report);
    let document = report::fill(&input, &played, &outcome, args.rate, args.max_parallel);
    report::write(&args.report, &document)?;
    outcome.spent.end_s = watch.seconds();
    if args.json.json {
        output::print_json(&outcome)
    } else {
        output::print(&outcome.table())
    }
}

async fn play_with(
    supervisor: &mut Supervisor,
    input: &Input,
    playback: &play::Playback,
    stop: &CancellationToken,
) -> Result<play::Played> {
    let client = Client::at(&supervisor.file.nats, &supervisor.file.cluster).await?;
    supervisor.start_ingest()?;
    let played = tokio::select! {
        played = play::play(&client, input, playback, stop) => played,
        e = supervisor.until_failure() => Err(e),
    };
    client.close().await;
    played
}
