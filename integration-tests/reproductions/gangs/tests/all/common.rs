//! Small clusters, and the files of the recordings.

use std::path::Path;

use lacuna_gangs::{
    Calibration, Cluster, Collective, Error, Fabric, Job, Layout, Library, Outcome, Policy,
    Profiles, Segment, ShapeRule, Speeds, Terms, TraceJob, catalogue, read_jobs, simulate,
};

/// The folder of the published traces among the recordings.
pub(crate) const FOLDER: &str = "dally/layers.csv";

const LAYERS: &str =
    "model,layer,name,forward_ns,input_grad_ns,weight_grad_ns,gradient_bytes,update_ns
Deep,0,a,1000,1000,1000,1000,0
Deep,1,b,1000,1000,1000,1000,0
Wide,0,a,1000000,1000000,1000000,1000,0
";

const SCALES: &str = "model,authors_scale
Deep,1
Wide,1
";

/// Links of 1 GB/s: slots are free, machines cost microseconds, racks a hundred.
const FABRIC: &str = r#"{"small": {"link_factor": "none",
  "FC": {"kind": "fully_connected", "gbs": 1000, "ns": 0},
  "SL": {"kind": "ring", "gbs": 1000, "ns": 0},
  "P": {"kind": "ring", "gbs": 1, "ns": 1000},
  "PP": {"kind": "switch", "gbs": 1, "ns": 50000}}}"#;

/// A trace and a cluster with speeds.
pub(crate) struct Case {
    pub(crate) layout: Layout,
    pub(crate) speeds: Speeds,
    pub(crate) jobs: Vec<Job>,
}

/// A job of a made-up trace: arrival, GPUs, model, ideal seconds.
pub(crate) fn job(id: u64, arrival_s: f64, gpus: u32, model: &str, ideal_s: f64) -> TraceJob {
    TraceJob {
        job_id: id,
        arrival_s,
        gpus,
        model: model.to_owned(),
        batch: 1.0,
        sample_s: 0.001,
        samples: ideal_s * f64::from(gpus) * 1000.0,
    }
}

impl Case {
    /// Racks of machines with two slots of four GPUs, and made-up models: `Deep` is slow when it is
    /// spread, `Wide` is not.
    pub(crate) fn small(racks: u32, machines: u32, trace: &[TraceJob]) -> Self {
        let library = Library::read(("layers", LAYERS), ("scales", SCALES)).unwrap();
        let (profiles, jobs) = Profiles::new(&library, Calibration::Authors, trace).unwrap();
        let fabric = Fabric::read("fabrics", FABRIC, "small").unwrap();
        let layout = Layout::new(racks, machines, 2, 4).unwrap();
        let how = (Collective::Naive, ShapeRule::True);
        let speeds = Speeds::new(fabric, how, layout, profiles);
        Self {
            layout,
            speeds,
            jobs,
        }
    }

    /// A published trace on racks of eight machines, in the authors' setting.
    pub(crate) fn published(layers: &Path, trace: &str, racks: u32) -> Self {
        let folder = layers.parent().unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
        let (layers, scales) = (read("layers.csv"), read("compute_scale.csv"));
        let library =
            Library::read(("layers.csv", &layers), ("compute_scale.csv", &scales)).unwrap();
        let trace = read_jobs(trace, &read(trace)).unwrap();
        let (profiles, jobs) = Profiles::new(&library, Calibration::Authors, &trace).unwrap();
        let fabric = Fabric::read("fabrics.json", &read("fabrics.json"), "paper").unwrap();
        let layout = Layout::new(racks, 8, 2, 4).unwrap();
        let how = (Collective::Naive, ShapeRule::Coded);
        Self {
            layout,
            speeds: Speeds::new(fabric, how, layout, profiles),
            jobs,
        }
    }

    /// Runs a policy of the catalogue; `change` changes its terms.
    pub(crate) fn named(&self, name: &str, change: impl Fn(Terms) -> Terms) -> Outcome {
        let entry = catalogue().iter().find(|entry| entry.name == name).unwrap();
        let terms = change(entry.terms);
        self.run(terms, entry.policy(1).as_mut(), &mut |_| {})
            .unwrap()
    }

    /// Runs a policy.
    pub(crate) fn run(
        &self,
        terms: Terms,
        policy: &mut dyn Policy,
        each: &mut dyn FnMut(Segment),
    ) -> Result<Outcome, Error> {
        let cluster = Cluster::new(self.layout);
        simulate(&self.jobs, cluster, (&self.speeds, &terms), policy, each)
    }
}

/// The end of a job, seconds.
pub(crate) fn end(outcome: &Outcome, id: u64) -> f64 {
    outcome.jobs.iter().find(|job| job.id == id).unwrap().end_s
}
