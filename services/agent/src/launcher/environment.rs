//! What a program is started with: its command line and its environment.

use std::path::{Path, PathBuf};

use lacuna_model::{Assignment, Elastic, Launch, NodeId, Work};

use super::files::Files;

/// The program and its arguments, with what brings its workers together in front.
///
/// # Errors
/// If the trainer has no program, or nothing says where its workers meet.
pub(super) fn command_line(
    assignment: &Assignment,
    torchrun: &[String],
    files: &Files,
) -> Result<Vec<String>, String> {
    let Launch::Command {
        program,
        args,
        elastic,
        ..
    } = &*assignment.launch
    else {
        return Err("not a trainer with a program".to_owned());
    };
    let mut line = Vec::new();
    if let Elastic::Torchrun { workers_per_node } = elastic {
        let Some(store) = &assignment.store else {
            return Err(no_store("torchrun"));
        };
        line.extend(torchrun.iter().cloned());
        // The membership is fixed, and so is its name: the next one is another rendezvous. No
        // worker is started again by torchrun itself: control sees its end, and knows better.
        line.extend([
            format!("--nnodes={}", assignment.members.len()),
            format!("--node_rank={}", assignment.rank),
            format!("--nproc_per_node={workers_per_node}"),
            "--max_restarts=0".to_owned(),
            "--monitor_interval=0.1".to_owned(),
            "--rdzv_backend=c10d".to_owned(),
            format!("--rdzv_endpoint={store}"),
            format!("--rdzv_id={}-{}", assignment.trainer, assignment.run.0),
            "--rdzv_conf=is_host=0,last_call_timeout=1,join_timeout=120".to_owned(),
            // Workers print to files and to the output: torch 1.13 under Python 3.11 fails
            // without the former.
            format!("--log_dir={}", files.workers.display()),
            "--redirects=1".to_owned(),
            "--tee=1".to_owned(),
        ]);
        if !is_python(program) {
            line.push("--no_python".to_owned());
        }
    }
    line.push(program.clone());
    line.extend(args.iter().cloned());
    Ok(line)
}

fn is_python(program: &str) -> bool {
    Path::new(program)
        .extension()
        .is_some_and(|extension| extension == "py")
}

/// What to say where members cannot find each other.
pub(super) fn no_store(launcher: &str) -> String {
    format!(
        "launcher {launcher} needs a store: run `python3 -m lacuna.store` beside control and \
         set [control] store = \"host:29400\""
    )
}

/// What the program finds beside the owner's own environment.
pub(super) fn environment(
    assignment: &Assignment,
    node: &NodeId,
    files: &Files,
) -> Vec<(&'static str, String)> {
    let a = assignment;
    let checkpoint_dir = match &*a.launch {
        Launch::Command { checkpoint_dir, .. } => checkpoint_dir.clone().unwrap_or_default(),
        Launch::Simulated => String::new(),
    };
    let members: Vec<&str> = a.members.iter().map(|m| m.node.as_str()).collect();
    let total = match a.work {
        Work::Samples(samples) => samples.to_string(),
        Work::UntilExit => String::new(),
    };
    let path = |path: &PathBuf| {
        std::path::absolute(path)
            .unwrap_or_else(|_| path.clone())
            .display()
            .to_string()
    };
    vec![
        ("LACUNA_TRAINER", a.trainer.to_string()),
        ("LACUNA_RUN", a.run.0.to_string()),
        ("LACUNA_NODE", node.to_string()),
        ("LACUNA_RANK", a.rank.to_string()),
        ("LACUNA_WORLD_SIZE", a.members.len().to_string()),
        ("LACUNA_MEMBERS", members.join(",")),
        (
            "LACUNA_LEADER",
            members.first().copied().unwrap_or_default().to_owned(),
        ),
        ("LACUNA_PROGRESS_FILE", path(&files.progress)),
        ("LACUNA_DEADLINE_FILE", path(&files.deadline)),
        ("LACUNA_CHECKPOINT_DIR", checkpoint_dir),
        (
            "LACUNA_CHECKPOINT",
            a.checkpoint.clone().unwrap_or_default(),
        ),
        ("LACUNA_SAMPLES_DONE", a.samples_before.to_string()),
        ("LACUNA_SAMPLES_TOTAL", total),
    ]
}
