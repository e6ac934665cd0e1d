//! `lacuna-pilot-helper`: its requests, and the meaning of its answers. It submits and cancels pilots
//! under their owners' accounts, and verifies what the owners have signed.

use lacuna_model::{NodeId, Span};
use lacuna_owner::Signed;
use lacuna_scheduler::job::JobId;
use lacuna_scheduler::submit::{Cause, CommandLine, CommandOutput, Refusal, RunError, Submitter};
use serde_json::{Value, json};

/// Exit code of a refusal: this owner, or this ticket, may not have it.
const REFUSED: i32 = 77;
/// Exit code of a helper whose own files or commands fail. A job may exist.
const FAILED: i32 = 70;
/// Exit codes of a helper that is called or configured wrongly (sysexits.h).
const WRONG: [i32; 3] = [64, 65, 78];

/// The command that runs the helper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Helper {
    program: String,
    args: Vec<String>,
}

impl Helper {
    /// Nothing if the command is empty.
    pub(super) fn new(command: &[String]) -> Option<Self> {
        let (program, args) = command.split_first()?;
        Some(Self {
            program: program.clone(),
            args: args.to_owned(),
        })
    }

    /// Submits one pilot.
    pub(super) fn submit(&self, ticket: &Signed, node: &NodeId, limit: Span) -> CommandLine {
        let minutes = limit.as_ms().max(1).saturating_add(59_999) / 60_000;
        self.ask(&json!({"do": "submit", "ticket": ticket, "node": node, "minutes": minutes}))
    }

    /// Cancels one pilot of an owner. One a request, since the helper refuses all of a request that
    /// names a job that is over.
    pub(super) fn cancel(&self, owner: &str, job: &JobId, pending_only: bool) -> CommandLine {
        self.ask(&json!({
            "do": "cancel",
            "owner": owner,
            "jobs": [job.as_str()],
            "pending_only": pending_only,
        }))
    }

    /// A trainer is over: its ticket is refused from now on.
    pub(super) fn end(&self, ticket: &Signed) -> CommandLine {
        self.ask(&json!({"do": "end", "ticket": ticket}))
    }

    fn ask(&self, request: &Value) -> CommandLine {
        CommandLine {
            program: self.program.clone(),
            args: self.args.clone(),
            stdin: Some(request.to_string()),
        }
    }

    /// Reads the answer to a submission. What the scheduler denies to an owner, or for want of room,
    /// is the owner's too: other owners have accounts and limits of their own.
    pub(super) fn submitted(
        scheduler: &dyn Submitter,
        output: &Result<CommandOutput, RunError>,
    ) -> Result<JobId, Refusal> {
        let outcome = scheduler.submitted(output);
        let Err(refusal) = outcome else {
            return outcome;
        };
        let cause = match output {
            Ok(output) if output.code == Some(REFUSED) => Cause::Owner,
            Ok(output) if output.code == Some(FAILED) => Cause::Unreachable,
            Ok(output) if output.code.is_some_and(|code| WRONG.contains(&code)) => Cause::Missing,
            Ok(output) if is_sudos(output) => Cause::Denied,
            _ => match refusal.cause {
                Cause::Denied | Cause::Busy => Cause::Owner,
                other => other,
            },
        };
        Err(Refusal { cause, ..refusal })
    }

    /// Whether a request other than a submission has reached the helper and is settled: done, or
    /// refused.
    pub(super) fn is_settled(output: &Result<CommandOutput, RunError>) -> bool {
        output.as_ref().is_ok_and(|output| {
            let code = output.code.unwrap_or(FAILED);
            code != FAILED && !WRONG.contains(&code) && !is_sudos(output)
        })
    }
}

/// Whether sudo has failed before the helper ran.
fn is_sudos(output: &CommandOutput) -> bool {
    output.code == Some(1) && output.stderr.trim_start().starts_with("sudo:")
}

#[cfg(test)]
mod tests {
    use lacuna_scheduler::submit::{Programs, Submission};
    use lacuna_scheduler::{SchedulerName, row};

    use super::*;

    fn slurm() -> Box<dyn Submitter> {
        let program = |name: &str| vec![name.to_owned()];
        let ways = row(SchedulerName::Slurm).pilots().unwrap();
        (ways.submitter)(Submission {
            name: "p".to_owned(),
            mark: "m".to_owned(),
            partition: String::new(),
            account: String::new(),
            qos: String::new(),
            exclusive: true,
            output: String::new(),
            extra: Vec::new(),
            script: String::new(),
            chunk: String::new(),
            time_min: None,
            all_users: true,
            programs: Programs {
                submit: program("sbatch"),
                cancel: program("scancel"),
                list: program("squeue"),
            },
        })
    }

    #[test]
    fn an_answer_is_the_trainers_or_the_sites() {
        let cause = |code: i32, stderr: &str| {
            let output = Ok(CommandOutput {
                code: Some(code),
                stdout: String::new(),
                stderr: stderr.to_owned(),
            });
            let settled = Helper::is_settled(&output);
            let refusal = Helper::submitted(slurm().as_ref(), &output).unwrap_err();
            (refusal.cause, settled)
        };
        let stale =
            "lacuna-pilot-helper: permission denied: the ticket is not valid: its time is over";
        assert_eq!(cause(77, stale), (Cause::Owner, true));
        assert_eq!(cause(78, "cannot read"), (Cause::Missing, false));
        assert_eq!(cause(70, "no folder"), (Cause::Unreachable, false));
        assert_eq!(
            cause(1, "sudo: a password is required"),
            (Cause::Denied, false)
        );
        // The scheduler's words for one owner.
        let said = |words: &str| {
            cause(
                1,
                &format!("sbatch: error: Batch job submission failed: {words}"),
            )
        };
        let account = "Invalid account or account/partition combination specified";
        assert_eq!(said(account), (Cause::Owner, true));
        let limits = "Job violates accounting/QOS policy (job submit limit, user's size)";
        assert_eq!(said(limits), (Cause::Owner, true));
        assert_eq!(
            said("Unable to contact slurm controller").0,
            Cause::Unreachable
        );
        assert_eq!(said("Requested nodes are busy").0, Cause::Node);
        let job = Ok(CommandOutput {
            code: Some(0),
            stdout: "12\n".to_owned(),
            stderr: String::new(),
        });
        assert_eq!(
            Helper::submitted(slurm().as_ref(), &job).unwrap().as_str(),
            "12"
        );
    }

    #[test]
    fn requests_are_those_of_the_helper() {
        let helper = Helper::new(&["sudo".to_owned(), "-n".to_owned()]).unwrap();
        let signed = Signed {
            ticket: "{}".to_owned(),
            signature: "00".to_owned(),
        };
        let node = NodeId::new("n1").unwrap();
        let line = helper.submit(&signed, &node, Span::from_secs(61));
        assert_eq!(
            (line.program.as_str(), line.args),
            ("sudo", vec!["-n".to_owned()])
        );
        let asked: Value = serde_json::from_str(&line.stdin.unwrap()).unwrap();
        let ticket = json!({"ticket": "{}", "signature": "00"});
        let expected = json!({"do": "submit", "ticket": ticket, "node": "n1", "minutes": 2});
        assert_eq!(asked, expected);
        let job = JobId::new("12").unwrap();
        let asked = helper.cancel("ann", &job, true).stdin.unwrap();
        let expected =
            json!({"do": "cancel", "owner": "ann", "jobs": ["12"], "pending_only": true});
        assert_eq!(serde_json::from_str::<Value>(&asked).unwrap(), expected);
        assert_eq!(Helper::new(&[]), None);
    }
}
