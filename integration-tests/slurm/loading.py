"""A training that waits for its data, and idle nodes of another partition that load it.

Runs on this machine against a running cluster. The first node is of kind gpu, the others of kind cpu.
Batch jobs hold the cpu nodes and end one by one, so the training has 0, 1, 2 and then all of them as
loaders. Counted is its rate, beside the one that the replay of its steps without loaders predicts. In
the end a loader is killed. Each sample is a sleep of its reader, so the cores of this machine are no
bound.
"""

import json
import statistics
import time
from collections import Counter

from cluster import Cluster, say
from lacuna_beside import BATCH, Lacuna, until
from stats import table

# A file of one trainer; fields go in by str.replace, as TOML has braces.
TRAINER = """
[[trainer]]
name = "waits"
launcher = "regroup"
program = "python3"
arguments = ["/test-cluster/programs/loaded.py", "--samples", "@EPOCH", "--device", "@DEVICE"]
checkpoint_dir = "/shared/waits"
until = "exit"
min_nodes = 1
max_nodes = 1
kinds = { gpu = { nodes = [1], samples_per_s = [50.0] } }
loaders = { kind = "@KIND", nodes = 4, processes = 1 }
"""
# Kinds by partition, read often; the objective is one that loaders have a value in.
SETTINGS = (
    ("[ingest]\n", '[ingest]\ntopology_every = "2s"\n'),
    ("[forecast]\n", '[ingest.kinds]\ngpu = ["partition:gpus"]\ncpu = ["partition:cpus"]\n\n[forecast]\n'),
    ("[control]\n", '[planner]\nobjective = "as-given"\n\n[control]\n'),
)
# Samples of a step of programs/loaded.py.
STEP = 16
# How far a rate may be from its prediction.
OFF = 0.15


class Waits:
    """The cluster with two partitions more, and the training."""

    def __init__(self, cluster: Cluster, lacuna: Lacuna, epoch: int, device: float):
        self.cluster, self.lacuna = cluster, lacuna
        self.epoch, self.device = epoch, device
        gpu, *cpus = cluster.layout.node_names
        self.partitions = {"gpus": [gpu], "cpus": cpus}
        self.cpus = cpus

    # --- partitions

    def create(self, name: str) -> None:
        # A test that was interrupted leaves it behind.
        self.delete(name)
        nodes = ",".join(self.partitions[name])
        self.cluster.ctl("scontrol", "create", f"PartitionName={name}", f"Nodes={nodes}", "PriorityTier=10")

    def delete(self, name: str) -> None:
        self.cluster.ctl("scontrol", "delete", f"PartitionName={name}", check=False)

    def hold(self, node: str) -> str:
        """A batch job on a node, once it runs there."""
        words = ["--parsable", "-o", "/dev/null", "-p", "batch", "-w", node, "--wrap", "sleep 3600"]
        job = self.cluster.ctl("sbatch", *words, user=BATCH).stdout.strip()
        state = ["squeue", "-h", "-j", job, "-o", "%T"]
        until(f"the job on {node} runs", 30, lambda: self.cluster.ctl(*state).stdout.strip() == "RUNNING")
        return job

    # --- the training

    def submit(self, kind: str = "cpu") -> None:
        text = TRAINER.replace("@KIND", kind)
        self.lacuna.submit(text.replace("@EPOCH", str(self.epoch)).replace("@DEVICE", str(self.device)))

    def steps(self) -> list[tuple[float, int, list[int]]]:
        """Of each step: when it ended, loaders, indices of its samples."""
        lines = self.lacuna.read("/shared/waits/steps.jsonl").splitlines()
        return [tuple(json.loads(line)) for line in lines if line.endswith("]]")]

    def loaders(self) -> int:
        """Loaders at the newest step."""
        steps = self.steps()
        return steps[-1][1] if steps else 0

    def held(self) -> set[str]:
        """Nodes of its loaders."""
        rows = self.lacuna.nodes().values()
        return {row["node"] for row in rows if (row["trainer"] or "").startswith("waits.loader-")}

    def load(self, count: int, limit: float = 90) -> set[str]:
        """Waits until this many nodes load, and the training has them; their names."""
        until(f"{count} nodes load", limit, lambda: len(self.held()) == count and self.loaders() == count, every=0.5)
        return self.held()

    def costs(self, remote: int) -> dict:
        """Where the time of a step goes with this many loaders, as control has it."""

        def found() -> dict | None:
            costs = self.lacuna.ask("explain", "waits")["step"] or {}
            return costs if costs.get("loaders") and costs.get("remote", 0) == remote else None

        return until(f"the stall with {remote} loaders is known", 90, found, every=1)

    def rate(self, loaders: int, count: int) -> float:
        """Samples/s of the newest steps, all with this many loaders."""

        def enough() -> list[float]:
            same = [at for at, found, _ in self.steps()[-count:] if found == loaders]
            return same if len(same) == count else []

        times = until(f"{count} steps with {loaders} loaders", 120, enough, every=1)
        return STEP * (len(times) - 1) / (times[-1] - times[0])

    def kill(self, node: str) -> float:
        """SIGKILL to a loader on a node, in mid-epoch; the moment before it."""
        until("mid-epoch", 60, lambda: 0.3 < len(self.steps()) * STEP % self.epoch / self.epoch < 0.7)
        before = time.time()
        self.cluster.docker_exec(self.cluster.layout.container(node), "pkill", "-KILL", "-f", "^python3 .*loaded.py")
        return before

    def epochs(self) -> int:
        """Whole epochs. Each has each sample once: anything else is an AssertionError."""
        used = [index for *_, indices in self.steps() for index in indices]
        whole = len(used) // self.epoch
        for number in range(whole):
            counts = Counter(used[number * self.epoch : (number + 1) * self.epoch])
            twice = [index for index, times in counts.items() if times > 1]
            if len(counts) != self.epoch:
                raise AssertionError(f"epoch {number}: {self.epoch - len(counts)} samples lost, twice: {twice}")
        return whole

    def stall(self, since: float) -> tuple[float, float]:
        """The longest step that ended in the 20 seconds after a moment, and the usual one, seconds."""
        times = [at for at, *_ in self.steps()]
        pairs = list(zip(times, times[1:]))
        longest = max(b - a for a, b in pairs if since <= b <= since + 20)
        return longest, statistics.median(b - a for a, b in pairs[-50:])


def predicted(costs: dict, workers: int) -> float:
    """Samples/s with this many workers, between replayed numbers as `StepCosts::step_with` has it."""
    known = {one["workers"]: one["step"] for one in costs["loaders"]}
    low, high = max(w for w in known if w <= workers), min(w for w in known if w >= workers)
    share = 0.0 if low == high else (1 / low - 1 / workers) / (1 / low - 1 / high)
    return STEP / (known[low] + share * (known[high] - known[low]))


def measured(waits: Waits) -> list[dict]:
    """The rate with 0, 1, 2, 4 .. loaders, up to all cpu nodes."""
    jobs = [waits.hold(node) for node in waits.cpus]
    waits.submit()
    costs = waits.costs(0)
    rows = []
    for count in [n for n in (0, 1, 2, 4, 8) if n <= len(waits.cpus)]:
        while len(waits.cpus) - len(jobs) < count:
            waits.cluster.ctl("scancel", jobs.pop())
        held = waits.load(count)
        rate = waits.rate(count, 100)
        # One worker is the member's own.
        should = predicted(costs, 1 + count)
        rows.append({"loaders": count, "rate": rate, "predicted": should, "off": rate / should - 1, "nodes": sorted(held)})
        say(f"{count} loaders: {rate:.1f} samples/s, predicted {should:.1f}")
    return rows


def killed(waits: Waits, count: int) -> dict:
    """What the death of a loader costs."""
    since = waits.kill(sorted(waits.held())[0])
    until("it is gone", 20, lambda: waits.loaders() == count - 1)
    waits.load(count)
    time.sleep(2)
    longest, usual = waits.stall(since)
    return {"epochs": waits.epochs(), "longest": longest, "usual": usual}


def command(cluster: Cluster, as_json: bool) -> int:
    before = cluster.configure(*SETTINGS)
    lacuna = Lacuna(cluster)
    waits = Waits(cluster, lacuna, epoch=1600, device=0.04)
    try:
        lacuna.fresh(lambda: [waits.create(name) for name in waits.partitions])
        rows = measured(waits)
        death = killed(waits, rows[-1]["loaders"])
    finally:
        (cluster.layout.state / "conf/lacuna.toml").write_text(before)
        lacuna.tidy()
        for name in waits.partitions:
            waits.delete(name)
    lines = [[str(row["loaders"]), f"{row['rate']:.1f}", f"{row['predicted']:.1f}", f"{row['off']:+.1%}"] for row in rows]
    text = table(["loaders", "samples/s", "predicted", "off"], lines)
    text += "\na loader killed: {epochs} epochs whole, longest step {longest:.2f} s, usual {usual:.2f} s".format(**death)
    print(json.dumps({"rows": rows, "killed": death}) if as_json else text)
    return 0 if all(abs(row["off"]) <= OFF for row in rows) else 1
