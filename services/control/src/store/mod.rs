//! The store in which the members of a trainer meet: `[control] store`.
//!
//! Control speaks the protocol of PyTorch's `TCPStore` itself, so the machine of control needs no
//! PyTorch and no further process, members of any version share one store, and every training node
//! is expendable: a store that a member keeps would end with its node. The store ends with control
//! and forgets everything. Groups train on, and members of `regroup` that are about to meet set their
//! keys again. So do those of `torchrun`, by a rendezvous of ours that the agent puts in front of it
//! (`services/agent/src/launcher/front.rs`): PyTorch's own asks the store all the time, ends without
//! it, and unpickles what lies there.
//!
//! Who reaches its port needs a token. Control makes one for each incarnation, of a secret that the
//! bus keeps, so a group keeps its token when control starts again. Commands carry it. A key shows
//! it in front: `regroup` by a `PrefixStore`, `torchrun` by the id of its rendezvous. So the
//! protocol stays PyTorch's.
//!
//! It runs on a thread of its own: members that poll it take no time from control's loop.

mod keys;
mod protocol;
mod serve;

use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;

use lacuna_model::{Action, Members, RunId, Token, TrainerId, TrainerSpec};
use lacuna_runtime::{Misconfigured, ServiceError, task, virtual_time};
use lacuna_wire::address;
use lacuna_wire::msg::StoreSecret;
use prometheus::IntCounter;
use ring::hmac;
use ring::rand::SystemRandom;

use self::serve::{STILL, Shared};
use crate::access::Denied;
use crate::sections::Context;

/// The open store, for control.
#[derive(Debug)]
pub(crate) struct Store {
    shared: Arc<Shared>,
    tokens: Tokens,
}

impl Store {
    /// The members of an incarnation may meet; those of the one before soon no more.
    pub(crate) fn begin(&self, members: &Members) {
        let is_there = !members.nodes.is_empty();
        let token = is_there.then(|| self.tokens.of(&members.trainer, members.run));
        self.shared.begin(&members.trainer, token.as_ref());
    }

    /// Gives a command the token of its incarnation.
    pub(crate) fn admit(&self, action: &mut Action) {
        if let Action::Run(part) = action {
            part.token = Some(self.tokens.of(&part.trainer, part.run));
        }
    }
}

/// Makes tokens.
#[derive(Debug)]
struct Tokens(hmac::Key);

impl Tokens {
    fn new(secret: &str) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()))
    }

    fn of(&self, trainer: &TrainerId, run: RunId) -> Token {
        // The number comes first, so no two incarnations have the same text.
        let text = format!("{} {trainer}", run.0);
        let tag = hmac::sign(&self.0, text.as_bytes());
        let digits = tag.as_ref().first_chunk().copied().unwrap_or_default();
        Token::new(u128::from_be_bytes(digits))
    }
}

/// Opens the store, if one is configured. `refused` counts connections that it closes. The context
/// that is returned names the port that the system chose for port 0.
///
/// # Errors
/// [`Misconfigured`] if the address cannot be used, with the remedy; else if the secret can be
/// neither read nor kept.
pub(crate) async fn start(
    ctx: Context,
    refused: IntCounter,
) -> Result<(Context, Option<Store>), ServiceError> {
    let Some(named) = ctx.config.control.store.clone() else {
        return Ok((ctx, None));
    };
    if virtual_time::is_on() {
        return Ok((ctx, None));
    }
    let (listener, address) = task::blocking(move || listen(&named)).await??;
    let store = Store {
        shared: Arc::new(Shared::new(refused)),
        tokens: Tokens::new(&secret(&ctx).await?),
    };
    let alive = ctx.health.check("store", Some(STILL));
    let shared = Arc::clone(&store.shared);
    serve::run(
        listener,
        shared,
        (serve::places()?, alive),
        ctx.shutdown.clone(),
    )?;
    tracing::info!(address, "store of members");
    let mut config = (*ctx.config).clone();
    config.control.store = Some(address);
    let ctx = Context {
        config: Arc::new(config),
        ..ctx
    };
    Ok((ctx, Some(store)))
}

/// The secret that the bus keeps, else a new one. Members keep their tokens when control starts
/// again. It is kept at every start, so that it is kept again by a server that has lost it.
async fn secret(ctx: &Context) -> Result<String, ServiceError> {
    let subject = address::store_secret(&ctx.cluster);
    let secret = match ctx.bus.last(&subject).await? {
        Some(kept) => kept.message.secret,
        None => {
            let bytes = ring::rand::generate::<[u8; 32]>(&SystemRandom::new());
            let bytes = bytes.map_err(|_| "the system gives no random numbers")?;
            let bytes = bytes.expose();
            bytes.iter().map(|byte| format!("{byte:02x}")).collect()
        }
    };
    let kept = StoreSecret {
        secret: secret.clone(),
    };
    ctx.bus.store(&subject, &kept, "").await?;
    Ok(secret)
}

/// Listens for members. Returns the address that they are told.
fn listen(named: &str) -> Result<(TcpListener, String), Misconfigured> {
    let wrong = |problem: &dyn Display, remedy: &str| {
        Misconfigured(format!("control.store is \"{named}\": {problem}: {remedy}"))
    };
    let found = named.rsplit_once(':');
    let (host, port) = found
        .and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)))
        .ok_or_else(|| wrong(&"no port", "write it as \"host:29400\""))?;
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let bound = match bare.parse::<IpAddr>() {
        Ok(ip) => TcpListener::bind((ip, port)),
        Err(_) if host == "localhost" => TcpListener::bind((host, port)),
        // A machine may know its own name as a loopback address.
        Err(_) => TcpListener::bind(
            [
                SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)),
                SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)),
            ]
            .as_slice(),
        ),
    };
    let remedy = "name an address of this machine, and a port that no other program has";
    let listener = bound.map_err(|error| wrong(&error, remedy))?;
    let at = listener
        .local_addr()
        .map_err(|error| wrong(&error, remedy))?;
    Ok((listener, format!("{host}:{}", at.port())))
}

/// Refuses trainers whose members could not meet.
pub(crate) fn admits(store: Option<&str>, trainers: &[TrainerSpec]) -> Result<(), Denied> {
    let meets = |spec: &&TrainerSpec| {
        let launch = &spec.launch;
        let loads = spec.kinds.loaders().is_some();
        let has_peers = spec.max_nodes > 1 || launch.workers_per_node() > 1 || loads;
        launch.by_torchrun() || (launch.regroups() && has_peers)
    };
    match trainers.iter().find(meets) {
        Some(spec) if store.is_none() => Err(Denied {
            code: "L0007",
            reason: format!(
                "trainer {}: its members cannot meet, since control keeps no store: an operator \
                 sets [control] store = \"host:29400\", with a name of control's machine that \
                 nodes know (`lacuna up` does so by itself)",
                spec.id
            ),
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use lacuna_model::Elastic;

    use super::*;

    fn spec(nodes: u32, elastic: Elastic) -> TrainerSpec {
        TrainerSpec {
            launch: lacuna_testkit::launch(elastic),
            ..lacuna_testkit::spec("a", nodes)
        }
    }

    #[test]
    fn a_token_is_of_one_secret_trainer_and_incarnation() {
        let id = |name| TrainerId::new(name).unwrap();
        let (one, other) = (Tokens::new("one"), Tokens::new("other"));
        let token = one.of(&id("a"), RunId(11));
        assert_eq!(Tokens::new("one").of(&id("a"), RunId(11)), token);
        for another in [
            one.of(&id("a"), RunId(1)),
            one.of(&id("1-a"), RunId(1)),
            one.of(&id("b"), RunId(11)),
            other.of(&id("a"), RunId(11)),
        ] {
            assert_ne!(another, token);
        }
    }

    #[test]
    fn trainers_whose_members_meet_need_a_store() {
        let torchrun = Elastic::Torchrun {
            workers_per_node: 1,
        };
        let two_workers = Elastic::Regroup {
            workers_per_node: 2,
        };
        for (nodes, elastic, needs) in [
            (4, Elastic::Restart, false),
            (1, Elastic::REGROUP, false),
            (2, Elastic::REGROUP, true),
            (1, two_workers, true),
            (1, torchrun, true),
        ] {
            let specs = [spec(1, Elastic::Restart), spec(nodes, elastic)];
            assert!(admits(Some("h:1"), &specs).is_ok());
            let refused = admits(None, &specs).err();
            assert_eq!(refused.is_some(), needs, "{nodes} {elastic:?}");
            if let Some(Denied { code, reason }) = refused {
                assert_eq!(code, "L0007");
                assert!(reason.contains("[control] store = "), "{reason}");
            }
        }
        assert!(admits(None, &[lacuna_testkit::spec("a", 4)]).is_ok());
    }

    #[test]
    fn members_are_told_the_chosen_port_and_a_taken_one_is_refused() {
        let (held, told) = listen("127.0.0.1:0").unwrap();
        let port = held.local_addr().unwrap().port();
        assert_eq!(told, format!("127.0.0.1:{port}"));
        // `lacuna up` tries again if it reads this.
        let error = listen(&told).unwrap_err().to_string();
        assert!(error.contains("Address already in use"), "{error}");
        assert!(error.contains(&told) && error.contains("no other program"));
        let (all, told) = listen("a-name.example:0").unwrap();
        assert!(all.local_addr().unwrap().ip().is_unspecified());
        assert!(told.starts_with("a-name.example:") && !told.ends_with(":0"));
        let error = listen("host").unwrap_err().to_string();
        assert!(error.contains("host:29400"), "{error}");
    }
}
