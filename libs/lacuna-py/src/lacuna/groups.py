"""The groups in which a member trains: how it meets others, brings them its state, and leaves."""

from __future__ import annotations

import logging
import os
import time
from contextlib import contextmanager
from typing import Any, Callable, Iterator, Optional

from . import misuse
from .busy import Busy
from .calls import Calls
from .gradients import Vote
from .group import Watch
from .link import Link, leave_now
from .member import Card, Formed, Regroup, from_environment, loader, newest
from .part import Now
from .pipeline import Pipeline
from .progress import Reporter, Span
from .saving import Saver
from .settings import Settings
from .sharding import Node
from .stages import holds_tables
from .state import Parts, broadcast
from .worker import Worker

log = logging.getLogger("lacuna")


class Groups:
    """The present group of this member, ``now.group``, and the ways to the next one."""

    def __init__(
        self,
        now: Now,
        line: Pipeline,
        parts: Parts,
        saver: Saver,
        settings: Settings,
        node: Node,
    ) -> None:
        self._now = now
        self._line = line
        self._parts = parts
        self.saver = saver
        self._settings = settings
        self._node = node
        self.worker = Worker.of(os.environ)
        self.worker.warn()
        now.workers = self.worker.count
        address, deadline = os.environ.get("LACUNA_SOCKET"), os.environ.get("LACUNA_DEADLINE_FILE")
        absent = holds_tables(os.environ)
        self.link = Link(address or None, deadline, self.worker, absent=absent)
        self.membership = from_environment(
            self.link, self.worker, node, settings.backend, settings.timeout
        )
        regroup = isinstance(self.membership, Regroup)
        file = None if regroup else os.environ.get("LACUNA_PROGRESS_FILE")
        self._reporter = Reporter(self.link, file)
        self.calls = Calls()
        self._busy = (
            Busy(self.membership.show_busy, self._let_go)
            if isinstance(self.membership, Regroup)
            else None
        )
        #: The mark of the loop's data (:func:`lacuna.data.mark`).
        self.data = ""
        #: Set at the boundary at which this member leaves: whether it saves the state.
        self._departing: Optional[bool] = None
        self._has_state = False
        self._lineage = ""
        #: Set at rank 0 after a step: the state may be saved before the next one.
        self._saves = False
        self._last_step = 0.0
        self._step_seconds = 0.0
        #: Seconds that this member took for the first step of a group that broke meanwhile.
        self._lost_seconds = 0.0

    # From the with block's begin to its end.

    def start(self) -> None:
        """The program may be asked to leave from here on."""
        self.link.idle = True
        self.link.start()
        if self._busy is not None:
            self._busy.start()

    def depart(self) -> None:
        """Leaves, if that was decided at the last boundary."""
        if self._departing is not None:
            self._leave(save=self._departing)

    def close(self, done: bool, part: Callable[[], None]) -> None:
        """The with block has ended; ``part`` ends what else runs beside it."""
        now = self._now
        if now.group is not None:
            # Peers see at once that this member is gone.
            now.group.close()
            now.group = None
        self._line.close()
        self.saver.settle()
        if self._busy is not None:
            self._busy.close()
        part()
        if done:
            self._reporter.done(now.span, now.position)
        self.link.part(done=done)

    # Work outside of steps.

    @property
    def is_busy(self) -> bool:
        """Whether the program has said that it is."""
        return self._busy is not None and self._busy.on

    @contextmanager
    def busy(self, limit: float = 3600.0) -> Iterator[None]:
        """See :meth:`lacuna.run.Elastic.busy`."""
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

    def _let_go(self) -> bool:
        """Closes the connections to the others, from the thread of :class:`Busy`."""
        group = self._now.group
        if group is None or group.world_size == 1:
            return False
        group.close()
        return True

    def _meet_again(self) -> None:
        """The group was let go while this member was busy; the next batch forms it again."""
        now = self._now
        log.info("run %d was let go at step %d: busy", now.span.run, now.position.step)
        now.group = None
        self._last_step = 0.0
        if isinstance(self.membership, Regroup):
            self.membership.let_go()
        self._report(last=True)

    def all_of(self, mine: Any) -> list[Any]:
        """The same of all members, in the midst of a step that is not applied."""
        with self.busy():
            return self.calls.gather(self.membership.place(), -2 - self._now.position.step, mine)

    # Around a step.

    def before_batch(self) -> None:
        """Saves if that is due, and returns with a group."""
        if self._saves:
            # What the program does after a step belongs to the state of that step.
            self._saves = False
            self.saver.if_due(self._now.position.step, self._state)
        if self.lost():
            self._regroup()

    def lost(self) -> bool:
        """Whether there is no group, here or at a worker with another shard of the model."""
        if not self._node.any(self._now.group is None):
            return False
        if self._let_go():
            self._meet_again()
        return True

    def watch(self) -> Watch:
        """What gives a step up."""
        return self.membership.watch(self._step_seconds)

    @property
    def period(self) -> Optional[float]:
        """Seconds since the last step of this group."""
        return time.monotonic() - self._last_step if self._last_step > 0.0 else None

    def stepped(self) -> None:
        """The sums of a step are here."""
        self.membership.stepped()
        self._lost_seconds = 0.0

    def after(self, vote: Vote) -> None:
        """A step was applied."""
        group, now = self._now.group, time.monotonic()
        assert group is not None
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
        here, everybody = self.membership.part(group, self.link.leaving is not None)
        self._now.group = None
        if here:
            # The program may still look at this step; it ends when it asks for the next batch.
            self._departing = everybody and group.rank == 0

    def broke(self, reason: str, took: float) -> None:
        """The group lost a member in the middle of a step, which was not applied here."""
        now = self._now
        group = now.group
        if group is None:
            # It was let go: the program was busy between the batch and here.
            return
        if self._last_step == 0.0:
            # Perhaps the others did not wait long enough for this member.
            self._lost_seconds = took
        now.group = None
        log.info("run %d broke at step %d: %s", now.span.run, now.position.step, reason)
        group.close()
        self.membership.broke()
        self._report(last=True)
        if self.membership.kind == "torchrun":
            self._rescue(group.rank)
        self._last_step = 0.0

    def _rescue(self, rank: int) -> None:
        """Torchrun restarts all processes: a member that still has the state saves it."""
        self.saver.last(rank, self._now.position.samples, self._state)
        self.link.flush()
        leave_now(1)

    # The next group.

    def _card(self) -> Card:
        """The card of this member, which the others read before the group is built."""
        now, settings = self._now, self._settings
        saved = None if self._has_state else self.saver.look()
        # The workers of a node look at different moments.
        seen = min(row[0] for row in self._node.gather(-1 if saved is None else saved.samples))
        length = 0 if now.order is None else now.order.identity[0]
        plan = f"{settings.policy.text()}:{self._line.gradients.plan}:{settings.backend}"
        silence = max(4.0 * self._step_seconds, 2.0 * self._lost_seconds)
        return {
            "state": now.position.newness if self._has_state else None,
            "lineage": self._lineage,
            "saved": seen,
            "timeout": max(settings.timeout, silence),
            "data": self.data,
            "plan": f"{length}:{settings.seed}:{plan}",
        }

    def _state(self) -> dict[str, Any]:
        """The whole state; its tensors are the model's own, no copies."""
        now = self._now
        state = self._parts.take(now.position)
        state["order"] = [] if now.order is None else now.order.identity
        state.update(self._line.state_dict())
        return state

    def _put(self, state: dict[str, Any]) -> None:
        """Takes over a state. Raises RuntimeError if it belongs to another order of the data."""
        order = self._now.order
        mine, theirs = [] if order is None else order.identity, state["order"]
        if mine != theirs:
            raise RuntimeError(
                f"the state was made with [samples, seed, shuffle] = {theirs}, this program has "
                f"{mine}: no sample could be counted once; use another checkpoint folder"
            )
        self._now.position = self._parts.put(state)
        self._line.load_state_dict(state)

    def _load(self, cards: list[Card], rank: int) -> None:
        """No member has state: the one with the newest checkpoint reads it."""
        if loader(cards) != rank:
            return
        state, _ = self.saver.load()
        if state is not None:
            self._put(state)
        elif float(os.environ.get("LACUNA_SAMPLES_DONE") or 0) > 0:
            log.warning("no checkpoint is complete: training starts from the beginning")

    def _regroup(self) -> None:
        """Returns with a group whose members have the same state, or not at all."""
        self.depart()
        if self.link.idle and not self._has_state:
            self.link.say({"say": "ready"})
        self.link.idle = False
        now = self._now
        while now.group is None:
            formed = self.membership.form(self._card, self._load)
            if formed is None:
                # Perhaps all others leave as well, one after the other: nothing may be lost.
                self._leave(save=self._has_state)
                return
            failure = self._agree(formed)
            if failure is not None:
                log.info("run %d: %s", formed.run, failure)
                formed.group.close()
                self.membership.broke()
                continue
            group, node = formed.group, self._node
            now.group = group
            now.span = Span(formed.run, group.world_size * node.count, now.position.samples)
            now.rank = group.rank * node.count + node.rank
            self._last_step = 0.0
            self._line.regroup(now)
            if group.rank == 0:
                self.saver.new_group(now.position.step)
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
            state, failure = broadcast(group, source, self._state() if mine else None, self.watch())
        new = state if not mine and (held is None or same[group.rank] != same[source]) else None
        step = self._now.position.step if new is None else new["position"]["step"]
        rows = self._node.gather(float(failure is None), step)
        if rows != [(1.0, step)] * self._node.count:
            return failure or "another worker of this node has not received the state"
        if new is not None:
            self._put(new)
        self._has_state = True
        self._lineage = formed.name
        return None

    # Ends.

    def _report(self, last: bool = False) -> None:
        now = self._now
        if now.rank == 0:
            self._reporter.report(
                *(now.span, now.position, now.loss, self.saver.newest),
                lambda: self._line.news(now),
                last,
            )

    def left_alone(self) -> Optional[str]:
        """The error if the program has left the loop at another step than the other members."""
        if self._now.group is None or self._now.world_size == 1:
            return None
        mine = self._now.position.step
        # A member that goes on ends its group when it has waited for this one.
        steps = self.calls.gather(self.membership.place(), -1, mine)
        goes_on = self.membership.goes_on
        others = [
            (rank, step)
            for rank, step in enumerate(steps)
            if step != mine and (step is not None or goes_on(rank))
        ]
        return misuse.left_alone(mine, others) if others else None

    def finish(self) -> None:
        """The program's own end: saves the state, and sends the last report."""
        now = self._now
        group, now.group = now.group, None
        if group is None:
            return
        together = self._node.all(group.part())
        if group.rank == 0 or not together:
            place = 0 if group.rank == 0 else self.worker.rank
            self.saver.last(place, now.position.samples, self._state)
        self._node.part()
        self._report(last=True)
        self.link.flush()
        self.link.idle = True

    def _leave(self, save: bool) -> None:
        """Ends the process on request."""
        if save:
            self.saver.last(self.worker.rank, self._now.position.samples, self._state)
            self._report(last=True)
        self._node.part()
        self.link.flush()
        leave_now()
