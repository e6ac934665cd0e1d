//! Starts, watches and stops training on a node, and gives the node back, on its own if necessary.

use std::process::ExitCode;

fn main() -> ExitCode {
    // The guard between the agent and a program is this program too.
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next().unwrap_or_default();
    if first == lacuna_agent_service::GUARD {
        return lacuna_agent_service::guard(arguments);
    }
    if first == lacuna_agent_service::OWNER {
        return lacuna_agent_service::become_owner(arguments);
    }
    if first == lacuna_agent_service::REMOVE {
        return lacuna_agent_service::remove_folder(arguments);
    }
    lacuna_runtime::service_main("agent", lacuna_agent_service::run_alone)
}
