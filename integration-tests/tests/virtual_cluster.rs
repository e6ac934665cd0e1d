//! The services of a cluster in virtual time: simulated processes around a simulated server.

use std::sync::Arc;
use std::time::Duration;

use lacuna_agent_service::StandIn;
use lacuna_cli::Config;
use lacuna_runtime::virtual_time::Host;
use lacuna_runtime::{Bus, NoArgs, SimulatedServer, simulate};
use lacuna_wire::address;
use lacuna_wire::msg::{Reply, Request};

/// Runs a service on a host, until it ends or the host is killed. `programs` plays those of an agent.
pub(crate) fn start(
    host: &Host,
    service: &'static str,
    server: &SimulatedServer,
    config: &Config,
    programs: Option<Arc<dyn StandIn>>,
) {
    if let ("agent", Some(programs)) = (service, programs) {
        let args = lacuna_agent_service::AgentArgs::default();
        let run = |ctx| lacuna_agent_service::run_with(ctx, args, programs);
        simulate(host, service, server, config, run);
        return;
    }
    match service {
        "ingest" => simulate(host, service, server, config, |ctx| {
            lacuna_ingest_service::run(ctx, NoArgs {})
        }),
        "forecast" => simulate(host, service, server, config, |ctx| {
            lacuna_forecast_service::run(ctx, NoArgs {})
        }),
        "planner" => simulate(host, service, server, config, |ctx| {
            lacuna_planner_service::run(ctx, NoArgs {})
        }),
        "control" => simulate(host, service, server, config, |ctx| {
            lacuna_control_service::run(ctx, NoArgs {})
        }),
        "agent" => simulate(host, service, server, config, |ctx| {
            lacuna_agent_service::run(ctx, lacuna_agent_service::AgentArgs::default())
        }),
        _ => panic!("no service is named {service}"),
    }
}

/// A connection of the test to the simulated server.
pub(crate) async fn connect(server: &SimulatedServer, config: &Config) -> Bus {
    let bus = Bus::simulated_client(server, &config.cluster.id, "test").await;
    bus.unwrap()
}

/// The answer of control to a request, once it answers.
pub(crate) async fn ask(bus: &Bus, request: &Request) -> Reply {
    let subject = address::requests_of(bus.cluster(), "tester");
    loop {
        let reply = bus.request::<Request, Reply>(&subject, request, Duration::from_secs(2));
        match reply.await {
            // No control leads, since nothing is kept.
            Ok(Reply::Refused { code, .. }) if code == "L0002" => {
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            Ok(reply) => return reply,
            Err(_) => tokio::time::sleep(Duration::from_millis(500)).await,
        }
    }
}
