//! The published instances at their prices, each as one replay sees it and as four runs do.
//!
//! A trace of two GPUs of the slower kind is made for each network:
//!
//! ```text
//! compute = 3 · operations · batch / speed        a third forward, sums at 3/5, 4/5 and 5/5 of it
//! prep    = batch · seconds of an image           by WORKERS processes a GPU
//! svc     = 2 (n-1) l + 2 (n-1)/n · bytes / w     of a ring, in three sums of equal size
//! hours   = images / (n · batch) · step / 3600,   cost = hours · price
//! ```
//!
//! Sizes of the networks are those of their definitions. Speeds and links are assumed.

use clap::Args;
use serde::Deserialize;

use lacuna_lab::table::{Cell, Column, Table};
use lacuna_model::Cause;
use lacuna_stalls::{Change, Error, RankTimes, Steps, Trace, VERSION};

use super::differences::Runs;

/// Loader processes of a GPU, as published, and batches that each reads ahead.
const WORKERS: u32 = 3;
const DEPTH: u32 = 2;
/// Samples of a GPU in a step: the smallest published batch.
const BATCH: f64 = 32.0;
/// How many times the samples of the other runs the published real ones have.
const REAL: f64 = 2.0;
const STEPS: usize = 24;
/// Seconds of a ring's round.
const LATENCY: f64 = 30e-6;
/// Seconds of the optimiser, over those of computing.
const UPDATE: f64 = 0.02;
/// Networks: parameters in millions, and billions of operations of an image's forward pass.
const NETWORKS: [(&str, f64, f64); 4] = [
    ("shufflenet_v2_x0_5", 1.4, 0.04),
    ("resnet18", 11.7, 1.8),
    ("resnet50", 25.6, 4.1),
    ("vgg11", 132.9, 7.6),
];

/// What the study does not say.
#[derive(Debug, Clone, Copy, PartialEq, Args)]
pub(super) struct Assumed {
    /// Operations of a K80 in a second, 10^12, that a training reaches
    #[arg(long, value_name = "N", default_value_t = 1.4)]
    k80: f64,
    /// Speed of a V100 over a K80
    #[arg(long, value_name = "N", default_value_t = 5.6)]
    v100: f64,
    /// Gigabytes a second between the GPUs of an instance
    #[arg(long, value_name = "N", default_value_t = 8.0)]
    within: f64,
    /// Gigabytes a second between two instances
    #[arg(long, value_name = "N", default_value_t = 1.25)]
    between: f64,
    /// Milliseconds of a processor for an image
    #[arg(long, value_name = "N", default_value_t = 8.0)]
    prep: f64,
    /// Milliseconds for which an image is waited for, from a cold disk
    #[arg(long, value_name = "N", default_value_t = 2.0)]
    fetch: f64,
}

/// The published set-up.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Setup {
    instances: Vec<Instance>,
    imagenet_images: f64,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Instance {
    name: String,
    gpu: String,
    gpus: u32,
    /// Dollars an hour.
    price: f64,
}

impl Instance {
    /// Whether its GPUs are those of two machines.
    fn is_pair(&self) -> bool {
        self.name.starts_with("2 x ")
    }
}

/// A network on all instances.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Epochs {
    network: &'static str,
    instances: Vec<Epoch>,
}

/// Seconds of a step, and what an epoch takes.
#[derive(Debug, Clone, PartialEq)]
struct Epoch {
    instance: String,
    price: f64,
    gpus: u32,
    step: f64,
    hours: f64,
    cost: f64,
    /// Per cent of the step that removal of preparation, fetching and the link alone saves.
    saved: [f64; 3],
    /// The published stalls: preparation of T3, fetch of T2, interconnect of T1, in per cent.
    defined: [f64; 3],
    /// The same as the published program computes them.
    coded: [f64; 3],
}

/// All networks on all instances.
///
/// # Errors
/// [`Error`] of a replay, for options that are no positive numbers.
pub(super) fn epochs(setup: &Setup, assumed: &Assumed) -> Result<Vec<Epochs>, Error> {
    let mut found = Vec::new();
    for (network, parameters, operations) in NETWORKS {
        let steps = Steps::read(&trace(parameters * 1e6, operations * 1e9, assumed))?;
        let instances = setup.instances.iter();
        let instances = instances.map(|one| epoch(one, setup, &steps, assumed));
        found.push(Epochs {
            network,
            instances: instances.collect::<Result<_, _>>()?,
        });
    }
    Ok(found)
}

/// The made trace: two members, whose times are the same in each step.
fn trace(parameters: f64, operations: f64, assumed: &Assumed) -> Trace {
    let micro = |seconds: f64| 1e6 * seconds;
    let compute = 3.0 * operations * BATCH / (assumed.k80 * 1e12);
    let prep = BATCH * assumed.prep * 1e-3;
    let fetch = BATCH * assumed.fetch * 1e-3;
    let bytes = 4.0 * parameters / 3.0;
    let service = 2.0 * LATENCY + bytes / (assumed.within * 1e9);
    let (mut ready, mut done, mut ended) = (Vec::new(), Vec::new(), 0.0_f64);
    for part in [0.6, 0.8, 1.0] {
        let launched = part * compute;
        ended = ended.max(launched) + service;
        ready.push(vec![micro(launched); STEPS]);
        done.push(vec![micro(ended); STEPS]);
    }
    // A batch comes each (prep + fetch) / WORKERS, if that is longer than the rest of the step.
    let update = UPDATE * compute;
    let wait = ((prep + fetch) / f64::from(WORKERS) - ended - update).max(0.0);
    let of = |seconds: f64| vec![micro(seconds); STEPS];
    let rank = |rank| RankTimes {
        rank,
        wait: of(wait),
        hand: of(0.0),
        prep: of(prep),
        fetch: of(fetch),
        update: of(update),
        rest: of(0.0),
        ready: ready.clone(),
        done: done.clone(),
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "bytes of a network"
    )]
    let size = bytes as u64;
    Trace {
        version: VERSION,
        members: 2,
        workers: WORKERS,
        remote: 0,
        follows: None,
        depth: DEPTH,
        passes: 1,
        ends_known: true,
        bytes: vec![size; 3],
        silent: Vec::new(),
        ranks: vec![rank(0), rank(1)],
    }
}

fn epoch(one: &Instance, setup: &Setup, steps: &Steps, assumed: &Assumed) -> Result<Epoch, Error> {
    let speed = if one.gpu == "V100" { assumed.v100 } else { 1.0 };
    let link = if one.is_pair() {
        assumed.between / assumed.within
    } else {
        1.0
    };
    let on = |gpus: u32, away: &[Cause]| {
        let change = Change::none().members(gpus)?.device(speed)?;
        // A GPU alone has no link.
        let change = if gpus == 1 {
            change
        } else {
            change.link(link)?
        };
        let change = away
            .iter()
            .fold(change, |change, &cause| change.without(cause));
        steps.replay(&change)
    };
    let data = [Cause::Preparation, Cause::Fetch];
    let runs = Runs {
        alone: on(1, &data)?,
        synthetic: on(one.gpus, &data)?,
        cold: on(one.gpus, &[])?,
        warm: on(one.gpus, &[Cause::Fetch])?,
    };
    let (defined, coded) = (runs.differences(), runs.as_coded(REAL));
    let step = runs.cold;
    let mut saved = [0.0; 3];
    for (place, cause) in saved.iter_mut().zip([data[0], data[1], Cause::Link]) {
        *place = 100.0 * (step - on(one.gpus, &[cause])?) / step;
    }
    let hours = setup.imagenet_images / (f64::from(one.gpus) * BATCH) * step / 3600.0;
    Ok(Epoch {
        instance: one.name.clone(),
        price: one.price,
        gpus: one.gpus,
        step,
        hours,
        cost: hours * one.price,
        saved,
        defined: [
            100.0 * defined.preparation / runs.warm,
            100.0 * defined.fetch / runs.cold,
            100.0 * defined.link / runs.synthetic,
        ],
        coded: [
            coded.preparation_percent,
            100.0 * coded.fetch / runs.cold,
            coded.link_percent,
        ],
    })
}

impl Epochs {
    /// What removals save, what the method says of it, and what its program computes.
    pub(super) fn table(&self) -> Table {
        let columns = [
            Column::words("instance", "instance"),
            Column::figures("price", "$/h"),
            Column::figures("gpus", "GPUs"),
            Column::figures("step", "step, ms"),
            Column::figures("hours", "h an epoch"),
            Column::figures("cost", "$ an epoch"),
            Column::figures("saved", "removal saves, %"),
            Column::figures("defined", "differences"),
            Column::figures("coded", "as coded"),
        ];
        let title = format!("{}: preparation / fetch / link", self.network);
        let mut table = Table::new(title, columns);
        let three = |values: [f64; 3]| {
            let texts = values.map(|value| format!("{:.0}", value.round() + 0.0));
            Cell::new(texts.join(" / "), values)
        };
        for one in &self.instances {
            table.push([
                Cell::words(&one.instance),
                Cell::number(Some(one.price), 2),
                Cell::count(one.gpus),
                Cell::new(format!("{:.0}", 1e3 * one.step), one.step),
                Cell::number(Some(one.hours), 2),
                Cell::number(Some(one.cost), 2),
                three(one.saved),
                three(one.defined),
                three(one.coded),
            ]);
        }
        table
    }

    /// The cheapest and the fastest instance.
    pub(super) fn best(&self) -> String {
        let least = |of: fn(&Epoch) -> f64| {
            let best = self.instances.iter().min_by(|a, b| of(a).total_cmp(&of(b)));
            best.map_or("", |one| one.instance.as_str())
        };
        let (cheapest, fastest) = (least(|one| one.cost), least(|one| one.hours));
        format!(
            "{}: the cheapest is {cheapest}, the fastest {fastest}.",
            self.network
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASSUMED: Assumed = Assumed {
        k80: 1.4,
        v100: 5.6,
        within: 8.0,
        between: 1.25,
        prep: 8.0,
        fetch: 2.0,
    };

    fn setup() -> Setup {
        let instance = |name: &str, gpu: &str, gpus, price| Instance {
            name: name.to_owned(),
            gpu: gpu.to_owned(),
            gpus,
            price,
        };
        Setup {
            instances: vec![
                instance("p2.xlarge", "K80", 1, 0.9),
                instance("p3.16xlarge", "V100", 8, 24.48),
                instance("2 x p3.8xlarge", "V100", 8, 24.48),
            ],
            imagenet_images: 1_281_166.0,
        }
    }

    fn of<'a>(all: &'a [Epochs], network: &str) -> &'a [Epoch] {
        let found = all.iter().find(|one| one.network == network);
        &found.unwrap().instances
    }

    #[test]
    fn a_made_trace_is_replayed_as_it_was_made() {
        for (_, parameters, operations) in NETWORKS {
            let steps = Steps::read(&trace(parameters * 1e6, operations * 1e9, &ASSUMED)).unwrap();
            let replayed = steps.replay(&Change::none()).unwrap();
            assert!((replayed / steps.measured() - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn what_hides_costs_nothing_though_differences_count_it() {
        let all = epochs(&setup(), &ASSUMED).unwrap();
        // Loaders limit a small network on fast GPUs: a faster link saves nothing.
        let [.., near, pair] = of(&all, "shufflenet_v2_x0_5") else {
            panic!()
        };
        assert!(near.saved[0] > 50.0 && pair.saved[2] < 1.0);
        assert!(pair.defined[2] > 20.0, "{pair:?}");
        // A large one waits for the link between two machines.
        let [alone, near, pair] = of(&all, "vgg11") else {
            panic!()
        };
        assert!(pair.step > 1.5 * near.step && pair.saved[2] > 30.0);
        assert!(alone.saved[2].abs() < 1e-9 && alone.hours > near.hours);
        // As coded, preparation is halved, and fetching about the whole step.
        for row in [near, pair] {
            assert!((2.0 * row.coded[0] - row.defined[0]).abs() < 1e-6);
            assert!(row.coded[1] > 40.0);
        }
    }

    #[test]
    fn numbers_that_no_device_has_are_refused() {
        let wrong = Assumed {
            v100: 0.0,
            ..ASSUMED
        };
        assert!(matches!(
            epochs(&setup(), &wrong),
            Err(Error::Change { .. })
        ));
    }
}
