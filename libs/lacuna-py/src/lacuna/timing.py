"""The part that reads the clock at a step's moments: :mod:`lacuna.moments`."""

from __future__ import annotations

import os
import time
from collections import deque
from typing import Any, Mapping, Optional

import torch

from .moments import (
    NAMES,
    SUMS,
    SUMS_AT,
    VERSION,
    WARM_UP,
    WIDTH,
    Loading,
    Moments,
    Reading,
    clock,
    durations,
    entry,
)
from .part import Now, Part, Step

#: Steps that are kept.
WINDOW = 64
#: Steps that make a report, and seconds between two reports.
ENOUGH = 16
EVERY = 30.0
#: Most members and most numbers of a report.
MEMBERS = 16
NUMBERS = 3072


class Timing(Part):
    """The moments of this member's steps, and at rank 0 the durations of all members.

    ``LACUNA_STALLS=off``, at all members, takes readings and slots away. ``follows``: how the batch
    follows the members, in the words of the agent; None: not known.
    """

    def __init__(self, follows: Any = None, environment: Mapping[str, str] = os.environ) -> None:
        #: Whether clocks are read. All members must agree.
        self.on = environment.get("LACUNA_STALLS", "on") != "off"
        self._follows = follows
        self._loading = Loading()
        self._members = 1
        self._rank = 0
        self._step: Optional[Moments] = None
        self._slot: Optional[list[float]] = None
        self._bytes: list[int] = []
        self._group_of: list[int] = []
        self._skipped = 0
        self._window: deque[torch.Tensor] = deque(maxlen=WINDOW)
        self._next = 0.0

    # The part of a step; :meth:`asked` is of it too.

    def regroup(self, now: Now) -> None:
        self.formed(now.world_size, now.rank)

    def before(self, step: Step) -> None:
        self.reads(step.source.loading)
        self.got(step.source.reading)

    def agree(self, step: Step) -> None:
        if step.sums is None:
            self.summed()

    def after(self, step: Step) -> None:
        if step.ends:
            self.updated()

    def drop(self, step: Step) -> None:
        self.dropped()

    def news(self, now: Now) -> dict[str, Any]:
        stalls = self.due()
        return {} if stalls is None else {"stalls": stalls}

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
        self._step = Moments(clock()) if self.on else None

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
        self._step = Moments(now)

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
            late = window[:, :, SUMS_AT + sums - 1].mean(0)
            slowest = sorted(speaking, key=lambda r: -float(late[r]))
            speaking = sorted({0, *slowest[: MEMBERS - 2], slowest[-1]})
        if limit is not None:
            numbers = len(speaking) * (len(NAMES) + 2 * sums)
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
