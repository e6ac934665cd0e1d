//! Whether this machine has the program of a trainer.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use lacuna_model::{Directory, Elastic, Launch, Program, TrainerSpec, Work};

use lacuna_trainer_file::is_secret;

/// Why a program could not be started on this machine; nothing if it could, or if that is not
/// known. `path` are the folders in which programs without a path are looked for.
pub(super) fn fault(launch: &Launch, path: Option<&OsStr>) -> Option<String> {
    let Launch::Command(Program {
        program,
        args,
        env,
        directory,
        environment_from,
        elastic,
        ..
    }) = launch
    else {
        return None;
    };
    if let Directory::Required(folder) = directory
        && !Path::new(folder).is_dir()
    {
        return Some(format!("there is no folder {folder}"));
    }
    if let Some(fault) = environment_from.iter().find_map(|file| exposed_file(file)) {
        return Some(fault);
    }
    // torchrun starts a script by the Python that it belongs to.
    if matches!(elastic, Elastic::Torchrun { .. }) && program.ends_with(".py") {
        return missing(program, directory);
    }
    let own = env.get("PATH").map(OsString::from);
    let path = own.as_deref().or(path);
    let at_fault = if program.contains('/') {
        missing(program, directory).or_else(|| not_executable(program))
    } else {
        not_found(program, path)
    };
    at_fault.or_else(|| script(program, args).and_then(|script| missing(script, directory)))
}

/// The trainers that lose work where nodes come and go, as one warning. Under `torchrun` every change
/// of nodes starts the program again, under `command` too. There the work is safe if its amount is
/// given: control counts it, and the program finds `LACUNA_SAMPLES_DONE`. Members that regroup keep it
/// as long as `min_nodes` of them are left, which of one node is seldom in doubt.
pub(super) fn forgetful(trainers: &[TrainerSpec]) -> Option<String> {
    let forgets = |spec: &&TrainerSpec| match &spec.launch {
        Launch::Command(Program {
            checkpoint_dir: None,
            elastic,
            ..
        }) => match elastic {
            Elastic::Torchrun { .. } => true,
            Elastic::Restart => spec.work == Work::UntilExit,
            Elastic::Regroup { .. } => spec.min_nodes > 1,
        },
        _ => false,
    };
    let mut found = trainers.iter().filter(forgets);
    let first = &found.next()?.id;
    let who = match found.count() {
        0 => format!("trainer {first}"),
        more => format!("trainer {first} and {more} more"),
    };
    Some(format!(
        "{who}: no checkpoint_dir: work is lost when the program is stopped, as at a change of its nodes \
         (write checkpoint_dir, and save there)"
    ))
}

/// Why a file with variables is refused, where it is the one that nodes read.
fn exposed_file(file: &str) -> Option<String> {
    match std::fs::metadata(file) {
        Err(error) => Some(format!("environment_from: {file}: {error}")),
        Ok(found) if !found.is_file() => Some(format!("environment_from: {file} is no file")),
        Ok(found) if found.permissions().mode() & 0o077 != 0 => Some(format!(
            "environment_from: other users can read {file}: chmod 600 {file}"
        )),
        Ok(_) => None,
    }
}

/// The variables whose values travel with a trainer, though their names are those of secrets.
pub(super) fn exposed(launch: &Launch) -> Option<String> {
    let Launch::Command(Program { env, .. }) = launch else {
        return None;
    };
    let names: Vec<&str> = env.keys().map(String::as_str).collect();
    let secret: Vec<&str> = names.into_iter().filter(|name| is_secret(name)).collect();
    (!secret.is_empty()).then(|| {
        format!(
            "all who may watch the cluster can read {} of its environment: write it into a file of \
             the nodes that only you can read, and name that by environment_from = \"FILE\"",
            secret.join(", ")
        )
    })
}

/// The script that a Python is given.
fn script<'a>(program: &str, args: &'a [String]) -> Option<&'a str> {
    let name = Path::new(program).file_name()?.to_str()?;
    let first = args.first().filter(|_| name.starts_with("python"))?;
    first.ends_with(".py").then_some(first.as_str())
}

fn missing(path: &str, directory: &Directory) -> Option<String> {
    let place = directory.named().map_or_else(PathBuf::new, PathBuf::from);
    let place = place.join(path);
    if place.is_relative() {
        return Some(format!(
            "{path} is no whole path, and no directory is named in which it would be"
        ));
    }
    let path = place.display();
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
    (!found).then(|| {
        format!(
            "no folder of PATH has the program {program} (./{program} is the one beside the submit \
             file)"
        )
    })
}

#[cfg(test)]
mod tests {

    use super::*;

    fn launch(program: &str, args: &[&str], elastic: Elastic) -> Launch {
        Launch::Command(Program {
            program: program.to_owned(),
            args: args.iter().map(ToString::to_string).collect(),
            profile: true,
            elastic,
            ..Program::default()
        })
    }

    #[test]
    fn trainers_that_a_stop_makes_forget_their_work_are_named_in_one_warning() {
        let torchrun = Elastic::Torchrun {
            workers_per_node: 1,
        };
        let trainer = |name: &str, elastic, min_nodes, work| TrainerSpec {
            id: lacuna_model::TrainerId::new(name).unwrap(),
            min_nodes,
            work,
            launch: launch("/t.py", &[], elastic),
            ..lacuna_testkit::spec("any", 4)
        };
        let (restart, exit) = (Elastic::Restart, Work::UntilExit);
        let safe = trainer("safe", restart, 1, Work::Samples(1e3));
        let alone = trainer("alone", Elastic::REGROUP, 1, exit);
        let none = [safe, alone, lacuna_testkit::spec("simulated", 4)];
        assert_eq!(forgetful(&none), None);
        let mut some = vec![
            trainer("a", torchrun, 1, Work::Samples(1e3)),
            trainer("b", restart, 1, exit),
            trainer("c", Elastic::REGROUP, 2, exit),
        ];
        let said = forgetful(&some).unwrap();
        assert!(
            said.starts_with("trainer a and 2 more: no checkpoint_dir: "),
            "{said}"
        );
        for spec in &mut some {
            if let Launch::Command(Program { checkpoint_dir, .. }) = &mut spec.launch {
                *checkpoint_dir = Some("/ckpt".to_owned());
            }
        }
        assert_eq!(forgetful(&some), None);
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
            if let Launch::Command(Program { env, .. }) = &mut launch {
                env.insert("PATH".to_owned(), dir.path().display().to_string());
            }
            let said = fault(&launch, Some(OsStr::new("/nonexistent")));
            assert_eq!(said.is_some(), expected, "{args:?}: {said:?}");
        }
        assert_eq!(fault(&Launch::Simulated, None), None);
    }
}
