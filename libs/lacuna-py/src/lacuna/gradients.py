"""Gradients of all members, averaged while the backward pass runs, and the common decisions.

A member's gradient is the mean over its own share. It is weighted by the share's part of the
step, so that the sum over members is the mean over the whole batch. Hooks put gradients into
buckets as they arrive, and launch the sum of each bucket that is full.

All members launch the same buckets in the same order: a bucket waits for those before it, and
:meth:`Gradients.finish` launches what is left, full or not. So neither a parameter that a pass
does not reach nor a member without samples blocks the others. The order is that in which rank 0's
gradients arrived once, and belongs to the training state.

Last comes one small message on the CPU with sums of decisions: members that know of a newer run,
that must leave, that sent a gradient too early; the loss; the squared norm of gradients where a
step is measured; the parameters with a gradient; running averages; and each member's times of the
step before (:mod:`lacuna.moments`). So all members decide alike at the same step.

Of a sharded model FSDP has added up the gradients of a node's workers already, weighted alike. Each
worker sums its shard with those of its place at other nodes, and the workers of a node add up
the last messages of their places.
"""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass
from functools import partial
from typing import Any, Callable, Optional, Sequence

import torch
from torch import nn

from .arrivals import Arrivals
from .buckets import Buckets, wire_type
from .group import Group, Watch
from .marks import Marks
from .norms import Norms, added
from .part import Part, Step
from .sharding import Node, local
from .timing import Timing

#: Numbers before those of the parameters in the last message.
_MOVING, _LEAVING, _TOO_EARLY, _LOSS, _WEIGHT, _SQUARES = range(6)
_HEAD = 6

_NORMS = (
    nn.BatchNorm1d,
    nn.BatchNorm2d,
    nn.BatchNorm3d,
    nn.SyncBatchNorm,
    nn.InstanceNorm1d,
    nn.InstanceNorm2d,
    nn.InstanceNorm3d,
)


@dataclass(frozen=True)
class Vote:
    """The flags and the loss of one member, or the sums over all members."""

    #: Members that know of a newer run.
    moving: float
    #: Members that must leave.
    leaving: float
    #: Mean loss of the step; None if the program gave none.
    loss: Optional[float]
    #: Members that sent a gradient to which a later backward pass added: the step is invalid.
    too_early: float = 0.0
    #: Further numbers, as many at every member (:class:`lacuna.learning.Learning`).
    more: tuple[float, ...] = ()
    #: Of all members: the squared norms of their gradients by their part of the batch.
    squares: float = 0.0


class Gradients(Part):
    """The gradients of some optimisers, and the running averages of batch normalisation.

    ``wire``: the type of the messages, None for that of the parameters. ``node``: the workers that
    share the model. ``timing``: gets the times of sums. ``others``: modules that may have
    parameters of these optimisers too.
    """

    name = "arrivals"

    def __init__(
        self,
        model: nn.Module,
        optimizers: Sequence[torch.optim.Optimizer],
        wire: Optional[torch.dtype] = None,
        node: Optional[Node] = None,
        timing: Optional[Timing] = None,
        others: Sequence[nn.Module] = (),
    ) -> None:
        self._node = node or Node()
        self._timing = timing or Timing(None, {"LACUNA_STALLS": "off"})
        self._optimizers = optimizers
        held = _held(optimizers)
        trained = {id(p) for p in held}
        beside = [one for one in others if any(id(p) in trained for p in one.parameters())]
        self._models = [model, *beside]
        self._names = {id(p): name for one in self._models for name, p in one.named_parameters()}
        self._count = len(held)
        held = list({id(p): p for p in held}.values())
        self._parameters = [p for p in held if p.requires_grad]
        self._frozen = [p for p in held if not p.requires_grad]
        if not self._parameters:
            raise ValueError("the model has no parameter that can be trained")
        self._wire = wire
        #: Places of parameters by the arrival of their gradients; None until a group has learnt it.
        self.order: Optional[list[int]] = None
        found = [average for one in self._models for average in _running_averages(one)]
        self._averages = list({id(average): average for average in found}.values())
        self._kept: list[torch.Tensor] = []
        self._arrivals = Arrivals(len(self._parameters))
        #: How the backward passes of this step left the gradients.
        self.marks = Marks(self._parameters, optimizers, self._name)
        self._buckets: Optional[Buckets] = None
        self._bucket_order: Optional[list[int]] = None
        #: Gradients that each bucket still waits for, and the bucket that is launched next.
        self._missing: list[int] = []
        self._next = 0
        #: Set while gradients are sent as they arrive.
        self._sums: Optional[Group] = None
        self._weight = self._of_node = 1.0
        #: The part of the weight that gradients do not have yet when they arrive.
        self._due = 1.0
        self._too_early = False
        self._late = False
        self._absent: list[int] = []
        #: Squared norms of the buckets of this step, if it is measured.
        self._norms: Optional[Norms] = None
        self._squares: list[torch.Tensor] = []
        #: Squared norm of the averaged gradient of the last measured step, at rank 0; of a sharded
        #: model that of this worker's part, at the first node.
        self.whole: Optional[float] = None
        # Several devices have a thread each in the backward pass.
        self._lock = threading.Lock()
        self._hooks = [_hook(p, partial(self._came, i)) for i, p in enumerate(self._parameters)]

    def close(self) -> None:
        """Takes the hooks off the parameters."""
        for handle in self._hooks:
            handle.remove()
        self._hooks.clear()

    @property
    def plan(self) -> str:
        """A text that is the same at members whose messages fit together."""
        shapes = [(tuple(p.shape), str(wire_type(p, self._wire))) for p in self._parameters]
        averages = sum(average.numel() for average in self._averages)
        times = self._timing.width
        return hashlib.sha256(repr((_HEAD, shapes, averages, times)).encode()).hexdigest()[:12]

    @property
    def parameters(self) -> Sequence[nn.Parameter]:
        """The parameters that are trained, by their place."""
        return self._parameters

    @property
    def names(self) -> list[str]:
        """Their names in the model."""
        return [self._name(place) for place in range(len(self._parameters))]

    @property
    def measured(self) -> bool:
        """Whether the squared norms of this step's gradients were taken."""
        return self._norms is not None

    # The part of a step.

    def before(self, step: Step) -> None:
        self._begin(step, again=False)

    def again(self, step: Step) -> None:
        """The gradients of the next turn of a step begin."""
        self._begin(step, again=True)

    def _begin(self, step: Step, again: bool) -> None:
        now, share, node = step.now, step.share, self._node
        mates = share.counts[now.rank - node.rank :][: node.count]
        self.begin(
            now.group if now.world_size > 1 else None,
            share.count / share.batch,
            *step.norms,
            of_node=sum(mates) / share.batch,
            late=step.late,
            again=again,
        )

    def called(self, step: Step) -> None:
        self.marks.look(step.loss, step.turn)
        self.marks.check()

    def after(self, step: Step) -> None:
        self.marks.applied()
        if not step.ends:
            self.again(step)

    def drop(self, step: Step) -> None:
        self.undo()

    def state_dict(self) -> Optional[list[int]]:
        return self.order

    def load_state_dict(self, state: Optional[list[int]]) -> None:
        self.order = state

    # Sums.

    def begin(
        self,
        sums: Optional[Group],
        weight: float,
        norms: Optional[Norms] = None,
        refresh: bool = False,
        *,
        of_node: Optional[float] = None,
        late: bool = False,
        again: bool = False,
    ) -> None:
        """Begins a step, or ``again`` a turn of it.

        Keeps what the forward pass changes, in case the step is repeated.

        ``sums``: the way to the other members, None if there are none. ``weight``: this member's
        part of the batch; ``of_node``: that of all workers with shards of its model, if there are
        others. ``norms``: measures the squared norms of the step's gradients; ``refresh``: with
        divisors of this moment. ``late``: sums begin in :meth:`finish` alone.
        Raises RuntimeError if an optimiser has been given more parameters.
        """
        if sum(len(g["params"]) for o in self._optimizers for g in o.param_groups) != self._count:
            raise RuntimeError(
                "an optimiser got more parameters after lacuna.elastic(), which members that join "
                "later would not have: add all of them before, with lr=0 until they are trained"
            )
        self.marks.begin(again)
        self._late = late
        self._kept = [average.clone() for average in self._averages]
        if sums is None:
            return
        self._due = self._node.weigh(weight)
        if self._buckets is None or self._bucket_order != self.order:
            order = self.order or list(reversed(range(len(self._parameters))))
            self._buckets = Buckets(self._parameters, order, self._wire)
            self._bucket_order = self.order
        self._buckets.begin()
        self._norms, self._squares, self.whole = None, [], None
        if norms is not None and (norms.ready(self._buckets) and not refresh):
            self._norms = norms
        elif norms is not None and norms.refresh(self._buckets):
            self._norms = norms
        self._arrivals.begin()
        self._missing = [0] * len(self._buckets.buckets)
        for place, bucket in enumerate(self._buckets.bucket_of):
            self._missing[bucket] += self._arrivals.awaited(place)
        self._next = 0
        self._timing.sums([b.flat.numel() * b.flat.element_size() for b in self._buckets.buckets])
        self._weight, self._of_node = weight, weight if of_node is None else of_node
        self._too_early = False
        self._sums = sums

    def undo(self) -> None:
        """Restores what :meth:`begin` has kept, and drops the gradients."""
        self._sums = None
        for average, kept in zip(self._averages, self._kept):
            average.copy_(kept)
        self.forget()

    def forget(self) -> None:
        """A member without a share of the step has no gradients."""
        for parameter in self._parameters:
            parameter.grad = None

    def _came(self, place: int, *_: Any) -> None:
        """The gradient of a parameter has arrived, perhaps for the last time in this step."""
        self.marks.came(place)
        sums, buckets = self._sums, self._buckets
        if sums is None or buckets is None:
            return
        with self._lock:
            if self._timing.on:
                sums.look()
            last = self._arrivals.came(place)
            if self.marks.thorough or self._late:
                # Sums would change what is compared, and turns have other gradients each.
                return
            if buckets.is_filled(place):
                self._too_early = True
            elif last:
                self._fill(buckets, place)
                self._missing[buckets.bucket_of[place]] -= 1
                while self._next < len(self._missing) and self._missing[self._next] == 0:
                    self._launch(sums, buckets)

    def _fill(self, buckets: Buckets, place: int) -> None:
        try:
            buckets.fill(place, self._due)
        except RuntimeError as error:
            raise RuntimeError(
                f"{self._name(place)} {error}: change the model before lacuna.elastic()"
            ) from None

    def _launch(self, sums: Group, buckets: Buckets) -> None:
        number = self._next
        bucket = buckets.buckets[number]
        self._next += 1
        for place in bucket.members:
            if not buckets.is_filled(place):
                self._fill(buckets, place)
                self.marks.moved(place)
        self._timing.launched(number)
        if bucket.flat.numel() > 0:
            if self._norms is not None:
                self._squares.append(self._norms.of_bucket(number, bucket.flat))
            sums.launch(bucket.flat, partial(self._timing.ended, number))
        else:
            self._timing.ended(number)

    def finish(self, vote: Vote, watch: Watch) -> tuple[Optional[Vote], str]:
        """Replaces the gradients by the mean over the group's batch.

        Returns the sums over members, or None and the reason if the group broke. In that case, and
        where a member sent a gradient too early, the gradients are invalid: :meth:`undo` follows.
        Raises RuntimeError if the model's parameters are not those of its optimisers any more.
        """
        sums, buckets = self._sums, self._buckets
        if sums is None or buckets is None:
            raise RuntimeError("finish() belongs to a begin() with other members")
        while self._next < len(buckets.buckets):
            self._launch(sums, buckets)
        self._sums = None
        last = self._last_message(vote, sums.rank == 0 and self._node.rank == 0)
        self._timing.launched(None)
        sums.launch(last, partial(self._timing.ended, None))
        failure = self._node.add(last, sums.wait(watch))
        self._timing.summed()
        if failure is not None:
            # Abandoned sums may still write into these.
            self._buckets = None
            return None, failure
        count, times = len(self._parameters), self._timing.numbers
        begin = _HEAD + len(vote.more)
        head = last[: begin + count].tolist()
        end = last.numel() - times
        if times > 0:
            self._timing.take(last[end:])
        loss = head[_LOSS] / head[_WEIGHT] if head[_WEIGHT] > 0.0 else None
        more = tuple(head[_HEAD:begin])
        flags = head[_MOVING], head[_LEAVING], loss, head[_TOO_EARLY]
        agreed = Vote(*flags, more, head[_SQUARES])
        self._arrivals.end(self._too_early)
        if agreed.too_early == 0.0:
            self._deliver(buckets, head[begin:], last[begin + count : end])
            if self._norms is not None and sums.rank == 0:
                flats = [bucket.flat for bucket in buckets.buckets]
                self.whole = added(
                    [self._norms.of_bucket(i, f) for i, f in enumerate(flats) if f.numel() > 0]
                )
        return agreed, ""

    def _last_message(self, vote: Vote, first: bool) -> torch.Tensor:
        numbers = [0.0] * _HEAD
        numbers[_MOVING], numbers[_LEAVING] = vote.moving, vote.leaving
        numbers[_TOO_EARLY] = float(self._too_early)
        if vote.loss is not None:
            numbers[_LOSS], numbers[_WEIGHT] = vote.loss * self._weight, self._weight
        if self._squares and self._of_node > 0.0:
            # A bucket holds the gradient times the member's part of the batch; of a sharded model
            # a part of that of the node.
            numbers[_SQUARES] = added(self._squares) / self._of_node
        numbers += vote.more
        numbers += [0.0 if p.grad is None else 1.0 for p in self._parameters]
        for parameter in self._frozen:
            if parameter.grad is not None:
                raise RuntimeError(
                    f"{self._names.get(id(parameter), 'a parameter')} did not require a gradient "
                    "at lacuna.elastic() and has one now: freeze parameters after that call"
                )
        if self.order is None:
            own = self._arrivals.order()
            numbers += [float(place) if first else 0.0 for place in own]
        parts = [torch.tensor(numbers, dtype=torch.float64)]
        for average in self._averages:
            parts.append(average.detach().reshape(-1).to("cpu", torch.float64) * self._weight)
        slots = self._timing.slots(8 * sum(part.numel() for part in parts))
        return torch.cat(parts if slots is None else [*parts, slots])

    def _deliver(self, buckets: Buckets, having: list[float], rest: torch.Tensor) -> None:
        """Takes the sums over: gradients, then the order if it was not known, then averages."""
        absent = [place for place, members in enumerate(having) if members == 0.0]
        for place, members in enumerate(having):
            if members > 0.0:
                buckets.deliver(place)
            else:
                # No member had one: the optimiser must skip it, as on one node.
                self._parameters[place].grad = None
        if absent != self._absent:
            self._look_for(absent)
            self._absent = absent
        if self.order is None:
            self.order = [int(place) for place in rest[: len(having)].tolist()]
            rest = rest[len(having) :]
        at = 0
        for average in self._averages:
            part = rest[at : at + average.numel()]
            average.copy_(part.view(average.shape))
            at += average.numel()

    def _look_for(self, absent: list[int]) -> None:
        """Parameters without any gradient must at least still be the model's."""
        present = {id(p) for one in self._models for p in one.parameters()}
        for place in absent:
            one = id(self._parameters[place])
            if one in self._names and one not in present:
                raise RuntimeError(
                    f"{self._name(place)} is not in the model any more, its optimiser trains what "
                    "nothing uses: change the model before lacuna.elastic()"
                )

    def not_finite(self) -> list[str]:
        """Names of parameters whose gradients hold NaN or infinity."""
        return [
            self._name(place)
            for place, p in enumerate(self._parameters)
            if p.grad is not None and not bool(torch.isfinite(local(p.grad)).all())
        ]

    def _name(self, place: int) -> str:
        name = self._names.get(id(self._parameters[place]))
        return f"parameter {place} of the optimisers" if name is None else f"parameter {name}"


def _held(optimizers: Sequence[torch.optim.Optimizer]) -> list[nn.Parameter]:
    return [p for o in optimizers for group in o.param_groups for p in group["params"]]


def _hook(parameter: nn.Parameter, came: Callable[..., None]) -> Any:
    """Calls a function whenever a gradient has been added to a parameter's; gives a handle."""
    if hasattr(parameter, "register_post_accumulate_grad_hook"):
        return parameter.register_post_accumulate_grad_hook(came)
    # Before PyTorch 2.1: the node that adds gradients is reached through any use of the
    # parameter, and lives as long as the handle does.
    with torch.enable_grad():
        node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
    return _NodeHook(node, node.register_hook(came))


@dataclass
class _NodeHook:
    node: Any
    handle: Any

    def remove(self) -> None:
        self.handle.remove()


def _running_averages(model: nn.Module) -> list[torch.Tensor]:
    found = []
    for module in model.modules():
        if isinstance(module, _NORMS) and module.track_running_stats:
            found += [t for t in (module.running_mean, module.running_var) if t is not None]
    return found
