//! Values and keys of submit files as people write them, and the remedies for wrong ones.

use std::fmt;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// A word of a command line or an environment.
#[derive(Debug)]
pub(super) enum Word {
    /// A string.
    Text(String),
    /// A number or a boolean, with a value where its text in the file is not known.
    Written(String),
}

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Words;
        impl Visitor<'_> for Words {
            type Value = Word;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string, a number or a boolean")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Word, E> {
                Ok(Word::Text(text.to_owned()))
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Word, E> {
                Ok(Word::Written(value.to_string()))
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Word, E> {
                Ok(Word::Written(value.to_string()))
            }

            fn visit_bool<E: Error>(self, value: bool) -> Result<Word, E> {
                Ok(Word::Written(value.to_string()))
            }
        }
        from.deserialize_any(Words)
    }
}

/// One file, or several.
#[derive(Debug)]
pub(super) struct Files(pub(super) Vec<String>);

impl<'de> Deserialize<'de> for Files {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct OneOrMore;
        impl<'de> Visitor<'de> for OneOrMore {
            type Value = Files;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a file, or a list of files")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Files, E> {
                Ok(Files(vec![text.to_owned()]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Files, A::Error> {
                let mut files = Vec::new();
                while let Some(file) = list.next_element()? {
                    files.push(file);
                }
                Ok(Files(files))
            }
        }
        from.deserialize_any(OneOrMore)
    }
}

/// Whether a text has the form of a variable's name, as capitals are usual.
pub(super) fn is_variable(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    text.chars().all(fits)
}

/// Whether a variable of this name usually holds a secret.
pub(crate) fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let ends = ["KEY", "TOKEN", "PASSWORD", "PASSWD", "CREDENTIALS"];
    let last = name.rsplit('_').next().unwrap_or_default();
    ends.contains(&last) || name.contains("SECRET")
}

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

/// What to write instead of what toml or serde refuses with this message.
pub(super) fn remedy(message: &str) -> String {
    if message.contains("expected a sequence") {
        return "a trainer begins with [[trainer]], in two brackets".to_owned();
    }
    if message.contains("expected a string, a number or a boolean") {
        return "write it in quotes".to_owned();
    }
    let unknown = message.strip_prefix("unknown field `");
    let Some((key, expected)) = unknown.and_then(|rest| rest.split_once('`')) else {
        return "see deploy/examples/".to_owned();
    };
    let plain = key.to_ascii_lowercase().replace('-', "_");
    let foreign = FOREIGN
        .iter()
        .find(|(names, _)| names.contains(&plain.as_str()));
    if let Some((_, right)) = foreign.filter(|_| expected.contains("`launcher`")) {
        return format!("write {right}");
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
pub(super) fn shortened(mut message: String) -> String {
    if let Some(at) = message
        .find(", expected one of")
        .filter(|_| message.len() > 200)
    {
        message.truncate(at);
    }
    message
}
