"""The training state: taken from a model, put into one, carried to other members.

Tensors travel unchanged, several in one buffer. Numbers, names and the nesting go before them, as a
text (:mod:`lacuna.tree`). Of a sharded tensor the state holds the :class:`~lacuna.sharding.Piece`
here.
"""

from __future__ import annotations

import copy
import math
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Callable, Mapping, Optional, Protocol, Sequence, cast

import torch
from torch import nn

from .group import Group, Watch
from .order import Position
from .sharding import Piece, is_sharded, joined
from .tree import pack, shapes, unpack
from .unsaved import Unsaved, filled, has_marks

#: Tensors are broadcast in buffers of about this many bytes.
BUFFER = 32 << 20


class Stateful(Protocol):
    """Anything with a state: optimisers, schedulers, moving averages of weights."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: Any) -> Any: ...


class Value:
    """A number, or what else :mod:`lacuna.tree` names, as a part of the state.

    ``best = lacuna.Value(0.0)``, ``lacuna.elastic(..., state={"best": best})``, then
    ``best.value = 1.0`` in the loop. It is saved, and members that join get it. Numbers must be
    the same at all members: :meth:`~lacuna.run.Elastic.step` looks at that.
    """

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"Value({self.value!r})"

    def state_dict(self) -> dict[str, Any]:
        """The value, by the name ``value``."""
        return {"value": self.value}

    def load_state_dict(self, state: Any) -> None:
        """Takes the value over."""
        self.value = state["value"]


class Scheduler(Stateful, Protocol):
    """A learning rate scheduler of PyTorch, or what behaves like one."""

    def step(self) -> Any: ...


class Scaler(Stateful, Protocol):
    """A gradient scaler of PyTorch (``torch.amp.GradScaler``), or what behaves like one."""

    def scale(self, outputs: Any) -> Any: ...

    def unscale_(self, optimizer: torch.optim.Optimizer) -> Any: ...

    def step(self, optimizer: torch.optim.Optimizer) -> Any: ...

    def update(self) -> Any: ...


@dataclass
class Parts:
    """The parts of a training program that have state."""

    model: nn.Module
    optimizers: Sequence[torch.optim.Optimizer]
    schedulers: Sequence[Scheduler]
    scaler: Optional[Scaler]
    extra: Mapping[str, Stateful]
    #: The mesh over which the model is sharded, if it is.
    mesh: Optional[Any] = None
    #: What their states have that is no state.
    unsaved: Unsaved = field(default_factory=Unsaved)

    def take(self, position: Position) -> dict[str, Any]:
        """The whole state; its tensors are the model's own, not copies.

        Raises RuntimeError if a function in a state has become another one.
        """
        state = {
            "model": self.model.state_dict(),
            "optimizers": [one.state_dict() for one in self.optimizers],
            "schedulers": [one.state_dict() for one in self.schedulers],
            "scaler": None if self.scaler is None else self.scaler.state_dict(),
            "extra": {name: part.state_dict() for name, part in self.extra.items()},
            "position": asdict(position),
            "sharded": self.mesh is not None,
        }
        scaler = [] if self.scaler is None else [self.scaler]
        objects = [self.model, *self.optimizers, *self.schedulers, *scaler, *self.extra.values()]
        state = self.unsaved.out(state, objects)
        return state if self.mesh is None else cast(dict[str, Any], _in_pieces(state))

    def put(self, state: dict[str, Any]) -> Position:
        """Loads a state. Errors of the parts that it does not fit are raised."""
        sharded = bool(state.get("sharded"))
        if self.mesh is not None and not sharded:
            raise RuntimeError(
                "the state is that of a model which is not sharded, and this one is: use another "
                "checkpoint folder, or read the file's ['model'] by your own program"
            )
        if sharded:
            state = self._of_pieces(state)
        _put(self.model, state["model"], "['model']")
        for kind, parts in (("optimizers", self.optimizers), ("schedulers", self.schedulers)):
            if len(parts) != len(state[kind]):
                raise RuntimeError(f"the state has {len(state[kind])} {kind}, not {len(parts)}")
            for i, (part, its) in enumerate(zip(parts, state[kind])):
                _put(part, its, f"['{kind}'][{i}]")
        # A scaler that is switched off has an empty state.
        if self.scaler is not None and state["scaler"]:
            _put(self.scaler, state["scaler"], "['scaler']")
        for name, part in self.extra.items():
            _put(part, state["extra"][name], f"['extra'][{name!r}]")
        return Position(**state["position"])

    def _of_pieces(self, state: Any) -> Any:
        if isinstance(state, Piece):
            return state.whole(self.mesh)
        return _mapped(state, self._of_pieces)


def _put(part: Stateful, state: Any, place: str) -> None:
    if has_marks(state):
        state = filled(state, part.state_dict(), place)
    part.load_state_dict(state)


def frozen(state: Any) -> Any:
    """A copy on the CPU that later training steps do not change."""
    if isinstance(state, torch.Tensor):
        return state.detach().to("cpu", copy=True)
    return _mapped(state, frozen)


def joined_states(states: Sequence[Any], rank: int, count: int) -> Any:
    """The state of one of ``count`` workers, from those of any other number of them, by rank."""
    first = states[0]
    if isinstance(first, Piece):
        return joined(states, rank, count)
    if isinstance(first, dict):
        changed = copy.copy(first)
        for key in first:
            changed[key] = joined_states([state[key] for state in states], rank, count)
        return changed
    if type(first) in (list, tuple):
        return type(first)(joined_states(parts, rank, count) for parts in zip(*states))
    return first


def _in_pieces(state: Any) -> Any:
    if isinstance(state, torch.Tensor):
        return Piece.of(state) if is_sharded(state) else state
    return _mapped(state, _in_pieces)


def _mapped(value: Any, each: Callable[[Any], Any]) -> Any:
    if isinstance(value, dict):
        changed = copy.copy(value)
        for key, part in value.items():
            changed[key] = each(part)
        return changed
    if isinstance(value, list):
        return [each(part) for part in value]
    if type(value) is tuple:
        return tuple(each(part) for part in value)
    if isinstance(value, Piece):
        return replace(value, part=each(value.part))
    return value


def broadcast(
    group: Group, source: int, state: Optional[dict[str, Any]], watch: Watch
) -> tuple[Optional[dict[str, Any]], Optional[str]]:
    """Carries the source's state to all members: (state, None), or (None, why not).

    The source gives its state, the others None. Raises TypeError at the source for a state that
    :func:`lacuna.tree.pack` refuses.
    """
    text, tensors = ("", []) if state is None else pack(state)
    # The text is ASCII, as JSON is written by Python.
    size = torch.tensor([len(text)], dtype=torch.long)
    failure = group.broadcast(size, source, watch)
    if failure is not None:
        return None, failure
    if state is None:
        letters = torch.empty(int(size), dtype=torch.uint8)
    else:
        letters = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)
    failure = group.broadcast(letters, source, watch)
    if failure is not None:
        return None, failure
    text = bytes(letters.tolist()).decode()
    slots = shapes(text)
    sizes = [_bytes_of(dtype, shape) for dtype, shape in slots]
    received: list[torch.Tensor] = list(tensors)
    for begin, end in _runs(sizes):
        total = sum(sizes[begin:end])
        if group.rank == source:
            flat = torch.cat([_bytes(t) for t in tensors[begin:end]])
        else:
            flat = torch.empty(total, dtype=torch.uint8)
        failure = group.broadcast(flat, source, watch) if total > 0 else None
        if failure is not None:
            return None, failure
        if group.rank != source:
            at = 0
            for (dtype, shape), length in zip(slots[begin:end], sizes[begin:end]):
                part = flat[at : at + length].clone()
                received.append(part.view(dtype).view(shape))
                at += length
    return (unpack(text, received) if state is None else state), None


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to("cpu").contiguous().reshape(-1).view(torch.uint8)


def _bytes_of(dtype: torch.dtype, shape: tuple[int, ...]) -> int:
    return math.prod(shape) * torch.empty(0, dtype=dtype).element_size()


def _runs(sizes: list[int]) -> list[tuple[int, int]]:
    """Cuts the tensors into buffers; a tensor that is too large has one for itself."""
    runs, begin, total = [], 0, 0
    for i, size in enumerate(sizes):
        if i > begin and total + size > BUFFER:
            runs.append((begin, i))
            begin, total = i, 0
        total += size
    if begin < len(sizes):
        runs.append((begin, len(sizes)))
    return runs
