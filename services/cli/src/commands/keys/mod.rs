//! `lacuna keys`: keys of the users of the bus, and certificates of nats-server.

mod accounts;
mod files;
mod folder;
mod prepare;
mod ring;
mod tls;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;

use lacuna_model::{ClusterId, NodeId, Span, Timestamp};
use lacuna_runtime::clock::wall;
use lacuna_wire::access::{Holder, Role};

pub(crate) use prepare::{Prepared, prepare};

use self::folder::{Entry, KeyFolder};
use self::ring::User;
use super::ListArgs;
use super::selector::expand;
use crate::error::{CliError, Exit, Result};
use crate::output::{self, JsonArg};
use crate::table::{self, Side};

/// The advice after a change of nats-server's configuration.
const RELOAD: &str = "a running nats-server applies it after `nats-server --signal reload`";

/// The actions on keys.
#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Make a folder of keys: identities for each service and an operator, certificates, and files
    /// for nats-server
    #[command(after_help = "\
Examples:
  lacuna keys init keys --cluster main --host bus.example.org
  lacuna keys init keys --cluster main --agent 'a01n[01-18]'
  lacuna keys init keys --cluster a --cluster b --host bus
  lacuna keys init keys --force

Makes missing files and leaves existing ones unchanged. Without --cluster it goes through all
clusters that the folder has. --host adds names to the server's
certificate and renews it. To remove a name, list those that stay:
lacuna keys renew-tls DIR --host NAME...

Agents verify commands by control's key, which their identities name. If that key changes, the
identities of agents are written again with their own keys; hand them over again, and restart the
agents.

--force makes all keys and certificates again, also control's key and the authority. Earlier
identities are then worthless: users whose keys are not made again (people, nodes, clusters that
--cluster leaves out) are revoked and listed. A --host given with it replaces all earlier ones.

With --agent each node has its own key, which speaks for that node alone; without it all agents
share one key.

In the configuration of nats-server:
  include \"keys/server/lacuna-accounts.conf\"
  tls { cert_file: \"keys/server/server.pem\", key_file: \"keys/server/server-key.pem\" }
The folder server has all files that nats-server reads, and no private key of a user. Keep the
folder ca where no other user can read it.

A service takes its identity by --identity FILE, LACUNA_IDENTITY or [bus] identity.")]
    Init(InitArgs),
    /// Give a person, a scheduler or an agent a key
    #[command(after_help = "\
Examples:
  lacuna keys add-user keys ann --role researcher
  lacuna keys add-user keys root --role operator
  lacuna keys add-user keys slurm --role events --cluster main
  lacuna keys add-user keys agent-a01n03 --role agent --node a01n03
  lacuna keys add-user keys bob --role researcher --valid 400d

Prints the path of the identity file: hand the file over, then delete it here if you like.")]
    AddUser(AddUserArgs),
    /// List users with their keys, and the end of the server's certificate
    #[command(after_help = "Examples:\n  lacuna keys list keys\n  lacuna keys list keys --json")]
    List(KeysListArgs),
    /// Revoke a key, or all keys whose time is over
    #[command(
        after_help = "Examples:\n  lacuna keys revoke keys ann\n  lacuna keys revoke keys --ended\n\n\
        nats-server knows no end of a key: run --ended every day, and reload nats-server after it."
    )]
    Revoke(RevokeArgs),
    /// Renew the server's certificate, signed by the same authority
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
    /// The folder of keys
    dir: PathBuf,
    /// Name of a cluster; may be repeated [default: those of the folder]
    #[arg(long, value_name = "ID")]
    cluster: Vec<ClusterId>,
    /// Host name or address of nats-server, beside localhost and earlier ones; may be repeated
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// Address in new identities [default: the earlier one, else nats://HOST:4222 with the first
    /// --host]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Give the agents of these nodes, names or ranges, their own keys; may be repeated
    #[arg(long, value_name = "NODES")]
    agent: Vec<String>,
    /// Make all keys and certificates again, and revoke all other keys
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    json: JsonArg,
}

/// Arguments of `keys add-user`.
#[derive(Debug, Args)]
pub(crate) struct AddUserArgs {
    /// The folder of keys
    dir: PathBuf,
    /// Name of the user: 1 to 64 of A-Z a-z 0-9 . _ -
    #[arg(value_parser = parse_name)]
    name: String,
    /// Role: researcher, operator, observer, events, agent or one of the services
    #[arg(long)]
    role: Role,
    /// Name of the cluster [default: the only one]
    #[arg(long, value_name = "ID")]
    cluster: Option<ClusterId>,
    /// The one node that an agent speaks for
    #[arg(long, value_name = "NODE")]
    node: Option<NodeId>,
    /// How long a new key holds, as in 400d [default: without an end]
    #[arg(long, value_name = "TIME", value_parser = output::parse_span)]
    valid: Option<Span>,
    /// Replace an existing key by a new one
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    json: JsonArg,
}

/// Arguments of `keys list`.
#[derive(Debug, Args)]
pub(crate) struct KeysListArgs {
    /// The folder of keys
    dir: PathBuf,
    #[command(flatten)]
    list: ListArgs,
}

/// Arguments of `keys revoke`.
#[derive(Debug, Args)]
pub(crate) struct RevokeArgs {
    /// The folder of keys
    dir: PathBuf,
    /// Name of the user
    #[arg(required_unless_present = "ended")]
    name: Option<String>,
    /// Revoke all keys whose time is over
    #[arg(long, conflicts_with_all = ["name", "cluster"])]
    ended: bool,
    /// Name of the cluster [default: the only one]
    #[arg(long, value_name = "ID")]
    cluster: Option<ClusterId>,
    #[command(flatten)]
    json: JsonArg,
}

/// Arguments of `keys renew-tls`.
#[derive(Debug, Args)]
pub(crate) struct RenewArgs {
    /// The folder of keys
    dir: PathBuf,
    /// Host name or address, instead of earlier ones, beside localhost; may be repeated
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

/// The host names of the server's certificate, local ones included.
fn with_local(hosts: &[String]) -> Vec<String> {
    let mut all = hosts.to_vec();
    add_hosts(&mut all, ["localhost", "127.0.0.1", "::1"]);
    all
}

/// Adds the names that the list does not have yet.
fn add_hosts<'a>(all: &mut Vec<String>, hosts: impl IntoIterator<Item = &'a str>) {
    for host in hosts {
        if !all.iter().any(|known| known == host) {
            all.push(host.to_owned());
        }
    }
}

/// The default address of nats-server on a host.
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
    let refused = |words: String| CliError::new("L0041", Exit::Failed, words);
    let agents = expand(&args.agent).map_err(refused)?;
    let mut keys = KeyFolder::open(&args.dir, !args.cluster.is_empty())?;
    let clusters = match args.cluster.as_slice() {
        [] => keys.ring.clusters.clone(),
        named => named.to_vec(),
    };
    // A default address is replaced by the first given host.
    let unnamed = keys.ring.url.is_empty() || keys.ring.url == url_of("localhost");
    let replaces = args.force && !args.host.is_empty();
    if keys.ring.hosts.is_empty() || replaces {
        keys.ring.hosts = with_local(&args.host);
    } else {
        let given = args.host.iter().map(String::as_str);
        add_hosts(&mut keys.ring.hosts, given);
    }
    if let Some(url) = &args.url {
        keys.ring.url.clone_from(url);
    } else if unnamed || replaces {
        keys.ring.url = url_of(args.host.first().map_or("localhost", String::as_str));
    }
    tls::ensure(&keys.dir, &keys.ring.hosts, args.force)?;
    if !args.host.is_empty() && !args.force {
        tls::renew(&keys.dir, &keys.ring.hosts)?;
    }
    let mut made = Vec::new();
    for cluster in &clusters {
        if ["server", "ca"].contains(&cluster.to_string().as_str()) {
            let words =
                format!("a cluster cannot be called {cluster}: that folder is used for the server");
            return Err(refused(words));
        }
        if !keys.ring.clusters.contains(cluster) {
            keys.ring.clusters.push(cluster.clone());
        }
        let operator = Holder {
            user: Role::Operator.to_string(),
            role: Role::Operator,
            node: None,
        };
        for holder in services(&agents).iter().chain([&operator]) {
            made.push(keys.add(cluster, holder, args.force, None)?);
        }
    }
    let remade = |user: &User| {
        let same = |e: &Entry| e.user == user.name && e.cluster == user.cluster.to_string();
        made.iter().any(same)
    };
    let revoked = keys.revoke(|user| args.force && !remade(user));
    keys.save()?;
    revoked.iter().try_for_each(|user| keys.forget(user))?;
    print_keys(&keys, &made, &revoked, args.json)
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

fn print_keys(keys: &KeyFolder, made: &[Entry], revoked: &[User], json: JsonArg) -> Result<()> {
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
            "{what}  {}  {} of cluster {}{}\n",
            entry.file.display(),
            entry.role,
            entry.cluster,
            entry
                .until
                .as_ref()
                .map_or_else(String::new, |until| format!(", until {until}"))
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
            "stale  {}  is not here, and does not name control's present key: bring the file back and \
             run this again, or make a new one with --force\n",
            path.display()
        ));
    }
    text.push_str(&format!("accounts in {}; {RELOAD}", accounts.display()));
    output::print(&text)
}

/// The cluster that the arguments select.
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
    let until = args.valid.map(until).transpose()?;
    let entry = keys.add(&cluster, &holder, args.force, until)?;
    keys.save()?;
    print_keys(&keys, &[entry], &[], args.json)
}

/// The end of a key that holds for a time from now on.
fn until(valid: Span) -> Result<Timestamp> {
    if valid <= Span::ZERO {
        let said = format!("--valid {valid}: a key holds for some time");
        return Err(CliError::new("L0041", Exit::Failed, said));
    }
    Ok(wall() + valid)
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
        ("UNTIL", Side::Left),
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
            user.until.clone().unwrap_or_else(|| "-".to_owned()),
            user.revoked.clone().unwrap_or_else(|| "-".to_owned()),
        ]
    };
    let rows: Vec<Vec<String>> = keys.ring.users.iter().map(row).collect();
    output::print(&match (args.list.style(), until) {
        (super::Style::Table, Some(until)) => format!(
            "{}\nthe server's certificate holds until {until}; before that: lacuna keys renew-tls {}",
            table::render(&columns, &rows),
            args.dir.display()
        ),
        (super::Style::Table, None) => table::render(&columns, &rows),
        (super::Style::Parsable, _) => table::parsable(&columns, &rows),
    })
}

fn revoke(args: &RevokeArgs) -> Result<()> {
    let mut keys = KeyFolder::open(&args.dir, false)?;
    let Some(name) = &args.name else {
        let now = wall();
        let revoked = keys.revoke(|user| user.has_ended(now));
        keys.save()?;
        revoked.iter().try_for_each(|user| keys.forget(user))?;
        return print_keys(&keys, &[], &revoked, args.json);
    };
    let cluster = cluster(&keys, args.cluster.as_ref())?;
    let revoked = keys.revoke(|user| user.cluster == cluster && user.name == *name);
    let user = revoked.first().ok_or_else(|| {
        CliError::new(
            "L0040",
            Exit::Failed,
            format!("{name} has no key in cluster {cluster}"),
        )
        .remedy(format!("see: lacuna keys list {}", args.dir.display()))
    })?;
    keys.save()?;
    keys.forget(user)?;
    let key = &user.key;
    if args.json.json {
        return output::print_json(&json!({ "user": name, "key": key, "revoked": true }));
    }
    output::print(&format!("{name} ({key}) is revoked; {RELOAD}"))
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
