#!/usr/bin/env python3
"""The delay of a batch job by fillers on its nodes: `srun -N1 -p batch true`.

Runs beside the controller of the test cluster (`make slurm-measure`). Every node has a filler before
each srun, so that it must end one. Conditions take turns, so that other load on the machine
meets all alike. Medians with quartiles; the ratio is to the same srun on an empty cluster.
"""

import argparse
import glob
import json
import os
import sys
import time

import slurm
from stats import seconds, summary, table

# The program of a filler from its start to its end; each writes a file when it runs.
FILLERS = {
    "dies": "exec sleep 600",
    "cleans-1s": "trap 'sleep 1; exit 0' TERM; sleep 600 & wait",
    "ignores": "trap '' TERM; while :; do sleep 600; done",
}
TEXTS = {
    "none": "no fillers",
    "dies": "fillers that end at SIGTERM",
    "cleans-1s": "fillers that clean up for 1 s",
    "ignores": "fillers that ignore SIGTERM",
}


def script(action: str) -> str:
    """A batch script that runs a filler as a step, as pilots run: only a step's tasks always get
    SIGTERM."""
    step = f"touch /shared/ready.$SLURM_JOB_ID; {action}"
    return "#!/bin/bash\nexec srun -Q --mpi=none bash -c '" + step.replace("'", "'\\''") + "'\n"


def fill(action: str, nodes: int) -> None:
    """A filler on every node, each known to run."""
    for file in glob.glob("/shared/ready.*"):
        os.unlink(file)
    common = ["sbatch", "-p", "filler", "-N1", "--no-requeue", "-o", "/dev/null", "-t", "30"]
    ids = [
        slurm.call(*common, "--parsable", user=slurm.PILOT, input=script(action)).strip()
        for _ in range(nodes)
    ]
    slurm.until(
        "every filler says that it runs", 30, lambda: all(os.path.exists(f"/shared/ready.{i}") for i in ids)
    )
    # The step runs; bash needs a moment to set its trap.
    time.sleep(0.1)


def clear() -> None:
    """Ends all fillers and waits for idle nodes. A filler that ignores SIGTERM is killed."""
    slurm.call("scancel", "-s", "KILL", "-u", slurm.PILOT, user=slurm.PILOT, check=False)
    slurm.call("scancel", "-u", slurm.PILOT, user=slurm.PILOT, check=False)
    slurm.all_idle()


def once(condition: str, width: int, nodes: int) -> float:
    """One measurement."""
    if condition != "none":
        fill(FILLERS[condition], nodes)
    took = slurm.srun_seconds(width)
    clear()
    return took


def measure(conditions: list[str], widths: list[int], repeats: int, slow: int, report) -> list[dict]:
    """All conditions in turn; those of which one measurement takes seconds, `slow` times."""
    nodes = len(slurm.states())
    clear()
    taken: dict[tuple[str, int], list[float]] = {(c, w): [] for w in widths for c in conditions}
    for turn in range(repeats):
        for (condition, width), values in taken.items():
            if condition == "ignores" and turn >= slow:
                continue
            values.append(once(condition, width, nodes))
            report(condition, width, values[-1])
    rows = []
    for (condition, width), values in taken.items():
        row = {"condition": condition, "nodes": width, **summary(values), "values": values}
        base = taken.get(("none", width))
        if base and condition != "none":
            middle = summary(base)["median"]
            row |= {"added": row["median"] - middle, "ratio": row["median"] / middle}
        rows.append(row)
    return rows


def show(rows: list[dict]) -> str:
    head = ["batch job behind", "-N", "n", "median s", "quartiles", "range", "added s", "ratio"]
    lines = [
        [
            TEXTS.get(row["condition"], row["condition"]),
            str(row["nodes"]),
            str(row["n"]),
            seconds(row["median"]),
            f"{seconds(row['q1'])}-{seconds(row['q3'])}",
            f"{seconds(row['min'])}-{seconds(row['max'])}",
            seconds(row["added"]) if "added" in row else "",
            f"{row['ratio']:.1f}" if "ratio" in row else "",
        ]
        for row in rows
    ]
    return table(head, lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=10, help="measurements of each condition (10)")
    parser.add_argument("--slow", type=int, default=3, help="measurements of 'ignores', each of KillWait (3)")
    parser.add_argument("--widths", default="1,2", help="nodes of the batch job (1,2)")
    parser.add_argument("--conditions", default=",".join(TEXTS), help=f"of {','.join(TEXTS)}")
    parser.add_argument("--json", action="store_true", help="one JSON value instead of the table")
    parser.add_argument("--quiet", action="store_true", help="do not tell each measurement")
    args = parser.parse_args()
    conditions = args.conditions.split(",")
    unknown = [c for c in conditions if c not in TEXTS]
    if unknown or args.repeats < 1:
        parser.error(f"unknown condition {unknown}" if unknown else "at least one repeat")

    def report(condition: str, width: int, took: float) -> None:
        if not args.quiet:
            print(f"  {condition} -N{width}: {took:.3f} s", file=sys.stderr, flush=True)

    rows = measure(conditions, [int(w) for w in args.widths.split(",")], args.repeats, args.slow, report)
    print(json.dumps({"nodes": len(slurm.states()), "rows": rows}) if args.json else show(rows))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except slurm.SlurmError as error:
        print(f"measure: {error}", file=sys.stderr)
        sys.exit(1)
