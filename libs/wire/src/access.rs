//! Permissions: for each role, the subjects that it needs and no others.
//!
//! This is plain data, from roles to subjects of `address` and of JetStream's API. `lacuna keys`
//! writes it into the accounts of nats-server, which enforces it; tests let each role do its work
//! and try what it must not do. A subject that a service comes to need is added here, beside the
//! code that needs it. Without an entry the server refuses it, which `lacuna_bus_denied_total`
//! counts.
//!
//! A cluster has four accounts: services, people, agents, external schedulers. `handed_over`
//! lists what passes between them: messages to be heard, requests whose answers stay with the
//! requester, and reads of streams message by message. Consumers stay with services
//! (`Bus::follow`); all others read streams by asking (`Bus::look`). With keys only control makes
//! streams. A message about a node or trainer must name that of its subject (`Message::about`). The
//! threats are in `deploy/security.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use lacuna_model::{ClusterId, NodeId};

use crate::address::{self, BucketDef, Subject};
use crate::token::escape;

/// What somebody on the bus is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Numbers events.
    Ingest,
    /// Keeps the pool.
    Forecast,
    /// Makes plans.
    Planner,
    /// Keeps trainers and leases, commands nodes; makes the streams.
    Control,
    /// Runs training on nodes: on one, if the key is of a node.
    Agent,
    /// Serves the operator's page; only listens.
    Gateway,
    /// A person who runs the centre: all requests, pilots, events.
    Operator,
    /// A person who trains: requests in their own name.
    Researcher,
    /// A main scheduler or its hooks: publishes events and hears which nodes came back.
    Events,
    /// Reads what an operator reads and says nothing.
    Observer,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 10] = [
        Self::Ingest,
        Self::Forecast,
        Self::Planner,
        Self::Control,
        Self::Agent,
        Self::Gateway,
        Self::Operator,
        Self::Researcher,
        Self::Events,
        Self::Observer,
    ];

    /// The roles of Lacuna's own services, one user each.
    pub const SERVICES: [Self; 6] = [
        Self::Ingest,
        Self::Forecast,
        Self::Planner,
        Self::Control,
        Self::Agent,
        Self::Gateway,
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ingest => "ingest",
            Self::Forecast => "forecast",
            Self::Planner => "planner",
            Self::Control => "control",
            Self::Agent => "agent",
            Self::Gateway => "gateway",
            Self::Operator => "operator",
            Self::Researcher => "researcher",
            Self::Events => "events",
            Self::Observer => "observer",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// No role has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no role: expected ingest, forecast, planner, control, agent, gateway, operator, \
     researcher, events or observer"
)]
pub struct RoleError(pub String);

impl FromStr for Role {
    type Err = RoleError;
    fn from_str(name: &str) -> Result<Self, RoleError> {
        let mut all = Self::ALL.into_iter();
        all.find(|role| role.name() == name)
            .ok_or_else(|| RoleError(name.to_owned()))
    }
}

/// Somebody who has a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Their name, unique in the cluster.
    pub user: String,
    /// What they are there for.
    pub role: Role,
    /// The one node that an agent speaks for; without one it speaks for all.
    pub node: Option<NodeId>,
}

/// What somebody may do; everything else is refused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// Subjects on which they may publish.
    pub publish: BTreeSet<String>,
    /// Subjects which they may hear.
    pub subscribe: BTreeSet<String>,
    /// The streams that they use, each with a request that is answered as soon as it is there:
    /// they wait for that at start.
    pub streams: BTreeMap<String, String>,
    /// Whether they make and change the cluster's streams; the others wait for them.
    pub makes_streams: bool,
}

/// What the inboxes of a user begin with, so that nobody hears another's answers.
#[must_use]
pub fn inbox(user: &str) -> String {
    format!("_INBOX_{}", escape(user))
}

/// What the subjects for answers to another account begin with: nats-server makes each of its own,
/// which nobody else can guess or hear.
const OTHERS: &str = "_R_.";

/// Whether a subject for an answer is an inbox, of whomever: an answer is never sent elsewhere. For
/// who asks from another account, nats-server makes one of its own.
#[must_use]
pub fn is_inbox(subject: &str) -> bool {
    ["_INBOX.", "_INBOX_", OTHERS]
        .iter()
        .any(|inbox| subject.starts_with(inbox))
}

/// Where on the bus somebody is. Who is in one account sees nothing of another but what is handed
/// over, and the answer to a request stays in the account of who asked: so no answer that the
/// server gives to people or agents reaches a stream, a bucket, a command or a lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Account {
    /// Services with state of their own, and all streams.
    Services,
    /// People, and the page that they look at.
    People,
    /// Agents.
    Agents,
    /// External schedulers.
    Events,
}

impl Account {
    /// All accounts of a cluster.
    pub const ALL: [Self; 4] = [Self::Services, Self::People, Self::Agents, Self::Events];

    /// Its name in the configuration of nats-server. No cluster's name has a `+`, so that no two
    /// accounts have one name. That of the services names the folder of their streams, too.
    #[must_use]
    pub fn name(self, cluster: &ClusterId) -> String {
        match self {
            Self::Services => format!("lacuna_{cluster}"),
            Self::People => format!("lacuna_{cluster}+people"),
            Self::Agents => format!("lacuna_{cluster}+agents"),
            Self::Events => format!("lacuna_{cluster}+events"),
        }
    }
}

impl Role {
    /// The account that it is in.
    #[must_use]
    pub const fn account(self) -> Account {
        match self {
            Self::Ingest | Self::Forecast | Self::Planner | Self::Control => Account::Services,
            Self::Gateway | Self::Operator | Self::Researcher | Self::Observer => Account::People,
            Self::Agent => Account::Agents,
            Self::Events => Account::Events,
        }
    }
}

/// How a subject is handed over between accounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// Words go to the giver, who may answer once.
    Request,
    /// The same, and the answer may be many messages.
    Reading,
    /// Words of the giver are heard.
    Hearing,
}

/// A subject that one account hands over to another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Handed {
    /// Whose it is.
    pub giver: Account,
    /// How.
    pub way: Way,
    /// Which, or which pattern.
    pub subject: String,
    /// Who may use it, as far as permissions let each.
    pub taker: Account,
}

/// All that is handed over between the accounts of a cluster.
#[must_use]
pub fn handed_over(c: &ClusterId) -> Vec<Handed> {
    let mut all = Vec::new();
    let mut hand = |giver, way, taker, subjects: &[String]| {
        all.extend(subjects.iter().map(|subject| Handed {
            giver,
            way,
            subject: subject.clone(),
            taker,
        }));
    };
    let (services, people, agents) = (Account::Services, Account::People, Account::Agents);
    let incoming = address::incoming(c).to_string();
    let clock = address::clock(c);
    let commands = address::commands(c);
    let observed = address::observed_bucket(c);
    hand(
        services,
        Way::Request,
        people,
        &[
            address::requests(c).to_string(),
            address::pilots(c).to_string(),
            address::dead(c, "gateway").to_string(),
            incoming.clone(),
        ],
    );
    let kept = [
        address::event(c).to_string(),
        address::snapshot(c).to_string(),
        clock.to_string(),
        address::pool(c).to_string(),
        address::trainers(c).to_string(),
        address::totals(c).to_string(),
        address::plan(c).to_string(),
        address::use_state(c).to_string(),
        address::progress_all(c).to_string(),
        address::controls(c).to_string(),
        address::leaders(c).to_string(),
        address::audit_all(c).to_string(),
        address::dead_all(c).to_string(),
        commands.to_string(),
        observed.all().to_string(),
    ];
    // Agents say progress to services by requests, and those go no further.
    let progress = address::progress_all(c).to_string();
    let of_services: Vec<String> = kept.iter().filter(|s| **s != progress).cloned().collect();
    hand(services, Way::Hearing, people, &of_services);
    hand(
        agents,
        Way::Hearing,
        people,
        std::slice::from_ref(&progress),
    );
    hand(
        services,
        Way::Hearing,
        people,
        &[
            address::renewals(c).to_string(),
            address::settled(c).to_string(),
            address::released(c).to_string(),
        ],
    );
    let kept_by = address::streams(c)
        .into_iter()
        .filter(|stream| kept.iter().any(|subject| stream.subjects.contains(subject)))
        .map(|stream| stream.name)
        .chain([observed.stream()]);
    for stream in kept_by {
        let any = format!("$JS.API.DIRECT.GET.{stream}");
        hand(services, Way::Request, people, &[format!("{any}.>")]);
        hand(services, Way::Reading, people, &[any]);
    }
    let agents_say = [progress, address::dead(c, "agent").to_string()];
    hand(services, Way::Request, agents, &agents_say);
    let renewals = address::renewals(c).to_string();
    let agents_hear = [clock.to_string(), renewals, commands.to_string()];
    hand(services, Way::Hearing, agents, &agents_hear);
    for stream in [clock.stream(), commands.stream()].into_iter().flatten() {
        let any = format!("$JS.API.DIRECT.GET.{stream}");
        hand(services, Way::Request, agents, &[format!("{any}.>")]);
        hand(services, Way::Reading, agents, &[any]);
    }
    // Of members only the newest of one trainer at a time.
    let members = address::members_all(c);
    if let Some(stream) = members.stream() {
        let newest = format!("$JS.API.DIRECT.GET.{stream}.{members}");
        hand(services, Way::Request, agents, &[newest]);
    }
    let said = [address::agents(c).to_string()];
    hand(agents, Way::Hearing, services, &said);
    hand(agents, Way::Hearing, people, &said);
    let logs = [address::logs_all(c).to_string()];
    hand(agents, Way::Request, services, &logs);
    hand(services, Way::Request, Account::Events, &[incoming]);
    let released = [address::released(c).to_string()];
    hand(services, Way::Hearing, Account::Events, &released);
    all
}

/// All streams of a cluster, those behind buckets too.
#[must_use]
pub fn all_streams(cluster: &ClusterId) -> BTreeSet<String> {
    let streams = address::streams(cluster).into_iter().map(|s| s.name);
    streams
        .chain([
            address::trainers_bucket(cluster).stream(),
            address::leases_bucket(cluster).stream(),
            address::observed_bucket(cluster).stream(),
        ])
        .collect()
}

/// What somebody may do in a cluster.
#[must_use]
pub fn access(cluster: &ClusterId, holder: &Holder) -> Access {
    let mut to = Access::default();
    // Their own inbox: answers, and the echo by which a subscription is known to stand.
    let own = format!("{}.>", inbox(&holder.user));
    to.publish.insert(own.clone());
    to.subscribe.insert(own);
    match holder.role {
        Role::Ingest => ingest(&mut to, cluster),
        Role::Forecast => forecast(&mut to, cluster),
        Role::Planner => planner(&mut to, cluster),
        Role::Control => control(&mut to, cluster),
        Role::Agent => agent(&mut to, cluster, holder.node.as_ref()),
        Role::Gateway => gateway(&mut to, cluster),
        Role::Operator => operator(&mut to, cluster, &holder.user),
        Role::Researcher => researcher(&mut to, cluster, &holder.user),
        Role::Events => events(&mut to, cluster),
        Role::Observer => observer(&mut to, cluster),
    }
    to
}

fn ingest(to: &mut Access, c: &ClusterId) {
    to.service(c, "ingest");
    to.work(&address::incoming(c));
    to.follow(&address::event(c)).say(&address::event(c));
    to.follow(&address::snapshot(c)).say(&address::snapshot(c));
    to.follow(&address::clock(c)).say(&address::clock(c));
    to.hear(&address::settled(c));
}

fn forecast(to: &mut Access, c: &ClusterId) {
    to.service(c, "forecast");
    to.follow(&address::event(c)).follow(&address::snapshot(c));
    to.follow(&address::clock(c));
    to.ask(&address::pool(c)).say(&address::pool(c));
}

fn planner(to: &mut Access, c: &ClusterId) {
    to.service(c, "planner");
    to.follow(&address::pool(c)).follow(&address::trainers(c));
    to.follow(&address::clock(c));
    to.ask(&address::plan(c)).say(&address::plan(c));
}

fn control(to: &mut Access, c: &ClusterId) {
    to.service(c, "control");
    to.make_streams(c);
    to.say(&address::audit(c, "control"));
    to.keep(&address::trainers_bucket(c));
    to.keep(&address::leases_bucket(c));
    to.keep(&address::observed_bucket(c));
    to.ask(&address::archive(c)).say(&address::archive(c));
    to.ask(&address::past(c)).say(&address::past(c));
    to.follow(&address::event(c)).follow(&address::snapshot(c));
    to.follow(&address::clock(c)).follow(&address::plan(c));
    to.follow(&address::pool(c))
        .follow(&address::progress_all(c));
    to.follow(&address::trainers(c)).say(&address::trainers(c));
    to.ask(&address::totals(c)).say(&address::totals(c));
    to.say(&address::controls(c));
    to.follow(&address::use_state(c))
        .say(&address::use_state(c));
    to.ask(&address::commands(c)).say(&address::commands(c));
    to.say(&address::members_all(c));
    to.say(&address::renewals(c)).say(&address::settled(c));
    to.say(&address::released(c)).say(&address::logs_all(c));
    to.hear(&address::agents(c));
    to.hear(&address::requests(c)).hear(&address::pilots(c));
    to.answer();
}

fn agent(to: &mut Access, c: &ClusterId, node: Option<&NodeId>) {
    to.look(&address::clock(c));
    to.ask_each(&address::members_all(c));
    match node {
        Some(node) => {
            to.look(&address::command(c, node));
            to.hear(&address::renewal(c, address::shard(node)));
            to.say(&address::agent(c, node));
            to.say(&address::progress_of(c, node));
            to.hear(&address::logs(c, node));
        }
        None => {
            to.look(&address::commands(c));
            to.hear(&address::renewals(c));
            to.say(&address::agents(c));
            to.say(&address::progress_all(c));
            to.hear(&address::logs_all(c));
        }
    }
    to.say(&address::dead(c, "agent"));
    to.answer();
}

fn gateway(to: &mut Access, c: &ClusterId) {
    to.look(&address::clock(c)).look(&address::pool(c));
    to.look(&address::trainers(c)).look(&address::totals(c));
    to.look(&address::plan(c)).look(&address::progress_all(c));
    to.read(&address::event(c)).look(&address::controls(c));
    to.look(&address::use_state(c));
    to.look(&address::leaders(c)).hear(&address::agents(c));
    to.say(&address::dead(c, "gateway"));
}

fn operator(to: &mut Access, c: &ClusterId, user: &str) {
    observer(to, c);
    to.say(&address::requests_of(c, user));
    to.say(&address::pilots_of(c, user));
    to.say(&address::incoming(c));
}

fn researcher(to: &mut Access, c: &ClusterId, user: &str) {
    to.say(&address::requests_of(c, user));
    // No consumers: the newest states, and what is published while they look.
    to.look(&address::clock(c)).look(&address::pool(c));
    to.look(&address::trainers(c)).look(&address::totals(c));
    to.look(&address::plan(c)).look(&address::controls(c));
    to.look(&address::use_state(c));
    to.hear(&address::event(c));
}

fn events(to: &mut Access, c: &ClusterId) {
    to.say(&address::incoming(c)).hear(&address::released(c));
}

fn observer(to: &mut Access, c: &ClusterId) {
    to.read(&address::event(c)).read(&address::snapshot(c));
    to.read(&address::clock(c)).read(&address::pool(c));
    to.read(&address::trainers(c)).read(&address::totals(c));
    to.read(&address::plan(c)).read(&address::progress_all(c));
    to.read(&address::controls(c)).read(&address::leaders(c));
    to.read(&address::use_state(c));
    to.read(&address::audit_all(c)).read(&address::dead_all(c));
    to.read(&address::commands(c));
    to.read(&address::observed_bucket(c).all());
    to.hear(&address::agents(c)).hear(&address::renewals(c));
    to.hear(&address::settled(c)).hear(&address::released(c));
}

impl Access {
    /// Requests of other accounts, whatever they ask. The server's `allow_responses` would let one
    /// speak on any subject: it counts what one says to oneself as a request, and its reply subject
    /// as one for an answer.
    fn answer(&mut self) {
        self.publish.insert(format!("{OTHERS}>"));
    }

    fn api(&mut self, request: &str) {
        self.publish.insert(format!("$JS.API.{request}"));
    }

    /// What each service with state of its own needs.
    fn service(&mut self, c: &ClusterId, name: &str) {
        self.say(&address::dead(c, name));
        self.say(&address::leader(c, name))
            .follow(&address::leaders(c));
        self.follow(&address::controls(c));
    }

    fn say<M>(&mut self, subject: &Subject<M>) -> &mut Self {
        self.publish.insert(subject.to_string());
        self
    }

    fn hear<M>(&mut self, subject: &Subject<M>) -> &mut Self {
        self.subscribe.insert(subject.to_string());
        self
    }

    /// Asks a stream for the newest message of a subject; of a pattern for any that it holds.
    fn ask<M>(&mut self, subject: &Subject<M>) -> &mut Self {
        if let Some(stream) = subject.stream() {
            let newest = format!("DIRECT.GET.{stream}.{subject}");
            let any = format!("DIRECT.GET.{stream}");
            let there = if subject.is_pattern() { &any } else { &newest };
            self.streams
                .insert(stream.to_owned(), format!("$JS.API.{there}"));
            if subject.is_pattern() {
                self.api(&any);
            }
            self.api(&newest);
        }
        self
    }

    /// Asks a stream for the newest message of one subject of a pattern at a time. Nobody waits for
    /// the stream.
    fn ask_each<M>(&mut self, pattern: &Subject<M>) -> &mut Self {
        if let Some(stream) = pattern.stream() {
            self.api(&format!("DIRECT.GET.{stream}.{pattern}"));
        }
        self
    }

    /// The newest, and what is published from now on.
    fn look<M>(&mut self, subject: &Subject<M>) -> &mut Self {
        self.ask(subject).hear(subject)
    }

    /// All that the stream keeps, and what is published from now on.
    fn read<M>(&mut self, subject: &Subject<M>) -> &mut Self {
        self.look(subject);
        if let Some(stream) = subject.stream() {
            self.api(&format!("DIRECT.GET.{stream}"));
        }
        self
    }

    /// Of services alone: all that the stream keeps of a subject, by a consumer. Its name is
    /// random, so that nobody reads or ends another's. A consumer can send what it reads to any
    /// subject of its account.
    fn follow<M>(&mut self, subject: &Subject<M>) -> &mut Self {
        self.ask(subject);
        if let Some(stream) = subject.stream() {
            self.api(&format!("STREAM.INFO.{stream}"));
            self.api(&format!("CONSUMER.CREATE.{stream}.*.{subject}"));
            self.api(&format!("CONSUMER.MSG.NEXT.{stream}.*"));
            self.api(&format!("CONSUMER.DELETE.{stream}.*"));
        }
        self
    }

    /// Reads and writes a bucket.
    fn keep<M>(&mut self, bucket: &BucketDef<M>) {
        self.say(&bucket.all()).follow(&bucket.all());
    }

    /// Reads a queue, and takes out what is done with.
    fn work<M>(&mut self, subject: &Subject<M>) {
        self.follow(subject);
        if let Some(stream) = subject.stream() {
            self.api(&format!("STREAM.PURGE.{stream}"));
        }
    }

    /// Who may change streams can also lower their limits, and so end all leases and the audit
    /// log: one role alone does it.
    fn make_streams(&mut self, c: &ClusterId) {
        for stream in all_streams(c) {
            for request in ["INFO", "CREATE", "UPDATE"] {
                self.api(&format!("STREAM.{request}.{stream}"));
            }
        }
        self.makes_streams = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(role: Role, user: &str, node: Option<&str>) -> Access {
        let holder = Holder {
            user: user.to_owned(),
            role,
            node: node.map(|n| NodeId::new(n).unwrap()),
        };
        access(&ClusterId::new("c").unwrap(), &holder)
    }

    #[test]
    fn roles_have_names_that_read_back() {
        for role in Role::ALL {
            assert_eq!(role.name().parse::<Role>().unwrap(), role);
        }
        assert!("root".parse::<Role>().is_err());
    }

    #[test]
    fn ingest_alone_empties_its_queue_and_only_control_makes_streams() {
        for role in Role::ALL {
            let access = of(role, role.name(), None);
            let all = access.publish.iter();
            let makes = all
                .clone()
                .any(|s| s.starts_with("$JS.API.STREAM.CREATE.") || s.contains("STREAM.UPDATE"));
            assert_eq!(makes, role == Role::Control, "{role}");
            assert_eq!(access.makes_streams, makes, "{role}");
            for subject in all {
                assert!(!subject.contains("STREAM.DELETE"), "{role}: {subject}");
                let queue = role == Role::Ingest && subject == "$JS.API.STREAM.PURGE.lac_c_in";
                assert!(queue || !subject.contains("PURGE"), "{role}: {subject}");
                assert!(!subject.contains("MSG.DELETE"), "{role}: {subject}");
                let token = subject.split('.').next().unwrap_or_default();
                assert!(!["*", ">"].contains(&token), "{role}: {subject}");
            }
        }
    }

    #[test]
    fn each_word_has_one_speaker() {
        let speakers = |subject: &str| -> Vec<&str> {
            let roles = Role::ALL.into_iter();
            roles
                .filter(|r| of(*r, r.name(), None).publish.contains(subject))
                .map(Role::name)
                .collect()
        };
        let table = [
            ("lacuna.v1.c.event", "ingest"),
            ("lacuna.v1.c.state.snapshot", "ingest"),
            ("lacuna.v1.c.state.clock", "ingest"),
            ("lacuna.v1.c.state.pool", "forecast"),
            ("lacuna.v1.c.state.plan", "planner"),
            ("lacuna.v1.c.state.trainers", "control"),
            ("lacuna.v1.c.cmd.*", "control"),
            ("lacuna.v1.c.run.*", "control"),
            ("lacuna.v1.c.renewal.*", "control"),
            ("lacuna.v1.c.controls", "control"),
            ("lacuna.v1.c.state.use", "control"),
            ("lacuna.v1.c.out.released", "control"),
            ("lacuna.v1.c.audit.control", "control"),
            ("$KV.lac_c_leases.>", "control"),
            ("$KV.lac_c_trainers.>", "control"),
            ("lacuna.v1.c.agent.*", "agent"),
        ];
        for (subject, role) in table {
            assert_eq!(speakers(subject), [role], "{subject}");
        }
        for role in Role::ALL.into_iter().filter(|r| *r != Role::Control) {
            let said = of(role, role.name(), None).publish;
            let mut audit = said.iter().filter(|s| s.starts_with("lacuna.v1.c.audit"));
            assert_eq!(audit.next(), None, "{role}");
        }
    }

    #[test]
    fn a_user_asks_in_their_own_name_and_hears_their_own_answers() {
        let ann = of(Role::Researcher, "ann.b", None);
        assert!(ann.publish.contains("lacuna.v1.c.req.ann_2Eb"));
        assert!(ann.subscribe.contains("_INBOX_ann_2Eb.>"));
        for subject in ann.publish.iter().chain(&ann.subscribe) {
            assert!(!subject.contains("req.*") && !subject.contains("pilots"));
            assert!(!subject.contains("CONSUMER"), "{subject}");
        }
        assert!(is_inbox("_INBOX_ann_2Eb.x.y") && is_inbox("_INBOX.x") && is_inbox("_R_.a.b"));
        assert!(!is_inbox("lacuna.v1.c.cmd.a"));
    }

    #[test]
    fn the_agent_of_a_node_speaks_for_that_node_alone() {
        let one = of(Role::Agent, "agent-a.1", Some("a.1"));
        assert!(one.publish.contains("lacuna.v1.c.agent.a_2E1"));
        assert!(one.publish.contains("lacuna.v1.c.progress.a_2E1.*"));
        assert!(one.subscribe.contains("lacuna.v1.c.logs.a_2E1"));
        let all = one.publish.iter().chain(&one.subscribe);
        for subject in all {
            assert!(!subject.contains("agent.*"), "{subject}");
            assert!(!subject.contains("cmd.*"), "{subject}");
            assert!(!subject.contains("logs.*"), "{subject}");
            assert!(!subject.contains("progress.*"), "{subject}");
        }
        assert!(
            one.publish
                .contains("$JS.API.DIRECT.GET.lac_c_cmds.lacuna.v1.c.cmd.a_2E1")
        );
        assert!(!one.publish.contains("$JS.API.DIRECT.GET.lac_c_cmds"));
    }

    #[test]
    fn agents_ask_who_trains_with_them_and_nobody_else_does() {
        let ask = "$JS.API.DIRECT.GET.lac_c_runs.lacuna.v1.c.run.*";
        for (role, node) in Role::ALL
            .map(|role| (role, None))
            .into_iter()
            .chain([(Role::Agent, Some("a.1"))])
        {
            let to = of(role, role.name(), node);
            let all = to.publish.iter().chain(&to.subscribe);
            let concerned: Vec<&String> = all
                .filter(|s| s.contains("lac_c_runs") || s.contains("lacuna.v1.c.run."))
                .collect();
            match role {
                Role::Agent => assert_eq!(concerned, [ask], "{role}"),
                // It says them and makes their stream.
                Role::Control => assert!(!to.publish.contains(ask)),
                _ => assert!(concerned.is_empty(), "{role}: {concerned:?}"),
            }
        }
        let handed = handed_over(&ClusterId::new("c").unwrap());
        let handed: Vec<&Handed> = handed
            .iter()
            .filter(|one| one.subject.contains("lac_c_runs") || one.subject.contains(".run."))
            .collect();
        let [one] = handed.as_slice() else {
            panic!("{handed:?}");
        };
        assert_eq!(
            (one.way, one.taker, one.subject.as_str()),
            (Way::Request, Account::Agents, ask)
        );
    }

    /// Whether a pattern of nats-server takes in another pattern or subject.
    fn takes_in(pattern: &str, subject: &str) -> bool {
        let (mut wide, mut narrow) = (pattern.split('.'), subject.split('.'));
        loop {
            match (wide.next(), narrow.next()) {
                (Some(">"), Some(_)) | (None, None) => return true,
                (Some(a), Some(b)) if a == b || (a == "*" && b != ">") => {}
                _ => return false,
            }
        }
    }

    #[test]
    fn what_people_and_agents_may_use_is_handed_over_and_no_consumer_is() {
        let cluster = ClusterId::new("c").unwrap();
        let handed = handed_over(&cluster);
        for role in Role::ALL {
            let account = role.account();
            if account == Account::Services {
                continue;
            }
            let to = of(role, role.name(), None);
            let takes = |subject: &str, heard: bool| {
                handed.iter().any(|one| {
                    one.taker == account
                        && (one.way == Way::Hearing) == heard
                        && takes_in(&one.subject, subject)
                })
            };
            let own = |subject: &str| {
                subject.starts_with("_INBOX_")
                    || subject == "_R_.>"
                    || handed
                        .iter()
                        .any(|one| one.giver == account && takes_in(&one.subject, subject))
            };
            for subject in &to.publish {
                assert!(own(subject) || takes(subject, false), "{role}: {subject}");
            }
            for subject in &to.subscribe {
                assert!(own(subject) || takes(subject, true), "{role}: {subject}");
            }
        }
        // A consumer sends what it reads to any subject of the account that it is in.
        for one in &handed {
            assert!(!one.subject.contains("CONSUMER"), "{one:?}");
            assert!(!one.subject.starts_with("$JS.API.STREAM"), "{one:?}");
        }
    }

    #[test]
    fn streams_that_are_waited_for_exist() {
        let cluster = ClusterId::new("c").unwrap();
        let all = all_streams(&cluster);
        for role in Role::ALL {
            let to = of(role, role.name(), None);
            for (stream, request) in to.streams {
                assert!(all.contains(&stream), "{role}: {stream}");
                assert!(to.publish.contains(&request), "{role}: {request}");
            }
        }
        let ingest = of(Role::Ingest, "ingest", None).streams;
        let ingest: Vec<String> = ingest.into_keys().collect();
        let wanted = ["controls", "events", "in", "leaders", "snapshot", "state"];
        let wanted = wanted.map(|s| format!("lac_c_{s}"));
        assert!(ingest.iter().eq(&wanted), "{ingest:?}");
    }
}
