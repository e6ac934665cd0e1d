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

/// Keys whose values have a form of their own, or without which there is no trainer.
const FORMS: [(&str, &str); 12] = [
    ("name", "\"hpo-12\""),
    (
        "launcher",
        "\"command\", \"torchrun\", \"regroup\" or \"simulated\"",
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
    ("layers", "\"ctr.json\", a profile of lacuna.profile_layers"),
    ("environment_from", "\"/home/you/secrets.env\""),
];

/// What to write instead of what toml or serde refuses with this message.
pub(super) fn remedy(message: &str, key: Option<&str>) -> String {
    if message.contains("expected a sequence") && matches!(key, None | Some("trainer")) {
        return "a trainer begins with [[trainer]], in two brackets".to_owned();
    }
    let form = key.and_then(|key| FORMS.iter().find(|(of, _)| *of == key));
    if let Some((key, form)) = form {
        return format!("write {key} = {form}");
    }
    if let (Some(key), true) = (key, message.starts_with("missing field")) {
        return format!("write {key} = ..., as in deploy/examples/");
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

/// The most characters of a fault in an error, which may repeat what is in the file.
const MOST: usize = 400;

/// A text in its first characters.
pub(super) fn cut(mut text: String) -> String {
    if let Some((at, _)) = text.char_indices().nth(MOST) {
        text.truncate(at);
        text += "...";
    }
    text
}

/// The key that a message of toml or serde is about, at this place of a file.
pub(super) fn key_of<'t>(text: &'t str, at: usize, message: &'t str) -> Option<&'t str> {
    if let Some(rest) = message.strip_prefix("missing field `") {
        return rest.split('`').next();
    }
    let is_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let key = if message.starts_with("duplicate key") {
        text.get(at..)?.split(|c| !is_key(c)).next()?
    } else {
        let (before, between) = text.get(..at)?.rsplit_once('=')?;
        // A value of a list belongs to the key of the list.
        let is_in_list = between.matches('[').count() > between.matches(']').count();
        if message.starts_with("unknown field") || !(is_in_list || between.trim().is_empty()) {
            return None;
        }
        let begin = before.rfind(['\n', '{', ',']).map_or(0, |at| at + 1);
        before.get(begin..)?.trim()
    };
    (!key.is_empty() && key.chars().all(is_key)).then_some(key)
}
