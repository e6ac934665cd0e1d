//! The names of the nodes that train with a program. Commands carry only their number. Control
//! keeps the names once for each incarnation (`book::runs`), and an agent requests them when a
//! program needs them.
//!
//! The program's task requests them, and not the agent's loop. It repeats the request until
//! control's newest message is of this incarnation, for `agent.start_limit` at most. If the message
//! is of a later incarnation, it waits for the command that follows. Names that do not fit the
//! command end the program (exit code 127).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use lacuna_model::{Assignment, Members, NodeId, TrainerId};
use lacuna_runtime::{Bus, BusError};
use lacuna_wire::address;
use tokio::time::{Instant, sleep, timeout_at};

/// Time between two requests: at first, and at most.
const SOON: Duration = Duration::from_millis(20);
const LATER: Duration = Duration::from_secs(1);

/// The newest members of a trainer that control has published, if it has.
pub type Answer = BoxFuture<'static, Result<Option<Members>, BusError>>;

/// The source of the names of members.
#[derive(Clone)]
pub struct Names(Arc<dyn Fn(&TrainerId) -> Answer + Send + Sync>);

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Names").finish_non_exhaustive()
    }
}

impl Names {
    /// A source that answers with this function.
    #[must_use]
    pub fn new(ask: impl Fn(&TrainerId) -> Answer + Send + Sync + 'static) -> Self {
        Self(Arc::new(ask))
    }

    /// The source that reads the newest members from the bus.
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

    /// The nodes of an incarnation, in order of rank; `node` must be one of them. Repeats the
    /// request until control's newest message is of this incarnation, for `limit` at most. If the
    /// message is of a later incarnation, this does not return, since the next command is on its
    /// way.
    ///
    /// # Errors
    /// An error with the remedy, if the names do not come or do not fit the command.
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
                Ok(Ok(Some(members))) if members.run == part.run => {
                    return fitting(members, &part, &node);
                }
                Ok(Ok(Some(members))) if members.run > part.run => std::future::pending().await,
                Ok(Ok(_)) => "control has not published it".clone_into(&mut why),
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

/// The names, if they are those of the commanded incarnation.
fn fitting(members: Members, part: &Assignment, node: &NodeId) -> Result<Vec<NodeId>, String> {
    let place = usize::try_from(part.rank).unwrap_or(usize::MAX);
    let there = members.nodes.get(place);
    if there == Some(node) && members.nodes.len() == part.nodes as usize {
        return Ok(members.nodes);
    }
    let there = there.map_or("no node", NodeId::as_str);
    Err(format!(
        "the members of run {} do not fit the command: {} nodes with {there} at rank {}, and not {} \
         with {node} there; make sure that only one control runs for the cluster",
        part.run.0,
        members.nodes.len(),
        part.rank,
        part.nodes,
    ))
}

fn unknown(part: &Assignment, why: &str) -> String {
    format!(
        "the members of run {} are not known: {why}; control must be of this release, and after an \
         upgrade `lacuna keys init` must write the accounts again",
        part.run.0
    )
}

#[cfg(test)]
mod tests {
    use lacuna_model::{Launch, RunId};

    use super::*;

    fn part(rank: u32, nodes: u32) -> Assignment {
        Assignment {
            rank,
            nodes,
            ..lacuna_testkit::assignment("t", 3, Launch::Simulated)
        }
    }

    fn names(nodes: &[&str]) -> Vec<NodeId> {
        nodes.iter().map(|n| NodeId::new(n).unwrap()).collect()
    }

    #[test]
    fn names_fit_a_command_by_their_number_and_by_the_rank_of_the_node() {
        let fits = |nodes: &[&str], rank, count| {
            let members = Members {
                trainer: TrainerId::new("t").unwrap(),
                run: RunId(3),
                nodes: names(nodes),
            };
            fitting(members, &part(rank, count), &NodeId::new("b").unwrap())
        };
        assert_eq!(fits(&["a", "b"], 1, 2), Ok(names(&["a", "b"])));
        let error = fits(&["a", "b"], 0, 2).unwrap_err();
        assert!(error.contains("2 nodes with a at rank 0"), "{error}");
        assert!(fits(&["a", "b"], 1, 3).is_err());
        assert!(fits(&["a", "b"], 2, 2).is_err());
        let error = fits(&[], 1, 2).unwrap_err();
        assert!(error.contains("0 nodes with no node at rank 1"), "{error}");
    }
}
