"""The messages between agent and program: JSON, one object a line.

Every worker of a node has a connection of its own, and names its local rank first.

Worker to agent::

    {"say":"hello","pid":123,"version":2,"local_rank":0}
    {"say":"ready"}
    {"say":"alive"}
    {"say":"progress","run":7,"base":1200.0,"samples":64.0,"step":21,"world_size":3,
     "loss":0.4,"checkpoint":"/path or null","saved":1200.0,"t":1700000000.0}
    {"say":"broken","run":7}
    {"say":"whole","run":7}
    {"say":"done"}
    {"say":"exiting"}

``done``: this worker's training has ended in order. ``exiting``: its interpreter ends, perhaps after
an error. After either word it may be silent for the agent's grace.

Agent to all workers of the node; ``rank`` and ``members`` are those of nodes::

    {"tell":"run","run":7,"rank":0,"members":["n1","n2"],"store":"host:29400","token":"..."}
    {"tell":"leave","deadline":1700000000.5}

Unknown kinds and unknown fields are ignored, so that either side can be the newer one.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Optional, Union

#: Version of this protocol, sent in ``hello``. Version 1 knew one worker a node.
VERSION = 2

#: Exit code of a program that left on request (EX_TEMPFAIL of sysexits.h).
EXIT_LEFT = 75


@dataclass(frozen=True)
class Membership:
    """One run: the members that train together. The greatest ``run`` is the newest."""

    run: int
    rank: int
    members: tuple[str, ...]
    #: ``host:port`` of the store; may be empty if there is one member only.
    store: str
    #: Opens the store to this run: the prefix of its keys.
    token: str = field(default="", repr=False)

    @property
    def world_size(self) -> int:
        return len(self.members)

    def without(self, absent: Callable[[str], bool]) -> "Membership":
        """The same run without nodes that take no part, of which this is none."""
        members = tuple(member for member in self.members if not absent(member))
        return replace(self, rank=members.index(self.members[self.rank]), members=members)

    def by_worker(self, local_rank: int, count: int) -> "Membership":
        """The same run of nodes as one of workers, of which each node has ``count``.

        Workers of a node have neighbouring ranks, in the order of their local ranks.
        """
        if count == 1:
            return self
        members = tuple(f"{node}/{local}" for node in self.members for local in range(count))
        return replace(self, rank=self.rank * count + local_rank, members=members)

    def of_place(self, local_rank: int, count: int) -> "Membership":
        """The same run of workers as one of those with a local rank, one of each node."""
        members = self.members[local_rank::count]
        return replace(self, rank=self.rank // count, members=members)


@dataclass(frozen=True)
class Leave:
    """Leave at the next step boundary; at ``deadline`` (Unix seconds) the process ends."""

    deadline: Optional[float]
    reason: str


FromAgent = Union[Membership, Leave]


def encode(message: dict[str, Any]) -> bytes:
    """One line. Numbers that JSON has no words for (NaN, infinity) become null."""
    clean = {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in message.items()
    }
    return json.dumps(clean, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def decode(line: bytes) -> Optional[FromAgent]:
    """The message in a line of the agent; None for a kind that this version does not know.

    Raises ValueError if the line is damaged.
    """
    try:
        value = json.loads(line)
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    kind = value.get("tell")
    if kind == "run":
        return _membership(value)
    if kind == "leave":
        deadline = value.get("deadline")
        if deadline is not None and not _is_number(deadline):
            raise ValueError("'deadline' is no number")
        return Leave(None if deadline is None else float(deadline), "asked by the agent")
    return None


def _membership(value: dict[str, Any]) -> Membership:
    run, rank, members = value.get("run"), value.get("rank"), value.get("members")
    if run is None or rank is None or not _is_count(run) or not _is_count(rank):
        raise ValueError("'run' and 'rank' must be whole numbers")
    if not isinstance(members, list) or not all(isinstance(m, str) for m in members):
        raise ValueError("'members' must be a list of names")
    if rank >= len(members):
        raise ValueError(f"rank {rank} is outside of {len(members)} members")
    store, token = value.get("store") or "", value.get("token") or ""
    if not isinstance(store, str) or not isinstance(token, str):
        raise ValueError("'store' and 'token' must be texts")
    return Membership(run, rank, tuple(members), store, token)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def endpoint(text: str) -> tuple[str, int]:
    """Splits ``host:port`` (``[::1]:port`` for IPv6). Raises ValueError."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"store {text!r} is not 'host:port'")
    return host.strip("[]"), int(port)
