"""Embedding tables at members of their own, for a dense part that trains by :func:`lacuna.elastic`.

    tables = lacuna_tables.Tables("/shared/tables", [Table("items", 1_000_000, 32)], members=2)
    with tables, lacuna.elastic(dense, optimizer, batch=256) as run:
        for index, rows in tables.steps(run, len(clicks), ids):
            optimizer.zero_grad()
            loss = loss_of(dense(rows["items"]), clicks[index])
            loss.backward()
            tables.step(loss)            # in place of run.step(loss)

``ids(index)`` gives for each table the rows of these samples. The gradients of a step are at all
table members before the step counts as done, and become an update when it was done. So each update
counts once, whatever member of the dense part comes, goes or is killed. With ``ahead`` (the
default) the rows of the next step are looked up while this one computes. They lack the update of
this step, always that one: two runs with the same members give the same bits.

At a node that ``LACUNA_TABLE_NODES`` names (:mod:`lacuna.stages`) :class:`Tables` holds rows
instead, and never returns. So one trainer has both stages: its program is the same on all nodes. It
ends when the others have left :class:`Tables` without an error.

A table member that leaves gives its parts to the others, and nothing is lost. One that is killed
loses the updates since its checkpoint: :attr:`Tables.lost` says how many steps of each part.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Callable, Iterator, Mapping, Optional, Sequence, Type, TypeVar, Union

import torch

from lacuna.frames import Refused
from lacuna.link import leave_now
from lacuna.run import Elastic
from lacuna.stages import holds_tables, is_table_node

from .map import Directory, Map
from .member import Moved, answered, connected, hold
from .messages import Header, send
from .rows import PARTS, Table, Tensors

log = logging.getLogger("lacuna")

Ids = Mapping[str, torch.Tensor]
T = TypeVar("T")


@dataclass
class _Asked:
    """A lookup that is on its way: by member the places of what it gives."""

    ids: dict[str, torch.Tensor]
    applied: int
    places: dict[str, dict[str, torch.Tensor]]


class Tables:
    """The dense part's side of the tables in a folder, see the module.

    ``members``: table members that must be there before the first map is made. ``patience``:
    seconds to wait for rows that move or come back, and for the first members. ``every`` and
    ``host``: at a node that holds rows, see ``python3 -m lacuna_tables --help``.

    Raises ValueError if the folder has other tables, TimeoutError if too few members come.
    """

    def __init__(
        self,
        folder: str,
        tables: Sequence[Table],
        *,
        members: int = 1,
        ahead: bool = True,
        patience: float = 60.0,
        every: int = 100,
        host: Optional[str] = None,
    ) -> None:
        self._directory = Directory(folder)
        self._staged = holds_tables(os.environ) is not None
        if self._staged and self._directory.has_ended:
            log.warning("the training of %s has ended: a new one needs a new folder", folder)
            leave_now(0)
        if is_table_node(os.environ):
            leave_now(hold(folder, None, host, every, as_stage=True))
        self._tables = {table.name: table for table in tables}
        self._ahead, self._patience = ahead, patience
        self._map: Map = self._directory.first(self._tables, members, patience)
        self._connections: dict[str, socket.socket] = {}
        self._next: Optional[_Asked] = None
        self._ready: Optional[tuple[_Asked, Tensors]] = None
        self._now: Optional[tuple[int, dict[str, torch.Tensor], dict[str, torch.Tensor]]] = None
        self._run: Optional[Elastic] = None
        self._said = False
        #: Steps of updates that parts have lost, by table and part.
        self.lost: dict[str, dict[int, int]] = {name: {} for name in self._tables}

    def __enter__(self) -> "Tables":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self._let_go()
        if self._staged and kind is None:
            self._directory.end()

    def steps(
        self,
        run: Elastic,
        length: int,
        ids: Callable[[torch.Tensor], Ids],
        *,
        epochs: Optional[int] = None,
        shuffle: bool = True,
    ) -> Iterator[tuple[torch.Tensor, dict[str, torch.Tensor]]]:
        """Like :meth:`Elastic.shares <lacuna.Elastic.shares>`, with the rows of the samples.

        ``ids``: samples (int64) to rows of each table, int64 of shape (samples, ...). The rows have
        the shape (samples, ..., width) and take gradients.
        """
        self._run = run
        for index in run.shares(length, epochs=epochs, shuffle=shuffle):
            wanted = self._checked(ids(index))
            rows = self._take(run, wanted)
            coming = run.coming if self._ahead else None
            if coming is not None and coming.numel():
                self._next = self._ask(self._checked(ids(coming)), run.steps_done)
            yield index, rows
        self._end(run.steps_done)

    def _end(self, step: int) -> None:
        """The update of the last step, which no lookup follows."""
        self._receive_ahead()
        nothing = {name: torch.empty(0, dtype=torch.int64) for name in self._tables}
        try:
            self._look_up(nothing, step)
        except (OSError, Refused) as error:
            log.warning("the update of step %d is with the table members: %s", step, error)

    def step(self, loss: Optional[Union[torch.Tensor, float]] = None) -> bool:
        """Sends the gradients of the rows, then does :meth:`Elastic.step <lacuna.Elastic.step>`."""
        run, now = self._run, self._now
        if run is None or now is None or run.share is None:
            raise RuntimeError("tables.step() belongs to a batch of tables.steps()")
        share = run.share
        self._receive_ahead(run)
        if share.lent:
            # Its rows are another member's, and weigh nothing here.
            return run.step(loss)
        header = {
            "say": "stage",
            "step": run.steps_done + 1,
            "run": run.run_id,
            "size": share.world_size,
            "rank": share.rank,
            "shares": sum(count > 0 for count in share.counts),
        }
        # The loss is the mean over this member's samples, the update's that over all of the step.
        weight = share.count / share.batch
        _, ids, rows = now
        gradients = {}
        for name, table in self._tables.items():
            found = rows[name].grad
            found = torch.zeros_like(rows[name]) if found is None else found
            gradients[name] = weight * found.reshape(-1, table.width)
        self._until_done(run, lambda: self._stage(header, ids, gradients))
        return run.step(loss)

    def whole(self, applied: int) -> dict[str, torch.Tensor]:
        """All rows of all tables after a step, to judge or to save them. Not within a step."""
        self._receive_ahead()
        ids = {name: torch.arange(table.rows) for name, table in self._tables.items()}
        return self._until_done(None, lambda: self._look_up(ids, applied))

    # Lookup.

    def _checked(self, ids: Ids) -> dict[str, torch.Tensor]:
        if set(ids) != set(self._tables):
            raise ValueError(f"ids of {sorted(ids)}: expected those of {sorted(self._tables)}")
        return {name: ids[name] for name in self._tables}

    def _take(self, run: Elastic, wanted: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """The rows of this step: those that were asked for ahead, if they are the right ones."""
        flat = {name: ids.reshape(-1) for name, ids in wanted.items()}
        self._receive_ahead()
        ready, self._ready = self._ready, None
        step = run.steps_done - 1
        if ready is not None and ready[0].applied == step and _same(ready[0].ids, flat):
            rows = ready[1]
        else:
            rows = self._until_done(run, lambda: self._look_up(flat, run.steps_done))
        shaped = {}
        for name, ids in wanted.items():
            shaped[name] = rows[name].reshape(*ids.shape, -1).requires_grad_()
        self._now = (run.steps_done, flat, shaped)
        return shaped

    def _receive_ahead(self, run: Optional[Elastic] = None) -> None:
        """Reads the answers to what was asked ahead, so that connections are free.

        Rows that moved meanwhile are asked for again here. Behind this step they would have its
        update, and two runs with the same members would differ.
        """
        asked, self._next = self._next, None
        if asked is None:
            return
        ids, applied = asked.ids, asked.applied
        try:
            rows = self._answers(asked)
        except (OSError, Moved) as error:
            log.info("tables: %s", error)
            self._let_go()
            rows = self._until_done(run, lambda: self._look_up(ids, applied))
        self._ready = asked, rows

    def _ask(self, ids: dict[str, torch.Tensor], applied: int) -> _Asked:
        flat = {name: one.reshape(-1) for name, one in ids.items()}
        try:
            return self._send(flat, applied)
        except OSError:
            # Nothing answers on these connections: receiving asks again.
            self._let_go()
            return _Asked(flat, applied, self._cut(flat))

    def _send(self, ids: dict[str, torch.Tensor], applied: int) -> _Asked:
        places = self._cut(ids)
        header = {"say": "look_up", "applied": applied}
        for member, of in places.items():
            self._to(member, header, {name: ids[name][at] for name, at in of.items()})
        return _Asked(ids, applied, places)

    def _cut(self, ids: dict[str, torch.Tensor]) -> dict[str, dict[str, torch.Tensor]]:
        """By member the places of its ids; all members are asked, so that all go on in step."""
        members = self._map.members
        number = {member: n for n, member in enumerate(members)}
        found: dict[str, dict[str, torch.Tensor]] = {member: {} for member in members}
        for name, one in ids.items():
            holders = torch.tensor([number[member] for member in self._map.holders[name]])
            of = holders[one % PARTS]
            for member in members:
                found[member][name] = torch.nonzero(of == number[member]).flatten()
        return found

    def _answers(self, asked: _Asked) -> dict[str, torch.Tensor]:
        rows = {
            name: torch.empty(len(ids), self._tables[name].width) for name, ids in asked.ids.items()
        }
        for member, of in asked.places.items():
            header, tensors = self._from(member)
            for name, at in of.items():
                rows[name][at] = tensors[name]
            if int(header["step"]) > asked.applied + 1 and not self._said:
                self._said = True
                log.warning(
                    "the rows have the updates of %s steps, the dense part comes from step %d: "
                    "updates up to there are not made twice; a new training needs a new folder",
                    *(header["step"], asked.applied),
                )
            for name, parts in header.get("lost", {}).items():
                for part, steps in parts.items():
                    known = self.lost[name]
                    known[int(part)] = known.get(int(part), 0) + int(steps)
                log.warning(
                    "%d parts of %s lost the updates of up to %d steps: %s has an older checkpoint",
                    *(len(parts), name, max(parts.values()), member),
                )
        return rows

    def _look_up(self, ids: dict[str, torch.Tensor], applied: int) -> dict[str, torch.Tensor]:
        return self._answers(self._send(ids, applied))

    def _stage(self, header: Mapping[str, object], ids: Ids, gradients: Ids) -> None:
        places = self._cut(dict(ids))
        for member, of in places.items():
            tensors = {f"ids/{name}": ids[name][at] for name, at in of.items()}
            tensors.update({f"gradients/{name}": gradients[name][at] for name, at in of.items()})
            self._to(member, header, tensors)
        for member in places:
            self._from(member)

    # Connections.

    def _to(self, member: str, header: Mapping[str, object], tensors: Ids) -> None:
        connection = self._connections.get(member)
        if connection is None:
            entry = self._directory.member(member)
            if entry is None:
                raise ConnectionError(f"table member {member} is gone")
            connection = self._connections[member] = connected(entry["address"], entry["token"])
        send(connection, header, tensors)

    def _from(self, member: str) -> tuple[Header, Tensors]:
        connection = self._connections.get(member)
        if connection is None:
            raise ConnectionError(f"the connection to table member {member} has ended")
        return answered(connection)

    def _let_go(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        self._next = None

    def _until_done(self, run: Optional[Elastic], work: Callable[[], T]) -> T:
        """Does it again by newer maps until it is done. TimeoutError after the patience."""
        try:
            return work()
        except (OSError, Moved) as error:
            log.info("tables: %s", error)
        if run is None:
            return self._again(work)
        with run.busy():
            return self._again(work)

    def _again(self, work: Callable[[], T]) -> T:
        end = time.monotonic() + self._patience
        while True:
            self._let_go()
            try:
                self._look()
                return work()
            except (OSError, Moved) as error:
                if time.monotonic() > end:
                    raise TimeoutError(
                        f"rows did not come back within {self._patience:.0f} s: {error}; start "
                        f"table members: python3 -m lacuna_tables {self._directory.folder}"
                    ) from error
                time.sleep(0.01)

    def _look(self) -> None:
        """Reads the newest map, and takes the parts of the dead away from them."""
        found = self._directory.newest()
        for member in found.members if found else []:
            if self._is_dead(member):
                found = self._directory.moved_from(member, self._is_dead)
                if found is None:
                    raise ConnectionError(f"table member {member} is dead and no other is there")
        if found is not None:
            self._map = found

    def _is_dead(self, member: str) -> bool:
        """Whether a member does not answer. One that leaves answers until its parts have moved."""
        if member in self._connections:
            return False
        entry = self._directory.member(member)
        if entry is None:
            return True
        try:
            self._connections[member] = connected(entry["address"], entry["token"])
        except (OSError, Refused):
            return True
        return False


def _same(one: Ids, other: Ids) -> bool:
    return all(torch.equal(ids, other[name]) for name, ids in one.items())
