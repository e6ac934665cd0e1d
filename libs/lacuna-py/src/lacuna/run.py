"""The training loop's side: batches out, losses in, and changes of members in between."""

from __future__ import annotations

import logging
import math
import os
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence, Type, TypeVar, Union, cast
from weakref import WeakKeyDictionary

import torch
from torch import nn

from . import alike, losses, misuse, serving
from .busy import Busy
from .calls import Calls, Place
from .cutting import Accumulation
from .data import Indices, Source, mark, source, whole
from .feed import Feed
from .gradients import Gradients, Vote
from .group import Group, backend_of, check_backend
from .halves import Halves, halves
from .learning import Learning
from .link import Link, leave_now
from .member import Alone, Card, Formed, Regroup, from_environment, loader, newest
from .metrics import Bests, How, Mode, means, merged, numbers, same
from .moments import Moments
from .noise import Scale
from .order import TRIED, Order, Position, Share
from .policy import BatchPolicy, checked, reference
from .progress import Reporter, Span
from .remote import Remote
from .saving import Saver
from .sharding import Node, node_of
from .stages import SETTING, holds_tables, is_table_node
from .state import Parts, Scaler, Stateful, broadcast
from .stuck import Stuck
from .tree import pack
from .turns import Turns
from .update import Update, reseed
from .worker import Worker

log = logging.getLogger("lacuna")

T = TypeVar("T")

#: Runs of this process whose work is done.
_done: list[int] = []
#: By model the greatest number of epochs that a loop of this process has ended with.
_ended: "WeakKeyDictionary[nn.Module, int]" = WeakKeyDictionary()


@dataclass(frozen=True)
class Settings:
    """The settings of :func:`elastic`, without the parts that have state."""

    seed: int
    reseed: bool
    timeout: float
    backend: str
    wire: Optional[torch.dtype]
    loaders: Optional[str]


def elastic(
    model: nn.Module,
    optimizer: Union[torch.optim.Optimizer, Sequence[torch.optim.Optimizer]],
    *,
    scheduler: Optional[Any] = None,
    scaler: Optional[Scaler] = None,
    wire: Optional[torch.dtype] = None,
    batch: Union[int, BatchPolicy] = 32,
    seed: int = 0,
    checkpoint_every: Optional[int] = None,
    checkpoint_seconds: Optional[float] = 60.0,
    checkpoint_dir: Optional[str] = None,
    keep: int = 3,
    state: Optional[Mapping[str, Stateful]] = None,
    clip_norm: Optional[float] = None,
    before_step: Optional[Callable[[], None]] = None,
    reseed: bool = True,
    noise: bool = False,
    balance: bool = False,
    timeout: float = 2.0,
    backend: Optional[str] = None,
    loaders: Optional[str] = None,
) -> "Elastic":
    """Makes a training loop elastic: ``with lacuna.elastic(model, optimizer, ...) as run:``.

    ``optimizer``, ``scheduler``: one, or a list of which all are stepped once a step. ``batch``:
    samples of a step of the whole group (cut into shares), or a
    :class:`~lacuna.policy.BatchPolicy`. ``scaler``: the gradient scaler of a loss in half
    precision. ``wire``: ``torch.float16`` or ``torch.bfloat16`` halves the messages, and sums lose
    digits. ``seed``: the data's order and, with ``reseed``, the random numbers of each step follow
    from it. ``checkpoint_every`` steps or ``checkpoint_seconds``, whichever comes first, into
    ``checkpoint_dir`` (default: ``LACUNA_CHECKPOINT_DIR``; without either there are none);
    ``keep`` of them stay. ``state``: further things with a ``state_dict``, by name, as a
    :class:`lacuna.Value`, or a scheduler that the program steps itself once an epoch. ``clip_norm``
    and ``before_step`` act on the averaged gradients. ``noise``: measures the noise scale of the
    gradient (:attr:`Elastic.noise`), also where the batch policy does not need it. ``balance``:
    members of unequal speed get shares of unequal size. ``loaders``: a file by which processes on
    other nodes find this training and prepare batches for it (default: ``LACUNA_LOADERS``), see
    :mod:`lacuna.loader`. ``timeout``: seconds of silence in a
    collective after which the group counts as broken; it grows with the steps' duration, and
    doubles when a group breaks before its first step. ``backend``: ``gloo`` or
    ``cpu:gloo,cuda:nccl`` (default: by :func:`~lacuna.group.backend_of`).

    The model may be sharded over the workers of a node, see :func:`lacuna.node_mesh`.

    Raises ValueError for settings or launcher's variables that make no sense, an optimiser that
    needs a closure, or a scheduler that needs a metric, TypeError for a state of other things than
    :mod:`lacuna.tree` names, ConnectionError if ``LACUNA_SOCKET`` is set and no agent answers
    there, RuntimeError if Lacuna gave several nodes but no way to meet, or if this node is one for
    tables.
    """
    if is_table_node(os.environ):
        raise RuntimeError(f"{SETTING} names this node: make lacuna.Tables before lacuna.elastic")
    if _done and os.environ.get("LACUNA_SOCKET"):
        raise RuntimeError(misuse.SECOND)
    if timeout <= 0.0:
        raise ValueError(f"timeout must be positive, not {timeout}")
    if isinstance(model, nn.parallel.DistributedDataParallel):
        raise ValueError("lacuna sums the gradients itself: pass model.module, and train that")
    optimizers = _listed(optimizer)
    node = node_of(model, optimizers, backend)
    backend = backend or backend_of(model.parameters() if node.mesh is None else ())
    check_backend(backend, wire)
    policy = checked(batch)
    exact = clip_norm is None and before_step is None and scaler is None
    learning = Learning(policy, optimizers, noise=noise, balance=balance, exact=exact)
    if learning.active and node.count > 1:
        raise ValueError(
            "a sharded model has no noise scale and no shares by speed: use a batch of samples or "
            "PerNode with 'linear', 'sqrt' or 'none', without noise and balance"
        )
    extra = dict(state or {})
    parts = Parts(model, optimizers, _listed(scheduler), scaler, extra, node.mesh)
    misuse.refuse(parts)
    # What others could not get is refused at the start, and not when one of them joins.
    pack(parts.take(Position()))
    folder = checkpoint_dir or os.environ.get("LACUNA_CHECKPOINT_DIR")
    return Elastic(
        parts,
        Update(parts, policy, clip_norm, before_step),
        Saver(folder, keep, checkpoint_every, checkpoint_seconds, node),
        Settings(seed, reseed, timeout, backend, wire, loaders or os.environ.get("LACUNA_LOADERS")),
        node,
        learning,
    )


def _listed(parts: Union[None, T, Sequence[T]]) -> list[T]:
    if parts is None:
        return []
    return list(parts) if isinstance(parts, (list, tuple)) else [cast(T, parts)]


class Elastic:
    """A training run whose members may change between any two steps. Made by :func:`elastic`.

    A member applies a step when its sums have arrived there; then the member's state is one step
    newer. If the group breaks while some have applied a step and
    others have not, the newest state is broadcast to all, so the step counts once. If no member
    has applied it, the next group does it again with the same samples.

    Workers that have the shards of one model do all of this alike (:class:`~lacuna.sharding.Node`).
    """

    def __init__(
        self,
        parts: Parts,
        update: Update,
        saver: Saver,
        settings: Settings,
        node: Node,
        learning: Learning,
    ) -> None:
        self._parts = parts
        self._update = update
        self._saver = saver
        self._settings = settings
        self._node = node
        self._learning = learning
        #: The halves of this step, if it is one member's and looked at.
        self._halves: Optional[Halves] = None
        self._moments = Moments(follows=learning.follows())
        others = [one for one in parts.extra.values() if isinstance(one, nn.Module)]
        self._gradients = Gradients(
            *(parts.model, parts.optimizers, settings.wire, node, self._moments, others)
        )
        self._closed = misuse.Closed(parts)
        #: Of this batch, if run.parts() or run.backward() is used for it.
        self._accumulation: Optional[Accumulation] = None
        self._turns = Turns(parts.optimizers)
        self._bests = Bests()
        #: The mark of the loop's data (:func:`lacuna.data.mark`).
        self._data = ""
        #: Whether the program is in a loop over batches.
        self._in_loop = False
        #: The greatest number of epochs that a loop of this process has ended with.
        self._ended: Optional[int] = None
        total = os.environ.get("LACUNA_SAMPLES_TOTAL")
        self._total = float(total) if total else None
        self._worker = Worker.of(os.environ)
        self._worker.warn()
        address, deadline = os.environ.get("LACUNA_SOCKET"), os.environ.get("LACUNA_DEADLINE_FILE")
        absent = holds_tables(os.environ)
        self._link = Link(address or None, deadline, self._worker, absent=absent)
        self._membership = from_environment(
            self._link, self._worker, node, settings.backend, settings.timeout
        )
        regroup = isinstance(self._membership, Regroup)
        file = None if regroup else os.environ.get("LACUNA_PROGRESS_FILE")
        self._reporter = Reporter(self._link, file)
        self._group: Optional[Group] = None
        self._span = Span(0, 1, 0)
        self._rank = 0
        #: Set at the boundary at which this member leaves: whether it saves the state.
        self._departing: Optional[bool] = None
        self._position = Position()
        self._has_state = False
        self._lineage = ""
        self._order: Optional[Order] = None
        self._share: Optional[Share] = None
        #: The share of the last batch, and whether its step was applied.
        self._last_share: Optional[Share] = None
        self._ahead_now: Optional[Callable[[], Iterator[Share]]] = None
        self._applied = False
        #: Set at rank 0 after a step: the state may be saved before the next one.
        self._saves = False
        self._calls = Calls()
        #: The data set that remote loaders read.
        self._loaded: Any = None
        self._remote: Optional[Remote] = None
        membership = self._membership
        self._busy = (
            Busy(membership.show_busy, self._let_go) if isinstance(membership, Regroup) else None
        )
        self._stuck = Stuck(lambda: self._closed.on and not (self._busy and self._busy.on))
        self._loss: Optional[float] = None
        self._said_not_finite = False
        self._last_step = 0.0
        self._step_seconds = 0.0
        self._batch_began = 0.0
        #: Seconds that this member took for the first step of a group that broke meanwhile.
        self._lost_seconds = 0.0

    # State of the training, for the program.

    @property
    def rank(self) -> int:
        """This member's place in the present group, or in the last one."""
        return self._rank

    @property
    def world_size(self) -> int:
        """How many members the present group has, or the last one had."""
        return self._span.world_size

    @property
    def local_rank(self) -> int:
        """This member's place among the workers of its node."""
        return self._worker.rank

    @property
    def nodes(self) -> int:
        """How many nodes the present group has, or the last one had."""
        return max(1, self._span.world_size // self._worker.count)

    @property
    def device(self) -> torch.device:
        """This member's device, see :func:`lacuna.device`."""
        return self._worker.device

    @property
    def steps_done(self) -> int:
        """Optimiser steps since the trainer's beginning."""
        return self._position.step

    @property
    def samples(self) -> int:
        """Samples used since the trainer's beginning, by all members.

        With ``adascale`` and ``adamscale``, what they are worth in samples of the user's batch.
        """
        return self._position.samples

    @property
    def share(self) -> Optional[Share]:
        """This member's part of the present batch; None outside of one."""
        return self._share

    @property
    def coming(self) -> Optional[torch.Tensor]:
        """The indices of this member's next batch, if no member comes or goes before it."""
        if self._share is None or self._ahead_now is None:
            return None
        shares = self._ahead_now()
        next(shares, None)
        share = next(shares, None)
        return None if share is None else share.indices

    @property
    def progress(self) -> float:
        """Steps of the user's batch that training is worth; differs from :attr:`steps_done` with
        ``adascale`` and ``adamscale``."""
        learning = self._learning
        return learning.progress if learning.counts_progress else float(self.steps_done)

    @property
    def batch(self) -> int:
        """Samples of a step of the whole group, for the present members."""
        return self._learning.batch(self.nodes)

    @property
    def noise(self) -> Optional[Scale]:
        """The noise scale of the gradient, once it is known: see :mod:`lacuna.noise`."""
        return self._learning.scale()

    @property
    def shares_by_speed(self) -> tuple[int, ...]:
        """Weights of the members' shares with ``balance``; empty while they are even."""
        return self._learning.weights

    @property
    def epoch(self) -> int:
        """Epochs completed."""
        return self._position.epoch

    @property
    def epoch_ended(self) -> bool:
        """Whether the last step was applied and the last one of its epoch."""
        return self._applied and self._position.offset == 0

    @property
    def loss(self) -> Optional[float]:
        """Mean loss of the last step over the whole group's batch."""
        return self._loss

    @property
    def run_id(self) -> int:
        """Number of the present run; 0 outside of ``regroup``."""
        return self._span.run

    @property
    def stalls(self) -> Optional[dict[str, Any]]:
        """At rank 0, the times of the newest steps of this group, see :mod:`lacuna.moments`."""
        return self._moments.report()

    @property
    def loaders(self) -> int:
        """Processes on other nodes that prepare batches for this member now."""
        return 0 if self._remote is None else self._remote.loaders

    @property
    def leaving(self) -> bool:
        """Whether this member must leave: long work of the program may look at it, and end."""
        return self._link.leaving is not None

    @property
    def checkpoint_failures(self) -> int:
        """Checkpoints that could not be written here."""
        return self._saver.failures

    # The loop.

    def __enter__(self) -> "Elastic":
        self._link.idle = True
        self._closed.begin()
        self._link.start()
        if self._busy is not None:
            self._busy.start()
        self._stuck.start()
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        wrong: Optional[str] = None
        if error is None:
            if self._departing is not None:
                self._leave(save=self._departing)
            wrong = self._left_alone() if self._closed.looped else misuse.NO_LOOP
            if wrong is None:
                self._finish()
        if self._group is not None:
            # Peers see at once that this member is gone.
            self._group.close()
            self._group = None
        self._closed.close()
        self._gradients.close()
        self._saver.settle()
        if self._busy is not None:
            self._busy.close()
        self._stuck.close()
        is_done = error is None and wrong is None
        if is_done:
            _done.append(self._span.run)
            self._reporter.done(self._span, self._position)
        self._link.part(done=is_done)
        if wrong is not None:
            raise RuntimeError(wrong)

    def steps(
        self,
        data: Any,
        *,
        epochs: Optional[int] = None,
        shuffle: Optional[bool] = None,
        collate: Optional[Callable[[list[Any]], Any]] = None,
    ) -> Iterator[Any]:
        """This member's part of each batch, until ``epochs`` or all of Lacuna's samples are done.

        ``epochs`` counts from the beginning of the training, over restarts: one loop has them all,
        and :attr:`epoch_ended` says where one ends. Each batch needs one call of :meth:`step`.
        Lines of the program that :meth:`step` does in their place, or that change gradients before
        it, are a RuntimeError that shows the line to write (:mod:`lacuna.misuse`).

        ``data``: a tensor, a tuple of tensors of the same length, or anything with a length and
        items (a ``Dataset``), put together by ``collate`` (default: PyTorch's). Or a
        ``DataLoader``, whose data set, functions, workers and pinned memory are used; the order and
        the shares of the samples are Lacuna's. Workers read ahead, over changes of members too.
        ``shuffle``: default True; that of a DataLoader.

        An ``IterableDataset`` must give the same stream at every member: sample n is the n-th that
        comes. Every member reads all of it and uses its own part. One that joins or resumes reads
        what was used before, unless the data set has ``starting_at(n)``, an iterator from sample
        n on. ``set_epoch`` is called if there is one.

        Raises ValueError or TypeError for data that cannot be used so, and RuntimeError with the
        program's own traceback for a sample that cannot be read, and for a second loop whose epochs
        the first one has done.
        """
        self._may_begin(epochs)
        self._closed.loop()
        seed = self._settings.seed if self._settings.reseed else None
        policy = self._update.policy
        join = serving.wanted()
        if join is not None:
            serving.serve(data, collate, seed, join)
        feed, shuffled = source(data, collate, policy, shuffle, seed)
        if feed.length is None and self._node.count > 1:
            feed.close()
            raise ValueError(
                "a sharded model needs samples at all workers of a node in each step, and a stream "
                "without a length may end at some of them: give its data set a __len__"
            )
        if feed.length is None and self._learning.balances:
            feed.close()
            raise ValueError(
                "shares by speed need data with a length, as every member reads all of a stream: "
                "leave balance out, or give the data set a __len__"
            )
        order = Order(feed.length, self._settings.seed, shuffled)
        self._data = mark(data)
        return self._batches(self._with_loaders(feed), order, epochs)

    def _with_loaders(self, feed: Source) -> Source:
        """The same batches, also prepared on other nodes, if the program asks for that.

        Loaders read the data set with which the program trains first.
        """
        file, member = self._settings.loaders, self._membership
        if file is None or not isinstance(feed, Feed) or feed.is_stream:
            return feed
        if not isinstance(member, Regroup) or self._node.count > 1:
            log.warning(
                "remote loaders need the launcher regroup, and a model that is not sharded: "
                "%s is not used",
                file,
            )
            return feed
        if self._loaded is None:
            self._loaded = feed.data
        folder = os.environ.get("LACUNA_CHECKPOINT_DIR")
        if folder and os.path.dirname(file) == folder:
            os.makedirs(folder, exist_ok=True)
        if self._loaded is not feed.data:
            log.warning("loaders read the first data set alone, and this is another one")
            return feed
        seed = self._settings.seed if self._settings.reseed else None
        self._remote = Remote(feed, seed, member.trainer, lambda: self._link.newest, file)
        return self._remote

    def shares(
        self, length: int, *, epochs: Optional[int] = None, shuffle: bool = True
    ) -> Iterator[torch.Tensor]:
        """Like :meth:`steps`, but gives the indices (int64) of this member's samples."""
        self._may_begin(epochs)
        self._closed.loop()
        order = Order(length, self._settings.seed, shuffle)
        return self._batches(Indices(length), order, epochs)

    def _may_begin(self, epochs: Optional[int]) -> None:
        """Raises RuntimeError for a loop that cannot give a batch, or is within another's."""
        if self._in_loop:
            raise RuntimeError(misuse.WITHIN)
        if epochs is not None and self._ended is not None and epochs <= self._ended:
            raise RuntimeError(misuse.all_done(epochs))

    def _batches(self, feed: Source, order: Order, epochs: Optional[int]) -> Iterator[Any]:
        self._order = order
        self._in_loop = True
        self._moments.reads(feed.loading)
        # A share, and what was read for it: that is kept if the group was let go meanwhile.
        ready: Optional[tuple[Share, Share, Any]] = None
        try:
            while True:
                self._moments.asked()
                self._stuck.asked()
                if self._saves:
                    # What the program does after a step belongs to the state of that step.
                    self._saves = False
                    self._saver.if_due(self._position.step, self._state)
                if self._lost():
                    self._regroup()
                ahead = self._ahead(order, epochs)
                enough = self._has_enough(order, epochs)
                wanted, self._ahead_now = None if enough else next(ahead(), None), ahead
                if wanted is None:
                    if epochs is not None and (enough or self._position.epoch >= epochs):
                        before = _ended.get(self._parts.model, 0)
                        if epochs <= before and self._last_share is None:
                            # A checkpoint of this process's own block before has done them.
                            raise RuntimeError(misuse.all_done(epochs))
                        self._ended = max(epochs, self._ended or 0)
                        _ended[self._parts.model] = max(self._ended, before)
                    self._finish()
                    return
                if ready is None or not ready[0].is_same(wanted):
                    # Samples may come slowly: the others wait for them.
                    with self.busy():
                        ready = (wanted, *feed.take(wanted, ahead))
                if self._lost():
                    continue
                self._moments.reads(feed.loading)
                self._moments.got(feed.reading)
                (_, share, batch), ready = ready, None
                order.reached(share)
                self._share = self._last_share = share
                self._batch_began = time.monotonic()
                self._accumulation = None
                self._turns.batch()
                self._begin(share)
                if self._settings.reseed:
                    reseed(self._settings.seed, self._position.step, self._rank)
                if share.indices.numel() == 0:
                    self._moments.dropped()
                    self._gradients.forget()
                    self.step()
                else:
                    parts = self._parts_of(share, batch)
                    with self._closed.program(share.count):
                        yield parts[0]
                    if len(parts) > 1 and self._share is None and self._halves is not None:
                        self._share = share
                        with self._closed.program(share.count):
                            yield parts[1]
                if self._share is not None:
                    raise RuntimeError(misuse.TURNS_LEFT if self._turns.before else misuse.ONE_CALL)
        finally:
            self._share = None
            self._in_loop = False
            feed.close()

    def _begin(self, share: Share, again: bool = False) -> None:
        """The gradients of a step begin, or ``again`` those of the next turn of it."""
        self._gradients.begin(
            self._group if self.world_size > 1 else None,
            0.0 if share.lent else share.indices.numel() / share.batch,
            *self._learning.norms(self._gradients, self._position.step),
            late=self._turns.used,
            again=again,
        )

    def _has_enough(self, order: Order, epochs: Optional[int]) -> bool:
        """Whether progress has come to the end, where it does not count in epochs of samples."""
        if epochs is None or not self._learning.counts_progress or order.length is None:
            return False
        steps = math.ceil(order.length / reference(self._update.policy))
        return self._learning.progress >= epochs * steps - 1e-9

    def _parts_of(self, share: Share, batch: Any) -> tuple[Any, ...]:
        """The batch, or two halves of it whose gradients are compared."""
        self._halves = None
        if self.world_size > 1 or not self._learning.is_due_alone(self._position.step, share):
            return (batch,)
        both = halves(batch, share.batch)
        if both is None:
            return (batch,)
        self._halves = Halves(self._gradients.parameters, share.batch)
        return tuple(both)

    def _ahead(self, order: Order, epochs: Optional[int]) -> Callable[[], Iterator[Share]]:
        """What gives the coming shares, if no member changes from here on."""
        at, rank, world_size = replace(self._position), self._rank, self.world_size
        batch, weights = self._learning.batch(self.nodes), self._learning.weights
        lend = self._lends(order)
        # A node with one model has shares alike; reading cuts a stream.
        is_even = self._node.count > 1 or self._learning.balances or order.is_stream
        if self._learning.counts_progress:
            epochs = None
        return lambda: order.ahead(
            *(at, rank, world_size, batch),
            epochs=epochs,
            total=self._total,
            lend=lend,
            weights=weights,
            tries=not is_even,
        )

    def _lends(self, order: Order) -> bool:
        """Whether a member without samples of a step gets one, with the weight zero.

        So the program's lines after a step run at all members alike, and FSDP's passes meet. Only
        reading finds the end of a stream, so its last members may have none.
        """
        return not order.is_stream

    def _lost(self) -> bool:
        """Whether there is no group, here or at a worker with another shard of the model."""
        if not self._node.any(self._group is None):
            return False
        if self._let_go():
            self._meet_again()
        return True

    # Several backward passes of one step.

    def parts(self, batch: Any, size: int) -> Iterator[Any]:
        """A batch in parts of at most ``size`` samples: accumulation of gradients.

        ``for x, y in run.parts(batch, 16): run.backward(loss_of(model(x), y))``, then
        ``run.step()``. Parts are as even as can be, and :meth:`backward` weighs each by its
        samples, so the step is that of the whole batch. A batch is made of tensors with one row
        for each sample, and lists of as many things, in dicts, lists and tuples.

        Raises TypeError for another batch, RuntimeError outside of a batch of :meth:`steps`.
        """
        share = self._share
        if share is None:
            raise RuntimeError("run.parts() belongs to a batch of run.steps()")
        if size < 1:
            raise ValueError(f"a part needs at least one sample, not {size}")
        least = 0
        if self._node.count > 1:
            # FSDP's passes need all workers of a node.
            least = -(-max(share.counts) // size)
        elif self._position.step in TRIED and self.world_size == 1:
            # Parts of other sizes show what a loss is divided by, as shares do.
            least = min(-(-share.count // size) + 1, share.count)
        return self._accumulated().parts(batch, size, least)

    def backward(self, loss: torch.Tensor, weight: Optional[float] = None) -> None:
        """In place of ``loss.backward()``, where several passes add up to one step.

        ``loss``: the mean over the samples of a part of :meth:`parts`, by whose samples it counts;
        or with ``weight`` the mean over any samples, of which that is the part of the batch.
        Otherwise it counts whole: several losses of one batch add up. It is scaled by ``scaler``.
        ``run.step()`` without a loss follows.

        Raises RuntimeError outside of a batch of :meth:`steps`.
        """
        share = self._share
        if share is None:
            raise RuntimeError("run.backward(loss) belongs to a batch of run.steps()")
        sum_of, marks, scaler = self._accumulated(), self._gradients.marks, self._parts.scaler
        why = losses.why_not_a_mean(loss) if marks.thorough else None
        divisor = losses.divisor(loss) if marks.thorough and sum_of.passes else None
        if divisor is not None and divisor > 1.0:
            # The parts of one process. Those of a member follow the members, and a factor does not.
            whole = reference(self._update.policy) / sum_of.size
            why = misuse.divided(divisor) if divisor in (whole, math.ceil(whole)) else why
        if why is not None:
            raise RuntimeError(why)
        part, given = sum_of.weight if weight is None else weight, loss
        loss = loss if part == 1.0 else torch.mul(loss, part)
        sum_of.add(loss)
        marks.weighed = True
        try:
            with self._closed.part(given, part):
                (loss if scaler is None else scaler.scale(loss)).backward()
        finally:
            marks.weighed = False

    def _accumulated(self) -> Accumulation:
        if self._accumulation is None:
            self._accumulation = Accumulation()
        return self._accumulation

    def _whole_loss(self, loss: Union[None, torch.Tensor, float]) -> Any:
        """The loss of all passes of this step. Raises RuntimeError if they do not fit together."""
        sum_of, self._accumulation = self._accumulation, None
        if sum_of is None:
            return loss
        if self._gradients.marks.bare:
            raise RuntimeError(misuse.BARE)
        if sum_of.left > 0 or sum_of.loss is None:
            raise RuntimeError(misuse.PARTS_LEFT)
        if loss is not None:
            raise RuntimeError(misuse.TWO_LOSSES)
        return sum_of.loss

    # Between steps.

    @contextmanager
    def busy(self, limit: float = 3600.0) -> Iterator[None]:
        """Around long work of one member or of several, as validation or saving on rank 0.

        ``with run.busy(): ...``. The others wait for this member, and its silence breaks no group.
        Half of ``timeout`` after the last step the group is let go. It meets again at the next
        batch; a step that others had begun is done again. Changes of members go on meanwhile. After
        ``limit`` seconds the others count this member as silent. Under torchrun the group stays, so
        ``timeout`` (at least 30 s there) must be longer than the work.
        """
        if self._busy is None:
            yield
            return
        silence = max(self._settings.timeout, 4.0 * self._step_seconds)
        # The others may have waited since the last step.
        waited = time.monotonic() - self._last_step if self._last_step > 0.0 else 0.0
        self._busy.begin(max(0.0, silence / 2.0 - waited), limit)
        try:
            yield
        finally:
            if self._busy.end():
                self._meet_again()

    def barrier(self) -> None:
        """Waits until all members have come here, after the same step.

        Members that leave or die meanwhile are not waited for. Raises RuntimeError before the first
        batch.
        """
        self._gather(None)

    def reduce(
        self,
        values: Mapping[str, Union[float, torch.Tensor]],
        how: How = "mean",
        weight: Optional[float] = None,
    ) -> dict[str, float]:
        """Numbers of all members in one, the same at every member: mean, sum, min or max.

        All members call it after the same step, with the same names. Means are weighted by
        ``weight`` (default: the samples of the member's last batch). A member that leaves or dies
        before it has called is left out. After a step that was not applied, it gives this
        member's own values. It costs some milliseconds: the members meet in the store.

        Raises ValueError if members gave different names, and RuntimeError before the first batch.
        """
        share = self._last_share
        weight = share.count if weight is None and share is not None else weight
        mine: Any = [weight, numbers(values)]
        if share is not None and share.lent and self._applied and self.world_size > 1:
            # Its samples are another member's, which gives numbers of them too.
            mine = None
        return merged(self._gather(mine), how)

    def best(
        self, name: str, found: Union[float, torch.Tensor, Mapping[str, Any]], mode: Mode = "max"
    ) -> bool:
        """Whether a number is the best one so far, the same at all members.

        ``if run.best("right", found) and run.rank == 0: torch.save(...)``. ``found``: what
        :meth:`evaluate` or :meth:`reduce` gave, of which this is the entry ``name``, or a number.
        ``mode``: ``max``, or ``min`` as for a loss. All members call it after the same step. The
        best belongs to the training's state: it is saved, and members that join get it.

        Raises ValueError at each member if they gave different numbers, and for what is no number.
        """
        if mode not in ("max", "min"):
            raise ValueError(f"mode must be max or min, not {mode!r}")
        if isinstance(found, Mapping) and name not in found:
            raise ValueError(f"there is no {name!r} among {', '.join(map(repr, found)) or 'none'}")
        number = numbers({name: found[name] if isinstance(found, Mapping) else found})[name]
        number = same(f"run.best({name!r})", self._gather(number))
        return self._bests.is_new(name, number, mode, self._position.step)

    @property
    def bests(self) -> dict[str, float]:
        """The best numbers so far, by the names given to :meth:`best`."""
        return self._bests.values

    def evaluate(
        self,
        data: Any,
        judge: Callable[[Any], Mapping[str, Union[float, torch.Tensor]]],
        *,
        collate: Optional[Callable[[list[Any]], Any]] = None,
    ) -> dict[str, float]:
        """Means over all samples of ``data``, of which each member judges a part.

        All members call it after the same step. ``judge`` gives the means of one batch by name,
        without gradients and with the model in its mode of evaluation. ``data`` is as for
        :meth:`steps`, with a length; a batch has the ``batch_size`` of a DataLoader, else that of
        the training. Each sample is judged once: the part of a member that leaves or dies is done
        by another one. Every member gets the same result.

        Raises ValueError for data without samples, RuntimeError before the first batch, and for a
        sharded model: its workers would have to judge in step.
        """
        if self._node.count > 1:
            raise RuntimeError(
                "run.evaluate() needs the whole model at each member, and this one is sharded: let "
                "all workers of a node judge the same number of batches in a loop of your own, and "
                "give their numbers to run.reduce()"
            )
        known = self._known()
        if known is not None:
            return merged(known, "mean")
        place = self._place()
        seed = self._settings.seed if self._settings.reseed else None
        feed, size = whole(data, collate, self._update.policy, seed)
        model = self._parts.model
        training = model.training

        def part(number: int) -> Any:
            return means(feed, size, number, place.world_size, judge)

        model.eval()
        try:
            with torch.no_grad(), self.busy():
                parts = self._calls.gather(place, self._position.step, part(place.rank), part)
        finally:
            feed.close()
            model.train(training)
        return merged(parts, "mean")

    def _gather(self, mine: Any) -> list[Any]:
        """The parts of all members, by rank; None for those that did not come."""
        known = self._known()
        if known is not None:
            return known
        place = self._place()
        with self.busy():
            return self._calls.gather(place, self._position.step, mine)

    def _all_of(self, mine: Any) -> list[Any]:
        """The same of all members, in the midst of a step that is not applied."""
        with self.busy():
            return self._calls.gather(self._membership.place(), -2 - self._position.step, mine)

    def _known(self) -> Optional[list[Any]]:
        """The result of a call that was made after this step already: the next one failed."""
        return None if self._applied else self._calls.known()

    def _place(self) -> Place:
        """Where the members meet that have applied the last step."""
        share, order = self._last_share, self._order
        if share is None or order is None or self._share is not None:
            raise RuntimeError("calls of all members belong behind run.step(), in run.steps()")
        if not self._applied:
            # The others are at another step, or will do this one again.
            return Alone().place()
        place = self._membership.place()
        lends = self._lends(order)

        def absent(store: Any, rank: int) -> bool:
            # A member without a share of the step has not come to the program's code.
            begin, end = share.cut(rank)
            return (begin == end and not lends) or place.absent(store, rank)

        return replace(place, absent=absent)

    def _let_go(self) -> bool:
        """Closes the connections to the others, from the thread of :class:`Busy`."""
        group = self._group
        if group is None or group.world_size == 1:
            return False
        group.close()
        return True

    def _meet_again(self) -> None:
        """The group was let go while this member was busy; the next batch forms it again."""
        log.info("run %d was let go at step %d: busy", self._span.run, self._position.step)
        self._group = None
        self._last_step = 0.0
        if isinstance(self._membership, Regroup):
            self._membership.let_go()
        self._report(last=True)

    def step(
        self,
        loss: Optional[Union[torch.Tensor, float]] = None,
        optimizer: Optional[torch.optim.Optimizer] = None,
    ) -> bool:
        """In place of ``optimizer.step()``, after the last ``backward()`` of the step.

        ``optimizer``: steps this one alone, where several take turns on a batch, as a GAN's. The
        turn of the last one in the list of :func:`elastic` ends the batch, or ``run.step()``.

        ``loss`` must be the mean over this member's samples; where several backward passes add up
        to a step, their losses add up to it; after :meth:`backward` there is none. True if the step
        was applied; False if the same samples come again, because the group broke or a gradient was
        sent too early.

        Raises ValueError for an optimiser that is not the run's. Raises RuntimeError for a batch
        that had its call, for gradients or a scheduler that the program changed before it, for a
        loss that is no mean or brought no gradient, and where members differ in what they must have
        alike: rates of learning, numbers in a :class:`lacuna.Value`, :attr:`bests`, weights.
        """
        share, group, order = self._share, self._group, self._order
        if share is None or order is None:
            raise RuntimeError(misuse.NO_BATCH)
        turns = self._turns
        turn = turns.place(optimizer)
        ends, stepped = turns.ends(turn), turns.stepped(turn)
        if not ends:
            if order.is_stream or self._learning.active or self._node.count > 1:
                raise ValueError(misuse.NO_TURNS)
            turns.used = True
        loss = self._whole_loss(loss)
        if turns.before > 0 and turn is None and loss is not None:
            raise RuntimeError(misuse.TURNS_END)
        self._closed.check(loss, self.world_size)
        self._gradients.marks.look(loss, turn)
        self._gradients.marks.check()
        self._share, self._applied = None if ends else share, False
        if turns.broken or (not ends and turns.before < self._position.turn):
            return self._pass_over(share, ends)
        leaving = ends and self._link.leaving is not None
        value = float(loss.detach()) if isinstance(loss, torch.Tensor) else loss
        turns.loss = value = turns.loss if value is None else value
        took, learning = time.monotonic() - self._batch_began, self._learning
        if self._halves is not None:
            if self._halves.keep(value):
                # The other half comes next; the step is applied with both.
                return False
            norm = learning.norms_of(self._gradients).of_gradients
            value, local, whole = self._halves.join(value, norm)
            learning.alone(self._halves.shares, local, whole)
            self._halves = None
        more = learning.numbers(self._rank, self.world_size, took)
        is_due = alike.is_due(self._position.step)
        common = alike.common(self._parts, self._bests.values, is_due, turn)
        common_mark = alike.mark(common) if self._lends(order) else 0.0
        weights, parameters = [], self._gradients.parameters
        if self._node.count == 1 and self._lends(order) and is_due:
            weights = alike.places(parameters)
        place, size = alike.place(weights)
        flags = float(ends and self._membership.moving()), float(leaving)
        vote = Vote(*flags, value, more=more, mark=common_mark, place=place)
        if self.world_size > 1:
            watch = self._membership.watch(self._step_seconds)
            agreed, failure = self._gradients.finish(vote, watch)
            if agreed is None or agreed.too_early > 0.0:
                self._moments.dropped()
            if agreed is None or group is None:
                turns.broken = True
                self._gradients.undo()
                self._calls.repeat()
                if group is None:
                    # It was let go: the program was busy between the batch and here.
                    return False
                if self._last_step == 0.0:
                    # Perhaps the others did not wait long enough for this member.
                    self._lost_seconds = took
                self._broke(failure)
                return False
            if agreed.too_early > 0.0:
                step = self._position.step + 1
                log.info("step %d is done again: more gradients came than before", step)
                turns.broken = True
                self._gradients.undo()
                self._calls.repeat()
                return False
            vote = agreed
            if not vote.is_common(self.world_size):
                raise RuntimeError(alike.differences(self._all_of(common)))
            if not vote.is_together(self.world_size, alike.APART * size):
                raise RuntimeError(alike.apart(self._all_of(weights), self._gradients.names))
            learning.agreed(share, vote.more, vote.squares, self._gradients.measured)
        else:
            self._moments.summed()
        assert group is not None
        now = time.monotonic()
        period = now - self._last_step if self._last_step > 0.0 else None
        if self.world_size == 1:
            learning.timed(share, took, period)
        self._applied = ends
        self._membership.stepped()
        self._lost_seconds = 0.0
        self._look_at(vote.loss)
        factor, ticks, worth = learning.applies(share) if ends else (None, 0, None)
        with self._closed.lifted():
            self._update.apply(self.nodes, stepped, factor, ticks)
        self._gradients.marks.applied()
        if not ends:
            turns.before += 1
            self._position.turn = turns.before
            self._begin(share, again=True)
            return True
        self._moments.updated()
        self._position.advance(share.batch, order.length, worth)
        learning.after(self._rank, self._gradients, period, self.world_size)
        self._loss = vote.loss
        self._after(group, vote)
        return True

    def _pass_over(self, share: Share, ends: bool) -> bool:
        """A turn that was applied before, or whose batch comes again."""
        self._gradients.undo()
        if not ends:
            self._turns.before += 1
            self._begin(share, again=True)
        return not self._turns.broken

    def _look_at(self, loss: Optional[float]) -> None:
        """Says once that the loss is not finite; that breaks no group, and is the user's to end."""
        if loss is None or math.isfinite(loss) or self._said_not_finite:
            return
        self._said_not_finite = True
        names = self._gradients.not_finite()
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        log.warning(
            "the loss of step %d is %s; gradients that are not finite: %s",
            self._position.step + 1,
            loss,
            ", ".join(names[:3]) + more or "none",
        )

    def _after(self, group: Group, vote: Vote) -> None:
        now = time.monotonic()
        if self._last_step > 0.0:
            # The longest recent step: forgotten slowly, learnt at once.
            self._step_seconds = max(now - self._last_step, 0.98 * self._step_seconds)
        self._last_step = now
        boundary = vote.moving > 0.0 or vote.leaving > 0.0
        if group.rank == 0:
            self._saves = True
            self._report(last=boundary)
        if not boundary:
            return
        here, everybody = self._membership.part(group, self._link.leaving is not None)
        self._group = None
        if here:
            # The program may still look at this step; it ends when it asks for the next batch.
            self._departing = everybody and group.rank == 0

    # Groups.

    def _card(self) -> Card:
        """The card of this member, which the others read before the group is built."""
        saved = None if self._has_state else self._saver.look()
        # The workers of a node look at different moments.
        seen = min(row[0] for row in self._node.gather(-1 if saved is None else saved.samples))
        length = 0 if self._order is None else self._order.identity[0]
        settings, policy = self._settings, self._update.policy.text()
        silence = max(4.0 * self._step_seconds, 2.0 * self._lost_seconds)
        return {
            "state": self._position.newness if self._has_state else None,
            "lineage": self._lineage,
            "saved": seen,
            "timeout": max(settings.timeout, silence),
            "data": self._data,
            "plan": f"{length}:{settings.seed}:{policy}:{self._gradients.plan}:{settings.backend}",
        }

    def _state(self) -> dict[str, Any]:
        """The whole state; its tensors are the model's own, no copies."""
        state = self._parts.take(self._position)
        state["arrivals"] = self._gradients.order
        order = self._order
        state["order"] = [] if order is None else order.identity
        if self._learning.active:
            state["learning"] = self._learning.state_dict()
        state["best"] = self._bests.state_dict()
        state["turns"] = self._turns.used
        return state

    def _put(self, state: dict[str, Any]) -> None:
        """Takes over a state. Raises RuntimeError if it belongs to another order of the data."""
        mine, theirs = self._state()["order"], state["order"]
        if mine != theirs:
            raise RuntimeError(
                f"the state was made with [samples, seed, shuffle] = {theirs}, this program has "
                f"{mine}: no sample could be counted once; use another checkpoint folder"
            )
        self._position = self._parts.put(state)
        self._gradients.order = state["arrivals"]
        # Checkpoints of earlier releases have none.
        self._bests.load_state_dict(state.get("best", {}))
        self._turns.used |= state.get("turns", False)
        if self._learning.active and "learning" in state:
            self._learning.load_state_dict(state["learning"])

    def _load(self, cards: list[Card], rank: int) -> None:
        """No member has state: the one with the newest checkpoint reads it."""
        if loader(cards) != rank:
            return
        state = self._saver.load()
        if state is not None:
            self._put(state)
        elif float(os.environ.get("LACUNA_SAMPLES_DONE") or 0) > 0:
            log.warning("no checkpoint is complete: training starts from the beginning")

    def _regroup(self) -> None:
        """Returns with a group whose members have the same state, or not at all."""
        if self._departing is not None:
            self._leave(save=self._departing)
        if self._link.idle and not self._has_state:
            self._link.say({"say": "ready"})
        self._link.idle = False
        while self._group is None:
            formed = self._membership.form(self._card, self._load)
            if formed is None:
                # Perhaps all others leave as well, one after the other: nothing may be lost.
                self._leave(save=self._has_state)
                return
            failure = self._agree(formed)
            if failure is not None:
                log.info("run %d: %s", formed.run, failure)
                formed.group.close()
                self._membership.broke()
                continue
            group, node = formed.group, self._node
            self._group = group
            self._span = Span(formed.run, group.world_size * node.count, self._position.samples)
            self._rank = group.rank * node.count + node.rank
            self._moments.formed(self._span.world_size, self._rank)
            self._last_step = 0.0
            self._learning.new_group(self.world_size)
            if group.rank == 0:
                self._saver.new_group(self._position.step)
            self._report(last=True)

    def _agree(self, formed: Formed) -> Optional[str]:
        """Brings all members to the newest state; the reason if the group broke meanwhile."""
        group, cards = formed.group, formed.cards
        held = newest(cards)
        source = loader(cards) if held is None else held
        if cards[source]["plan"] != cards[group.rank]["plan"]:
            raise RuntimeError(
                f"this member's length:seed:batch:model:backend is {cards[group.rank]['plan']}, "
                f"that of the group is {cards[source]['plan']}"
            )
        # Where a group trains, one that joins with other data leaves it alone.
        with_me = cards if held is None else [cards[source], cards[group.rank]]
        if len({card["data"] for card in with_me}) > 1:
            raise RuntimeError(misuse.OTHER_DATA)
        same = [(card["state"], card["lineage"]) for card in cards]
        mine = group.rank == source
        state: Optional[dict[str, Any]] = None
        failure: Optional[str] = None
        if held is None or any(one != same[source] for one in same):
            watch = self._membership.watch(self._step_seconds)
            state, failure = broadcast(group, source, self._state() if mine else None, watch)
        new = state if not mine and (held is None or same[group.rank] != same[source]) else None
        step = self._position.step if new is None else new["position"]["step"]
        rows = self._node.gather(float(failure is None), step)
        if rows != [(1.0, step)] * self._node.count:
            return failure or "another worker of this node has not received the state"
        if new is not None:
            self._put(new)
        self._has_state = True
        self._lineage = formed.name
        return None

    def _broke(self, reason: str) -> None:
        """The group lost a member in the middle of a step, which was not applied here."""
        group, self._group = self._group, None
        if group is None:
            return
        log.info("run %d broke at step %d: %s", self._span.run, self._position.step, reason)
        group.close()
        self._membership.broke()
        self._report(last=True)
        if self._membership.kind == "torchrun":
            self._rescue(group.rank)
        self._last_step = 0.0

    def _rescue(self, rank: int) -> None:
        """Torchrun restarts all processes: a member that still has the state saves it."""
        self._saver.last(rank, self._position.samples, self._state)
        self._link.flush()
        leave_now(1)

    # Ends.

    def _report(self, last: bool = False) -> None:
        if self._rank == 0:
            saved, stalls = self._saver.newest, self._moments
            self._reporter.report(
                *(self._span, self._position, self._loss, saved, stalls, last),
                worth=lambda: self._learning.report(self.batch),
            )

    def _left_alone(self) -> Optional[str]:
        """The error if the program has left the loop at another step than the other members."""
        if self._group is None or self.world_size == 1:
            return None
        mine = self._position.step
        # A member that goes on ends its group when it has waited for this one.
        steps = self._calls.gather(self._membership.place(), -1, mine)
        goes_on = self._membership.goes_on
        others = [
            (rank, step)
            for rank, step in enumerate(steps)
            if step != mine and (step is not None or goes_on(rank))
        ]
        return misuse.left_alone(mine, others) if others else None

    def _finish(self) -> None:
        """The program's own end: saves the state, and sends the last report."""
        group, self._group = self._group, None
        if group is None:
            return
        together = self._node.all(group.part())
        if group.rank == 0 or not together:
            place = 0 if group.rank == 0 else self._worker.rank
            self._saver.last(place, self._position.samples, self._state)
        self._node.part()
        self._report(last=True)
        self._link.flush()
        self._link.idle = True

    def _leave(self, save: bool) -> None:
        """Ends the process on request."""
        if save:
            self._saver.last(self._worker.rank, self._position.samples, self._state)
            self._report(last=True)
        self._node.part()
        self._link.flush()
        leave_now()
