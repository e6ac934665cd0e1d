//! Permissions: for each role, the subjects that it needs and no others.
//!
//! This is plain data, from roles to subjects of `address` and of JetStream's API. `lacuna keys`
//! writes it into the accounts of nats-server, which enforces it. Tests let each role do its work
//! and try what it must not do. A service that needs a further subject needs an entry here. Without
//! an entry the server refuses the subject, which `lacuna_bus_denied_total` counts.
//!
//! A cluster has accounts for services, operators, other people, agents and external schedulers.
//! `account_exports` lists the subjects that pass between them: messages, requests whose answers stay with the
//! requester, and reads of streams message by message. Only services have consumers
//! (`Bus::follow`); other accounts read streams by direct gets (`Bus::follow_direct`). With keys
//! only control makes streams. A message about a node or trainer must name the one of its subject
//! (`Message::about`). The threats are listed in `deploy/security.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use lacuna_model::{ClusterId, NodeId};

use crate::address::{self, BucketDef, Subject};
use crate::token::escape;

/// The role of a user of the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Numbers events.
    Ingest,
    /// Keeps the pool.
    Forecast,
    /// Makes plans.
    Planner,
    /// Keeps trainers and leases, commands nodes, makes the streams.
    Control,
    /// Runs training on one node if its key names a node, else on all nodes.
    Agent,
    /// Serves the operator's page, and changes nothing.
    Gateway,
    /// A person who runs the centre. Sends all requests, controls pilots, publishes events.
    Operator,
    /// A person who trains. Sends requests in their own name.
    Researcher,
    /// A main scheduler or its hooks. Publishes events, and hears which nodes came back.
    Events,
    /// Reads everything that an operator reads, and publishes nothing.
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

    /// The roles of Lacuna's services, with one user each.
    pub const SERVICES: [Self; 6] = [
        Self::Ingest,
        Self::Forecast,
        Self::Planner,
        Self::Control,
        Self::Agent,
        Self::Gateway,
    ];

    /// The name of the role.
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

/// An unknown name of a role.
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

/// The holder of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The name of the user, unique within the cluster.
    pub user: String,
    /// The role of the user.
    pub role: Role,
    /// The node of an agent; without one the agent acts for all nodes.
    pub node: Option<NodeId>,
}

/// The permissions of a user. Everything else is refused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// Subjects that the user may publish on.
    pub publish: BTreeSet<String>,
    /// Subjects that the user may subscribe to.
    pub subscribe: BTreeSet<String>,
    /// The streams that the user needs, each with a request that the server answers as soon as the
    /// stream exists. The user waits for that at its start.
    pub streams: BTreeMap<String, String>,
    /// Whether the user makes and changes the cluster's streams. Other users wait for them.
    pub makes_streams: bool,
}

/// The prefix of a user's inboxes. Answers to one user cannot be read by others.
#[must_use]
pub fn inbox(user: &str) -> String {
    format!("_INBOX_{}", escape(user))
}

/// The prefix of reply subjects for requests from another account. nats-server makes each of them,
/// so that no client can guess or hear it.
const OTHERS: &str = "_R_.";

/// Whether a reply subject is the inbox of some user. Answers are sent to inboxes only. For a
/// request from another account, nats-server makes an inbox of its own.
#[must_use]
pub fn is_inbox(subject: &str) -> bool {
    ["_INBOX.", "_INBOX_", OTHERS]
        .iter()
        .any(|inbox| subject.starts_with(inbox))
}

/// An account of nats-server. A user of one account sees only the exports of another. The answer to
/// a request stays in the requester's account. So no answer of the server to people or agents can
/// reach a stream, a bucket, a command or a leadership. The server limits the connections of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Account {
    /// Services with state, and all streams.
    Services,
    /// Operators, and the gateway of their page: no other person takes their connections.
    Operators,
    /// Other people.
    People,
    /// Agents of nodes.
    Agents,
    /// External schedulers and their hooks.
    Events,
}

impl Account {
    /// All accounts of a cluster.
    pub const ALL: [Self; 5] = [
        Self::Services,
        Self::Operators,
        Self::People,
        Self::Agents,
        Self::Events,
    ];

    /// The name in the configuration of nats-server. No cluster's name has a `+`, so names of
    /// accounts are unique. The name of the services' account also names the folder of their
    /// streams.
    #[must_use]
    pub fn name(self, cluster: &ClusterId) -> String {
        match self {
            Self::Services => format!("lacuna_{cluster}"),
            Self::Operators => format!("lacuna_{cluster}+operators"),
            Self::People => format!("lacuna_{cluster}+people"),
            Self::Agents => format!("lacuna_{cluster}+agents"),
            Self::Events => format!("lacuna_{cluster}+events"),
        }
    }

    /// The names of all accounts of this kind. People are dealt out over several: a person who takes all
    /// connections of one leaves those of the others. All are there from the start: nats-server 2.15 gives
    /// a new account what it imports only at the second reload.
    pub fn names(self, cluster: &ClusterId) -> impl Iterator<Item = String> {
        let name = self.name(cluster);
        (0..if self == Self::People { 16 } else { 1 }).map(move |number: u32| match number {
            0 => name.clone(),
            _ => format!("{name}{number}"),
        })
    }

    /// The most connections of one account. They suffice for ten thousand nodes whose hooks all run at
    /// once. Together they stay below the server's 65,536 connections.
    #[must_use]
    pub const fn most_connections(self) -> u32 {
        match self {
            Self::Services | Self::People => 512,
            Self::Operators => 1024,
            Self::Agents => 32_768,
            Self::Events => 16_384,
        }
    }
}

impl Role {
    /// The account of the role.
    #[must_use]
    pub const fn account(self) -> Account {
        match self {
            Self::Ingest | Self::Forecast | Self::Planner | Self::Control => Account::Services,
            Self::Gateway | Self::Operator => Account::Operators,
            Self::Researcher | Self::Observer => Account::People,
            Self::Agent => Account::Agents,
            Self::Events => Account::Events,
        }
    }
}

/// How an account exports a subject, in the terms of nats-server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExportKind {
    /// Requests to the exporter, with one answer each.
    Service,
    /// Requests to the exporter, each of which may have many answers.
    StreamingService,
    /// Messages of the exporter.
    Stream,
}

/// A subject that one account exports to another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Export {
    /// The account that exports it.
    pub exporter: Account,
    /// The kind of export.
    pub kind: ExportKind,
    /// Subject or pattern.
    pub subject: String,
    /// The account that imports it. Permissions of its users restrict the use further.
    pub importer: Account,
}

/// All exports between the accounts of a cluster.
#[must_use]
pub fn account_exports(c: &ClusterId) -> Vec<Export> {
    let mut all = Vec::new();
    let mut export = |exporter, kind, importer, subjects: &[String]| {
        all.extend(subjects.iter().map(|subject| Export {
            exporter,
            kind,
            subject: subject.clone(),
            importer,
        }));
    };
    let (services, agents) = (Account::Services, Account::Agents);
    let incoming = address::incoming(c).to_string();
    let clock = address::clock(c);
    let commands = address::commands(c);
    let observed = address::observed_bucket(c);
    export(
        services,
        ExportKind::Service,
        Account::Operators,
        &[
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
        address::topology(c).to_string(),
        address::progress_all(c).to_string(),
        address::controls(c).to_string(),
        address::leaders(c).to_string(),
        address::audit_all(c).to_string(),
        address::dead_all(c).to_string(),
        observed.all().to_string(),
    ];
    // Agents send progress to services as requests, which are not exported further.
    let progress = address::progress_all(c).to_string();
    let of_services: Vec<String> = kept.iter().filter(|s| **s != progress).cloned().collect();
    let heard = [
        address::renewals(c).to_string(),
        address::settled(c).to_string(),
        address::released(c).to_string(),
    ];
    let kept_by: Vec<String> = address::streams(c)
        .into_iter()
        .filter(|stream| kept.iter().any(|subject| stream.subjects.contains(subject)))
        .map(|stream| stream.name)
        .chain([observed.stream()])
        .collect();
    let requests = [address::requests(c).to_string()];
    let of_agents = [progress.clone(), address::agents(c).to_string()];
    for people in [Account::Operators, Account::People] {
        export(services, ExportKind::Service, people, &requests);
        export(services, ExportKind::Stream, people, &of_services);
        export(services, ExportKind::Stream, people, &heard);
        export(agents, ExportKind::Stream, people, &of_agents);
        for stream in &kept_by {
            let any = format!("$JS.API.DIRECT.GET.{stream}");
            export(services, ExportKind::Service, people, &[format!("{any}.>")]);
            export(services, ExportKind::StreamingService, people, &[any]);
        }
    }
    let of_agents = [progress, address::dead(c, "agent").to_string()];
    export(services, ExportKind::Service, agents, &of_agents);
    let renewals = address::renewals(c).to_string();
    let to_agents = [clock.to_string(), renewals, commands.to_string()];
    export(services, ExportKind::Stream, agents, &to_agents);
    for stream in [clock.stream(), commands.stream()].into_iter().flatten() {
        let any = format!("$JS.API.DIRECT.GET.{stream}");
        export(services, ExportKind::Service, agents, &[format!("{any}.>")]);
        export(services, ExportKind::StreamingService, agents, &[any]);
    }
    // Members only as the newest message of one trainer at a time.
    let members = address::members_all(c);
    if let Some(stream) = members.stream() {
        let newest = format!("$JS.API.DIRECT.GET.{stream}.{members}");
        export(services, ExportKind::Service, agents, &[newest]);
    }
    let statuses = [address::agents(c).to_string()];
    export(agents, ExportKind::Stream, services, &statuses);
    let logs = [address::logs_all(c).to_string()];
    export(agents, ExportKind::Service, services, &logs);
    export(services, ExportKind::Service, Account::Events, &[incoming]);
    let released = [address::released(c).to_string()];
    export(services, ExportKind::Stream, Account::Events, &released);
    all
}

/// All streams of a cluster, including those behind buckets.
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

/// The permissions of a user in a cluster.
#[must_use]
pub fn access(cluster: &ClusterId, holder: &Holder) -> Access {
    let mut to = Access::default();
    // The own inbox: for answers, and for the echo that confirms a subscription.
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
    to.drains(&address::incoming(c));
    to.consumes(&address::event(c))
        .publishes(&address::event(c));
    to.consumes(&address::snapshot(c))
        .publishes(&address::snapshot(c));
    to.consumes(&address::clock(c))
        .publishes(&address::clock(c));
    to.gets(&address::topology(c))
        .publishes(&address::topology(c));
    to.gets(&address::reading(c))
        .publishes(&address::reading(c));
    to.subscribes(&address::settled(c));
}

fn forecast(to: &mut Access, c: &ClusterId) {
    to.service(c, "forecast");
    to.consumes(&address::event(c))
        .consumes(&address::snapshot(c));
    to.consumes(&address::clock(c));
    to.gets(&address::pool(c)).publishes(&address::pool(c));
}

fn planner(to: &mut Access, c: &ClusterId) {
    to.service(c, "planner");
    to.consumes(&address::pool(c))
        .consumes(&address::trainers(c));
    to.consumes(&address::clock(c))
        .consumes(&address::topology(c));
    to.gets(&address::plan(c)).publishes(&address::plan(c));
}

fn control(to: &mut Access, c: &ClusterId) {
    to.service(c, "control");
    to.make_streams(c);
    to.publishes(&address::audit(c, "control"));
    to.owns_bucket(&address::trainers_bucket(c));
    to.owns_bucket(&address::leases_bucket(c));
    to.owns_bucket(&address::observed_bucket(c));
    to.gets(&address::archive(c))
        .publishes(&address::archive(c));
    to.gets(&address::past(c)).publishes(&address::past(c));
    to.consumes(&address::event(c))
        .consumes(&address::snapshot(c));
    to.consumes(&address::clock(c)).consumes(&address::plan(c));
    to.consumes(&address::pool(c))
        .consumes(&address::progress_all(c));
    to.consumes(&address::topology(c));
    to.consumes(&address::trainers(c))
        .publishes(&address::trainers(c));
    to.gets(&address::totals(c)).publishes(&address::totals(c));
    to.gets(&address::days(c)).publishes(&address::days(c));
    to.gets(&address::store_secret(c))
        .publishes(&address::store_secret(c));
    to.publishes(&address::controls(c));
    to.consumes(&address::use_state(c))
        .publishes(&address::use_state(c));
    to.gets(&address::commands(c))
        .publishes(&address::commands(c));
    to.publishes(&address::members_all(c));
    to.publishes(&address::renewals(c))
        .publishes(&address::settled(c));
    to.publishes(&address::released(c))
        .publishes(&address::logs_all(c));
    to.subscribes(&address::agents(c));
    to.subscribes(&address::requests(c))
        .subscribes(&address::pilots(c));
    to.answers();
}

fn agent(to: &mut Access, c: &ClusterId, node: Option<&NodeId>) {
    to.follows_direct(&address::clock(c));
    to.gets_each(&address::members_all(c));
    match node {
        Some(node) => {
            to.follows_direct(&address::command(c, node));
            to.subscribes(&address::renewal(c, address::shard(node)));
            to.publishes(&address::agent(c, node));
            to.publishes(&address::progress_of(c, node));
            to.subscribes(&address::logs(c, node));
        }
        None => {
            to.follows_direct(&address::commands(c));
            to.subscribes(&address::renewals(c));
            to.publishes(&address::agents(c));
            to.publishes(&address::progress_all(c));
            to.subscribes(&address::logs_all(c));
        }
    }
    to.publishes(&address::dead(c, "agent"));
    to.answers();
}

fn gateway(to: &mut Access, c: &ClusterId) {
    to.follows_direct(&address::clock(c))
        .follows_direct(&address::pool(c));
    to.follows_direct(&address::trainers(c))
        .follows_direct(&address::totals(c));
    to.follows_direct(&address::plan(c))
        .follows_direct(&address::progress_all(c));
    to.reads(&address::event(c))
        .follows_direct(&address::controls(c));
    to.follows_direct(&address::use_state(c))
        .follows_direct(&address::topology(c));
    to.follows_direct(&address::leaders(c))
        .subscribes(&address::agents(c));
    to.publishes(&address::dead(c, "gateway"));
}

fn operator(to: &mut Access, c: &ClusterId, user: &str) {
    observer(to, c);
    to.publishes(&address::requests_of(c, user));
    to.publishes(&address::pilots_of(c, user));
    to.publishes(&address::incoming(c));
}

fn researcher(to: &mut Access, c: &ClusterId, user: &str) {
    to.publishes(&address::requests_of(c, user));
    // No consumers: the newest states, and messages while a command runs.
    to.follows_direct(&address::clock(c))
        .follows_direct(&address::pool(c));
    to.follows_direct(&address::trainers(c))
        .follows_direct(&address::totals(c));
    to.follows_direct(&address::plan(c))
        .follows_direct(&address::controls(c));
    to.follows_direct(&address::use_state(c))
        .follows_direct(&address::topology(c));
    to.subscribes(&address::event(c));
}

fn events(to: &mut Access, c: &ClusterId) {
    to.publishes(&address::incoming(c))
        .subscribes(&address::released(c));
}

fn observer(to: &mut Access, c: &ClusterId) {
    to.reads(&address::event(c)).reads(&address::snapshot(c));
    to.reads(&address::clock(c)).reads(&address::pool(c));
    to.reads(&address::trainers(c)).reads(&address::totals(c));
    to.reads(&address::plan(c)).reads(&address::progress_all(c));
    to.reads(&address::controls(c)).reads(&address::leaders(c));
    to.reads(&address::use_state(c))
        .reads(&address::topology(c));
    to.reads(&address::audit_all(c))
        .reads(&address::dead_all(c));
    to.reads(&address::observed_bucket(c).all());
    to.subscribes(&address::agents(c))
        .subscribes(&address::renewals(c));
    to.subscribes(&address::settled(c))
        .subscribes(&address::released(c));
}

impl Access {
    /// May answer all requests of other accounts. The server's `allow_responses` would allow any
    /// subject: a user could send itself a request with that reply subject.
    fn answers(&mut self) {
        self.publish.insert(format!("{OTHERS}>"));
    }

    fn requests_api(&mut self, request: &str) {
        self.publish.insert(format!("$JS.API.{request}"));
    }

    /// The permissions of every service with state.
    fn service(&mut self, c: &ClusterId, name: &str) {
        self.publishes(&address::dead(c, name));
        self.publishes(&address::leader(c, name))
            .consumes(&address::leaders(c));
        self.consumes(&address::controls(c));
    }

    fn publishes<M>(&mut self, subject: &Subject<M>) -> &mut Self {
        self.publish.insert(subject.to_string());
        self
    }

    fn subscribes<M>(&mut self, subject: &Subject<M>) -> &mut Self {
        self.subscribe.insert(subject.to_string());
        self
    }

    /// May get the newest message of a subject from its stream, and any message of a pattern.
    fn gets<M>(&mut self, subject: &Subject<M>) -> &mut Self {
        if let Some(stream) = subject.stream() {
            let newest = format!("DIRECT.GET.{stream}.{subject}");
            let any = format!("DIRECT.GET.{stream}");
            let there = if subject.is_pattern() { &any } else { &newest };
            self.streams
                .insert(stream.to_owned(), format!("$JS.API.{there}"));
            if subject.is_pattern() {
                self.requests_api(&any);
            }
            self.requests_api(&newest);
        }
        self
    }

    /// May get the newest message of one subject of a pattern at a time. The user does not wait for
    /// the stream.
    fn gets_each<M>(&mut self, pattern: &Subject<M>) -> &mut Self {
        if let Some(stream) = pattern.stream() {
            self.requests_api(&format!("DIRECT.GET.{stream}.{pattern}"));
        }
        self
    }

    /// May get the newest message, and subscribe to later ones.
    fn follows_direct<M>(&mut self, subject: &Subject<M>) -> &mut Self {
        self.gets(subject).subscribes(subject)
    }

    /// May get all messages of the stream, and subscribe to later ones.
    fn reads<M>(&mut self, subject: &Subject<M>) -> &mut Self {
        self.follows_direct(subject);
        if let Some(stream) = subject.stream() {
            self.requests_api(&format!("DIRECT.GET.{stream}"));
        }
        self
    }

    /// May read all messages of a subject by a consumer; for services only. Its name is random, so
    /// no user can read or end another's. A consumer can send its messages to any subject of its
    /// account.
    fn consumes<M>(&mut self, subject: &Subject<M>) -> &mut Self {
        self.gets(subject);
        if let Some(stream) = subject.stream() {
            self.requests_api(&format!("STREAM.INFO.{stream}"));
            self.requests_api(&format!("CONSUMER.CREATE.{stream}.*.{subject}"));
            self.requests_api(&format!("CONSUMER.MSG.NEXT.{stream}.*"));
            // After a new connection a client looks whether its consumer is still there.
            self.requests_api(&format!("CONSUMER.INFO.{stream}.*"));
            self.requests_api(&format!("CONSUMER.DELETE.{stream}.*"));
        }
        self
    }

    /// May read and write a bucket.
    fn owns_bucket<M>(&mut self, bucket: &BucketDef<M>) {
        self.publishes(&bucket.all()).consumes(&bucket.all());
    }

    /// May read a queue, and remove processed messages.
    fn drains<M>(&mut self, subject: &Subject<M>) {
        self.consumes(subject);
        if let Some(stream) = subject.stream() {
            self.requests_api(&format!("STREAM.PURGE.{stream}"));
        }
    }

    /// May make and change streams. A user who changes streams can lower their limits and so delete
    /// all leases and the audit log. Only one role has this permission.
    fn make_streams(&mut self, c: &ClusterId) {
        for stream in all_streams(c) {
            for request in ["INFO", "CREATE", "UPDATE"] {
                self.requests_api(&format!("STREAM.{request}.{stream}"));
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
    fn each_subject_has_one_publisher() {
        let publishers = |subject: &str| -> Vec<&str> {
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
            ("lacuna.v1.c.state.topology", "ingest"),
            ("lacuna.v1.c.state.reading", "ingest"),
            ("lacuna.v1.c.state.pool", "forecast"),
            ("lacuna.v1.c.state.plan", "planner"),
            ("lacuna.v1.c.state.trainers", "control"),
            ("lacuna.v1.c.cmd.*", "control"),
            ("lacuna.v1.c.run.*", "control"),
            ("lacuna.v1.c.state.secret", "control"),
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
            assert_eq!(publishers(subject), [role], "{subject}");
        }
        for role in Role::ALL.into_iter().filter(|r| *r != Role::Control) {
            let publish = of(role, role.name(), None).publish;
            let mut audit = publish
                .iter()
                .filter(|s| s.starts_with("lacuna.v1.c.audit"));
            assert_eq!(audit.next(), None, "{role}");
        }
    }

    #[test]
    fn a_user_requests_in_their_own_name_and_reads_their_own_answers() {
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
    fn the_agent_of_a_node_acts_for_that_node_only() {
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
    fn only_agents_get_the_members_of_an_incarnation() {
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
                // Control publishes members and makes their stream.
                Role::Control => assert!(!to.publish.contains(ask)),
                _ => assert!(concerned.is_empty(), "{role}: {concerned:?}"),
            }
        }
        let exports = account_exports(&ClusterId::new("c").unwrap());
        let exports: Vec<&Export> = exports
            .iter()
            .filter(|one| one.subject.contains("lac_c_runs") || one.subject.contains(".run."))
            .collect();
        let [one] = exports.as_slice() else {
            panic!("{exports:?}");
        };
        assert_eq!(
            (one.kind, one.importer, one.subject.as_str()),
            (ExportKind::Service, Account::Agents, ask)
        );
    }

    /// Commands carry tokens of the store of members and the environment of programs.
    #[test]
    fn control_alone_reads_its_secret_and_agents_alone_read_commands() {
        let concerns = |to: &Access, words: [&str; 2]| {
            let mut all = to.publish.iter().chain(&to.subscribe);
            all.any(|subject| words.iter().any(|word| subject.contains(word)))
        };
        for role in Role::ALL {
            let to = of(role, role.name(), None);
            let secret = concerns(&to, ["lac_c_secret", ".state.secret"]);
            assert_eq!(secret, role == Role::Control, "{role}");
            let commands = concerns(&to, ["lac_c_cmds", ".cmd."]);
            assert_eq!(
                commands,
                [Role::Control, Role::Agent].contains(&role),
                "{role}"
            );
        }
        for one in account_exports(&ClusterId::new("c").unwrap()) {
            assert!(!one.subject.contains("secret"), "{one:?}");
            let commands = one.subject.contains("lac_c_cmds") || one.subject.contains(".cmd.");
            assert!(!commands || one.importer == Account::Agents, "{one:?}");
        }
    }

    /// Whether a pattern of nats-server covers another pattern or subject.
    fn covers(pattern: &str, subject: &str) -> bool {
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
    fn subjects_of_people_and_agents_are_exported_and_no_consumer_is() {
        let cluster = ClusterId::new("c").unwrap();
        let exports = account_exports(&cluster);
        for role in Role::ALL {
            let account = role.account();
            if account == Account::Services {
                continue;
            }
            let to = of(role, role.name(), None);
            let imports = |subject: &str, is_stream: bool| {
                exports.iter().any(|one| {
                    one.importer == account
                        && (one.kind == ExportKind::Stream) == is_stream
                        && covers(&one.subject, subject)
                })
            };
            let own = |subject: &str| {
                subject.starts_with("_INBOX_")
                    || subject == "_R_.>"
                    || exports
                        .iter()
                        .any(|one| one.exporter == account && covers(&one.subject, subject))
            };
            for subject in &to.publish {
                assert!(own(subject) || imports(subject, false), "{role}: {subject}");
            }
            for subject in &to.subscribe {
                assert!(own(subject) || imports(subject, true), "{role}: {subject}");
            }
        }
        // A consumer can send its messages to any subject of its account.
        for one in &exports {
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
