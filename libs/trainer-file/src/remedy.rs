//! What to write instead of what is wrong.

/// Keys of other tools, with the key of a submit file and how it is written.
const FOREIGN: [(&[&str], &str); 12] = [
    (
        &[
            "workdir",
            "work_dir",
            "working_dir",
            "working_directory",
            "cwd",
            "chdir",
            "dir",
            "folder",
        ],
        "directory = \"/home/you/project\"",
    ),
    (
        &["env", "envs", "environ", "variables", "export"],
        "environment = { NAME = \"value\" }",
    ),
    (
        &[
            "env_file",
            "envfile",
            "env_from",
            "environment_file",
            "secrets",
        ],
        "environment_from = \"/home/you/secrets.env\"",
    ),
    (
        &["args", "argv", "arg", "parameters", "params", "options"],
        "arguments = [\"--lr\", 0.1]",
    ),
    (
        &[
            "script",
            "command",
            "cmd",
            "entrypoint",
            "executable",
            "main",
            "exec",
            "run",
        ],
        "program = \"./train.py\" with arguments = [...]",
    ),
    (
        &[
            "nodes",
            "num_nodes",
            "nnodes",
            "replicas",
            "node_count",
            "count",
        ],
        "min_nodes = 1 and max_nodes = 4: it trains on as many as are idle",
    ),
    (
        &[
            "gpus",
            "ngpus",
            "gres",
            "ntasks",
            "nproc",
            "nproc_per_node",
            "ntasks_per_node",
            "workers",
            "gpus_per_node",
        ],
        "workers_per_node = 4, one for each GPU",
    ),
    (
        &[
            "time",
            "timeout",
            "walltime",
            "time_limit",
            "max_time",
            "hours",
        ],
        "deadline = \"2026-03-01T08:00:00Z\", or leave it out: it trains until samples are done",
    ),
    (&["job_name", "jobname", "id", "title"], "name = \"hpo-12\""),
    (
        &[
            "checkpoints",
            "checkpoint",
            "ckpt_dir",
            "ckpt",
            "output_dir",
            "checkpoint_path",
            "checkpoint_folder",
            "checkpoint_directory",
        ],
        "checkpoint_dir = \"/scratch/you/hpo-12\"",
    ),
    (&["user", "account", "username"], "owner = \"you\""),
    (
        &["begin", "start_time", "start", "after"],
        "not_before = \"2026-03-01T08:00:00Z\"",
    ),
];

/// Keys whose values have a form of their own, or without which there is no trainer.
const FORMS: [(&str, &str); 15] = [
    ("name", "\"hpo-12\""),
    (
        "launcher",
        "\"simulated\", \"command\", \"torchrun\" or \"regroup\"",
    ),
    ("min_nodes", "1, a whole number"),
    ("max_nodes", "4, a whole number"),
    (
        "scaling",
        "{ nodes = [1, 4], samples_per_s = [100.0, 350.0] }",
    ),
    ("kinds", "{ gpu = { nodes = [1], samples_per_s = [90.0] } }"),
    ("together", "[{ cpu = 4, gpu = 1, samples_per_s = 120.0 }]"),
    ("loaders", "{ kind = \"cpu\", nodes = 4, processes = 8 }"),
    ("distance", "{ shares = [0.8] }"),
    ("rescale", "{ up = \"18s\", down = \"12s\" }"),
    ("deadline", "\"2026-03-01T08:00:00Z\""),
    ("not_before", "\"2026-03-01T08:00:00Z\""),
    (
        "stages",
        "[{ from = 50000, samples_per_s = [90.0, 150.0] }]",
    ),
    ("layers", "\"ctr.json\", a profile of lacuna.profile_layers"),
    ("environment_from", "\"/home/you/secrets.env\""),
];

/// What to write for a key with a form of its own.
pub(crate) fn form(key: &str) -> String {
    let form = FORMS.iter().find(|(of, _)| *of == key);
    form.map_or_else(String::new, |(key, form)| format!("write {key} = {form}"))
}

/// What to write instead of a key of another tool.
fn foreign(key: &str) -> Option<String> {
    let foreign = FOREIGN.iter().find(|(names, _)| names.contains(&key));
    foreign.map(|(_, right)| format!("write {right}"))
}

/// What to write instead of what toml or serde refuses with this message.
pub(crate) fn remedy(message: &str, key: Option<&str>) -> String {
    if let Some(key) = key.filter(|key| FORMS.iter().any(|(of, _)| of == key)) {
        return form(key);
    }
    if let (Some("nodes"), true) = (key, message.contains("expected a sequence")) {
        return foreign("nodes").unwrap_or_default();
    }
    let by_type = [
        ("expected a string", "write it in quotes"),
        ("expected f64", "write a number, as 1.5"),
        ("expected u32", "write a whole number from 0 to 4294967295"),
        ("expected i32", "write a whole number, as 1"),
        ("expected a boolean", "write true or false"),
        ("duplicate key", "keep one of the two"),
        ("extra comma", "leave one comma out"),
        (
            "string values must be quoted",
            "write a value; a text in quotes",
        ),
    ];
    if let Some((_, right)) = by_type.iter().find(|(said, _)| message.contains(said)) {
        return (*right).to_owned();
    }
    let unknown = message.strip_prefix("unknown field `");
    let Some((key, expected)) = unknown.and_then(|rest| rest.split_once('`')) else {
        return "see deploy/examples/".to_owned();
    };
    let plain = key.to_ascii_lowercase().replace('-', "_");
    let foreign = foreign(&plain).filter(|_| expected.contains("`launcher`"));
    if let Some(right) = foreign {
        return right;
    }
    let known = expected.split('`').skip(1).step_by(2);
    let nearest = known
        .map(|known| (strsim::damerau_levenshtein(&plain, known), known))
        .min();
    match nearest {
        Some((steps, known)) if steps <= 1 + known.len() / 4 => format!("write {known}"),
        _ => "see deploy/examples/".to_owned(),
    }
}

/// The message without the list of all keys.
pub(crate) fn shortened(message: &str) -> &str {
    let list = message.find(", expected one of");
    let end = list.filter(|_| message.len() > 200);
    end.and_then(|at| message.get(..at)).unwrap_or(message)
}

/// The key that a fault of syntax is about, at this place of a file.
pub(crate) fn key_of<'t>(text: &'t str, at: usize, message: &str) -> Option<&'t str> {
    let is_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let key = if message.starts_with("duplicate key") {
        text.get(at..)?.split(|c| !is_key(c)).next()?
    } else {
        let (before, between) = text.get(..at)?.rsplit_once('=')?;
        // A value of a list belongs to the key of the list.
        let is_in_list = between.matches('[').count() > between.matches(']').count();
        if !(is_in_list || between.trim().is_empty()) {
            return None;
        }
        let begin = before.rfind(['\n', '{', ',']).map_or(0, |at| at + 1);
        before.get(begin..)?.trim()
    };
    (!key.is_empty() && key.chars().all(is_key)).then_some(key)
}
