"""What Lacuna costs users of the cluster, and what the cluster's users cost training.

Runs on this machine against a bed that stands. A trainer (programs/counted.py) trains on every
node; then, again and again, something happens: a batch job takes a node or two, a node's processes
are killed, a node is paused. Measured are the batch job's `srun` from outside, beside the same srun
on a cluster without pilots, and the stall: the time without a completed step, by what rank 0 wrote
down. Blocks with and without pilots take turns.

Beside what is measured from outside stands what Lacuna says itself in the same run: its metric of
harm, and what the prologs tell of the jobs' beginnings. What is left of the added delay is Slurm's own:
the same srun behind a job that ends at SIGTERM at once, without Lacuna.
"""

import json
import time

from cluster import Bed, BedError, say
from lacuna_beside import Lacuna, until
from stats import seconds, summary, table
from trainers import counted

SRUN = "import sys; sys.path.insert(0, '/bed'); import slurm; print(slurm.srun_seconds(int(sys.argv[1])))"
# What happens to training, in the order of the table.
EVENTS = {
    "batch-1": "a batch job takes one node",
    "batch-2": "a batch job takes two nodes",
    "kill": "SIGKILL of a node's program",
    "kill-all": "SIGKILL of program and agent",
    "pause": "a node is paused",
}
# One step of the trainer, seconds: what no stall can be below.
STEP = 0.05


class Measurement:
    """One launcher on one bed."""

    def __init__(self, bed: Bed, launcher: str):
        self.bed, self.lacuna, self.launcher = bed, Lacuna(bed), launcher
        self.nodes = set(bed.layout.node_names)
        self.delays: dict[tuple[str, int], list[float]] = {}
        self.stalls: dict[str, list[dict]] = {}
        # By width: what Lacuna says of each srun, and what a job that ends at once adds to one.
        self.told: dict[int, list[dict]] = {}
        self.slurms_own: dict[int, dict] = {}

    def srun(self, width: int) -> float:
        return float(self.bed.ctl("python3", "-c", SRUN, str(width), limit=120).stdout)

    def said(self) -> dict[str, float]:
        """What Lacuna's metrics have summed up so far."""
        names = [f"lacuna_control_harm_seconds_{what}{{cause=\"preempted\"}}" for what in ("sum", "count")]
        names += [f"lacuna_control_handover_seconds_{what}" for what in ("sum", "count")]
        return dict(zip(("harm", "nodes", "handover", "jobs"), map(self.lacuna.metric, names)))

    def compare(self, width: int, before: dict[str, float]) -> None:
        """What Lacuna says of the one srun since then. A prolog that a poll has overtaken tells
        nothing."""
        since = lambda: {key: value - before[key] for key, value in self.said().items()}  # noqa: E731
        until("Lacuna says how long its nodes took", 10, lambda: since()["nodes"] >= width)
        try:
            until("prologs have told", 10, lambda: since()["jobs"] >= 1)
        except AssertionError:
            pass
        seen = since()
        one = {"harm": seen["harm"] / seen["nodes"]}
        if seen["jobs"] == 1:
            one["handover"] = seen["handover"]
        self.told.setdefault(width, []).append(one)

    def behind_others(self, widths: list[int], repeats: int) -> None:
        """The same srun behind jobs that end at SIGTERM at once: what Slurm itself adds."""
        if not widths:
            return
        self.lacuna.pilots_off()
        self.bed.wait_idle(60)
        arguments = ["--conditions", "none,dies", "--widths", ",".join(map(str, widths)), "--repeats", str(repeats)]
        out = self.bed.ctl("python3", "/bed/measure.py", "--json", "--quiet", *arguments, limit=600).stdout
        for row in json.loads(out)["rows"]:
            if row["condition"] == "dies":
                self.slurms_own[row["nodes"]] = row

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
                self.bed.wait_idle(60)
                self.delays.setdefault(("without", width), []).append(self.srun(width))
        self.lacuna.pilots_on()

    def patience(self) -> None:
        """Lets control forgive failures: here programs are killed on purpose, again and again."""
        file = self.bed.layout.state / "conf/lacuna.toml"
        text = file.read_text()
        if "max_failures" not in text:
            file.write_text(text.replace("[control]\n", '[control]\nmax_failures = 1000\nretry_after = "500ms"\n'))

    def happen(self, event: str, turn: int) -> None:
        """Lets one thing happen to a cluster that trains on all nodes, and looks what became of it."""
        self.whole()
        run, started = self.tail(1)[0]["run"], time.time()
        # Each node in its turn: who fails thrice in a row is left alone.
        victim = self.bed.layout.node_names[-1 - turn % len(self.nodes)]
        if event.startswith("batch"):
            width = int(event[-1])
            said = self.said()
            self.delays.setdefault(("with", width), []).append(self.srun(width))
        elif event.startswith("kill"):
            # With the agent, nobody is left on the node who could say anything.
            chosen = "ps -o pid= -u lacuna" if event == "kill-all" else "ps -u lacuna -o pid=,comm= | awk '$2 ~ /^python3/ {print $1}'"
            where = self.bed.layout.container(victim)
            self.bed.docker_exec(where, "bash", "-c", f"kill -9 $({chosen})", check=False)
        else:
            self.bed.pause(victim)
        try:
            until("training goes on in another run", 120, lambda: self.tail(1)[0]["run"] > run)
        finally:
            self.bed.unpause()
        time.sleep(0.5)
        self.note(event, started, grown=False)
        if event.startswith("batch"):
            self.whole()
            self.note("join", started, grown=True)
            self.compare(width, said)

    def note(self, event: str, since: float, grown: bool) -> None:
        """The longest time without a step at a change to more members, or to as many or fewer, and
        the steps that were done twice over it, or that a dying rank 0 did not come to write down.
        Where programs start so slowly that the lost node is back before they run, nobody joins."""
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
                # New books: what was killed on purpose is not held against nodes for ever.
                self.lacuna.fresh()
                self.lacuna.submit(counted("measured", launcher=self.launcher, seconds=STEP))
                self.without(widths, share)
                for turn in range(share):
                    for event in events:
                        self.happen(event, turn)
                    say(f"{self.launcher}: {turn + 1} of {share} in block {block + 1} of {blocks}")
            self.behind_others(widths, repeats)
        finally:
            self.lacuna.tidy()

    def rows(self) -> dict:
        delays, stalls = [], []
        for (kind, width), values in sorted(self.delays.items(), key=lambda item: (item[0][1], item[0][0] == "with")):
            row = {"launcher": self.launcher, "pilots": kind == "with", "nodes": width, **summary(values), "values": values}
            base = summary(self.delays[("without", width)])["median"]
            if kind == "with":
                row |= {"added": row["median"] - base, "ratio": row["median"] / base}
            delays.append(row)
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
        return {"delays": delays, "stalls": stalls, "harm": self.both_sides(delays)}

    def both_sides(self, delays: list[dict]) -> list[dict]:
        """By width: the added delay from outside, and its parts as Lacuna and Slurm have them."""
        rows = []
        for row in delays:
            told = self.told.get(row["nodes"])
            if not row["pilots"] or not told:
                continue
            own = self.slurms_own.get(row["nodes"], {}).get("added")
            harm = summary([one["harm"] for one in told])
            handovers = [one["handover"] for one in told if "handover" in one]
            rows.append(
                {
                    "launcher": self.launcher,
                    "nodes": row["nodes"],
                    "added": row["added"],
                    "harm": harm,
                    "handover": summary(handovers) if handovers else None,
                    "slurm": own,
                    "rest": None if own is None else row["added"] - own - harm["median"],
                }
            )
        return rows


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
    parts = [
        [
            row["launcher"],
            str(row["nodes"]),
            str(row["harm"]["n"]),
            seconds(row["added"]),
            seconds(row["harm"]["median"]),
            f"{seconds(row['harm']['q1'])}-{seconds(row['harm']['q3'])}",
            seconds(row["harm"]["max"]),
            "" if row["slurm"] is None else seconds(row["slurm"]),
            "" if row["rest"] is None else seconds(row["rest"]),
            "" if row["handover"] is None else f"{seconds(row['handover']['median'])} (n={row['handover']['n']})",
        ]
        for result in results
        for row in result["harm"]
    ]
    sides = ["-N", "n", "added s", "Lacuna's metric s", "quartiles", "max", "Slurm's own s", "rest s", "signal to prolog s"]
    heads = ["n", "median s", "quartiles", "range"]
    return "\n\n".join(
        [
            table(["delay of a batch job (srun)", "-N", *heads, "added s", "ratio"], delays),
            table(["what a batch job waited for", *sides], parts),
            table(["stall of training", *heads, "steps redone", "not noted"], stalls),
        ]
    )


def command(bed: Bed, launchers: list[str], events: list[str], repeats: int, as_json: bool) -> int:
    """`bed.py harm`."""
    unknown = [event for event in events if event not in EVENTS]
    if unknown:
        raise BedError(64, f"no event {unknown[0]!r}: expected some of {', '.join(EVENTS)}")
    results = []
    for launcher in launchers:
        one = Measurement(bed, launcher)
        one.take(events, repeats)
        results.append(one.rows())
    print(json.dumps(results) if as_json else show(results))
    return 0
