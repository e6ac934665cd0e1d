"""The times of saving: by steps or seconds, before leaving, and at the end."""

from __future__ import annotations

import time
from typing import Any, Callable, Optional

from .checkpoint import Checkpoints
from .sharding import Node
from .state import frozen

#: Gives the whole training state; its tensors may be the model's own.
Take = Callable[[], dict[str, Any]]


class Saver(Checkpoints):
    """The checkpoints of a training run, or none if there is no folder for them.

    ``node``: the workers that save the parts of one together.
    """

    def __init__(
        self,
        folder: Optional[str],
        keep: int,
        every: Optional[int],
        seconds: Optional[float],
        node: Node,
    ) -> None:
        super().__init__(folder, keep, node)
        self._every = every
        self._seconds = seconds
        self._step = 0
        self._at = time.monotonic()

    def new_group(self, step: int) -> None:
        """A member is rank 0 now: its clock goes on from the newest checkpoint of any member.

        It does not begin with the group, since groups may be shorter than the time between two.
        """
        newest = self.look()
        if newest is None:
            return
        self._step = min(newest.step, step)
        try:
            age = max(0.0, time.time() - newest.path.stat().st_mtime)
        except OSError:
            age = 0.0
        self._at = max(self._at, time.monotonic() - age)

    def if_due(self, step: int, take: Take) -> None:
        """Saves beside the training if it is due, and the last one is written.

        All workers of a node that have the shards of a model call it after the same step.
        """
        if not self.on:
            return
        now = time.monotonic()
        due = self._every is not None and step - self._step >= self._every
        if self._seconds is not None and now - self._at >= self._seconds:
            due = True
        if self._node.all(due and not self.busy):
            self._step, self._at = step, now
            self.save_beside(frozen(take()))

    def now(self, samples: int, take: Take) -> None:
        """Saves before going on, unless a state as new as this is saved already."""
        if not self.on:
            return
        self.settle()
        saved = self.look()
        if saved is None or saved.samples < samples:
            self.save(take())

    def last(self, place: int, samples: int, take: Take) -> None:
        """Like :meth:`now`, before this process and perhaps all that have its state end.

        ``place``: its own in their order. The first saves, and the second in case that the first
        was lost. Two checkpoints of a step do no harm. A worker that has a shard saves it in any
        case.
        """
        if not self.on:
            return
        if self._node.count == 1 and place > 0:
            if place > 1:
                return
            time.sleep(0.2)
        self.now(samples, take)
