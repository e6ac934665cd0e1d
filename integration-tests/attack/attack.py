#!/usr/bin/env python3
"""Attacks a whole secure cluster with all roles' keys and hostile programs: `make attack`.

Each attack gets a cluster of its own (`lacuna up --secure` in a temporary folder, on the loopback
interface) with four nodes, on which an honest user trains. An attack succeeds if that user has less
than the share of one among the owners, makes no progress or gets no answer; if a node that a batch job
takes is not free of programs within 8 s; if a service dies, or is not well; or if it achieves the
fault that its description names. Then the exit code is 1. Nothing is left running.
"""

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

EXAMPLES = """examples:
  make attack                                         all of it, on the programs of `make build`
  make attack ARGS=--short                            the quickest ones
  make attack ARGS='--only answers --only misfits'
  make attack ARGS='--before ../old/target/release/lacuna --json attacks.json'
  make attack ARGS='--release 20'                     how soon a pilot is gone under each hostile program

exit codes: 0 no attack succeeds, 1 one does, 2 the command line is wrong, 69 something is missing
"""


def arguments() -> argparse.Namespace:
    root = Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(
        prog="attack.py",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    built = root / "target/release/lacuna"
    add("--binary", type=Path, default=built, help="under test, the services beside it")
    add("--before", type=Path, help="another binary, shown beside it")
    add("--only", action="append", default=[], metavar="NAME", help="this attack or program; may be repeated")
    add("--short", action="store_true", help="four attacks that take about a minute")
    add("--release", type=int, metavar="N", help="N times each: from SIGTERM to a pilot until all is gone")
    add("--json", type=Path, metavar="FILE", help="also write the outcomes")
    add("--list", action="store_true", help="name the attacks")
    args = parser.parse_args()
    for binary in filter(None, (args.binary, args.before)):
        needed = ("lacuna", "lacuna-agent", "lacuna-control")
        missing = [name for name in needed if not (binary.parent / name).is_file()]
        if missing and not args.list:
            print(f"attack: {', '.join(missing)} not in {binary.parent}: run `make build`", file=sys.stderr)
            sys.exit(69)
    if args.release is not None and args.release < 1:
        parser.error("--release takes a number of at least 1")
    return args


def try_attack(binary: Path, name: str) -> dict:
    """One attack on a cluster of its own."""
    from attacks import ATTACKS
    from cluster import Broken, Cluster, violations

    this, begun = ATTACKS[name], time.monotonic()

    def result(outcome: str, faults: list[str], took: float | None = None) -> dict:
        spent = time.monotonic() - begun
        return {"outcome": outcome, "faults": faults, "given_back_s": took, "seconds": spent}

    try:
        with Cluster(binary, more=this.config) as cluster:
            cluster.idle()
            if not this.early:
                cluster.train()
            faults, node = this.run(cluster)
            if this.early:
                try:
                    cluster.train(needed=0)
                except Broken as error:
                    faults.append(str(error))
            more, took = violations(cluster, this.owners, node)
            faults += more
    except Broken as error:
        return result("not run", [str(error)])
    except Exception as error:  # noqa: BLE001 (the other attacks go on)
        return result("not run", [f"the harness failed: {error!r}"])
    return result("succeeds" if faults else "fails", faults, took)


def cell(result: dict) -> str:
    took = result.get("given_back_s")
    back = "" if took is None else f" (node back in {took:.1f} s)"
    why = " ".join("; ".join(result["faults"]).replace("|", "/").split())
    return result["outcome"] + (": " + why if why else back)


def main() -> int:
    args = arguments()
    # A signal to this process ends its clusters, too.
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, lambda *_: sys.exit(130))
    try:
        from attacks import ATTACKS
        from programs import HOSTILE
        from release import release
    except ModuleNotFoundError as error:
        remedy = "run `make attack`, or pip install -r requirements.txt"
        print(f"attack: python3 has no {error.name}: {remedy}", file=sys.stderr)
        return 69
    if args.list:
        print("\n".join(f"{name:20} {this.what}" for name, this in ATTACKS.items()))
        return 0
    there = {"honest", *HOSTILE} if args.release else ATTACKS
    if unknown := [name for name in args.only if name not in there]:
        print(f"attack: {', '.join(unknown)} is not known: expected {', '.join(there)}", file=sys.stderr)
        return 2
    own = Path(__file__).resolve().parents[2] / ".cache/bin/nats-server"
    os.environ.setdefault("LACUNA_NATS_SERVER", str(own))
    binaries = {"now": args.binary.resolve()}
    if args.before:
        binaries["before"] = args.before.resolve()
    if args.release:
        return release(binaries, args.release, args.only, args.json)
    chosen = args.only or [name for name, this in ATTACKS.items() if this.short or not args.short]
    results: list[dict] = []
    for number, name in enumerate(chosen, 1):
        row = {"attack": name, "what": ATTACKS[name].what}
        for column, binary in binaries.items():
            row[column] = try_attack(binary, name)
            spent = f"{row[column]['seconds']:.0f} s"
            print(f"[{number}/{len(chosen)}] {name} {column}: {cell(row[column])} ({spent})", flush=True)
        results.append(row)
        if args.json:
            args.json.write_text(json.dumps(results, indent=1) + "\n")
    columns = list(reversed(binaries))
    print("\n| attack | " + " | ".join(columns) + " |")
    print("|---" * (1 + len(columns)) + "|")
    for row in results:
        print(f"| {row['attack']} | " + " | ".join(cell(row[column]) for column in columns) + " |")
    lost = [row["attack"] for row in results if row["now"]["outcome"] != "fails"]
    others = f"; not: {', '.join(lost)}" if lost else ""
    print(f"\n{len(results) - len(lost)} of {len(results)} attacks fail{others}")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
