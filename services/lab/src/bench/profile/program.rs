//! The profiled program, played in virtual time: its rate follows its true curve, with noise.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::time::{Instant, interval_at, sleep};

use lacuna_agent_service::{LauncherEvent, Order, Played, StandIn};
use lacuna_model::{Assignment, Elastic, Progress, RescaleCost};
use lacuna_runtime::clock::wall;

/// Time between two reports, the default of `agent.report_every`.
const REPORT: Duration = Duration::from_secs(5);

/// The true behaviour of the program.
#[derive(Debug, Clone)]
pub(super) struct Truth {
    /// Samples/s at 1, 2, ... nodes.
    pub(super) rates: Vec<f64>,
    /// Relative standard deviation of the rate in one report.
    pub(super) noise: f64,
    /// Seconds of training that growing and shrinking cost.
    pub(super) rescale: RescaleCost,
    /// Seconds that a program takes to start.
    pub(super) start_s: f64,
    /// The reaction of the program to a change of its nodes.
    pub(super) elastic: Elastic,
}

/// The program on all its nodes.
#[derive(Debug)]
pub(super) struct Program {
    truth: Truth,
    life: Mutex<Life>,
}

#[derive(Debug)]
struct Life {
    rng: ChaCha8Rng,
    /// Nodes of the newest incarnation.
    nodes: Option<u32>,
}

/// An incarnation, as its rank 0 counts it.
#[derive(Debug)]
struct Training {
    part: Assignment,
    /// The moment up to which samples are counted; the end of the pause at first.
    upto: Instant,
    samples: f64,
}

impl Program {
    pub(super) fn new(truth: Truth, seed: u64) -> Self {
        let rng = ChaCha8Rng::seed_from_u64(seed);
        let life = Mutex::new(Life { rng, nodes: None });
        Self { truth, life }
    }

    /// Begins an incarnation on a node; nothing unless that has rank 0.
    fn begin(&self, part: &Assignment) -> Option<Training> {
        if part.rank != 0 {
            return None;
        }
        let mut life = self.life.lock().unwrap_or_else(PoisonError::into_inner);
        let pause = match life.nodes.replace(part.nodes) {
            None => self.truth.start_s,
            Some(before) if before < part.nodes => self.truth.rescale.up_s,
            Some(_) => self.truth.rescale.down_s,
        };
        Some(Training {
            part: part.clone(),
            upto: Instant::now() + Duration::from_secs_f64(pause),
            samples: 0.0,
        })
    }

    /// The factor on the rate since the last report.
    fn noise(&self) -> f64 {
        let mut life = self.life.lock().unwrap_or_else(PoisonError::into_inner);
        // A sum of twelve uniform numbers is nearly normal, and bounded.
        let sum: f64 = (0..12).map(|_| life.rng.random_range(-0.5..0.5)).sum();
        (1.0 + sum * self.truth.noise).max(0.0)
    }

    /// Counts the samples up to now, and reports them.
    fn report(&self, training: &mut Training, on: &Played) {
        let (now, nodes) = (Instant::now(), training.part.nodes);
        let trained = now.saturating_duration_since(training.upto).as_secs_f64();
        let rate = self.truth.rates.get((nodes as usize).wrapping_sub(1));
        training.samples += trained * rate.copied().unwrap_or(0.0) * self.noise();
        training.upto = training.upto.max(now);
        let (trainer, run) = (training.part.trainer.clone(), training.part.run);
        let progress = Progress {
            world_size: nodes,
            // It saves at each report: no size is tried at the price of work.
            saved: Some(training.samples),
            ..Progress::new(on.node.clone(), trainer, run, wall(), training.samples)
        };
        let _ = on.events.send(LauncherEvent::Progress(progress));
    }

    async fn live(&self, mut on: Played) -> i32 {
        let mut training = on.member.then(|| self.begin(&on.assignment)).flatten();
        let mut reports = interval_at(Instant::now() + REPORT, REPORT);
        let start = sleep(Duration::from_secs_f64(self.truth.start_s));
        tokio::pin!(start);
        let mut starts = !on.member;
        loop {
            tokio::select! {
                biased;
                order = on.orders.recv() => match order {
                    Some(Order::Run(next)) => {
                        starts = false;
                        training = self.begin(&next);
                    }
                    Some(Order::Leave(_)) | None => return 0,
                },
                () = &mut start, if starts => {
                    starts = false;
                    let (node, run) = (on.node.clone(), on.assignment.run);
                    let _ = on.events.send(LauncherEvent::Ready { node, run });
                }
                _ = reports.tick() => if let Some(training) = &mut training {
                    self.report(training, &on);
                },
            }
        }
    }
}

impl StandIn for Program {
    fn play(self: Arc<Self>, program: Played) -> BoxFuture<'static, i32> {
        async move { self.live(program).await }.boxed()
    }
}
