"""The rows of embedding tables that one member holds: lookup, updates, and what is moved or saved.

A table is cut into ``PARTS`` parts: row r belongs to part ``r % PARTS``, so that rows with near
numbers lie at different members. A part is what a member holds, moves and saves.

Updates come in two moves, so that each counts once. :meth:`Rows.stage` keeps the gradients of a
share of a step. :meth:`Rows.apply` adds up all shares in the order of their ranks, once it is known
that the step was done; a second call does nothing. So a step that is done again replaces its
gradients. :mod:`lacuna_tables.update` has the updates.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any, Iterable, Mapping, Sequence

import torch

from lacuna.order import mixed

from .update import RULES

#: Parts of each table.
PARTS = 32

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Table:
    """A table: rows, width of a row, learning rate, the seed of its first values, the optimiser.

    ``optimizer``: ``adagrad``, ``sgd`` or ``adam``, see :mod:`lacuna_tables.update`.
    """

    name: str
    rows: int
    width: int
    rate: float = 0.05
    seed: int = 1
    optimizer: str = "adagrad"

    def __post_init__(self) -> None:
        if self.optimizer not in RULES:
            known = ", ".join(RULES)
            raise ValueError(f"optimizer {self.optimizer!r} of {self.name}: expected {known}")
        if not self.name or "/" in self.name or self.rows < 1 or self.width < 1 or self.rate <= 0:
            raise ValueError(f"{self}: expected a name without /, and sizes and rate above 0")

    def part_rows(self, part: int) -> int:
        """Rows of a part."""
        return len(range(part, self.rows, PARTS))

    def first(self, part: int) -> torch.Tensor:
        """The first values of a part, the same wherever it lies."""
        generator = torch.Generator().manual_seed(mixed(self.seed, self.name, part))
        return 0.05 * torch.randn(self.part_rows(part), self.width, generator=generator)

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> "Table":
        """The table that :meth:`described` wrote."""
        names = [one.name for one in fields(cls)]
        return cls(**{name: value[name] for name in names if name in value})

    def described(self) -> dict[str, Any]:
        """All of it as JSON."""
        return asdict(self)


@dataclass
class _Staged:
    """The gradients of a step: run and size, shares that come, by rank rows and gradients."""

    attempt: tuple[int, int]
    shares: int
    by_rank: dict[int, tuple[torch.Tensor, torch.Tensor]] = field(default_factory=dict)


class Rows:
    """The parts of one table that lie here."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._rule = RULES[table.optimizer]
        #: Weights and the optimiser's state, each of shape (rows here, width).
        self._values = {name: torch.empty(0, table.width) for name in self._named}
        #: By part: where its rows begin here, -1 if they do not; and the steps that are in them.
        self._begins = torch.full((PARTS,), -1)
        self._steps = torch.zeros(PARTS, dtype=torch.int64)
        self._staged: dict[int, _Staged] = {}
        #: Steps of updates that are missing in a part, by part, since this was last emptied.
        self.lost: dict[int, int] = {}

    @property
    def _named(self) -> list[str]:
        return ["weights", *self._rule.state]

    @property
    def parts(self) -> list[int]:
        """The parts that lie here."""
        return [part for part in range(PARTS) if self._begins[part] >= 0]

    @property
    def newest(self) -> int:
        """The newest step that is in any part."""
        return max((int(self._steps[part]) for part in self.parts), default=0)

    def _places(self, ids: torch.Tensor) -> torch.Tensor:
        if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < self.table.rows:
            last = self.table.rows - 1
            raise ValueError(f"{self.table.name} has rows 0 to {last}, not all of these")
        begins = self._begins[ids % PARTS]
        if ids.numel() and int(begins.min()) < 0:
            raise LookupError(f"not all of these rows of {self.table.name} lie here")
        return begins + ids // PARTS

    def look_up(self, ids: torch.Tensor) -> torch.Tensor:
        """Rows, shape (ids, width). LookupError if one does not lie here, ValueError if none has
        this number."""
        return self._values["weights"][self._places(ids)]

    def stage(
        self,
        step: int,
        attempt: tuple[int, int],
        rank: int,
        shares: int,
        ids: torch.Tensor,
        gradients: torch.Tensor,
    ) -> None:
        """Keeps the gradients of a share of a step, which may still be done again.

        ``attempt``: the run and its size, which replace those of an older one. ``shares``: how many
        ranks send gradients. ``gradients``: of the mean loss of the step, shape (ids, width).
        """
        self._places(ids)
        staged = self._staged.get(step)
        if staged is None or staged.attempt != attempt:
            if staged is not None and staged.attempt[0] > attempt[0]:
                return
            staged = self._staged[step] = _Staged(attempt, shares)
        staged.by_rank[rank] = (ids, gradients)

    def apply(self, step: int) -> int:
        """Brings all parts to a step that was done; how many rows changed."""
        held = self._begins >= 0
        behind = held & (self._steps < step)
        if not bool(behind.any()):
            return 0
        whole = torch.zeros(PARTS, dtype=torch.int64)
        changed = 0
        for number in sorted(number for number in self._staged if number <= step):
            staged = self._staged.pop(number)
            late = behind & (self._steps < number)
            whole += late.long() * (len(staged.by_rank) == staged.shares)
            changed += self._update(number, staged, late)
        missing = (step - self._steps - whole) * behind.long()
        for part in torch.nonzero(missing).flatten().tolist():
            self.lost[part] = self.lost.get(part, 0) + int(missing[part])
        self._steps[behind] = step
        return changed

    def _update(self, step: int, staged: _Staged, late: torch.Tensor) -> int:
        shares = [staged.by_rank[rank] for rank in sorted(staged.by_rank)]
        ids = torch.cat([ids for ids, _ in shares])
        gradients = torch.cat([gradients for _, gradients in shares])
        wanted = late[ids % PARTS]
        places, inverse = torch.unique(self._places(ids[wanted]), return_inverse=True)
        summed = torch.zeros(len(places), self.table.width)
        summed.index_add_(0, inverse, gradients[wanted])
        state = {name: self._values[name][places] for name in self._rule.state}
        self._values["weights"][places] -= self._rule.change(self.table.rate, step, summed, state)
        for name, values in state.items():
            self._values[name][places] = values
        return len(ids)

    # Parts that come, go and are saved.

    def begin(self, parts: Iterable[int]) -> None:
        """Takes parts with their first values."""
        for part in parts:
            first = self.table.first(part)
            zeros = {name: torch.zeros_like(first) for name in self._rule.state}
            self._add(part, 0, {"weights": first, **zeros})

    def _add(self, part: int, step: int, values: Tensors) -> None:
        self.drop([part])
        self._begins[part], self._steps[part] = len(self._values["weights"]), step
        for name, before in self._values.items():
            self._values[name] = torch.cat([before, values[name]])

    def drop(self, parts: Sequence[int]) -> None:
        """Forgets parts; their staged gradients too."""
        for part in parts:
            begin, count = int(self._begins[part]), self.table.part_rows(part)
            if begin < 0:
                continue
            kept = [slice(0, begin), slice(begin + count, None)]
            for name, before in self._values.items():
                self._values[name] = torch.cat([before[one] for one in kept])
            self._begins[part] = -1
            self._begins[self._begins > begin] -= count
            for staged in self._staged.values():
                for rank, (ids, gradients) in staged.by_rank.items():
                    others = ids % PARTS != part
                    staged.by_rank[rank] = (ids[others], gradients[others])

    def state(self, parts: Sequence[int]) -> tuple[dict[str, Any], Tensors]:
        """All of some parts, as a header and tensors of a message."""
        rows = torch.empty(0, dtype=torch.int64)
        for part in parts:
            places = torch.arange(self.table.part_rows(part)) + int(self._begins[part])
            rows = torch.cat([rows, places])
        tensors = {name: values[rows] for name, values in self._values.items()}
        listed = []
        mine = torch.zeros(PARTS, dtype=torch.bool)
        mine[list(parts)] = True
        for step, staged in sorted(self._staged.items()):
            for rank, (ids, gradients) in sorted(staged.by_rank.items()):
                wanted = mine[ids % PARTS]
                name = f"{step}/{rank}"
                listed.append([name, step, rank, *staged.attempt, staged.shares])
                tensors[f"ids/{name}"] = ids[wanted]
                tensors[f"gradients/{name}"] = gradients[wanted]
        steps = [int(self._steps[part]) for part in parts]
        header = {"table": self.table.name, "parts": list(parts), "steps": steps, "staged": listed}
        return header, tensors

    def put(self, header: Mapping[str, Any], tensors: Tensors, wanted: Iterable[int]) -> None:
        """Takes some of the parts that :meth:`state` gave."""
        mine, begin = set(wanted), 0
        taken = torch.zeros(PARTS, dtype=torch.bool)
        for part, step in zip(header["parts"], header["steps"]):
            end = begin + self.table.part_rows(part)
            if part in mine:
                self._add(part, step, {name: tensors[name][begin:end] for name in self._named})
                taken[part] = True
            begin = end
        for name, step, rank, run, size, shares in header["staged"]:
            ids, gradients = tensors[f"ids/{name}"], tensors[f"gradients/{name}"]
            more = taken[ids % PARTS]
            staged = self._staged.setdefault(step, _Staged((run, size), shares))
            if staged.attempt[0] > run:
                continue
            if staged.attempt != (run, size):
                staged = self._staged[step] = _Staged((run, size), shares)
            none = (ids[:0], gradients[:0])
            before = staged.by_rank.get(rank, none)
            staged.by_rank[rank] = (
                torch.cat([before[0], ids[more]]),
                torch.cat([before[1], gradients[more]]),
            )
