"""The part that gives members of unequal speed shares of unequal size."""

from __future__ import annotations

import math
from typing import Any, Optional

from .balance import Balance
from .misuse import BALANCE_OF_A_STREAM, NOT_SHARDED
from .part import Now, Part, Step, Use


class Shares(Part):
    """Sends the seconds of all members around, by which :class:`~lacuna.balance.Balance` decides.

    ``on``: whether the program wants such shares.
    """

    name = "balance"

    def __init__(self, on: bool) -> None:
        self.on = on
        self._balance = Balance()

    @property
    def weights(self) -> tuple[int, ...]:
        """Parts of the members; empty for even ones."""
        return tuple(self._balance.weights)

    def refuse(self, use: Use) -> Optional[str]:
        if not self.on:
            return None
        return NOT_SHARDED if use.sharded else BALANCE_OF_A_STREAM if use.stream else None

    def regroup(self, now: Now) -> None:
        self._balance.reset()

    def vote(self, step: Step) -> None:
        seconds = [0.0] * step.now.world_size
        seconds[step.now.rank] = step.took
        step.send(self, seconds)

    def agree(self, step: Step) -> None:
        seconds = step.summed(self)
        if seconds and all(math.isfinite(one) for one in seconds):
            self._balance.look(step.share.counts, seconds)

    def state_dict(self) -> dict[str, Any]:
        return {"changes": self._balance.changes}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._balance.changes = int(state["changes"])
