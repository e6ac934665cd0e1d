//! The accounts file of nats-server: public keys and permissions. It holds no secret.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use lacuna_model::ClusterId;
use lacuna_wire::access::{Account, Export, ExportKind, access, account_exports};

use super::ring::{KeyRing, User};

/// The folder of the files that nats-server reads. It holds no other files.
pub(crate) const SERVER: &str = "server";

/// The name of the accounts file in that folder.
pub(crate) const FILE: &str = "lacuna-accounts.conf";

/// The limits of one cluster's streams: their reservations, and a quarter of the server's 8 GB.
/// Consumers are counted for each stream.
const STREAMS: &str = "    jetstream { max_file: 2GB, max_streams: 64, max_consumers: 1024 }\n";

/// The limits of each connection of an account: its subscriptions, and the length of a message.
const fn limits(account: Account) -> &'static str {
    match account {
        Account::Services => "max_subs: 4096",
        // The longest message of a person is a list of trainers.
        Account::Operators | Account::People | Account::Agents => {
            "max_subs: 1024, max_payload: 1MB"
        }
        // The longest message is a snapshot of all nodes.
        Account::Events => "max_subs: 64",
    }
}

/// An account as nats-server has it.
struct Block<'r> {
    account: Account,
    name: String,
    users: Vec<&'r User>,
}

fn blocks<'r>(ring: &'r KeyRing, cluster: &ClusterId) -> Vec<Block<'r>> {
    let mut blocks = Vec::new();
    for account in Account::ALL {
        let names: Vec<String> = account.names(cluster).collect();
        let number = names.len();
        let all = ring.users.iter();
        // Revoked ones count, so no other moves.
        let all = all.filter(|user| user.cluster == *cluster && user.role.account() == account);
        let all: Vec<&User> = all.collect();
        blocks.extend(names.into_iter().enumerate().map(|(first, name)| Block {
            account,
            name,
            users: all.iter().copied().skip(first).step_by(number).collect(),
        }));
    }
    blocks
}

/// The text of the accounts of all clusters. Accounts of one cluster share only the exported
/// subjects; accounts of two clusters share nothing.
pub(crate) fn text(ring: &KeyRing) -> String {
    let mut out = String::from(
        "# Made by `lacuna keys`: permissions on the bus. Public keys only; do not edit, the \
         next\n# `lacuna keys` overwrites it. Include it in the configuration of nats-server, and \
         after a\n# change reload that: nats-server --signal reload\naccounts {\n",
    );
    for cluster in &ring.clusters {
        let handed = account_exports(cluster);
        let all = blocks(ring, cluster);
        for block in &all {
            let _ = writeln!(out, "  \"{}\" {{", block.name);
            if block.account == Account::Services {
                out.push_str(STREAMS);
            }
            let (most, each) = (block.account.most_connections(), limits(block.account));
            let _ = writeln!(out, "    limits {{ max_conn: {most}, {each} }}");
            exports(&mut out, &all, &handed, block.account);
            imports(&mut out, cluster, &handed, block.account);
            users(&mut out, cluster, &block.users);
            out.push_str("  }\n");
        }
    }
    out.push_str("}\n");
    out
}

fn exports(out: &mut String, all: &[Block<'_>], handed: &[Export], exporter: Account) {
    // Each subject is exported once, with all accounts that import it.
    let mut importers: BTreeMap<(ExportKind, &str), Vec<String>> = BTreeMap::new();
    for one in handed.iter().filter(|one| one.exporter == exporter) {
        let names = importers
            .entry((one.kind, one.subject.as_str()))
            .or_default();
        let importing = all.iter().filter(|block| block.account == one.importer);
        names.extend(importing.map(|block| format!("{:?}", block.name)));
    }
    out.push_str("    exports: [\n");
    for ((way, subject), names) in importers {
        let (kind, answer) = match way {
            ExportKind::Service => ("service", ""),
            ExportKind::StreamingService => ("service", ", response_type: stream"),
            ExportKind::Stream => ("stream", ""),
        };
        let names = names.join(", ");
        let _ = writeln!(
            out,
            "      {{ {kind}: \"{subject}\"{answer}, accounts: [{names}] }}"
        );
    }
    out.push_str("    ]\n");
}

fn imports(out: &mut String, cluster: &ClusterId, handed: &[Export], importer: Account) {
    out.push_str("    imports: [\n");
    for one in handed.iter().filter(|one| one.importer == importer) {
        let kind = match one.kind {
            ExportKind::Service | ExportKind::StreamingService => "service",
            ExportKind::Stream => "stream",
        };
        let (exporter, subject) = (one.exporter.name(cluster), &one.subject);
        let _ = writeln!(
            out,
            "      {{ {kind}: {{ account: \"{exporter}\", subject: \"{subject}\" }} }}"
        );
    }
    out.push_str("    ]\n");
}

fn users(out: &mut String, cluster: &ClusterId, users: &[&User]) {
    out.push_str("    users: [\n");
    for user in users.iter().filter(|user| user.revoked.is_none()) {
        let may = access(cluster, &user.holder());
        let _ = writeln!(
            out,
            "      # {} ({})\n      {{ nkey: {}\n        permissions: {{",
            user.name, user.role, user.key
        );
        list(out, "publish", may.publish.iter());
        list(out, "subscribe", may.subscribe.iter());
        out.push_str("        } }\n");
    }
    out.push_str("    ]\n");
}

fn list<'a>(out: &mut String, what: &str, subjects: impl Iterator<Item = &'a String>) {
    let _ = writeln!(out, "          {what}: {{ allow: [");
    for subject in subjects {
        let _ = writeln!(out, "            \"{subject}\"");
    }
    out.push_str("          ] }\n");
}

#[cfg(test)]
mod tests {
    use lacuna_wire::access::Role;

    use super::*;

    fn user(cluster: &ClusterId, name: &str, role: Role, key: &str) -> User {
        User {
            cluster: cluster.clone(),
            name: name.to_owned(),
            role,
            node: None,
            key: key.to_owned(),
            created: "2026-01-01T00:00:00Z".to_owned(),
            until: None,
            revoked: None,
            control: Vec::new(),
        }
    }

    #[test]
    fn each_cluster_has_its_accounts_and_revoked_users_have_no_key() {
        let (a, b) = (ClusterId::new("a").unwrap(), ClusterId::new("b").unwrap());
        let ring = KeyRing {
            clusters: vec![a.clone(), b.clone()],
            users: vec![
                user(&a, "control", Role::Control, "UCONTROL"),
                user(&a, "ann", Role::Researcher, "UANN"),
                user(&a, "boss", Role::Operator, "UBOSS"),
                user(&a, "agent", Role::Agent, "UAGENT"),
                user(&a, "slurm", Role::Events, "USLURM"),
                User {
                    revoked: Some("2026-01-02T00:00:00Z".to_owned()),
                    ..user(&a, "bob", Role::Researcher, "UBOB")
                },
                user(&a, "carol", Role::Researcher, "UCAROL"),
                user(&b, "planner", Role::Planner, "UPLANNER"),
            ],
            ..KeyRing::default()
        };
        let text = text(&ring);
        let place = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what}\n{text}"));
        let order = [
            "\"lacuna_a\" {",
            "UCONTROL",
            "\"lacuna_a+operators\" {",
            "UBOSS",
            "\"lacuna_a+people\" {",
            "UANN",
            "\"lacuna_a+people2\" {",
            "UCAROL",
            "\"lacuna_a+agents\" {",
            "UAGENT",
            "\"lacuna_a+events\" {",
            "USLURM",
            "\"lacuna_b\" {",
            "UPLANNER",
            "\"lacuna_b+events\" {",
        ]
        .map(place);
        assert!(order.is_sorted(), "{text}");
        assert!(!text.contains("UBOB"), "{text}");
        assert_eq!(text.matches('{').count(), text.matches('}').count());
    }
}
