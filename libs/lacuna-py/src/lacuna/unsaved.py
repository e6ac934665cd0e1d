"""What a library puts into a ``state_dict`` that is no state: functions, and what is like them.

PyTorch's schedulers give all of their attributes as their state. Among these are bound methods,
weak references, and functions of the program. The object that the program makes at its next start
has its own, so a state has none: it has a mark in the place, and the new object's stands there
when it loads the state. An object with a ``state_dict`` of its own within a state is saved by that,
and one that is called as a function by its attributes, as PyTorch's ``LambdaLR`` does.

Which function it is may be state too, if it changes in the course of training. No state has that,
so such a change is an error.
"""

from __future__ import annotations

import copy
import logging
import threading
import types
import weakref
from dataclasses import dataclass
from functools import lru_cache, partial
from operator import attrgetter, itemgetter, methodcaller
from typing import Any, Iterable, Optional

import torch

log = logging.getLogger("lacuna")

_METHODS = (types.MethodType,)
_REFERENCES = (weakref.ref, *weakref.ProxyTypes)
_FUNCTIONS = (
    *(types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type),
    *(types.WrapperDescriptorType, types.MethodDescriptorType, types.MethodWrapperType),
    *(type(lru_cache(len)), attrgetter, itemgetter, methodcaller),
)
#: What has nothing to save, and need not be the same one later.
_TOOLS = (logging.Logger, logging.LoggerAdapter, type(threading.Lock()), type(threading.RLock()))


@dataclass(frozen=True)
class Absent:
    """The mark of something that was left out of a state; ``kind``: its type, for messages."""

    kind: str


class Own(dict):  # type: ignore[type-arg]
    """The state of an object within the state of another one."""


class Unsaved:
    """What the parts of a program have in their states that is no state."""

    def __init__(self) -> None:
        #: What was left out of the first state, by place.
        self._first: Optional[dict[str, Any]] = None

    def out(self, state: Any, parts: Iterable[Any]) -> Any:
        """The state with marks. ``parts``: objects whose states are in it already.

        Raises RuntimeError if what is left out is not what was left out of the first state.
        """
        found: dict[str, Any] = {}
        state = _out(state, "", found, frozenset(id(part) for part in parts))
        first = self._first = found if self._first is None else self._first
        for place, who in found.items():
            if place not in first or first[place] != who:
                raise RuntimeError(
                    f"state{place} is another function than at lacuna.elastic, and a function "
                    "cannot be saved: keep it as it is, or give the object a state_dict() with its "
                    "name, and a load_state_dict() that finds it by that"
                )
        return state


def filled(state: Any, now: Any, place: str) -> Any:
    """A state without marks, for the object whose ``state_dict()`` is ``now``.

    Raises RuntimeError if the state has an object where ``now`` has none.
    """
    if isinstance(state, Own):
        _load(now, state, place)
        return now
    if isinstance(state, Absent):
        return now
    if isinstance(state, dict):
        others = now if isinstance(now, dict) else {}
        changed = copy.copy(state)
        for key, part in state.items():
            inner = f"{place}[{key!r}]"
            if isinstance(part, Absent) and key not in others:
                # Another version of its library does without.
                log.warning("state%s, a %s, is not there any more", inner, part.kind)
                del changed[key]
            else:
                changed[key] = filled(part, others.get(key), inner)
        return changed
    if type(state) in (list, tuple):
        others = now if type(now) in (list, tuple) else ()
        parts = []
        for i, part in enumerate(state):
            if isinstance(part, Absent) and i >= len(others):
                raise RuntimeError(_missing(f"{place}[{i}]", part.kind))
            parts.append(filled(part, others[i] if i < len(others) else None, f"{place}[{i}]"))
        return type(state)(parts)
    return state


def _load(whole: Any, state: Own, place: str) -> None:
    own = _own(whole)
    if own is None:
        raise RuntimeError(_missing(place, "object"))
    state = filled(dict(state), own, place)
    if own is vars(whole):
        own.update(state)
    else:
        whole.load_state_dict(state)


def _missing(place: str, kind: str) -> str:
    return (
        f"the saved state has a {kind} at state{place}, and this program has none there: make the "
        "same objects before lacuna.elastic, or use another checkpoint folder"
    )


def has_marks(state: Any) -> bool:
    """Whether something was left out of a state, or is the state of an object in it."""
    if isinstance(state, dict):
        return isinstance(state, Own) or any(map(has_marks, state.values()))
    return any(map(has_marks, state)) if type(state) in (list, tuple) else type(state) is Absent


def _out(value: Any, place: str, found: dict[str, Any], parts: frozenset[int]) -> Any:
    if _is_no_state(value) or id(value) in parts:
        found[place] = _who(value)
        return Absent(f"{type(value).__module__}.{type(value).__name__}")
    if isinstance(value, dict):
        changed = copy.copy(value)
        for key, part in value.items():
            changed[key] = _out(part, f"{place}[{key!r}]", found, parts)
        return changed
    if type(value) in (list, tuple):
        each = enumerate(value)
        return type(value)([_out(part, f"{place}[{i}]", found, parts) for i, part in each])
    own = None if isinstance(value, torch.Tensor) else _own(value)
    return value if own is None else Own(_out(own, place, found, parts | {id(value)}))


def _is_no_state(value: Any) -> bool:
    # A type is asked for, not a class: a reference may pose as what it refers to.
    kind = type(value)
    if issubclass(kind, (*_METHODS, *_REFERENCES, *_FUNCTIONS, *_TOOLS, partial)):
        return True
    return (kind.__module__, kind.__name__) == ("numpy", "ufunc")


def _own(value: Any) -> Optional[dict[str, Any]]:
    """The state of an object within a state, if it has one."""
    if callable(getattr(value, "state_dict", None)) and hasattr(value, "load_state_dict"):
        state = value.state_dict()
        return state if isinstance(state, dict) else None
    return vars(value) if callable(value) and hasattr(value, "__dict__") else None


def _who(value: Any) -> Any:
    """What must be the same each time: of a method its function, of a reference what it names."""
    kind = type(value)
    if issubclass(kind, weakref.ref):
        named = value()
        return _who(named) if callable(named) and _is_no_state(named) else kind
    if issubclass(kind, _METHODS):
        return _who(value.__func__)
    if issubclass(kind, partial):
        return _who(value.func), repr(value.args), repr(value.keywords)
    if issubclass(kind, _FUNCTIONS):
        return value
    return kind
