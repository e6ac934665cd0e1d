//! Programs of several researchers on one machine: each under its owner's account, or one owner's
//! alone.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use lacuna_testkit::{Need, or_skip};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};

use super::keyed_server::{lacuna, until};
use super::whole::Up;

/// Accounts that each system has, and an owner without one.
const ANN: &str = "daemon";
const BOB: &str = "bin";
const CAROL: &str = "no-such-user";

/// Starts `lacuna up --secure` with keys of three researchers and idle nodes.
async fn up(dir: &Path, agent: &str) -> Up {
    let config = dir.join("owners.toml");
    let work = dir.join("work");
    let text = format!("[agent]\n{agent}\nwork_dir = \"{}\"\n", work.display());
    fs::write(&config, text).unwrap();
    let config = config.display().to_string();
    let up = Up::start(&dir.join("data"), &["--config", &config], &[]).await;
    let keys = up.dir.join("keys").display().to_string();
    for person in [ANN, BOB, CAROL] {
        let add = ["keys", "add-user", &keys, person, "--role", "researcher"];
        up.lacuna(&add).unwrap();
    }
    let server = up.file()["children"]["nats"].as_i64().unwrap();
    kill(Pid::from_raw(server.try_into().unwrap()), Signal::SIGHUP).unwrap();
    up.lacuna(&["events", "publish", "node.idle", "n1", "n2", "n3", "n4"])
        .unwrap();
    up
}

/// Submits a program of one node as its owner; again while the server does not know the key yet.
async fn submit(up: &Up, owner: &str) -> Result<String, String> {
    let file = up.dir.join(format!("{owner}.toml"));
    let text = format!(
        "[[trainer]]\nname = \"of-{owner}\"\nlauncher = \"command\"\nprogram = \"/bin/sh\"\n\
         arguments = [\"-c\", \"echo I am $(id -un); exec sleep 600\"]\nuntil = \"exit\"\n\
         min_nodes = 1\nmax_nodes = 1\n\
         scaling = {{ nodes = [1, 2], samples_per_s = [1.0, 2.0] }}\n\
         rescale = {{ up = \"1s\", down = \"1s\" }}\n"
    );
    fs::write(&file, text).unwrap();
    let identity = up.dir.join(format!("keys/main/{owner}.toml"));
    let (file, identity) = (file.display().to_string(), identity.display().to_string());
    let data = up.dir.display().to_string();
    let words = ["submit", &file, "--identity", &identity];
    let mut said = Err(String::new());
    until("the server knows the key", || {
        said = lacuna(&words, &[("LACUNA_DATA_DIR", &data)]);
        said.as_ref()
            .err()
            .is_none_or(|said| !said.contains("L0044"))
    })
    .await;
    said
}

#[tokio::test]
async fn each_researchers_program_runs_under_their_own_account() {
    or_skip!(Need::Root.given(
        geteuid().is_root(),
        "only root may switch to another account"
    ));
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o711)).unwrap();
    let up = up(dir.path(), "run_as = \"owner\"\nmin_uid = 1").await;
    for owner in [ANN, BOB, CAROL] {
        submit(&up, owner).await.unwrap();
    }
    for owner in [ANN, BOB] {
        let (trainer, expected) = (format!("of-{owner}"), format!("I am {owner}"));
        until("the program has said who it is", || {
            let said = up.lacuna(&["logs", &trainer]);
            said.is_ok_and(|said| said.contains(&expected))
        })
        .await;
    }
    let why = format!("the owner {CAROL} has no account on this node");
    until("an owner without an account learns why", || {
        let said = up.lacuna(&["explain", &format!("of-{CAROL}")]);
        said.is_ok_and(|said| said.contains(&why))
    })
    .await;
    up.stop();
}

#[tokio::test]
async fn under_one_account_programs_of_a_second_owner_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let up = up(dir.path(), "").await;
    submit(&up, ANN).await.unwrap();
    let said = submit(&up, BOB).await.unwrap_err();
    assert!(
        said.contains("L0028") && said.contains("control.shared_account"),
        "{said}"
    );
    up.stop();
}
