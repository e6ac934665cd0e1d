//! Traces of jobs.

use serde::Deserialize;

use crate::error::Error;
use crate::layers::rows;

/// A job of a trace, as its file has it. Its "iterations" are samples.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct TraceJob {
    /// Its id.
    pub job_id: u64,
    /// Its arrival, seconds since the start of the trace.
    pub arrival_s: f64,
    /// The GPUs that it asks for.
    pub gpus: u32,
    /// The name of its model.
    pub model: String,
    /// Samples of a batch on each GPU.
    pub batch: f64,
    /// Seconds per sample on one GPU.
    pub sample_s: f64,
    /// Its work, samples.
    pub samples: f64,
}

/// Reads a trace: a header with the names of [`TraceJob`]'s fields, in any order among others.
///
/// # Errors
/// The file is malformed, or a value is outside its range; the error names the job.
pub fn read_jobs(file: &str, text: &str) -> Result<Vec<TraceJob>, Error> {
    let jobs: Vec<TraceJob> = rows((file, text))?;
    for job in &jobs {
        let positive = "a number above 0";
        let values = [
            ("gpus", f64::from(job.gpus), job.gpus > 0, positive),
            ("batch", job.batch, job.batch > 0.0, positive),
            ("sample_s", job.sample_s, job.sample_s > 0.0, positive),
            ("samples", job.samples, job.samples > 0.0, positive),
            (
                "arrival_s",
                job.arrival_s,
                job.arrival_s >= 0.0,
                "a number from 0 on",
            ),
        ];
        let mut wrong = values
            .into_iter()
            .filter(|(_, value, right, _)| !right || value.is_infinite());
        if let Some((name, value, _, expected)) = wrong.next() {
            return Err(Error::Value {
                what: format!("{file}: {name} of job {}", job.job_id),
                value,
                expected,
            });
        }
    }
    Ok(jobs)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "job_id,arrival_s,gpus,model,batch,amp,dataset,sample_s,samples\n";

    #[test]
    fn columns_are_found_by_name_and_wrong_values_name_the_job() {
        let jobs = read_jobs(
            "t.csv",
            &format!("{HEAD}7,5,4,VGG,32,0,ImageNet,0.01,100\n"),
        )
        .unwrap();
        assert_eq!((jobs[0].job_id, jobs[0].gpus), (7, 4));
        for (row, named) in [
            ("7,5,0,VGG,32,0,x,0.01,100", "gpus of job 7"),
            ("8,5,1,VGG,32,0,x,-1,100", "sample_s of job 8"),
            ("9,-5,1,VGG,32,0,x,1,100", "arrival_s of job 9"),
            ("9,5,one,VGG,32,0,x,1,100", "line: 2"),
        ] {
            let error = read_jobs("t.csv", &format!("{HEAD}{row}\n"))
                .unwrap_err()
                .to_string();
            assert!(error.contains(named), "{error}");
        }
    }
}
