//! Actions of a test on the world, and its questions.

use lacuna_model::TrainerSpec;
use lacuna_trainer::controller::Taken;

use super::*;

impl World {
    /// A user submits trainers.
    pub(crate) fn submit(&mut self, user: &str, trainers: Vec<TrainerSpec>) {
        self.input(Input::Submit {
            trainers,
            user: user.to_owned(),
            tickets: BTreeMap::new(),
            test_only: false,
        });
    }

    /// A trainer's record.
    pub(crate) fn record(&self, name: &str) -> &TrainerRecord {
        self.controller.record(&trainer(name)).unwrap()
    }

    /// The first member of a trainer's incarnation reports samples, and what `more` adds.
    pub(crate) fn progress(&mut self, name: &str, samples: f64, more: impl FnOnce(&mut Progress)) {
        let record = self.record(name);
        let (first, run) = (record.nodes[0].clone(), record.run);
        let mut report = Progress::new(first, trainer(name), run, self.now.cluster, samples);
        more(&mut report);
        self.input(Input::Progress(report));
    }

    /// The newest plan, for the present state, of which nothing is delivered yet.
    pub(crate) fn planned(&mut self, sizes: &[(&str, &[usize])]) {
        self.generation += 1;
        let plan = plan(self.generation, self.seq, self.now.cluster, sizes);
        let view = self.present();
        self.give(plan, &view);
    }

    /// The same, delivered.
    pub(crate) fn apply(&mut self, sizes: &[(&str, &[usize])]) {
        self.planned(sizes);
        self.deliver(usize::MAX);
    }

    /// Advances cluster time and real time by `span`.
    pub(crate) fn pass(&mut self, span: Span) {
        self.now.cluster = self.now.cluster + span;
        self.now.wall = self.now.wall + span;
        for (id, run, at) in std::mem::take(&mut self.stopping) {
            self.stop(&id, run, at);
        }
        let now = self.now;
        for id in self.agents.keys().cloned().collect::<Vec<_>>() {
            let effects = self.agents.get_mut(&id).unwrap().tick(now);
            self.agent_does(&id, effects);
        }
        for (id, started) in self.prepared.clone() {
            if self.rng.random_bool(0.5) {
                let effects = self.agents.get_mut(&id).unwrap().ready(started);
                self.agent_does(&id, effects);
            }
        }
    }

    pub(crate) fn renew(&mut self) {
        let lose = self.chaos.lose;
        if self.percent(lose) {
            return;
        }
        for lease in self.controller.leases() {
            let now = self.now;
            if let Some(agent) = self.agents.get_mut(&lease.node) {
                let effects = agent.renewed(lease.epoch, now);
                self.agent_does(&lease.node, effects);
            }
        }
    }

    pub(crate) fn open(&mut self, n: usize) {
        let hole = Hole {
            node: node(n),
            since: self.now.cluster,
        };
        if self.pool.insert(hole.node.clone(), hole.since).is_none() {
            self.seq += 1;
            self.input(Input::Pool {
                seq: self.seq,
                at: self.now.cluster,
                opened: vec![hole],
                closed: Vec::new(),
            });
        }
    }

    pub(crate) fn close(&mut self, n: usize) {
        self.close_for(n, Taken::Busy);
    }

    pub(crate) fn close_for(&mut self, n: usize, taken: Taken) {
        if self.pool.remove(&node(n)).is_some() {
            self.seq += 1;
            self.input(Input::Pool {
                seq: self.seq,
                at: self.now.cluster,
                opened: Vec::new(),
                closed: vec![(node(n), taken)],
            });
            // Now and then further events wait.
            if self.chaos.lose == 0 || self.rng.random_bool(0.5) {
                self.input(Input::Drained);
            }
        }
    }

    pub(crate) fn snapshot(&mut self) {
        let idle = self
            .pool
            .iter()
            .map(|(node, since)| Hole {
                node: node.clone(),
                since: *since,
            })
            .collect();
        self.input(Input::Snapshot {
            seq: self.seq,
            at: self.now.cluster,
            idle,
        });
    }

    /// A random plan: each trainer keeps its nodes, grows or shrinks within its bounds. A trainer
    /// that was hit may restart on any nodes.
    pub(crate) fn random_plan(&mut self) {
        let Some(view) = self.view.clone() else {
            return;
        };
        let mut free: BTreeSet<NodeId> = self
            .pool
            .keys()
            .filter(|n| !view.unusable.contains(n))
            .cloned()
            .collect();
        let (mut sizes, mut replaced) = (Vec::new(), Vec::new());
        for t in &view.trainers {
            for n in &t.nodes {
                free.remove(n);
            }
        }
        for t in &view.trainers {
            let (min, max) = (t.spec.min_nodes as usize, t.spec.max_nodes as usize);
            let mut nodes = t.nodes.clone();
            let wish = match self.rng.random_range(0..4) {
                0 => 0,
                1 => nodes.len(),
                _ => self.rng.random_range(min..=max),
            };
            if t.hit_at.is_some() && self.rng.random_bool(0.7) {
                free.extend(std::mem::take(&mut nodes));
                replaced.push(t.spec.id.clone());
                while nodes.len() < wish && !free.is_empty() {
                    let at = self.rng.random_range(0..free.len());
                    let any = free.iter().nth(at).cloned();
                    nodes.extend(any.and_then(|n| free.take(&n)));
                }
            }
            while nodes.len() > wish {
                let at = self.rng.random_range(0..nodes.len());
                free.insert(nodes.remove(at));
            }
            while nodes.len() < wish && nodes.len() < max {
                let Some(n) = free.pop_first() else { break };
                nodes.push(n);
            }
            nodes.sort();
            if nodes.len() < min {
                free.extend(nodes);
                nodes = Vec::new();
            }
            sizes.push((t.spec.id.clone(), nodes));
        }
        self.generation += 1;
        let mut plan = plan_of(self.generation, self.seq, self.now.cluster, sizes);
        plan.replaced = replaced;
        self.input(Input::Plan {
            plan,
            trainers_version: view.version,
            runs: runs_of(&view),
        });
    }

    /// Gives control a plan that was made from these trainers.
    pub(crate) fn give(&mut self, plan: Plan, view: &TrainersView) {
        self.input(Input::Plan {
            plan,
            trainers_version: view.version,
            runs: runs_of(view),
        });
    }

    /// The view that the planner would get now.
    pub(crate) fn present(&self) -> TrainersView {
        self.controller.trainers_view(self.now)
    }

    /// Control is killed and starts again from the stored state.
    pub(crate) fn crash_control(&mut self) {
        self.restart_control();
        self.snapshot();
    }

    /// The same, before the snapshot of the pool.
    pub(crate) fn restart_control(&mut self) {
        let leases = self
            .leases
            .iter()
            .map(|(node, (owner, epoch))| (node.clone(), owner.clone(), *epoch))
            .collect();
        let tally = self.controller.tally();
        let (controller, effects) = Controller::recover(
            self.config.clone(),
            self.records.values().cloned().collect(),
            self.controller.past().clone(),
            leases,
            Some((&tally, self.config.lease_timeout)),
            self.controller.version(),
            self.now,
        );
        self.controller = controller;
        self.apply_effects(effects);
        let reports: Vec<Progress> = self.reports.values().cloned().collect();
        for report in reports {
            self.input(Input::Progress(report));
        }
    }

    /// A node's agent dies with its program, and starts again.
    pub(crate) fn crash_agent(&mut self, id: &NodeId) {
        let serves = self.agents[id].status().serves;
        self.start_agent(id, serves);
    }

    /// A pilot comes to a node, for this trainer.
    pub(crate) fn pilot(&mut self, id: &NodeId, serves: &TrainerId) {
        self.absent.remove(id);
        self.start_agent(id, Some(serves.clone()));
        let status = self.agents[id].status();
        self.post(Letter::Status(status));
    }

    /// A node loses its pilot, which says so, unless the words are lost.
    pub(crate) fn pilot_leaves(&mut self, id: &NodeId) {
        self.kill_programs(id);
        let last = self.agents.get_mut(id).unwrap().leave("wanted");
        self.absent.insert(id.clone());
        self.post(Letter::Status(last));
    }

    fn kill_programs(&mut self, id: &NodeId) {
        self.programs.remove(id);
        self.prepared.remove(id);
        self.stopping.retain(|(node, _, _)| node != id);
    }

    fn start_agent(&mut self, id: &NodeId, serves: Option<TrainerId>) {
        self.kill_programs(id);
        let agent = Agent::new(id.clone(), self.config.lease_timeout);
        let mut agent = agent.with_serves(serves);
        let (begun, now) = (self.begun.get(id).copied(), self.now);
        let effects = match self.commands.get(id) {
            None => Vec::new(),
            Some(command) if begun >= Some((command.epoch, command.seq)) => {
                agent.recover(command, now)
            }
            Some(command) => agent.hold(command.clone(), now),
        };
        self.agents.insert(id.clone(), agent);
        self.agent_does(id, effects);
    }

    /// Delivers all messages without faults, while time passes.
    pub(crate) fn quiesce(&mut self) {
        self.chaos = Chaos::default();
        for _ in 0..100 {
            self.deliver(usize::MAX);
            self.pass(Span::from_secs(1));
            self.all_ready();
            self.renew();
            self.statuses();
            self.report_all();
            self.deliver(usize::MAX);
            self.input(Input::Timer);
            self.deliver(usize::MAX);
        }
    }

    pub(crate) fn samples(&self, name: &str) -> f64 {
        self.controller.record(&trainer(name)).unwrap().samples()
    }

    pub(crate) fn nodes_of(&self, name: &str) -> usize {
        self.controller.record(&trainer(name)).unwrap().nodes.len()
    }
}
