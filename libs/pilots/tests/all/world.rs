//! A scheduler with nodes, jobs, delays and failures, and agents in its pilots.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use lacuna_model::{NodeId, Span, Timestamp, TrainerId};
use lacuna_pilots::keeper::{
    Cause, Effect, Input, Keeper, Mode, Note, Offer, Refusal, Settings, Ticket, Wants,
};
use lacuna_scheduler::job::{End, JobId, JobStage, Listed, Owner};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub(crate) fn owner() -> Owner {
    Owner {
        name: "lacuna-pilot".to_owned(),
        mark: "lacuna:c".to_owned(),
        user: None,
    }
}

/// One trainer, which can use nodes of any kind.
pub(crate) fn wants(nodes: u32) -> Vec<Wants> {
    let of_kinds = BTreeMap::new();
    vec![Wants { nodes, of_kinds }]
}

/// The defaults, with a shorter rest of nodes.
pub(crate) fn settings() -> Settings {
    let mut settings = Settings::of(owner());
    settings.pace.rest = Span::from_secs(15);
    settings
}

pub(crate) fn name(n: usize) -> NodeId {
    NodeId::new(format!("n{n:02}")).unwrap()
}

/// A job in the scheduler.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) node: usize,
    pub(crate) ours: bool,
    pub(crate) stage: JobStage,
    pub(crate) submitted: u64,
    /// Time at which its stage changes by itself.
    pub(crate) until: i64,
    pub(crate) speaks_at: i64,
}

/// A message on its way to the keeper or to the scheduler.
#[derive(Debug, Clone)]
pub(crate) enum Way {
    Land(u64, usize),
    Tell(Input),
    Look(Timestamp),
    Kill(Vec<JobId>, bool),
}

/// Probabilities of faults, in percent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trouble(pub(crate) u32);

pub(crate) struct World {
    pub(crate) rng: ChaCha8Rng,
    pub(crate) keeper: Keeper,
    pub(crate) settings: Settings,
    pub(crate) ms: i64,
    /// Whether a batch job has the node.
    pub(crate) busy: Vec<bool>,
    pub(crate) jobs: BTreeMap<u64, Job>,
    pub(crate) next: u64,
    pub(crate) ways: Vec<(i64, Way)>,
    pub(crate) pools: VecDeque<Vec<usize>>,
    pub(crate) submissions: Vec<i64>,
    pub(crate) notes: Vec<Note>,
    pub(crate) trouble: Trouble,
    /// Time of the newest list that lacked a present job.
    pub(crate) omitted: i64,
    pub(crate) mode: Mode,
    /// Outcomes of the jobs that are ending.
    pub(crate) ends: BTreeMap<u64, End>,
    /// The trainer that has each node, and those that are not over.
    pub(crate) given: BTreeMap<NodeId, TrainerId>,
    pub(crate) trainers: BTreeSet<TrainerId>,
    /// The only trainer that each job serves.
    pub(crate) serves: BTreeMap<u64, TrainerId>,
}

impl World {
    pub(crate) fn new(seed: u64, nodes: usize, settings: Settings) -> Self {
        let keeper = Keeper::new(settings.clone(), Mode::On, Timestamp::from_unix(1));
        Self {
            rng: ChaCha8Rng::seed_from_u64(seed),
            keeper,
            settings,
            ms: 1000,
            busy: vec![false; nodes],
            jobs: BTreeMap::new(),
            next: 100,
            ways: Vec::new(),
            pools: VecDeque::new(),
            submissions: Vec::new(),
            notes: Vec::new(),
            trouble: Trouble(0),
            omitted: -1_000_000,
            mode: Mode::On,
            ends: BTreeMap::new(),
            given: BTreeMap::new(),
            trainers: BTreeSet::new(),
            serves: BTreeMap::new(),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_unix_ms(self.ms)
    }

    fn chance(&mut self, percent: u32) -> bool {
        percent > 0 && self.rng.random_range(0..100) < percent
    }

    fn later(&mut self, least: i64, most: i64, way: Way) {
        let at = self.ms + self.rng.random_range(least..=most);
        self.ways.push((at, way));
    }

    /// Another control takes over. Messages on their way to the scheduler arrive or are lost.
    pub(crate) fn restart(&mut self) {
        let ways = std::mem::take(&mut self.ways);
        for (_, way) in ways {
            match way {
                Way::Land(id, node) if self.rng.random_range(0..2) == 0 => self.land(id, node),
                _ => {}
            }
        }
        self.keeper = Keeper::new(self.settings.clone(), self.mode, self.now());
        let demand = self.busy.len() as u32;
        self.tell(Input::Demand(wants(demand)));
        self.give();
    }

    /// The keeper hears which trainer has each node.
    pub(crate) fn give(&mut self) {
        let (nodes, trainers) = (self.given.clone(), self.trainers.clone());
        self.tell(Input::Given {
            nodes,
            trainers,
            renewed: BTreeSet::new(),
        });
    }

    fn land(&mut self, id: u64, node: usize) {
        let job = Job {
            node,
            ours: true,
            stage: JobStage::Pending,
            submitted: id,
            until: self.ms + 300,
            speaks_at: i64::MAX,
        };
        self.jobs.insert(id, job);
    }

    pub(crate) fn tell(&mut self, input: Input) {
        let effects = self.keeper.step(input, self.now());
        for effect in effects {
            self.obey(effect);
        }
    }

    fn obey(&mut self, effect: Effect) {
        let trouble = self.trouble.0;
        match effect {
            Effect::Submit {
                ticket,
                node,
                trainer,
                ..
            } => {
                assert_eq!(self.mode, Mode::On, "a submission in another mode than on");
                if self.settings.of_trainers {
                    assert_eq!(trainer.as_ref(), self.given.get(&node), "{node}");
                }
                if let Some(trainer) = trainer {
                    assert!(self.trainers.contains(&trainer), "{trainer} is over");
                    self.serves.insert(self.next, trainer);
                }
                self.submissions.push(self.ms);
                let node = node.as_str()[1..].parse::<usize>().unwrap();
                self.submit(ticket, node, trouble);
            }
            Effect::Cancel { jobs, pending_only } => {
                for job in &jobs {
                    let id: u64 = job.as_str().parse().unwrap();
                    if let Some(job) = self.jobs.get(&id) {
                        assert!(job.ours, "foreign job {id} is cancelled");
                    }
                }
                if self.chance(trouble) {
                    self.later(10, 3000, Way::Tell(Input::CancelFailed(jobs)));
                } else if !self.chance(trouble / 2) {
                    self.later(10, 1500, Way::Kill(jobs, pending_only));
                }
            }
            Effect::List => {
                let asked = self.now();
                if self.chance(trouble) {
                    self.later(100, 9000, Way::Tell(Input::ListingFailed));
                } else {
                    self.later(0, 1500, Way::Look(asked));
                }
            }
            Effect::Note(note) => self.notes.push(note),
        }
    }

    fn submit(&mut self, ticket: Ticket, node: usize, trouble: u32) {
        let id = self.next;
        self.next += 1;
        let answer = |outcome| Way::Tell(Input::Submitted { ticket, outcome });
        let refused = |cause| {
            let text = "no".to_owned();
            answer(Err(Refusal { cause, text }))
        };
        if self.chance(trouble) {
            let cause = Cause::ALL[self.rng.random_range(0..Cause::ALL.len())];
            if cause.unsure() && self.rng.random_range(0..2) == 0 {
                // The scheduler takes the job nevertheless, perhaps after the end of the command.
                self.later(0, 6000, Way::Land(id, node));
            }
            self.later(3000, 4000, refused(cause));
            return;
        }
        let took = self.rng.random_range(10..900);
        self.ways.push((self.ms + took, Way::Land(id, node)));
        let job = JobId::new(&id.to_string()).unwrap();
        let back = took + self.rng.random_range(1..400);
        self.ways.push((self.ms + back, answer(Ok(job))));
    }

    fn list(&mut self) -> Vec<Listed> {
        let mut jobs: Vec<Listed> = self
            .jobs
            .iter()
            .map(|(id, job)| Listed {
                job: JobId::new(&id.to_string()).unwrap(),
                submitted: job.submitted.to_string(),
                user: "train".to_owned(),
                name: "lacuna-pilot".to_owned(),
                mark: if job.ours { "lacuna:c" } else { "else" }.to_owned(),
                node: Some(name(job.node)),
                stage: job.stage,
            })
            .collect();
        if !jobs.is_empty() && self.ms - self.omitted > 60_000 && self.chance(self.trouble.0) {
            self.omitted = self.ms;
            let at = self.rng.random_range(0..jobs.len());
            jobs.remove(at);
        }
        jobs
    }

    /// Whether a job holds the node, running or ending.
    fn held(&self, node: usize) -> bool {
        let holds = |job: &Job| {
            job.node == node && matches!(job.stage, JobStage::Running | JobStage::Ending)
        };
        self.jobs.values().any(holds)
    }

    /// A batch job takes a node: the pilot there is preempted.
    pub(crate) fn take(&mut self, node: usize) {
        self.busy[node] = true;
        let on_node: Vec<u64> = self
            .jobs
            .iter()
            .filter(|(_, j)| j.node == node && j.stage == JobStage::Running)
            .map(|(id, _)| *id)
            .collect();
        for id in on_node {
            self.leave(id, End::Preempted);
        }
    }

    pub(crate) fn leave(&mut self, id: u64, end: End) {
        let until = self.ms + self.rng.random_range(200..4000);
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        let (node, spoke) = (job.node, job.speaks_at < i64::MAX);
        job.stage = JobStage::Ending;
        job.until = until;
        job.speaks_at = i64::MAX;
        self.ends.insert(id, end);
        if spoke && !self.chance(self.trouble.0) {
            self.tell(Input::Agent {
                node: name(node),
                leaving: true,
                free: true,
                serves: self.serves.get(&id).cloned(),
            });
        }
    }

    /// Advances by a tenth of a second.
    pub(crate) fn pass(&mut self) {
        self.ms += 100;
        let (due, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut self.ways)
            .into_iter()
            .partition(|(at, _)| *at <= self.ms);
        self.ways = rest;
        for (_, way) in due {
            match way {
                Way::Land(id, node) => self.land(id, node),
                Way::Tell(input) => self.tell(input),
                Way::Look(asked) => {
                    let jobs = self.list();
                    self.later(0, 800, Way::Tell(Input::Listing { asked, jobs }));
                }
                Way::Kill(ids, pending_only) => self.kill(&ids, pending_only),
            }
        }
        self.schedule();
        if self.ms % 5000 == 0 {
            self.report();
        }
        self.tell(Input::Timer);
        self.check();
    }

    fn kill(&mut self, ids: &[JobId], pending_only: bool) {
        for id in ids {
            let id: u64 = id.as_str().parse().unwrap();
            match self.jobs.get_mut(&id).map(|j| &mut j.stage) {
                Some(stage @ JobStage::Pending) => *stage = JobStage::Ended(End::Cancelled),
                Some(JobStage::Running) if !pending_only => self.leave(id, End::Cancelled),
                _ => {}
            }
        }
    }

    fn schedule(&mut self) {
        let ids: Vec<u64> = self.jobs.keys().copied().collect();
        for id in ids {
            let job = self.jobs[&id].clone();
            let free = !self.busy[job.node] && !self.held(job.node);
            match job.stage {
                JobStage::Pending if free && job.until <= self.ms => {
                    let starts = self.ms + self.rng.random_range(500..3000);
                    let job = self.jobs.get_mut(&id).unwrap();
                    job.stage = JobStage::Running;
                    job.until = self.ms + 3_600_000;
                    job.speaks_at = if job.ours { starts } else { i64::MAX };
                }
                JobStage::Running if job.until <= self.ms => self.leave(id, End::TimeLimit),
                JobStage::Running if job.speaks_at <= self.ms => {
                    self.jobs.get_mut(&id).unwrap().speaks_at = self.ms + 5000;
                    let serves = self.serves.get(&id).cloned();
                    let used =
                        serves.is_none() || serves.as_ref() == self.given.get(&name(job.node));
                    self.tell(Input::Agent {
                        node: name(job.node),
                        leaving: false,
                        free: !used,
                        serves,
                    });
                }
                JobStage::Ending if job.until <= self.ms => {
                    let end = self.ends.remove(&id).unwrap_or(End::Completed);
                    let job = self.jobs.get_mut(&id).unwrap();
                    job.stage = JobStage::Ended(end);
                    job.until = self.ms + 300_000;
                }
                JobStage::Ended(_) if job.until <= self.ms => {
                    self.jobs.remove(&id);
                }
                _ => {}
            }
        }
    }

    /// Sends a pool that is up to ten seconds old: idle nodes, and nodes with only our own pilots.
    pub(crate) fn report(&mut self) {
        let foreign = |node: usize| {
            let mut jobs = self.jobs.values();
            jobs.any(|j| j.node == node && !j.ours && j.stage == JobStage::Running)
        };
        let idle = (0..self.busy.len()).filter(|&n| !self.busy[n] && !foreign(n));
        let idle: Vec<usize> = idle.collect();
        self.pools.push_back(idle);
        while self.pools.len() > 3 {
            self.pools.pop_front();
        }
        let back = self.rng.random_range(0..self.pools.len());
        let offers = self.pools[back].iter().map(|&n| Offer {
            node: name(n),
            limit: Span::from_secs(3600),
        });
        let offers = offers.collect();
        self.tell(Input::Pool(offers));
    }

    /// Checks the invariants.
    fn check(&self) {
        for node in 0..self.busy.len() {
            let on = self
                .jobs
                .iter()
                .filter(|(_, j)| j.node == node && j.ours && j.stage.lives());
            let on: Vec<_> = on.collect();
            assert!(
                on.len() <= 1,
                "at {}: two pilots on one node: {on:?}",
                self.ms
            );
        }
    }
}
