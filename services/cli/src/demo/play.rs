//! The visible part: trainers are submitted, the machine plays, the view is drawn.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use lacuna_model::{Timestamp, TrainerId, TrainerRecord};
use lacuna_wire::address;
use lacuna_wire::msg::{Clock, Reply, Request, Totals};

use super::input::Input;
use crate::client::{Client, unexpected};
use crate::commands::submit::submit_all;
use crate::error::{CliError, Exit, Result};
use crate::live::{Collector, Screen, Surface, ViewModel, render, status_line};
use crate::output;

/// The parameters of the demonstration.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Playback {
    /// Its duration.
    pub(crate) wall: Duration,
    /// Recorded seconds per second.
    pub(crate) rate: f64,
    /// Whether nothing is drawn.
    pub(crate) quiet: bool,
}

/// The observations of the demonstration.
#[derive(Debug, Clone)]
pub(crate) struct Played {
    /// The last view model.
    pub(crate) last: ViewModel,
    /// The totals over time.
    pub(crate) readings: Vec<Totals>,
    /// Each trainer that was ever admitted.
    pub(crate) trainers: Vec<TrainerRecord>,
    /// Latencies of plans, seconds, sorted.
    pub(crate) latencies: Vec<f64>,
    /// The sizes of each trainer, with their first moments.
    pub(crate) sizes: HashMap<TrainerId, Vec<(Timestamp, u32)>>,
    /// Lengths of the holes that opened and ended during the demonstration, seconds.
    pub(crate) holes_s: Vec<f64>,
    /// Whether a signal ended it.
    pub(crate) interrupted: bool,
}

const REDRAW: Duration = Duration::from_millis(250);
const LINE_EVERY: f64 = 5.0;

/// Waits for the start of the trace.
async fn first_tick(client: &Client) -> Result<Clock> {
    let mut clock = client.follow(&address::clock(client.cluster())).await?;
    let silent = || {
        CliError::new(
            "L0002",
            Exit::Unavailable,
            "lacuna-ingest does not start the trace",
        )
        .remedy("its log is logs/ingest.log; run with --data-dir to keep it")
    };
    let first = tokio::time::timeout(Duration::from_secs(30), clock.next()).await;
    first.map_err(|_| silent())?.ok_or_else(silent)
}

/// The output of the view.
struct Display {
    screen: Option<Screen>,
    next_line: f64,
}

impl Display {
    fn show(&mut self, model: &ViewModel) -> Result<()> {
        let Some(screen) = &mut self.screen else {
            return Ok(());
        };
        if screen.surface() == Surface::Terminal {
            let (width, height) = screen.size();
            screen.draw(&render(model, width, height, screen.palette()));
        } else if model.wall_s >= self.next_line {
            self.next_line += LINE_EVERY;
            output::print(&status_line(model))?;
        }
        Ok(())
    }
}

/// Plays until the time is over or a signal comes.
///
/// # Errors
/// A service does not answer.
pub(crate) async fn play(
    client: &Client,
    input: &Input,
    playback: &Playback,
    stop: &CancellationToken,
) -> Result<Played> {
    tokio::select! {
        tick = first_tick(client) => { tick?; }
        () = stop.cancelled() => return Err(CliError::failed("interrupted before the start")),
    }
    let title = format!("lacuna demo: {} at {}x", input.title, playback.rate);
    let mut collector = Collector::start(client.clone(), title).await?;
    submit_all(client, input.trainers.clone(), BTreeMap::new(), false).await?;
    let mut display = Display {
        screen: (!playback.quiet).then(Screen::new),
        next_line: 0.0,
    };
    let mut ticks = tokio::time::interval(REDRAW);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut last = collector.view_model(Some(playback.wall)).await?;
    let wall = playback.wall.as_secs_f64();
    while collector.seconds() < wall && !stop.is_cancelled() {
        tokio::select! {
            () = stop.cancelled() => {}
            _ = ticks.tick() => {
                // A service that is restarting answers a moment later.
                if let Ok(model) = collector.view_model(Some(playback.wall)).await {
                    display.show(&model)?;
                    last = model;
                }
            }
        }
    }
    drop(display);
    let trainers = match client.ask(Request::Trainers { all: true }).await? {
        Reply::Trainers { trainers, .. } => trainers
            .into_iter()
            .filter(|t| t.started.is_some())
            .collect(),
        other => return Err(unexpected(other)),
    };
    Ok(Played {
        last,
        readings: collector.readings().to_vec(),
        trainers,
        latencies: collector.latencies(),
        sizes: collector.sizes(),
        holes_s: collector.holes_s(),
        interrupted: stop.is_cancelled(),
    })
}
