//! Requests.

use lacuna_model::NodeId;
use lacuna_owner::Signed;
use lacuna_scheduler::job::JobId;
use serde::Deserialize;

/// A request as it is written.
#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
enum Raw {
    Submit {
        ticket: Signed,
        node: NodeId,
        minutes: u32,
    },
    Cancel {
        owner: String,
        jobs: Vec<String>,
        #[serde(default)]
        pending_only: bool,
    },
    End {
        ticket: Signed,
    },
}

/// A request.
#[derive(Debug)]
pub(crate) enum Request {
    /// One pilot.
    Submit {
        ticket: Signed,
        node: NodeId,
        minutes: u32,
    },
    /// The end of pilots of one owner.
    Cancel {
        owner: String,
        jobs: Vec<JobId>,
        pending_only: bool,
    },
    /// The end of a trainer.
    End { ticket: Signed },
}

impl Request {
    /// Reads a request.
    ///
    /// # Errors
    /// A text that names what is wrong.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let raw = serde_json::from_str(text).map_err(|error| error.to_string())?;
        Ok(match raw {
            Raw::Submit {
                ticket,
                node,
                minutes,
            } => Self::Submit {
                ticket,
                node,
                minutes,
            },
            Raw::Cancel {
                owner,
                jobs,
                pending_only,
            } => {
                let job = |text: &String| JobId::new(text).ok_or(format!("{text:?} is no job id"));
                let jobs: Result<Vec<JobId>, String> = jobs.iter().map(job).collect();
                let jobs = jobs?;
                if jobs.is_empty() {
                    return Err("no job is named".to_owned());
                }
                Self::Cancel {
                    owner,
                    jobs,
                    pending_only,
                }
            }
            Raw::End { ticket } => Self::End { ticket },
        })
    }
}
