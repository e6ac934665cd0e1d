"""Release under attack: the seconds until a pilot and its program are gone after SIGTERM."""

import asyncio
import json
import signal
import statistics
import subprocess
import time
from pathlib import Path

import msgpack

from cluster import Broken, Cluster, marked, until
from programs import HOSTILE

LIMIT = 25


class Ear:
    """Reads, as an observer, the agents' own figure: `gave_back_in`, milliseconds."""

    def __init__(self, cluster: Cluster):
        self.cluster, self.heard = cluster, []

    async def listen(self, action):
        key = self.cluster.key("obs")
        client = await key.connect(self.cluster.url)

        async def hear(message):
            status = msgpack.unpackb(message.data)
            if status.get("gave_back_in") is not None:
                self.heard.append(status["gave_back_in"] / 1000)

        for subject in key.subscribe:
            if subject.endswith(".agent.*"):
                await client.subscribe(subject, cb=hear)
        await client.flush(5)
        done = await asyncio.to_thread(action)
        await asyncio.sleep(0.5)
        await client.close()
        return done


def once(c: Cluster, kind: str, number: int) -> tuple[float, float | None]:
    """Seconds from SIGTERM to the pilot until it and all of its program are gone, and its own figure."""
    # Each on its own node, since control may still wait for the last one.
    name, node = f"{kind}-{number}", f"n{number + 100}"
    c.config.with_suffix(".pilot.toml").write_text(c.config.read_text().replace('nodes = ["nobody"]', ""))
    log = open(c.folder / "pilot.log", "ab")
    words = [c.binary.parent / "lacuna-agent", "--pilot", "--node", node, "--listen", "127.0.0.1:0"]
    words += ["--config", c.config.with_suffix(".pilot.toml"), "--nats", c.url]
    words += ["--identity", c.keys / "main/agent.toml"]
    pilot = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=c.env(), cwd=c.folder)
    c.others.append(pilot)
    c.event("node.idle", node)
    more = 'environment = { LD_PRELOAD = "/nonexistent/evil.so" }\n' if kind == "preload" else ""
    code, said = c.submit(c.program(kind, name, high=1, more=more))
    up = c.folder / f"up-{c.mark}-{name}-@{node}"
    if code or not until(up.exists, 60, 0.05):
        raise Broken(f"{name} does not start: {said[-200:]} {c.lacuna('trainers')[1][-300:]}")
    time.sleep(1.5)
    ear = Ear(c)

    def leave() -> float:
        begun = time.monotonic()
        pilot.send_signal(signal.SIGTERM)
        until(lambda: pilot.poll() is not None and not c.left(node), LIMIT, 0.01)
        return time.monotonic() - begun

    took = asyncio.run(ear.listen(leave))
    for pid in [pilot.pid] * (pilot.poll() is None) + list(marked(c.mark, f"-{name}")):
        subprocess.run(["kill", "-9", str(pid)], check=False)
    pilot.wait()
    c.lacuna("cancel", name, user="eve")
    c.event("node.busy", node)
    until(lambda: c.trainers().get(name, {}).get("phase") not in ("active", "queued", "waiting"), 20, 0.2)
    return took, (ear.heard[-1] if ear.heard else None)


def figures(values: list[float]) -> dict:
    return {"n": len(values), "median": statistics.median(values), "worst": max(values)} if values else {"n": 0}


def release(binaries: dict[str, Path], times: int, only: list[str], file: Path | None) -> int:
    """The table: for each program median and worst; 1 if any is not gone within the limit."""
    from cluster import IN_TIME

    results, late = [], False
    for kind in only or ["honest", *HOSTILE]:
        row: dict = {"program": "undisturbed" if kind == "honest" else kind}
        for column, binary in binaries.items():
            outside, own, broken = [], [], ""
            try:
                with Cluster(binary, agent='nodes = ["nobody"]') as c:
                    for number in range(times):
                        took, said = once(c, kind, number)
                        outside.append(took)
                        own += [said] if said is not None else []
            except Broken as error:
                broken = str(error)
            row[column] = {"outside": figures(outside), "own": figures(own), "broken": broken, "all": outside}
            late |= column == "now" and (bool(broken) or max(outside, default=0) > IN_TIME)
            print(f"{row['program']} {column}: {cell(row[column])} {broken}", flush=True)
        results.append(row)
        if file:
            file.write_text(json.dumps(results, indent=1) + "\n")
    columns = list(reversed(binaries))
    print("\n| program | " + " | ".join(f"{c}: median, worst (own figure), s" for c in columns) + " |")
    print("|---" * (1 + len(columns)) + "|")
    for row in results:
        print(f"| {row['program']} | " + " | ".join(cell(row[c]) for c in columns) + " |")
    return 1 if late else 0


def cell(result: dict) -> str:
    if not result["outside"]["n"]:
        return "not run"

    def two(f: dict) -> str:
        shown = [f"> {LIMIT}" if f[key] >= LIMIT else f"{f[key]:.2f}" for key in ("median", "worst")]
        return ", ".join(shown)

    own = result["own"]
    return two(result["outside"]) + (f" ({two(own)})" if own["n"] else "")
