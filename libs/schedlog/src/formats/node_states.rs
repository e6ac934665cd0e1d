//! Not read yet: knows no line as its own.
use std::collections::VecDeque;

use lacuna_model::HoleRecord;

use crate::formats::HoleParser;
use crate::{FieldError, Reading};

pub(super) fn knows(_lines: &[&[u8]]) -> bool {
    false
}

pub(super) struct NodeStates;

impl NodeStates {
    pub(super) fn new(_reading: &Reading) -> Self {
        Self
    }
}

impl HoleParser for NodeStates {
    fn line(&mut self, _line: &[u8], _ready: &mut VecDeque<HoleRecord>) -> Result<(), FieldError> {
        Ok(())
    }
}
