#!/usr/bin/env python3
"""The Slurm test cluster: brings a cluster up in containers, and down again.

  clusterctl.py up [--nodes 4]     make the image, start, wait until every node is idle
  clusterctl.py down               stop, and remove everything
  clusterctl.py status             the state of Slurm and of Lacuna's services
  clusterctl.py measure [...]      measure the delay of batch jobs (arguments of measure.py)
  clusterctl.py harm               measure batch jobs and training with pilots on the nodes
  clusterctl.py users              the table of what users do, with and without pilots
  clusterctl.py hooks              measure prolog and epilog with good and bad buses
  clusterctl.py hands              measure nodes that go from one owner to another
  clusterctl.py loaders            a training with 0, 1, 2, 4 loaders (up --nodes 5 first)
  clusterctl.py scale              pilots on all nodes, many wanted at once (up --nodes 256 first)
  clusterctl.py exec CMD...        run a command beside the controller

Lacuna is taken from target/release and .cache/bin. LACUNA_SKIP_CARGO=1 takes it without a build, and
LACUNA_BINARIES=target/debug from another folder.
LACUNA_SLURM_PROJECT, LACUNA_SLURM_SUBNET and LACUNA_BASE_IMAGE name another project, network and
base image.

Exit codes: 0 done, 1 it does not work, 69 something is not installed or not running, 75 no base
image is available or containers cannot run.
"""

import argparse
import subprocess
import sys

import hands
import harm
import hooks
import loading
import scale
import users
from cluster import Cluster, ClusterError, load, need_docker, say
from layout import Layout


def inside(cluster: Cluster, user: str, command: list[str]) -> int:
    """Runs a command beside the controller with this terminal's output."""
    return subprocess.call(["docker", "exec", "-u", user, cluster.layout.container("ctl"), *command])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True)
    up = actions.add_parser("up", help="bring a cluster up")
    up.add_argument("--nodes", type=int, default=4, help="how many nodes (4)")
    up.add_argument("--single", action="store_true", help="all nodes in one container (always above 64)")
    up.add_argument("--kill-wait", type=int, default=5, help="seconds from SIGTERM to SIGKILL (5)")
    up.add_argument("--accounting", action="store_true", help="with slurmdbd, slurmrestd and preemption by QOS")
    up.add_argument("--no-hooks", action="store_true", help="without prolog and epilog")
    actions.add_parser("image", help="make the image alone")
    actions.add_parser("down", help="stop it")
    actions.add_parser("status", help="the state of Slurm and of Lacuna's services")
    costs = actions.add_parser("hooks", help="measure prolog and epilog with good and bad buses")
    costs.add_argument("--repeats", type=int, default=10, help="measurements of each (10)")
    costs.add_argument("--json", action="store_true", help="one JSON value instead of the table")
    over = actions.add_parser("hands", help="measure nodes that go from one owner to another")
    over.add_argument("--repeats", type=int, default=5, help="measurements of each site (5)")
    over.add_argument("--json", action="store_true", help="one JSON value instead of the table")
    both = actions.add_parser("harm", help="measure batch jobs and training with pilots on the nodes")
    both.add_argument("--repeats", type=int, default=10, help="measurements of each (10)")
    both.add_argument("--launchers", default="regroup,torchrun", help="of regroup,torchrun")
    both.add_argument("--events", default=",".join(harm.EVENTS), help=f"of {','.join(harm.EVENTS)}")
    both.add_argument("--json", action="store_true", help="one JSON value instead of the tables")
    table = actions.add_parser("users", help="what users do, with and without pilots")
    table.add_argument("--repeats", type=int, default=10, help="of each (10)")
    table.add_argument("--acts", default=";".join(users.ACTS), help=f"of {';'.join(users.ACTS)}")
    table.add_argument("--conditions", default=",".join(users.CONDITIONS), help=f"of {','.join(users.CONDITIONS)}")
    table.add_argument("--json", action="store_true", help="one JSON value instead of the table")
    many = actions.add_parser("scale", help="pilots on all nodes, many wanted at once")
    many.add_argument("--wanted", type=int, default=200, help="nodes of the batch job (200)")
    many.add_argument("--json", action="store_true", help="one JSON value instead of the table")
    loads = actions.add_parser("loaders", help="a training that waits for its data, with 0, 1, 2, 4 loaders")
    loads.add_argument("--json", action="store_true", help="one JSON value instead of the table")
    for name, text in [("measure", "measure the delay of batch jobs"), ("exec", "run a command beside the controller")]:
        actions.add_parser(name, help=text, add_help=False, prefix_chars="\0")
    args, rest = parser.parse_known_args()
    if rest and args.action not in ("measure", "exec"):
        parser.error(f"unknown argument {rest[0]}")

    if args.action == "up":
        layout = Layout(args.nodes, args.single, args.kill_wait, not args.no_hooks, args.accounting)
        took = Cluster(layout).up()
        say(f"{layout.nodes} nodes are idle after {took:.1f} s")
        print(f"  look in  docker exec -it {layout.container('ctl')} bash")
        return 0
    need_docker()
    if args.action == "image":
        Cluster(Layout()).image()
        return 0
    if args.action == "down":
        Cluster(Layout()).down()
        return 0
    cluster = load()
    if args.action == "status":
        return inside(cluster, "root", ["bash", "-c", "sinfo; /test-cluster/services.sh status"])
    if args.action == "measure":
        return inside(cluster, "root", ["python3", "/test-cluster/measure.py", *rest])
    if args.action == "harm":
        return harm.command(cluster, args.launchers.split(","), args.events.split(","), args.repeats, args.json)
    if args.action == "users":
        return users.command(cluster, args.acts.split(";"), args.conditions.split(","), args.repeats, args.json)
    if args.action == "scale":
        return scale.command(cluster, args.wanted, args.json)
    if args.action == "hands":
        return hands.command(cluster, args.repeats, args.json)
    if args.action == "loaders":
        return loading.command(cluster, args.json)
    if args.action == "hooks":
        return hooks.command(cluster, args.repeats, args.json)
    return inside(cluster, "root", rest)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ClusterError as error:
        print(f"slurm: {error}", file=sys.stderr)
        sys.exit(error.code)
    except subprocess.CalledProcessError as error:
        print(f"slurm: {error}", file=sys.stderr)
        sys.exit(1)
