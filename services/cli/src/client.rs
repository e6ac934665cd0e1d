//! The client of the bus that commands use.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use lacuna_model::{ClusterId, Span, Timestamp};
use lacuna_runtime::clock::wall;
use lacuna_runtime::config::BusSettings;
use lacuna_runtime::{
    Bus, BusError, Follow, Health, Identity, Nats, PendingAck, Start, Subscription,
};
use lacuna_wire::msg::{Reply, Request, TopologyState};
use lacuna_wire::{Message, Subject, address};

use crate::error::{CliError, Exit, Result};
use crate::output::{iso_short, print_error};
use crate::up::{RuntimeFile, default_data_dir, is_full};

/// The switches that select the cluster.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Connection")]
pub struct ConnectArgs {
    /// Address of nats-server [default: that of a running `lacuna up`, else nats://127.0.0.1:4222]
    #[arg(long, value_name = "URL", env = "LACUNA_NATS")]
    pub(crate) nats: Option<String>,
    /// Identity file of `lacuna keys`: who you are [default: that of a running
    /// `lacuna up --secure`]
    #[arg(long, value_name = "FILE", env = "LACUNA_IDENTITY")]
    pub(crate) identity: Option<PathBuf>,
    /// Name of the cluster [default: that of a running `lacuna up`, else main]
    #[arg(long, value_name = "ID", env = "LACUNA_CLUSTER")]
    pub(crate) cluster: Option<ClusterId>,
    /// Data directory of a running `lacuna up` [default: ~/.local/state/lacuna]
    #[arg(long, value_name = "DIR", env = "LACUNA_DATA_DIR")]
    pub(crate) data_dir: Option<PathBuf>,
}

impl ConnectArgs {
    /// The selected cluster: the argument, else that of the identity, else that of a running
    /// `lacuna up`, else the default of the configuration.
    #[must_use]
    pub(crate) fn cluster_id(&self) -> ClusterId {
        let running = || {
            let data_dir = self.data_dir.clone().unwrap_or_else(default_data_dir);
            RuntimeFile::read(&data_dir).and_then(|r| ClusterId::new(r.cluster).ok())
        };
        let proven = || Some(Identity::load(self.identity.as_deref()?).ok()?.cluster);
        let named = self.cluster.clone().or_else(proven).or_else(running);
        named.unwrap_or_else(|| crate::Config::default().cluster.id)
    }
}

/// The time limits for the connection to NATS and for an answer.
const CONNECT: Span = Span::from_secs(3);
const ANSWER: Duration = Duration::from_secs(10);
/// How long to wait for the reason why there is none.
const REASON: Duration = Duration::from_secs(2);
/// After a refusal for too many requests (`L0026`), the pause before the next attempt, and the
/// number of attempts.
const TOO_FAST: Duration = Duration::from_millis(250);
const PATIENCE: usize = 40;
/// A key that ends within this time is named at each command.
const SOON: Span = Span::from_secs(30 * 86_400);

/// A connection to one cluster. Clones share it.
#[derive(Debug, Clone)]
pub struct Client {
    bus: Bus,
    /// The data directory of the `lacuna up` of this machine that runs the cluster, if one does.
    up_here: Option<PathBuf>,
}

/// What to say of a key that ends soon, or has ended.
fn ending(own: &Identity, now: Timestamp) -> Option<String> {
    let until = own.until?;
    if until.since(now) > SOON {
        return None;
    }
    let ends = if until > now { "ends" } else { "has ended" };
    Some(format!(
        "the key of {} {ends} at {}: ask who runs the bus for another (`lacuna keys add-user DIR {} \
         --role {} --valid TIME --force`)",
        own.holder.user,
        iso_short(until),
        own.holder.user,
        own.holder.role
    ))
}

/// The messages of one subject, in order of arrival.
#[derive(Debug)]
pub(crate) struct Messages<M>(Kind<M>);

#[derive(Debug)]
enum Kind<M> {
    Live(Subscription<M>),
    Kept(Follow<M>),
}

impl<M: Message> Messages<M> {
    /// The next message; none after the connection has been closed.
    pub(crate) async fn next(&mut self) -> Option<M> {
        let received = match &mut self.0 {
            Kind::Live(messages) => messages.next().await,
            Kind::Kept(messages) => messages.next().await,
        };
        received.ok().map(|r| r.message)
    }
}

impl Client {
    /// Connects to the cluster that the arguments, the environment or a running `lacuna up`
    /// name.
    ///
    /// # Errors
    /// `L0001`, with the address that was tried and a remedy.
    pub async fn connect(args: &ConnectArgs) -> Result<Self> {
        let data_dir = args.data_dir.clone().unwrap_or_else(default_data_dir);
        let running = RuntimeFile::read(&data_dir);
        let own = args.identity.as_deref().map(Identity::load).transpose();
        let own = own.map_err(|e| unproven(&e))?;
        if let Some(said) = own.as_ref().and_then(|own| ending(own, wall())) {
            print_error(&format!("lacuna: warning: {said}"));
        }
        // The identity of a running `lacuna up` must not be shown to another server.
        let of_running = running
            .as_ref()
            .filter(|r| args.nats.as_ref().is_none_or(|nats| *nats == r.nats));
        let identity = args
            .identity
            .clone()
            .or_else(|| of_running.and_then(|r| r.identity.clone()));
        let url = args
            .nats
            .clone()
            .or_else(|| own.map(|own| own.url))
            .or_else(|| running.as_ref().map(|r| r.nats.clone()))
            .unwrap_or_else(|| BusSettings::default().url);
        let up_here = running.and_then(|running| (running.nats == url).then_some(data_dir));
        let client = Self::open(url, args.cluster_id(), identity).await?;
        Ok(Self { up_here, ..client })
    }

    /// Connects to this cluster at this address, without an identity.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub async fn at(url: &str, cluster: &str) -> Result<Self> {
        let cluster = ClusterId::new(cluster).map_err(|e| CliError::failed(e.to_string()))?;
        Self::open(url.to_owned(), cluster, None).await
    }

    async fn open(url: String, cluster: ClusterId, identity: Option<PathBuf>) -> Result<Self> {
        let settings = BusSettings {
            url: url.clone(),
            identity,
            connect_limit: CONNECT,
            ..crate::Config::default().with_secrets().bus
        };
        let registry = prometheus::Registry::new();
        let connected =
            Bus::connect(&settings, &cluster, "cli", &registry, &Health::default()).await;
        let bus = connected.map_err(|e| match e {
            BusError::Unreachable { .. } => CliError::new(
                "L0001",
                Exit::Unavailable,
                format!("no nats-server answers at {url}"),
            )
            .remedy(
                "start one with `lacuna up`, name the folder of one with LACUNA_DATA_DIR, or give --nats URL",
            ),
            other => from_bus(&other),
        })?;
        Ok(Self { bus, up_here: None })
    }

    /// Whether the nodes are on this machine, as under `lacuna up`.
    #[must_use]
    pub(crate) fn has_nodes_here(&self) -> bool {
        self.up_here.is_some()
    }

    /// The id of the cluster.
    #[must_use]
    pub fn cluster(&self) -> &ClusterId {
        self.bus.cluster()
    }

    /// The bus connection.
    #[must_use]
    pub fn bus(&self) -> &Bus {
        &self.bus
    }

    /// The NATS client below the bus.
    ///
    /// # Errors
    /// The server is simulated, so there is no NATS client.
    pub fn nats(&self) -> Result<&Nats> {
        self.bus.nats().map_err(|e| from_bus(&e))
    }

    /// Sends a request to control. A refusal is an answer here; see [`unexpected`].
    ///
    /// # Errors
    /// `L0002` when control does not answer.
    pub async fn ask(&self, request: Request) -> Result<Reply> {
        for _ in 0..PATIENCE {
            match self.ask_once(&request).await? {
                Reply::Refused { code, .. } if code == "L0026" => {
                    tokio::time::sleep(TOO_FAST).await;
                }
                reply => return Ok(reply),
            }
        }
        self.ask_once(&request).await
    }

    async fn ask_once(&self, request: &Request) -> Result<Reply> {
        let changes = matches!(
            request,
            Request::Submit { .. }
                | Request::Renew { .. }
                | Request::Cancel { .. }
                | Request::Change { .. }
        );
        let done = |text: &'static str| if changes { text } else { "" };
        match self.request(request, ANSWER).await {
            Err(BusError::NoResponders { .. }) => {
                Err(self.unanswered(None, done(": nothing was done")))
            }
            // Control may be at it, as where it waits for room.
            Err(BusError::Timeout { .. }) => {
                let why = match self.request(&Request::Controls, REASON).await {
                    Ok(Reply::Refused { code, reason }) if code == "L0002" => Some(reason),
                    _ => None,
                };
                let late = ": it may be done later, so look before you ask again";
                Err(self.unanswered(why, done(late)))
            }
            Err(other) => Err(from_bus(&other)),
            // Of a log it may be an agent that does not answer.
            Ok(Reply::Refused { code, reason })
                if code == "L0002" && !matches!(request, Request::Logs { .. }) =>
            {
                Err(self.unanswered(Some(reason), done(": nothing was done")))
            }
            Ok(reply) => Ok(reply),
        }
    }

    async fn request(
        &self,
        request: &Request,
        limit: Duration,
    ) -> std::result::Result<Reply, BusError> {
        let subject = address::requests_of(self.cluster(), self.bus.user());
        self.bus.request(&subject, request, limit).await
    }

    /// Why control has not answered, if that is known, and whether the request is done all the same.
    fn unanswered(&self, why: Option<String>, done: &str) -> CliError {
        let full = self.up_here.as_deref().filter(|dir| is_full(dir));
        let (what, remedy) = match (full, why) {
            (Some(dir), _) => (
                format!(
                    "the disk of {} is full: nats-server keeps nothing, and no service leads",
                    dir.display()
                ),
                "make room there: all goes on by itself",
            ),
            (None, Some(why)) => (
                why,
                "make room on the disk of nats-server (its log names the place): under `lacuna up` and in \
                 containers all goes on by itself, elsewhere restart nats-server",
            ),
            (None, None) => (
                format!(
                    "lacuna-control of cluster {} does not answer",
                    self.cluster()
                ),
                "check that it runs, what its /healthz says, and that nats-server's disk is not full; \
                 `lacuna up` starts it and restarts it",
            ),
        };
        CliError::new("L0002", Exit::Unavailable, what + done).remedy(remedy)
    }

    /// The newest message of a subject that a stream keeps.
    ///
    /// # Errors
    /// NATS does not answer.
    pub(crate) async fn newest<M: Message>(&self, subject: &Subject<M>) -> Result<Option<M>> {
        let found = self.bus.last(subject).await.map_err(|e| from_bus(&e))?;
        Ok(found.map(|r| r.message))
    }

    /// The messages that are published from now on.
    ///
    /// # Errors
    /// NATS does not answer.
    pub(crate) async fn listen<M: Message>(&self, subject: &Subject<M>) -> Result<Messages<M>> {
        let messages = self
            .bus
            .subscribe(subject)
            .await
            .map_err(|e| from_bus(&e))?;
        Ok(Messages(Kind::Live(messages)))
    }

    /// The newest message of a subject that a stream keeps, then all later ones.
    ///
    /// # Errors
    /// NATS does not answer.
    pub(crate) async fn follow<M: Message + Send + 'static>(
        &self,
        subject: &Subject<M>,
    ) -> Result<Messages<M>> {
        let messages = self
            .bus
            .follow_direct(subject, Start::Last)
            .await
            .map_err(|e| from_bus(&e))?;
        Ok(Messages(Kind::Kept(messages)))
    }

    /// Sends an event as an external program does, as JSON. A bare event carries its CloudEvents
    /// attributes in headers; a CloudEvent in structured mode is sent unchanged. Returns the id of
    /// the event and the pending acknowledgement.
    ///
    /// # Errors
    /// NATS does not answer.
    pub async fn send_external(&self, source: &str, event: &Value) -> Result<(String, PendingAck)> {
        let text = |name: &str| event.get(name).and_then(Value::as_str);
        let structured = text("specversion").is_some();
        let own = text("id").filter(|_| structured).map(ToOwned::to_owned);
        let id = own.unwrap_or_else(|| self.bus.new_id());
        let mut headers = vec![("content-type", "application/json")];
        if structured {
            headers = vec![("content-type", "application/cloudevents+json")];
        } else {
            headers.extend([
                ("ce-specversion", "1.0"),
                ("ce-id", id.as_str()),
                ("ce-source", source),
                ("ce-type", text("type").unwrap_or_default()),
            ]);
            headers.extend(text("time").map(|time| ("ce-time", time)));
        }
        let payload = event.to_string().into_bytes();
        let ack = self.store_external(source, &headers, payload).await?;
        Ok((id, ack))
    }

    /// Sends several external events as one message, a CloudEvents batch. The server syncs each
    /// message once, whatever its size.
    ///
    /// # Errors
    /// The connection is closed.
    pub async fn send_external_list(&self, source: &str, events: &[Value]) -> Result<PendingAck> {
        let list: Vec<Value> = events
            .iter()
            .map(|event| {
                if event.get("specversion").is_some() {
                    return event.clone();
                }
                json!({
                    "specversion": "1.0", "id": self.bus.new_id(), "source": source,
                    "type": event.get("type"), "data": event,
                })
            })
            .collect();
        let headers = [("content-type", "application/cloudevents-batch+json")];
        let payload = Value::from(list).to_string().into_bytes();
        self.store_external(source, &headers, payload).await
    }

    async fn store_external(
        &self,
        source: &str,
        headers: &[(&str, &str)],
        payload: Vec<u8>,
    ) -> Result<PendingAck> {
        let subject = address::incoming_from(self.cluster(), source);
        let sent = self.bus.store_raw(subject.as_str(), headers, payload);
        sent.await.map_err(|e| from_bus(&e))
    }

    /// Where nodes are and of which kind; empty if nothing is known of it.
    ///
    /// # Errors
    /// NATS does not answer.
    pub(crate) async fn places(&self) -> Result<TopologyState> {
        let state = self.newest(&address::topology(self.cluster())).await?;
        Ok(state.unwrap_or_default())
    }

    /// Flushes the send buffer and closes the connection.
    pub async fn close(&self) {
        self.bus.close().await;
    }
}

/// The error for an answer of the wrong kind; a refusal keeps its reason and code.
#[must_use]
pub fn unexpected(reply: Reply) -> CliError {
    match reply {
        Reply::Refused { code, reason } => CliError {
            code: crate::codes::page(&code).map(|p| p.code.to_owned()),
            message: reason,
            remedy: None,
            exit: Exit::Failed,
        },
        other => CliError::new(
            "L0013",
            Exit::Internal,
            format!("lacuna-control gave an unexpected answer: {other:?}"),
        ),
    }
}

/// The error of a closed connection.
#[must_use]
pub(crate) fn lost() -> CliError {
    CliError::new(
        "L0001",
        Exit::Unavailable,
        "the connection to nats-server has been closed",
    )
}

/// The error of an identity that cannot be loaded or proven.
fn unproven(error: &dyn std::error::Error) -> CliError {
    CliError::new("L0044", Exit::Unavailable, error.to_string())
}

/// The error of the command line for an error of the bus.
#[must_use]
pub fn from_bus(error: &BusError) -> CliError {
    match error {
        BusError::Refused { .. } | BusError::NotTrusted { .. } | BusError::Identity(_) => {
            unproven(error)
        }
        BusError::Denied { .. } => CliError::new("L0043", Exit::Failed, error.to_string()),
        BusError::Decode { .. } => CliError::new("L0013", Exit::Failed, error.to_string()),
        _ => CliError::new("L0001", Exit::Unavailable, error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_keeps_its_reason_and_its_code() {
        let error = unexpected(Reply::Refused {
            code: "L0009".into(),
            reason: "no trainer x".into(),
        });
        assert_eq!(
            (error.code.as_deref(), error.message.as_str()),
            (Some("L0009"), "no trainer x")
        );
        let unknown = unexpected(Reply::Refused {
            code: "L9999".into(),
            reason: "?".into(),
        });
        assert_eq!(unknown.code, None, "a code without a page is not shown");
    }
}
