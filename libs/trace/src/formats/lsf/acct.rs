//! `lsb.acct`: `JOB_FINISH`.
//!
//! The manual lists `options3` before `runLimit`, but LSF writes them in reverse order: a job
//! submitted with `bsub -W 12:00` has `43200 0 8688640` for run limit, options and memory. The
//! manual also omits the number of further values, usually 0, behind the usage of each host.
//! Records of versions before 9.1 may end behind the array index. Records from 10.108 on must have
//! their last field, else they were cut off. A requeued job has one record, of its last life.

use lacuna_model::Span;
use lacuna_records::fields::copy;
use lacuna_records::lsf::{Fields, copy_text, joins, version};

use super::outcome;
use crate::formats::JobParser;
use crate::{FieldError, JobOutcome, JobRecord, Reading};

/// Records of LSF from this version on have all fields behind the array index.
const WITH_LIMIT: (i64, i64) = (9, 1);

/// Records of LSF from this version on end with key-value pairs.
const WITH_PAIRS: (i64, i64) = (10, 108);

/// Whether one of these first lines is a record.
pub(in crate::formats) fn knows(lines: &[&[u8]]) -> bool {
    let kinds = [&b"\"JOB_FINISH\" \""[..], b"\"EVENT_ADRSV_FINISH\" \""];
    lines
        .iter()
        .any(|line| kinds.iter().any(|kind| line.starts_with(kind)))
}

pub(in crate::formats) struct Acct {
    elsewhere: u64,
}

impl Acct {
    pub(in crate::formats) const fn new(_reading: &Reading) -> Self {
        Self { elsewhere: 0 }
    }
}

impl JobParser for Acct {
    fn joins(&mut self, ahead: &[u8]) -> Option<usize> {
        joins(ahead)
    }

    fn looks_ahead(&self) -> bool {
        true
    }

    fn line(&mut self, line: &[u8], record: &mut JobRecord) -> Result<bool, FieldError> {
        let line = line.trim_ascii();
        if matches!(line.first(), None | Some(b'#')) {
            return Ok(false);
        }
        let mut fields = Fields::of(line);
        if fields.text("event type")? != b"JOB_FINISH" {
            return Ok(false);
        }
        let found = fields.text("version")?;
        let Some(version) = version(found) else {
            return Err(fields.unexpected("version", "a version as 10.1", found));
        };
        let end = fields.time("event time")?;
        let id = fields.number("jobId")?;
        fields.skip_numbers(&["userId", "options", "numProcessors"])?;
        record.submit = fields.time("submitTime")?;
        fields.skip_numbers(&["beginTime", "termTime"])?;
        record.start = fields.time("startTime")?;
        if let (Some(start), Some(end)) = (record.start, end)
            && end < start
        {
            let found = (start.unix_ms() / 1000).to_string();
            let expected = "a time before the event time";
            return Err(fields.unexpected("startTime", expected, found.as_bytes()));
        }
        copy(&mut record.user, fields.text("userName")?);
        copy(&mut record.queue, fields.text("queue")?);
        fields.skip_texts(&["resReq", "dependCond", "preExecCmd", "fromHost", "cwd"])?;
        fields.skip_texts(&["inFile", "outFile", "errFile", "jobFile"])?;
        fields.skip_list("numAskedHosts", "askedHosts")?;
        let nodes = fields.hosts(&mut record.hosts)?;
        let status = fields.number("jStatus")?;
        fields.skip_real("hostFactor")?;
        copy_text(&mut record.name, fields.text("jobName")?);
        fields.skip_texts(&["command"])?;
        fields.skip_usage()?;
        fields.skip_texts(&["mailUser"])?;
        copy_text(&mut record.account, fields.text("projectName")?);
        fields.skip_numbers(&["exitStatus", "maxNumProcessors"])?;
        fields.skip_texts(&["loginShell", "timeEvent"])?;
        let index = fields.number("idx")?;
        record.id = match index {
            0 => id.to_string(),
            _ => format!("{id}[{index}]"),
        };
        let mut reason = 0;
        if version >= WITH_LIMIT || !fields.is_at_end() {
            reason = usage(&mut fields)?;
            if version >= WITH_LIMIT {
                record.walltime = limit(&mut fields)?;
            }
        }
        if version >= WITH_PAIRS {
            whole(&mut fields)?;
        }
        record.outcome = outcome(status, reason);
        if record.start.is_none() {
            // The job never started, so it was cancelled.
            record.hosts.clear();
            record.outcome = JobOutcome::Cancelled;
            return Ok(true);
        }
        record.end = end;
        record.nodes = nodes.unwrap_or(0);
        self.elsewhere += u64::from(nodes.is_none());
        Ok(nodes.is_some())
    }

    fn skipped(&self) -> u64 {
        self.elsewhere
    }
}

/// Reads the fields from the memory to the termination reason. Returns the reason.
fn usage(fields: &mut Fields<'_>) -> Result<i64, FieldError> {
    fields.skip_numbers(&["maxRMem", "maxRSwap"])?;
    fields.skip_texts(&["inFileSpool", "commandSpool", "rsvId"])?;
    if fields.is_at_end() {
        return Ok(0);
    }
    fields.skip_texts(&["sla"])?;
    fields.skip_numbers(&["exceptMask"])?;
    fields.skip_texts(&["additionalInfo"])?;
    fields.number("exitInfo")
}

/// Reads the fields from the warning action to the average memory. Returns the run limit.
fn limit(fields: &mut Fields<'_>) -> Result<Option<Span>, FieldError> {
    fields.skip_texts(&["warningAction"])?;
    fields.skip_numbers(&["warningTimePeriod"])?;
    fields.skip_texts(&["chargedSAAP", "licenseProject", "app", "postExecCmd"])?;
    fields.skip_numbers(&["runtimeEstimation"])?;
    fields.skip_texts(&["jobGroupName", "requeueEvalues"])?;
    fields.skip_numbers(&["options2"])?;
    fields.skip_texts(&["resizeNotifyCmd"])?;
    fields.skip_numbers(&["lastResizeTime"])?;
    fields.skip_texts(&["rsvId", "jobDescription"])?;
    for _ in 0..fields.count("submitEXT")? {
        fields.skip_numbers(&["key"])?;
        fields.skip_texts(&["value"])?;
    }
    for _ in 0..fields.count("numHostRusage")? {
        // LSF writes only this text without quotes.
        fields.word("hostname")?;
        fields.skip_numbers(&["mem", "swap", "utime", "stime"])?;
        for _ in 0..fields.count("hostRusage")? {
            fields.word("key")?;
            fields.word("value")?;
        }
    }
    let limit = fields.number("runLimit")?;
    fields.skip_numbers(&["options3", "avgMem"])?;
    Ok((limit > 0).then(|| Span::from_secs(limit)))
}

/// Reads the fields from the resource requirements to the last pair of key and value.
fn whole(fields: &mut Fields<'_>) -> Result<(), FieldError> {
    fields.skip_texts(&["effectiveResReq", "srcCluster"])?;
    fields.skip_numbers(&["srcJobId"])?;
    fields.skip_texts(&["dstCluster"])?;
    fields.skip_numbers(&["dstJobId", "forwardTime"])?;
    fields.skip_texts(&["flow_id"])?;
    fields.skip_numbers(&["acJobWaitTime", "totalProvisionTime"])?;
    fields.skip_texts(&["outdir"])?;
    fields.skip_numbers(&["runTime"])?;
    fields.skip_texts(&["subcwd"])?;
    for _ in 0..fields.count("num_network")? {
        fields.skip_texts(&["networkID"])?;
        fields.skip_numbers(&["num_window"])?;
    }
    fields.skip_texts(&["affinity"])?;
    for name in ["serial_job_energy", "cpi", "gips", "gbs", "gflops"] {
        fields.skip_real(name)?;
    }
    fields.skip_list("numAllocSlots", "allocSlots")?;
    fields.skip_numbers(&["ineligiblePendTime"])?;
    for _ in 0..fields.count("indexRangeCnt")? {
        fields.skip_numbers(&["indexRangeStart", "indexRangeEnd", "indexRangeStep"])?;
    }
    fields.skip_numbers(&["requeueTime"])?;
    for _ in 0..fields.count("numGPURusages")? {
        fields.word("hostname")?;
        pairs(fields)?;
    }
    for _ in 0..fields.count("storageInfoC")? {
        fields.word("storageInfoV")?;
    }
    pairs(fields)
}

fn pairs(fields: &mut Fields<'_>) -> Result<(), FieldError> {
    for _ in 0..fields.count("numKVP")? {
        fields.word("key")?;
        fields.word("value")?;
    }
    Ok(())
}
