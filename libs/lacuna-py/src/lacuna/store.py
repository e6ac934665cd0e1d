"""A store in which the members of a run meet, for :class:`lacuna.loopback.Loopback`.

A TCPStore of torch.distributed, held by a process of its own that can be killed and started
again. Under Lacuna control keeps the store itself (``[control] store``).
"""

from __future__ import annotations

import argparse
import signal
import socket
import sys
import threading
from datetime import timedelta
from typing import Optional, Sequence

EPILOG = """examples:
  python3 -m lacuna.store                              listens on port 29400
  python3 -m lacuna.store --host node1 --port 29500    says node1:29500 when it listens
  python3 -m lacuna.store --port 0                     takes a free port and says which

Under Lacuna it is not needed: control keeps the store ([control] store = "host:29400"). It holds
some hundred bytes for each member of a run. After a restart of the store running groups train on;
they need it again at their next change of members.
"""


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python3 -m lacuna.store",
        description="Holds the store in which the members of a training run meet.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--host",
        default="0.0.0.0",
        help="name that is printed; the store of PyTorch listens on all addresses of this "
        "machine (default: %(default)s)",
    )
    parser.add_argument(
        "--port", type=int, default=29400, help="port, 0 for any free one (default: %(default)s)"
    )
    return parser


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Runs until SIGTERM or SIGINT; 1 if the port is taken, 69 if PyTorch is missing."""
    options = arguments().parse_args(argv)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        from torch.distributed import TCPStore
    except ImportError as error:
        print(f"lacuna.store: PyTorch is missing: {error}", file=sys.stderr)
        return 69
    if options.port and _is_taken(options.port):
        print(f"lacuna.store: port {options.port} is taken", file=sys.stderr)
        return 1
    try:
        store = TCPStore(
            "127.0.0.1",
            options.port,
            is_master=True,
            wait_for_workers=False,
            timeout=timedelta(seconds=30),
        )
    except (RuntimeError, OSError) as error:
        print(f"lacuna.store: cannot listen on port {options.port}: {error}", file=sys.stderr)
        return 1
    print(f"lacuna.store: listening on {options.host}:{store.port}", flush=True)
    while not stop.wait(3600.0):
        pass
    return 0


def _is_taken(port: int) -> bool:
    """Asked first, since PyTorch would retry for its whole timeout."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return True
    return False


if __name__ == "__main__":
    sys.exit(main())
