//! The agent's side of a node: which command it obeys, and when it gives the node back by itself.
//!
//! Invariants:
//! 1. Only the newest command counts. An older epoch, or a number that is not newer within the
//!    epoch, changes nothing.
//! 2. At most one program runs: the next starts after the last has ended.
//! 3. A status names the newest command that has been *obeyed*: a release is reported when no
//!    program runs any more.
//! 4. Without a renewal of its lease for the lease timeout (`agent.lease_timeout`, 60 s) the agent gives
//!    its node back by itself. A pilot without renewals ends by itself.
//! 5. A program that regroups lives on over the incarnations of its trainer: it gets a message of
//!    each next one.
//! 6. A `Run` command that the stream holds from before the agent's start is obeyed only after a
//!    renewal that names its epoch, or when control sends it again. It is never obeyed if an
//!    earlier agent had begun it (the file `begun` of the trainer on the node). In that case its
//!    processes are killed, the node is reported free, and control opens a new incarnation.
//! 7. An agent that serves one trainer alone ([`Agent::with_serves`]) neither obeys nor acknowledges
//!    a command that names another. A newer epoch of another trainer ends its own program.

mod effect;

use lacuna_model::{
    Action, Activity, AgentStatus, AgentTerms, Assignment, Command, Ending, Epoch, NodeId, RunId,
    Span, Timestamp, TrainerId,
};

use crate::Now;

pub use effect::Effect;

/// Reason in the status of an agent that gives its node back after the lease timeout.
pub(crate) const LEASE_TIMEOUT: &str = "lease timeout";
/// Reason in the status of an agent that was suspended (SIGSTOP), so that its guards ended its programs.
const SUSPENDED: &str = "agent suspended";
/// Reason in the status of an agent whose node has gone to a trainer that it does not serve.
const FOREIGN: &str = "the node is another trainer's";

/// The next state after the program has stopped.
#[derive(Debug, Clone, PartialEq)]
enum Then {
    Free,
    Start(Box<Assignment>),
    Prepare(Box<Assignment>),
}

/// A program that lives.
#[derive(Debug, Clone, PartialEq)]
struct Program {
    /// Its incarnation. While it waits for its first one, the incarnation of the other members.
    assignment: Box<Assignment>,
    /// The incarnation under which it was started. It identifies the program.
    started: RunId,
    /// Whether it has reported that the group of its incarnation is broken.
    broken: bool,
    /// How far its end has come, once it has said that its work is done.
    ending: Option<Ending>,
}

impl Program {
    /// One that starts now.
    fn new(assignment: Box<Assignment>) -> Self {
        Self {
            started: assignment.run,
            assignment,
            broken: false,
            ending: None,
        }
    }

    /// Whether it can continue in this incarnation without a stop.
    fn can_join(&self, next: &Assignment) -> bool {
        next.launch.regroups()
            && next.trainer == self.assignment.trainer
            && next.launch == self.assignment.launch
    }
}

/// The trainer that a command gives the node to.
const fn trainer_of(action: &Action) -> Option<&TrainerId> {
    match action {
        Action::Run(run) | Action::Prepare(run) => Some(&run.trainer),
        Action::Release { .. } => None,
    }
}

#[derive(Debug, Clone, PartialEq)]
enum State {
    Free,
    /// Started, and not yet a member of an incarnation.
    Prepared {
        program: Program,
        ready: bool,
    },
    Running(Program),
    Stopping(Program, Then),
    Exited {
        trainer: TrainerId,
        run: RunId,
        exit: Exit,
        ending: Option<Ending>,
    },
}

/// How a program has ended by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    /// Exit code, or 128 + the signal's number.
    pub code: i32,
    /// The last lines of its output, or why the agent has killed it.
    pub reason: String,
    /// Whether the agent has killed it.
    pub killed: bool,
    /// When it failed, by the node's clock.
    pub at: Option<Timestamp>,
    /// Whether it failed because it had lost a peer, as it says.
    pub lost_peer: bool,
}

impl Exit {
    /// One at this time, for this reason.
    #[must_use]
    pub const fn new(code: i32, reason: String, at: Option<Timestamp>) -> Self {
        Self {
            code,
            reason,
            killed: false,
            at,
            lost_peer: false,
        }
    }
}

/// The agent of one node.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    node: NodeId,
    lease_timeout: Span,
    /// How long a program may take to stop. `None`: the status names no terms.
    grace: Option<Span>,
    /// The newest command taken.
    taken: (Epoch, u64),
    /// The trainer that has the epoch of `taken`, if a command has named it.
    holder: Option<TrainerId>,
    /// The newest command obeyed.
    obeyed: (Epoch, u64),
    state: State,
    released: Option<String>,
    /// Real time of the newest renewal.
    renewed: Timestamp,
    /// A command from before the agent's start that control has not confirmed yet.
    held: Option<Then>,
    /// The place of the node, as Slurm says.
    place: Option<String>,
    /// The only trainer whose programs it starts.
    serves: Option<TrainerId>,
}

impl Agent {
    /// An agent that has received no message yet. `lease_timeout` is in real time.
    #[must_use]
    pub fn new(node: NodeId, lease_timeout: Span) -> Self {
        Self {
            node,
            lease_timeout,
            grace: None,
            taken: (Epoch(0), 0),
            holder: None,
            obeyed: (Epoch(0), 0),
            state: State::Free,
            released: None,
            renewed: Timestamp::default(),
            held: None,
            place: None,
            serves: None,
        }
    }

    /// The same agent, whose statuses name its terms: the lease timeout, and `grace`, the time that
    /// programs may take to stop.
    #[must_use]
    pub const fn with_grace(mut self, grace: Span) -> Self {
        self.grace = Some(grace);
        self
    }

    /// The same agent, whose statuses name the place of its node ([`AgentStatus::place`]).
    #[must_use]
    pub fn with_place(mut self, place: Option<String>) -> Self {
        self.place = place;
        self
    }

    /// The same agent, which starts programs of this trainer alone ([`AgentStatus::serves`]).
    #[must_use]
    pub fn with_serves(mut self, trainer: Option<TrainerId>) -> Self {
        self.serves = trainer;
        self
    }

    /// Whether a command names a trainer that this agent does not serve.
    fn is_foreign(&self, command: &Command) -> bool {
        let named = trainer_of(&command.action);
        self.serves.is_some() && named.is_some() && named != self.serves.as_ref()
    }

    /// The node is another trainer's. A program of this agent's trainer ends, if the command is
    /// newer than the one that it was started by.
    fn foreign(&mut self, command: &Command, now: Now) -> Vec<Effect> {
        let mut effects = Vec::new();
        if command.epoch > self.taken.0 {
            self.held = None;
            effects = self.give_up(FOREIGN, now);
        }
        effects.push(Effect::Report(self.status()));
        effects
    }

    /// The assignment of the running program, if one runs.
    #[must_use]
    pub fn running(&self) -> Option<&Assignment> {
        match &self.state {
            State::Running(program) => Some(&program.assignment),
            State::Free | State::Prepared { .. } | State::Stopping(..) | State::Exited { .. } => {
                None
            }
        }
    }

    /// The status of the node.
    #[must_use]
    pub fn status(&self) -> AgentStatus {
        let activity = match &self.state {
            State::Free => Activity::Free,
            State::Prepared { program, ready } => Activity::Prepared {
                trainer: program.assignment.trainer.clone(),
                ready: *ready,
            },
            State::Running(program) | State::Stopping(program, _) => Activity::Running {
                trainer: program.assignment.trainer.clone(),
                run: program.assignment.run,
            },
            State::Exited {
                trainer, run, exit, ..
            } => Activity::Exited {
                trainer: trainer.clone(),
                run: *run,
                code: exit.code,
                reason: exit.reason.clone(),
                killed: exit.killed,
                at: exit.at,
                lost_peer: exit.lost_peer,
            },
        };
        let ending = match &self.state {
            State::Running(program) => program.ending,
            State::Exited { ending, .. } => *ending,
            State::Free | State::Prepared { .. } | State::Stopping(..) => None,
        };
        let broken = match &self.state {
            State::Running(program) if program.broken => Some(program.assignment.run),
            _ => None,
        };
        AgentStatus {
            node: self.node.clone(),
            epoch: self.obeyed.0,
            seq: self.obeyed.1,
            activity,
            released: self.released.clone(),
            leaving: false,
            gave_back_in: None,
            broken,
            ending,
            terms: self.grace.map(|grace| AgentTerms {
                lease_timeout: self.lease_timeout,
                grace,
            }),
            place: self.place.clone(),
            serves: self.serves.clone(),
        }
    }

    /// Takes the newest command of its node that the bus has kept from before this agent
    /// started, if an earlier agent has obeyed it. The program of that command does not run any
    /// more. An agent that has taken a command already obeys this one as any other.
    pub fn recover(&mut self, command: &Command, now: Now) -> Vec<Effect> {
        let at = (command.epoch, command.seq);
        if at <= self.taken || self.is_foreign(command) {
            return Vec::new();
        }
        if self.taken > (Epoch(0), 0) {
            return self.command(command.clone(), now);
        }
        self.take(command);
        self.obeyed = at;
        if !matches!(command.action, Action::Release { .. }) {
            self.released = Some("agent restarted".to_owned());
        }
        vec![Effect::Report(self.status())]
    }

    /// Takes the newest command of its node that the bus has kept from before this agent
    /// started, if no earlier agent has begun to obey it. Control may have revoked it meanwhile,
    /// or be down. So the program starts only when a renewal names the epoch of the command, or
    /// the command comes again.
    pub fn hold(&mut self, command: Command, now: Now) -> Vec<Effect> {
        if self.is_foreign(&command) {
            return self.foreign(&command, now);
        }
        let at = (command.epoch, command.seq);
        if at > self.taken && self.taken > (Epoch(0), 0) {
            return self.command(command, now);
        }
        let new = at > self.taken;
        if new && !matches!(command.action, Action::Release { .. }) {
            self.take(&command);
        }
        let held = match command.action {
            Action::Release { .. } => return self.command(command, now),
            Action::Run(assignment) => Then::Start(assignment),
            Action::Prepare(assignment) => Then::Prepare(assignment),
        };
        if new {
            self.held = Some(held);
        }
        vec![Effect::Report(self.status())]
    }

    /// Notes the newest command.
    fn take(&mut self, command: &Command) {
        let same = command.epoch == self.taken.0;
        self.taken = (command.epoch, command.seq);
        let named = trainer_of(&command.action).cloned();
        if named.is_some() || !same {
            self.holder = named;
        }
    }

    /// Obeys the command that was held, since control has confirmed it.
    fn begin(&mut self, now: Now) -> Vec<Effect> {
        match (self.held.take(), &self.state) {
            (Some(held), State::Free) => {
                self.renewed = now.wall;
                self.follow(held)
            }
            _ => Vec::new(),
        }
    }

    /// Obeys a command, if it is the newest.
    pub fn command(&mut self, command: Command, now: Now) -> Vec<Effect> {
        if self.is_foreign(&command) {
            return self.foreign(&command, now);
        }
        let at = (command.epoch, command.seq);
        if at < self.taken {
            let (epoch, seq) = at;
            return vec![
                Effect::Refused { epoch, seq },
                Effect::Report(self.status()),
            ];
        }
        if let (Some(trainer), Some(holder)) = (trainer_of(&command.action), &self.holder)
            && at.0 == self.taken.0
            && trainer != holder
        {
            let contradicted = Effect::Contradicted {
                epoch: at.0,
                trainer: trainer.clone(),
                holder: holder.clone(),
            };
            return vec![contradicted, Effect::Report(self.status())];
        }
        if at == self.taken {
            let begun = self.begin(now);
            if !begun.is_empty() {
                return begun;
            }
            return vec![Effect::Report(self.status())];
        }
        self.take(&command);
        self.held = None;
        self.released = None;
        match command.action {
            Action::Run(assignment) => {
                self.renewed = now.wall;
                if let Some(effects) = self.join(&assignment) {
                    return effects;
                }
                let (since, reason) = (assignment.since, "a new run follows");
                self.turn(Then::Start(assignment), since, reason)
            }
            Action::Prepare(assignment) => {
                self.renewed = now.wall;
                if let State::Prepared { program, .. } = &self.state
                    && program.can_join(&assignment)
                {
                    self.obeyed = self.taken;
                    return vec![Effect::Report(self.status())];
                }
                let (since, reason) = (now.cluster, "it is to join later");
                self.turn(Then::Prepare(assignment), since, reason)
            }
            Action::Release { reason, at } => {
                self.turn(Then::Free, at.unwrap_or(now.cluster), &reason)
            }
        }
    }

    /// Lets a living program that regroups continue in the next incarnation.
    fn join(&mut self, next: &Assignment) -> Option<Vec<Effect>> {
        let (State::Running(program) | State::Prepared { program, .. }) = &self.state else {
            return None;
        };
        if !program.can_join(next) {
            return None;
        }
        let started = program.started;
        let assignment = Box::new(next.clone());
        self.state = State::Running(Program {
            assignment: assignment.clone(),
            started,
            broken: false,
            ending: program.ending,
        });
        self.obeyed = self.taken;
        Some(vec![
            Effect::Regroup {
                started,
                assignment,
            },
            Effect::Report(self.status()),
        ])
    }

    /// The program that was started under this incarnation is ready to join one.
    pub fn ready(&mut self, started: RunId) -> Vec<Effect> {
        match &mut self.state {
            State::Prepared { program, ready } if program.started == started && !*ready => {
                *ready = true;
                vec![Effect::Report(self.status())]
            }
            _ => Vec::new(),
        }
    }

    /// The program that was started under `started` reports whether the group of an incarnation is
    /// broken.
    pub fn group(&mut self, started: RunId, run: RunId, broken: bool) -> Vec<Effect> {
        match &mut self.state {
            State::Running(program)
                if program.started == started
                    && program.assignment.run == run
                    && program.broken != broken =>
            {
                program.broken = broken;
                vec![Effect::Report(self.status())]
            }
            _ => Vec::new(),
        }
    }

    /// The program that was started under `started` says how far its end has come: `None` if it has
    /// work again.
    pub fn ends(&mut self, started: RunId, ending: Option<Ending>) -> Vec<Effect> {
        match &mut self.state {
            State::Running(program) if program.started == started && program.ending != ending => {
                program.ending = ending;
                vec![Effect::Report(self.status())]
            }
            _ => Vec::new(),
        }
    }

    /// Leaves the present state for the next one; a program is stopped first.
    fn turn(&mut self, then: Then, at: Timestamp, reason: &str) -> Vec<Effect> {
        match std::mem::replace(&mut self.state, State::Free) {
            State::Free | State::Exited { .. } => self.follow(then),
            State::Running(old) | State::Prepared { program: old, .. } => {
                let stop = Effect::Stop {
                    trainer: old.assignment.trainer.clone(),
                    run: old.started,
                    at,
                    reason: reason.to_owned(),
                };
                self.state = State::Stopping(old, then);
                vec![stop]
            }
            State::Stopping(old, _) => {
                self.state = State::Stopping(old, then);
                Vec::new()
            }
        }
    }

    fn follow(&mut self, then: Then) -> Vec<Effect> {
        self.obeyed = self.taken;
        let mut effects = Vec::new();
        match then {
            Then::Free => self.state = State::Free,
            Then::Start(assignment) => {
                effects.push(Effect::Start(assignment.clone()));
                self.state = State::Running(Program::new(assignment));
            }
            Then::Prepare(assignment) => {
                effects.push(Effect::Prepare(assignment.clone()));
                let program = Program::new(assignment);
                let ready = false;
                self.state = State::Prepared { program, ready };
            }
        }
        effects.push(Effect::Report(self.status()));
        effects
    }

    /// The program that was started under `run` has stopped on demand: of this agent, or of the
    /// process that also watches the lease timeout.
    pub fn stopped(&mut self, run: RunId) -> Vec<Effect> {
        self.ended_for(run, LEASE_TIMEOUT)
    }

    /// The program that was started under `run` was ended by its guard, since this agent was suspended.
    /// That is no failure of the program, which need not have done it.
    pub fn suspended(&mut self, run: RunId) -> Vec<Effect> {
        self.ended_for(run, SUSPENDED)
    }

    /// The program that was started under `run` has been ended: by a command, or else for `reason`.
    fn ended_for(&mut self, run: RunId, reason: &str) -> Vec<Effect> {
        match std::mem::replace(&mut self.state, State::Free) {
            State::Stopping(old, then) if old.started == run => self.follow(then),
            State::Running(old) | State::Prepared { program: old, .. } if old.started == run => {
                self.released = Some(reason.to_owned());
                self.follow(Then::Free)
            }
            other => {
                self.state = other;
                Vec::new()
            }
        }
    }

    /// The program that was started under `run` has ended by itself. An end during a stop counts as
    /// the stop.
    pub fn exited(&mut self, run: RunId, exit: Exit) -> Vec<Effect> {
        if let State::Running(program) | State::Prepared { program, .. } = &self.state
            && program.started == run
        {
            self.state = State::Exited {
                trainer: program.assignment.trainer.clone(),
                run: program.assignment.run,
                exit,
                ending: program.ending,
            };
            return vec![Effect::Report(self.status())];
        }
        self.stopped(run)
    }

    /// A renewal confirms the lease of this epoch.
    pub fn renewed(&mut self, epoch: Epoch, now: Now) -> Vec<Effect> {
        if epoch != self.taken.0 {
            return Vec::new();
        }
        self.renewed = self.renewed.max(now.wall);
        self.begin(now)
    }

    /// Gives the node back without a command, for this reason.
    pub fn give_up(&mut self, reason: &str, now: Now) -> Vec<Effect> {
        if matches!(self.state, State::Free | State::Stopping(_, Then::Free)) {
            return Vec::new();
        }
        self.released = Some(reason.to_owned());
        self.turn(Then::Free, now.cluster, reason)
    }

    /// The last status of an agent whose process ends now. Its programs are killed, and it obeys no
    /// further command.
    pub fn leave(&mut self, reason: &str) -> AgentStatus {
        self.state = State::Free;
        self.held = None;
        self.released = Some(reason.to_owned());
        AgentStatus {
            leaving: true,
            ..self.status()
        }
    }

    /// The status after [`Agent::leave`], when no program runs any more. `gave_back_in` is the
    /// time since the node was asked for.
    #[must_use]
    pub fn gone(&self, gave_back_in: Span) -> AgentStatus {
        AgentStatus {
            leaving: true,
            gave_back_in: Some(gave_back_in),
            ..self.status()
        }
    }

    /// When the lease timeout ends unless a renewal comes, in real time.
    #[must_use]
    pub fn due(&self) -> Option<Timestamp> {
        match &self.state {
            State::Running(_) | State::Prepared { .. } => Some(self.renewed + self.lease_timeout),
            State::Free | State::Stopping(..) | State::Exited { .. } => None,
        }
    }

    /// Gives the node back if its lease has not been renewed for the lease timeout.
    pub fn tick(&mut self, now: Now) -> Vec<Effect> {
        if now.since(self.renewed) < self.lease_timeout {
            return Vec::new();
        }
        if matches!(self.state, State::Exited { .. }) {
            return Vec::new();
        }
        self.give_up(LEASE_TIMEOUT, now)
    }
}
