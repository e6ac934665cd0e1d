"""Moving averages of the weights that the run was not given: members that join begin them again.

A tensor of the program that went a part of the way to the weights, in each of its numbers the same
part, is such an average, whatever holds it. A copy of the weights went the whole way, and needs no
state.
"""

from __future__ import annotations

import gc
from typing import Any, Iterator, Optional, Sequence

import torch
from torch.optim.swa_utils import AveragedModel

from .state import Parts, Value

MISSING = (
    "a moving average of the weights changes in the loop, and lacuna.elastic() was not given it, "
    "so members that join and restarts begin it again: lacuna.elastic(..., "
    "state={'average': average}), with a state_dict"
)
#: Steps after which averages are looked for again, as those that the loop has made. All things of
#: a process are looked through for that, which may take a tenth of a second.
AGAIN = 1024
#: The first steps after a search, of which each is looked at; then one of half as many.
_LOOKS = 256
#: Numbers of a tensor that are looked at, and those of them that must have moved.
_MOST, _LEAST = 256, 8
#: Moves by which a tensor is an average, and without which it is none.
_PROOF = 2
#: Of the usual type of weights.
_EPSILON = float(torch.finfo(torch.float32).eps)
#: Tensors beside the weights that are looked at: the newest, since an average is made beside the
#: model, and garbage of the same shape may be older.
_TENSORS = 8


class Averages:
    """Looks for averages around the program's own lines: in the first steps, and now and then."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        given = [part for part in parts.extra.values() if not isinstance(part, Value)]
        plain = (torch.nn.Module, torch.optim.Optimizer)
        # Whatever else has a state may hold an average that it copies for its state.
        self._knows = parts.mesh is None and all(
            isinstance(part, plain) or hasattr(part, "optimizer") for part in given
        )
        self._steps = 0
        self._weight: Optional[torch.Tensor] = None
        self._others: list[torch.Tensor] = []
        #: How often each of them has moved as an average does, and otherwise. As an average does one
        #: moves by chance too, which is filled from zero.
        self._moves: list[tuple[int, int]] = []
        self._found_at = 0
        self._averaged: list[tuple[AveragedModel, int]] = []
        self._before: list[torch.Tensor] = []

    def find(self) -> None:
        """Finds what may be an average of the weights."""
        floats = [p for p in self._parts.model.parameters() if p.is_floating_point()]
        floats = [p for p in floats if type(p) is torch.nn.Parameter and p.numel() >= _LEAST]
        if not self._knows or not floats:
            return
        self._weight = weight = max(floats, key=lambda p: p.numel())
        known = {tensor.data_ptr() for tensor in self._held()}
        self._found_at = self._steps
        there = alive(torch.Tensor, AveragedModel)
        like = [one for one in there if _is_like(one, weight)]
        self._others = [one for one in like if one.data_ptr() not in known][:_TENSORS]
        for one in self._others:
            # PyTorch keeps no tensor whose only owner was found so.
            getattr(one, "_fix_weakref", lambda: None)()
        self._moves = [(0, 0)] * len(self._others)
        given = {id(one) for one in self._modules()}
        self._averaged = [
            (one, one.n_averaged._version)
            for one in there
            if isinstance(one, AveragedModel) and id(one) not in given
        ]

    def close(self) -> None:
        """Holds nothing of the program any more."""
        self._others, self._averaged, self._before, self._weight = [], [], [], None

    def begin(self) -> None:
        """The program's own lines begin."""
        self._steps += 1
        if self._steps == AGAIN:
            self.find()
        looks = self._steps < self._found_at + _LOOKS or self._steps % (_LOOKS // 2) == 0
        self._before = self._numbers() if looks and self._others else []

    def check(self) -> None:
        """They have ended. Raises RuntimeError if they moved an average."""
        if any(one.n_averaged._version != version for one, version in self._averaged):
            raise RuntimeError(MISSING)
        if not self._before:
            return
        (weight, *olds), (now, *news) = self._before, self._numbers()
        self._before = []
        for i, (old, new) in enumerate(zip(olds, news)):
            if torch.equal(old, new) or torch.equal(new, now) or torch.equal(new, weight):
                continue
            is_average = any(_is_part_of_the_way(old, new, to) for to in (now, weight))
            as_average, otherwise = self._moves[i]
            self._moves[i] = (as_average + is_average, otherwise + (not is_average))
        if any(as_average >= _PROOF for as_average, _ in self._moves):
            raise RuntimeError(MISSING)
        left = [i for i, (_, otherwise) in enumerate(self._moves) if otherwise < 2 * _PROOF]
        if len(left) < len(self._moves):
            self._others = [self._others[i] for i in left]
            self._moves = [self._moves[i] for i in left]

    def _numbers(self) -> list[torch.Tensor]:
        assert self._weight is not None
        tensors: Sequence[torch.Tensor] = [self._weight, *self._others]
        return [t.detach().reshape(-1)[:_MOST].clone() for t in tensors]

    def _modules(self) -> Iterator[torch.nn.Module]:
        for part in (self._parts.model, *self._parts.extra.values()):
            if isinstance(part, torch.nn.Module):
                yield from part.modules()

    def _held(self) -> Iterator[torch.Tensor]:
        """Tensors of the model, of the optimisers, and of what the run was given."""
        for module in self._modules():
            for parameter in module.parameters(recurse=False):
                yield parameter
                if parameter.grad is not None:
                    yield parameter.grad
            yield from module.buffers(recurse=False)
        for optimizer in (*self._parts.optimizers, *self._parts.extra.values()):
            if not isinstance(optimizer, torch.optim.Optimizer):
                continue
            for group in optimizer.param_groups:
                yield from group["params"]
            for state in optimizer.state.values():
                values: Any = state.values() if isinstance(state, dict) else ()
                yield from (value for value in values if isinstance(value, torch.Tensor))


def alive(*kinds: type) -> list[Any]:
    """All things of these kinds, the newest first. Asking a thing for its class may run its code."""
    by_age = (one for age in range(3) for one in reversed(gc.get_objects(age)))
    return [one for one in by_age if issubclass(type(one), kinds)]


def _is_like(one: Any, weight: torch.Tensor) -> bool:
    """Whether a thing is a tensor of a weight's size and kind."""
    if type(one) not in (torch.Tensor, torch.nn.Parameter):
        return False
    try:
        kind = (one.dtype, one.device, one.layout)
        return kind == (weight.dtype, weight.device, torch.strided) and one.shape == weight.shape
    except RuntimeError:
        # PyTorch has undefined tensors too, which have no type.
        return False


def _is_part_of_the_way(old: torch.Tensor, new: torch.Tensor, to: torch.Tensor) -> bool:
    """Whether a tensor went from one place to another in the direction of a third."""
    old, new, to = (one.to(torch.float64) for one in (old, new, to))
    moved, way = new - old, to - old
    if int((moved != 0).sum()) < _LEAST or int((way != 0).sum()) < _LEAST:
        return False
    rounding, length = _EPSILON * float(new.norm()), float(moved.norm())
    part = float(moved @ way) / float(way @ way)
    off = float((moved - part * way).norm())
    return 0.0 < part < 0.999 and length > 20.0 * rounding and off <= 0.01 * length + 2.0 * rounding
