//! The answer to requests while nats-server keeps nothing, as where its disk is full.
//!
//! No leadership can be taken then, so no control would answer. An instance that waits for the leadership
//! says why. One that leads on when the server stops keeping answers nothing (`bus::gate`).

use lacuna_wire::address;
use lacuna_wire::msg::Reply;
use tokio::sync::watch;

use crate::bus::Bus;

/// The code of the answer: a service does not answer.
const CODE: &str = "L0002";

/// Answers every request while there is a reason, until it is dropped. Without one nothing is subscribed
/// to, so that requesters hear at once that no control leads.
pub(crate) async fn answer(bus: &Bus, mut reason: watch::Receiver<Option<String>>) {
    let requests = address::requests(bus.cluster());
    while reason.wait_for(Option::is_some).await.is_ok() {
        let Ok(mut asked) = bus.subscribe(&requests).await else {
            break;
        };
        loop {
            let request = tokio::select! {
                biased;
                ended = reason.wait_for(Option::is_none) => {
                    if ended.is_err() {
                        return;
                    }
                    break;
                }
                request = asked.next() => request,
            };
            let (Ok(request), Some(why)) = (request, reason.borrow().clone()) else {
                break;
            };
            let reply = Reply::Refused {
                code: CODE.to_owned(),
                reason: format!(
                    "nats-server keeps nothing, so no lacuna-control leads: {why}: its disk may be full"
                ),
            };
            if let Err(error) = bus.respond_as_standby(&request, &reply).await {
                tracing::debug!(%error, "a request is not answered");
            }
        }
    }
    std::future::pending().await
}
