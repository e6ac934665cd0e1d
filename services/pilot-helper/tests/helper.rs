//! The helper as root, with stand-ins for the scheduler's commands: they write down under which
//! account they ran, and how.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use lacuna_model::{ClusterId, Launch, Program, Span, Timestamp, TrainerId};
use lacuna_owner::{Signed, Ticket, digest};
use lacuna_skip::{Need, or_skip};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{User, geteuid};
use nkeys::KeyPair;
use serde_json::{Value, json};

/// Accounts that each system has.
const ANN: &str = "daemon";
const BOB: &str = "bin";
/// The end of a key, which tests bring forward.
const UNTIL: &str = " until 2100-01-01T00:00:00Z";

/// What Prometheus reads.
const EXPOSITION: &str = r#"# TYPE lacuna_pilot_helper_refused_total counter
lacuna_pilot_helper_refused_total{cause="forged"} 1
lacuna_pilot_helper_refused_total{cause="key ended"} 1
lacuna_pilot_helper_refused_total{cause="no pilot"} 1
# TYPE lacuna_pilot_helper_key_end_timestamp_seconds gauge
lacuna_pilot_helper_key_end_timestamp_seconds{cluster="main",owner="bin"} 4102444800
"#;

/// Submits: the account and its groups, the arguments, the script. Prints the next number.
const SUBMIT: &str = r#"#!/bin/sh
umask 0
{ echo "$(id -u) $(id -G)"; echo "$*"; env | sort; echo ---; cat; } > "@/submitted"
echo x >> "@/count"; n=$(wc -l < "@/count"); echo $n >> "@/live"; echo "$n@ID"
"#;
const LIST: &str = "#!/bin/sh\numask 0\ncat '@/live' 2>/dev/null\necho \"$*\" > '@/listed'\n";
const CANCEL: &str = "#!/bin/sh\numask 0\necho \"$(id -u) $*\" > '@/cancelled'\n";

struct Bench {
    dir: tempfile::TempDir,
    keys: BTreeMap<&'static str, KeyPair>,
}

fn now() -> Timestamp {
    let now = clock_gettime(ClockId::CLOCK_REALTIME).unwrap();
    Timestamp::from_unix_ms(now.tv_sec() * 1000 + now.tv_nsec() / 1_000_000)
}

fn launch() -> Launch {
    Launch::Command(Program {
        program: "/bin/train".to_owned(),
        ..Program::default()
    })
}

impl Bench {
    fn new(scheduler: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        for folder in ["bin", "seen"] {
            fs::create_dir(at(folder)).unwrap();
        }
        fs::set_permissions(at("bin"), Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(at("seen"), Permissions::from_mode(0o777)).unwrap();
        let id = if scheduler == "slurm" {
            ";main"
        } else {
            ".server"
        };
        for (name, text) in [
            ("sbatch", SUBMIT),
            ("qsub", SUBMIT),
            ("squeue", LIST),
            ("qselect", LIST),
            ("scancel", CANCEL),
            ("qdel", CANCEL),
        ] {
            let text = text.replace("@ID", id);
            let text = text.replace('@', &at("seen").display().to_string());
            fs::write(at("bin").join(name), text).unwrap();
            fs::set_permissions(at("bin").join(name), Permissions::from_mode(0o755)).unwrap();
        }
        fs::write(at("pilot.sh"), "#!/bin/sh\nexec lacuna-agent --pilot\n").unwrap();
        let keys = BTreeMap::from([(ANN, KeyPair::new_user()), (BOB, KeyPair::new_user())]);
        let config = format!(
            r#"
            cluster = "main"
            script = "{script}"
            [keys]
            {ANN} = ["{ann}"]
            {BOB} = ["{bob}{UNTIL}"]
            no-such-user = ["{ann}"]
            root = ["{ann}"]
            [settings]
            scheduler = "{scheduler}"
            state = "{state}"
            metrics = "{metrics}"
            min_uid = 1
            partition = "filler"
            environment = {{ PATH = "{bin}:/usr/bin:/bin" }}
            "#,
            script = at("pilot.sh").display(),
            state = at("state").display(),
            metrics = at("refused.prom").display(),
            bin = at("bin").display(),
            ann = keys[ANN].public_key(),
            bob = keys[BOB].public_key(),
        );
        fs::write(at("helper.toml"), config).unwrap();
        Self { dir, keys }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn seen(&self, name: &str) -> String {
        fs::read_to_string(self.at("seen").join(name)).unwrap()
    }

    /// The exit code, and what the helper printed.
    fn ask(&self, request: &Value) -> (i32, String) {
        ask(&self.at("helper.toml"), request)
    }

    fn ticket(&self, owner: &str) -> Ticket {
        Ticket {
            cluster: ClusterId::new("main").unwrap(),
            trainer: TrainerId::new(format!("t-{owner}")).unwrap(),
            owner: owner.to_owned(),
            program: digest(&launch()).unwrap(),
            pilots: 2,
            not_after: now() + Span::from_secs(3600),
        }
    }

    fn signed(&self, ticket: &Ticket, by: &str) -> Signed {
        Signed::new(ticket, &self.keys[by]).unwrap()
    }

    fn refusals(&self) -> String {
        fs::read_to_string(self.at("refused.prom")).unwrap_or_default()
    }
}

fn ask(config: &Path, request: &Value) -> (i32, String) {
    let mut helper = Command::new(env!("CARGO_BIN_EXE_lacuna-pilot-helper"))
        .arg("--config")
        .arg(config)
        // What a caller sets does not reach the scheduler's commands.
        .env("LD_DEBUG_OUTPUT", "/no/such")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = helper.stdin.take().unwrap();
    let _ = input.write_all(request.to_string().as_bytes());
    drop(input);
    let output = helper.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.code().unwrap(),
        String::from_utf8(said).unwrap(),
    )
}

fn submit(ticket: &Signed) -> Value {
    json!({ "do": "submit", "ticket": ticket, "node": "n01", "minutes": 30 })
}

fn cancel(owner: &str, jobs: &[&str]) -> Value {
    json!({ "do": "cancel", "owner": owner, "jobs": jobs })
}

fn is_root() -> bool {
    geteuid().is_root()
}

#[test]
fn a_pilot_is_its_owners_and_runs_the_fixed_script() {
    or_skip!(Need::Root.given(is_root(), "only root may switch to another account"));
    for (scheduler, first) in [
        ("slurm", "--parsable --job-name=lacuna-pilot"),
        ("pbs", "-N"),
    ] {
        let bench = Bench::new(scheduler);
        let ticket = bench.ticket(ANN);
        let signed = bench.signed(&ticket, ANN);
        let (code, said) = bench.ask(&submit(&signed));
        assert_eq!(code, 0, "{said}");
        let id = if scheduler == "slurm" {
            "1;main\n"
        } else {
            "1.server\n"
        };
        assert_eq!(said, id);
        let seen = bench.seen("submitted");
        let user = User::from_name(ANN).unwrap().unwrap();
        assert!(seen.starts_with(&format!("{} ", user.uid)), "{seen}");
        assert!(seen.lines().nth(1).unwrap().starts_with(first), "{seen}");
        assert!(seen.contains("filler") && seen.contains("n01"), "{seen}");
        assert!(seen.contains("00:30:00"), "{seen}");
        assert!(!seen.contains("LD_DEBUG_OUTPUT"), "{seen}");
        let (_, script) = seen.split_once("---\n").unwrap();
        let lines: Vec<&str> = script.lines().collect();
        let [shell, export, agent] = lines.as_slice() else {
            panic!("{script}");
        };
        assert_eq!((*shell, *agent), ("#!/bin/sh", "exec lacuna-agent --pilot"));
        let word = export.strip_prefix("export LACUNA_TICKET=").unwrap();
        assert_eq!(Signed::unpacked(word), Ok(ticket));
        assert!(!bench.refusals().contains("refused_total{"));
    }
}

#[test]
fn forged_stale_foreign_and_replayed_tickets_are_refused_and_counted() {
    or_skip!(Need::Root.given(is_root(), "only root may switch to another account"));
    let bench = Bench::new("slurm");
    let ticket = bench.ticket(ANN);
    let over = Ticket {
        not_after: now(),
        ..ticket.clone()
    };
    let elsewhere = Ticket {
        cluster: ClusterId::new("other").unwrap(),
        ..ticket.clone()
    };
    let of = |owner: &str| bench.ticket(owner);
    for (ticket, by, cause) in [
        (&ticket, BOB, "forged"),
        (&of("carol"), ANN, "forged"),
        (&over, ANN, "stale"),
        (&elsewhere, ANN, "foreign"),
        (&of("no-such-user"), ANN, "account"),
        (&of("root"), ANN, "account"),
    ] {
        let (code, said) = bench.ask(&submit(&bench.signed(ticket, by)));
        assert_eq!(code, 77, "{cause}: {said}");
        assert!(said.contains("permission denied: "), "{said}");
        assert!(
            bench.refusals().contains(&format!("cause=\"{cause}\"")),
            "{cause}"
        );
    }
    let mut long = submit(&bench.signed(&ticket, ANN));
    long["minutes"] = json!(24 * 60 + 1);
    assert_eq!(bench.ask(&long).0, 77);
    // A trainer that is over, also where its pilots may still run.
    let signed = bench.signed(&ticket, ANN);
    assert_eq!(bench.ask(&submit(&signed)).0, 0);
    let forged_end = json!({ "do": "end", "ticket": bench.signed(&ticket, BOB) });
    assert_eq!(bench.ask(&forged_end).0, 77);
    assert_eq!(bench.ask(&submit(&signed)).0, 0);
    // Another owner's trainer of the same name says nothing about it, and its pilots count apart.
    let same_name = Ticket {
        owner: BOB.to_owned(),
        pilots: 1,
        ..ticket.clone()
    };
    let of_bob = bench.signed(&same_name, BOB);
    assert_eq!(bench.ask(&submit(&of_bob)).0, 0);
    assert_eq!(bench.ask(&json!({ "do": "end", "ticket": of_bob })).0, 0);
    let (_, said) = bench.ask(&submit(&signed));
    assert!(said.contains("2 pilots"), "{said}");
    assert_eq!(bench.ask(&json!({ "do": "end", "ticket": signed })).0, 0);
    let (code, said) = bench.ask(&submit(&signed));
    assert_eq!(code, 77);
    assert!(said.contains("was used before"), "{said}");
    let counted = bench.refusals();
    for (cause, count) in [("forged", 3), ("account", 2), ("stale", 1), ("replayed", 1)] {
        let line = format!("{{cause=\"{cause}\"}} {count}\n");
        assert!(counted.contains(&line), "{line}: {counted}");
    }
    assert_eq!(
        bench.seen("count").lines().count(),
        3,
        "three were submitted"
    );
}

#[test]
fn a_key_may_have_an_end_which_is_shown_before_it_comes() {
    or_skip!(Need::Root.given(is_root(), "only root may switch to another account"));
    let bench = Bench::new("slurm");
    let config = fs::read_to_string(bench.at("helper.toml")).unwrap();
    let rewrite = |until: &str| {
        fs::write(bench.at("helper.toml"), config.replace(UNTIL, until)).unwrap();
    };
    let signed = bench.signed(&bench.ticket(BOB), BOB);
    assert_eq!(bench.ask(&submit(&signed)).0, 0);
    rewrite(" until 2026-01-01T00:00:00Z");
    let (code, said) = bench.ask(&submit(&signed));
    assert_eq!(code, 77);
    assert!(said.contains("that signed it has ended"), "{said}");
    // A trainer ends all the same, and what no key of the owner's has signed is forged as before.
    assert_eq!(bench.ask(&json!({ "do": "end", "ticket": signed })).0, 0);
    let forged = bench.signed(&bench.ticket(BOB), ANN);
    assert_eq!(bench.ask(&submit(&forged)).0, 77);
    rewrite(UNTIL);
    assert_eq!(bench.ask(&cancel(BOB, &["99"])).0, 77);
    assert_eq!(bench.refusals(), EXPOSITION);
    rewrite(" until tomorrow");
    let (code, said) = bench.ask(&submit(&signed));
    assert_eq!(code, 78);
    assert!(
        said.contains("the keys of bin") && said.contains("is no end of a key"),
        "{said}"
    );
    // A job that runs is not reported as failed for want of a place for figures.
    rewrite("");
    let signed = bench.signed(&bench.ticket(ANN), ANN);
    fs::remove_file(bench.at("refused.prom")).unwrap();
    fs::create_dir(bench.at("refused.prom")).unwrap();
    assert_eq!(bench.ask(&submit(&signed)).0, 0);
}

#[test]
fn a_ticket_is_for_a_number_of_pilots_at_a_time() {
    or_skip!(Need::Root.given(is_root(), "only root may switch to another account"));
    let bench = Bench::new("slurm");
    let signed = bench.signed(&bench.ticket(ANN), ANN);
    for code in [0, 0, 77, 77] {
        assert_eq!(bench.ask(&submit(&signed)).0, code);
    }
    assert!(
        bench
            .seen("listed")
            .contains(&format!("-u {ANN} -n lacuna-pilot"))
    );
    // Another owner's are not counted. One that is over makes room.
    let of_bob = bench.signed(&bench.ticket(BOB), BOB);
    assert_eq!(bench.ask(&submit(&of_bob)).0, 0);
    fs::write(bench.at("seen").join("live"), "2\n3\n").unwrap();
    assert_eq!(bench.ask(&submit(&signed)).0, 0);
    assert_eq!(bench.ask(&submit(&signed)).0, 77);
}

#[test]
fn only_pilots_of_an_owner_are_cancelled_under_the_owners_account() {
    or_skip!(Need::Root.given(is_root(), "only root may switch to another account"));
    let bench = Bench::new("slurm");
    assert_eq!(
        bench.ask(&submit(&bench.signed(&bench.ticket(ANN), ANN))).0,
        0
    );
    assert_eq!(bench.ask(&cancel(ANN, &["1", "99"])).0, 77);
    assert!(!bench.at("seen/cancelled").exists());
    let (code, said) = bench.ask(&cancel(ANN, &["1"]));
    assert_eq!(code, 0, "{said}");
    let user = User::from_name(ANN).unwrap().unwrap();
    let expected = format!("{} --name=lacuna-pilot 1\n", user.uid);
    assert_eq!(bench.seen("cancelled"), expected);
    for nonsense in [
        cancel(ANN, &[]),
        cancel(ANN, &["--user=root"]),
        json!({ "do": "all" }),
    ] {
        assert_eq!(bench.ask(&nonsense).0, 65);
    }
    assert_eq!(bench.ask(&cancel("root", &["1"])).0, 77);
}

#[test]
fn what_others_may_change_is_not_believed() {
    let bench = Bench::new("slurm");
    let request = cancel(ANN, &["1"]);
    for name in ["helper.toml", "pilot.sh", "."] {
        let before = fs::metadata(bench.at(name)).unwrap().permissions();
        let open = Permissions::from_mode(before.mode() | 0o022);
        fs::set_permissions(bench.at(name), open).unwrap();
        let (code, said) = bench.ask(&request);
        assert_eq!(code, 78, "{name}: {said}");
        assert!(said.contains("another user may change"), "{said}");
        fs::set_permissions(bench.at(name), before).unwrap();
    }
    fs::create_dir(bench.at("state")).unwrap();
    fs::set_permissions(bench.at("state"), Permissions::from_mode(0o755)).unwrap();
    let (code, said) = bench.ask(&request);
    assert_eq!(code, 70, "{said}");
    let mut words = Command::new(env!("CARGO_BIN_EXE_lacuna-pilot-helper"));
    assert_eq!(words.output().unwrap().status.code(), Some(64));
}
