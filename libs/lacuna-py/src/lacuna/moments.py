"""Where a step's time goes: clock readings at the step's own moments, of all members.

A member reads its clock where the step passes anyway: when the program asks for a batch, when the
batch is there, when a sum is launched and when it has arrived, when the optimiser has run. It
writes the durations of its last step into a slot of the next step's last message
(:mod:`lacuna.gradients`), so rank 0 learns those of all members without a message or a wait of
their own. Only durations travel: members compare no clocks. What the durations mean, and what each
cause costs, follows from a replay of the steps: ``libs/stalls`` of Lacuna.

Here is what programs that know nothing of Lacuna have too (:mod:`lacuna.outside`);
:class:`lacuna.timing.Timing` is the part of a step.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Optional

import torch

#: Sums of a step in a slot: the last message, and before it buckets, neighbours in common.
SUMS = 8
#: Durations of a slot before those of the sums. The first number says that the slot is filled.
NAMES = ("wait", "hand", "prep", "fetch", "update", "rest")
SUMS_AT = 1 + len(NAMES)
#: Numbers of a slot: then for each sum its launch and its end, from the batch's arrival on.
WIDTH = SUMS_AT + 2 * SUMS
#: The first steps of a group are not kept: buckets change after the first step.
WARM_UP = 5
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
class Moments:
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


def entry(rank: int, steps: torch.Tensor, sums: int) -> dict[str, Any]:
    """A member's part of a report, from its durations (steps times numbers of a slot)."""
    columns = steps.t().tolist()
    at = SUMS_AT + (steps.shape[1] - SUMS_AT) // 2
    found: dict[str, Any] = {"rank": rank}
    found.update(zip(NAMES, columns[1:SUMS_AT]))
    found["ready"] = columns[SUMS_AT : SUMS_AT + sums]
    found["done"] = columns[at : at + sums]
    return found


def durations(step: Moments, now: float) -> Optional[list[float]]:
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
