//! The known formats, and their recognition.

/// A format of log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Standard Workload Format, version 2.2 (Parallel Workloads Archive).
    Swf,
    /// Slurm: `sacct --parsable2` (or `--parsable`, or another delimiter-separated table).
    Sacct,
    /// Slurm: the job completion plugin `jobcomp/filetxt`.
    Jobcomp,
    /// Slurm: `slurmctld.log`.
    Slurmctld,
    /// Slurm: snapshots of `sinfo`, in blocks.
    Sinfo,
    /// PBS, OpenPBS, Torque: accounting records.
    Pbs,
    /// LSF: `lsb.acct`.
    LsbAcct,
    /// LSF: `lsb.events`.
    LsbEvents,
    /// Lacuna: past holes, see [`crate::HEADER`].
    Holes,
    /// Lacuna: states of nodes, `time,node,state`.
    NodeStates,
}

impl Format {
    /// All formats, in the order of recognition. `sacct` recognises any table with a column
    /// `JobID`, to report missing columns. Another format with such a column precedes it.
    pub const ALL: [Self; 10] = [
        Self::Swf,
        Self::Sacct,
        Self::Jobcomp,
        Self::Slurmctld,
        Self::Sinfo,
        Self::Pbs,
        Self::LsbAcct,
        Self::LsbEvents,
        Self::Holes,
        Self::NodeStates,
    ];

    /// Name of the format on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.entry().name
    }

    /// All names, for messages.
    #[must_use]
    pub fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    /// The format of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// Whether its times are local times, and the log does not contain their time zone.
    #[must_use]
    pub const fn has_local_times(self) -> bool {
        matches!(self, Self::Sacct | Self::Jobcomp | Self::Slurmctld)
    }

    /// Recognises the format by the beginning of a log: the first format that knows one of the
    /// first lines. Long comments at the beginning, as in the archives of SWF logs, are skipped.
    #[must_use]
    pub fn detect(head: &[u8]) -> Option<Self> {
        let mut taken = 0;
        let lines: Vec<&[u8]> = head
            .split(|&byte| byte == b'\n')
            .map(<[u8]>::trim_ascii)
            .filter(|line| !line.is_empty())
            .take_while(|line| {
                taken += u32::from(!line.starts_with(b";"));
                taken <= 64
            })
            .collect();
        Self::ALL
            .into_iter()
            .find(|format| (format.entry().knows)(&lines))
    }
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
