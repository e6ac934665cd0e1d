//! How the program of a trainer is started.

use std::path::PathBuf;

use lacuna_model::{Directory, Elastic, Launch, Program};

use crate::error::Fault;
use crate::read::Reader;
use crate::remedy::form;
use crate::words::{Files, Word};
use crate::written::Written;

/// Whether a variable of this name usually holds a secret.
#[must_use]
pub fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let ends = ["KEY", "TOKEN", "PASSWORD", "PASSWD", "CREDENTIALS"];
    let last = name.rsplit('_').next().unwrap_or_default();
    ends.contains(&last) || name.contains("SECRET")
}

/// Refuses a text that is no line, or says nothing.
pub(crate) fn line(key: &str, text: &str) -> Result<(), Fault> {
    if text.trim().is_empty() {
        let remedy = "write a text, or leave the key out";
        return Err(Fault::new(key, "is empty", remedy));
    }
    without(key, text, char::is_control)
}

/// Refuses a text with some characters.
fn without(key: &str, text: &str, is_wrong: fn(char) -> bool) -> Result<(), Fault> {
    let Some(wrong) = text.chars().find(|c| is_wrong(*c)) else {
        return Ok(());
    };
    let problem = format!("has the character {}", wrong.escape_default());
    Err(Fault::new(key, problem, "leave that character out"))
}

/// A word of a command line or an environment, which no NUL can be given to.
fn word(key: &str, Word(text): &Word) -> Result<String, Fault> {
    without(key, text, |c| c == '\0')?;
    Ok(text.clone())
}

/// A variable of the environment.
fn variable((name, value): (&String, &Word)) -> Result<(String, String), Fault> {
    line("environment", name)?;
    if name.contains('=') {
        let problem = format!("the name {name:?} has a =");
        let remedy = "write environment = { NAME = \"value\" }";
        return Err(Fault::new("environment", problem, remedy));
    }
    Ok((name.clone(), word("environment", value)?))
}

/// The reaction of a program to a change of its nodes.
fn elastic(launcher: &str, workers: Option<u32>) -> Result<Elastic, Fault> {
    let refuse = |problem: &str, remedy| Err(Fault::new("workers_per_node", problem, remedy));
    let workers_per_node = workers.unwrap_or(1);
    match launcher {
        "torchrun" | "regroup" if workers_per_node == 0 => {
            refuse("0", "write 1 or more: one for each GPU, or 1")
        }
        "torchrun" => Ok(Elastic::Torchrun { workers_per_node }),
        "regroup" => Ok(Elastic::Regroup { workers_per_node }),
        _ if workers.is_some() => refuse(
            "only torchrun and regroup start several workers on a node",
            "remove it, or write launcher = \"torchrun\" or \"regroup\"",
        ),
        _ => Ok(Elastic::Restart),
    }
}

/// Refuses what only a program has.
fn refuse_of_programs(written: &Written) -> Result<(), Fault> {
    if written.until.is_some() {
        let problem = "a simulated trainer never exits";
        return Err(Fault::new("until", problem, "write samples = ... instead"));
    }
    let of_programs = [
        ("program", written.program.is_some()),
        ("arguments", written.arguments.is_some()),
        ("environment", written.environment.is_some()),
        ("environment_from", written.environment_from.is_some()),
        ("directory", written.directory.is_some()),
        ("checkpoint_dir", written.checkpoint_dir.is_some()),
        ("workers_per_node", written.workers_per_node.is_some()),
        ("family", written.family.is_some()),
    ];
    match of_programs.into_iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((key, _)) => {
            let problem = "a simulated trainer starts no program";
            let remedy = "remove it, or write launcher = \"command\"";
            Err(Fault::new(key, problem, remedy))
        }
    }
}

impl Reader<'_> {
    pub(crate) fn launch(&self, written: &Written) -> Result<Launch, Fault> {
        let launcher = written.launcher.as_deref().unwrap_or_default();
        match launcher {
            "simulated" => refuse_of_programs(written).map(|()| Launch::Simulated),
            "command" | "torchrun" | "regroup" => self.command(written, launcher),
            other => {
                let problem = format!("{other:?} is not known");
                Err(Fault::new("launcher", problem, form("launcher")))
            }
        }
    }

    fn command(&self, written: &Written, launcher: &str) -> Result<Launch, Fault> {
        let elastic = elastic(launcher, written.workers_per_node)?;
        let Some(program) = &written.program else {
            let remedy = "name the program that trains, e.g. program = \"torchrun\"";
            return Err(Fault::new("program", "missing", remedy));
        };
        line("program", program)?;
        // torchrun starts a script by its path, and any other program as a shell does.
        let is_script = launcher == "torchrun" && program.ends_with(".py");
        let program = match is_script || program.contains('/') {
            true => self.whole("program", program)?,
            false => program.clone(),
        };
        let folder = written.checkpoint_dir.as_ref();
        let folder = folder.map(|folder| self.whole("checkpoint_dir", folder));
        let args = written.arguments.iter().flatten();
        let env = written.environment.iter().flatten();
        let from = written.environment_from.as_ref();
        let from = from.map(|files| self.environment_from(files));
        Ok(Launch::Command(Program {
            program,
            args: args
                .map(|one| word("arguments", one))
                .collect::<Result<_, _>>()?,
            env: env.map(variable).collect::<Result<_, _>>()?,
            checkpoint_dir: folder.transpose()?,
            directory: self.directory(written.directory.as_ref())?,
            environment_from: from.transpose()?.unwrap_or_default(),
            profile: written.is_measured(),
            family: written.family.clone(),
            elastic,
        }))
    }

    /// A path as nodes need it: one that is relative begins at the folder of the file.
    fn whole(&self, key: &str, path: &str) -> Result<String, Fault> {
        let refuse = |problem: &str| {
            let problem = format!("{path:?} {problem}");
            Fault::new(key, problem, "write it from / on")
        };
        line(key, path)?;
        if path.starts_with('~') {
            return Err(refuse("begins with ~, which only a shell knows"));
        }
        let whole = self.folder().unwrap_or_default().join(path);
        let whole: PathBuf = whole.components().collect();
        if !whole.is_absolute() {
            return Err(refuse("is relative to a folder that is not known"));
        }
        let text = whole.to_str().map(str::to_owned);
        text.ok_or_else(|| refuse("is below a folder whose name is no text"))
    }

    /// The folder in which its program runs.
    fn directory(&self, given: Option<&String>) -> Result<Directory, Fault> {
        if let Some(folder) = given {
            return self.whole("directory", folder).map(Directory::Required);
        }
        let folder = self.folder();
        let folder = folder.and_then(|folder| folder.to_str().map(str::to_owned));
        Ok(folder.map_or(Directory::OfNode, Directory::Preferred))
    }

    /// The files of nodes with further variables.
    fn environment_from(&self, Files(given): &Files) -> Result<Vec<String>, Fault> {
        let is_here = |file: &str| self.folder().is_some_and(|at| at.join(file).exists());
        // As capitals are usual for variables.
        let fits = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
        let whole = |file: &String| {
            if !file.chars().all(fits) || is_here(file) {
                return self.whole("environment_from", file);
            }
            let remedy = "write NAME=value lines into a file that only you can read (chmod 600) and \
                          all nodes have, and name the file: a value that travels with a trainer is \
                          readable by all who may watch the cluster";
            let problem = format!("{file:?} is no file");
            Err(Fault::new("environment_from", problem, remedy))
        };
        given.iter().map(whole).collect()
    }
}
