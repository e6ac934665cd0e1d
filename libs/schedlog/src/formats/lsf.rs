//! Not read yet: knows no line as its own.
use crate::formats::JobParser;
use crate::{FieldError, JobRecord, Reading};

pub(super) fn knows_acct(_lines: &[&[u8]]) -> bool {
    false
}
pub(super) fn knows_events(_lines: &[&[u8]]) -> bool {
    false
}

pub(super) struct Acct;
pub(super) struct Events;

impl Acct {
    pub(super) fn new(_reading: &Reading) -> Self {
        Self
    }
}
impl Events {
    pub(super) fn new(_reading: &Reading) -> Self {
        Self
    }
}

impl JobParser for Acct {
    fn line(&mut self, _line: &[u8], _record: &mut JobRecord) -> Result<bool, FieldError> {
        Ok(false)
    }
}
impl JobParser for Events {
    fn line(&mut self, _line: &[u8], _record: &mut JobRecord) -> Result<bool, FieldError> {
        Ok(false)
    }
}
