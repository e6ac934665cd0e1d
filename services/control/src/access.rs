//! Permissions of users. The requester is the last token of a request's subject; a server with keys
//! lets no user publish on another's, and `Bus::proven` says that this holds. Controls and pilots
//! are for operators. Ending and reading a trainer is for its submitter, its owner and operators.

use std::collections::BTreeSet;

use lacuna_model::{Timestamp, TrainerRecord, TrainerSpec};
use lacuna_trainer::settings;
use lacuna_wire::msg::Reply;
use lacuna_wire::token;

use crate::audit::plain;

/// A refusal, with its code of the error pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Denied {
    pub(crate) code: &'static str,
    pub(crate) reason: String,
}

impl From<Denied> for Reply {
    fn from(denied: Denied) -> Self {
        Self::Refused {
            code: denied.code.to_owned(),
            reason: denied.reason,
        }
    }
}

/// The user of a request, by its subject; `unknown` if the subject names no user.
pub(crate) fn requester(subject: &str) -> String {
    token::last_name(subject)
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "unknown".to_owned())
}

/// The permissions of users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Access {
    enforce: bool,
    operators: BTreeSet<String>,
    max_priority: i32,
}

impl Access {
    /// By the configuration; `proven`: the bus proves the user of a request.
    pub(crate) fn new(config: &settings::Access, proven: bool) -> Self {
        let access = Self {
            enforce: config.enforce.unwrap_or(proven),
            operators: config.operators.iter().cloned().collect(),
            max_priority: config.max_priority,
        };
        if access.has_no_operator() {
            tracing::warn!(
                key = "control.access.operators",
                "there is no operator: no user can change the controls or stop pilots"
            );
        }
        access
    }

    /// Whether no user may do an operator's actions.
    fn has_no_operator(&self) -> bool {
        self.enforce && self.operators.is_empty()
    }

    fn is_operator(&self, user: &str) -> bool {
        !self.enforce || self.operators.contains(user)
    }

    /// Refuses users who are not operators.
    pub(crate) fn operator(&self, user: &str) -> Result<(), Denied> {
        if self.is_operator(user) {
            return Ok(());
        }
        Err(Denied {
            code: "L0020",
            reason: format!(
                "{user} is no operator: only those that control.access.operators names may do this"
            ),
        })
    }

    /// Whether the user submitted the trainer, is its owner, or is an operator.
    pub(crate) fn may_act_on(&self, user: &str, record: &TrainerRecord) -> bool {
        let submitted = !record.user.is_empty() && record.user == user;
        submitted || record.spec.owner.as_deref() == Some(user) || self.is_operator(user)
    }

    /// Refuses users who may not act on the trainer.
    pub(crate) fn trainer(&self, user: &str, record: &TrainerRecord) -> Result<(), Denied> {
        if self.may_act_on(user, record) {
            return Ok(());
        }
        let owner = plain(record.spec.owner.as_deref().unwrap_or(&record.user));
        Err(Denied {
            code: "L0021",
            reason: format!(
                "trainer {} belongs to {owner}, not to {user}: only {owner} and operators may do \
                 this",
                record.spec.id
            ),
        })
    }

    /// The submitter is the owner, and `submit` is not before `now`. Only operators submit for
    /// others, with an earlier time, or with a higher priority than is set.
    pub(crate) fn submission(
        &self,
        user: &str,
        specs: &mut [TrainerSpec],
        now: Timestamp,
    ) -> Result<(), Denied> {
        if !self.enforce {
            return Ok(());
        }
        for spec in specs {
            if spec.priority > self.max_priority && !self.is_operator(user) {
                return Err(Denied {
                    code: "L0020",
                    reason: format!(
                        "trainer {} has priority {}, and {user} is no operator: at most {} is for \
                         everybody (control.access.max_priority)",
                        spec.id, spec.priority, self.max_priority
                    ),
                });
            }
            if !self.is_operator(user) {
                spec.submit = spec.submit.max(now);
            }
            match &spec.owner {
                None => spec.owner = Some(user.to_owned()),
                Some(owner) if owner == user || self.is_operator(user) => {}
                Some(owner) => {
                    // Not checked yet.
                    let owner = plain(owner);
                    return Err(Denied {
                        code: "L0021",
                        reason: format!(
                            "trainer {} names {owner} as its owner, and {user} submits it: leave \
                             the owner out, or ask an operator to submit it",
                            spec.id
                        ),
                    });
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_unix(seconds)
    }

    fn access(enforce: Option<bool>, proven: bool) -> Access {
        let config = settings::Access {
            operators: vec!["op".to_owned()],
            enforce,
            ..settings::Access::default()
        };
        Access::new(&config, proven)
    }

    fn spec(owner: Option<&str>) -> TrainerSpec {
        TrainerSpec {
            owner: owner.map(str::to_owned),
            ..lacuna_testkit::spec("a", 4)
        }
    }

    #[test]
    fn the_subject_names_the_requester() {
        assert_eq!(requester("lacuna.v1.c.req.ann_2Ebee"), "ann.bee");
        assert_eq!(requester("lacuna.v1.c.req.*"), "unknown");
    }

    #[test]
    fn without_proof_every_user_may_do_everything() {
        let open = access(None, false);
        assert!(open.operator("ann").is_ok());
        let mut specs = [spec(Some("bob"))];
        assert!(open.submission("ann", &mut specs, at(1000)).is_ok());
        assert_eq!(specs[0].owner.as_deref(), Some("bob"));
        assert!(access(None, true).operator("ann").is_err());
        assert!(access(Some(false), true).operator("ann").is_ok());
    }

    #[test]
    fn the_first_operator_is_one_without_configuration_and_a_list_without_one_is_noticed() {
        let default = Access::new(&settings::Access::default(), true);
        assert!(default.operator("operator").is_ok());
        assert_eq!(default.operator("ann").unwrap_err().code, "L0020");
        assert!(!default.has_no_operator());
        let none = settings::Access {
            operators: Vec::new(),
            ..settings::Access::default()
        };
        assert!(Access::new(&none, true).has_no_operator());
        assert!(!Access::new(&none, false).has_no_operator());
    }

    #[test]
    fn trainers_belong_to_their_owner_and_submitter() {
        let access = access(Some(true), false);
        assert_eq!(access.operator("ann").unwrap_err().code, "L0020");
        assert!(access.operator("op").is_ok());
        let mut specs = [spec(None), spec(Some("ann"))];
        access.submission("ann", &mut specs, at(1000)).unwrap();
        assert!(specs.iter().all(|s| s.owner.as_deref() == Some("ann")));
        let mut urgent = [spec(None)];
        urgent[0].priority = 1;
        let error = access.submission("ann", &mut urgent, at(1000)).unwrap_err();
        assert_eq!(error.code, "L0020");
        assert!(error.reason.contains("max_priority"), "{error:?}");
        urgent[0].priority = -9;
        access.submission("ann", &mut urgent, at(1000)).unwrap();
        urgent[0].owner = None;
        urgent[0].priority = 99;
        access.submission("op", &mut urgent, at(1000)).unwrap();
        let mut early = [spec(None), spec(None)];
        early[1].submit = at(2000);
        access.submission("op", &mut early, at(1000)).unwrap();
        assert_eq!(early[0].submit, Timestamp::default());
        early[0].owner = None;
        early[1].owner = None;
        access.submission("ann", &mut early, at(1000)).unwrap();
        assert_eq!(early.map(|s| s.submit), [at(1000), at(2000)]);
        let mut of_bob = [spec(Some("bob"))];
        let error = access.submission("ann", &mut of_bob, at(1000)).unwrap_err();
        assert_eq!(error.code, "L0021");
        assert!(access.submission("op", &mut of_bob, at(1000)).is_ok());
        let huge = format!("bob\n{}", "x".repeat(100_000));
        let error = access.submission("ann", &mut [spec(Some(&huge))], at(1000));
        let reason = error.unwrap_err().reason;
        assert!(reason.len() < 1000 && !reason.contains('\n'), "{reason}");
        let mut record = TrainerRecord::new(spec(Some("bob")), 1);
        record.user = "op2".to_owned();
        for (user, may) in [("bob", true), ("op", true), ("op2", true), ("ann", false)] {
            assert_eq!(access.trainer(user, &record).is_ok(), may, "{user}");
        }
        // A record without a user belongs to operators alone.
        let old = TrainerRecord::new(spec(None), 1);
        assert!(access.trainer("", &old).is_err() && access.trainer("op", &old).is_ok());
    }
}
