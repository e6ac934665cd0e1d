//! Profiles of jobs: the layers of a model with the computing times of one iteration.

use std::collections::HashMap;

use crate::error::Error;
use crate::flow_line::{Layer, compute_ns};
use crate::job::Job;
use crate::layers::Library;
use crate::trace::TraceJob;

/// The length of an iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Calibration {
    /// By the authors' factor: an iteration takes about as long as one sample.
    Authors,
    /// An iteration computes one batch.
    Batch,
}

/// The profiles that the jobs of a trace have, without repetition.
#[derive(Debug, Clone, Default)]
pub struct Profiles {
    pub(crate) profiles: Vec<Profile>,
}

/// One profile.
#[derive(Debug, Clone)]
pub(crate) struct Profile {
    pub(crate) model: String,
    pub(crate) layers: Vec<Layer>,
}

impl Profiles {
    /// The profiles and the jobs of a trace.
    ///
    /// # Errors
    /// A model has no layers.
    pub fn new(
        library: &Library,
        calibration: Calibration,
        trace: &[TraceJob],
    ) -> Result<(Self, Vec<Job>), Error> {
        let mut known: HashMap<(&str, u64), usize> = HashMap::new();
        let mut profiles = Vec::new();
        let mut jobs = Vec::with_capacity(trace.len());
        for job in trace {
            let model = library.model(&job.model)?;
            let factor = match calibration {
                Calibration::Authors => model.authors_scale,
                Calibration::Batch => {
                    job.sample_s * job.batch * 1e9 / compute_ns(&model.layers).max(1) as f64
                }
            };
            let key = (job.model.as_str(), factor.to_bits());
            let profile = *known.entry(key).or_insert_with(|| {
                profiles.push(Profile {
                    model: job.model.clone(),
                    layers: model.scaled(factor),
                });
                profiles.len() - 1
            });
            jobs.push(Job {
                id: job.job_id,
                arrival_s: job.arrival_s,
                gpus: job.gpus,
                sample_s: job.sample_s,
                samples: job.samples,
                profile,
            });
        }
        Ok((Self { profiles }, jobs))
    }
}
