"""Lacuna on the test cluster, seen from this machine: its services, its command line, its pilots.

Tests speak to it as users and operators do: through `lacuna`, Slurm's commands and signals.
"""

import json
import time
from typing import Callable

from cluster import Cluster, ClusterError

PILOT = "lacuna"
# Another user for pilots, and the user of batch jobs.
TRAIN, BATCH = "train", "alice"
# The services of services.sh that belong to Lacuna itself.
SERVICES = ["ingest", "forecast", "planner", "control"]


def until(what: str, limit: float, condition, every: float = 0.1):
    """The first true value of a condition; the error has the last value."""
    end = time.monotonic() + limit
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {limit:.0f} s: {what}")
        time.sleep(every)


class Lacuna:
    """The services beside the controller of a cluster."""

    def __init__(self, cluster: Cluster):
        self.cluster = cluster
        # Options of `lacuna` on a bus with keys.
        self.identity: list[str] = []

    def services(self, *arguments: str) -> str:
        """`services.sh`, as the user to whom pilots belong."""
        return self.cluster.ctl("/test-cluster/services.sh", *arguments, user=PILOT).stdout

    def start(self) -> None:
        """All services, until control answers."""
        self.services("start")
        until("control answers", 30, lambda: self.ask("nodes", check=False) is not None)

    def stop(self) -> None:
        self.services("stop")

    def restart(self, name: str) -> None:
        """Restarts a service with the present configuration."""
        self.services("stop", name)
        self.cluster.ctl("truncate", "-s", "0", f"/var/log/lacuna/{name}.log", user=PILOT)
        self.services("start", name)
        until("control answers", 30, lambda: self.ask("nodes", check=False) is not None)

    def log(self, name: str) -> str:
        """The log of a service since its last start."""
        return self.read(f"/var/log/lacuna/{name}.log")

    def metric(self, series: str, port: int = 9474) -> float:
        """A figure that a service (control, unless another port is given) exports; 0 without it."""
        script = f"import urllib.request as r; print(r.urlopen('http://127.0.0.1:{port}/metrics').read().decode())"
        lines = self.cluster.ctl("python3", "-c", script, check=False).stdout.splitlines()
        return next((float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(f"{series} ")), 0.0)

    def pid(self, name: str) -> int:
        return int(self.services("pid", name))

    def ask(self, *arguments: str, check: bool = True):
        """The JSON value that `lacuna ARGUMENTS --json` prints."""
        said = self.cluster.ctl("lacuna", *arguments, "--json", *self.identity, user=PILOT, check=False, limit=30)
        try:
            value = json.loads(said.stdout)
        except json.JSONDecodeError:
            value = {"error": said.stdout + said.stderr}
        if "error" in value:
            if check:
                raise ClusterError(1, f"lacuna {' '.join(arguments)}: {value['error']}")
            return None
        return value

    def submit(self, toml: str) -> None:
        """Queues the trainers of a file's text."""
        self.write("/shared/trainer.toml", toml)
        self.ask("submit", "/shared/trainer.toml")

    def write(self, path: str, text: str) -> None:
        """A file beside the controller, owned by the pilots' user."""
        self.cluster.ctl("bash", "-c", 'cat >"$0"', path, user=PILOT, input=text, interactive=True)

    def read(self, path: str) -> str:
        """A file beside the controller; empty if it is not there."""
        return self.cluster.ctl("cat", path, check=False).stdout

    def nodes(self) -> dict[str, dict]:
        return {row["node"]: row for row in self.ask("nodes")["nodes"]}

    def leased(self, trainer: str) -> set[str]:
        """Nodes that a trainer holds, with an agent that says that its program runs."""
        return {
            name
            for name, row in self.nodes().items()
            if row["trainer"] == trainer and row["state"] == "leased" and row["agent"] == "running"
        }

    def trainer(self, name: str) -> dict:
        rows = self.ask("trainers", "--all")["trainers"]
        return next(row for row in rows if row["trainer"] == name)

    def pilots(self) -> dict[str, tuple[str, str]]:
        """Jobs of the filler partition: id to state and node."""
        said = self.cluster.ctl("squeue", "-h", "-p", "filler", "-o", "%i|%T|%N").stdout
        rows = [line.split("|") for line in said.splitlines()]
        return {row[0]: (row[1], row[2]) for row in rows}

    def submitted_jobs(self) -> set[str]:
        """Every job of the filler partition that Slurm remembers, those that are over too.

        Slurm forgets a job some minutes after its end, so a later set may lack members of an earlier one.
        """
        return set(self.cluster.ctl("squeue", "-h", "-p", "filler", "-t", "all", "-o", "%i").stdout.split())

    def steps(self, trainer: str) -> list[dict]:
        """The log of rank 0 of programs/counted.py, in the order of time."""
        lines = self.read(f"/shared/{trainer}/steps.jsonl").splitlines()
        names = ["step", "loss", "run", "world", "t"]
        # A node's end may cut a line short.
        rows = [json.loads(line) for line in lines if line.endswith("]")]
        return [dict(zip(names, row)) for row in rows]

    def left_behind(self) -> list[str]:
        """Processes of users on the nodes. Beside the controller the services live."""
        found = []
        for container in self.cluster.layout.containers:
            if container.endswith("-ctl"):
                continue
            said = self.cluster.docker_exec(container, "ps", "-eo", "user:16,pid,args", "--no-headers").stdout
            found += [f"{container}: {line}" for line in said.splitlines() if line.split()[0] in (PILOT, TRAIN, BATCH)]
        return found

    # --- begin and end

    def fresh(self, before: Callable[[], None] = lambda: None) -> None:
        """Empty state, no job, idle nodes, all services running. `before` is done before they start."""
        self.tidy()
        # A container that was restarted mounts /small with its folder's mode, root's alone.
        self.cluster.everywhere("bash", "-c", "rm -rf /var/lib/lacuna/* /small/*; chmod 1777 /small")
        self.cluster.ctl("bash", "-c", "rm -rf /shared/*")
        before()
        self.start()

    def tidy(self) -> None:
        """Ends all services and all jobs, whatever state they are in."""
        self.cluster.unpause()
        self.stop()
        for user in (PILOT, TRAIN, BATCH):
            self.cluster.ctl("scancel", "-u", user, check=False)
        # A slurmctld that was killed finds jobs that it has forgotten, and drains their nodes.
        drained = [node for node, state in self.cluster.states().items() if state.startswith("drain")]
        if drained:
            self.cluster.ctl("scontrol", "update", f"nodename={','.join(drained)}", "state=resume")
        self.cluster.wait_idle(60)
        # The rest of a failed test must not fail the next.
        for container in self.cluster.layout.containers[1:]:
            kill = f"kill -9 $(ps -o pid= -u {PILOT},{TRAIN})"
            self.cluster.docker_exec(container, "bash", "-c", kill, check=False)

    # --- pilots, which control starts while there is work

    def pilots_off(self) -> None:
        """Ends all pilots, and stops control until pilots_on."""
        self.services("stop", "control")
        self.cluster.ctl("scancel", "-p", "filler")
        until("no pilot is left", 30, lambda: not self.pilots())

    def pilots_on(self) -> None:
        """Undoes pilots_off."""
        self.services("start", "control")
        until("control answers", 30, lambda: self.ask("nodes", check=False) is not None)
