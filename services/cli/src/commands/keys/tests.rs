use super::*;
use clap::Parser;
use lacuna_runtime::Identity;

#[derive(Parser)]
struct Line {
    #[command(subcommand)]
    command: KeysCommand,
}

fn keys(line: &str, dir: &std::path::Path) -> Result<()> {
    let line = line.replace("DIR", &dir.display().to_string());
    run(&Line::try_parse_from(line.split(' ')).unwrap().command)
}

fn read(dir: &std::path::Path, name: &str) -> String {
    std::fs::read_to_string(dir.join(name)).unwrap()
}

#[test]
fn a_second_run_adds_missing_keys_and_force_replaces_all() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    keys("x init DIR --cluster a --host bus", dir).unwrap();
    let control = dir.join("a/control.toml");
    let first = Identity::load(&control).unwrap();
    assert_eq!(first.url, "nats://bus:4222");
    assert_eq!(first.holder.role, Role::Control);
    keys("x init DIR --cluster a --cluster b", dir).unwrap();
    assert_eq!(Identity::load(&control).unwrap(), first);
    let other = Identity::load(&dir.join("b/control.toml")).unwrap();
    assert_ne!(other.seed, first.seed);
    let taken = keys("x init DIR --cluster server", dir).unwrap_err();
    assert_eq!(taken.code.as_deref(), Some("L0041"));
    // Without names --force takes all clusters and the hosts that there were.
    keys("x init DIR --force", dir).unwrap();
    let again = Identity::load(&dir.join("b/control.toml")).unwrap();
    assert!(again.seed != other.seed && again.url == "nats://bus:4222");
    let replaced = Identity::load(&control).unwrap();
    assert!(replaced.seed != first.seed && replaced.ca != first.ca);
    for name in ["users.toml", "server/lacuna-accounts.conf"] {
        let public = read(dir, name);
        assert!(!public.contains(replaced.seed.reveal()), "{name}");
    }
}

#[test]
fn force_revokes_all_earlier_users() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    keys("x init DIR --cluster a --cluster b", dir).unwrap();
    keys("x add-user DIR ann --role operator --cluster a", dir).unwrap();
    let ring = || KeyFolder::open(dir, false).unwrap().ring;
    let before = ring().users;
    // In cluster a all keys are new but those of ann and the shared agent; in b none is.
    keys("x init DIR --cluster a --agent n[1-2] --force", dir).unwrap();
    let accounts = read(dir, "server/lacuna-accounts.conf");
    for old in &before {
        assert!(!accounts.contains(&old.key), "{} {}", old.cluster, old.name);
    }
    let after = ring().users;
    let valid = after.iter().filter(|user| user.revoked.is_none());
    for user in valid.clone() {
        assert!(accounts.contains(&user.key), "{}", user.name);
        Identity::load(&dir.join(format!("a/{}.toml", user.name))).unwrap();
    }
    assert_eq!(valid.count(), Role::SERVICES.len() + 2);
    for gone in ["a/ann.toml", "a/agent.toml", "b/operator.toml"] {
        assert!(!dir.join(gone).exists(), "{gone}");
    }
    let ann = after.iter().find(|user| user.name == "ann").unwrap();
    assert!(ann.revoked.is_some(), "the list remembers her");
}

#[test]
fn hosts_are_added_and_a_given_address_stays() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let ring = || KeyFolder::open(dir, false).unwrap().ring;
    let local = ["localhost", "127.0.0.1", "::1"];
    keys("x init DIR --cluster a", dir).unwrap();
    assert_eq!(ring().url, "nats://localhost:4222");
    keys("x init DIR --cluster a --host bus", dir).unwrap();
    assert_eq!(ring().url, "nats://bus:4222");
    let certificate = read(dir, "server/server.pem");
    keys("x init DIR --cluster a --host nats --host bus", dir).unwrap();
    assert_eq!(ring().hosts, [&local[..], &["bus", "nats"]].concat());
    assert_eq!(ring().url, "nats://bus:4222");
    assert_ne!(read(dir, "server/server.pem"), certificate);
    keys("x renew-tls DIR --host nats", dir).unwrap();
    assert_eq!(ring().hosts, [&["nats"][..], &local].concat());
    keys("x init DIR --cluster a --host 10.0.0.1 --force", dir).unwrap();
    assert_eq!(ring().hosts, [&["10.0.0.1"][..], &local].concat());
    assert_eq!(ring().url, "nats://10.0.0.1:4222");
}

#[test]
fn a_failed_write_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    keys("x init DIR --cluster a", dir).unwrap();
    keys("x add-user DIR ann --role researcher", dir).unwrap();
    let files = ["users.toml", "a/ann.toml"];
    let before = files.map(|name| read(dir, name));
    // A file in place of the folder cannot be written into, even by root.
    std::fs::rename(dir.join("server"), dir.join("away")).unwrap();
    std::fs::write(dir.join("server"), "").unwrap();
    for line in [
        "x add-user DIR ann --role operator --force",
        "x add-user DIR bob --role researcher",
        "x revoke DIR ann",
    ] {
        let error = keys(line, dir).unwrap_err();
        assert_eq!(error.code.as_deref(), Some("L0011"), "{line}");
        assert!(error.message.contains("no user has changed"), "{error}");
        assert_eq!(files.map(|name| read(dir, name)), before, "{line}");
        let folder = std::fs::read_dir(dir.join("a")).unwrap();
        assert_eq!(folder.count(), Role::SERVICES.len() + 2, "{line}");
    }
}

#[test]
fn agents_learn_controls_key_and_keep_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    keys("x init DIR --cluster a --agent n1 --agent n2", dir).unwrap();
    let key_of = |name: &str| {
        let users = KeyFolder::open(dir, false).unwrap().ring.users;
        let user = users.into_iter().find(|user| user.name == name);
        user.unwrap().key
    };
    let path = dir.join("a/agent-n1.toml");
    let first = Identity::load(&path).unwrap();
    assert_eq!(first.control, [key_of("control")]);
    assert_eq!(
        Identity::load(&dir.join("a/planner.toml")).unwrap().control,
        [""; 0]
    );
    // Identities of a release without signatures; one of them was handed over.
    let old = Identity {
        control: Vec::new(),
        ..first.clone()
    };
    std::fs::write(&path, old.text().unwrap().reveal()).unwrap();
    let mut ring = KeyFolder::open(dir, false).unwrap().ring;
    ring.users.iter_mut().for_each(|user| user.control.clear());
    std::fs::write(dir.join("users.toml"), toml::to_string(&ring).unwrap()).unwrap();
    let handed = dir.join("a/agent-n2.toml");
    std::fs::rename(&handed, dir.join("handed.toml")).unwrap();
    Identity::load(&path).unwrap_err();
    keys("x init DIR --cluster a --agent n1 --agent n2", dir).unwrap();
    assert_eq!(Identity::load(&path).unwrap(), first);
    let stale = || {
        let mut keys = KeyFolder::open(dir, false).unwrap();
        keys.save().unwrap();
        keys.stale
    };
    assert_eq!(stale(), std::slice::from_ref(&handed));
    std::fs::rename(dir.join("handed.toml"), &handed).unwrap();
    assert_eq!(stale(), [""; 0].map(std::path::PathBuf::from));
    // Control gets another key, and a second one.
    keys("x add-user DIR control --role control --force", dir).unwrap();
    keys("x add-user DIR control2 --role control", dir).unwrap();
    let now = Identity::load(&path).unwrap();
    assert_eq!(now.control, [key_of("control"), key_of("control2")]);
    assert_eq!(now.seed, first.seed);
    keys("x revoke DIR control2", dir).unwrap();
    assert_eq!(Identity::load(&path).unwrap().control, [key_of("control")]);
}

#[test]
fn each_node_has_its_own_key() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    keys("x init DIR --cluster a --agent n.1 --agent n2", dir).unwrap();
    assert!(!dir.join("a/agent.toml").exists());
    let one = Identity::load(&dir.join("a/agent-n.1.toml")).unwrap();
    assert_eq!(
        one.holder.node.map(|n| n.to_string()).as_deref(),
        Some("n.1")
    );
}

#[test]
fn users_are_added_and_revoked() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let code = |r: Result<()>| r.unwrap_err().code.unwrap_or_default();
    assert_eq!(
        code(keys("x add-user DIR ann --role researcher", dir)),
        "L0040"
    );
    keys("x init DIR --cluster a --cluster b", dir).unwrap();
    assert_eq!(
        code(keys("x add-user DIR ann --role researcher", dir)),
        "L0040"
    );
    keys("x add-user DIR ann --role researcher --cluster a", dir).unwrap();
    let key = |name: &str| {
        let ring = KeyFolder::open(dir, false).unwrap().ring;
        let mut users = ring.users.into_iter();
        users.find(|u| u.name == name).unwrap().key
    };
    let first = key("ann");
    assert!(read(dir, "server/lacuna-accounts.conf").contains(&first));
    keys("x add-user DIR ann --role researcher --cluster a", dir).unwrap();
    assert_eq!(key("ann"), first, "a second run keeps the key");
    assert_eq!(
        code(keys("x add-user DIR ann --role operator --cluster a", dir)),
        "L0041"
    );
    assert_eq!(
        code(keys(
            "x add-user DIR bob --role researcher --cluster a --node n",
            dir
        )),
        "L0041"
    );
    keys("x revoke DIR ann --cluster a", dir).unwrap();
    assert!(!read(dir, "server/lacuna-accounts.conf").contains(&first));
    assert!(!dir.join("a/ann.toml").exists());
    assert_eq!(code(keys("x revoke DIR ann --cluster a", dir)), "L0040");
    keys("x add-user DIR ann --role operator --cluster a", dir).unwrap();
    assert_ne!(key("ann"), first);
}

#[test]
fn names_must_fit_files_and_subjects() {
    for bad in ["", ".x", "a/b", "a b", "a*"] {
        assert!(parse_name(bad).is_err(), "{bad:?}");
    }
    assert!(parse_name("ann.b_c-9").is_ok());
}

#[test]
fn a_key_with_an_end_says_so_and_is_revoked_once_it_is_over() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    keys("x init DIR --cluster a", dir).unwrap();
    keys("x add-user DIR ann --role researcher --valid 30d", dir).unwrap();
    keys("x add-user DIR bob --role researcher --valid 1ms", dir).unwrap();
    let none = keys("x add-user DIR eve --role researcher --valid 0s", dir).unwrap_err();
    assert_eq!(none.code.as_deref(), Some("L0041"));
    let ann = Identity::load(&dir.join("a/ann.toml")).unwrap();
    let left = ann.until.unwrap().since(wall());
    assert!(left > Span::from_secs(29 * 86_400) && left <= Span::from_secs(30 * 86_400));
    let control = Identity::load(&dir.join("a/control.toml")).unwrap();
    assert_eq!(control.until, None, "no end unless it is asked for");
    std::thread::sleep(std::time::Duration::from_millis(10));
    keys("x revoke DIR --ended", dir).unwrap();
    let users = KeyFolder::open(dir, false).unwrap().ring.users;
    let revoked = users.iter().filter(|user| user.revoked.is_some());
    let revoked: Vec<&str> = revoked.map(|user| user.name.as_str()).collect();
    assert_eq!(revoked, ["bob"]);
    assert!(!dir.join("a/bob.toml").exists());
    // A second run has none to revoke, and a new key may follow.
    keys("x revoke DIR --ended", dir).unwrap();
    keys("x add-user DIR bob --role researcher --valid 1d", dir).unwrap();
    assert!(Identity::load(&dir.join("a/bob.toml")).is_ok());
}
