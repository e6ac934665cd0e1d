//! The commands of the README, word by word: `lacuna up` in one terminal, and own training in
//! another. `python3` and `torchrun` are those of a Python with torch.

use std::fs::File;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lacuna_runtime::nats_server;
use lacuna_testkit::or_skip;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::torch::python;
use crate::support::{lacuna, read, root};

/// Longest time of all commands, on a loaded machine too.
const LIMIT: Duration = Duration::from_secs(900);

/// The blocks of commands of a section.
fn commands(readme: &str, section: &str) -> Vec<String> {
    let heading = format!("\n## {section}\n");
    let (_, text) = readme.split_once(&heading).unwrap();
    let text = text.split("\n## ").next().unwrap();
    let blocks = text.split("```sh\n").skip(1);
    let blocks = blocks.map(|block| block.split("```").next().unwrap().to_owned());
    blocks.collect()
}

/// A folder that looks like the working tree after a build, with a `python3` of its own.
fn tree(dir: &Path, python: &str) {
    let release = Path::new(&lacuna()).parent().unwrap().to_owned();
    std::fs::create_dir(dir.join("target")).unwrap();
    symlink(release, dir.join("target/release")).unwrap();
    for folder in ["deploy", "libs"] {
        symlink(root().join(folder), dir.join(folder)).unwrap();
    }
    let bin = dir.join("bin");
    std::fs::create_dir(&bin).unwrap();
    for (name, words) in [("python3", ""), ("torchrun", "-m torch.distributed.run ")] {
        let script = format!("#!/bin/sh\nexec {python} {words}\"$@\"\n");
        let path = bin.join(name);
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// A shell in the folder, as a user's terminal.
fn terminal(dir: &Path, commands: &str, output: &Path) -> Child {
    let output = File::create(output).unwrap();
    let path = std::env::var("PATH").unwrap();
    Command::new("bash")
        .args(["-euc", commands])
        .current_dir(dir)
        .env("PATH", format!("{}:{path}", dir.join("bin").display()))
        .env("LACUNA_DATA_DIR", dir.join("data"))
        .env("LACUNA_NATS_SERVER", nats_server::find().unwrap())
        .env("USER", "ada")
        .env_remove("LACUNA_USER")
        .env_remove("LACUNA_NATS")
        .env_remove("LACUNA_CLUSTER")
        .stdin(Stdio::null())
        .stdout(output.try_clone().unwrap())
        .stderr(output)
        .process_group(0)
        .spawn()
        .unwrap()
}

/// A terminal that is closed with the test.
struct Up(Child);

impl Drop for Up {
    fn drop(&mut self) {
        let group = Pid::from_raw(-i32::try_from(self.0.id()).unwrap());
        let _ = kill(group, Signal::SIGTERM);
        let _ = self.0.wait();
    }
}

fn until(what: &str, limit: Duration, said: &Path, mut done: impl FnMut() -> bool) {
    for _ in 0..limit.as_millis() / 100 {
        if done() {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("not {what}: {}", std::fs::read_to_string(said).unwrap());
}

#[test]
fn the_readme_trains_on_two_nodes_by_regroup_and_by_torchrun() {
    let python = or_skip!(python());
    let readme = read("README.md");
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    tree(dir, &python);
    let first = commands(&readme, "Run it on this machine");
    let [up, try_out] = first.as_slice() else {
        panic!("{first:?}");
    };
    let said = dir.join("up.txt");
    let _up = Up(terminal(dir, &format!("exec {up}"), &said));
    until("up", Duration::from_secs(60), &said, || {
        std::fs::read_to_string(&said).unwrap().contains("up after")
    });
    let train = commands(&readme, "Train on it").concat();
    let said = dir.join("said.txt");
    let mut own = terminal(dir, &format!("{try_out}{train}"), &said);
    until("ended", LIMIT, &said, || own.try_wait().unwrap().is_some());
    let text = std::fs::read_to_string(&said).unwrap();
    assert!(own.wait().unwrap().success(), "{text}");
    assert!(text.contains("go on with the model\n"), "{text}");
    let (chars, again) = text.split_once("again queued").unwrap();
    for (name, of_it) in [("chars", chars), ("again", again)] {
        assert!(of_it.contains(" nodes 2\n"), "{name}: {text}");
        assert!(of_it.contains("it goes on like this:"), "{name}: {text}");
        assert!(of_it.contains(&format!("lacuna: {name} done\n")), "{text}");
    }
    let list = dir.join("trainers.json");
    let ask = "target/release/lacuna trainers --all --json";
    assert!(terminal(dir, ask, &list).wait().unwrap().success());
    let list = std::fs::read_to_string(&list).unwrap();
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    let rows = list["trainers"].as_array().unwrap();
    for name in ["chars", "again"] {
        let row = rows.iter().find(|row| row["trainer"] == name).unwrap();
        assert_eq!(row["state"], "done", "{row}");
        assert_eq!(row["owner"], "ada", "the owner is who submits: {row}");
        assert!(row["profile"].is_object(), "it is measured: {row}");
    }
}
