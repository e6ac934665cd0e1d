//! Stand-ins for programs in virtual time, which real processes do not know.

use std::fmt::Debug;
use std::sync::Arc;

use futures::future::BoxFuture;
use lacuna_model::{Assignment, NodeId};
use lacuna_trainer::agent::Exit;
use tokio::sync::mpsc;

use super::LauncherEvent;
use super::run::{Order, Run};

/// A program on one node, as its stand-in gets it.
#[derive(Debug)]
pub struct Played {
    /// The node.
    pub node: NodeId,
    /// The assignment under which it was started.
    pub assignment: Assignment,
    /// Whether it is already a member of that incarnation.
    pub member: bool,
    /// Orders to it. It ends with [`Order::Leave`], and with the last sender.
    pub orders: mpsc::UnboundedReceiver<Order>,
    /// Takes its reports. The launcher says when it has ended.
    pub events: mpsc::UnboundedSender<LauncherEvent>,
}

/// Plays the programs of an agent.
pub trait StandIn: Debug + Send + Sync {
    /// Plays a program from its start to its end. Gives the exit code.
    fn play(self: Arc<Self>, program: Played) -> BoxFuture<'static, i32>;
}

impl Run {
    /// Lets a stand-in play the program.
    pub(super) async fn be_played(
        self,
        by: Arc<dyn StandIn>,
        orders: mpsc::UnboundedReceiver<Order>,
    ) {
        let program = Played {
            node: self.node.clone(),
            assignment: self.assignment.clone(),
            member: self.member,
            orders,
            events: self.events.clone(),
        };
        let code = by.play(program).await;
        let stopped = self.finish().await;
        self.ended(stopped, Exit::new(code, String::new(), None));
    }
}
