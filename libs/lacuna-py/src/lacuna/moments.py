"""Where a step's time goes: clock readings at the step's own moments, of all members.

A member reads its clock where the step passes anyway: when the program asks for a batch, when the
batch is there, when a sum is launched and when it has arrived, when the optimiser has run. It
writes the durations of its last step into a slot of the next step's last message
(:mod:`lacuna.gradients`), so rank 0 learns those of all members without a message or a wait of
their own. Only durations travel: members compare no clocks. What the durations mean, and what each
cause costs, follows from a replay of the steps: ``libs/stalls`` of Lacuna.

``LACUNA_STALLS=off``, at all members, takes readings and slots away.
"""

from __future__ import annotations

import math
import os
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Mapping, NamedTuple, Optional

import torch

#: Sums of a step in a slot: the last message, and before it buckets, neighbours in common.
SUMS = 8
#: Durations of a slot before those of the sums. The first number says that the slot is filled.
_NAMES = ("wait", "hand", "prep", "fetch", "update", "rest")
_SUMS_AT = 1 + len(_NAMES)
#: Numbers of a slot: then for each sum its launch and its end, from the batch's arrival on.
WIDTH = _SUMS_AT + 2 * SUMS
#: Steps that are kept. The first ones of a group are not: buckets change after the first step.
WINDOW = 64
WARM_UP = 5
#: Steps that make a report, and seconds between two reports.
ENOUGH = 16
EVERY = 30.0
#: Most members and most numbers of a report.
MEMBERS = 16
NUMBERS = 3072
#: Version of the report.
VERSION = 1

clock = time.perf_counter


class Reading(NamedTuple):
    """How a batch was read: moments of the machine's monotonic clock, and seconds."""

    began: float
    ended: float
    #: Processor time, and time in which a processor was waited for.
    prep: float


class Stopwatch:
    """Times the reading of a batch by one thread.

    The thread computes (preparation) while it runs or waits for a processor. Otherwise it sleeps,
    for a disk or a network (fetching). Work of other threads counts as sleep.
    """

    def __init__(self) -> None:
        self._began, self._cpu, self._queue = clock(), time.thread_time(), _queued()

    def read(self) -> Reading:
        """The reading since this was made."""
        ended = clock()
        busy = time.thread_time() - self._cpu + _queued() - self._queue
        return Reading(self._began, ended, min(max(busy, 0.0), ended - self._began))


def _queued() -> float:
    """Seconds for which this thread has waited for a processor; 0 where the kernel does not say."""
    try:
        with open("/proc/thread-self/schedstat", "rb", buffering=0) as file:
            return int(file.read().split()[1]) * 1e-9
    except (OSError, IndexError, ValueError):
        return 0.0


@dataclass(frozen=True)
class Loading:
    """How batches are read ahead: worker processes (0: the program reads), tasks of each, and how
    many of the workers are loaders on other nodes."""

    workers: int = 0
    depth: int = 0
    remote: int = 0


@dataclass
class Step:
    """The moments of a step here."""

    asked: float
    got: float = 0.0
    wait: float = 0.0
    prep: float = 0.0
    fetch: float = 0.0
    summed: float = 0.0
    updated: float = 0.0
    launched: list[float] = field(default_factory=list)
    ended: list[float] = field(default_factory=list)


class Moments:
    """The moments of this member's steps, and at rank 0 the durations of all members."""

    def __init__(self, environment: Mapping[str, str] = os.environ, follows: Any = None) -> None:
        #: Whether clocks are read. All members must agree.
        self.on = environment.get("LACUNA_STALLS", "on") != "off"
        #: How the batch follows the members, in the words of the agent; None: not known.
        self._follows = follows
        self._loading = Loading()
        self._members = 1
        self._rank = 0
        self._step: Optional[Step] = None
        self._slot: Optional[list[float]] = None
        self._bytes: list[int] = []
        self._group_of: list[int] = []
        self._skipped = 0
        self._window: deque[torch.Tensor] = deque(maxlen=WINDOW)
        self._next = 0.0

    def reads(self, loading: Loading) -> None:
        """How batches are read from now on."""
        if loading != self._loading:
            self._window.clear()
        self._loading = loading

    # Moments, in their order in a step.

    def formed(self, members: int, rank: int) -> None:
        """Another group: its steps are compared with those of no other one."""
        self._members, self._rank = members, rank
        self._slot = None
        self._bytes, self._group_of = [], []
        self._skipped = 0
        self._window.clear()
        self._next = 0.0
        self._step = Step(clock()) if self.on else None

    def asked(self) -> None:
        """The program asks for a batch, so the step before has ended."""
        if not self.on:
            return
        now, step = clock(), self._step
        self._slot = None
        if step is not None and step.updated > 0.0:
            self._slot = durations(step, now)
            if self._members == 1:
                self._keep(torch.tensor([self._slot or [0.0] * WIDTH], dtype=torch.float64))
        self._step = Step(now)

    def got(self, reading: Optional[Reading]) -> None:
        """The batch is here. ``reading``: how it was read, if it was."""
        step = self._step
        if step is None or not self.on:
            return
        step.got = clock()
        if reading is None:
            return
        blocked = step.got - step.asked
        step.prep = reading.prep
        step.fetch = max(reading.ended - reading.began - reading.prep, 0.0)
        # A worker and its program share the machine, and so the clock.
        step.wait = min(max(reading.ended - step.asked, 0.0), blocked)

    def sums(self, sizes: list[int]) -> None:
        """The step has buckets of these bytes."""
        count = len(sizes)
        if count != len(self._group_of):
            groups = min(count, SUMS - 1)
            self._group_of = [bucket * groups // count for bucket in range(count)]
            self._bytes = [0] * (groups + 1)
            for group, size in zip(self._group_of, sizes):
                self._bytes[group] += size
            self._skipped = 0
            self._window.clear()
        if self._step is not None:
            self._step.launched = [0.0] * len(self._bytes)
            self._step.ended = [0.0] * len(self._bytes)

    def launched(self, bucket: Optional[int]) -> None:
        """The sum of a bucket is launched; None: the last message."""
        if self._step is not None and self._step.launched:
            self._step.launched[self._group(bucket)] = clock()

    def ended(self, bucket: Optional[int]) -> None:
        """The sum of a bucket is known to have arrived."""
        if self._step is not None and self._step.ended:
            self._step.ended[self._group(bucket)] = clock()

    def _group(self, bucket: Optional[int]) -> int:
        return -1 if bucket is None else self._group_of[bucket]

    def summed(self) -> None:
        """All sums have arrived; alone: the backward pass has ended."""
        step = self._step
        if step is not None:
            step.summed = clock()
            if not step.ended:
                step.launched = step.ended = [step.summed]
                self._bytes = [0]

    def updated(self) -> None:
        """The optimisers have stepped."""
        if self._step is not None:
            self._step.updated = clock()

    def dropped(self) -> None:
        """The step was not applied, or had no samples here."""
        self._step = None

    # The durations of all members.

    @property
    def width(self) -> int:
        """Numbers of a member's slot; 0 without readings."""
        return WIDTH if self.on else 0

    @property
    def numbers(self) -> int:
        """How many numbers the slots of all members are."""
        return self._members * WIDTH if self.on else 0

    def slots(self, last_bytes: int) -> Optional[torch.Tensor]:
        """The slots (float64, members times WIDTH) of which this member's is filled.

        ``last_bytes``: the size of the message around them.
        """
        if not self.on:
            return None
        if self._bytes:
            self._bytes[-1] = last_bytes + 8 * self.numbers
        slots = torch.zeros(self._members, WIDTH, dtype=torch.float64)
        if self._slot is not None:
            slots[self._rank] = torch.tensor(self._slot, dtype=torch.float64)
        return slots.view(-1)

    def take(self, slots: torch.Tensor) -> None:
        """Takes the sum of all members' slots over."""
        if self.on and self._rank == 0:
            self._keep(slots.reshape(self._members, WIDTH).clone())

    def _keep(self, slots: torch.Tensor) -> None:
        self._skipped += 1
        if self._skipped > WARM_UP:
            self._window.append(slots)

    def due(self) -> Optional[dict[str, Any]]:
        """The report, if one is due."""
        now = time.monotonic()
        if not self.on or now < self._next or len(self._window) < ENOUGH:
            return None
        self._next = now + EVERY
        return self.report(NUMBERS)

    def report(self, limit: Optional[int] = None) -> Optional[dict[str, Any]]:
        """The newest steps of this group; None without any.

        Durations are whole microseconds, a list over steps each. ``silent``: members without
        figures in half of the steps. ``limit``: about as many numbers, and few members: rank 0 and
        those that kept the others waiting for the longest time.
        """
        if not self._window:
            return None
        window = torch.stack(list(self._window))
        filled = window[:, :, 0] > 0.0
        silent = [r for r, part in enumerate(filled.double().mean(0).tolist()) if part < 0.5]
        speaking = [r for r in range(self._members) if r not in silent]
        window = window[filled[:, speaking].all(1)]
        sums = len(self._bytes)
        if limit is not None and len(speaking) > MEMBERS:
            late = window[:, :, _SUMS_AT + sums - 1].mean(0)
            slowest = sorted(speaking, key=lambda r: -float(late[r]))
            speaking = sorted({0, *slowest[: MEMBERS - 2], slowest[-1]})
        if limit is not None:
            numbers = len(speaking) * (len(_NAMES) + 2 * sums)
            window = window[-max(ENOUGH // 2, limit // max(numbers, 1)) :]
        micro = (window * 1e6).round().long()
        ranks = [entry(rank, micro[:, rank], sums) for rank in speaking]
        follows = {} if self._follows is None else {"follows": self._follows}
        return {
            **follows,
            "version": VERSION,
            "members": self._members,
            "workers": self._loading.workers,
            "remote": self._loading.remote,
            "depth": self._loading.depth,
            "bytes": list(self._bytes),
            "silent": silent,
            "ranks": ranks,
        }


def entry(rank: int, steps: torch.Tensor, sums: int) -> dict[str, Any]:
    """A member's part of a report, from its durations (steps times numbers of a slot)."""
    columns = steps.t().tolist()
    at = _SUMS_AT + (steps.shape[1] - _SUMS_AT) // 2
    found: dict[str, Any] = {"rank": rank}
    found.update(zip(_NAMES, columns[1:_SUMS_AT]))
    found["ready"] = columns[_SUMS_AT : _SUMS_AT + sums]
    found["done"] = columns[at : at + sums]
    return found


def durations(step: Step, now: float) -> Optional[list[float]]:
    """The durations of a step that has ended now, None if they make no sense."""
    got, count = step.got, len(step.launched)
    if got <= 0.0 or step.summed < got:
        return None
    ready = [max(t - got, 0.0) if t > 0.0 else 0.0 for t in step.launched]
    # Sums may end in another order than they began; what was not seen to end has ended by now.
    done, latest = [], 0.0
    for moment in step.ended:
        latest = max(latest, (moment if moment > 0.0 else step.summed) - got)
        done.append(latest)
    done[-1] = max(step.summed - got, latest)
    padding = [0.0] * (SUMS - count)
    hand = max(got - step.asked - step.wait, 0.0)
    times = [step.wait, hand, step.prep, step.fetch, step.updated - step.summed]
    times.append(now - step.updated)
    slot = [1.0, *times, *ready, *padding, *done, *padding]
    return slot if all(math.isfinite(number) and number >= 0.0 for number in slot) else None
