//! What is to be said on the bus, without anybody waiting for the bus.
//!
//! Of each status and each report only the newest waits: the newer replaces the older, in the
//! newer's place, so that words go out in the order in which the newest were said. What waits is
//! bounded by nodes and by trainers that run here, however much a program says and however long the
//! server is away. A report is said until a stream has it: no later one tells what a run that has
//! ended did.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use lacuna_model::{NodeId, RunId, TrainerId};
use lacuna_runtime::{BusError, Context};
use lacuna_wire::address;
use lacuna_wire::msg::{AgentStatus, Progress};
use tokio::sync::Notify;

use crate::metrics::Metrics;

/// Runs of one trainer of which a report waits at most: a program names runs as it likes.
const RUNS: usize = 8;
/// Between two looks whether the server is there again.
const AWAY: Duration = Duration::from_millis(100);
/// Between two looks whether all has gone out.
const PAUSE: Duration = Duration::from_millis(1);

/// One thing to say.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Word {
    /// Of a node.
    Status(AgentStatus),
    /// Of a run.
    Progress(Progress),
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum About {
    Node(NodeId),
    Run(TrainerId, RunId),
}

/// What waits to be said. Clones share it.
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
    words: BTreeMap<u64, (About, Word, String)>,
    places: BTreeMap<About, u64>,
    /// The newest report of each run that has been said and is not known to be kept.
    unkept: BTreeMap<About, u64>,
    /// A word has been taken out and is not yet with the client.
    saying: bool,
}

/// A report that has been said, and whether a stream has it.
struct Said {
    about: About,
    number: u64,
    /// What is to be said again.
    lost: Option<(Word, String)>,
}

impl Waiting {
    /// Returns whether an older word is lost by it.
    fn put(&mut self, word: Word, correlation: &str) -> bool {
        let about = match &word {
            Word::Status(status) => About::Node(status.node.clone()),
            Word::Progress(report) => About::Run(report.trainer.clone(), report.run),
        };
        let mut lost = self.forget(&about);
        if let Some(oldest) = self.crowded(&about) {
            lost |= self.forget(&oldest);
        }
        self.put += 1;
        self.places.insert(about.clone(), self.put);
        self.words
            .insert(self.put, (about, word, correlation.to_owned()));
        lost
    }

    fn forget(&mut self, about: &About) -> bool {
        let place = self.places.remove(about);
        place.is_some_and(|place| self.words.remove(&place).is_some())
    }

    /// The oldest run of the same trainer, if there is room for no more of them.
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

    fn take(&mut self) -> Option<(u64, About, Word, String)> {
        let (number, (about, word, correlation)) = self.words.pop_first()?;
        self.places.remove(&about);
        if matches!(word, Word::Progress(_)) {
            self.unkept.insert(about.clone(), number);
        }
        self.saying = true;
        Some((number, about, word, correlation))
    }

    /// The outcome of a report: what is lost waits again, unless a newer one has been said.
    fn settle(&mut self, said: Said) {
        if self.unkept.get(&said.about) != Some(&said.number) {
            return;
        }
        self.unkept.remove(&said.about);
        if let Some((word, correlation)) = said.lost
            && !self.places.contains_key(&said.about)
        {
            self.put(word, &correlation);
        }
    }
}

impl Outbox {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        let waiting = self.0.waiting.lock();
        waiting.unwrap_or_else(PoisonError::into_inner)
    }

    /// To be said as soon as may be. Returns whether an older word is not said for it.
    pub(crate) fn put(&self, word: Word, correlation: &str) -> bool {
        let lost = self.waiting().put(word, correlation);
        self.0.news.notify_one();
        lost
    }

    /// Says what is put, for as long as this process lives.
    pub(crate) async fn say(self, ctx: Context, metrics: Metrics) {
        let mut answers = FuturesUnordered::new();
        loop {
            // What the client holds cannot be replaced any more.
            while !ctx.bus.connected() {
                tokio::time::sleep(AWAY).await;
            }
            while let Some(Some(said)) = answers.next().now_or_never() {
                self.waiting().settle(said);
            }
            let next = self.waiting().take();
            let Some((number, about, word, correlation)) = next else {
                tokio::select! {
                    biased;
                    () = self.0.news.notified() => {}
                    Some(said) = answers.next() => self.waiting().settle(said),
                }
                continue;
            };
            match word {
                Word::Status(status) => {
                    metrics.statuses.inc();
                    let subject = address::agent(&ctx.cluster, &status.node);
                    if let Err(error) = ctx.bus.publish(&subject, &status, &correlation).await {
                        tracing::warn!(%error, "not said");
                    }
                }
                Word::Progress(report) => {
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
                                tracing::warn!(%error, "not said");
                                None
                            }
                            Err(error) => {
                                tracing::debug!(%error, "no stream has it, to be said again");
                                tokio::time::sleep(AWAY).await;
                                Some((Word::Progress(report), correlation))
                            }
                        };
                        Said {
                            about,
                            number,
                            lost,
                        }
                    });
                }
            }
            self.waiting().saying = false;
        }
    }

    /// Waits until all that was put is with the client, and each report in a stream.
    pub(crate) async fn empty(&self) {
        loop {
            {
                let waiting = self.waiting();
                if waiting.words.is_empty() && waiting.unkept.is_empty() && !waiting.saying {
                    return;
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use lacuna_model::{Activity, Epoch, Timestamp};

    use super::*;

    fn report(trainer: &str, run: u64, samples: f64) -> Word {
        Word::Progress(Progress {
            node: NodeId::new("n1").unwrap(),
            trainer: TrainerId::new(trainer).unwrap(),
            run: RunId(run),
            at: Timestamp::from_unix(1),
            samples,
            owed: 0.0,
            step: None,
            world_size: 1,
            loss: None,
            checkpoint: None,
            saved: None,
            base: None,
        })
    }

    fn status(seq: u64) -> Word {
        Word::Status(AgentStatus {
            node: NodeId::new("n1").unwrap(),
            epoch: Epoch(1),
            seq,
            activity: Activity::Free,
            released: None,
            leaving: false,
            gave_back_in: None,
            broken: None,
            terms: None,
        })
    }

    fn all(waiting: &mut Waiting) -> Vec<Word> {
        std::iter::from_fn(|| waiting.take().map(|(_, _, word, _)| word)).collect()
    }

    #[test]
    fn the_newest_is_said_after_what_was_said_before_it() {
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
    fn a_report_that_no_stream_has_is_said_again_unless_a_newer_one_was() {
        let mut waiting = Waiting::default();
        let say = |waiting: &mut Waiting, samples| {
            waiting.put(report("a", 1, samples), "");
            let (number, about, word, correlation) = waiting.take().unwrap();
            let lost = Some((word, correlation));
            Said {
                about,
                number,
                lost,
            }
        };
        let first = say(&mut waiting, 1.0);
        waiting.settle(first);
        assert_eq!(all(&mut waiting), [report("a", 1, 1.0)]);
        let (older, newer) = (say(&mut waiting, 2.0), say(&mut waiting, 3.0));
        waiting.settle(older);
        assert!(waiting.words.is_empty());
        waiting.settle(Said {
            lost: None,
            ..newer
        });
        assert!(waiting.words.is_empty() && waiting.unkept.is_empty());
    }

    #[test]
    fn a_program_that_makes_up_runs_fills_nothing() {
        let mut waiting = Waiting::default();
        waiting.put(report("aa", 1, 1.0), "");
        for run in 1..=1000 {
            waiting.put(report("a", run, 1.0), "");
        }
        assert_eq!(waiting.words.len(), RUNS + 1);
        let said = all(&mut waiting);
        assert_eq!(said.first(), Some(&report("aa", 1, 1.0)));
        assert_eq!(said.last(), Some(&report("a", 1000, 1.0)));
    }
}
