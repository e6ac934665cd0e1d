//! The names of the nodes that train with a program. Commands say how many there are; control keeps
//! the names once for each run (`book::runs`), and an agent asks for them when a program needs
//! them.
//!
//! The program's task asks, not the agent's loop, until control's newest word is of this run, for
//! `agent.start_limit` at most. The names of a later run are waited out, since its command is on
//! the way. Names that do not fit the command end the program (exit code 127).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use lacuna_model::{Assignment, Members, NodeId, TrainerId};
use lacuna_runtime::{Bus, BusError};
use lacuna_wire::address;
use tokio::time::{Instant, sleep, timeout_at};

/// Between two questions, at first and at most.
const SOON: Duration = Duration::from_millis(20);
const LATER: Duration = Duration::from_secs(1);

/// The newest that control has said of who trains in a trainer's run, if it has.
pub type Said = BoxFuture<'static, Result<Option<Members>, BusError>>;

/// Where the names of a run's nodes are had.
#[derive(Clone)]
pub struct Names(Arc<dyn Fn(&TrainerId) -> Said + Send + Sync>);

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Names").finish_non_exhaustive()
    }
}

impl Names {
    /// Whatever this answers.
    #[must_use]
    pub fn new(ask: impl Fn(&TrainerId) -> Said + Send + Sync + 'static) -> Self {
        Self(Arc::new(ask))
    }

    /// What the bus keeps.
    #[must_use]
    pub fn kept(bus: Bus) -> Self {
        Self::new(move |trainer| {
            let bus = bus.clone();
            let subject = address::members(bus.cluster(), trainer);
            async move {
                let newest = bus.last(&subject).await?;
                Ok(newest.map(|newest| newest.message))
            }
            .boxed()
        })
    }

    /// The nodes of a run, in order of rank; `node` is to be one of them. Asks until control's newest
    /// word is of this run, for `limit` at most. If that is of a later run, whose command is on its
    /// way, this has no end.
    ///
    /// # Errors
    /// With the remedy, if the names do not come or do not fit the command.
    pub(super) async fn of(
        self,
        part: Assignment,
        node: NodeId,
        limit: Duration,
    ) -> Result<Vec<NodeId>, String> {
        if part.nodes == 0 {
            return Ok(Vec::new());
        }
        let end = Instant::now() + limit;
        let mut why = "no answer in time".to_owned();
        let mut wait = SOON;
        loop {
            match timeout_at(end, (self.0)(&part.trainer)).await {
                Ok(Ok(Some(said))) if said.run == part.run => return fitting(said, &part, &node),
                Ok(Ok(Some(said))) if said.run > part.run => std::future::pending().await,
                Ok(Ok(_)) => "control has not said it".clone_into(&mut why),
                Ok(Err(error @ BusError::Denied { .. })) => {
                    return Err(unknown(&part, &error.to_string()));
                }
                Ok(Err(error)) => why = error.to_string(),
                Err(_) => return Err(unknown(&part, &why)),
            }
            if Instant::now() + wait >= end {
                return Err(unknown(&part, &why));
            }
            sleep(wait).await;
            wait = (wait * 2).min(LATER);
        }
    }
}

/// The names, if they are those of the run that was commanded.
fn fitting(said: Members, part: &Assignment, node: &NodeId) -> Result<Vec<NodeId>, String> {
    let place = usize::try_from(part.rank).unwrap_or(usize::MAX);
    let there = said.nodes.get(place);
    if there == Some(node) && said.nodes.len() == part.nodes as usize {
        return Ok(said.nodes);
    }
    let there = there.map_or("nobody", NodeId::as_str);
    Err(format!(
        "who trains in run {} does not fit the command: {} nodes with {there} at rank {}, and not {} with \
         {node} there; see that one control alone runs for the cluster",
        part.run.0,
        said.nodes.len(),
        part.rank,
        part.nodes,
    ))
}

fn unknown(part: &Assignment, why: &str) -> String {
    format!(
        "who trains in run {} could not be learned: {why}; control must be of this release, and after an \
         upgrade `lacuna keys init` must write the accounts again",
        part.run.0
    )
}

#[cfg(test)]
mod tests {
    use lacuna_model::{Launch, RescaleCost, RunId, ScalingCurve, Timestamp, Work};

    use super::*;

    fn part(rank: u32, nodes: u32) -> Assignment {
        Assignment {
            trainer: TrainerId::new("t").unwrap(),
            run: RunId(3),
            rank,
            nodes,
            launch: Launch::Simulated.into(),
            throughput: ScalingCurve::linear(1.0, 4).unwrap(),
            rescale: RescaleCost {
                up_s: 0.0,
                down_s: 0.0,
                start_s: None,
            },
            work: Work::UntilExit,
            samples_before: 0.0,
            owed: 0.0,
            since: Timestamp::from_unix(0),
            checkpoint: None,
            store: None,
        }
    }

    fn names(nodes: &[&str]) -> Vec<NodeId> {
        nodes.iter().map(|n| NodeId::new(n).unwrap()).collect()
    }

    #[test]
    fn names_fit_a_command_by_their_number_and_by_the_place_of_the_node() {
        let fits = |nodes: &[&str], rank, count| {
            let said = Members {
                trainer: TrainerId::new("t").unwrap(),
                run: RunId(3),
                nodes: names(nodes),
            };
            fitting(said, &part(rank, count), &NodeId::new("b").unwrap())
        };
        assert_eq!(fits(&["a", "b"], 1, 2), Ok(names(&["a", "b"])));
        let error = fits(&["a", "b"], 0, 2).unwrap_err();
        assert!(error.contains("2 nodes with a at rank 0"), "{error}");
        assert!(fits(&["a", "b"], 1, 3).is_err());
        assert!(fits(&["a", "b"], 2, 2).is_err());
        let error = fits(&[], 1, 2).unwrap_err();
        assert!(error.contains("0 nodes with nobody at rank 1"), "{error}");
    }
}
