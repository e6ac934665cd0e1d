//! Requests while nats-server keeps nothing, as where its disk is full.
//!
//! No leadership holds then, so no control answers (`bus::gate`). The instance that led, or one that
//! waits for the leadership, says why. A refused request is not done later.

use lacuna_wire::address;
use lacuna_wire::msg::{Reply, Request};
use tokio::sync::mpsc;

use crate::bus::{Bus, BusError, Received, Subscription};
use crate::task;

/// The code of the answer: a service does not answer.
const CODE: &str = "L0002";

/// Requests to the instance that leads, in their order.
#[derive(Debug)]
pub struct Requests(mpsc::Receiver<Result<Received<Request>, BusError>>);

impl Requests {
    /// The next request. Safe to drop in `select!`.
    ///
    /// # Errors
    /// The subscription has ended.
    pub async fn next(&mut self) -> Result<Received<Request>, BusError> {
        let ended = || BusError::Closed {
            subject: "requests".to_owned(),
        };
        self.0.recv().await.ok_or_else(ended)?
    }
}

impl Bus {
    /// Requests of users and operators. While nats-server keeps nothing, those that wait are refused with
    /// the reason.
    ///
    /// # Errors
    /// The subscription is not made.
    pub async fn requests(&self) -> Result<Requests, BusError> {
        let asked = self.subscribe(&address::requests(self.cluster())).await?;
        // A request that waits here may still be done, so there is one at most.
        let (into, taken) = mpsc::channel(1);
        task::spawn(deliver(self.clone(), asked, into));
        Ok(Requests(taken))
    }
}

async fn deliver(
    bus: Bus,
    mut asked: Subscription<Request>,
    into: mpsc::Sender<Result<Received<Request>, BusError>>,
) {
    let mut unled = bus.unled();
    while !into.is_closed() {
        if unled.borrow_and_update().is_some() {
            if refuse(&bus, &mut asked).await.is_err() {
                return;
            }
            continue;
        }
        let place = tokio::select! {
            biased;
            _ = unled.changed() => continue,
            place = into.reserve() => place,
        };
        let Ok(place) = place else {
            return;
        };
        let request = tokio::select! {
            biased;
            _ = unled.changed() => continue,
            () = into.closed() => return,
            request = asked.next() => request,
        };
        // What is taken while this process may not write is not answered.
        let why = match &request {
            Ok(_) => tokio::select! {
                biased;
                _ = bus.writes_again() => None,
                why = unled.wait_for(Option::is_some) => why.ok().and_then(|why| why.clone()),
            },
            Err(_) => None,
        };
        match (request, why) {
            (Ok(request), Some(why)) => refuse_one(&bus, &request, &why).await,
            (request, _) => place.send(request),
        }
    }
}

/// Refuses all requests of a cluster while nats-server keeps nothing, in an instance that does not lead.
/// At other times it subscribes to none, so that requesters hear at once that no control leads.
pub(crate) async fn answer(bus: &Bus) {
    let mut unled = bus.unled();
    while unled.wait_for(Option::is_some).await.is_ok() {
        let asked = bus.subscribe(&address::requests(bus.cluster())).await;
        let Ok(mut asked) = asked else {
            break;
        };
        if refuse(bus, &mut asked).await.is_err() {
            break;
        }
    }
    std::future::pending().await
}

/// Refuses requests until nats-server keeps messages again.
async fn refuse(bus: &Bus, asked: &mut Subscription<Request>) -> Result<(), BusError> {
    let mut unled = bus.unled();
    loop {
        let Some(why) = unled.borrow_and_update().clone() else {
            return Ok(());
        };
        let request = tokio::select! {
            biased;
            _ = unled.changed() => continue,
            request = asked.next() => request?,
        };
        refuse_one(bus, &request, &why).await;
    }
}

async fn refuse_one(bus: &Bus, request: &Received<Request>, why: &str) {
    let reply = Reply::Refused {
        code: CODE.to_owned(),
        reason: format!(
            "nats-server keeps nothing, so no lacuna-control leads: {why}: its disk may be full"
        ),
    };
    if let Err(error) = bus.respond_as_standby(request, &reply).await {
        tracing::debug!(%error, "a request is not answered");
    }
}
