"""Calls that all members make after the same step: barriers, reduced metrics, shared validation.

They go through the store and not through the process group. A collective would have to be matched
by every member of the present group, and a newcomer, or a member that was brought to a newer state,
has not made the call. Here each member shows its part under a key of the step. The first that sees
all parts writes down the result, and every member returns that one. A member that will not come is
not waited for: one that has left or died, or that is on its way to another group.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Callable, Optional

from .group import Look
from .keys import first, peek, put, remove


@dataclass
class Place:
    """Where the members of a group meet outside of its collectives."""

    #: Names the group, different from all others.
    name: str
    rank: int
    world_size: int
    #: Looks at the store again and again; returns a reason if the store is closed to this group.
    poll: Callable[[Look], Optional[str]]
    #: Whether a member will not come to a call of this group.
    absent: Callable[[Any, int], bool]


@dataclass
class Calls:
    """The calls of one member."""

    _step: int = -1
    #: Results of the calls after that step.
    _results: list[list[Any]] = field(default_factory=list)
    #: Results that the program asks for again, after a step that was not applied.
    _again: list[list[Any]] = field(default_factory=list)
    #: Keys of the last two calls; when the next one has its result, the first is forgotten.
    _old: tuple[list[str], ...] = ()

    def repeat(self) -> None:
        """A step was not applied: the program makes the calls after the step before once more."""
        self._again = list(self._results)

    def known(self) -> Optional[list[Any]]:
        """The result of a call that is made once more, as long as there is one."""
        return self._again.pop(0) if self._again else None

    def gather(
        self, place: Place, step: int, mine: Any, instead: Optional[Callable[[int], Any]] = None
    ) -> list[Any]:
        """The parts of all members, by rank; None for those that did not come.

        With ``instead`` the part of a member that does not come is made by another one. Parts are
        what JSON can carry.
        """
        if step != self._step:
            self._step, self._results, self._again = step, [], []
        key = f"{place.name}/call/{step}.{len(self._results)}"
        parts: dict[int, Any] = {place.rank: mine}
        result: list[Any] = []

        def look(store: Any, first: bool) -> bool:
            nonlocal result
            if first:
                put(store, f"{key}/{place.rank}", json.dumps(parts[place.rank]))
            done = peek(store, f"{key}/all")
            if done is None:
                done = self._settled(store, key, place, parts, instead)
            if done is not None:
                result = json.loads(done)
                self._forget(store, [f"{key}/all", f"{key}/{place.rank}"])
            return done is not None

        if place.poll(look) is not None:
            # No other member comes any more.
            others = instead or (lambda rank: None)
            ranks = range(place.world_size)
            result = [parts[rank] if rank in parts else others(rank) for rank in ranks]
        self._results.append(result)
        return result

    def _settled(
        self,
        store: Any,
        key: str,
        place: Place,
        parts: dict[int, Any],
        instead: Optional[Callable[[int], Any]],
    ) -> Optional[bytes]:
        """The result, if all parts are there that will come."""
        ranks = range(place.world_size)
        for rank in ranks:
            if rank not in parts:
                text = peek(store, f"{key}/{rank}")
                if text is not None:
                    parts[rank] = json.loads(text)
        missing = [rank for rank in ranks if rank not in parts]
        if not all(place.absent(store, rank) for rank in missing):
            return None
        if missing and instead is not None:
            present = [r for r in ranks if r == place.rank or not place.absent(store, r)]
            for rank in missing:
                if present[rank % len(present)] == place.rank:
                    text = first(store, f"{key}/{rank}", json.dumps(instead(rank)))
                    if text is not None:
                        parts[rank] = json.loads(text)
            return None
        text = json.dumps([parts.get(rank) for rank in ranks])
        return first(store, f"{key}/all", text)

    def _forget(self, store: Any, keys: list[str]) -> None:
        """Deletes the keys of the call before the last one: all have read its result."""
        self._old = (*self._old, keys)
        if len(self._old) > 2:
            for key in self._old[0]:
                remove(store, key)
            self._old = self._old[1:]
