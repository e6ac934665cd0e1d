//! What the command line asks.

use std::time::Duration;

use lacuna_model::TrainerId;
use lacuna_runtime::{Bus, Context, Received};
use lacuna_trainer::Now;
use lacuna_trainer::book::{Book, Refusal, RefusalKind};
use lacuna_wire::address;
use lacuna_wire::msg::{NodeView, Reply, Request};

use crate::start::totals;

/// How long an agent may take to send its lines.
const LOGS_LIMIT: Duration = Duration::from_secs(3);

/// The answer to a submission or cancellation.
pub(crate) fn outcome(reply: Result<Vec<TrainerId>, Refusal>) -> Reply {
    match reply {
        Ok(trainers) => Reply::Accepted { trainers },
        Err(refusal) => Reply::Refused {
            code: match refusal.kind {
                RefusalKind::Spec | RefusalKind::Final => "L0007",
                RefusalKind::Duplicate => "L0008",
                RefusalKind::Unknown => "L0009",
            }
            .to_owned(),
            reason: refusal.reason,
        },
    }
}

/// The answer to a question that changes nothing; `None` for one that is answered elsewhere.
pub(crate) fn look(book: &Book, request: &Request, now: Now) -> Option<Reply> {
    Some(match request {
        Request::Trainers { all } => Reply::Trainers {
            now: now.cluster,
            trainers: book.records(*all).into_iter().cloned().collect(),
        },
        Request::Nodes => Reply::Nodes {
            now: now.cluster,
            nodes: book
                .node_views(now)
                .into_iter()
                .map(|view| NodeView {
                    node: view.node,
                    idle_since: view.idle_since,
                    trainer: view.trainer,
                    epoch: view.epoch,
                    activity: view.activity,
                    silent_s: view.silent_s,
                })
                .collect(),
        },
        Request::Totals => Reply::Totals(totals(&book.tally(), now)),
        Request::Submit { .. } | Request::Cancel { .. } | Request::Logs { .. } => return None,
    })
}

/// Fetches a trainer's output from the agent of its rank 0, beside the loop.
pub(crate) fn logs(
    ctx: &Context,
    book: &Book,
    request: Received<Request>,
    trainer: &TrainerId,
    lines: u32,
) {
    let refused = |code: &str, reason: String| Reply::Refused {
        code: code.to_owned(),
        reason,
    };
    let node = match book.record(trainer) {
        None => Err(refused(
            "L0009",
            format!("there is no trainer named {trainer}"),
        )),
        Some(record) => record.nodes.first().cloned().ok_or_else(|| {
            refused(
                "L0007",
                format!("trainer {trainer} runs on no node now: its output lies where it ran"),
            )
        }),
    };
    let (bus, cluster) = (ctx.bus.clone(), ctx.cluster.clone());
    let question = format!("{trainer} {lines}");
    tokio::spawn(async move {
        let reply = match node {
            Err(refusal) => refusal,
            Ok(node) => {
                let subject = address::logs(&cluster, &node);
                match bus.request_text(&subject, &question, LOGS_LIMIT).await {
                    Ok(text) => Reply::Logs {
                        lines: text.lines().map(ToOwned::to_owned).collect(),
                    },
                    Err(error) => Reply::Refused {
                        code: "L0002".to_owned(),
                        reason: format!("the agent of {node} does not answer: {error}"),
                    },
                }
            }
        };
        answer(&bus, &request, &reply).await;
    });
}

/// Answers; a failure is the asker's to notice.
pub(crate) async fn answer(bus: &Bus, request: &Received<Request>, reply: &Reply) {
    if let Err(error) = bus.respond(request, reply).await {
        tracing::warn!(%error, "request not answered");
    }
}
