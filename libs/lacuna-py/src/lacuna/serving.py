"""The loader's side of remote loading: it reads samples for members of the training elsewhere.

The trainer's own program runs on a CPU node, as ``python3 -m lacuna.loader`` starts it. Where it
would train, in ``run.steps``, it serves: it finds the training's run in the file that rank 0
writes (:mod:`lacuna.remote`), shows its address in the run's store, and answers tasks of members
that know the run's token. One sample is read at a time; a node has as many such processes as it
has cores for them.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
import threading
import time
from collections import deque
from contextlib import contextmanager
from typing import Any, Callable, Iterator, Optional

import torch
from torch.utils.data import DataLoader, IterableDataset

from .data import loader_of
from .frames import Refused, Server, encoded, receive, send, stay
from .group import Rendezvous
from .keys import peek, put
from .messages import Membership, endpoint
from .moments import Stopwatch
from .reading import ItemReader, Task

log = logging.getLogger("lacuna")

#: The environment's name of the file in which a loader finds its training.
FILE = "LACUNA_LOADER_JOIN"
#: The number of this process among those of its node, given to ``worker_init_fn``.
NUMBER = "LACUNA_LOADER_NUMBER"
#: Seconds without a request after which a loader ends.
IDLE = "LACUNA_LOADER_IDLE"
IDLE_DEFAULT = 60.0
#: Seconds between two looks at the file and at the own key in the store.
LOOK = 0.3
#: Tokens of the newest runs are accepted: a member may hear late of the newest one.
TOKENS = 4
#: Seconds in which a member must have taken a batch.
SEND_LIMIT = 120.0


def wanted() -> Optional[str]:
    """The file in which this process finds its training, if it is a remote loader."""
    return os.environ.get(FILE) or None


def serve(
    data: Any, collate: Optional[Callable[[list[Any]], Any]], seed: Optional[int], file: str
) -> None:
    """Serves until no member asks for :data:`IDLE` seconds, and ends the process then.

    ``data``, ``collate``: the program's own, as for ``run.steps``. Raises RuntimeError for data
    that no other node can prepare.
    """
    if isinstance(data, (torch.Tensor, tuple)):
        raise RuntimeError("tensors in memory need no remote loaders")
    loader, _ = loader_of(data, collate, None, None)
    if isinstance(loader.dataset, IterableDataset):
        raise RuntimeError("an IterableDataset has no items by index: no remote loader can read it")
    if loader.worker_init_fn is not None:
        loader.worker_init_fn(int(os.environ.get(NUMBER) or 0))
    Serving(loader, seed).run(file, float(os.environ.get(IDLE) or IDLE_DEFAULT))
    raise SystemExit(0)


class Serving:
    """Answers tasks of members, one at a time."""

    def __init__(self, loader: "DataLoader[Any]", seed: Optional[int]) -> None:
        self._length = len(loader.dataset)  # type: ignore[arg-type]
        self._seed = seed
        plan = torch.ones(1, dtype=torch.int64)
        self._reader = ItemReader(loader.dataset, loader.collate_fn, seed, plan)
        #: Held while a task is read.
        self._turn = threading.Lock()
        self._lock = threading.Lock()
        self._tokens: deque[str] = deque(maxlen=TOKENS)
        #: Connections by the member at their other end.
        self._members: dict[str, int] = {}
        self._busy = 0
        self._asked = time.monotonic()
        self.server = Server(self._known, self._serve)

    def _known(self) -> tuple[str, ...]:
        with self._lock:
            return tuple(self._tokens)

    def allow(self, token: str) -> None:
        """Members that know this token may ask from now on."""
        with self._lock:
            if token not in self._tokens:
                self._tokens.append(token)

    def run(self, file: str, idle: float) -> None:
        """Serves the training of a file until no member asks for ``idle`` seconds."""
        self.server.start()
        place = Place(file, self.server.port, self.allow)
        said = False
        while time.monotonic() - self._asked < idle or self._busy:
            place.look()
            if place.shown and not said:
                print(f"lacuna.loader: serves at {place.shown}", file=sys.stderr, flush=True)
                said = True
            time.sleep(LOOK)
        place.leave()
        print(f"lacuna.loader: no member asked for {idle:g} s", file=sys.stderr, flush=True)

    def _serve(self, connection: socket.socket) -> None:
        hello, _ = receive(connection)
        refusal = self._refusal(hello)
        send(connection, {"refused": refusal})
        if refusal is not None:
            raise Refused(refusal)
        stay(connection)
        with self._counted(str(hello.get("member"))):
            while True:
                self._answer(connection, receive(connection)[0])

    def _refusal(self, hello: dict[str, Any]) -> Optional[str]:
        if hello.get("length") != self._length:
            theirs = hello.get("length")
            return f"the data set has {self._length} samples here and {theirs} at the member"
        if hello.get("seed") != self._seed:
            return "seed or reseed differ from the member's"
        return None

    @contextmanager
    def _counted(self, member: str) -> Iterator[None]:
        with self._lock:
            self._members[member] = self._members.get(member, 0) + 1
        try:
            yield
        finally:
            with self._lock:
                self._members[member] -= 1
                if self._members[member] == 0:
                    del self._members[member]

    def _answer(self, connection: socket.socket, header: dict[str, Any]) -> None:
        task = _task(header)
        with self._lock:
            self._busy += 1
        try:
            with self._turn:
                watch = Stopwatch()
                _, _, batch, failure, *_ = self._reader[task]
                text, tensors = "", []
                if failure is None:
                    try:
                        text, tensors = encoded(batch)
                    except TypeError as error:
                        failure = (f"the batch cannot be sent: {error}", "")
                reading = watch.read()
            reply = {
                "text": text,
                "failure": None if failure is None else list(failure),
                "prep": reading.prep,
                "took": reading.ended - reading.began,
                "members": len(self._members),
            }
            connection.settimeout(SEND_LIMIT)
            send(connection, reply, tensors)
            connection.settimeout(None)
        finally:
            with self._lock:
                self._busy -= 1
                self._asked = time.monotonic()


def _task(header: dict[str, Any]) -> Task:
    """The task of a request. Raises ValueError for what is none."""
    places, indices = header.get("places"), header.get("indices")
    floor, epoch = header.get("floor"), header.get("epoch")
    parts = [places, indices, floor, [epoch]]
    if not all(isinstance(p, list) and all(type(n) is int for n in p) for p in parts):
        raise ValueError("a task holds lists of whole numbers")
    if len(places) != len(indices) or len(floor) != 2:  # type: ignore[arg-type]
        raise ValueError("a task has an index for each place")
    return Task(
        plan=1,
        epoch=epoch,  # type: ignore[arg-type]
        places=tuple(places),  # type: ignore[arg-type]
        indices=tuple(indices),  # type: ignore[arg-type]
        floor=tuple(floor),  # type: ignore[arg-type]
    )


class Place:
    """Where members find a loader: a key in the store of their newest run."""

    def __init__(self, file: str, port: int, allow: Callable[[str], None]) -> None:
        self._file = file
        self._port = port
        self._allow = allow
        self._rendezvous = Rendezvous()
        self._key: Optional[tuple[str, str]] = None
        self._run: Optional[Membership] = None
        #: The address that is shown; empty before.
        self.shown = ""

    def look(self) -> None:
        """Shows the address in the newest run's store, if it is not there."""
        found = read(self._file)
        if found is None:
            return
        trainer, run = found
        self._allow(run.token)
        store = self._rendezvous.once(run)
        if store is None:
            return
        try:
            if self._key is not None and self._key[0] == run.token:
                if peek(store, self._key[1]) is not None:
                    return
            address = f"{_my_address(run.store)}:{self._port}"
            number = store.add(f"{trainer}/loaders", 1)
            self._key = (run.token, f"{trainer}/loaders/{number}")
            put(store, self._key[1], address)
            self._run, self.shown = run, address
        except (RuntimeError, OSError) as failure:
            self._rendezvous.drop()
            log.debug("the loader is not shown: %s", failure)

    def leave(self) -> None:
        """Takes the address away."""
        if self._run is None or self._key is None:
            return
        store = self._rendezvous.once(self._run)
        try:
            if store is not None:
                put(store, self._key[1], "")
        except (RuntimeError, OSError):
            pass


def read(file: str) -> Optional[tuple[str, Membership]]:
    """The trainer and its newest run, as rank 0 has written them; None if there is none now."""
    try:
        with open(file, encoding="utf-8") as opened:
            said = json.load(opened)
        trainer, store, token = (said[name] for name in ("trainer", "store", "token"))
        endpoint(store)
        if not isinstance(trainer, str) or not isinstance(token, str) or not token:
            return None
        return trainer, Membership(0, 0, ("loader",), store, token)
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None


def _my_address(store: str) -> str:
    """The address of this machine on the way to the store."""
    family, *_, where = socket.getaddrinfo(*endpoint(store), type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        # Connecting a datagram socket sends nothing; it only chooses a route.
        probe.connect(where)
        mine: str = probe.getsockname()[0]
    return f"[{mine}]" if ":" in mine else mine
