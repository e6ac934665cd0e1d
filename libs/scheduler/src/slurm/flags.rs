//! State words of a Slurm node, of any version, in any notation.
//!
//! Sources: `node_state_string`, `node_state_string_compact` and `node_state_string_complete`
//! in Slurm's `slurm_protocol_defs.c`, releases 22.05 to 25.05; manual page of `sinfo`, "NODE
//! STATE CODES". Three notations are read:
//!
//! - complete (`sinfo -O StateComplete`, slurmrestd): `IDLE+DRAIN`, `allocated+planned`. Only this
//!   notation shows all flags;
//! - long (`%T`): `idle`, `idle*`, `draining`, `mixed-`, `planned`;
//! - compact (`%t`): `idle`, `drng`, `mix-`, `plnd`, `comp`.
//!
//! An unknown word, as of a later release, sets [`NodeFlags::strange`]. Such a node is never a
//! hole.

use std::fmt;

/// Base state of a node, without its flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Base {
    /// The node has no job.
    Idle,
    /// All of the node is in use.
    Allocated,
    /// A part of the node is in use.
    Mixed,
    /// The scheduler has just started and has not heard from the node yet.
    Unknown,
    /// The node is out of order or does not exist yet.
    #[default]
    Down,
}

/// The state of a node: its base and its flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct NodeFlags {
    /// Base state.
    pub base: Base,
    /// A job is completing: its processes or its Epilog still run, and no job can start.
    pub completing: bool,
    /// An administrator or Slurm itself lets no new jobs start.
    pub drain: bool,
    /// The node is expected to fail.
    pub fail: bool,
    /// The node is in a reservation for maintenance.
    pub maintenance: bool,
    /// The node is in another reservation.
    pub reserved: bool,
    /// The backfill scheduler has planned a job there.
    pub planned: bool,
    /// The daemon of the node does not answer.
    pub not_responding: bool,
    /// The node is powered down, or changes power.
    pub power: bool,
    /// A reboot is requested or under way.
    pub reboot: bool,
    /// Registration refused, performance counters in use, or used from outside Slurm.
    pub blocked: bool,
    /// The state has a word that this program does not know.
    pub strange: bool,
}

impl NodeFlags {
    /// Reads a state in any notation and case.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut flags = Self::default();
        let mut based = false;
        for word in text.trim().split(['+', ',']) {
            // In the long notation, `ALLOCATED+` means that a job is completing as well.
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
        // A state of flags alone (`PLANNED`, `MAINT`, `DRAINED`) implies its base.
        flags.strange |= !based;
        flags
    }

    /// As [`NodeFlags::parse`], from a list of words, as in the JSON of slurmrestd.
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

    /// Reason why no job can start or go on here for a while, if there is one.
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

    /// Whether silence is the only obstacle. The scheduler may have restarted, or the network may
    /// be slow. A node that stays silent becomes `down`.
    #[must_use]
    pub fn is_unclear(&self) -> bool {
        let silent = self.not_responding || self.base == Base::Unknown;
        silent && self.heard().unusable().is_none()
    }

    /// The same flags, as if the node had answered.
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

    /// Applies a character behind a word of the long and the compact notation.
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

    /// Applies one word, in capitals. `based`: an earlier word has given the base state. Returns
    /// whether the base state is known now.
    fn word(&mut self, word: &str, based: bool) -> bool {
        let base = match word {
            "IDLE" => Base::Idle,
            "ALLOCATED" | "ALLOC" => Base::Allocated,
            "MIXED" | "MIX" => Base::Mixed,
            "UNKNOWN" | "UNK" => Base::Unknown,
            "DOWN" | "ERROR" | "FUTURE" | "FUTR" => Base::Down,
            // The origin of the node, or a request; neither is a base state.
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
        // Two base states contradict each other.
        self.strange |= based && self.base != base;
        self.base = base;
        true
    }

    /// Applies a word that is a flag. Returns the base state that the word implies alone.
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
