//! What a column of [`crate::patterns::Runs`] stands for, in its tag and in words.

/// A pattern in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// What it has stays.
    Keep,
    /// Nodes are given back from the front of the order.
    Shrink {
        /// How many it keeps.
        to: u32,
    },
    /// Nodes of a run come to those that it has.
    Grow {
        /// The run.
        run: Run,
    },
    /// It gets nodes of a run and nothing else.
    Any {
        /// The run.
        run: Run,
    },
    /// It gets none.
    Nothing,
}

/// A run of adjacent classes: of its first class all that was to be had or a part, of those
/// between all, of the last the rest of the nodes. How many of each the column says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The class at which it begins.
    pub from: u32,
    /// The class at which it ends: before `from` if it goes towards the front.
    pub to: u32,
    /// Nodes of the last class.
    pub of_last: u32,
}

/// Which kind of pattern a tag is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Keep,
    Grow,
    Any,
    Nothing,
    Shrink,
}

/// Kind, first and last class and count in one number; what does not fit is cut, which spoils
/// the words and nothing else.
pub(crate) fn tag(kind: Kind, from: u32, to: u32, count: u32) -> u64 {
    let kind = match kind {
        Kind::Keep => 0,
        Kind::Grow => 1,
        Kind::Any => 2,
        Kind::Nothing => 3,
        Kind::Shrink => 4,
    };
    let class = |k: u32| u64::from(k & 0xffff);
    kind << 56 | class(from) << 40 | class(to) << 24 | u64::from(count & 0xff_ffff)
}

/// A tag in words; nothing for one that is not of here.
pub(crate) fn words(tag: u64) -> Option<Pattern> {
    let part = |shift: u32, mask: u64| u32::try_from(tag >> shift & mask).ok();
    let run = Run {
        from: part(40, 0xffff)?,
        to: part(24, 0xffff)?,
        of_last: part(0, 0xff_ffff)?,
    };
    match tag >> 56 {
        0 => Some(Pattern::Keep),
        1 => Some(Pattern::Grow { run }),
        2 => Some(Pattern::Any { run }),
        3 => Some(Pattern::Nothing),
        4 => Some(Pattern::Shrink { to: run.of_last }),
        _ => None,
    }
}
