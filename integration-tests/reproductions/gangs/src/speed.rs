//! The speed of a gang by its placement.

use std::cell::RefCell;
use std::collections::HashMap;

use serde::Deserialize;

use crate::calibration::Profiles;
use crate::cluster::Cluster;
use crate::error::Error;
use crate::fabric::{Collective, Fabric, LEVELS, Shape, ShapeRule};
use crate::flow_line::{Iteration, iteration};
use crate::job::Job;
use crate::layers::rows;
use crate::layout::Layout;
use crate::packing::whole;
use crate::placement::Placement;

/// A row of measured speeds.
#[derive(Debug, Deserialize)]
struct SpeedRow {
    model: String,
    shape: String,
    speed: f64,
}

/// A profile on a shape, with the bits of its shares of each level's bandwidth.
type Gang = (usize, Shape, [u64; LEVELS]);

/// Speeds of gangs on one fabric, each computed once.
#[derive(Debug)]
pub struct Speeds {
    fabric: Fabric,
    collective: Collective,
    rule: ShapeRule,
    layout: Layout,
    profiles: Profiles,
    measured: HashMap<(String, Shape), f64>,
    known: RefCell<HashMap<Gang, f64>>,
    consolidated: RefCell<HashMap<(usize, u32), f64>>,
}

impl Speeds {
    /// Speeds by the layers of models.
    #[must_use]
    pub fn new(
        fabric: Fabric,
        (collective, rule): (Collective, ShapeRule),
        layout: Layout,
        profiles: Profiles,
    ) -> Self {
        Self {
            fabric,
            collective,
            rule,
            layout,
            profiles,
            measured: HashMap::new(),
            known: RefCell::default(),
            consolidated: RefCell::default(),
        }
    }

    /// Takes measured speeds, which go before computed ones: columns `model`, `shape`, `speed`.
    ///
    /// # Errors
    /// The file is malformed, or a speed is not in (0, 1].
    pub fn measured(mut self, file: &str, text: &str) -> Result<Self, Error> {
        for row in rows::<SpeedRow>((file, text))? {
            if !(row.speed > 0.0 && row.speed <= 1.0) {
                return Err(Error::Value {
                    what: format!("{file}: the speed of {} on {}", row.model, row.shape),
                    value: row.speed,
                    expected: "a number above 0, at most 1",
                });
            }
            self.measured
                .insert((row.model, row.shape.parse()?), row.speed);
        }
        Ok(self)
    }

    /// The layout of the cluster.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// One iteration of a job on a shape, as computed.
    #[must_use]
    pub fn iteration(&self, job: &Job, shape: Shape) -> Iteration {
        self.computed(job.profile, shape, [1.0; LEVELS])
    }

    fn computed(&self, profile: usize, shape: Shape, shares: [f64; LEVELS]) -> Iteration {
        let layers = self.profiles.profiles.get(profile);
        let layers = layers.map_or(&[][..], |profile| &profile.layers);
        iteration(layers, |bytes| {
            self.fabric
                .service_ns(shape, self.collective, shares, bytes)
        })
    }

    /// The name of a job's model.
    #[must_use]
    pub fn model(&self, job: &Job) -> &str {
        let profile = self.profiles.profiles.get(job.profile);
        profile.map_or("", |profile| &profile.model)
    }

    /// The shape of a placement.
    pub(crate) fn shape(&self, placement: &Placement) -> Shape {
        placement.shape(self.layout, self.rule)
    }

    /// The speed of a job on a placement that shares no link, in (0, 1]; 1 for one GPU.
    #[must_use]
    pub fn speed(&self, job: &Job, placement: &Placement) -> f64 {
        self.of_shape(job, self.shape(placement), [1.0; LEVELS])
    }

    /// The speed of a job on a shape, with its shares of each level's bandwidth.
    pub(crate) fn of_shape(&self, job: &Job, shape: Shape, shares: [f64; LEVELS]) -> f64 {
        if shape == Shape::SINGLE {
            return 1.0;
        }
        let key = (job.profile, shape, shares.map(f64::to_bits));
        if let Some(&speed) = self.known.borrow().get(&key) {
            return speed;
        }
        let measured = self.profiles.profiles.get(job.profile).and_then(|profile| {
            // A measured speed holds for links that are not shared.
            let alone = shares == [1.0; LEVELS];
            self.measured
                .get(&(profile.model.clone(), shape))
                .filter(|_| alone)
        });
        let speed = measured
            .copied()
            .unwrap_or_else(|| self.computed(job.profile, shape, shares).speed());
        self.known.borrow_mut().insert(key, speed);
        speed
    }

    /// The speed of a job with this many GPUs placed on whole machines of an empty cluster; 0 if
    /// the cluster has fewer.
    #[must_use]
    pub fn consolidated(&self, job: &Job, gpus: u32) -> f64 {
        let key = (job.profile, gpus);
        if let Some(&speed) = self.consolidated.borrow().get(&key) {
            return speed;
        }
        let placement = whole(&Cluster::new(self.layout), gpus);
        let speed = placement.map_or(0.0, |placement| self.speed(job, &placement));
        self.consolidated.borrow_mut().insert(key, speed);
        speed
    }
}
