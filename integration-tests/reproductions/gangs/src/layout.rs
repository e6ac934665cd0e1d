//! The layout of a cluster.

use crate::error::Error;

/// Racks of machines of slots of GPUs. Machines are numbered rack by rack, GPUs slot by slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    racks: u32,
    rack_machines: u32,
    machine_slots: u32,
    slot_gpus: u32,
}

impl Layout {
    /// A layout; a machine has at most 64 GPUs.
    ///
    /// # Errors
    /// A number is 0, or a machine or the cluster is too large.
    pub fn new(racks: u32, machines: u32, slots: u32, slot_gpus: u32) -> Result<Self, Error> {
        let check = |what: &str, value: u32, most: u32, expected| {
            let wrong = value == 0 || value > most;
            let error = || Error::Value {
                what: what.to_owned(),
                value: f64::from(value),
                expected,
            };
            if wrong { Err(error()) } else { Ok(()) }
        };
        check("the number of racks", racks, 4096, "1 to 4096")?;
        check(
            "the number of machines of a rack",
            machines,
            4096,
            "1 to 4096",
        )?;
        check("the number of slots of a machine", slots, 64, "1 to 64")?;
        check("the number of GPUs of a slot", slot_gpus, 64, "1 to 64")?;
        check(
            "the number of GPUs of a machine",
            slots * slot_gpus,
            64,
            "1 to 64",
        )?;
        Ok(Self {
            racks,
            rack_machines: machines,
            machine_slots: slots,
            slot_gpus,
        })
    }

    /// Number of racks.
    #[must_use]
    pub const fn racks(self) -> u32 {
        self.racks
    }

    /// Number of machines of the cluster.
    #[must_use]
    pub const fn machines(self) -> u32 {
        self.racks * self.rack_machines
    }

    /// Number of machines of a rack.
    #[must_use]
    pub const fn rack_machines(self) -> u32 {
        self.rack_machines
    }

    /// Number of GPUs of a slot.
    #[must_use]
    pub const fn slot_gpus(self) -> u32 {
        self.slot_gpus
    }

    /// Number of GPUs of a machine.
    #[must_use]
    pub const fn machine_gpus(self) -> u32 {
        self.machine_slots * self.slot_gpus
    }

    /// Number of GPUs of a rack.
    #[must_use]
    pub const fn rack_gpus(self) -> u32 {
        self.rack_machines * self.machine_gpus()
    }

    /// Number of GPUs of the cluster.
    #[must_use]
    pub const fn gpus(self) -> u32 {
        self.racks * self.rack_gpus()
    }

    /// The rack of a machine.
    #[must_use]
    pub const fn rack_of(self, machine: u32) -> u32 {
        machine / self.rack_machines
    }

    /// The GPUs of a whole machine, as bits.
    pub(crate) const fn whole(self) -> u64 {
        u64::MAX >> (64 - self.machine_gpus())
    }

    /// The GPUs of each slot of a machine that has some, as bits.
    pub(crate) fn slots_of(self, gpus: u64) -> impl Iterator<Item = u64> {
        let slot = u64::MAX >> (64 - self.slot_gpus);
        let slots = (0..self.machine_slots).map(move |at| gpus & (slot << (at * self.slot_gpus)));
        slots.filter(|gpus| *gpus != 0)
    }
}
