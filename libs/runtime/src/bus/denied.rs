//! Refusals by the server. nats-server reports a refused subject separately from answers. The
//! refusal is passed to the waiting request, which then ends.

use std::future::Future;

use prometheus::IntCounter;
use tokio::sync::broadcast;

use super::{Bus, BusError};

/// How long a subscription waits for a refusal, where keys are in use.
const DOUBT: std::time::Duration = std::time::Duration::from_millis(20);

/// Passes refusals to waiting requests.
#[derive(Debug, Clone)]
pub(super) struct Denials {
    reported: broadcast::Sender<String>,
    counted: IntCounter,
}

impl Denials {
    pub(super) fn new(counted: IntCounter) -> Self {
        Self {
            reported: broadcast::Sender::new(64),
            counted,
        }
    }

    /// Handles a report of the server, if it is a refusal; gives whether it is one.
    pub(super) fn handle(&self, report: &str) -> bool {
        let Some(denial) = Denial::read(report) else {
            return false;
        };
        self.counted.inc();
        tracing::error!(
            subject = denial.subject,
            act = denial.act,
            "nats-server refuses it: the key of this process has no permission"
        );
        // There may be no waiting request.
        let _ = self.reported.send(denial.subject.to_owned());
        true
    }
}

/// `Permissions Violation for Publish to "a.b"`, as nats-server words it.
#[derive(Debug, PartialEq, Eq)]
struct Denial<'a> {
    act: &'a str,
    subject: &'a str,
}

impl<'a> Denial<'a> {
    fn read(report: &'a str) -> Option<Self> {
        let (_, rest) = report.split_once("ermissions Violation for ")?;
        let (act, rest) = rest.split_once(" to \"")?;
        let (subject, _) = rest.split_once('"')?;
        Some(Self { act, subject })
    }
}

impl Bus {
    /// Waits for `answer`, or for the server to refuse a subject of which `concerns` is true.
    pub(super) async fn unless_denied<T>(
        &self,
        concerns: impl Fn(&str) -> bool,
        answer: impl Future<Output = Result<T, BusError>>,
    ) -> Result<T, BusError> {
        let mut reported = self.0.denials.reported.subscribe();
        let refusal = async {
            loop {
                match reported.recv().await {
                    Ok(subject) if concerns(&subject) => return subject,
                    Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => {
                        return std::future::pending().await;
                    }
                }
            }
        };
        tokio::select! {
            biased;
            answer = answer => answer,
            subject = refusal => Err(self.denied(&subject)),
        }
    }

    /// Waits until the subscription is made and the server has had time to refuse it.
    pub(super) async fn unless_deaf<T>(
        &self,
        subject: &str,
        subscribed: impl Future<Output = Result<T, BusError>>,
    ) -> Result<T, BusError> {
        let doubt = async {
            let done = subscribed.await?;
            if self.proven() {
                tokio::time::sleep(DOUBT).await;
            }
            Ok(done)
        };
        self.unless_denied(|denied| denied == subject, doubt).await
    }

    fn denied(&self, subject: &str) -> BusError {
        BusError::Denied {
            subject: subject.to_owned(),
            user: self.user().to_owned(),
        }
    }
}

/// Whether a request to JetStream concerns a stream.
pub(super) fn names(request: &str, stream: &str) -> bool {
    request.starts_with("$JS.API.") && request.split('.').any(|token| token == stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_read_and_other_reports_are_not() {
        let read = |text| Denial::read(text).map(|d| (d.act, d.subject));
        assert_eq!(
            read("nats: Permissions Violation for Publish to \"a.b\""),
            Some(("Publish", "a.b"))
        );
        assert_eq!(
            read("nats: Permissions Violation for Subscription to \"a.>\" using queue \"q\""),
            Some(("Subscription", "a.>"))
        );
        assert_eq!(read("nats: Maximum Payload Violation"), None);
        assert!(names("$JS.API.STREAM.INFO.lac_c_in", "lac_c_in"));
        assert!(names("$JS.API.CONSUMER.CREATE.lac_c_in.x.y", "lac_c_in"));
        assert!(!names("$JS.API.STREAM.INFO.lac_c_in2", "lac_c_in"));
        assert!(!names("lac_c_in", "lac_c_in"));
    }
}
