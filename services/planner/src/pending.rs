//! The pending inputs: the newest pool, the newest trainers and what is known of nodes. They decide
//! when a plan is due, and whether a plan is published.

use std::sync::Arc;

use lacuna_model::{Allocation, Generation, Plan, Pool, Span};
use lacuna_runtime::Stopwatch;
use lacuna_wire::msg::{PoolState, TopologyState, TrainersState};

/// The pace of the cluster's time, as far as planning depends on it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// A plan is published if it differs from the last one.
    #[default]
    Free,
    /// The loop waits for the plan of each state, changed or not.
    LockStep,
}

/// The input of a plan.
#[derive(Debug, Clone)]
pub struct Task {
    /// The pool.
    pub pool: Pool,
    /// The trainers.
    pub trainers: TrainersState,
    /// Where nodes are and of which kind; empty if nothing is known of it.
    pub places: Arc<TopologyState>,
    /// The generation of the plan.
    pub generation: Generation,
    /// Id of the newest event behind the task.
    pub correlation: String,
    /// Runs since the arrival of the newest input.
    pub newest: Stopwatch,
    /// Whether the pool is stale, so that no trainer may grow.
    pub stale: bool,
}

/// An input with its correlation id and its arrival.
#[derive(Debug, Clone)]
struct Input<T> {
    value: T,
    correlation: String,
    arrived: Stopwatch,
}

/// The last published plan.
#[derive(Debug, Clone, PartialEq)]
struct Published {
    allocations: Vec<Allocation>,
    trainers_version: u64,
}

/// The pending inputs.
#[derive(Debug, Default)]
pub struct Pending {
    pool: Option<Input<PoolState>>,
    trainers: Option<Input<TrainersState>>,
    places: Arc<TopologyState>,
    /// Runs since the first change that has no plan yet.
    changed: Option<Stopwatch>,
    generation: Generation,
    published: Option<Published>,
    mode: Mode,
    /// Age of a pool from which it is stale.
    stale_after: Span,
    /// Whether the newest task has a stale pool: the next pool then needs a plan, changed or not.
    doubted: bool,
}

impl Pending {
    /// No inputs yet. Plans are numbered after `generation`. A pool that came longer ago than
    /// `stale_after` is stale, but never in lock step, where the loop waits for it.
    #[must_use]
    pub fn new(generation: Generation, stale_after: Span) -> Self {
        Self {
            generation,
            stale_after,
            ..Self::default()
        }
    }

    /// With what is known of nodes from the beginning.
    #[must_use]
    pub fn knowing(self, places: TopologyState) -> Self {
        Self {
            places: Arc::new(places),
            ..self
        }
    }

    /// Sets the pace.
    pub fn set_mode(&mut self, mode: Mode) {
        self.mode = mode;
    }

    /// The pace.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The newest pool.
    #[must_use]
    pub fn pool(&self) -> Option<&Pool> {
        self.pool.as_ref().map(|input| &input.value.pool)
    }

    /// Takes a pool. A pool older than the present one is ignored; a killed server can show one.
    pub fn take_pool(&mut self, state: PoolState, correlation: &str, arrived: Stopwatch) {
        let present = self.pool().map(|p| (p.seq, p.as_of));
        let new = (state.pool.seq, state.pool.as_of);
        if present.is_some_and(|(seq, as_of)| new.0 <= seq && new.1 < as_of) {
            return;
        }
        // New forecasts alone need no new plan. In lock step every step has its plan, also one
        // without an event.
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

    /// Takes where nodes are and of which kind. Another topology or other kinds need a new plan.
    pub fn take_places(&mut self, places: TopologyState) {
        if *self.places != places {
            self.places = Arc::new(places);
            self.again();
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

    /// Runs since the first change without a plan; nothing if one of the two states is missing.
    #[must_use]
    pub fn waiting(&self) -> Option<Stopwatch> {
        self.changed
            .filter(|_| self.pool.is_some() && self.trainers.is_some())
    }

    /// Records that the bus has a plan of this generation, so that the next ones are newer.
    pub fn follow_on(&mut self, generation: Generation) {
        self.generation = self.generation.max(generation);
    }

    /// Records that the bus may have lost the newest plan: the inputs are planned and published
    /// again. In lock step every step has its plan, and the service that waits for one asks again.
    pub fn lost(&mut self) {
        if self.mode == Mode::Free {
            self.published = None;
            self.again();
        }
    }

    /// Asks for a new plan of the present inputs, changed or not.
    pub fn again(&mut self) {
        self.changed.get_or_insert_with(Stopwatch::start);
    }

    /// The next task, with the next generation.
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
        // A change without an event, such as a submission, leaves the older cause.
        let correlation = if first.is_empty() { second } else { first };
        Some(Task {
            pool: pool.value.pool.clone(),
            trainers: trainers.value.clone(),
            places: Arc::clone(&self.places),
            generation: self.generation,
            correlation: correlation.clone(),
            newest,
            stale,
        })
    }

    /// Whether a plan needs publishing. In lock step it always does. Else it does if it differs
    /// from the last one, or if the trainers have changed, since control takes only plans of their
    /// present state.
    #[must_use]
    pub fn worth_publishing(&self, plan: &Plan, trainers_version: u64) -> bool {
        self.mode == Mode::LockStep
            || self.published.as_ref().is_none_or(|last| {
                last.trainers_version != trainers_version || last.allocations != plan.allocations
            })
    }

    /// Records a published plan.
    pub fn published(&mut self, plan: &Plan, trainers_version: u64) {
        self.published = Some(Published {
            allocations: plan.allocations.clone(),
            trainers_version,
        });
    }
}

#[cfg(test)]
mod tests {
    use lacuna_model::{NodeKinds, Timestamp, Topology};
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
            pilot_s: 0.0,
            followed: Generation(0),
        }
    }

    fn pending(generation: u64) -> Pending {
        Pending::new(Generation(generation), Span::from_secs(30))
    }

    fn now() -> Stopwatch {
        Stopwatch::start()
    }

    #[test]
    fn a_task_needs_both_states_and_takes_the_newest() {
        let mut pending = pending(7);
        pending.take_pool(pools(1, 10, &["a"]), "e1", now());
        assert!(pending.waiting().is_none() && pending.next_task().is_none());
        pending.take_trainers(trainers(1, 10), "e0", now());
        pending.take_pool(pools(2, 11, &["a", "b"]), "e2", now());
        let task = pending.next_task().unwrap();
        assert_eq!((task.pool.seq, task.generation), (2, Generation(8)));
        assert_eq!(task.correlation, "e2");
        assert!(pending.waiting().is_none() && pending.next_task().is_none());
        pending.again();
        assert_eq!(pending.next_task().unwrap().generation, Generation(9));
    }

    #[test]
    fn equal_and_older_inputs_need_no_plan() {
        let mut pending = pending(0);
        pending.take_pool(pools(5, 50, &["a"]), "", now());
        pending.take_trainers(trainers(3, 50), "", now());
        pending.next_task().unwrap();
        // Only the forecasts are newer.
        pending.take_pool(pools(5, 60, &["a"]), "", now());
        // A killed server shows older states.
        pending.take_pool(pools(4, 40, &["a", "b"]), "", now());
        pending.take_trainers(trainers(2, 40), "", now());
        pending.take_trainers(trainers(3, 50), "", now());
        assert!(pending.waiting().is_none());
        assert_eq!(pending.pool().unwrap().as_of, Timestamp::from_unix(60));
        // Restarted numbering is newer in time.
        pending.take_pool(pools(1, 70, &["c"]), "", now());
        assert!(pending.waiting().is_some());
    }

    #[test]
    fn in_lock_step_every_step_has_its_plan() {
        let mut pending = pending(0);
        pending.set_mode(Mode::LockStep);
        pending.take_pool(pools(5, 50, &["a"]), "", now());
        pending.take_trainers(trainers(3, 50), "", now());
        pending.next_task().unwrap();
        pending.take_pool(pools(5, 50, &["a"]), "", now());
        assert!(pending.waiting().is_none());
        // The trainers of the new step may come before its pool.
        pending.take_trainers(trainers(4, 60), "", now());
        assert_eq!(pending.next_task().unwrap().pool.as_of.unix_ms(), 50_000);
        pending.take_pool(pools(5, 60, &["a"]), "", now());
        assert_eq!(pending.next_task().unwrap().pool.as_of.unix_ms(), 60_000);
    }

    #[test]
    fn an_unchanged_plan_is_published_only_in_lock_step_or_for_changed_trainers() {
        let mut pending = pending(0);
        let mut planner = lacuna_planner::Planner::new(lacuna_planner::Settings::default());
        let plan = planner.plan(
            &pool(1, 1, &["a"]),
            &trainers(1, 1).trainers,
            &[],
            Generation(1),
        );
        assert!(pending.worth_publishing(&plan, 1));
        pending.published(&plan, 1);
        assert!(!pending.worth_publishing(&plan, 1));
        assert!(pending.worth_publishing(&plan, 2));
        pending.set_mode(Mode::LockStep);
        assert!(pending.worth_publishing(&plan, 1));
    }

    #[test]
    fn another_topology_and_other_kinds_need_a_plan() {
        let mut pending = pending(0);
        pending.take_pool(pools(5, 50, &["a"]), "", now());
        pending.take_trainers(trainers(3, 50), "", now());
        assert!(pending.next_task().unwrap().places.topology.is_empty());
        pending.take_places(TopologyState::default());
        assert!(pending.waiting().is_none());
        let paths = [(lacuna_testkit::node("a"), vec!["leaf".to_owned()])];
        let mut places = TopologyState {
            topology: Topology::new(paths.into()).unwrap(),
            ..TopologyState::default()
        };
        pending.take_places(places.clone());
        assert_eq!(*pending.next_task().unwrap().places, places);
        pending.take_places(places.clone());
        assert!(pending.waiting().is_none());
        let kind = (lacuna_testkit::node("a"), "gpu".parse().unwrap());
        places.kinds = NodeKinds::new([kind].into());
        pending.take_places(places);
        assert!(pending.waiting().is_some());
    }

    #[test]
    fn an_old_pool_is_stale_and_the_next_one_is_planned_at_once() {
        let mut pending = Pending::new(Generation(0), Span::from_ms(20));
        pending.take_pool(pools(5, 50, &["a"]), "", now());
        pending.take_trainers(trainers(1, 50), "", now());
        assert!(!pending.next_task().unwrap().stale);
        std::thread::sleep(std::time::Duration::from_millis(40));
        pending.take_trainers(trainers(2, 51), "", now());
        assert!(pending.next_task().unwrap().stale);
        // In lock step a pool is never stale.
        pending.set_mode(Mode::LockStep);
        pending.again();
        assert!(!pending.next_task().unwrap().stale);
        pending.set_mode(Mode::Free);
        pending.again();
        assert!(pending.next_task().unwrap().stale);
        // An equal pool, newly arrived.
        pending.take_pool(pools(5, 52, &["a"]), "", now());
        assert!(pending.waiting().is_some());
        assert!(!pending.next_task().unwrap().stale);
    }
}
