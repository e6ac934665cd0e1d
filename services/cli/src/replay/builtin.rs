//! The built-in trainers of a replay without `--trainers`.

use lacuna_model::{RescaleCost, ScalingCurve, Timestamp, TrainerId, TrainerSpec, Work};

use lacuna_trainer::settings::Control;

use crate::error::{CliError, Result};

/// A description of them.
pub(super) const WHAT: &str =
    "an endless stream of ShuffleNet on ImageNet, 1-64 nodes each (arXiv 2106.12091)";

/// Samples/s of ShuffleNet on ImageNet by nodes of Summit, from the paper's measurements.
const CURVE: [(u32, f64); 7] = [
    (1, 2831.0),
    (2, 5259.0),
    (4, 9988.0),
    (8, 20379.2),
    (16, 38895.3),
    (32, 74125.1),
    (MOST, 145_081.5),
];

/// The work of one trainer: a hundred epochs of ImageNet, as in the paper.
const SAMPLES: f64 = 130e6;

/// The rescale costs in seconds, as in the paper.
const RESCALE: RescaleCost = RescaleCost::of(18.0, 12.0);

/// The most nodes that one of them uses.
const MOST: u32 = 64;

/// The number of such trainers that a machine of `nodes` nodes has room for; at least the default
/// with `--trainers`.
pub(super) fn parallel(nodes: u32) -> u32 {
    nodes.div_ceil(MOST).max(Control::default().max_parallel)
}

/// One trainer, submitted at `start`; an endless replay repeats it.
///
/// # Errors
/// Never with the numbers above.
pub(super) fn trainers(start: Timestamp) -> Result<Vec<TrainerSpec>> {
    let failed = |what: String| CliError::failed(format!("the built-in trainer: {what}"));
    Ok(vec![TrainerSpec {
        submit: start,
        max_nodes: MOST,
        rescale: RESCALE,
        work: Work::Samples(SAMPLES),
        ..TrainerSpec::simulated(
            TrainerId::new("shufflenet").map_err(|e| failed(e.to_string()))?,
            ScalingCurve::new(CURVE).map_err(|e| failed(e.to_string()))?,
        )
    }])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trainer_is_that_of_the_published_list() {
        let start = Timestamp::from_unix(5);
        let list = trainers(start).unwrap();
        let [trainer] = list.as_slice() else {
            panic!("{list:?}")
        };
        trainer.check().unwrap();
        assert_eq!(trainer.submit, start);
        assert_eq!(trainer.throughput.table(MOST).last(), Some(&145_081.5));
        assert_eq!((parallel(4), parallel(640), parallel(641)), (10, 10, 11));
    }
}
