"""The order of the data, which does not depend on the members that read it.

The order of an epoch's samples follows from the seed and the epoch alone. A step
takes the next samples of that order, as many as the batch policy says, and cuts them into one
contiguous share per member. Where the next step begins is part of the training state, so
whatever joins, leaves or dies, each sample of an epoch is used exactly once, in that order.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from typing import Iterator, Optional, Sequence

import torch

#: The length of a stream whose end is not known yet.
ENDLESS = 1 << 62
#: Steps of a training whose shares may be of other sizes than those before them. A loss that is
#: divided by a constant, in place of the samples that came, shows itself so (:mod:`lacuna.scales`).
TRIED = (1, 3)


@dataclass
class Position:
    """How far training has come: part of the state that is broadcast and saved."""

    step: int = 0
    epoch: int = 0
    #: Samples of this epoch that are used already.
    offset: int = 0
    #: Samples used since the trainer's beginning; in samples of the user's batch where a policy
    #: says what they are worth.
    samples: int = 0
    #: Turns of optimisers that the next step has done already (:mod:`lacuna.turns`).
    turn: int = 0

    @property
    def newness(self) -> list[int]:
        """Greater where the state is newer."""
        return [self.samples, self.step, self.turn]

    def advance(self, batch: int, length: int, worth: Optional[int] = None) -> None:
        """A step of ``batch`` samples has been applied, of ``length`` in the epoch.

        ``worth``: the samples that it counts, if these are others.
        """
        self.step += 1
        self.turn = 0
        self.samples += batch if worth is None else worth
        self.offset += batch
        if self.offset >= length:
            self.epoch += 1
            self.offset = 0


@dataclass(frozen=True)
class Share:
    """One member's part of one step.

    A sample's place is its number in the order of its epoch, its index that in the data set.
    """

    epoch: int
    #: Place of the first sample of the step, of all members together.
    offset: int
    #: Samples of the step, of all members together.
    batch: int
    rank: int
    world_size: int
    indices: torch.Tensor
    #: Whether a stream ends with this step; without a meaning for data of known length.
    last: bool = False
    #: Parts of the members, relative to each other; even ones if empty.
    weights: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """Samples of this member that count."""
        begin, end = self.cut(self.rank)
        return end - begin

    @property
    def lent(self) -> bool:
        """Whether its one sample belongs to another member: it counts nothing here."""
        return self.count == 0

    @property
    def places(self) -> range:
        """Places of this member's samples; of a lent one, the first of the step."""
        begin, end = given(self.batch, self.rank, self.world_size, self.weights)
        return range(self.offset + begin, self.offset + end)

    def cut(self, rank: int) -> tuple[int, int]:
        """Begin and end of a member's part of the step."""
        return cut(self.batch, rank, self.world_size, self.weights)

    @property
    def counts(self) -> list[int]:
        """Samples of each member."""
        ends = [self.cut(rank) for rank in range(self.world_size)]
        return [end - begin for begin, end in ends]

    def is_same(self, other: "Share") -> bool:
        """Whether both are the same part of the same step."""
        return self._part == other._part

    @property
    def _part(self) -> tuple[object, ...]:
        return self.epoch, self.offset, self.batch, self.rank, self.world_size, self.weights


def cut(count: int, rank: int, world_size: int, weights: Sequence[int] = ()) -> tuple[int, int]:
    """Begin and end of one member's part of ``count`` samples.

    The first members take one sample more if it does not come out even; a part is empty if there
    are more members than samples. With ``weights`` parts are as these, exactly so where they sum
    to ``count``.
    """
    if weights:
        total, before = sum(weights), sum(weights[:rank])
        return count * before // total, count * (before + weights[rank]) // total
    small, extra = divmod(count, world_size)
    begin = rank * small + min(rank, extra)
    return begin, begin + small + (1 if rank < extra else 0)


def given(count: int, rank: int, world_size: int, weights: Sequence[int]) -> tuple[int, int]:
    """Like :func:`cut`, but of an empty part the first sample, which counts nothing there.

    So the program's lines run at all members alike, and the passes of a sharded model meet.
    """
    begin, end = cut(count, rank, world_size, weights)
    return (begin, end) if begin < end else (0, 1)


def uneven(count: int, world_size: int, step: int) -> tuple[int, ...]:
    """Shares of ``count`` samples in a step of :data:`TRIED`: of two members one gives a sample to
    the other. With an odd number of members the last one keeps its share in the first of these
    steps, and the first one in the second."""
    ends = [cut(count, rank, world_size) for rank in range(world_size)]
    counts = [end - begin for begin, end in ends]
    for rank in range(0 if step == TRIED[0] else world_size % 2, world_size - 1, 2):
        if counts[rank + 1] > 1:
            counts[rank] += 1
            counts[rank + 1] -= 1
    return tuple(counts)


class Order:
    """The order of ``length`` samples, shuffled again in each epoch if ``shuffle``.

    ``length`` is None for a stream: its samples are numbered as they come, and reading finds its
    end (:meth:`reached`).
    """

    def __init__(self, length: Optional[int], seed: int, shuffle: bool = True) -> None:
        if length is not None and length < 1:
            raise ValueError("there are no samples: the data set is empty")
        self._length = length
        self._end = ENDLESS
        self._seed = seed
        self.shuffle = shuffle
        #: Orders of the newest epochs: while one ends, members read the next one ahead.
        self._orders: dict[int, torch.Tensor] = {}

    @property
    def length(self) -> int:
        """Samples of the present epoch; of a stream, a number beyond all until its end is known."""
        return self._end if self._length is None else self._length

    @property
    def is_stream(self) -> bool:
        """Whether reading alone finds the end."""
        return self._length is None

    @property
    def identity(self) -> list[int]:
        """The same for programs with the same order: samples (0: a stream), seed, shuffle."""
        return [self._length or 0, self._seed, self.shuffle]

    def reached(self, share: Share) -> None:
        """A share of the present step was read; of a stream, it says where the epoch ends."""
        self._end = share.offset + share.batch if share.last else ENDLESS

    def of_epoch(self, epoch: int) -> torch.Tensor:
        """Indices of all samples in the order in which the epoch uses them."""
        assert self._length is not None
        if epoch not in self._orders:
            if self.shuffle:
                generator = torch.Generator()
                generator.manual_seed(mixed(self._seed, "order", epoch))
                order = torch.randperm(self._length, generator=generator)
            else:
                order = torch.arange(self._length)
            self._orders = {e: o for e, o in self._orders.items() if abs(e - epoch) == 1}
            self._orders[epoch] = order
        return self._orders[epoch]

    def share(
        self,
        at: Position,
        rank: int,
        world_size: int,
        batch: int,
        left: Optional[float] = None,
        weights: tuple[int, ...] = (),
        tries: bool = False,
    ) -> Share:
        """The share of a member in the step at a position.

        The batch is cut at the end of the epoch, and at the ``left`` samples that there are
        still to do. With ``tries`` shares of some steps are :func:`uneven`.
        """
        count = batch if self._length is None else min(batch, self._length - at.offset)
        if left is not None:
            count = max(0, min(count, math.ceil(left)))
        if tries and at.step in TRIED and count > 0 and not weights:
            weights = uneven(count, world_size, at.step)
        share = Share(at.epoch, at.offset, count, rank, world_size, torch.empty(0), weights=weights)
        places = share.places
        if self._length is None:
            indices = torch.arange(places.start, places.stop)
        else:
            indices = self.of_epoch(at.epoch)[places.start : places.stop]
        return replace(share, indices=indices)

    def ahead(
        self,
        at: Position,
        rank: int,
        world_size: int,
        batch: int,
        *,
        epochs: Optional[int] = None,
        total: Optional[float] = None,
        weights: tuple[int, ...] = (),
        tries: bool = False,
    ) -> Iterator[Share]:
        """The shares of a member from a position on, as long as the members stay the same."""
        at = replace(at)
        while epochs is None or at.epoch < epochs:
            left = None if total is None else total - at.samples
            if left is not None and left <= 0.0:
                return
            share = self.share(at, rank, world_size, batch, left, weights, tries)
            at.advance(share.batch, ENDLESS if self._length is None else self._length)
            yield share


def mixed(*parts: object) -> int:
    """A seed of 63 bits from anything that has a text, the same on every machine."""
    text = "/".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
