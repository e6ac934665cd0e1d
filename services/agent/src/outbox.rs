//! Messages to send on the bus, without any code waiting for the bus.
//!
//! Only the newest status of a node and the newest report of an incarnation wait. A newer one takes
//! the place of the older one, at its own place in the order. So messages are sent in the order in
//! which the newest were put. The number of waiting messages is bounded by nodes and by trainers
//! that run here, however much a program sends and however long the server is away. A report is
//! sent until a stream has it, since no later report covers an incarnation that has ended.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use lacuna_model::{NodeId, RunId, TrainerId};
use lacuna_runtime::BusError;
use lacuna_wire::address;
use lacuna_wire::msg::{AgentStatus, Progress};
use tokio::sync::Notify;

use crate::metrics::Metrics;
use crate::sections::Context;

/// Most incarnations of one trainer with a waiting report. A program may name any incarnation.
const RUNS: usize = 8;
/// Time between two checks whether the server is back.
const AWAY: Duration = Duration::from_millis(100);
/// Time between two checks whether all messages are sent.
const PAUSE: Duration = Duration::from_millis(1);

/// A message to send.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Message {
    /// The status of a node.
    Status(AgentStatus),
    /// The progress of an incarnation.
    Progress(Progress),
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum About {
    Node(NodeId),
    Run(TrainerId, RunId),
}

/// The waiting messages. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outbox(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    news: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    put: u64,
    messages: BTreeMap<u64, (About, Message, String)>,
    places: BTreeMap<About, u64>,
    /// The newest report of each incarnation that was sent and is not yet known to be stored.
    unkept: BTreeMap<About, u64>,
    /// A message was taken out and is not yet with the client.
    sending: bool,
}

/// A report that was sent, with its outcome.
struct Sent {
    about: About,
    number: u64,
    /// The message to send again.
    lost: Option<(Message, String)>,
}

impl Waiting {
    /// Returns whether an older message is lost by it.
    fn put(&mut self, message: Message, correlation: &str) -> bool {
        let about = match &message {
            Message::Status(status) => About::Node(status.node.clone()),
            Message::Progress(report) => About::Run(report.trainer.clone(), report.run),
        };
        let mut lost = self.forget(&about);
        if let Some(oldest) = self.crowded(&about) {
            lost |= self.forget(&oldest);
        }
        self.put += 1;
        self.places.insert(about.clone(), self.put);
        self.messages
            .insert(self.put, (about, message, correlation.to_owned()));
        lost
    }

    fn forget(&mut self, about: &About) -> bool {
        let place = self.places.remove(about);
        place.is_some_and(|place| self.messages.remove(&place).is_some())
    }

    /// The oldest incarnation of the same trainer, if there is no room for a further one.
    fn crowded(&self, about: &About) -> Option<About> {
        let About::Run(trainer, _) = about else {
            return None;
        };
        let from = About::Run(trainer.clone(), RunId(0));
        let runs = self.places.range(from..);
        let runs = runs.take_while(|(one, _)| matches!(one, About::Run(t, _) if t == trainer));
        let (number, oldest) = runs.fold((0, None), |(n, first), (one, _)| {
            (n + 1, first.or(Some(one)))
        });
        (number >= RUNS).then(|| oldest.cloned()).flatten()
    }

    fn take(&mut self) -> Option<(u64, About, Message, String)> {
        let (number, (about, message, correlation)) = self.messages.pop_first()?;
        self.places.remove(&about);
        if matches!(message, Message::Progress(_)) {
            self.unkept.insert(about.clone(), number);
        }
        self.sending = true;
        Some((number, about, message, correlation))
    }

    /// Handles the outcome of a report. A lost one waits again, unless a newer one was sent.
    fn settle(&mut self, sent: Sent) {
        if self.unkept.get(&sent.about) != Some(&sent.number) {
            return;
        }
        self.unkept.remove(&sent.about);
        if let Some((message, correlation)) = sent.lost
            && !self.places.contains_key(&sent.about)
        {
            self.put(message, &correlation);
        }
    }
}

impl Outbox {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        let waiting = self.0.waiting.lock();
        waiting.unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a message to be sent as soon as possible. Returns whether it replaces an older one.
    pub(crate) fn put(&self, message: Message, correlation: &str) -> bool {
        let lost = self.waiting().put(message, correlation);
        self.0.news.notify_one();
        lost
    }

    /// Sends waiting messages, for as long as this process runs.
    pub(crate) async fn send(self, ctx: Context, metrics: Metrics) {
        let mut answers = FuturesUnordered::new();
        loop {
            // A message that the client holds cannot be replaced any more.
            while !ctx.bus.connected() {
                tokio::time::sleep(AWAY).await;
            }
            while let Some(Some(sent)) = answers.next().now_or_never() {
                self.waiting().settle(sent);
            }
            let next = self.waiting().take();
            let Some((number, about, message, correlation)) = next else {
                tokio::select! {
                    biased;
                    () = self.0.news.notified() => {}
                    Some(sent) = answers.next() => self.waiting().settle(sent),
                }
                continue;
            };
            match message {
                Message::Status(status) => {
                    metrics.statuses.inc();
                    let subject = address::agent(&ctx.cluster, &status.node);
                    if let Err(error) = ctx.bus.publish(&subject, &status, &correlation).await {
                        tracing::warn!(%error, "not sent");
                    }
                }
                Message::Progress(report) => {
                    metrics.progress.inc();
                    let subject = address::progress(&ctx.cluster, &report.node, &report.trainer);
                    let on_its_way = ctx.bus.store_later(&subject, &report, &correlation).await;
                    answers.push(async move {
                        let kept = match on_its_way {
                            Ok(answer) => answer.wait().await,
                            Err(error) => Err(error),
                        };
                        let lost = match kept {
                            Ok(_) => None,
                            Err(error @ (BusError::TooLarge { .. } | BusError::Denied { .. })) => {
                                tracing::warn!(%error, "not sent");
                                None
                            }
                            Err(error) => {
                                tracing::debug!(%error, "no stream has it, sending it again");
                                tokio::time::sleep(AWAY).await;
                                Some((Message::Progress(report), correlation))
                            }
                        };
                        Sent {
                            about,
                            number,
                            lost,
                        }
                    });
                }
            }
            self.waiting().sending = false;
        }
    }

    /// Waits until all messages are with the client, and each report is in a stream.
    pub(crate) async fn empty(&self) {
        loop {
            {
                let waiting = self.waiting();
                if waiting.messages.is_empty() && waiting.unkept.is_empty() && !waiting.sending {
                    return;
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use lacuna_model::Timestamp;

    use super::*;

    fn report(trainer: &str, run: u64, samples: f64) -> Message {
        let (node, trainer) = (NodeId::new("n1"), TrainerId::new(trainer));
        let (node, trainer) = (node.unwrap(), trainer.unwrap());
        let at = Timestamp::from_unix(1);
        Message::Progress(Progress::new(node, trainer, RunId(run), at, samples))
    }

    fn status(seq: u64) -> Message {
        Message::Status(AgentStatus {
            seq,
            ..lacuna_testkit::status("n1")
        })
    }

    fn all(waiting: &mut Waiting) -> Vec<Message> {
        std::iter::from_fn(|| waiting.take().map(|(_, _, message, _)| message)).collect()
    }

    #[test]
    fn the_newest_message_is_sent_after_those_put_before_it() {
        let mut waiting = Waiting::default();
        assert!(!waiting.put(status(1), ""));
        for samples in 1..1000 {
            waiting.put(report("a", 1, f64::from(samples)), "");
        }
        assert!(waiting.put(status(2), ""));
        assert!(!waiting.put(report("b", 1, 5.0), ""));
        let expected = [report("a", 1, 999.0), status(2), report("b", 1, 5.0)];
        assert_eq!(all(&mut waiting), expected);
        assert!(waiting.places.is_empty());
    }

    #[test]
    fn a_report_that_no_stream_has_is_sent_again_unless_a_newer_one_was() {
        let mut waiting = Waiting::default();
        let send = |waiting: &mut Waiting, samples| {
            waiting.put(report("a", 1, samples), "");
            let (number, about, message, correlation) = waiting.take().unwrap();
            let lost = Some((message, correlation));
            Sent {
                about,
                number,
                lost,
            }
        };
        let first = send(&mut waiting, 1.0);
        waiting.settle(first);
        assert_eq!(all(&mut waiting), [report("a", 1, 1.0)]);
        let (older, newer) = (send(&mut waiting, 2.0), send(&mut waiting, 3.0));
        waiting.settle(older);
        assert!(waiting.messages.is_empty());
        waiting.settle(Sent {
            lost: None,
            ..newer
        });
        assert!(waiting.messages.is_empty() && waiting.unkept.is_empty());
    }

    #[test]
    fn a_program_that_invents_incarnations_fills_nothing() {
        let mut waiting = Waiting::default();
        waiting.put(report("aa", 1, 1.0), "");
        for run in 1..=1000 {
            waiting.put(report("a", run, 1.0), "");
        }
        assert_eq!(waiting.messages.len(), RUNS + 1);
        let sent = all(&mut waiting);
        assert_eq!(sent.first(), Some(&report("aa", 1, 1.0)));
        assert_eq!(sent.last(), Some(&report("a", 1000, 1.0)));
    }
}
