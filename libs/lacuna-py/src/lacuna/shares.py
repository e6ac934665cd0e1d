"""The part that gives members of unequal speed shares of unequal size."""

from __future__ import annotations

import math
from typing import Any

from .balance import Balance
from .order import cut
from .part import Now, Part, Step


class Shares(Part):
    """Sends the seconds of all members around, by which :class:`~lacuna.balance.Balance` decides.

    Workers that have the shards of one model wait for each other in each step. So they count as
    one, and have even parts of its share. ``on``: whether the program wants such shares.
    """

    name = "balance"

    def __init__(self, on: bool) -> None:
        self.on = on
        self._balance = Balance()
        self._shards = 1

    @property
    def weights(self) -> tuple[int, ...]:
        """Parts of the members; empty for even ones."""
        parts = range(self._shards)
        ends = [cut(one, part, self._shards) for one in self._balance.weights for part in parts]
        return tuple(end - begin for begin, end in ends)

    def regroup(self, now: Now) -> None:
        self._balance.reset()
        self._shards = now.shards

    def vote(self, step: Step) -> None:
        seconds = [0.0] * step.now.world_size
        seconds[step.now.rank] = step.took
        step.send(self, seconds)

    def agree(self, step: Step) -> None:
        seconds, together = step.summed(self), step.now.by_model
        # The last turn of optimisers has the seconds of the whole batch.
        if step.ends and seconds and all(math.isfinite(one) for one in seconds):
            counts = [sum(some) for some in together(step.share.counts)]
            self._balance.look(counts, [max(some) for some in together(seconds)])

    def state_dict(self) -> dict[str, Any]:
        return {"changes": self._balance.changes}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._balance.changes = int(state["changes"])
