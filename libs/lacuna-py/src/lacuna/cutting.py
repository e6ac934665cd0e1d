"""Batches in parts: several backward passes of one step, each over some of its samples."""

from __future__ import annotations

from typing import Any, Iterator, Optional, Sequence

import torch


def size(batch: Any) -> Optional[int]:
    """Samples of a batch: the first size of its first tensor; None without one."""
    if isinstance(batch, torch.Tensor):
        return None if batch.dim() == 0 else batch.shape[0]
    parts = batch.values() if isinstance(batch, dict) else batch
    if not isinstance(batch, (dict, list, tuple)):
        return None
    return next((found for part in parts if (found := size(part)) is not None), None)


def cut(batch: Any, count: int, ends: Sequence[int]) -> Optional[list[Any]]:
    """A batch of ``count`` samples in parts that end there, if it is made of tensors of that size.

    Tensors may stand in dicts, lists and tuples, beside lists of as many other things.
    """
    begins = [0, *ends[:-1]]
    if isinstance(batch, torch.Tensor):
        if batch.dim() == 0 or batch.shape[0] != count:
            return None
        return [batch[begin:end] for begin, end in zip(begins, ends)]
    if isinstance(batch, dict) and batch:
        keys, values = list(batch), list(batch.values())
        columns = _columns(values, count, ends)
        return columns and [dict(zip(keys, column)) for column in columns]
    if type(batch) in (list, tuple) and batch:
        if len(batch) == count and not any(_nested(one) for one in batch):
            return [batch[begin:end] for begin, end in zip(begins, ends)]
        columns = _columns(batch, count, ends)
        return columns and [type(batch)(column) for column in columns]
    return None


def _nested(one: Any) -> bool:
    return isinstance(one, (torch.Tensor, dict, list, tuple))


def _columns(values: Sequence[Any], count: int, ends: Sequence[int]) -> Optional[list[Any]]:
    cuts = [cut(one, count, ends) for one in values]
    known = [one for one in cuts if one is not None]
    return list(zip(*known)) if len(known) == len(cuts) else None


class Accumulation:
    """The parts of one step's batch: their weights, and the sum of their losses."""

    def __init__(self) -> None:
        #: The weight of the present part's loss.
        self.weight = 1.0
        #: Parts that were not given yet.
        self.left = 0
        #: How many there are, and the most samples of one; 0 before they are cut.
        self.passes = 0
        self.size = 0
        self._loss: Optional[torch.Tensor] = None

    def add(self, loss: torch.Tensor) -> None:
        """Adds a weighted loss."""
        loss = loss.detach()
        self._loss = loss if self._loss is None else self._loss + loss

    @property
    def loss(self) -> Optional[torch.Tensor]:
        """The sum; None if nothing was added."""
        return self._loss

    def parts(self, batch: Any, most: int, passes: int = 0) -> Iterator[Any]:
        """Parts of at most ``most`` samples, as even as can be; ``passes`` of them at least.

        Raises TypeError for a batch that cannot be cut.
        """
        count = size(batch)
        if count is None or count == 0:
            raise TypeError(_uncut(batch))
        number = max(-(-count // most), min(passes, count))
        ends = [count * (i + 1) // number for i in range(number)]
        parts = cut(batch, count, ends)
        if parts is None:
            raise TypeError(_uncut(batch))
        weights = [(end - begin) / count for begin, end in zip([0, *ends], ends)]
        # FSDP's passes need all workers of a node: one with few samples takes some twice, as none.
        lent = max(0, passes - number)
        self.left = number + lent
        self.passes, self.size = number, most
        for part, weight in zip([*parts, *parts[:1] * lent], [*weights, *[0.0] * lent]):
            self.weight = weight
            self.left -= 1
            yield part
        self.weight = 1.0


def _uncut(batch: Any) -> str:
    return (
        f"run.parts() cannot cut a batch of type {type(batch).__name__}, only tensors with one "
        "row for each sample, in dicts, lists and tuples: cut it yourself, and write "
        "run.backward(loss, weight=len(part) / len(batch)) for each part"
    )
