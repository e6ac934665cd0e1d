"""The delay of batch jobs by Lacuna, and the stall of training by batch jobs.

Runs on this machine against a running cluster. A trainer (programs/counted.py) trains on every node.
Then, again and again, a batch job takes a node or two, a node's processes are killed, or a node is
paused. The command measures the batch job's `srun` from outside, beside the same srun on a cluster
without pilots. It measures the stall as well: the time without a completed step, by the log of rank
0. Blocks with and without pilots take turns.

Lacuna's own figures of the same run are shown beside them: its metric of harm, and the starts of
jobs by the prologs. A batch job waits for the last of its nodes, so the longest time counts.
Slurm's own part is measured without Lacuna: the same srun behind a step that ends at SIGTERM at
once, on quiet nodes and on nodes as busy as in training. Lacuna's metric ends before the agent's
process, whose end is measured too. The rest of the delay is called not explained. Where the metric
and the outside cannot both be right, the command fails.
"""

import json
import re
import time
from collections import defaultdict

import parts
from cluster import Cluster, ClusterError, say
from lacuna_beside import PILOT, Lacuna, until
from stats import seconds, summary, table
from trainers import counted

SRUN = "import sys; sys.path.insert(0, '/test-cluster'); import slurm; print(slurm.srun_seconds(int(sys.argv[1])))"
# The events, in the order of the table.
EVENTS = {
    "batch-1": "a batch job takes one node",
    "batch-2": "a batch job takes two nodes",
    "kill": "SIGKILL of a node's program",
    "kill-all": "SIGKILL of program and agent",
    "pause": "a node is paused",
}
# One step of the trainer, seconds: the least stall.
STEP = 0.05
# Control's log line of each node that a pilot gave back, with the figure of its metric.
GIVEN_BACK = re.compile(r'node given back to the main scheduler.* cause="preempted" harm=([0-9.]+)(ms|s)\b')
# The trainer's program alone, outside of Slurm and Lacuna, in a folder of a node's own.
ALONE = """rm -rf {folder}; mkdir {folder}; cd {folder}
setsid python3 /test-cluster/programs/counted.py --seconds {step} >alone.log 2>&1 </dev/null & echo $! >pid"""
# Ends an agent as Slurm does, and prints how long its process lived on. Children of an agent with
# its name guard its programs.
ENDS = """
import os, signal, time
def status(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            name, rest = file.read().split("(", 1)[1].rsplit(") ", 1)
            return name, *rest.split()[:2]
    except (FileNotFoundError, ProcessLookupError):
        return "", "X", ""
found = {pid: status(pid) for pid in os.listdir("/proc") if pid.isdigit()}
agents = {pid: seen for pid, seen in found.items() if seen[0] == "lacuna-agent"}
pid = next(pid for pid, (_, _, parent) in agents.items() if parent not in agents)
started = time.monotonic()
os.kill(int(pid), signal.SIGTERM)
while status(pid)[1] not in "ZX":
    time.sleep(0.0005)
print(time.monotonic() - started)
"""


class Measurement:
    """One launcher on one cluster."""

    def __init__(self, cluster: Cluster, launcher: str):
        self.cluster, self.lacuna, self.launcher = cluster, Lacuna(cluster), launcher
        self.nodes = set(cluster.layout.node_names)
        self.samples: dict[int, parts.Samples] = defaultdict(parts.Samples)
        self.stalls: dict[str, list[dict]] = {}

    def srun(self, width: int) -> float:
        return float(self.cluster.ctl("python3", "-c", SRUN, str(width), limit=120).stdout)

    def said(self) -> dict[str, float]:
        """The sums of Lacuna's metrics so far."""
        names = [f"lacuna_control_harm_seconds_{what}{{cause=\"preempted\"}}" for what in ("sum", "count")]
        names += [f"lacuna_control_handover_seconds_{what}" for what in ("sum", "count")]
        return dict(zip(("harm", "nodes", "handover", "jobs"), map(self.lacuna.metric, names)))

    def given_back(self) -> list[float]:
        """Control's log lines of nodes that a batch job got, in the order of time."""
        lines = GIVEN_BACK.findall(self.lacuna.log("control"))
        return [float(number) / (1000 if unit == "ms" else 1) for number, unit in lines]

    def compare(self, width: int, delay: float, before: dict[str, float], lines: int) -> None:
        """Lacuna's figures of the one srun since then. The job waits for its last node: the metric
        has the sum over nodes, the log each node. A prolog after a poll reports nothing."""
        since = lambda: {key: value - before[key] for key, value in self.said().items()}  # noqa: E731
        until("Lacuna says how long its nodes took", 10, lambda: since()["nodes"] >= width)
        try:
            until("prologs have reported", 10, lambda: since()["jobs"] >= 1)
        except AssertionError:
            pass
        seen, nodes = since(), self.given_back()[lines:]
        # The log has milliseconds, and tenths from a second on.
        rounding = sum(0.0011 if harm < 1 else 0.051 for harm in nodes)
        if len(nodes) != seen["nodes"] or abs(sum(nodes) - seen["harm"]) > rounding:
            metric = f"{seen['harm']:.3f} s of {seen['nodes']:.0f} nodes"
            raise ClusterError(1, f"control's log says {nodes} s of harm, its metric {metric}")
        if len(nodes) == width:
            self.samples[width].reported.append((delay, max(nodes)))
        else:
            say(f"{len(nodes)} nodes were given back for a job of {width}: not counted")
        if seen["jobs"] == 1:
            self.samples[width].handovers.append(seen["handover"])

    def agent_ends(self, turn: int, widths: list[int]) -> None:
        """How long an agent's process lives on after the last moment of its metric."""
        self.whole()
        lines = len(self.given_back())
        where = self.cluster.layout.container(self.cluster.layout.node_names[-1 - turn % len(self.nodes)])
        took = float(self.cluster.docker_exec(where, "python3", "-c", ENDS).stdout)
        until("Lacuna says how long the node took", 10, lambda: len(self.given_back()) > lines)
        for width in widths:
            self.samples[width].ends.append(took - self.given_back()[lines])

    def load(self, wanted: bool) -> None:
        """The trainer's program on every node, alone: nodes as busy as by training."""
        for node in self.cluster.layout.node_names:
            where, folder = self.cluster.layout.container(node), f"/tmp/alone.{node}"
            script = ALONE.format(folder=folder, step=STEP) if wanted else f"kill -9 $(cat {folder}/pid); rm -rf {folder}"
            self.cluster.docker_exec(where, "bash", "-c", script, user=PILOT)
        if wanted:
            for node in self.cluster.layout.node_names:
                steps = f"test $(wc -l </tmp/alone.{node}/steps.jsonl) -ge 20"
                look = ("bash", "-c", steps)
                where = self.cluster.layout.container(node)
                until("it trains alone", 60, lambda: self.cluster.docker_exec(where, *look, check=False).returncode == 0)

    def without_lacuna(self, conditions: str, widths: list[int], repeats: int) -> dict[tuple[str, int], list[float]]:
        """Delays behind jobs other than pilots, by measure.py."""
        arguments = ["--conditions", conditions, "--widths", ",".join(map(str, widths)), "--repeats", str(repeats)]
        out = self.cluster.ctl("python3", "/test-cluster/measure.py", "--json", "--quiet", *arguments, limit=600).stdout
        return {(row["condition"], row["nodes"]): row["values"] for row in json.loads(out)["rows"]}

    def behind_others(self, widths: list[int], repeats: int) -> None:
        """The same srun behind jobs that end at SIGTERM at once: Slurm's own part."""
        if not widths or not repeats:
            return
        self.lacuna.pilots_off()
        self.cluster.wait_idle(60)
        quiet = self.without_lacuna("none,dies", widths, repeats)
        self.load(True)
        try:
            loaded = self.without_lacuna("dies", widths, repeats)
        finally:
            self.load(False)
        for width in widths:
            one = self.samples[width]
            one.empty += quiet["none", width]
            one.dies += quiet["dies", width]
            one.dies_loaded += loaded["dies", width]

    def whole(self) -> None:
        """Training on every node, for some steps."""
        until("it trains on all nodes", 120, lambda: self.lacuna.leased("measured") == self.nodes)
        world = len(self.nodes)
        until("all take part in steps", 60, lambda: self.tail(10) and {s["world"] for s in self.tail(10)} == {world})

    def tail(self, count: int) -> list[dict]:
        steps = self.lacuna.steps("measured")
        return steps[-count:] if len(steps) >= count else []

    def without(self, widths: list[int], repeats: int) -> None:
        """The same cluster without pilots."""
        self.lacuna.pilots_off()
        for _ in range(repeats):
            for width in widths:
                self.cluster.wait_idle(60)
                self.samples[width].without.append(self.srun(width))
        self.lacuna.pilots_on()

    def patience(self) -> None:
        """Lets control forget failures, since programs are killed here again and again."""
        file = self.cluster.layout.state / "conf/lacuna.toml"
        text = file.read_text()
        if "max_failures" not in text:
            file.write_text(text.replace("[control]\n", '[control]\nmax_failures = 1000\nretry_after = "500ms"\n'))

    def happen(self, event: str, turn: int) -> None:
        """Lets one event happen to a cluster that trains on all nodes, and measures its effect."""
        self.whole()
        run, started = self.tail(1)[0]["run"], time.time()
        # Each node in its turn, since three failures in a row close a node.
        victim = self.cluster.layout.node_names[-1 - turn % len(self.nodes)]
        if event.startswith("batch"):
            width = int(event[-1])
            said, lines = self.said(), len(self.given_back())
            delay = self.srun(width)
            self.samples[width].behind_pilots.append(delay)
        elif event.startswith("kill"):
            # Without its agent the node reports nothing.
            chosen = "ps -o pid= -u lacuna" if event == "kill-all" else "ps -u lacuna -o pid=,comm= | awk '$2 ~ /^python3/ {print $1}'"
            where = self.cluster.layout.container(victim)
            self.cluster.docker_exec(where, "bash", "-c", f"kill -9 $({chosen})", check=False)
        else:
            self.cluster.pause(victim)
        try:
            until("training goes on in another run", 120, lambda: self.tail(1)[0]["run"] > run)
        finally:
            self.cluster.unpause()
        time.sleep(0.5)
        self.note(event, started, grown=False)
        if event.startswith("batch"):
            self.whole()
            self.note("join", started, grown=True)
            self.compare(width, delay, said, lines)

    def note(self, event: str, since: float, grown: bool) -> None:
        """The longest time without a step at a change to more members, or to as many or fewer, and
        the steps that were done twice over it, or that a dying rank 0 did not log.
        Where programs start so slowly that the lost node is back before they run, no member joins."""
        steps = [s for s in self.lacuna.steps("measured") if s["t"] > since - 5]
        changes = [
            (before, after)
            for before, after in zip(steps, steps[1:])
            if after["t"] > since and after["run"] != before["run"] and (after["world"] > before["world"]) == grown
        ]
        if changes:
            ahead = [after["step"] - before["step"] - 1 for before, after in changes]
            seen = {
                "stall": max(after["t"] - before["t"] for before, after in changes),
                "again": sum(max(0, -n) for n in ahead),
                "unseen": sum(max(0, n) for n in ahead),
            }
            self.stalls.setdefault(event, []).append(seen)

    def take(self, events: list[str], repeats: int, blocks: int = 2) -> None:
        """All events in turn, in blocks with and without pilots."""
        widths = sorted({int(e[-1]) for e in events if e.startswith("batch")})
        self.patience()
        try:
            for block in range(blocks):
                share = repeats // blocks + (block < repeats % blocks)
                # New records, since control would close nodes after these killed programs.
                self.lacuna.fresh()
                self.lacuna.submit(counted("measured", launcher=self.launcher, seconds=STEP))
                self.without(widths, share)
                for turn in range(share):
                    for event in events:
                        self.happen(event, turn)
                    if widths:
                        self.agent_ends(turn, widths)
                    say(f"{self.launcher}: {turn + 1} of {share} in block {block + 1} of {blocks}")
                self.behind_others(widths, share)
        finally:
            self.lacuna.tidy()

    def rows(self) -> dict:
        delays, stalls, harm = [], [], []
        for width, one in sorted(self.samples.items()):
            for pilots, values in [(False, one.without), (True, one.behind_pilots)]:
                row = {"launcher": self.launcher, "pilots": pilots, "nodes": width, **summary(values), "values": values}
                if pilots:
                    added = parts.differences(values, one.without)["median"]
                    row |= {"added": added, "ratio": row["median"] / delays[-1]["median"]}
                delays.append(row)
            if one.reported:
                wrong = parts.disagreement(one)
                harm.append({"launcher": self.launcher, "nodes": width, "parts": parts.parts(one), "wrong": wrong})
        for event, seen in self.stalls.items():
            stalls.append(
                {
                    "launcher": self.launcher,
                    "event": event,
                    **summary([one["stall"] for one in seen]),
                    "again": max(one["again"] for one in seen),
                    "lost": max(one["unseen"] for one in seen),
                }
            )
        return {"delays": delays, "stalls": stalls, "harm": harm}


def show(results: list[dict]) -> str:
    def spread(row: dict) -> list[str]:
        ends = f"{seconds(row['min'])}-{seconds(row['max'])}"
        return [str(row["n"]), seconds(row["median"]), f"{seconds(row['q1'])}-{seconds(row['q3'])}", ends]

    delays = [
        [
            f"{row['launcher']}: " + ("pilots train everywhere" if row["pilots"] else "without pilots"),
            str(row["nodes"]),
            *spread(row),
            seconds(row["added"]) if "added" in row else "",
            f"{row['ratio']:.1f}" if "ratio" in row else "",
        ]
        for result in results
        for row in result["delays"]
    ]
    names = EVENTS | {"join": "nodes join"}
    stalls = [
        [f"{row['launcher']}: {names[row['event']]}", *spread(row), str(row["again"]), str(row["lost"])]
        for result in results
        for row in result["stalls"]
    ]
    heads = ["n", "median s", "quartiles", "range"]
    return "\n\n".join(
        [
            table(["delay of a batch job (srun)", "-N", *heads, "added s", "ratio"], delays),
            parts.show([row for result in results for row in result["harm"]]),
            table(["stall of training", *heads, "steps redone", "not noted"], stalls),
        ]
    )


def command(cluster: Cluster, launchers: list[str], events: list[str], repeats: int, as_json: bool) -> int:
    """`clusterctl.py harm`."""
    unknown = [event for event in events if event not in EVENTS]
    if unknown:
        raise ClusterError(64, f"no event {unknown[0]!r}: expected some of {', '.join(EVENTS)}")
    results = []
    for launcher in launchers:
        one = Measurement(cluster, launcher)
        one.take(events, repeats)
        results.append(one.rows())
    print(json.dumps(results) if as_json else show(results))
    wrong = [f"{row['launcher']} -N{row['nodes']}: {row['wrong']}" for r in results for row in r["harm"] if row["wrong"]]
    if wrong:
        raise ClusterError(1, "\n".join(wrong))
    return 0
