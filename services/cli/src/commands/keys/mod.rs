//! `lacuna keys`: who may speak on the bus, and proof of who nats-server is.

mod accounts;
mod files;
mod folder;
mod prepare;
mod ring;
mod tls;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;

use lacuna_model::{ClusterId, NodeId};
use lacuna_wire::access::{Holder, Role};

pub(crate) use prepare::{Prepared, prepare};

use self::folder::{Entry, KeyFolder};
use self::ring::User;
use super::ListArgs;
use crate::error::{CliError, Exit, Result};
use crate::output::{self, JsonArg};
use crate::table::{self, Side};

/// What to say after nats-server's configuration has changed.
const RELOAD: &str = "a running nats-server heeds it after `nats-server --signal reload`";

/// What to do with keys.
#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Make a folder of keys: an identity for each service and an operator, certificates, and what
    /// nats-server reads
    #[command(after_help = "\
Examples:
  lacuna keys init keys --cluster main --host bus.example.org
  lacuna keys init keys --cluster main --agent a01n01 --agent a01n02
  lacuna keys init keys --cluster a --cluster b --host bus

Makes what is missing and leaves the rest as it is; --host adds to the names that the server's
certificate holds for, and makes it anew. To drop one, name those that stay:
lacuna keys renew-tls DIR --host NAME...

Agents know true commands by control's key, which their identities name. Those of before are
written anew with it, with the keys that they have; hand them over again, and restart the agents.

--force makes all of it anew, control's key too, also authority and certificate, with the names given here alone. No
identity of before is worth anything then: who is not made anew (people, nodes, clusters that are
not named) is revoked and listed.

With --agent each node has a key of its own, which speaks for that node alone; without it all
agents share one.

In the configuration of nats-server:
  include \"keys/server/lacuna-accounts.conf\"
  tls { cert_file: \"keys/server/server.pem\", key_file: \"keys/server/server-key.pem\" }
The folder server has all that nats-server reads, and no key of anybody else. Keep the folder ca
where nobody else reads it.

A service takes its identity by --identity FILE, LACUNA_IDENTITY or [bus] identity.")]
    Init(InitArgs),
    /// Give a person, a scheduler or an agent a key
    #[command(after_help = "\
Examples:
  lacuna keys add-user keys ann --role researcher
  lacuna keys add-user keys root --role operator
  lacuna keys add-user keys slurm --role events --cluster main
  lacuna keys add-user keys agent-a01n03 --role agent --node a01n03

Prints where the identity file is: hand it over, then delete it here if you like.")]
    AddUser(AddUserArgs),
    /// Show who has a key, and until when the server's certificate holds
    #[command(after_help = "Examples:\n  lacuna keys list keys\n  lacuna keys list keys --json")]
    List(KeysListArgs),
    /// Take a key back
    #[command(after_help = "Example:\n  lacuna keys revoke keys ann")]
    Revoke(RevokeArgs),
    /// Make the server's certificate anew, by the same authority
    #[command(after_help = "\
Examples:
  lacuna keys renew-tls keys
  lacuna keys renew-tls keys --host bus.example.org --host 10.0.0.1

The certificate holds for a year. Identities stay as they are.")]
    RenewTls(RenewArgs),
}

/// Arguments of `keys init`.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// The folder
    dir: PathBuf,
    /// Name of a cluster; again for each one
    #[arg(long, value_name = "ID", required = true)]
    cluster: Vec<ClusterId>,
    /// Host name or address of nats-server, beside localhost and those of before; again for each one
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// Address that new identities name [default: that of before, else nats://HOST:4222 with the
    /// first --host]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Give the agent of this node a key of its own; again for each one
    #[arg(long, value_name = "NODE")]
    agent: Vec<NodeId>,
    /// Make all keys and certificates anew, and revoke whoever has another key
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    json: JsonArg,
}

/// Arguments of `keys add-user`.
#[derive(Debug, Args)]
pub(crate) struct AddUserArgs {
    /// The folder
    dir: PathBuf,
    /// Who: 1 to 64 of A-Z a-z 0-9 . _ -
    #[arg(value_parser = parse_name)]
    name: String,
    /// What for: researcher, operator, observer, events, agent or one of the services
    #[arg(long)]
    role: Role,
    /// In which cluster [default: the only one]
    #[arg(long, value_name = "ID")]
    cluster: Option<ClusterId>,
    /// The one node that an agent speaks for
    #[arg(long, value_name = "NODE")]
    node: Option<NodeId>,
    /// A new key in place of the one there is
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    json: JsonArg,
}

/// Arguments of `keys list`.
#[derive(Debug, Args)]
pub(crate) struct KeysListArgs {
    /// The folder
    dir: PathBuf,
    #[command(flatten)]
    list: ListArgs,
}

/// Arguments of `keys revoke`.
#[derive(Debug, Args)]
pub(crate) struct RevokeArgs {
    /// The folder
    dir: PathBuf,
    /// Whose
    name: String,
    /// In which cluster [default: the only one]
    #[arg(long, value_name = "ID")]
    cluster: Option<ClusterId>,
    #[command(flatten)]
    json: JsonArg,
}

/// Arguments of `keys renew-tls`.
#[derive(Debug, Args)]
pub(crate) struct RenewArgs {
    /// The folder
    dir: PathBuf,
    /// Host name or address, in place of those of before, beside localhost; again for each one
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    #[command(flatten)]
    json: JsonArg,
}

fn parse_name(name: &str) -> std::result::Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if (1..=64).contains(&name.len()) && name.chars().all(fits) && !name.starts_with('.') {
        return Ok(name.to_owned());
    }
    Err("expected 1 to 64 of A-Z a-z 0-9 . _ - that do not begin with a dot".to_owned())
}

/// The names for which the server's certificate holds.
fn with_local(hosts: &[String]) -> Vec<String> {
    let mut all = hosts.to_vec();
    add_hosts(&mut all, ["localhost", "127.0.0.1", "::1"]);
    all
}

/// Adds the names that are not there yet.
fn add_hosts<'a>(all: &mut Vec<String>, hosts: impl IntoIterator<Item = &'a str>) {
    for host in hosts {
        if !all.iter().any(|known| known == host) {
            all.push(host.to_owned());
        }
    }
}

/// Where nats-server is, if nothing else was said.
fn url_of(host: &str) -> String {
    if host.contains(':') {
        format!("nats://[{host}]:4222")
    } else {
        format!("nats://{host}:4222")
    }
}

/// Runs `keys`.
///
/// # Errors
/// `L0040` to `L0042`, or files cannot be written.
pub(crate) fn run(command: &KeysCommand) -> Result<()> {
    match command {
        KeysCommand::Init(args) => init(args),
        KeysCommand::AddUser(args) => add_user(args),
        KeysCommand::List(args) => list(args),
        KeysCommand::Revoke(args) => revoke(args),
        KeysCommand::RenewTls(args) => renew(args),
    }
}

fn init(args: &InitArgs) -> Result<()> {
    let mut keys = KeyFolder::open(&args.dir, true)?;
    // Named for want of a better one, it gives way to the first that is given.
    let unnamed = keys.ring.url.is_empty() || keys.ring.url == url_of("localhost");
    if keys.ring.hosts.is_empty() || args.force {
        keys.ring.hosts = with_local(&args.host);
    } else {
        let given = args.host.iter().map(String::as_str);
        add_hosts(&mut keys.ring.hosts, given);
    }
    if let Some(url) = &args.url {
        keys.ring.url.clone_from(url);
    } else if unnamed || args.force {
        keys.ring.url = url_of(args.host.first().map_or("localhost", String::as_str));
    }
    tls::ensure(&keys.dir, &keys.ring.hosts, args.force)?;
    if !args.host.is_empty() && !args.force {
        tls::renew(&keys.dir, &keys.ring.hosts)?;
    }
    let mut made = Vec::new();
    for cluster in &args.cluster {
        if ["server", "ca"].contains(&cluster.to_string().as_str()) {
            let words =
                format!("a cluster cannot be called {cluster}: that folder is the server's");
            return Err(CliError::new("L0041", Exit::Failed, words));
        }
        if !keys.ring.clusters.contains(cluster) {
            keys.ring.clusters.push(cluster.clone());
        }
        let operator = Holder {
            user: Role::Operator.to_string(),
            role: Role::Operator,
            node: None,
        };
        for holder in services(&args.agent).iter().chain([&operator]) {
            made.push(keys.add(cluster, holder, args.force)?);
        }
    }
    let remade = |user: &User| {
        let same = |e: &Entry| e.user == user.name && e.cluster == user.cluster.to_string();
        made.iter().any(same)
    };
    let revoked = keys.revoke(|user| args.force && !remade(user));
    keys.save()?;
    revoked.iter().try_for_each(|user| keys.forget(user))?;
    tell(&keys, &made, &revoked, args.json)
}

/// The users of a cluster's own services.
fn services(nodes: &[NodeId]) -> Vec<Holder> {
    let service = |role: Role| Holder {
        user: role.to_string(),
        role,
        node: None,
    };
    let agent = |node: &NodeId| Holder {
        user: format!("agent-{node}"),
        role: Role::Agent,
        node: Some(node.clone()),
    };
    let shared = |role: &Role| *role != Role::Agent || nodes.is_empty();
    let all = Role::SERVICES.into_iter().filter(shared).map(service);
    all.chain(nodes.iter().map(agent)).collect()
}

fn tell(keys: &KeyFolder, made: &[Entry], revoked: &[User], json: JsonArg) -> Result<()> {
    let accounts = keys.dir.join(accounts::SERVER).join(accounts::FILE);
    if json.json {
        return output::print_json(&json!({
            "dir": keys.dir,
            "accounts": accounts,
            "url": keys.ring.url,
            "identities": made,
            "revoked": revoked,
            "stale": keys.stale,
        }));
    }
    let mut text = String::new();
    for entry in made {
        let what = if entry.new { "new " } else { "kept" };
        text.push_str(&format!(
            "{what}  {}  {} of cluster {}\n",
            entry.file.display(),
            entry.role,
            entry.cluster
        ));
    }
    for user in revoked {
        text.push_str(&format!(
            "revoked  {}  {} of cluster {}\n",
            user.name, user.role, user.cluster
        ));
    }
    for path in &keys.stale {
        text.push_str(&format!(
            "stale  {}  is not here, and does not name control's key as it is now: bring it back and \
             run this again, or make a new one with --force\n",
            path.display()
        ));
    }
    text.push_str(&format!("accounts in {}; {RELOAD}", accounts.display()));
    output::print(&text)
}

/// The cluster that is meant.
fn cluster(keys: &KeyFolder, named: Option<&ClusterId>) -> Result<ClusterId> {
    let known = &keys.ring.clusters;
    let found = match (named, known.as_slice()) {
        (Some(named), _) => known.iter().find(|c| *c == named),
        (None, [only]) => Some(only),
        (None, _) => None,
    };
    found.cloned().ok_or_else(|| {
        let names: Vec<String> = known.iter().map(ToString::to_string).collect();
        CliError::new(
            "L0040",
            Exit::Failed,
            match named {
                Some(named) => format!("{} has no cluster {named}", keys.dir.display()),
                None => "which cluster?".to_owned(),
            },
        )
        .remedy(format!("give --cluster, one of: {}", names.join(", ")))
    })
}

fn add_user(args: &AddUserArgs) -> Result<()> {
    if args.node.is_some() && args.role != Role::Agent {
        return Err(CliError::new(
            "L0041",
            Exit::Failed,
            format!("--node is for agents, not for a {}", args.role),
        ));
    }
    let mut keys = KeyFolder::open(&args.dir, false)?;
    let cluster = cluster(&keys, args.cluster.as_ref())?;
    let holder = Holder {
        user: args.name.clone(),
        role: args.role,
        node: args.node.clone(),
    };
    let entry = keys.add(&cluster, &holder, args.force)?;
    keys.save()?;
    tell(&keys, &[entry], &[], args.json)
}

fn list(args: &KeysListArgs) -> Result<()> {
    let keys = KeyFolder::open(&args.dir, false)?;
    let until = tls::until(&keys.dir);
    if args.list.json() {
        let mut value = json!(keys.ring);
        if let Some(fields) = value.as_object_mut() {
            fields.insert("certificate_until".to_owned(), json!(until));
        }
        return output::print_json(&value);
    }
    let columns = [
        ("CLUSTER", Side::Left),
        ("USER", Side::Left),
        ("ROLE", Side::Left),
        ("NODE", Side::Left),
        ("KEY", Side::Left),
        ("SINCE", Side::Left),
        ("REVOKED", Side::Left),
    ];
    let row = |user: &User| {
        let node = user
            .node
            .as_ref()
            .map_or_else(|| "-".into(), ToString::to_string);
        vec![
            user.cluster.to_string(),
            user.name.clone(),
            user.role.to_string(),
            node,
            user.key.clone(),
            user.created.clone(),
            user.revoked.clone().unwrap_or_else(|| "-".to_owned()),
        ]
    };
    let rows: Vec<Vec<String>> = keys.ring.users.iter().map(row).collect();
    output::print(&match (args.list.style(), until) {
        (super::Style::Table, Some(until)) => format!(
            "{}\nthe server's certificate holds until {until}; before: lacuna keys renew-tls {}",
            table::render(&columns, &rows),
            args.dir.display()
        ),
        (super::Style::Table, None) => table::render(&columns, &rows),
        (super::Style::Parsable, _) => table::parsable(&columns, &rows),
    })
}

fn revoke(args: &RevokeArgs) -> Result<()> {
    let mut keys = KeyFolder::open(&args.dir, false)?;
    let cluster = cluster(&keys, args.cluster.as_ref())?;
    let revoked = keys.revoke(|user| user.cluster == cluster && user.name == args.name);
    let user = revoked.first().ok_or_else(|| {
        CliError::new(
            "L0040",
            Exit::Failed,
            format!("{} has no key in cluster {cluster}", args.name),
        )
        .remedy(format!("see: lacuna keys list {}", args.dir.display()))
    })?;
    keys.save()?;
    keys.forget(user)?;
    let key = &user.key;
    if args.json.json {
        return output::print_json(&json!({ "user": args.name, "key": key, "revoked": true }));
    }
    output::print(&format!("{} ({key}) is revoked; {RELOAD}", args.name))
}

fn renew(args: &RenewArgs) -> Result<()> {
    let mut keys = KeyFolder::open(&args.dir, false)?;
    if !args.host.is_empty() {
        keys.ring.hosts = with_local(&args.host);
    }
    tls::renew(&keys.dir, &keys.ring.hosts)?;
    keys.save()?;
    if args.json.json {
        return output::print_json(&json!({ "hosts": keys.ring.hosts }));
    }
    output::print(&format!(
        "a certificate for {}; {RELOAD}",
        keys.ring.hosts.join(", ")
    ))
}

#[cfg(test)]
mod tests;
