//! Not read yet: knows no line as its own.
use crate::formats::JobParser;
use crate::{FieldError, JobRecord, Reading};

pub(super) fn knows(_lines: &[&[u8]]) -> bool {
    false
}

pub(super) struct Jobcomp;

impl Jobcomp {
    pub(super) fn new(_reading: &Reading) -> Self {
        Self
    }
}

impl JobParser for Jobcomp {
    fn line(&mut self, _line: &[u8], _record: &mut JobRecord) -> Result<bool, FieldError> {
        Ok(false)
    }
}
