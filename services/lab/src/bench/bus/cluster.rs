//! The cluster under test, with the nodes that the measurements use.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use lacuna_cli::client::{Client, from_bus, unexpected};
use lacuna_cli::error::{CliError, Exit, Result};
use lacuna_model::NodeId;
use lacuna_runtime::clock::Stopwatch;
use lacuna_wire::msg::{Reply, Request};

/// The most events of one message while the nodes are filled.
const TOGETHER: usize = 1000;

/// The cluster under test.
pub(crate) struct TestCluster {
    /// The client of its bus.
    pub(crate) client: Client,
    /// The nodes in training.
    pub(crate) nodes: Vec<NodeId>,
    /// The nodes that come and go.
    pub(crate) spare: Vec<NodeId>,
    /// Addresses of /metrics, by service.
    pub(crate) http: BTreeMap<String, String>,
    /// The folder of up.json.
    pub(crate) data_dir: PathBuf,
}

/// An event of this type on a node, as JSON.
#[must_use]
pub(crate) fn event(kind: &str, node: &NodeId) -> serde_json::Value {
    serde_json::json!({ "type": kind, "node": node.as_str() })
}

impl TestCluster {
    /// Publishes events and waits for all acknowledgements.
    ///
    /// # Errors
    /// NATS does not answer.
    pub(crate) async fn publish_all(
        &self,
        events: impl Iterator<Item = serde_json::Value>,
    ) -> Result<()> {
        let mut events = events.peekable();
        while events.peek().is_some() {
            let together: Vec<_> = events.by_ref().take(TOGETHER).collect();
            let sent = self.client.send_external_list("bench", &together).await?;
            sent.wait().await.map_err(|e| from_bus(&e))?;
        }
        Ok(())
    }

    /// Waits until control has this many nodes in the pool and under leases.
    ///
    /// # Errors
    /// The numbers are not reached in time: half a minute, and longer with many nodes.
    pub(crate) async fn settle(&self, pool: u32, leased: u32) -> Result<()> {
        let watch = Stopwatch::start();
        let limit_s = 30.0 + f64::from(leased) / 50.0;
        loop {
            let totals = match self.client.ask(Request::Totals).await {
                Ok(Reply::Totals(totals)) => totals,
                Ok(other) => return Err(unexpected(other)),
                // Control may be too busy to answer while thousands of nodes come at once.
                Err(busy) if busy.code.as_deref() == Some("L0002") && watch.seconds() < limit_s => {
                    continue;
                }
                Err(other) => return Err(other),
            };
            if totals.pool_nodes == pool && totals.leased_nodes == leased {
                return Ok(());
            }
            if watch.seconds() > limit_s {
                return Err(CliError::new(
                    "L0002",
                    Exit::Failed,
                    format!(
                        "after {limit_s:.0} s there are {} nodes in the pool and {} leased: expected {pool} and {leased}",
                        totals.pool_nodes, totals.leased_nodes
                    ),
                ));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}
