"""A site whose pilots run under their owners' accounts: a bus with keys, the helper beside the
controller, called through sudo, and the keys and tickets of two owners."""

import json
import subprocess

from cluster import Cluster
from lacuna_beside import BATCH, PILOT, TRAIN, Lacuna
from trainers import counted

OWNERS = (BATCH, TRAIN)
HELPER = ["/opt/lacuna/bin/lacuna-pilot-helper", "--config", "/etc/pilot-helper/helper.toml"]
KEYS = "/var/lib/lacuna/keys"
CONFIG = """
cluster = "main"
script = "/etc/pilot-helper/pilot.sh"
[keys]
@KEYS
[settings]
partition = "filler"
metrics = "/etc/pilot-helper/refused.prom"
"""
# A pilot that says under which account it runs.
SCRIPT = """#!/bin/bash
id -un >"/shared/pilot-$SLURM_JOB_ID"
exec sleep 300
"""
# A pilot whose agent has a folder, a configuration and a key of its owner's.
AGENT = """#!/bin/bash
umask 077
own="/tmp/owner-$(id -un)"
mkdir -p "$own"
sed "s#/var/lib/lacuna/work#$own/work#" /etc/lacuna/lacuna.toml >"$own/lacuna.toml"
@EXPORTS
exec srun --nodes=1 --ntasks=1 --cpu-bind=none --mpi=none --kill-on-bad-exit=1 --export=ALL \\
    /opt/lacuna/bin/lacuna-agent --pilot --node "$SLURMD_NODENAME" --config "$own/lacuna.toml" \\
    --identity "/shared/keys-$(id -un)/agent-$SLURMD_NODENAME.toml"
"""
#: What names the pilots' user in lacuna.toml; the pilots of all users are ours here.
ALL_USERS = ('partition = "filler"\nuser = "lacuna"', 'partition = "filler"')
#: Keys decide who an operator is.
OPERATORS = ("[control.pilots.pace]", '[control.access]\noperators = ["operator"]\n\n[control.pilots.pace]')
CALLS_HELPER = ("[control.pilots]\n", f"[control.pilots]\nhelper = {json.dumps(['sudo', '-n', *HELPER])}\n")


class HelperSite:
    """The site, on the test cluster."""

    def __init__(self, cluster: Cluster, lacuna: Lacuna):
        self.cluster, self.lacuna = cluster, lacuna

    def root(self, *command: str, **more) -> str:
        return self.cluster.ctl(*command, **more).stdout

    def file(self, path: str, text: str, owner: str = "root", mode: str = "644") -> None:
        """A file beside the controller."""
        script = 'umask 077; cat >"$0"; chmod "$2" "$0"; chown "$1" "$0"'
        self.root("bash", "-c", script, path, owner, mode, input=text, interactive=True)

    def keys(self) -> None:
        """A bus with keys, before the services start."""
        nodes = [word for node in self.cluster.layout.node_names for word in ("--agent", node)]
        self.root("lacuna", "keys", "init", KEYS, "--cluster", "main", "--host", "ctl", *nodes, user=PILOT)
        for owner in OWNERS:
            self.root("lacuna", "keys", "add-user", KEYS, owner, "--role", "researcher", user=PILOT)
        words = ["--store", "/var/lib/lacuna/nats", "--listen", "0.0.0.0:4222", "--monitor", "127.0.0.1:8222"]
        conf = self.root("lacuna", "config", "nats-server", *words, "--keys", f"{KEYS}/server")
        self.file(f"{KEYS}/nats.conf", conf)
        # Each owner has their own key, and those that agents of their pilots need.
        for owner in OWNERS:
            names = [owner, *(f"agent-{node}" for node in self.cluster.layout.node_names)]
            files = [f"{KEYS}/main/{name}.toml" for name in names]
            self.root("install", "-d", "-m", "700", "-o", owner, f"/shared/keys-{owner}")
            self.root("install", "-m", "600", "-o", owner, *files, f"/shared/keys-{owner}")
        self.lacuna.identity = ["--identity", f"{KEYS}/main/operator.toml"]

    def helper(self, settings: str = "") -> None:
        """The helper, for the keys of both owners, and sudo's rule for it. `settings` are more of them."""
        self.root("rm", "-rf", "/etc/pilot-helper", "/var/lib/lacuna-pilot-helper")
        self.root("mkdir", "-m", "755", "/etc/pilot-helper")
        self.file("/etc/pilot-helper/pilot.sh", SCRIPT)
        self.keys_of_helper(settings=settings)
        self.file("/etc/sudoers.d/helper", f"{PILOT} ALL=(root) NOPASSWD: {' '.join(HELPER)}\n")

    def keys_of_helper(self, until: str = "", settings: str = "") -> None:
        """Writes the helper's configuration. `until` is put behind each key."""
        keys = "\n".join(f'{owner} = ["{self.public_key(owner)}{until}"]' for owner in OWNERS)
        self.file("/etc/pilot-helper/helper.toml", CONFIG.replace("@KEYS", keys) + settings)

    def ask(self, request: dict) -> subprocess.CompletedProcess:
        """A request to the helper, as control's user."""
        options = {"user": PILOT, "check": False, "interactive": True}
        return self.cluster.ctl("sudo", "-n", *HELPER, input=json.dumps(request), **options)

    def submit(self, ticket: dict, node: str) -> subprocess.CompletedProcess:
        """A pilot on a node."""
        return self.ask({"do": "submit", "ticket": ticket, "node": node, "minutes": 10})

    def agents(self) -> None:
        """Pilots run agents from now on."""
        names = ("PYTHONPATH", "OMP_NUM_THREADS")
        exports = [f"export {name}={self.root('printenv', name, check=False).strip()}" for name in names]
        self.file("/etc/pilot-helper/pilot.sh", AGENT.replace("@EXPORTS", "\n".join(exports)))

    def public_key(self, owner: str) -> str:
        script = (
            "import sys, tomllib; users = tomllib.load(open(sys.argv[1], 'rb'))['users'];"
            "print(next(u['key'] for u in users if u['name'] == sys.argv[2]))"
        )
        return self.root("python3", "-c", script, f"{KEYS}/users.toml", owner).strip()

    def identity(self, owner: str) -> str:
        """The file of an owner's key."""
        return f"/shared/keys-{owner}/{owner}.toml"

    def ticket(self, owner: str, pilots: int = 2, valid: str = "7d") -> dict:
        """The ticket that an owner signs for one of their own trainers."""
        self.file("/root/trainer.toml", counted(f"of-{owner}"))
        words = ["pilots", "ticket", "/root/trainer.toml", "--pilots", str(pilots), "--valid", valid]
        return json.loads(self.root("lacuna", *words, "--identity", f"{KEYS}/main/{owner}.toml"))

    def submit_as(self, owner: str, name: str = "", check: bool = True, signed: bool = True, **more) -> dict:
        """The owner submits a trainer, which can use all nodes."""
        name = name or f"of-{owner}"
        self.file(f"/shared/{name}.toml", counted(name, **more))
        words = ["lacuna", "submit", f"/shared/{name}.toml", "--json"]
        words += ["--identity", self.identity(owner)] if signed else []
        done = self.cluster.ctl(*words, user=owner, check=check, limit=30)
        return json.loads(done.stdout)
