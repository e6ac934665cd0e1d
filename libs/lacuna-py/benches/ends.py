"""Short trainers to their ends: ``python3 -m benches ends``.

Each trainer is trained once, whichever of its programs exits first, and however long that takes.
The trainers are real ones under the services of ``lacuna up``: of each launcher, with 1, 2 or 3
nodes at least, with and without a checkpoint. Their members exit in any order, and some
interpreters take up to 20 s to end, in which they say nothing. Programs write down each training
that they begin at its beginning, and each that they end. With ``--samples`` the last sample is
their end, and what they write down after it must still come.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, Iterator, Optional, Sequence

from . import common
from .up import Up

EXAMPLES = """examples:
  python3 -m benches ends                              50 trainers on 6 nodes, some six minutes
  python3 -m benches ends --trainers 9 --launchers regroup --slowest 6
  python3 -m benches ends --samples --saves 2          work in samples, then 2 s of saving
  python3 -m benches ends --lacuna OLD/lacuna --client OLD/libs/lacuna-py/src
                                                            the same of another release
"""

#: The samples of each training.
SAMPLES = 1280
LAUNCHERS = ("regroup", "torchrun", "command")
#: The most nodes of a trainer, and so its members.
MOST = 3
#: Seconds that an interpreter takes to end, as shares of the slowest; the later ones are rarer.
DELAYS = (0.0, 0.0, 0.002, 0.07, 0.3, 1.0)
#: What all programs do: they write down what they begin and end, and exit late.
COMMON = """
import json, os, sys, time

delays = json.loads(sys.argv[1])

def tell(what):
    with open(sys.argv[2], "a") as file:
        file.write(json.dumps([os.environ["LACUNA_TRAINER"], what]) + "\\n")

class Late:
    '''Ends with the interpreter, when no thread of Python runs any more.'''
    def __init__(self, seconds):
        self.seconds, self.sleep = seconds, time.sleep
    def __del__(self):
        self.sleep(self.seconds)
"""

#: A training of the package, for ``regroup``.
ELASTIC = """
import torch
import lacuna

torch.manual_seed(1)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(640, 4)
with lacuna.elastic(model, optimizer, batch=32, timeout=10.0) as run:
    for (part,) in run.steps((x,), epochs=2):
        optimizer.zero_grad()
        loss = model(part).pow(2).mean()
        time.sleep(0.05)
        loss.backward()
        if run.step(loss) and run.rank == 0 and run.steps_done == 1:
            tell("begun")
    rank = run.rank
time.sleep(float(sys.argv[3]))
if rank == 0:
    tell("ended")
late = Late(delays[rank])
"""

#: A program that knows nothing of Lacuna but its files, for the other launchers.
PLAIN = """
rank = int(os.environ.get("RANK", os.environ.get("LACUNA_RANK", "0")))
folder = os.environ.get("LACUNA_CHECKPOINT_DIR")
path = folder and os.path.join(folder, "state.json")
done = 0
if path and os.path.exists(path):
    with open(path) as file:
        done = json.load(file)
if rank == 0 and done == 0:
    tell("begun")
for step in range(done, 40):
    time.sleep(0.05)
    line = {"t": time.time(), "step": step + 1, "samples": 32.0 * (step + 1 - done)}
    line["done"] = step == 39
    if rank == 0 and path and step % 10 == 9:
        os.makedirs(folder, exist_ok=True)
        with open(path + ".new", "w") as file:
            json.dump(step + 1, file)
        os.replace(path + ".new", path)
        line["checkpoint"] = path
    if rank == 0 or line["done"]:
        with open(os.environ["LACUNA_PROGRESS_FILE"], "a") as file:
            file.write(json.dumps(line) + "\\n")
time.sleep(float(sys.argv[3]))
if rank == 0:
    tell("ended")
late = Late(delays[rank])
"""


def main(argv: Sequence[str]) -> int:
    """Prints what came of it; 64 for wrong arguments, 69 if something is missing, 1 if a trainer
    was not done, was trained more than once, or did not come to the end of its code."""
    parser = common.parser("ends", "Short trainers to their ends.", EXAMPLES)
    parser.add_argument("--samples", action="store_true", help="work is a number of samples")
    parser.add_argument(
        "--saves", type=float, default=0.0, help="seconds of code after the last step (%(default)g)"
    )
    parser.add_argument("--trainers", type=int, default=50, help="default: %(default)s")
    parser.add_argument("--nodes", type=int, default=6, help="default: %(default)s")
    parser.add_argument("--launchers", default=",".join(LAUNCHERS), help="default: %(default)s")
    parser.add_argument(
        "--slowest", type=float, default=20.0, help="seconds of the slowest exit (%(default)g)"
    )
    parser.add_argument(
        "--limit", type=float, default=900.0, help="seconds until the last look (%(default)g)"
    )
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--lacuna", help="the program (default: of target/release, else of PATH)")
    parser.add_argument("--client", help="the source folder of another release of the package")
    options = parser.parse_args(argv)
    launchers = options.launchers.split(",")
    if set(launchers) - set(LAUNCHERS) or options.nodes < MOST or options.trainers < 1:
        print(f"benches: launchers {', '.join(LAUNCHERS)}; nodes >= {MOST}; trainers >= 1")
        return 64
    host = common.host()
    program = Up.program(options.lacuna)
    if host is None or program is None:
        return 69
    cases = list(_cases(options, launchers))
    with tempfile.TemporaryDirectory(prefix="lacuna-bench-") as folder:
        rows = trained(cases, options, program, options.client, Path(folder))
    # One with a checkpoint that is started again begins nothing, and ends once more. With work in
    # samples one without a checkpoint may grow, and begin again.
    begins = 0 if options.samples else 1
    times = [max(begins * row["begun"], row["ended"]) for row in rows]
    wrong = [
        row for row, n in zip(rows, times) if row["phase"] != "done" or n != 1 or row["ended"] == 0
    ]
    counts = ("begun", "ended", "failures", "displaced")
    total = {name: sum(row[name] for row in rows) for name in counts}
    total["trainers"], total["done"] = len(rows), sum(row["phase"] == "done" for row in rows)
    total["repeated"] = sum(max(0, n - 1) for n in times)
    if options.json:
        print(json.dumps({"host": host, "total": total, "trainers": rows}, indent=2))
        return 1 if wrong else 0
    for row in wrong:
        print(
            f"  {row['name']} ({row['launcher']}, at least {row['min']}, exits after "
            f"{row['delays']} s): {row['phase']}, begun {row['begun']} times, "
            f"ended {row['ended']} times, plans took its nodes {row['displaced']} times and "
            f"changed them {row['changed']} times: "
            f"{row['reason']}"
        )
    print(
        f"{total['trainers']} trainers, {total['done']} done; trainings begun {total['begun']}, "
        f"ended {total['ended']}, repeated {total['repeated']}; failures {total['failures']}, "
        f"displaced by plans {total['displaced']}"
    )
    print(", ".join(f"{key} {value}" for key, value in host.items()))
    return 1 if wrong else 0


def _cases(options: argparse.Namespace, launchers: list[str]) -> Iterator[dict[str, Any]]:
    """The trainers: all combinations in turn, with exits from the seed."""
    dice = random.Random(options.seed)
    kinds = itertools.cycle(itertools.product((1, 2, 3), (False, True), launchers))
    for number, (least, saves, launcher) in zip(range(options.trainers), kinds):
        delays = [options.slowest * dice.choice(DELAYS) for _ in range(MOST)]
        yield {
            "name": f"end-{number:02}",
            "launcher": launcher,
            "min": least,
            "max": MOST,
            "checkpoint": saves,
            "delays": [round(delay, 2) for delay in delays],
        }


def _spec(
    case: dict[str, Any], folder: Path, environment: dict[str, str], options: argparse.Namespace
) -> str:
    name, launcher = case["name"], case["launcher"]
    script = folder / ("elastic.py" if launcher == "regroup" else "plain.py")
    given = [json.dumps(case["delays"]), str(folder / "told.jsonl"), str(options.saves)]
    program = script if launcher == "torchrun" else sys.executable
    arguments = given if launcher == "torchrun" else [str(script), *given]
    lines = {
        "name": name,
        "launcher": launcher,
        "program": str(program),
        "arguments": arguments,
        **({"samples": SAMPLES} if options.samples else {"until": "exit"}),
        "min_nodes": case["min"],
        "max_nodes": case["max"],
    }
    if case["checkpoint"]:
        lines["checkpoint_dir"] = str(folder / "checkpoints" / name)
    env = ", ".join(f"{k} = {json.dumps(v)}" for k, v in environment.items())
    text = "\n".join(f"{key} = {json.dumps(value)}" for key, value in lines.items())
    return f"[[trainer]]\n{text}\nenvironment = {{ {env} }}\n"


def trained(
    cases: list[dict[str, Any]],
    options: argparse.Namespace,
    program: str,
    client: Optional[str],
    folder: Path,
) -> list[dict[str, Any]]:
    """The cases with what became of them, on ``options.nodes`` nodes within ``options.limit`` s.

    ``client``: the source folder of another release of the package.
    """
    (folder / "elastic.py").write_text(COMMON + ELASTIC)
    (folder / "plain.py").write_text(COMMON + PLAIN)
    told = folder / "told.jsonl"
    told.touch()
    environment = common.environment()
    if client:
        environment["PYTHONPATH"] = str(Path(client).resolve())
    torchrun = json.dumps([sys.executable, "-m", "torch.distributed.run"])
    with Up(program, folder, f"[agent]\ntorchrun = {torchrun}\n") as up:
        up.lacuna("events", "publish", "node.idle", *(f"n{n}" for n in range(options.nodes)))
        submit = folder / "trainers.toml"
        submit.write_text("\n".join(_spec(case, folder, environment, options) for case in cases))
        up.lacuna("submit", str(submit))
        end = time.monotonic() + options.limit
        while time.monotonic() < end:
            time.sleep(2.0)
            found = json.loads(up.lacuna("trainers", "--all", "--json"))["trainers"]
            if all(row["phase"] in ("done", "failed", "cancelled") for row in found):
                break
        failures = Counter(up.noted(r"program failed.* trainer=(\S+)"))
        displaced = Counter(up.noted(r'run trainer=(\S+) .*after=0 cause="shrunk"'))
        changed = Counter(up.noted(r"run trainer=(\S+) .*before=[1-9]\d* after=[1-9]"))
        starts = Counter(up.noted(r"run trainer=(\S+) .*before=0 after=[1-9]"))
    counted = Counter(map(tuple, map(json.loads, told.read_text().splitlines())))
    rows = {row["trainer"]: row for row in found}
    for case in cases:
        name = case["name"]
        case.update(
            begun=counted[name, "begun"],
            ended=counted[name, "ended"],
            starts=starts[name],
            failures=failures[name],
            displaced=displaced[name],
            changed=changed[name],
            **{key: rows[name][key] for key in ("phase", "reason")},
            times={key: rows[name][key] for key in ("eligible", "started", "ended")},
        )
    return cases
