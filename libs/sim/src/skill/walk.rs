//! The walk over the trace: predictors see every step, and answer questions at some moments.

use std::collections::BTreeMap;

use lacuna_forecast::skill::{Brier, LEVELS, Seen};
use lacuna_forecast::{
    AnnouncedEnd, EndKind, HORIZONS_S, HazardSettings, LearningStage, Predictor, WithPlannedStarts,
};
use lacuna_model::{Forecast, Hole, NodeId, Span, Timestamp};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::figures::{LIMIT_S, OrderFigures, RANKED_S};
use super::order::OrderTracker;
use super::pairs::Pairs;
use super::plan::{Plan, show};
use super::training_constant::TrainingConstant;
use super::{AfterTraining, SkillOptions};
use crate::taught::taught;
use crate::{PoolStep, PoolTrace, Progress, SimError};

/// The end of the label of a predictor that hears of planned starts.
const PLANNED_STARTS: &str = " + planned starts";

/// The forecast of one predictor for one hole.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Prediction {
    /// Expected remaining seconds up to [`RANKED_S`].
    pub(super) expected_s: f64,
    /// Probability of open at each horizon.
    pub(super) open: [f64; HORIZONS_S.len()],
    /// Quantiles of the remaining length up to [`LIMIT_S`], seconds.
    pub(super) quantiles_s: [f64; LEVELS.len()],
}

impl Default for Prediction {
    /// The prediction for a hole without a forecast.
    fn default() -> Self {
        Self {
            expected_s: 0.0,
            open: [0.5; HORIZONS_S.len()],
            quantiles_s: [0.0; LEVELS.len()],
        }
    }
}

impl Prediction {
    fn new(forecast: &Forecast) -> Self {
        let quantile = |level: f64| forecast.quantile(1.0 - level).unwrap_or(LIMIT_S);
        Self {
            expected_s: forecast.mean_within(RANKED_S),
            open: HORIZONS_S.map(|after_s| forecast.open_after(after_s)),
            quantiles_s: LEVELS.map(|level| quantile(level).min(LIMIT_S)),
        }
    }
}

/// A question: a hole at a moment.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Question {
    /// Seconds since the start. Questions of one moment are consecutive.
    pub(super) moment: f64,
    /// The predictions, by predictor.
    pub(super) predictions: Vec<Prediction>,
    /// The outcome.
    pub(super) seen: Seen,
}

/// A predictor with its label.
pub(super) type Labelled = (String, Box<dyn Predictor>);

/// The results of a walk.
pub(super) struct Walked {
    pub(super) predictors: Vec<Labelled>,
    pub(super) questions: Vec<Question>,
    pub(super) moments: u64,
    pub(super) too_young: u64,
    pub(super) order: Option<OrderFigures>,
    /// By predictor: the score of its links.
    pub(super) links: Vec<Option<Brier>>,
    /// The training constant at each horizon.
    pub(super) constant: [Option<f64>; HORIZONS_S.len()],
}

/// Walks over the trace and draws questions at the planned moments.
///
/// # Errors
/// [`SimError`] if the trace cannot be read, or if the model is not of its machine.
pub(super) fn walk(
    trace: &dyn PoolTrace,
    options: &SkillOptions,
    plan: &Plan,
    progress: &mut dyn FnMut(Progress),
) -> Result<Walked, SimError> {
    let predictors = predictors(options, trace)?;
    let scored = predictors.len();
    let mut walk = Walk {
        trace,
        start: trace.start(),
        length_s: trace.length_s(),
        found: Walked {
            predictors,
            questions: Vec::new(),
            moments: 0,
            too_young: 0,
            order: None,
            links: Vec::new(),
            constant: [None; HORIZONS_S.len()],
        },
        past: TrainingConstant::new(
            plan,
            trace.nodes() as usize,
            options.holes,
            options.seed ^ 0x0a57,
        ),
        pairs: Pairs::new(
            scored,
            trace.nodes() as usize,
            options.holes,
            options.seed ^ 0xba5e_ba11,
        ),
        watch: OrderTracker::new(trace, &options.order),
        announced: options.planned_starts.then(BTreeMap::new),
        names: vec![None; trace.nodes() as usize],
        present: vec![None; trace.nodes() as usize],
        waiting: vec![Vec::new(); trace.nodes() as usize],
        holes_at_a_time: options.holes,
        skips_young: options.model.is_none(),
        rng: ChaCha8Rng::seed_from_u64(options.seed ^ 0x5ca1_ab1e),
    };
    let asking = &plan.asking;
    let mut times = asking.times.iter().copied().peekable();
    let mut steps = trace.steps()?;
    let (mut walked, mut scored, mut frozen) = (0_u64, 0_u64, false);
    while let Some(step) = steps.next()? {
        if step.at_s >= walk.length_s {
            break;
        }
        walked += 1;
        // A question comes before the changes of its moment.
        while let Some(at_s) = times.next_if(|at_s| *at_s < step.at_s) {
            walk.ask(at_s);
        }
        walk.past.before(step.at_s, &walk.present);
        let counts = step.at_s >= plan.from_s;
        if counts && options.after == AfterTraining::Freeze && !frozen {
            frozen = true;
            walk.freeze();
        }
        walk.step(step);
        walk.past.after(step.at_s, &walk.present);
        if counts {
            if asking.every > 0 && scored % asking.every == asking.phase {
                walk.ask(step.at_s);
            }
            scored += 1;
        }
        show(progress, "forecasting", walked, step.at_s, walk.length_s);
    }
    for at_s in times {
        walk.ask(at_s);
    }
    Ok(walk.end())
}

/// The model and the predictors of the options, and the first of these once more for planned
/// starts.
fn predictors(options: &SkillOptions, trace: &dyn PoolTrace) -> Result<Vec<Labelled>, SimError> {
    let mut all: Vec<Labelled> = Vec::new();
    if let Some(model) = &options.model {
        let settings = HazardSettings {
            order: options.order.clone(),
            ..HazardSettings::default()
        };
        let hears = if options.planned_starts {
            PLANNED_STARTS
        } else {
            ""
        };
        let model = taught(model, settings, trace)?;
        all.push((format!("the model{hears}"), Box::new(model)));
    }
    let named = options.predictors.iter();
    all.extend(named.map(|(label, choice)| (label.clone(), choice.build())));
    if let Some((label, first)) = options
        .predictors
        .first()
        .filter(|_| options.planned_starts)
    {
        let first = WithPlannedStarts::new(first.build());
        all.push((format!("{label}{PLANNED_STARTS}"), Box::new(first)));
    }
    Ok(all)
}

/// A walk under way.
struct Walk<'a> {
    trace: &'a dyn PoolTrace,
    start: Timestamp,
    length_s: f64,
    found: Walked,
    watch: Option<OrderTracker>,
    /// Planned starts, by node; none if no predictor uses them.
    announced: Option<BTreeMap<u32, AnnouncedEnd>>,
    past: TrainingConstant,
    pairs: Pairs,
    names: Vec<Option<NodeId>>,
    present: Vec<Option<Hole>>,
    /// By node, the questions that wait for the end of its hole.
    waiting: Vec<Vec<usize>>,
    holes_at_a_time: usize,
    /// Whether nothing is asked while a predictor is too young.
    skips_young: bool,
    rng: ChaCha8Rng,
}

impl Walk<'_> {
    fn at(&self, at_s: f64) -> Timestamp {
        self.start + Span::from_secs_f64(at_s)
    }

    fn freeze(&mut self) {
        for (_, predictor) in &mut self.found.predictors {
            predictor.freeze();
        }
    }

    fn step(&mut self, step: PoolStep<'_>) {
        if let Some(watch) = &mut self.watch {
            watch.step(step);
        }
        let now = self.at(step.at_s);
        self.pairs.leave(step.closed);
        for &node in step.closed {
            self.close(node as usize, step.at_s, now);
        }
        for &(node, since_ms) in step.opened {
            if let Some(name) = self.name(node) {
                let hole = Hole {
                    node: name,
                    since: Timestamp::from_unix_ms(since_ms),
                };
                self.open(node as usize, hole, now);
            }
        }
        self.hear(step, now);
    }

    /// Gives new planned starts to the last predictor.
    fn hear(&mut self, step: PoolStep<'_>, now: Timestamp) {
        let Some(mut announced) = self.announced.take() else {
            return;
        };
        for node in step.closed {
            announced.remove(node);
        }
        for update in step.planned {
            match self.name(update.node).filter(|_| update.at_s.is_finite()) {
                Some(node) => {
                    let hint_of_node = AnnouncedEnd {
                        node,
                        at: self.at(update.at_s),
                        kind: EndKind::PlannedStart,
                    };
                    announced.insert(update.node, hint_of_node);
                }
                None => {
                    announced.remove(&update.node);
                }
            }
        }
        if !step.planned.is_empty() {
            let all: Vec<AnnouncedEnd> = announced.values().cloned().collect();
            for (_, predictor) in &mut self.found.predictors {
                predictor.announce(now, &all);
            }
        }
        self.announced = Some(announced);
    }

    /// The name of a node, which is made once.
    fn name(&mut self, node: u32) -> Option<NodeId> {
        let at = node as usize;
        if self.names.len() <= at {
            self.names.resize(at + 1, None);
            self.present.resize(at + 1, None);
            self.waiting.resize(at + 1, Vec::new());
            self.pairs.grow(at + 1);
            self.past.grow(at + 1);
        }
        let name = self.names.get_mut(at)?;
        if name.is_none() {
            *name = NodeId::new(self.trace.node_name(node)).ok();
        }
        name.clone()
    }

    fn open(&mut self, node: usize, hole: Hole, now: Timestamp) {
        for (_, predictor) in &mut self.found.predictors {
            predictor.opened(&hole, now);
        }
        if let Some(place) = self.present.get_mut(node) {
            *place = Some(hole);
        }
    }

    fn close(&mut self, node: usize, at_s: f64, now: Timestamp) {
        let Some(hole) = self.present.get_mut(node).and_then(Option::take) else {
            return;
        };
        for (_, predictor) in &mut self.found.predictors {
            predictor.closed(&hole, now);
        }
        self.past.close(node, at_s);
        let waiting = self.waiting.get_mut(node).map(std::mem::take);
        for number in waiting.unwrap_or_default() {
            if let Some(question) = self.found.questions.get_mut(number) {
                question.seen.length_s = at_s - question.moment;
                question.seen.ended = true;
            }
        }
    }

    /// Draws questions of the present holes. All predictors are scored on the same questions, so
    /// mostly nothing is asked while one is too young.
    fn ask(&mut self, at_s: f64) {
        let (nodes, holes): (Vec<usize>, Vec<Hole>) = self
            .present
            .iter()
            .enumerate()
            .filter_map(|(node, hole)| Some((node, hole.clone()?)))
            .unzip();
        if holes.is_empty() {
            return;
        }
        let mut states = self.found.predictors.iter().map(|(_, one)| one.learning());
        if self.skips_young && states.any(|state| matches!(state, LearningStage::Young { .. })) {
            self.found.too_young += 1;
            return;
        }
        self.found.moments += 1;
        let now = self.at(at_s);
        let watched_s = self.length_s - at_s;
        let forecasts: Vec<_> = self
            .found
            .predictors
            .iter_mut()
            .map(|(_, predictor)| predictor.forecast(now, &holes))
            .collect();
        for (number, forecasts) in forecasts.iter().enumerate() {
            if let Some(joint) = &forecasts.joint {
                self.pairs.ask(number, &nodes, joint);
            }
        }
        let mut places: Vec<usize> = (0..holes.len()).collect();
        let (sample, _) = places.partial_shuffle(&mut self.rng, self.holes_at_a_time);
        for &mut place in sample {
            let predictions = forecasts
                .iter()
                .map(|all| {
                    all.of(place)
                        .map_or_else(Prediction::default, Prediction::new)
                })
                .collect();
            let waiting = nodes.get(place).and_then(|&n| self.waiting.get_mut(n));
            if let Some(waiting) = waiting {
                waiting.push(self.found.questions.len());
                self.found.questions.push(Question {
                    moment: at_s,
                    predictions,
                    // Until its end the hole is only known to last to the end of the trace.
                    seen: Seen {
                        length_s: watched_s,
                        ended: false,
                        watched_s,
                    },
                });
            }
        }
    }

    fn end(self) -> Walked {
        Walked {
            order: self.watch.map(OrderTracker::figures),
            links: self.pairs.scores(),
            constant: self.past.shares(),
            ..self.found
        }
    }
}

#[cfg(test)]
mod tests {
    use lacuna_forecast::{Choice, OrderBy};
    use lacuna_model::HoleRecord;

    use super::*;
    use crate::HoleTrace;
    use crate::skill::SampleTimes;
    use crate::skill::plan::plan;

    /// The moment from which the two traces differ, seconds.
    const PARTS: i64 = 40_000;

    /// Lengths by a fixed sequence. Holes that begin after that moment have another sequence, and
    /// holes that are open then end at other times.
    fn trace(other: u64) -> HoleTrace {
        let mut records = Vec::new();
        for node in 0..12_u64 {
            let mut state = node + 1;
            let mut after = node + 1 + other;
            let mut from = 0_i64;
            while from < 80_000 {
                let mut draw = |below: u64| {
                    let state = if from < PARTS { &mut state } else { &mut after };
                    *state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    (*state >> 33) % below
                };
                let mut until = from + 20 + draw(900) as i64;
                from += 10 + draw(300) as i64;
                let begin = from;
                until += 300;
                if until > PARTS && begin < PARTS {
                    until = PARTS + 1 + ((node + 1) * (other + 1) * 37 % 600) as i64;
                }
                records.push(HoleRecord {
                    node: NodeId::new(format!("n{node}")).unwrap(),
                    from: Timestamp::from_unix(begin),
                    until: Timestamp::from_unix(until.max(begin + 1)),
                    censored: false,
                });
                from = until.max(begin + 1);
            }
        }
        // The same length in both traces.
        let end = Some(Timestamp::from_unix(82_000));
        HoleTrace::new(&records, None, Timestamp::from_unix(0), end)
    }

    #[test]
    fn another_future_changes_no_forecast() {
        let options = SkillOptions {
            predictors: vec![
                ("hazard".to_owned(), Choice::hazard(OrderBy::Learnt)),
                ("age".to_owned(), Choice::survival()),
                ("persistence".to_owned(), Choice::Persistence),
            ],
            moments: SampleTimes::Times(400),
            holes: 5,
            ..SkillOptions::default()
        };
        println!("seed {}", options.seed);
        let questions = |other| {
            let trace = trace(other);
            let plan = plan(&trace, &options, 0.0, &mut |_| {}).unwrap();
            walk(&trace, &options, &plan, &mut |_| {})
                .unwrap()
                .questions
        };
        let (one, two) = (questions(0), questions(5));
        let before = |all: &[Question]| -> Vec<(f64, Vec<Prediction>)> {
            all.iter()
                .take_while(|question| question.moment < PARTS as f64)
                .map(|question| (question.moment, question.predictions.clone()))
                .collect()
        };
        assert!(before(&one).len() > 200, "{}", before(&one).len());
        assert_eq!(before(&one), before(&two));
        // The futures differ, and so do the forecasts there.
        let all = |all: &[Question]| -> Vec<Vec<Prediction>> {
            all.iter()
                .map(|question| question.predictions.clone())
                .collect()
        };
        assert_ne!(all(&one), all(&two));
    }
}
