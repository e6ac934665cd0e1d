#!/usr/bin/env python3
"""Attacks a whole secure cluster with all roles' keys and hostile programs: `make attack`.

Each attack gets a cluster of its own (`lacuna up --secure` in a temporary folder, on the loopback
interface) with four nodes, on which an honest user trains. An attack succeeds if that user has less
than the share of one among the owners, stands still or gets no answer; if a node that a batch job
takes is not free of programs within 8 s; if a service dies, or is not well; or if it achieves what
its description names. Then the exit code is 1. Nothing is left running.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(1, str(Path(__file__).parent.parent / "slurm"))

EXAMPLES = """examples:
  make attack                                         all of it, on what `make build` has built
  make attack ARGS=--short                            the quickest ones
  make attack ARGS='--only answers --only misfits'
  make attack ARGS='--before ../old/target/release/lacuna --json attacks.json'
  make attack ARGS='--release 20'                     how soon a pilot is gone under each hostile program

exit codes: 0 no attack succeeds, 1 one does, 2 the command line is wrong, 69 something is missing
"""


def arguments() -> argparse.Namespace:
    root = Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(
        prog="attack.py", description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--binary", type=Path, default=root / "target/release/lacuna", help="under test, the services beside it")
    parser.add_argument("--before", type=Path, help="another binary, shown beside it")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="this attack; may be repeated")
    parser.add_argument("--short", action="store_true", help="a few attacks that take about two minutes")
    parser.add_argument("--release", type=int, metavar="N", help="N times each: from SIGTERM to a pilot until all is gone")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the outcomes")
    parser.add_argument("--list", action="store_true", help="name the attacks")
    args = parser.parse_args()
    for binary in filter(None, (args.binary, args.before)):
        missing = [n for n in ("lacuna", "lacuna-agent", "lacuna-control") if not (binary.parent / n).is_file()]
        if missing and not args.list:
            print(f"attack: {', '.join(missing)} not in {binary.parent}: `make build` builds all", file=sys.stderr)
            sys.exit(69)
    return args


def try_attack(binary: Path, name: str) -> dict:
    """One attack on a cluster of its own."""
    from attacks import ATTACKS
    from cluster import Broken, Cluster, judge

    this, begun = ATTACKS[name], time.monotonic()
    try:
        with Cluster(binary) as cluster:
            cluster.idle()
            if not this.early:
                cluster.train()
            faults, node = this.run(cluster)
            if this.early:
                cluster.train(needed=0)
            more, took = judge(cluster, this.owners, node)
            faults += more
    except Broken as error:
        return {"attack": name, "outcome": "not run", "faults": [str(error)], "seconds": time.monotonic() - begun}
    outcome = "succeeds" if faults else "fails"
    return {"attack": name, "outcome": outcome, "faults": faults, "given_back_s": took, "seconds": time.monotonic() - begun}


def cell(result: dict) -> str:
    took = result.get("given_back_s")
    back = "" if took is None else f" (node back in {took:.1f} s)"
    why = " ".join("; ".join(result["faults"]).replace("|", "/").split())
    return result["outcome"] + (": " + why if why else back)


def main() -> int:
    args = arguments()
    try:
        from attacks import ATTACKS
        from release import release
    except ModuleNotFoundError as error:
        print(f"attack: python3 has no {error.name}: run `make attack`, or pip install 'nats-py[nkeys]' msgpack", file=sys.stderr)
        return 69
    if args.list:
        print("\n".join(f"{name:20} {this.what}" for name, this in ATTACKS.items()))
        return 0
    if unknown := [name for name in args.only if name not in ATTACKS and not args.release]:
        print(f"attack: there is no attack {', '.join(unknown)}: --list names them", file=sys.stderr)
        return 2
    os.environ.setdefault("LACUNA_NATS_SERVER", str(Path(__file__).resolve().parents[2] / ".cache/bin/nats-server"))
    binaries = {"now": args.binary.resolve()} | ({"before": args.before.resolve()} if args.before else {})
    if args.release:
        return release(binaries, args.release, args.only, args.json)
    chosen = args.only or [name for name, this in ATTACKS.items() if this.short or not args.short]
    results: list[dict] = []
    for number, name in enumerate(chosen, 1):
        row = {"attack": name, "what": ATTACKS[name].what}
        for column, binary in binaries.items():
            row[column] = try_attack(binary, name)
            print(f"[{number}/{len(chosen)}] {name} {column}: {cell(row[column])} ({row[column]['seconds']:.0f} s)", flush=True)
        results.append(row)
        if args.json:
            args.json.write_text(json.dumps(results, indent=1) + "\n")
    columns = list(reversed(binaries))
    print("\n| attack | " + " | ".join(columns) + " |\n|---" * 1 + "|---" * len(columns) + "|")
    for row in results:
        print(f"| {row['attack']} | " + " | ".join(cell(row[column]) for column in columns) + " |")
    lost = [row["attack"] for row in results if row["now"]["outcome"] != "fails"]
    print(f"\n{len(results) - len(lost)} of {len(results)} attacks fail" + (f"; not: {', '.join(lost)}" if lost else ""))
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
