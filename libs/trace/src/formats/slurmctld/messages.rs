//! Messages of slurmctld about jobs, recognised by their beginnings.

use lacuna_records::fields::{unexpected, unsigned};
use memchr::memmem::find;

use crate::{FieldError, JobOutcome};

/// Name of a job in messages: `15`, `15_3(19)` for the task of an array, `5+1(6)` for a component
/// of a heterogeneous job. The number in brackets is that of the task or component; requests of
/// users lack it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Name<'a> {
    /// Number of the job; that of the whole if the message lacks it.
    pub(super) number: u32,
    /// Whether `number` is the job's own number.
    pub(super) is_numbered: bool,
    /// Number of the array or heterogeneous job.
    pub(super) group: Option<u32>,
    /// The name without the brackets.
    pub(super) shown: &'a [u8],
}

/// A message about a job.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Message<'a> {
    /// `_slurm_rpc_submit_batch_job: JobId=4 InitPrio=4294901756 usec=393`
    Submitted(Name<'a>),
    /// `sched: _slurm_rpc_allocate_resources JobId=3 NodeList=(null) usec=370`: an interactive
    /// job is submitted, and starts at once if nodes are named.
    Allocated { name: Name<'a>, nodes: &'a [u8] },
    /// `sched: Allocate JobId=1 NodeList=n1 #CPUs=8 Partition=filler`, or
    /// `sched/backfill: _start_job: Started JobId=2 in filler on n2`
    Started {
        name: Name<'a>,
        nodes: &'a [u8],
        queue: &'a [u8],
    },
    /// `_job_complete: JobId=5 WEXITSTATUS 3`, which [`Message::Done`] follows.
    Exited { name: Name<'a>, outcome: JobOutcome },
    /// `_job_complete: JobId=5 done`
    Done(Name<'a>),
    /// The job has ended, and no message follows: `Time limit exhausted for JobId=7`,
    /// `Killing JobId=7 on failed node n1`, `preempted JobId=7 has been killed ...`
    Ended { name: Name<'a>, outcome: JobOutcome },
    /// The job was requeued: `preempted JobId=1 has been requeued ...`, `Requeuing JobId=1`,
    /// `requeue job JobId=1 due to failure of node n1`
    Requeued { name: Name<'a>, outcome: JobOutcome },
    /// `_slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=2 uid 1500`
    Killed(Name<'a>),
    /// `_slurm_rpc_kill_job: job_str_signal() uid=1 JobId=2 sig=9 returned: ...`: the request
    /// failed.
    Spared(Name<'a>),
}

/// Reads the message of a text, if it is about a job.
///
/// # Errors
/// [`FieldError`] if the text is such a message, but its job or nodes are missing.
pub(super) fn message(text: &[u8]) -> Result<Option<Message<'_>>, FieldError> {
    let scheduler = [&b"sched: "[..], b"sched/backfill: ", b"backfill: "];
    let text = scheduler
        .into_iter()
        .find_map(|prefix| text.strip_prefix(prefix))
        .unwrap_or(text);
    match text.first() {
        Some(b'_') => by_function(text),
        Some(b'A') => allocate(text),
        Some(b'S') => started(text),
        Some(b'C') if text.starts_with(b"Cancel of JobI") => Ok(named(text)?.map(Message::Killed)),
        Some(b'J') if text.starts_with(b"JobId=") => {
            let timed_out = find(text, b" timed out, ").is_some();
            ended(text, timed_out.then_some(JobOutcome::Timeout))
        }
        Some(b'K') if text.starts_with(b"Killing JobId=") => {
            let node = find(text, b" on failed node ").is_some();
            let gone = find(text, b" on defunct partition ").is_some();
            ended(text, (node || gone).then_some(JobOutcome::NodeFailed))
        }
        Some(b'R') if text.starts_with(b"Requeuing JobId=") => {
            requeued(text, JobOutcome::Preempted)
        }
        Some(b'R') if text.starts_with(b"Reservation ended for JobId=") => {
            ended(text, Some(JobOutcome::Timeout))
        }
        Some(b'R' | b'r') if find(text, b"equeue job Job") == Some(1) => {
            requeued(text, JobOutcome::NodeFailed)
        }
        Some(b'T') if text.starts_with(b"Time limit exhausted for JobI") => {
            ended(text, Some(JobOutcome::Timeout))
        }
        Some(b'j') if text.starts_with(b"job_complete: ") => complete(text),
        Some(b'j' | b'p' | b's') => preempted(text),
        _ => Ok(None),
    }
}

/// Texts that begin with the name of a function.
fn by_function(text: &[u8]) -> Result<Option<Message<'_>>, FieldError> {
    if text.starts_with(b"_job_complete: ") {
        return complete(text);
    }
    if text.starts_with(b"_start_job: ") {
        return started(text.get(12..).unwrap_or(&[]));
    }
    let Some(call) = text.strip_prefix(b"_slurm_rpc_") else {
        return preempted(text);
    };
    if call.starts_with(b"submit_batch") {
        return Ok(named(text)?.map(Message::Submitted));
    }
    if call.starts_with(b"allocate_resources JobI") {
        let nodes = token(text, b" NodeList=").unwrap_or(&[]);
        return Ok(named(text)?.map(|name| Message::Allocated { name, nodes }));
    }
    if !call.starts_with(b"kill_job") {
        return Ok(None);
    }
    if find(call, b": REQUEST_KILL_JOB ").is_some() {
        // Another cluster of a federation writes messages about jobs that are routed to it.
        if find(call, b" routed to ").is_some() {
            return Ok(None);
        }
        return Ok(named(text)?.map(Message::Killed));
    }
    let refused = find(call, b" returned: ").is_some() && find(call, b"already").is_none();
    if refused && find(call, b"job_str_signal()").is_some() {
        return Ok(named(text)?.map(Message::Spared));
    }
    Ok(None)
}

fn allocate(text: &[u8]) -> Result<Option<Message<'_>>, FieldError> {
    if !text.starts_with(b"Allocate JobI") {
        return Ok(None);
    }
    let Some(name) = named(text)? else {
        return Ok(None);
    };
    let nodes = token(text, b" NodeList=")
        .filter(|nodes| !nodes.is_empty())
        .ok_or_else(|| unexpected("NodeList", "nodes", text))?;
    let queue = token(text, b" Partition=").unwrap_or(&[]);
    Ok(Some(Message::Started { name, nodes, queue }))
}

fn started(text: &[u8]) -> Result<Option<Message<'_>>, FieldError> {
    if !text.starts_with(b"Started JobI") {
        return Ok(None);
    }
    let Some(name) = named(text)? else {
        return Ok(None);
    };
    // Releases before 16 do not write the partition.
    let queue = token(text, b" in ").unwrap_or(&[]);
    let nodes = token(text, b" on ")
        .filter(|nodes| !nodes.is_empty())
        .ok_or_else(|| unexpected("nodes", "nodes behind the word on", text))?;
    Ok(Some(Message::Started { name, nodes, queue }))
}

/// `_job_complete: ...`
fn complete(text: &[u8]) -> Result<Option<Message<'_>>, FieldError> {
    let says = |words: &[u8]| find(text, words).is_some();
    if says(b"complete: requeue JobI") {
        let outcome = match says(b" due to node failure") {
            true => JobOutcome::NodeFailed,
            false => JobOutcome::Preempted,
        };
        return requeued(text, outcome);
    }
    if text.ends_with(b" done") {
        return Ok(named(text)?.map(Message::Done));
    }
    let outcome = if says(b" WEXITSTATUS ") {
        match text.ends_with(b" WEXITSTATUS 0") {
            true => JobOutcome::Completed,
            false => JobOutcome::Failed,
        }
    } else if says(b" WTERMSIG ") || text.ends_with(b" OOM failure") {
        JobOutcome::Failed
    } else if says(b" cancelled by node failure") {
        JobOutcome::NodeFailed
    } else if says(b" cancelled by interactive user") {
        JobOutcome::Cancelled
    } else {
        return Ok(None);
    };
    Ok(named(text)?.map(|name| Message::Exited { name, outcome }))
}

/// `preempted JobId=1 has been requeued ...`, and texts behind the name of a function.
fn preempted(text: &[u8]) -> Result<Option<Message<'_>>, FieldError> {
    let text = match find(text, b": ") {
        Some(at) if !text.starts_with(b"preempted JobI") => text.get(at + 2..).unwrap_or(&[]),
        _ => text,
    };
    if text.starts_with(b"inactivity time limit reached for JobI") {
        return ended(text, Some(JobOutcome::Timeout));
    }
    if !text.starts_with(b"preempted JobI") {
        return Ok(None);
    }
    if find(text, b" has been requeued").is_some() {
        return requeued(text, JobOutcome::Preempted);
    }
    let killed = find(text, b" has been killed").or_else(|| find(text, b" had to be killed"));
    ended(text, killed.map(|_| JobOutcome::Preempted))
}

fn ended(text: &[u8], outcome: Option<JobOutcome>) -> Result<Option<Message<'_>>, FieldError> {
    let Some(outcome) = outcome else {
        return Ok(None);
    };
    Ok(named(text)?.map(|name| Message::Ended { name, outcome }))
}

fn requeued(text: &[u8], outcome: JobOutcome) -> Result<Option<Message<'_>>, FieldError> {
    Ok(named(text)?.map(|name| Message::Requeued { name, outcome }))
}

/// The text after `key`, up to a blank.
fn token<'a>(text: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let rest = text.get(find(text, key)?.checked_add(key.len())?..)?;
    rest.split(|&byte| byte == b' ').next()
}

/// The first job of a text; `None` if slurmctld itself did not know it.
fn named(text: &[u8]) -> Result<Option<Name<'_>>, FieldError> {
    // Old releases write `JobID=`, and `job 7` in requests to end a job.
    let found = token(text, b"JobId=")
        .or_else(|| token(text, b"JobID="))
        .or_else(|| token(text, b" job "));
    let Some(found) = found else {
        return Err(unexpected("JobId", "the number of a job", text));
    };
    if matches!(found, b"Invalid" | b"CORRUPT") {
        return Ok(None);
    }
    name(found)
        .map(Some)
        .ok_or_else(|| unexpected("JobId", "a number, as in 15, 15_3(19) or 5+1(6)", found))
}

/// Reads `15`, `15_3(19)`, `15_3`, `15_[3-5]`, `15_*` or `5+1(6)`.
pub(super) fn name(text: &[u8]) -> Option<Name<'_>> {
    let text = text.trim_ascii_end();
    let text = text.strip_suffix(b":").unwrap_or(text);
    let (shown, own) = match text.strip_suffix(b")") {
        Some(inside) => {
            let at = memchr::memchr(b'(', inside)?;
            let (shown, own) = inside.split_at_checked(at)?;
            (shown, Some(number(own.get(1..)?)?))
        }
        None => (text, None),
    };
    let Some(at) = shown.iter().position(|byte| matches!(byte, b'_' | b'+')) else {
        let whole = number(shown)?;
        return Some(Name {
            number: own.unwrap_or(whole),
            is_numbered: true,
            group: None,
            shown,
        });
    };
    let (whole, part) = shown.split_at_checked(at)?;
    let part = part.get(1..).filter(|part| !part.is_empty())?;
    let plain = |&byte: &u8| byte.is_ascii_digit() || b"[]-,:%*".contains(&byte);
    if !part.iter().all(plain) {
        return None;
    }
    let whole = number(whole)?;
    Some(Name {
        number: own.unwrap_or(whole),
        is_numbered: own.is_some(),
        group: Some(whole),
        shown,
    })
}

fn number(text: &[u8]) -> Option<u32> {
    u32::try_from(unsigned(text)?).ok()
}
