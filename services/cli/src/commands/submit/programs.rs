//! Whether this machine has the program of a trainer.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use lacuna_model::{Elastic, Launch};

/// Why a program could not be started on this machine; nothing if it could, or if that is not
/// known. `path` are the folders in which programs without a path are looked for.
pub(super) fn fault(launch: &Launch, path: Option<&OsStr>) -> Option<String> {
    let Launch::Command {
        program,
        args,
        env,
        elastic,
        ..
    } = launch
    else {
        return None;
    };
    // torchrun starts a script by the Python that it belongs to.
    if matches!(elastic, Elastic::Torchrun { .. }) && program.ends_with(".py") {
        return missing(program);
    }
    let own = env.get("PATH").map(OsString::from);
    let path = own.as_deref().or(path);
    let at_fault = if program.contains('/') {
        missing(program).or_else(|| not_executable(program))
    } else {
        not_found(program, path)
    };
    at_fault.or_else(|| script(program, args).and_then(missing))
}

/// Why a program forgets its work, if it says nothing of checkpoints and needs them.
pub(super) fn forgets(launch: &Launch) -> Option<&'static str> {
    let torchrun = matches!(
        launch,
        Launch::Command {
            elastic: Elastic::Torchrun { .. },
            checkpoint_dir: None,
            ..
        }
    );
    torchrun.then_some("without checkpoint_dir it starts from nothing at each change of its nodes")
}

/// The script that a Python is given.
fn script<'a>(program: &str, args: &'a [String]) -> Option<&'a str> {
    let name = Path::new(program).file_name()?.to_str()?;
    let first = args.first().filter(|_| name.starts_with("python"))?;
    first.ends_with(".py").then_some(first.as_str())
}

fn missing(path: &str) -> Option<String> {
    let place = Path::new(path);
    if place.is_relative() {
        return Some(format!(
            "{path} is no whole path, and a program runs in its agent's folder"
        ));
    }
    (!place.is_file()).then(|| format!("there is no file {path}"))
}

fn not_executable(program: &str) -> Option<String> {
    let mode = std::fs::metadata(program).ok()?.permissions().mode();
    (mode & 0o111 == 0).then(|| format!("{program} is not executable: chmod +x {program}"))
}

fn not_found(program: &str, path: Option<&OsStr>) -> Option<String> {
    let folders = std::env::split_paths(path?);
    let mut places = folders.map(|folder| folder.join(program));
    let found = places.any(|place| {
        let meta = std::fs::metadata(place);
        meta.is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    });
    (!found).then(|| format!("no folder of PATH has the program {program}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn launch(program: &str, args: &[&str], elastic: Elastic) -> Launch {
        Launch::Command {
            program: program.to_owned(),
            args: args.iter().map(ToString::to_string).collect(),
            env: BTreeMap::new(),
            checkpoint_dir: None,
            profile: true,
            family: None,
            elastic,
        }
    }

    #[test]
    fn a_program_under_torchrun_needs_checkpoints() {
        let torchrun = Elastic::Torchrun {
            workers_per_node: 1,
        };
        let mut under_torchrun = launch("/t.py", &[], torchrun);
        assert!(forgets(&under_torchrun).is_some());
        assert_eq!(forgets(&launch("/t.py", &[], Elastic::Restart)), None);
        if let Launch::Command { checkpoint_dir, .. } = &mut under_torchrun {
            *checkpoint_dir = Some("/ckpt".to_owned());
        }
        assert_eq!(forgets(&under_torchrun), None);
    }

    #[test]
    fn a_program_that_is_not_there_or_cannot_run_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("train.py");
        std::fs::write(&file, "").unwrap();
        let script = file.to_str().unwrap();
        let none = script.replace("train.py", "none.py");
        let folders = dir.path().as_os_str();
        let torchrun = Elastic::Torchrun {
            workers_per_node: 1,
        };
        let (restart, sh) = (Elastic::Restart, "/bin/sh");
        for (program, args, elastic, expected) in [
            (sh, vec![], restart, None),
            (sh, vec![none.as_str()], restart, None),
            (script, vec![], torchrun, None),
            (none.as_str(), vec![], torchrun, Some("there is no file")),
            (none.as_str(), vec![], restart, Some("there is no file")),
            (script, vec![], restart, Some("chmod +x")),
            ("train.py", vec![], restart, Some("no folder of PATH")),
            ("sh", vec![], restart, Some("no folder of PATH")),
        ] {
            let said = fault(&launch(program, &args, elastic), Some(folders));
            let fits = match (&said, expected) {
                (None, None) => true,
                (Some(said), Some(part)) => said.contains(part),
                _ => false,
            };
            assert!(fits, "{program} {args:?}: {said:?}");
        }
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&file, mode).unwrap();
        let found = launch("train.py", &[], restart);
        assert_eq!(fault(&found, Some(folders)), None);
        // Its own PATH counts, and the script of a Python.
        let python = dir.path().join("python3");
        std::fs::copy(&file, python).unwrap();
        for (args, expected) in [
            (vec![script], false),
            (vec!["-m", "train.py"], false),
            (vec!["train.py"], true),
            (vec![none.as_str()], true),
        ] {
            let mut launch = launch("python3", &args, Elastic::REGROUP);
            if let Launch::Command { env, .. } = &mut launch {
                env.insert("PATH".to_owned(), dir.path().display().to_string());
            }
            let said = fault(&launch, Some(OsStr::new("/nonexistent")));
            assert_eq!(said.is_some(), expected, "{args:?}: {said:?}");
        }
        assert_eq!(fault(&Launch::Simulated, None), None);
    }
}
