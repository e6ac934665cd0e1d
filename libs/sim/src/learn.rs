//! Learning of a model from a whole trace, by the observer of a replay.

use lacuna_forecast::{Fits, LearningStage, Learnt, LearntFrom, Predictor as _};

use crate::world::Observer;
use crate::{OrderFound, PoolTrace, Progress, Settings, SimError, limits};

/// A learnt model, with what was found on the way.
#[derive(Debug, Clone, PartialEq)]
pub struct Lesson {
    /// The model.
    pub learnt: Learnt,
    /// The basis of its forecasts, in words.
    pub rests_on: String,
    /// How far it has learnt.
    pub learning: LearningStage,
    /// Whether the scheduler takes nodes in an order.
    pub order: Option<OrderFound>,
}

/// Learns a model from a trace. `simulated` says that the nodes' names are invented.
///
/// # Errors
/// [`SimError`] if the trace cannot be read, has one node, or no hole in it has ended.
pub fn learn(
    trace: &dyn PoolTrace,
    settings: &Settings,
    simulated: bool,
    progress: &mut dyn FnMut(Progress),
) -> Result<Lesson, SimError> {
    limits::check_length(trace)?;
    if trace.nodes() == 1 {
        return Err(SimError::NothingToLearn {
            what: format!(
                "only the node {} is ever idle, and which nodes leave first and together is a matter of several: give \
                 a log of the whole machine",
                trace.node_name(0)
            ),
        });
    }
    let mut observer = Observer::untaught(trace, settings, Fits::Inside)?;
    let (total_s, mut events) = (trace.length_s(), 0_u64);
    observer.learn(&mut |done_s| {
        events += 1;
        if events.is_multiple_of(64) {
            progress(Progress {
                stage: "learning",
                done_s,
                total_s,
                events,
                trainers_done: 0,
            });
        }
    })?;
    let predictor = observer.predictor();
    let learning = predictor.learning();
    let ended = match learning {
        LearningStage::Fixed => 0,
        LearningStage::Young { ended, .. } | LearningStage::Learnt { ended } => ended,
    };
    let model = predictor.save().filter(|_| ended > 0);
    let Some(model) = model else {
        return Err(SimError::NothingToLearn {
            what: "no node that was idle became busy again in this time: give a longer log"
                .to_owned(),
        });
    };
    let nodes = (0..trace.nodes()).map(|node| trace.node_name(node).into_owned());
    let from = LearntFrom {
        nodes: nodes.collect(),
        simulated,
        from: trace.start(),
        until: trace.end(),
        ended,
    };
    Ok(Lesson {
        learnt: Learnt::new(from, model),
        rests_on: predictor.label(),
        learning,
        order: observer.order(),
    })
}
