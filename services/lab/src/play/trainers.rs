//! Simulated researchers: they keep a constant number of trainers waiting or training.

use std::time::Duration;

use clap::Args;
use serde_json::json;

use lacuna_cli::client::{Client, ConnectArgs, unexpected};
use lacuna_cli::error::{CliError, Result};
use lacuna_cli::output::{self, JsonArg};
use lacuna_cli::shufflenet;
use lacuna_cli::up::stop_token;
use lacuna_model::{Timestamp, TrainerId, TrainerSpec, Work};
use lacuna_wire::msg::{Reply, Request};

use super::machine::parse_rate;

/// Arguments of `play trainers`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna-lab play trainers
  lacuna-lab play trainers --at-a-time 8 --rate 60 --count 100

Simulated trainers follow the curve of ShuffleNet on ImageNet of arXiv 2106.12091; they learn
nothing and need no GPU. With --rate 60 their restarts cost a sixtieth of the published costs, to
fit a machine that is played at that speed.")]
pub(crate) struct TrainersArgs {
    /// Number of trainers that wait or train at any time
    #[arg(long, default_value_t = 10)]
    at_a_time: usize,
    /// Factor by which their restarts are quicker
    #[arg(long, default_value_t = 60.0, value_parser = parse_rate)]
    rate: f64,
    /// Samples of each trainer
    #[arg(long, default_value_t = 2e6)]
    samples: f64,
    /// End after this many submissions
    #[arg(long)]
    count: Option<usize>,
    #[command(flatten)]
    json: JsonArg,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// The interval between checks of the queue.
const LOOK_EVERY: Duration = Duration::from_secs(2);

fn trainer(number: usize, prefix: &str, args: &TrainersArgs) -> Option<TrainerSpec> {
    let mut spec = shufflenet(0, Timestamp::default())?;
    spec.id = TrainerId::new(format!("{prefix}-{number:05}")).ok()?;
    spec.work = Work::Samples(args.samples);
    spec.rescale = spec.rescale.scaled(1.0 / args.rate);
    Some(spec)
}

/// The number of these trainers that wait or train.
async fn present(client: &Client, prefix: &str) -> Result<usize> {
    match client.ask(Request::Trainers { all: false }).await? {
        Reply::Trainers { trainers, .. } => {
            let ours = |id: &TrainerId| id.as_str().starts_with(prefix);
            Ok(trainers.iter().filter(|t| ours(&t.spec.id)).count())
        }
        other => Err(unexpected(other)),
    }
}

pub(super) async fn run(args: TrainersArgs) -> Result<()> {
    let stop = stop_token();
    let client = Client::connect(&args.connect).await?;
    // Names are unique forever, so each process has its own prefix.
    let prefix = format!("play-{}", client.bus().instance().get(..6).unwrap_or("0"));
    let most = args.count.unwrap_or(usize::MAX);
    let mut submitted = 0;
    while submitted < most && !stop.is_cancelled() {
        match fill(&client, &prefix, submitted, most, &args).await {
            Ok(now) => submitted = now,
            // Control may be restarting; the simulation continues when it answers.
            Err(error) if error.code.as_deref() == Some("L0002") => {
                eprintln!("lacuna-lab: {error}; trying again");
            }
            Err(error) => return Err(error),
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = stop.cancelled() => {}
        }
    }
    client.close().await;
    if args.json.json {
        return output::print_json(&json!({ "submitted": submitted }));
    }
    output::print(&format!("{submitted} trainers submitted"))
}

/// Submits the missing trainers; returns the number of all submissions so far.
async fn fill(
    client: &Client,
    prefix: &str,
    mut submitted: usize,
    most: usize,
    args: &TrainersArgs,
) -> Result<usize> {
    let wanted = args
        .at_a_time
        .saturating_sub(present(client, prefix).await?);
    for _ in 0..wanted.min(most - submitted) {
        let spec = trainer(submitted, prefix, args)
            .ok_or_else(|| CliError::failed("the built-in trainer cannot be made"))?;
        let request = Request::Submit {
            trainers: vec![spec],
            tickets: std::collections::BTreeMap::new(),
            test_only: false,
        };
        match client.ask(request).await? {
            Reply::Accepted { .. } => submitted += 1,
            // The answer to an earlier submission was lost, so the name is taken by this process.
            Reply::Refused { code, .. } if code == "L0008" => submitted += 1,
            other => return Err(unexpected(other)),
        }
    }
    Ok(submitted)
}
