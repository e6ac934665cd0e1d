//! Replies to the requests of users and operators.

use std::path::Path;
use std::time::Duration;

use lacuna_model::{NodeId, Phase, Timestamp, TrainerId, TrainerRecord};
use lacuna_runtime::{Bus, Received};
use lacuna_trainer::Now;
use lacuna_trainer::controller::{Controller, Refusal, RefusalKind};
use lacuna_wire::address;
use lacuna_wire::msg::{LogPlace, NodeView, Reply, Request};
use lacuna_wire::token::escape;

use crate::access::Denied;
use crate::room;
use crate::sections::Context;
use crate::start::whole as whole_totals;

/// How many agents are asked for the output of a trainer at a time. Each answers with
/// 256 KiB at most; all answers together must fit into one message.
const MOST_AGENTS: usize = 16;

/// How long an agent may take to send its lines.
const LOGS_LIMIT: Duration = Duration::from_secs(3);

/// The answer to a submission or cancellation.
pub(crate) fn outcome(reply: Result<Vec<TrainerId>, Refusal>) -> Reply {
    match reply {
        Ok(trainers) => Reply::Accepted { trainers },
        Err(refusal) => Reply::Refused {
            code: match refusal.kind {
                RefusalKind::Spec => "L0007",
                RefusalKind::Final => "L0016",
                RefusalKind::Duplicate => "L0008",
                RefusalKind::Unknown => "L0009",
                RefusalKind::Quota => "L0022",
                RefusalKind::Account => "L0028",
                RefusalKind::Room => room::NO_ROOM,
            }
            .to_owned(),
            reason: refusal.reason,
        },
    }
}

/// The refusal of a request about a trainer in the archive.
pub(crate) fn archived(record: &TrainerRecord) -> Denied {
    Denied {
        code: "L0016",
        reason: format!(
            "trainer {} has ended and is in the archive: `lacuna explain {}` shows its record; what \
             its program wrote, if it ever ran, lies on the nodes where it did",
            record.spec.id, record.spec.id
        ),
    }
}

/// The reply to a request that changes nothing; `None` for any other request. Of
/// trainers on which the requester may not act, `whole` is false.
pub(crate) fn query(
    controller: &Controller,
    request: &Request,
    now: Now,
    whole: impl Fn(&TrainerRecord) -> bool,
) -> Option<Reply> {
    Some(match request {
        Request::Trainers { all } => Reply::Trainers {
            now: now.cluster,
            trainers: controller
                .records(*all)
                .into_iter()
                .map(|record| {
                    if whole(record) {
                        record.clone()
                    } else {
                        Controller::for_all(record)
                    }
                })
                .collect(),
        },
        Request::Nodes => Reply::Nodes {
            now: now.cluster,
            nodes: controller
                .node_views(now)
                .into_iter()
                .map(|view| NodeView {
                    node: view.node,
                    idle_since: view.idle_since,
                    trainer: view.trainer,
                    epoch: view.epoch,
                    activity: view.activity,
                    silent_s: view.silent_s,
                    trouble: view.trouble,
                    is_down: view.is_down,
                })
                .collect(),
        },
        Request::Totals => Reply::Totals(whole_totals(controller, now)),
        Request::TotalsAt { .. }
        | Request::Submit { .. }
        | Request::Renew { .. }
        | Request::Cancel { .. }
        | Request::Logs { .. }
        | Request::Page { .. }
        | Request::Trainer { .. }
        | Request::Controls
        | Request::Change { .. } => return None,
    })
}

/// The agents to ask for a trainer's output.
#[derive(Debug, PartialEq)]
enum LogSource {
    /// The trainer runs: the agent of its rank 0. Or its output is followed on this node.
    One(NodeId),
    /// The trainer runs, and torchrun has given its workers their ranks: any of these.
    Members(Vec<NodeId>),
    /// The trainer holds no node now: agents that may still have its files, the likeliest first.
    Past(Vec<NodeId>),
}

fn refused(code: &str, reason: String) -> Reply {
    Reply::Refused {
        code: code.to_owned(),
        reason,
    }
}

fn log_source(
    controller: &Controller,
    trainer: &TrainerId,
    after: Option<&LogPlace>,
) -> Result<LogSource, Denied> {
    let Some(record) = controller.record(trainer) else {
        return Err(Denied {
            code: "L0009",
            reason: format!("there is no trainer named {trainer}"),
        });
    };
    let nodes = &record.nodes;
    // A node that it has left may still have its last lines; others have no output of it.
    let followed = after.map(|place| &place.node);
    if followed.is_none() && nodes.len() > 1 && record.spec.launch.ranks_itself() {
        let few = nodes.iter().take(MOST_AGENTS);
        return Ok(LogSource::Members(few.cloned().collect()));
    }
    if let Some(node) = followed.or(nodes.first()) {
        return Ok(LogSource::One(node.clone()));
    }
    // A program that failed before it joined has written something, though its trainer never began.
    if record.started.is_none() && record.failures == 0 && record.phase == Phase::Queued {
        return Err(Denied {
            code: "L0016",
            reason: format!("trainer {trainer} has never had a node: there is no output"),
        });
    }
    // Only names are wanted of the nodes, no lengths of time.
    let nodes = controller.node_views(Now::default()).into_iter();
    let heard = nodes.filter(|n| n.activity.is_some()).map(|n| n.node);
    Ok(LogSource::Past(likeliest(heard.collect(), &record.reason)))
}

/// The nodes that the trainer's last exit names come first.
fn likeliest(mut nodes: Vec<NodeId>, reason: &str) -> Vec<NodeId> {
    let words: Vec<&str> = reason
        .split_whitespace()
        .map(|word| word.trim_end_matches([':', ',']))
        .collect();
    nodes.sort_by_key(|node| !words.contains(&node.as_str()));
    nodes.truncate(MOST_AGENTS);
    nodes
}

/// The agents' outputs as one text. Of several nodes each line names its own.
fn joined(found: Vec<(NodeId, String)>) -> Vec<String> {
    let several = found.len() > 1;
    let of_node = |(node, text): (NodeId, String)| -> Vec<String> {
        let line = |line: &str| match several {
            true => format!("{node} | {line}"),
            false => line.to_owned(),
        };
        text.lines().map(line).collect()
    };
    found.into_iter().flat_map(of_node).collect()
}

/// The text of an agent's answer, and where it ends, which an agent of an older release may not tell.
fn told(answer: &str) -> (Option<u64>, &str) {
    let told = answer.strip_prefix("at ").and_then(|rest| {
        let (byte, text) = rest.split_once('\n')?;
        Some((byte.parse::<u64>().ok()?, text))
    });
    told.map_or((None, answer), |(byte, text)| (Some(byte), text))
}

/// The answer of an agent that tells where the output ends.
fn placed(node: NodeId, answer: &str, is_followed: bool) -> Reply {
    let (byte, text) = told(answer);
    let upto = byte.map(|byte| LogPlace { node, byte });
    let lines = match is_followed {
        true => text.split('\n').map(ToOwned::to_owned).collect(),
        false => text.lines().map(ToOwned::to_owned).collect(),
    };
    Reply::Logs { lines, upto }
}

/// What is asked for of an output.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    /// Number of lines.
    pub(crate) lines: u32,
    /// The text after this place instead.
    pub(crate) after: Option<LogPlace>,
    /// Only what was written since then.
    pub(crate) since: Option<Timestamp>,
    /// The bytes as the program has written them.
    pub(crate) is_raw: bool,
}

impl Wanted {
    /// The question to an agent.
    fn question(&self, trainer: &TrainerId) -> String {
        let number = |number: Option<String>| number.unwrap_or_else(|| "-".to_owned());
        let after = number(self.after.as_ref().map(|place| place.byte.to_string()));
        let since = number(self.since.map(|since| since.unix_ms().to_string()));
        let form = if self.is_raw { "raw" } else { "lines" };
        format!("{trainer} {} {after} {since} {form}", self.lines)
    }
}

/// Fetches a trainer's output from the agent of its rank 0, or, when it holds no node, from
/// the agents that still have it; beside the loop. Wanted are the last lines, or the text after a
/// place.
pub(crate) fn logs(
    ctx: &Context,
    controller: &Controller,
    request: Received<Request>,
    trainer: TrainerId,
    wanted: Wanted,
) {
    let source = log_source(controller, &trainer, wanted.after.as_ref());
    let is_past = matches!(source, Ok(LogSource::Past(_)));
    let (bus, cluster) = (ctx.bus.clone(), ctx.cluster.clone());
    let work_dir = ctx.config.agent.work_dir.clone();
    lacuna_runtime::task::spawn(async move {
        let question = wanted.question(&trainer);
        let ask = async |node: NodeId| {
            let subject = address::logs(&cluster, &node);
            let answer = bus.request_text(&subject, &question, LOGS_LIMIT).await;
            (node, answer)
        };
        let reply = match source {
            Err(denied) => denied.into(),
            Ok(LogSource::One(node)) => {
                let subject = address::logs(&cluster, &node);
                match bus.request_text(&subject, &question, LOGS_LIMIT).await {
                    Ok(answer) => placed(node, &answer, wanted.after.is_some()),
                    Err(error) => refused(
                        "L0002",
                        format!("the agent of {node} does not answer: {error}"),
                    ),
                }
            }
            Ok(LogSource::Past(nodes) | LogSource::Members(nodes)) => {
                let answer = futures::future::join_all(nodes.into_iter().map(ask)).await;
                let found: Vec<(NodeId, String)> = answer
                    .into_iter()
                    .filter_map(|(node, answer)| Some((node, told(&answer.ok()?).1.to_owned())))
                    .filter(|(_, text)| !text.is_empty())
                    .collect();
                if found.is_empty() && is_past {
                    no_output(&trainer, &work_dir)
                } else {
                    Reply::Logs {
                        lines: joined(found),
                        upto: None,
                    }
                }
            }
        };
        send(&bus, &request, &reply).await;
    });
}

fn no_output(trainer: &TrainerId, work_dir: &Path) -> Reply {
    refused(
        "L0016",
        format!(
            "trainer {trainer} runs on no node now, and no agent that was asked has output of \
             it: what its program wrote, if it ever ran, lies on the nodes where it did, in \
             {}/{}/<node>/output.log (agent.work_dir)",
            work_dir.display(),
            escape(trainer.as_str())
        ),
    )
}

/// Sends the reply. A requester without a reply times out.
pub(crate) async fn send(bus: &Bus, request: &Received<Request>, reply: &Reply) {
    if let Err(error) = bus.respond(request, reply).await {
        tracing::warn!(%error, "request not answered");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> NodeId {
        NodeId::new(name).unwrap()
    }

    #[test]
    fn the_node_of_the_last_exit_is_asked_first_and_not_too_many_are() {
        let mut nodes: Vec<NodeId> = (0..40).map(|i| node(&format!("n{i}"))).collect();
        nodes.sort();
        let asked = likeliest(nodes, "exit code 3 on node n39: out of memory on n3x");
        assert_eq!(asked.first(), Some(&node("n39")));
        assert_eq!(asked.len(), MOST_AGENTS);
        assert_eq!(asked.get(1), Some(&node("n0")), "the others in their order");
    }

    #[test]
    fn lines_of_several_nodes_name_their_node() {
        let one = vec![(node("a"), "x\ny".to_owned())];
        assert_eq!(joined(one), ["x", "y"]);
        let two = vec![(node("a"), "x".to_owned()), (node("b"), "y".to_owned())];
        assert_eq!(joined(two), ["a | x", "b | y"]);
    }

    #[test]
    fn a_followed_text_keeps_its_line_ends_and_its_place() {
        let lines = |of: &str, is_followed| match placed(node("n1"), of, is_followed) {
            Reply::Logs { lines, upto } => (lines.join("|"), upto.map(|place| place.byte)),
            other => panic!("{other:?}"),
        };
        assert_eq!(lines("at 9\na\nb\n", false), ("a|b".to_owned(), Some(9)));
        assert_eq!(lines("at 9\na\nb\n", true), ("a|b|".to_owned(), Some(9)));
        assert_eq!(lines("at 9\n", true), (String::new(), Some(9)));
        assert_eq!(lines("at home\nb", false), ("at home|b".to_owned(), None));
    }

    #[test]
    fn an_ended_trainer_has_its_own_code_and_the_place_of_its_output_is_named() {
        let over = Refusal {
            kind: RefusalKind::Final,
            reason: "over".to_owned(),
        };
        let Reply::Refused { code, .. } = outcome(Err(over)) else {
            panic!("not refused");
        };
        assert_eq!(code, "L0016");
        let trainer = TrainerId::new("a.b").unwrap();
        let Reply::Refused { code, reason } = no_output(&trainer, Path::new("/var/lib/x")) else {
            panic!("not refused");
        };
        assert_eq!(code, "L0016");
        let place = format!("/var/lib/x/{}/<node>/output.log", escape("a.b"));
        assert!(reason.contains(&place), "{reason}");
    }
}
