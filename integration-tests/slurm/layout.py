"""The parts of the test cluster: names, addresses, slurm.conf and the compose file.

Plain functions from a number of nodes to text; nothing here starts anything.
"""

import ipaddress
import os
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# Above this number one container has all nodes, since more containers start too slowly.
MOST_CONTAINERS = 64
FIRST_PORT = 20001
ACCOUNTING = """AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=ctl
AccountingStorageEnforce=associations,limits,qos"""


@dataclass
class Layout:
    """A cluster of `nodes` nodes, in a container each or (`single`) all beside the controller."""

    nodes: int = 4
    single: bool = False
    # Seconds from SIGTERM to SIGKILL; Slurm's default is 30, which makes tests long.
    kill_wait: int = 5
    # Whether prolog and epilog of deploy/slurm run on the nodes.
    hooks: bool = True
    # Whether slurmdbd keeps accounts, and QOS rather than partitions decide who preempts whom.
    accounting: bool = False
    project: str = field(default_factory=lambda: os.environ.get("LACUNA_SLURM_PROJECT", "lacuna-slurm"))
    image: str = field(default_factory=lambda: os.environ.get("LACUNA_SLURM_IMAGE", "lacuna-slurm:local"))
    subnet: str = field(default_factory=lambda: os.environ.get("LACUNA_SLURM_SUBNET", "172.31.240.0/22"))

    def __post_init__(self):
        self.single = self.single or self.nodes > MOST_CONTAINERS

    @property
    def runs(self) -> str:
        """The image of its containers: one more layer where accounts are kept."""
        return self.image.replace(":", "-accounting:") if self.accounting else self.image

    @property
    def state(self) -> Path:
        """Where generated files and copies of the binaries lie, for this project alone."""
        return ROOT / "target" / "slurm" / self.project

    def address(self, place: int) -> str:
        """The address of the controller (0) or of a node (1..)."""
        return str(ipaddress.ip_network(self.subnet)[10 + place])

    @property
    def digits(self) -> int:
        return max(2, len(str(self.nodes)))

    def node(self, place: int) -> str:
        return f"n{place:0{self.digits}d}"

    @property
    def node_names(self) -> list[str]:
        return [self.node(place) for place in range(1, self.nodes + 1)]

    def container(self, node: str) -> str:
        """The container in which a node (or `ctl`) lives."""
        return f"{self.project}-{'ctl' if self.single else node}"

    @property
    def containers(self) -> list[str]:
        names = [] if self.single else self.node_names
        return [self.container(name) for name in ["ctl", *names]]

    def slurm_conf(self) -> str:
        def span(first: int, last: int) -> str:
            return f"[{first:0{self.digits}d}-{last:0{self.digits}d}]"

        names = span(1, self.nodes)
        if self.single:
            ports = f"[{FIRST_PORT}-{FIRST_PORT + self.nodes - 1}]"
            where = f"NodeHostname=ctl NodeAddr={self.address(0)} Port={ports}"
            lines = [f"NodeName=n{names} {where} CPUs=4 RealMemory=4000 State=UNKNOWN"]
        else:
            lines = [
                f"NodeName={self.node(place)} NodeAddr={self.address(place)} CPUs=4 RealMemory=4000 State=UNKNOWN"
                for place in range(1, self.nodes + 1)
            ]
        hooks = ["Prolog=/opt/lacuna/hooks/prolog.sh", "Epilog=/opt/lacuna/hooks/epilog.sh"] if self.hooks else []
        text = (HERE / "slurm.conf.in").read_text()
        for name, value in {
            "@CTL@": self.address(0),
            "@KILL_WAIT@": str(self.kill_wait),
            "@HOOKS@": "\n".join(hooks),
            "@PREEMPT@": "qos" if self.accounting else "partition_prio",
            "@ACCOUNTING@": ACCOUNTING if self.accounting else "",
            "@NODES@": "\n".join(lines),
        }.items():
            text = text.replace(name, value)
        return text

    def compose(self) -> dict:
        """The compose file as data; JSON is YAML."""
        volumes = [
            f"{self.state}/etc:/etc/slurm:ro",
            f"{self.state}/conf:/etc/lacuna:ro",
            f"{self.state}/bin:/opt/lacuna/bin:ro",
            f"{self.state}/py:/opt/lacuna/py:ro",
            f"{self.state}/hooks:/opt/lacuna/hooks:ro",
            f"{HERE}:/test-cluster:ro",
            "shared:/shared",
        ]
        roles = {"ctl": (0, ["single" if self.single else "controller"])}
        if self.accounting:
            roles = {"ctl": (0, ["accounting"])}
        if not self.single:
            roles |= {name: (place, ["node"]) for place, name in enumerate(self.node_names, 1)}
        services = {
            name: {
                "image": self.runs,
                "container_name": f"{self.project}-{name}",
                "hostname": name,
                "command": ["/test-cluster/entry.sh", *role],
                "volumes": volumes,
                # A small disk of each node's own, for programs that fill it.
                "tmpfs": ["/small:size=4m,mode=1777"],
                "networks": {"cluster": {"ipv4_address": self.address(place)}},
                "stop_grace_period": "2s",
            }
            for name, (place, role) in roles.items()
        }
        return {
            "version": "3.7",
            "services": services,
            "networks": {"cluster": {"ipam": {"config": [{"subnet": self.subnet}]}}},
            "volumes": {"shared": {}},
        }
