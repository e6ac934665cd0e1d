//! Command line and environment of a program. The submitter's environment reaches the guard as data
//! on its input, and only the program as environment. Of the agent's own environment both get the
//! variables of a list.

use std::ffi::{OsStr, OsString};
use std::num::NonZeroUsize;
use std::path::Path;

use lacuna_model::{Assignment, Elastic, Launch, NodeId, Program, Work};

use super::files::Files;
use super::front;
use crate::guard::PROGRESS_FILE;
use lacuna_owner::Account;

/// The id of a rendezvous, as torchrun reads it from the environment. The token of the incarnation
/// is the id, so the store knows torchrun's keys by it. Everyone may read arguments of a process.
const RENDEZVOUS: &str = "PET_RDZV_ID";

/// Variables of the agent's environment that a program gets; `*` matches any ending. All others
/// may be secrets of the agent, of the site or of the job that started it. `agent.pass_env` adds
/// more.
const PASSED: [&str; 24] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LC_*",
    "TZ",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
    "LD_LIBRARY_PATH",
    "PYTHONPATH",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "MODULEPATH",
    "CUDA_*",
    "NVIDIA_*",
    "ROCR_*",
    "HIP_*",
    "OMP_*",
    "NCCL_*",
    "GLOO_*",
    "SLURM_JOB_ID",
    "SLURMD_NODENAME",
];

/// Variables of [`PASSED`] that are lists of folders.
const LISTS: [&str; 3] = ["PATH", "LD_LIBRARY_PATH", "PYTHONPATH"];

/// Variables of [`PASSED`] that are of the agent's own account.
const PERSONAL: [&str; 6] = [
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
];

/// Whether a variable of the agent's environment is of its account alone.
pub(super) fn is_personal(name: &OsString) -> bool {
    PERSONAL.iter().any(|personal| name == personal)
}

/// The variables of an account with its private temporary folder. The submitter may set others.
pub(super) fn of_account(account: &Account, folder: &Path) -> [(&'static str, String); 5] {
    let path = |path: &Path| path.display().to_string();
    [
        ("HOME", path(&account.home)),
        ("USER", account.name.clone()),
        ("LOGNAME", account.name.clone()),
        ("SHELL", path(&account.shell)),
        ("TMPDIR", path(folder)),
    ]
}

/// The variables of an environment that guards and programs get.
pub(super) fn passed(
    own: impl Iterator<Item = (OsString, OsString)>,
    more: &[String],
) -> Vec<(OsString, OsString)> {
    let names: Vec<&str> = PASSED
        .into_iter()
        .chain(more.iter().map(String::as_str))
        .collect();
    let fits = |name: &str| {
        names.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == *pattern,
        })
    };
    own.filter(|(name, _)| name.to_str().is_some_and(fits))
        .map(|(name, value)| {
            let value = match name.to_str() {
                Some(list) if LISTS.contains(&list) => whole(&value),
                _ => value,
            };
            (name, value)
        })
        .collect()
}

/// A list of folders whose relative ones begin at the agent's folder, since programs run in others.
fn whole(list: &OsStr) -> OsString {
    let folders = std::env::split_paths(list).map(|folder| {
        // An empty one stands for the folder of the program.
        std::path::absolute(&folder).unwrap_or(folder)
    });
    std::env::join_paths(folders).unwrap_or_else(|_| list.to_owned())
}

/// The variable by which numerical libraries limit their threads.
const THREADS: &str = "OMP_NUM_THREADS";

/// The variable with each worker's part of the cores, if a node has several workers and the
/// environment says nothing: else each would start a thread for each core.
pub(super) fn threads(
    workers: u32,
    environment: &[(OsString, OsString)],
) -> Option<(&'static str, String)> {
    let said = environment.iter().any(|(name, _)| name == THREADS);
    if workers == 1 || said {
        return None;
    }
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let each = cores / workers as usize;
    Some((THREADS, each.max(1).to_string()))
}

/// The program with its arguments, after the command that joins its workers.
///
/// # Errors
/// If the trainer has no program, or no store is configured where one is needed.
pub(super) fn command_line(
    assignment: &Assignment,
    torchrun: &[String],
    files: &Files,
) -> Result<Vec<String>, String> {
    let Launch::Command(Program {
        program,
        args,
        elastic,
        ..
    }) = &*assignment.launch
    else {
        return Err("not a trainer with a program".to_owned());
    };
    let mut line = Vec::new();
    if let Elastic::Torchrun { workers_per_node } = elastic {
        let (Some(store), Some(_)) = (&assignment.store, &assignment.token) else {
            return Err(no_store("torchrun"));
        };
        line.extend(torchrun.iter().cloned());
        // A relative path begins at the agent's folder.
        if let Some(first) = line.first_mut().filter(|first| first.contains('/')) {
            *first = path(Path::new(first));
        }
        // The membership is fixed, and so is the rendezvous id ([`RENDEZVOUS`]). torchrun does not
        // restart workers itself, since control decides after their end.
        line.extend([
            format!("--nnodes={}", assignment.nodes),
            format!("--nproc_per_node={workers_per_node}"),
            "--max_restarts=0".to_owned(),
            "--monitor_interval=0.1".to_owned(),
            format!("--rdzv_backend={}", front::RENDEZVOUS),
            format!("--rdzv_endpoint={store}"),
            format!("--rdzv_conf=rank={},join_timeout=120", assignment.rank),
            // Workers print to files and to the output. Without the files torch 1.13 under Python
            // 3.11 fails.
            format!("--log_dir={}", path(&files.workers)),
            "--redirects=1".to_owned(),
            "--tee=1".to_owned(),
        ]);
        if !is_python(program) {
            line.push("--no_python".to_owned());
        }
        // Else torchrun takes options of the program for abbreviations of its own.
        line.push("--".to_owned());
    }
    line.push(program.clone());
    line.extend(args.iter().cloned());
    Ok(line)
}

/// A path from the root on.
fn path(path: &Path) -> String {
    let whole = std::path::absolute(path);
    whole
        .unwrap_or_else(|_| path.to_owned())
        .display()
        .to_string()
}

fn is_python(program: &str) -> bool {
    Path::new(program)
        .extension()
        .is_some_and(|extension| extension == "py")
}

/// The error for members without a store at which they can meet.
pub(super) fn no_store(launcher: &str) -> String {
    format!(
        "launcher {launcher} needs a store: set [control] store = \"host:29400\", with a name of \
         control's machine that nodes know"
    )
}

/// The variables that a program gets in addition to the submitter's. `members` are the nodes of its
/// incarnation.
pub(super) fn environment(
    assignment: &Assignment,
    node: &NodeId,
    members: &[NodeId],
    files: &Files,
) -> Vec<(&'static str, String)> {
    let a = assignment;
    let checkpoint_dir = match &*a.launch {
        Launch::Command(Program { checkpoint_dir, .. }) => {
            checkpoint_dir.clone().unwrap_or_default()
        }
        Launch::Simulated => String::new(),
    };
    let members: Vec<&str> = members.iter().map(NodeId::as_str).collect();
    let total = match a.work {
        Work::Samples(samples) => samples.to_string(),
        Work::UntilExit => String::new(),
    };
    let rendezvous = a.token.iter().filter(|_| a.launch.by_torchrun());
    let rendezvous = rendezvous.map(|token| (RENDEZVOUS, token.reveal().to_owned()));
    let ours = [
        ("LACUNA_TRAINER", a.trainer.to_string()),
        ("LACUNA_RUN", a.run.0.to_string()),
        ("LACUNA_NODE", node.to_string()),
        ("LACUNA_RANK", a.rank.to_string()),
        ("LACUNA_WORLD_SIZE", a.nodes.to_string()),
        ("LACUNA_MEMBERS", members.join(",")),
        (
            "LACUNA_LEADER",
            members.first().copied().unwrap_or_default().to_owned(),
        ),
        (PROGRESS_FILE, path(&files.progress)),
        ("LACUNA_DEADLINE_FILE", path(&files.deadline)),
        ("LACUNA_CHECKPOINT_DIR", checkpoint_dir),
        (
            "LACUNA_CHECKPOINT",
            a.checkpoint.clone().unwrap_or_default(),
        ),
        ("LACUNA_SAMPLES_DONE", a.samples_before.to_string()),
        ("LACUNA_SAMPLES_TOTAL", total),
    ];
    ours.into_iter().chain(rendezvous).collect()
}

#[cfg(test)]
mod tests {
    use lacuna_model::Token;

    use super::*;

    #[test]
    fn a_program_gets_only_named_variables_of_the_agents_environment() {
        let own = [
            ("PATH", "/bin"),
            ("LC_TIME", "C"),
            ("CUDA_HOME", "/cuda"),
            ("LACUNA_NATS", "nats://u:secret@host"),
            ("LACUNA_IDENTITY", "/id"),
            ("SLURM_JWT", "token"),
            ("PATHS", "x"),
            ("SITE_A", "1"),
            ("LD_PRELOAD", "/x.so"),
        ];
        let own = own.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let names = |more: &[String]| -> Vec<String> {
            let passed = passed(own.clone().into_iter(), more).into_iter();
            passed
                .map(|(name, _)| name.into_string().unwrap())
                .collect()
        };
        assert_eq!(names(&[]), ["PATH", "LC_TIME", "CUDA_HOME"]);
        let more = ["SITE_*".to_owned()];
        assert_eq!(names(&more), ["PATH", "LC_TIME", "CUDA_HOME", "SITE_A"]);
    }

    #[test]
    fn several_workers_share_the_cores_unless_the_environment_says_otherwise() {
        assert_eq!(threads(1, &[]), None);
        assert_eq!(threads(4096, &[]), Some((THREADS, "1".to_owned())));
        let said = [(OsString::from(THREADS), OsString::from("8"))];
        assert_eq!(threads(4, &said), None);
    }

    #[test]
    fn torchrun_gets_the_token_by_its_environment_and_not_by_an_argument() {
        let launch = |elastic| lacuna_testkit::launch(elastic);
        let torch = launch(Elastic::Torchrun {
            workers_per_node: 2,
        });
        let mut part = Assignment {
            rank: 1,
            nodes: 2,
            store: Some("host:29400".to_owned()),
            token: Some(Token::new(7)),
            ..lacuna_testkit::assignment("t", 3, torch.clone())
        };
        let node = NodeId::new("n").unwrap();
        let files = Files::new(Path::new("/work"), "t", &node, part.run);
        let torchrun = ["torchrun".to_owned()];
        let secret = Token::new(7).reveal().to_owned();
        let line = command_line(&part, &torchrun, &files).unwrap();
        assert!(line.contains(&"--rdzv_endpoint=host:29400".to_owned()));
        assert!(
            !line
                .iter()
                .any(|word| word.contains(&secret) || word.contains("rdzv_id"))
        );
        let ours = environment(&part, &node, &[], &files);
        let with_token = ours.iter().filter(|(_, value)| value.contains(&secret));
        let names: Vec<&str> = with_token.map(|(name, _)| *name).collect();
        assert_eq!(names, ["PET_RDZV_ID"]);
        // A program that regroups learns it from its agent, run by run.
        part.launch = launch(Elastic::REGROUP).into();
        let ours = environment(&part, &node, &[], &files);
        assert!(!ours.iter().any(|(_, value)| value.contains(&secret)));
        part.launch = torch.into();
        part.token = None;
        let refused = command_line(&part, &torchrun, &files).unwrap_err();
        assert!(refused.contains("[control] store"), "{refused}");
    }
}
