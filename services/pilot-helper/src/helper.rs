//! Answers requests.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::net::UnixDatagram;

use lacuna_model::{NodeId, Span, Timestamp};
use lacuna_owner::{Account, Signed, VARIABLE};
use lacuna_scheduler::job::JobId;
use lacuna_scheduler::submit::{CommandLine, CommandOutput, RunError};

use crate::book::Book;
use crate::command;
use crate::config::Config;
use crate::exposition;
use crate::refusal::Refusal;
use crate::request::Request;

/// The socket of the system's log (syslog(3)), and the priority of our lines there: authpriv, warning.
const SYSLOG: &str = "/dev/log";
const PRIORITY: u32 = 10 * 8 + 4;

/// Why a request is not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failed {
    /// It is refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The helper's own folder cannot be used.
    #[error("the helper's own files: {0}")]
    Io(#[from] io::Error),
}

/// The helper, for one request.
#[derive(Debug)]
pub(crate) struct Helper {
    config: Config,
    book: Book,
}

impl Helper {
    /// Opens its book, and waits for requests before this one.
    ///
    /// # Errors
    /// [`Failed::Io`].
    pub(crate) fn open(config: Config) -> Result<Self, Failed> {
        let book = Book::open(&config.settings.state)?;
        Ok(Self { config, book })
    }

    /// Answers a request. A refusal is logged and counted.
    ///
    /// # Errors
    /// [`Failed`].
    pub(crate) fn answer(
        &mut self,
        request: &Request,
        now: Timestamp,
    ) -> Result<CommandOutput, Failed> {
        let done = match request {
            Request::Submit {
                ticket,
                node,
                minutes,
            } => self.submit(ticket, node, *minutes, now),
            Request::Cancel {
                owner,
                jobs,
                pending_only,
            } => self.cancel(owner, jobs, *pending_only),
            Request::End { ticket } => self.end(ticket, now),
        };
        if let Err(Failed::Refused(refusal)) = &done {
            self.note(refusal)?;
        }
        if let Some(path) = &self.config.settings.metrics
            && let Err(error) = exposition::write(path, &self.book, &self.config)
        {
            // The request is answered all the same: its job may run.
            log(&format!("cannot write {}: {error}", path.display()));
        }
        done
    }

    fn submit(
        &mut self,
        signed: &Signed,
        node: &NodeId,
        minutes: u32,
        now: Timestamp,
    ) -> Result<CommandOutput, Failed> {
        let ticket = self.config.keys.open(signed, &self.config.cluster, now)?;
        ticket.valid_at(now).map_err(Refusal::from)?;
        if self.book.has_ended(&ticket) {
            return Err(Refusal::Replayed(ticket.trainer).into());
        }
        let (limit, longest) = (
            Span::from_secs(i64::from(minutes) * 60),
            self.config.settings.longest,
        );
        if minutes == 0 || limit > longest {
            return Err(Refusal::Long(longest).into());
        }
        let account = self.account(&ticket.owner)?;
        let has_all = |book: &Book| book.pilots(&ticket) >= ticket.pilots as usize;
        if has_all(&self.book)
            && let Some(listed) = self.listed(&account)
        {
            self.book.keep(&ticket.owner, &listed);
        }
        if has_all(&self.book) {
            return Err(Refusal::Many(ticket.pilots).into());
        }
        let (first, rest) = &self.config.script;
        let word = signed.packed().map_err(io::Error::other)?;
        let script = format!("{first}\nexport {}={word}\n{rest}", VARIABLE);
        let scheduler = self.config.submitter(script).map_err(io::Error::other)?;
        let output = self.run(&scheduler.submit(node, limit), &account);
        if let Ok(job) = scheduler.submitted(&output) {
            self.book.submitted(&job, &ticket)?;
        }
        Ok(shown(output))
    }

    fn cancel(
        &mut self,
        owner: &str,
        jobs: &[JobId],
        pending_only: bool,
    ) -> Result<CommandOutput, Failed> {
        let account = self.account(owner)?;
        let listed = self.listed(&account);
        let listed = listed.ok_or_else(|| io::Error::other("the scheduler lists no pilots"))?;
        if let Some(job) = jobs.iter().find(|job| !listed.contains(job.as_str())) {
            let (job, owner) = (job.clone(), owner.to_owned());
            return Err(Refusal::NoPilot { job, owner }.into());
        }
        let submitter = self.config.submitter(String::new());
        let submitter = submitter.map_err(io::Error::other)?;
        let line = submitter.cancel(jobs, pending_only);
        Ok(shown(self.run(&line, &account)))
    }

    fn end(&mut self, signed: &Signed, now: Timestamp) -> Result<CommandOutput, Failed> {
        // Otherwise tickets of an ended key would hold again with a later end of the key.
        let ticket = self
            .config
            .keys
            .open_with_any(signed, &self.config.cluster)?;
        self.book.end(&ticket, now)?;
        Ok(CommandOutput {
            code: Some(0),
            ..CommandOutput::default()
        })
    }

    fn account(&self, owner: &str) -> Result<Account, Refusal> {
        Ok(Account::of(owner, self.config.settings.min_uid)?)
    }

    /// The jobs of an owner's pilots that wait or run; nothing if the scheduler does not answer.
    fn listed(&self, account: &Account) -> Option<BTreeSet<String>> {
        let submitter = self.config.submitter(String::new()).ok()?;
        let line = submitter.owned(&account.name).ok()?;
        let output = self.run(&line, account).ok();
        let output = output.filter(|output| output.code == Some(0));
        output.map(|output| {
            output
                .stdout
                .split_whitespace()
                .map(str::to_owned)
                .collect()
        })
    }

    fn run(&self, line: &CommandLine, account: &Account) -> Result<CommandOutput, RunError> {
        command::run(line, account, &self.config.settings)
    }

    /// Logs and counts a refusal.
    fn note(&mut self, refusal: &Refusal) -> io::Result<()> {
        log(&format!("refused: {refusal}"));
        self.book.refused(refusal.cause())
    }
}

fn log(text: &str) {
    let line = format!("<{PRIORITY}>lacuna-pilot-helper: {text}");
    // A container may have no log.
    let _ = UnixDatagram::unbound().and_then(|log| log.send_to(line.as_bytes(), SYSLOG));
}

/// The output of a command, or why it has none.
fn shown(output: Result<CommandOutput, RunError>) -> CommandOutput {
    output.unwrap_or_else(|error| CommandOutput {
        code: Some(70),
        stdout: String::new(),
        stderr: format!("{error}\n"),
    })
}
