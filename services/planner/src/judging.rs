//! The judge of the service: some decisions are solved again, off the path, one at a time. A decision
//! that comes meanwhile is not judged. What it finds changes no plan.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lacuna_model::{Generation, JudgedPlan, Timestamp};
use lacuna_planner::judge::{Case, Judgement, NotJudged};
use lacuna_runtime::{Stopwatch, task};
use tokio::sync::oneshot;

use crate::metrics::{BUSY, Metrics};

/// Longest wait for a judgement at the end of the service. A solver that runs on is stopped with the
/// process.
const LAST_WAIT: Duration = Duration::from_secs(2);

type Answer = Result<Judgement, NotJudged>;

/// The judge, with the decision that it judges and its newest answer.
#[derive(Debug, Default)]
pub struct Judge {
    judging: Option<Judging>,
    newest: Option<JudgedPlan>,
}

#[derive(Debug)]
struct Judging {
    generation: Generation,
    as_of: Timestamp,
    watch: Stopwatch,
    answer: oneshot::Receiver<Answer>,
    /// Ends the judgement soon.
    stop: Arc<AtomicBool>,
}

impl Judge {
    /// What it found last.
    #[must_use]
    pub const fn newest(&self) -> Option<JudgedPlan> {
        self.newest
    }

    /// Whether a decision is being judged.
    #[must_use]
    pub const fn busy(&self) -> bool {
        self.judging.is_some()
    }

    /// Judges the decision of a plan, or counts why it does not.
    pub fn give(
        &mut self,
        (generation, as_of): (Generation, Timestamp),
        case: Result<Case, NotJudged>,
        metrics: &Metrics,
    ) {
        match case {
            Err(reason) => metrics.not_judged(reason.name()),
            Ok(case) => {
                let watch = Stopwatch::start();
                self.begin((generation, as_of), metrics, move |stop| {
                    let stopped = || stop.load(Ordering::Relaxed);
                    case.judge(&|| {
                        if stopped() {
                            f64::INFINITY
                        } else {
                            watch.seconds()
                        }
                    })
                });
            }
        }
    }

    fn begin(
        &mut self,
        (generation, as_of): (Generation, Timestamp),
        metrics: &Metrics,
        judge: impl FnOnce(&AtomicBool) -> Answer + Send + 'static,
    ) {
        if self.busy() {
            metrics.not_judged(BUSY);
            return;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let asked = stop.clone();
        self.judging = Some(Judging {
            generation,
            as_of,
            watch: Stopwatch::start(),
            answer: task::idle(move || judge(&asked)),
            stop,
        });
    }

    /// Takes the next answer; it waits forever while no decision is being judged. Safe to drop in
    /// `select!`.
    pub async fn next(&mut self, metrics: &Metrics) {
        let Some(judging) = &mut self.judging else {
            return std::future::pending().await;
        };
        let answer = (&mut judging.answer).await;
        let Some(judging) = self.judging.take() else {
            return;
        };
        // Without a thread there is no answer.
        match answer.unwrap_or(Err(NotJudged::NoBound)) {
            Err(reason) => metrics.not_judged(reason.name()),
            Ok(judgement) => {
                let judged = JudgedPlan {
                    generation: judging.generation,
                    as_of: judging.as_of,
                    gap: judgement.gap(),
                    shortfall: judgement.shortfall(),
                    proven: judgement.is_proven(),
                };
                metrics.judged(&judged, judging.watch.seconds());
                tracing::info!(
                    generation = judged.generation.0,
                    gap = judged.gap,
                    shortfall = judged.shortfall,
                    proven = judged.proven,
                    "judged"
                );
                self.newest = Some(judged);
            }
        }
    }

    /// Ends it, with the judgement that runs.
    pub async fn end(mut self) {
        if let Some(judging) = &mut self.judging {
            judging.stop.store(true, Ordering::Relaxed);
            // A thread that runs longer ends with the process.
            let _ = tokio::time::timeout(LAST_WAIT, &mut judging.answer).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use lacuna_runtime::metrics::{Registry, expose};

    use super::*;

    const GOOD: Judgement = Judgement {
        value: 96.0,
        best: 98.0,
        bound: 100.0,
    };

    fn plan(number: u64) -> (Generation, Timestamp) {
        (Generation(number), Timestamp::from_unix(7))
    }

    #[tokio::test]
    async fn while_one_decision_is_judged_others_are_counted_and_nothing_waits() {
        let registry = Registry::new();
        let metrics = Metrics::new(&registry).unwrap();
        let mut judge = Judge::default();
        let (go, gone) = channel::<()>();
        judge.begin(plan(1), &metrics, move |_| {
            gone.recv().unwrap();
            Ok(GOOD)
        });
        assert!(judge.busy());
        // The first one blocks its thread, and none of these waits for it.
        judge.begin(plan(2), &metrics, |_| Ok(GOOD));
        judge.give(plan(3), Err(NotJudged::Kinds), &metrics);
        let soon = Duration::from_millis(50);
        assert!(
            tokio::time::timeout(soon, judge.next(&metrics))
                .await
                .is_err()
        );
        assert!(judge.busy() && judge.newest().is_none());
        go.send(()).unwrap();
        judge.next(&metrics).await;
        let found = judge.newest().unwrap();
        assert_eq!((found.generation, found.as_of), plan(1));
        assert_eq!(
            (found.gap, found.shortfall, found.proven),
            (0.04, 0.02, false)
        );
        let text = expose(&registry).unwrap();
        for line in [
            r#"judged_total{outcome="bounded"} 1"#,
            r#"judged_total{outcome="busy"} 1"#,
            r#"judged_total{outcome="kinds"} 1"#,
            r#"judged_total{outcome="proven"} 0"#,
            "judged_gap_ratio_sum 0.04",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        // At the end a judgement that runs must stop, and the service waits for it.
        judge.begin(plan(4), &metrics, |stop| {
            while !stop.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            Err(NotJudged::NoBound)
        });
        judge.end().await;
    }
}
