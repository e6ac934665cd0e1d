//! The state of a node in Slurm's words.
//!
//! Sources: `node_state_string`, `node_state_string_compact` and `node_state_string_complete`
//! in Slurm's `slurm_protocol_defs.c`, releases 22.05 to 25.05; manual page of `sinfo`, "NODE
//! STATE CODES". Three notations are read:
//!
//! - complete (`sinfo -O StateComplete`, slurmrestd): `IDLE+DRAIN`, `allocated+planned`; the
//!   only one that hides nothing;
//! - long (`%T`): `idle`, `idle*`, `draining`, `mixed-`, `planned`;
//! - compact (`%t`): `idle`, `drng`, `mix-`, `plnd`, `comp`.
//!
//! A word that nobody knows (a later release) is remembered as [`NodeFlags::strange`]: such a
//! node is no hole, whatever else is said of it.

use std::fmt;

/// What a node does, without its flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Base {
    /// No job.
    Idle,
    /// All of it is in use.
    Allocated,
    /// Some of it is in use.
    Mixed,
    /// The scheduler does not know: it has just started, and the node has not spoken yet.
    Unknown,
    /// Out of order, or not there yet.
    #[default]
    Down,
}

/// The state of a node: its base and its flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct NodeFlags {
    /// What it does.
    pub base: Base,
    /// A job's end is not over: processes, Epilog. Nothing can start.
    pub completing: bool,
    /// No new jobs, by an administrator's or Slurm's own word.
    pub drain: bool,
    /// Expected to fail.
    pub fail: bool,
    /// In a reservation for maintenance.
    pub maintenance: bool,
    /// In another reservation.
    pub reserved: bool,
    /// Promised to a job by the backfill scheduler.
    pub planned: bool,
    /// Its daemon does not answer.
    pub not_responding: bool,
    /// Powered down, or on its way down or up.
    pub power: bool,
    /// Asked to reboot, or rebooting.
    pub reboot: bool,
    /// In use by something else than jobs (registration refused, performance counters, used from
    /// outside).
    pub blocked: bool,
    /// A word that this program does not know.
    pub strange: bool,
}

impl NodeFlags {
    /// Reads a state in any notation and case.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut flags = Self::default();
        let mut based = false;
        for word in text.trim().split(['+', ',']) {
            // `ALLOCATED+` is the long notation's way to say that a job is completing as well.
            if word.is_empty() {
                flags.completing = true;
                continue;
            }
            let mark = |c: char| "*~#%$@^!-".contains(c);
            let plain = word.trim_end_matches(mark);
            for c in word.chars().skip(plain.chars().count()) {
                flags.mark(c);
            }
            based |= flags.word(&plain.to_ascii_uppercase(), based);
        }
        // A state of flags alone (`PLANNED`, `MAINT`, `DRAINED`) has its base in the word.
        flags.strange |= !based;
        flags
    }

    /// As [`NodeFlags::parse`], of a list of words, as slurmrestd gives them.
    #[must_use]
    pub fn of_words<'a>(words: impl IntoIterator<Item = &'a str>) -> Self {
        let mut text = String::new();
        for word in words {
            if !text.is_empty() {
                text.push('+');
            }
            text.push_str(word.trim());
        }
        Self::parse(&text)
    }

    /// Why no job can start or go on here for a while, if so.
    #[must_use]
    pub fn unusable(&self) -> Option<&'static str> {
        let reasons = [
            (self.strange, "in a state that is not known"),
            (self.power, "powered down or changing power"),
            (self.reboot, "to be rebooted"),
            (self.maintenance, "in maintenance"),
            (self.fail, "failing"),
            (self.drain, "drained"),
            (self.blocked, "blocked"),
            (self.base == Base::Down && !self.not_responding, "down"),
            (self.not_responding, "not responding"),
            (self.base == Base::Unknown, "not known yet"),
        ];
        reasons
            .iter()
            .find(|(holds, _)| *holds)
            .map(|(_, why)| *why)
    }

    /// Whether the scheduler has not heard from it and says nothing else against it: it may only
    /// have been started anew, or the network be slow. It calls a node down that stays silent.
    #[must_use]
    pub fn is_unclear(&self) -> bool {
        let silent = self.not_responding || self.base == Base::Unknown;
        silent && self.heard().unusable().is_none()
    }

    /// The same, as if the node had spoken.
    #[must_use]
    pub fn heard(&self) -> Self {
        Self {
            base: match self.base {
                Base::Unknown => Base::Idle,
                known => known,
            },
            not_responding: false,
            ..*self
        }
    }

    /// A character behind a word of the long and the compact notation.
    fn mark(&mut self, c: char) {
        match c {
            '*' => self.not_responding = true,
            '~' | '#' | '%' | '!' => self.power = true,
            '$' => self.maintenance = true,
            '@' | '^' => self.reboot = true,
            '-' => self.planned = true,
            _ => self.strange = true,
        }
    }

    /// One word, in capitals, and whether one before it said what the node does; whether that is
    /// known now.
    fn word(&mut self, word: &str, based: bool) -> bool {
        let base = match word {
            "IDLE" => Base::Idle,
            "ALLOCATED" | "ALLOC" => Base::Allocated,
            "MIXED" | "MIX" => Base::Mixed,
            "UNKNOWN" | "UNK" => Base::Unknown,
            "DOWN" | "ERROR" | "FUTURE" | "FUTR" => Base::Down,
            // Where the node comes from; says nothing of what it does.
            "CLOUD" | "DYNAMIC_NORM" | "DYNAMIC_FUTURE" | "RESUME" | "UNDRAIN" => return based,
            other => match self.flag(other) {
                Some(base) if !based => base,
                Some(_) => return true,
                None => {
                    self.strange = true;
                    return based;
                }
            },
        };
        // Two of them contradict each other.
        self.strange |= based && self.base != base;
        self.base = base;
        true
    }

    /// A word that is a flag, and what the node does if it stands alone.
    fn flag(&mut self, word: &str) -> Option<Base> {
        let (base, flag) = match word {
            "COMPLETING" | "COMP" => (Base::Idle, &mut self.completing),
            "PLANNED" | "PLND" => (Base::Idle, &mut self.planned),
            "RESERVED" | "RESV" => (Base::Idle, &mut self.reserved),
            "MAINT" | "MAINTENANCE" => (Base::Idle, &mut self.maintenance),
            "DRAIN" | "DRAINED" => (Base::Idle, &mut self.drain),
            "DRAINING" | "DRNG" => (Base::Allocated, &mut self.drain),
            "FAIL" => (Base::Idle, &mut self.fail),
            "FAILING" | "FAILG" => (Base::Allocated, &mut self.fail),
            "REBOOT" | "BOOT" | "REBOOT_REQUESTED" | "REBOOT_ISSUED" | "REBOOT_CANCELED"
            | "CANCEL_REBOOT" | "CANC_R" => (Base::Idle, &mut self.reboot),
            "POWER_DOWN" | "POW_DN" | "POWER_UP" | "POW_UP" | "POWERING_DOWN" | "POWRING_DN"
            | "POWERING_UP" | "POWERED_DOWN" | "POWERED_DN" | "POWER_DRAIN" => {
                (Base::Idle, &mut self.power)
            }
            "NOT_RESPONDING" | "NO_RESPOND" => (Base::Idle, &mut self.not_responding),
            "INVALID_REG" | "INVAL" | "INVALID" | "BLOCKED" | "EXTERNAL" | "PERFCTRS" | "NPC" => {
                (Base::Idle, &mut self.blocked)
            }
            _ => return None,
        };
        *flag = true;
        Some(base)
    }
}

impl fmt::Display for NodeFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.base {
            Base::Idle => "idle",
            Base::Allocated => "allocated",
            Base::Mixed => "mixed",
            Base::Unknown => "unknown",
            Base::Down => "down",
        })?;
        for (set, name) in [
            (self.completing, "completing"),
            (self.drain, "drain"),
            (self.fail, "fail"),
            (self.maintenance, "maintenance"),
            (self.reserved, "reserved"),
            (self.planned, "planned"),
            (self.not_responding, "not responding"),
            (self.power, "power"),
            (self.reboot, "reboot"),
            (self.blocked, "blocked"),
            (self.strange, "strange"),
        ] {
            if set {
                write!(f, "+{name}")?;
            }
        }
        Ok(())
    }
}
