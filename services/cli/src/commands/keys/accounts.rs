//! What nats-server reads: public keys and what each may do. Nothing in it is secret.

use std::fmt::Write as _;

use lacuna_model::ClusterId;
use lacuna_wire::access::{Role, access};
use lacuna_wire::address;

use super::book::{Book, User};

/// The folder of all that nats-server reads, and of nothing else.
pub(crate) const SERVER: &str = "server";

/// The name of the file in it.
pub(crate) const FILE: &str = "lacuna-accounts.conf";

/// How many answers a service may give to one request, and how long it may take for them.
const ANSWERS: &str = "{ max: 1, expires: \"1m\" }";

/// The accounts of all clusters: one for the services and people of a cluster, and one for its
/// external schedulers, who see nothing of the first but what is handed over between the two.
pub(crate) fn text(book: &Book) -> String {
    let mut out = String::from(
        "# Made by `lacuna keys`: who may do what on the bus. Public keys only; do not edit, the \
         next\n# `lacuna keys` writes it again. Include it in the configuration of nats-server, and \
         after a\n# change have that read it: nats-server --signal reload\naccounts {\n",
    );
    for cluster in &book.clusters {
        let (inner, outer) = names(cluster);
        let (incoming, released) = (address::incoming(cluster), address::released(cluster));
        let _ = writeln!(
            out,
            "  \"{inner}\" {{\n    jetstream: enabled\n    exports: [\n      \
             {{ service: \"{incoming}\", accounts: [\"{outer}\"] }}\n      \
             {{ stream: \"{released}\", accounts: [\"{outer}\"] }}\n    ]"
        );
        users(&mut out, book, cluster, |user| user.role != Role::Events);
        let _ = writeln!(
            out,
            "  }}\n  \"{outer}\" {{\n    imports: [\n      \
             {{ service: {{ account: \"{inner}\", subject: \"{incoming}\" }} }}\n      \
             {{ stream: {{ account: \"{inner}\", subject: \"{released}\" }} }}\n    ]"
        );
        users(&mut out, book, cluster, |user| user.role == Role::Events);
        out.push_str("  }\n");
    }
    out.push_str("}\n");
    out
}

fn names(cluster: &ClusterId) -> (String, String) {
    let inner = format!("lacuna_{cluster}");
    let outer = format!("{inner}_events");
    (inner, outer)
}

fn users(out: &mut String, book: &Book, cluster: &ClusterId, which: impl Fn(&User) -> bool) {
    out.push_str("    users: [\n");
    let here = book.users.iter().filter(|user| user.cluster == *cluster);
    for user in here.filter(|user| user.revoked.is_none() && which(user)) {
        let may = access(cluster, &user.holder());
        let _ = writeln!(
            out,
            "      # {} ({})\n      {{ nkey: {}\n        permissions: {{",
            user.name, user.role, user.key
        );
        list(out, "publish", may.publish.iter());
        list(out, "subscribe", may.subscribe.iter());
        if may.answers {
            let _ = writeln!(out, "          allow_responses: {ANSWERS}");
        }
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
    use super::*;

    fn user(cluster: &ClusterId, name: &str, role: Role, key: &str) -> User {
        User {
            cluster: cluster.clone(),
            name: name.to_owned(),
            role,
            node: None,
            key: key.to_owned(),
            created: "2026-01-01T00:00:00Z".to_owned(),
            revoked: None,
        }
    }

    #[test]
    fn each_cluster_has_two_accounts_and_the_revoked_have_no_key() {
        let (a, b) = (ClusterId::new("a").unwrap(), ClusterId::new("b").unwrap());
        let book = Book {
            clusters: vec![a.clone(), b.clone()],
            users: vec![
                user(&a, "control", Role::Control, "UCONTROL"),
                user(&a, "slurm", Role::Events, "USLURM"),
                User {
                    revoked: Some("2026-01-02T00:00:00Z".to_owned()),
                    ..user(&a, "bob", Role::Researcher, "UBOB")
                },
                user(&b, "planner", Role::Planner, "UPLANNER"),
            ],
            ..Book::default()
        };
        let text = text(&book);
        let place = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what}\n{text}"));
        let order = [
            "\"lacuna_a\" {",
            "UCONTROL",
            "\"lacuna_a_events\" {",
            "USLURM",
            "\"lacuna_b\" {",
            "UPLANNER",
            "\"lacuna_b_events\" {",
        ]
        .map(place);
        assert!(order.is_sorted(), "{text}");
        assert!(!text.contains("UBOB"), "{text}");
        assert_eq!(text.matches('{').count(), text.matches('}').count());
    }
}
