//! `lacuna top`: the live view of a running cluster.

use std::time::Duration;

use clap::Args;

use crate::client::{Client, ConnectArgs};
use crate::error::Result;
use crate::live::{Collector, Screen, Surface, render, status_line};
use crate::output;
use crate::up::stop_token;

/// Arguments of `top`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lacuna top
  lacuna top | tee top.log          one line a second

Efficiency is samples done over those of the same trainers on as many dedicated nodes as were idle
on average, in the same time. Where it is unknown, the reason is shown.")]
pub(crate) struct TopArgs {
    /// End after this many redraws
    #[arg(long, short = 'n')]
    count: Option<u64>,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Runs `top`.
///
/// # Errors
/// NATS or control does not answer.
pub(crate) async fn run(args: TopArgs) -> Result<()> {
    let stop = stop_token();
    let client = Client::connect(&args.connect).await?;
    let title = format!("lacuna: cluster {}", client.cluster());
    let mut collector = Collector::start(client, title).await?;
    let mut screen = Screen::new();
    let mut left = args.count.unwrap_or(u64::MAX);
    while left > 0 {
        let model = collector.view_model(None).await?;
        if screen.surface() == Surface::Terminal {
            let (width, height) = screen.size();
            screen.draw(&render(&model, width, height, screen.palette()));
        } else {
            output::print(&status_line(&model))?;
        }
        left -= 1;
        if left == 0 {
            break;
        }
        tokio::select! {
            () = stop.cancelled() => break,
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
        }
    }
    Ok(())
}
