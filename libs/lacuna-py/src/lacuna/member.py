"""The ways of a program to its group: alone, by torchrun, or by the agent (``regroup``)."""

from __future__ import annotations

import itertools
import json
import logging
import os
import secrets
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Callable, Optional, Union

import torch
import torch.distributed as dist

from .calls import Place
from .group import POLL, Group, Look, Rendezvous, Watch, doing, met
from .keys import peek, put
from .link import Link
from .messages import Membership
from .sharding import Node
from .worker import ONLY, Worker

log = logging.getLogger("lacuna")

#: A run that broke, and that no newer one follows in this many seconds, is tried again: perhaps
#: control is away, and only a connection was lost.
PATIENCE = 2.0
#: A newer run that leaves out a peer gives the present step at least this many seconds to end.
GRACE = 0.25
#: Members that have met write down within this many seconds what the group is built from; longer
#: after failures, as its timeout is.
FORMING = 1.0
#: A member without state waits at least this many seconds for the others: they may be in the middle
#: of a long step. A newer run ends the wait at once.
NEWCOMER = 60.0
#: Groups that break before their first step double a timeout this often at most: a member that dies
#: while the next one is built costs the others that timeout.
DOUBLINGS = 3
#: Seconds in which a worker is asked to leave after another one of its node has left.
ORPHANED = 5.0
#: The longest timeout of a group, seconds.
LONGEST_TIMEOUT = 600.0

#: A member's card for the others; see :meth:`lacuna.groups.Groups._card`.
Card = dict[str, Any]


@dataclass
class Formed:
    """A working group, and the cards of its members."""

    group: Group
    #: Number of the run; 0 outside of ``regroup``.
    run: int
    #: Names this group, different from all before.
    name: str
    cards: list[Card]


#: Called when no member has state: loads the newest checkpoint at the member that has it.
Load = Callable[[list[Card], int], None]


def newest(cards: list[Card]) -> Optional[int]:
    """The rank with the newest state, the lowest of equals; None if no member has state."""
    held = [rank for rank, card in enumerate(cards) if card["state"] is not None]
    return max(held, key=lambda rank: (cards[rank]["state"], -rank)) if held else None


def loader(cards: list[Card]) -> int:
    """The rank that sees the newest checkpoint, the lowest of equals."""
    return max(range(len(cards)), key=lambda rank: (cards[rank]["saved"], -rank))


def _place(store: Any, name: str, rank: int, world_size: int) -> Place:
    """A place for members that stay the same, at a store that does not fail."""

    def poll(look: Look) -> Optional[str]:
        for count in itertools.count():
            if look(store, count == 0):
                break
            time.sleep(POLL)
        return None

    return Place(name, rank, world_size, poll, lambda store, rank: False)


class Alone:
    """One process, no group."""

    kind = "alone"

    def place(self) -> Place:
        """Where calls of all members meet."""
        return _place(dist.HashStore(), "alone", 0, 1)

    def form(self, card: Callable[[], Card], load: Load) -> Optional[Formed]:
        cards = [card()]
        if newest(cards) is None:
            load(cards, 0)
        return Formed(Group(0, 1), 0, "alone", cards)

    def moving(self) -> bool:
        return False

    def watch(self, step_seconds: float) -> Watch:
        return lambda: None

    def part(self, group: Group, leaving: bool) -> tuple[bool, bool]:
        """Whether this member departs at this boundary, and whether all do."""
        return leaving, leaving

    def goes_on(self, rank: int) -> bool:
        """Whether a member that did not come to a call trains on elsewhere: none does."""
        return False

    def stepped(self) -> None:
        """Does nothing: no timeout changes here."""

    def broke(self) -> None:
        """No other run is opened."""


class Torchrun(Alone):
    """The process group that torchrun's environment describes; it never changes."""

    kind = "torchrun"

    def __init__(self, backend: str, timeout: float, node: Node) -> None:
        self._backend = backend
        self._timeout = timeout
        self._node = node
        self._store: Any = None

    def place(self) -> Place:
        """Where calls of all members meet: a store at rank 0."""
        return _place(self._store, "torchrun", dist.get_rank(), dist.get_world_size())

    def form(self, card: Callable[[], Card], load: Load) -> Optional[Formed]:
        if dist.is_initialized():
            self._store = self._agree()
        else:
            self._store = self._meet()
        group = Group.adopted(self._node.place)
        rank, world_size = dist.get_rank(), dist.get_world_size()
        self._store.set(f"card/{rank}", json.dumps(card()))
        # The store waits for those that have not come yet.
        cards = [json.loads(self._store.get(f"card/{other}")) for other in range(world_size)]
        cards = cards[self._node.rank :: self._node.count]
        if newest(cards) is None:
            load(cards, group.rank)
        return Formed(group, 0, os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"), cards)

    def _meet(self) -> Any:
        """Builds the process group at a store of this attempt alone; returns the store.

        torchrun's own store outlives a restart of its workers, and the addresses that they wrote
        with it: PyTorch 2.15 then connects to workers that are dead (pytorch issue 135712).
        """
        timeout = timedelta(seconds=self._timeout)
        lasting, rank, world_size = next(dist.rendezvous("env://", timeout=timeout))
        if rank == 0:
            store, token = self._serve(), secrets.token_hex(8)
            store.set(token, "here")
            lasting.set("lacuna/attempt", f"{store.port} {token}")
        else:
            store = self._follow(lasting)
        named = dist.PrefixStore("group", store)
        dist.init_process_group(
            self._backend, store=named, rank=rank, world_size=world_size, timeout=timeout
        )
        return store

    def _follow(self, lasting: Any) -> Any:
        """The store that rank 0 of this attempt serves, not one of an attempt before."""
        end = time.monotonic() + self._timeout
        while True:
            port, token = lasting.get("lacuna/attempt").decode().split()
            try:
                store = self._connect(int(port), timedelta(seconds=1.0))
                store.get(token)
                store.set_timeout(dist.default_pg_timeout)
                return store
            except RuntimeError:  # No server is there, or another program.
                if time.monotonic() > end:
                    raise
                time.sleep(POLL)

    def _agree(self) -> Any:
        """A store at rank 0, for a process group that the program has built."""
        port = torch.zeros(1, dtype=torch.long)
        if dist.get_rank() == 0:
            store = self._serve()
            port[0] = store.port
        dist.broadcast(port, 0)
        return store if dist.get_rank() == 0 else self._connect(int(port), dist.default_pg_timeout)

    def _serve(self) -> Any:
        host = os.environ["MASTER_ADDR"]
        return dist.TCPStore(host, 0, is_master=True, wait_for_workers=False)

    def _connect(self, port: int, timeout: timedelta) -> Any:
        host = os.environ["MASTER_ADDR"]
        return dist.TCPStore(host, port, is_master=False, wait_for_workers=False, timeout=timeout)

    def part(self, group: Group, leaving: bool) -> tuple[bool, bool]:
        """One member leaves: torchrun ends all, and starts all again."""
        group.part()
        return True, True


class Regroup:
    """Runs that the agent announces; each is a new group of the same processes.

    Members are workers. The agent announces nodes, and :class:`~lacuna.link.Link` makes them
    workers. Those with shards of one model (``node``) meet the workers of their place in a group
    for each place; they try the same run, and go on when all of them have met.
    """

    kind = "regroup"

    def __init__(
        self,
        link: Link,
        trainer: str,
        backend: str,
        worker: Worker = ONLY,
        node: Optional[Node] = None,
    ) -> None:
        self._link = link
        self.trainer = trainer
        self._backend = backend
        self._worker = worker
        self._node = node or Node()
        self._rendezvous = Rendezvous()
        #: The run of all workers, and that of those in this worker's group.
        self._all: Optional[Membership] = None
        self._run: Optional[Membership] = None
        self._attempt = 0
        #: The latest attempt at this run that a member has shown.
        self._latest = 0
        #: Groups in a row that broke before their first step, with no newer run as the reason.
        self._failures = 0
        #: Whether the present group has done a step.
        self._worked = False
        #: The run that was reported to the agent as broken.
        self._said: Optional[int] = None
        #: Whether members meet again in the same run, without a wait: one was busy.
        self._again = False

    def place(self) -> Place:
        """Where calls of the members of the last group meet."""
        run, link = self._all, self._link
        assert run is not None
        if run.world_size == 1:
            return _place(dist.HashStore(), "alone", 0, 1)
        prefix = f"{self.trainer}/{run.run}/{self._attempt}"

        def absent(store: Any, rank: int) -> bool:
            newest = link.newest
            if newest is not None and run.members[rank] not in newest.members:
                return link.newest_age > GRACE
            if newest is not None and newest.run > run.run:
                # Who has gone on shows it in the newest run.
                store = self._rendezvous.once(newest)
                if store is None:
                    return False
            return self._has_gone_on(store, run, rank)

        def over() -> Optional[str]:
            newest = link.newest
            return "the run is over" if newest is not None and newest.run > run.run else None

        def poll(look: Look) -> Optional[str]:
            return self._rendezvous.poll(run, look, lambda: None, over)

        return Place(prefix, run.rank, run.world_size, poll, absent)

    def goes_on(self, rank: int) -> bool:
        """Whether a member that did not come to a call is one of the newest run."""
        run, newest = self._all, self._link.newest
        return run is not None and newest is not None and run.members[rank] in newest.members

    def _here(self, run: Membership) -> str:
        """The name of the group that this worker tries."""
        name = f"{self.trainer}/{run.run}/{self._attempt}"
        return name if self._node.count == 1 else f"{name}.{self._node.rank}"

    def _met_by(self, store: Any, run: Membership, rank: int) -> tuple[int, int]:
        """Run and attempt of the group that a worker of the run shows that it meets, (0, 0) if none.

        A later attempt at this run is the one that is tried next here: members that count by
        themselves would follow each other without end.
        """
        number, attempt = met(peek(store, doing(self.trainer, run, rank)))
        if number == run.run:
            self._latest = max(self._latest, attempt)
        return number, attempt

    def _has_gone_on(self, store: Any, run: Membership, rank: int) -> bool:
        """Whether a worker of the run meets a later group than this one."""
        return self._met_by(store, run, rank) > (run.run, self._attempt)

    def show_busy(self) -> None:
        """Shows the others a sign of life while this member is busy.

        The other workers that have shards of its model wait for it, so they are busy too.
        """
        run = self._link.newest
        if run is None or not run.store:
            return
        store = self._rendezvous.once(run)
        try:
            if store is not None:
                first = run.rank - self._node.rank
                for rank in range(first, first + self._node.count):
                    put(store, doing(self.trainer, run, rank), f"busy {time.time()}")
        except (RuntimeError, OSError) as failure:
            self._rendezvous.drop()
            log.debug("no sign of life in the store: %s", failure)

    def let_go(self) -> None:
        """This member was busy and has let go of its group, which meets again."""
        self._again = True

    def moving(self) -> bool:
        """Whether a newer run is known than the present one."""
        newest = self._link.newest
        return newest is not None and (self._run is None or newest.run > self._run.run)

    def watch(self, step_seconds: float) -> Watch:
        """Gives a step up when a newer run has left out one of its members.

        A member that only leaves reaches the step boundary first. So the step has the usual time of
        a step before it is given up.
        """
        grace = max(GRACE, 2.0 * step_seconds)

        def look() -> Optional[str]:
            newest, run = self._link.newest, self._run
            if newest is None or run is None or newest.run <= run.run:
                return None
            if set(run.members) <= set(newest.members) or self._link.newest_age < grace:
                return None
            return f"run {newest.run} goes on without a member that does not answer"

        return look

    def form(self, card: Callable[[], Card], load: Load) -> Optional[Formed]:
        """Waits for a newer run, meets its members, builds the group. None: it must leave."""
        while True:
            run = self._next()
            if run is None:
                return None
            formed = self._try(run, card(), load)
            failure = self._together(formed if isinstance(formed, str) else None)
            if failure is not None:
                if isinstance(formed, Formed):
                    formed.group.close()
                formed = failure
            if isinstance(formed, Formed):
                if self._said == run.run:
                    self._link.say({"say": "whole", "run": run.run})
                    self._said = None
                return formed
            log.info("run %d, attempt %d: %s", run.run, self._attempt, formed)
            if run.world_size > 1 and not self.moving():
                self._rendezvous.withdraw(self._here(run), run)
            self.broke()

    def _together(self, failure: Optional[str]) -> Optional[str]:
        """Why a worker of this node did not succeed; None if all did."""
        if self._node.all(failure is None):
            return None
        return failure or "another worker of this node has not met its group"

    def part(self, group: Group, leaving: bool) -> tuple[bool, bool]:
        """Ends the group; whether this member departs now, and whether all do.

        A node departs with all of its workers, even if only one of them was asked before the step.
        """
        words = torch.zeros(group.world_size)
        words[group.rank] = float(leaving)
        failure = None if group.part(words) else "it broke"
        if self._node.add(words, failure) is not None:
            # It is not known who departs: perhaps all do.
            leaving = self._node.any(leaving)
            return leaving, leaving
        # Members of a node in the group: all of its workers, or one of each group.
        count = self._worker.count // self._node.count
        nodes = words.view(-1, count).sum(1) > 0.0
        return bool(nodes[group.rank // count]), bool(nodes.all())

    def stepped(self) -> None:
        """The group has done a step: its timeout was long enough."""
        self._failures = 0
        self._worked = True

    def broke(self) -> None:
        """The group is lost, or was never whole: reports it to the agent.

        Control then asks the silent members, and opens another run with those that answer.
        """
        run = self._run
        if run is None or self._link.leaving is not None or self.moving():
            # The agent knows already; a longer timeout would not have helped.
            return
        if self._is_one_busy(run):
            self._again = True
            return
        if not self._worked:
            self._failures += 1
        if self._said != run.run:
            self._said = run.run
            self._link.say({"say": "broken", "run": run.run})

    def _is_one_busy(self, run: Membership) -> bool:
        """Whether the group broke because a member is busy, or was and already meets it again."""
        if run.world_size == 1:
            return False
        store = self._rendezvous.once(run)
        # Another worker with shards of the same model may be busy for this one.
        mine = run.rank if self._node.count == 1 else None
        others = [rank for rank in range(run.world_size) if rank != mine]
        try:
            # One that is back shows another group, perhaps one that is given up here.
            signs = [
                self._rendezvous.lives(store, doing(self.trainer, run, rank))
                or self._met_by(store, run, rank) not in ((0, 0), (run.run, self._attempt))
                for rank in others
                if store is not None
            ]
        except (RuntimeError, OSError):
            self._rendezvous.drop()
            return False
        return any(signs)

    def _next(self) -> Optional[Membership]:
        """The run to try next: a newer one, else after some patience the same one again."""
        self._worked = False
        link, node = self._link, self._node
        timeout = None if self._run is None else 0.0 if self._again else PATIENCE
        self._again = False
        link.wait(lambda: link.leaving is not None or self.moving(), timeout)
        run, again = link.newest, self._run is not None and not self.moving()
        attempt = max(self._attempt + 1, self._latest) if again else 0
        self._latest = 0
        while run is not None and link.leaving is None:
            rows = node.try_gather(self._asked_to_leave, run.run, attempt)
            if rows is None:
                # Another worker of this node has left, and this one will be asked to.
                link.wait(lambda: link.leaving is not None, ORPHANED)
                if link.leaving is None:
                    raise RuntimeError("another worker of this node has ended")
            elif rows == [(run.run, attempt)] * node.count:
                self._all, self._attempt = run, attempt
                self._run = run.of_place(node.rank, node.count)
                return self._run
            else:
                number, highest = max(rows)
                run = self._at_least(number)
                attempt = int(highest) if run is not None and run.run == number else 0
        return None

    def _asked_to_leave(self) -> Optional[str]:
        return None if self._link.leaving is None else "asked to leave"

    def _at_least(self, number: float) -> Optional[Membership]:
        """The newest run, as soon as it is this one or a newer one, or when leaving."""

        def known() -> bool:
            newest = self._link.newest
            return self._link.leaving is not None or newest is not None and newest.run >= number

        self._link.wait(known, None)
        return self._link.newest

    def _try(self, run: Membership, card: Card, load: Load) -> Union[Formed, str]:
        prefix = self._here(run)
        # A group that breaks before its first step may only need longer for it.
        factor = 2.0 ** min(self._failures, DOUBLINGS)
        limit = min(float(card["timeout"]) * factor, LONGEST_TIMEOUT)
        card["timeout"] = limit
        if card["state"] is None:
            limit = max(limit, NEWCOMER * factor)
        if run.world_size == 1:
            if card["state"] is None:
                load([card], 0)
            return Formed(Group(0, 1), run.run, prefix, [card])

        def superseded() -> Optional[str]:
            return self._asked_to_leave() or ("a newer run is known" if self.moving() else None)

        cards = self._rendezvous.meet(prefix, run, card, superseded, limit)
        failure = self._together(cards if isinstance(cards, str) else None)
        if isinstance(cards, str) or failure is not None:
            return failure or "no cards came"
        if newest(cards) is None:
            # A checkpoint may take longer to read than a collective may take: it is read before
            # there is a group.
            load(cards, run.rank)
            rendezvous = self._rendezvous
            mine = loader(cards) == run.rank
            tell = rendezvous.announce if mine else rendezvous.await_announced
            reason = tell(prefix, run, superseded)
            if reason is not None:
                return reason
        store, reason = self._rendezvous.store(run, superseded)
        if reason is not None:
            return reason
        timeout = max(float(c["timeout"]) for c in cards)
        patience = min(FORMING * factor, timeout)
        apart = self._node.mesh is not None
        group = Group.form(store, prefix, run, timeout, self._backend, patience, apart)
        if isinstance(group, str):
            self._rendezvous.drop()
            return group
        return Formed(group, run.run, prefix, cards)


def from_environment(
    link: Link, worker: Worker, node: Node, backend: str, timeout: float
) -> Union[Alone, Torchrun, Regroup]:
    """Which of the three the environment asks for.

    Raises RuntimeError if there are several nodes and nothing that brings them together: each
    would train the same for itself, and Lacuna would count it once.
    """
    if os.environ.get("LACUNA_SOCKET"):
        trainer = os.environ.get("LACUNA_TRAINER") or "trainer"
        return Regroup(link, trainer, backend, worker, node)
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ and "MASTER_ADDR" in os.environ:
        return Torchrun(backend, max(timeout, 30.0), node)
    nodes = os.environ.get("LACUNA_WORLD_SIZE") or "1"
    if nodes != "1":
        raise RuntimeError(
            f"this trainer has {nodes} nodes, but its launcher does not bring them together: "
            "submit it with the launcher regroup or torchrun, or with one node at most"
        )
    return Alone()
