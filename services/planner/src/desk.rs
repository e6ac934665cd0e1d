//! The pending inputs: the newest pool and the newest trainers. It says when a plan is due, and
//! whether a plan is worth publishing.

use lacuna_model::{Allocation, Generation, Plan, Pool, Span};
use lacuna_runtime::Stopwatch;
use lacuna_wire::msg::{PoolState, TrainersState};

/// How the cluster's time runs, as far as planning goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// Only what differs from the last plan is published.
    #[default]
    Free,
    /// Everybody waits for the plan of each state, changed or not.
    LockStep,
}

/// What a plan is made from.
#[derive(Debug, Clone)]
pub struct Task {
    /// The pool.
    pub pool: Pool,
    /// The trainers.
    pub trainers: TrainersState,
    /// The number that the plan will have.
    pub generation: Generation,
    /// Id of the newest event that led here.
    pub correlation: String,
    /// Runs since the newest of the inputs came.
    pub newest: Stopwatch,
    /// Whether the pool came so long ago that nobody may grow on its word.
    pub stale: bool,
}

/// An input with its correlation id and its arrival.
#[derive(Debug, Clone)]
struct Input<T> {
    value: T,
    correlation: String,
    arrived: Stopwatch,
}

/// What was published last.
#[derive(Debug, Clone, PartialEq)]
struct Published {
    allocations: Vec<Allocation>,
    trainers_version: u64,
}

/// The desk.
#[derive(Debug, Default)]
pub struct Desk {
    pool: Option<Input<PoolState>>,
    trainers: Option<Input<TrainersState>>,
    /// Whether something lies here that has not been planned.
    changed: Option<Stopwatch>,
    generation: Generation,
    published: Option<Published>,
    mode: Mode,
    /// A pool that came longer ago than this is stale.
    stale_after: Span,
    /// Whether the newest task was given a stale pool: the next one is to be planned, whether
    /// it differs or not.
    doubted: bool,
}

impl Desk {
    /// An empty desk; plans are numbered after `generation`, and a pool that came longer ago
    /// than `stale_after` is stale (never in lock step, where everybody waits for it).
    #[must_use]
    pub fn new(generation: Generation, stale_after: Span) -> Self {
        Self {
            generation,
            stale_after,
            ..Self::default()
        }
    }

    /// How time runs now.
    pub fn set_mode(&mut self, mode: Mode) {
        self.mode = mode;
    }

    /// How time runs.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The newest pool.
    #[must_use]
    pub fn pool(&self) -> Option<&Pool> {
        self.pool.as_ref().map(|input| &input.value.pool)
    }

    /// Takes a pool. One that is older than the present one (a server that was killed can show
    /// such) is ignored.
    pub fn take_pool(&mut self, state: PoolState, correlation: &str, arrived: Stopwatch) {
        let present = self.pool().map(|p| (p.seq, p.as_of));
        let new = (state.pool.seq, state.pool.as_of);
        if present.is_some_and(|(seq, as_of)| new.0 <= seq && new.1 < as_of) {
            return;
        }
        // A pool that differs in its forecasts alone asks for no other plan. In lock step every
        // moment has its plan, also one without an event.
        let same = self.pool().is_some_and(|pool| {
            pool.seq == new.0
                && (self.mode == Mode::Free || pool.as_of == new.1)
                && pool.holes.len() == state.pool.holes.len()
                && pool
                    .holes
                    .iter()
                    .zip(&state.pool.holes)
                    .all(|(a, b)| a.hole == b.hole)
        });
        self.pool = Some(Input {
            value: state,
            correlation: correlation.to_owned(),
            arrived,
        });
        if !same || std::mem::take(&mut self.doubted) {
            self.changed.get_or_insert(arrived);
        }
    }

    /// Takes the trainers. An older state than the present one is ignored.
    pub fn take_trainers(&mut self, state: TrainersState, correlation: &str, arrived: Stopwatch) {
        let present = self
            .trainers
            .as_ref()
            .map(|t| (t.value.version, t.value.as_of));
        let new = (state.version, state.as_of);
        if present.is_some_and(|(version, as_of)| new.0 <= version && new.1 < as_of) {
            return;
        }
        let same = self.trainers.as_ref().is_some_and(|t| t.value == state);
        self.trainers = Some(Input {
            value: state,
            correlation: correlation.to_owned(),
            arrived,
        });
        if !same {
            self.changed.get_or_insert(arrived);
        }
    }

    /// Since when something waits to be planned; nothing if one of the two states is missing.
    #[must_use]
    pub fn waiting(&self) -> Option<Stopwatch> {
        self.changed
            .filter(|_| self.pool.is_some() && self.trainers.is_some())
    }

    /// The bus has a plan of this generation: the next ones are newer.
    pub fn follow_on(&mut self, generation: Generation) {
        self.generation = self.generation.max(generation);
    }

    /// The bus may have lost the newest plan: what lies here is planned and published again. In
    /// lock step every step has its plan, and whoever waits for one says so again.
    pub fn lost(&mut self) {
        if self.mode == Mode::Free {
            self.published = None;
            self.again();
        }
    }

    /// What lies here is to be planned again, whether it changed or not.
    pub fn again(&mut self) {
        self.changed.get_or_insert_with(Stopwatch::start);
    }

    /// The task to be solved now, with the next generation.
    pub fn next_task(&mut self) -> Option<Task> {
        let (pool, trainers) = (self.pool.as_ref()?, self.trainers.as_ref()?);
        self.changed.take()?;
        self.generation = Generation(self.generation.0.saturating_add(1));
        let (first, second, newest) = if pool.arrived.seconds() <= trainers.arrived.seconds() {
            (&pool.correlation, &trainers.correlation, pool.arrived)
        } else {
            (&trainers.correlation, &pool.correlation, trainers.arrived)
        };
        let stale =
            self.mode == Mode::Free && pool.arrived.seconds() > self.stale_after.as_secs_f64();
        self.doubted = stale;
        // A change without an event behind it (a submission) leaves the older cause.
        let correlation = if first.is_empty() { second } else { first };
        Some(Task {
            pool: pool.value.pool.clone(),
            trainers: trainers.value.clone(),
            generation: self.generation,
            correlation: correlation.clone(),
            newest,
            stale,
        })
    }

    /// Whether anybody needs to hear of this plan: in lock step always; else if it differs
    /// from the last one, or the trainers have changed, since control takes only plans that
    /// were made from their present state.
    #[must_use]
    pub fn worth_publishing(&self, plan: &Plan, trainers_version: u64) -> bool {
        self.mode == Mode::LockStep
            || self.published.as_ref().is_none_or(|last| {
                last.trainers_version != trainers_version || last.allocations != plan.allocations
            })
    }

    /// The plan has been published.
    pub fn published(&mut self, plan: &Plan, trainers_version: u64) {
        self.published = Some(Published {
            allocations: plan.allocations.clone(),
            trainers_version,
        });
    }
}

#[cfg(test)]
mod tests {
    use lacuna_model::Timestamp;
    use lacuna_testkit::{pool, record, spec};

    use super::*;

    fn pools(seq: u64, as_of: i64, names: &[&str]) -> PoolState {
        PoolState {
            pool: pool(seq, as_of, names),
            predictor: "constant".to_owned(),
        }
    }

    fn trainers(version: u64, as_of: i64) -> TrainersState {
        TrainersState {
            version,
            as_of: Timestamp::from_unix(as_of),
            trainers: vec![record(spec("t", 4), 1, &[])],
            unusable: vec![],
        }
    }

    fn desk(generation: u64) -> Desk {
        Desk::new(Generation(generation), Span::from_secs(30))
    }

    fn now() -> Stopwatch {
        Stopwatch::start()
    }

    #[test]
    fn a_task_needs_both_states_and_takes_the_newest() {
        let mut desk = desk(7);
        desk.take_pool(pools(1, 10, &["a"]), "e1", now());
        assert!(desk.waiting().is_none() && desk.next_task().is_none());
        desk.take_trainers(trainers(1, 10), "e0", now());
        desk.take_pool(pools(2, 11, &["a", "b"]), "e2", now());
        let task = desk.next_task().unwrap();
        assert_eq!((task.pool.seq, task.generation), (2, Generation(8)));
        assert_eq!(task.correlation, "e2");
        assert!(desk.waiting().is_none() && desk.next_task().is_none());
        desk.again();
        assert_eq!(desk.next_task().unwrap().generation, Generation(9));
    }

    #[test]
    fn what_changes_nothing_or_is_older_asks_for_no_plan() {
        let mut desk = desk(0);
        desk.take_pool(pools(5, 50, &["a"]), "", now());
        desk.take_trainers(trainers(3, 50), "", now());
        desk.next_task().unwrap();
        // Only its forecasts are newer.
        desk.take_pool(pools(5, 60, &["a"]), "", now());
        // A killed server shows what was the newest before.
        desk.take_pool(pools(4, 40, &["a", "b"]), "", now());
        desk.take_trainers(trainers(2, 40), "", now());
        desk.take_trainers(trainers(3, 50), "", now());
        assert!(desk.waiting().is_none());
        assert_eq!(desk.pool().unwrap().as_of, Timestamp::from_unix(60));
        // Numbering that has begun anew is newer in time.
        desk.take_pool(pools(1, 70, &["c"]), "", now());
        assert!(desk.waiting().is_some());
    }

    #[test]
    fn in_lock_step_every_moment_has_its_plan() {
        let mut desk = desk(0);
        desk.set_mode(Mode::LockStep);
        desk.take_pool(pools(5, 50, &["a"]), "", now());
        desk.take_trainers(trainers(3, 50), "", now());
        desk.next_task().unwrap();
        desk.take_pool(pools(5, 50, &["a"]), "", now());
        assert!(desk.waiting().is_none());
        // The trainers' figures may be heard before the pool of the new moment.
        desk.take_trainers(trainers(4, 60), "", now());
        assert_eq!(desk.next_task().unwrap().pool.as_of.unix_ms(), 50_000);
        desk.take_pool(pools(5, 60, &["a"]), "", now());
        assert_eq!(desk.next_task().unwrap().pool.as_of.unix_ms(), 60_000);
    }

    #[test]
    fn an_unchanged_plan_is_published_only_in_lock_step_or_for_changed_trainers() {
        let mut desk = desk(0);
        let mut planner = lacuna_planner::Planner::new(lacuna_planner::Settings::default());
        let plan = planner.plan(
            &pool(1, 1, &["a"]),
            &trainers(1, 1).trainers,
            &[],
            Generation(1),
        );
        assert!(desk.worth_publishing(&plan, 1));
        desk.published(&plan, 1);
        assert!(!desk.worth_publishing(&plan, 1));
        assert!(desk.worth_publishing(&plan, 2));
        desk.set_mode(Mode::LockStep);
        assert!(desk.worth_publishing(&plan, 1));
    }

    #[test]
    fn a_pool_that_came_long_ago_is_stale_and_the_next_one_is_planned_at_once() {
        let mut desk = Desk::new(Generation(0), Span::from_ms(20));
        desk.take_pool(pools(5, 50, &["a"]), "", now());
        desk.take_trainers(trainers(1, 50), "", now());
        assert!(!desk.next_task().unwrap().stale);
        std::thread::sleep(std::time::Duration::from_millis(40));
        desk.take_trainers(trainers(2, 51), "", now());
        assert!(desk.next_task().unwrap().stale);
        // In lock step everybody waits for the pool, however long.
        desk.set_mode(Mode::LockStep);
        desk.again();
        assert!(!desk.next_task().unwrap().stale);
        desk.set_mode(Mode::Free);
        desk.again();
        assert!(desk.next_task().unwrap().stale);
        // The same pool again: only it is new.
        desk.take_pool(pools(5, 52, &["a"]), "", now());
        assert!(desk.waiting().is_some());
        assert!(!desk.next_task().unwrap().stale);
    }
}
