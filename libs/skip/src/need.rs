//! Requirements of tests.

/// A requirement of a test that a machine may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// The folder of recordings.
    Data,
    /// A Python with PyTorch.
    Torch,
    /// A Docker engine that runs containers.
    Docker,
    /// Chromium and its driver.
    Chromium,
    /// Prometheus and promtool.
    Prometheus,
    /// strace that may trace.
    Strace,
    /// Python's client of NATS.
    NatsPy,
    /// The NATS command line.
    NatsCli,
    /// libfaketime, for wrong clocks.
    Faketime,
    /// The rights of root.
    Root,
    /// A cgroup of version 2 that this user may divide.
    Cgroups,
    /// `/dev/full`, the disk that is always full.
    DevFull,
    /// The services' binaries beside the tests.
    Services,
}

impl Need {
    /// All needs.
    pub const ALL: [Self; 13] = [
        Self::Data,
        Self::Torch,
        Self::Docker,
        Self::Chromium,
        Self::Prometheus,
        Self::Strace,
        Self::NatsPy,
        Self::NatsCli,
        Self::Faketime,
        Self::Root,
        Self::Cgroups,
        Self::DevFull,
        Self::Services,
    ];

    /// The name in `LACUNA_REQUIRE`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Torch => "torch",
            Self::Docker => "docker",
            Self::Chromium => "chromium",
            Self::Prometheus => "prometheus",
            Self::Strace => "strace",
            Self::NatsPy => "nats-py",
            Self::NatsCli => "nats-cli",
            Self::Faketime => "faketime",
            Self::Root => "root",
            Self::Cgroups => "cgroups",
            Self::DevFull => "dev-full",
            Self::Services => "services",
        }
    }

    /// How to meet the need.
    #[must_use]
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Data => "LACUNA_DATA=FOLDER of the recordings",
            Self::Torch => "apt-get install python3-torch python3-pytest, or LACUNA_PYTHON=PYTHON",
            Self::Docker => "apt-get install docker.io docker-compose debootstrap, and run as root",
            Self::Chromium => "apt-get install chromium chromium-driver",
            Self::Prometheus => "apt-get install prometheus",
            Self::Strace => "apt-get install strace",
            Self::NatsPy => "python3 -m pip, and a package index that it reaches",
            Self::NatsCli => "install the NATS command line, nats",
            Self::Faketime => "apt-get install libfaketime",
            Self::Root => "run as root",
            Self::Cgroups => "run as root where cgroup 2 can be written",
            Self::DevFull => "mknod -m 666 /dev/full c 1 7",
            Self::Services => "cargo build --release --workspace --bins",
        }
    }
}
