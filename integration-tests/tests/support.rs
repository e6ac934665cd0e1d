//! Shared by several modules: paths of the workspace, and outputs of programs.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The workspace's root folder.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the crate lies in the workspace")
        .to_path_buf()
}

/// The path of the command `lacuna`, beside the test's own folder.
pub(crate) fn lacuna() -> String {
    lacuna_testkit::program("lacuna").display().to_string()
}

/// A file of the workspace as text.
pub(crate) fn read(path: &str) -> String {
    let full = root().join(path);
    std::fs::read_to_string(&full).unwrap_or_else(|e| panic!("{}: {e}", full.display()))
}

/// Files under a folder of the workspace with this extension, relative to the root, sorted.
pub(crate) fn files(under: &str, extension: &str) -> Vec<String> {
    fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
        let Ok(entries) = std::fs::read_dir(dir) else {
            return;
        };
        for entry in entries.flatten() {
            let path = entry.path();
            let name = entry.file_name();
            if path.is_dir() && name != "target" && !name.to_string_lossy().starts_with('.') {
                walk(&path, found);
            } else if path.is_file() {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&root().join(under), &mut found);
    let mut names: Vec<String> = found
        .into_iter()
        .filter(|p| p.extension().is_some_and(|e| e == extension))
        .map(|p| p.strip_prefix(root()).unwrap().display().to_string())
        .collect();
    names.sort();
    names
}

/// The output of a finished program, and whether it succeeded.
pub(crate) struct Output {
    pub(crate) ok: bool,
    /// The exit code; -1 if a signal ended it.
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs a program in the workspace's root and waits for it.
pub(crate) fn run(program: &str, args: &[&str], env: &[(&str, &str)]) -> std::io::Result<Output> {
    let output = Command::new(program)
        .args(args)
        .envs(env.iter().copied())
        .current_dir(root())
        .output()?;
    Ok(Output {
        ok: output.status.success(),
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// Gets a path over HTTP; nothing if no answer comes.
pub(crate) fn get(at: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(at).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    let ask = format!("GET {path} HTTP/1.0\r\nHost: {at}\r\nConnection: close\r\n\r\n");
    stream.write_all(ask.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer
        .split_once("\r\n\r\n")
        .map(|(_, body)| body.to_owned())
}

/// The value of a metric without labels, or with them.
pub(crate) fn count(exposition: &str, name: &str) -> u64 {
    let line = exposition
        .lines()
        .find(|l| l.strip_prefix(name).is_some_and(|l| l.starts_with(' ')))
        .unwrap_or_else(|| panic!("no {name} in {exposition}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}
