"""A member that holds rows of embedding tables: ``python3 -m lacuna_tables FOLDER``.

Members of the dense part ask it (:mod:`lacuna_tables.tables`), over one connection each. It begins
with the proof that they know the token that this incarnation wrote into FOLDER
(:mod:`lacuna.frames`)::

    {"say":"look_up","applied":41}                 ids of each table; the rows come back
    {"say":"stage","step":42,"run":7,"size":2,"rank":0,"shares":2}   and gradients
    {"say":"put", ...}                             parts of a member that leaves or makes room
    {"say":"give","to":"c3"}                       a newcomer asks for its share

``applied`` is the last step that the asker has done: staged updates up to it are made first. On
SIGTERM, or when its agent asks, the member gives its parts to the others with all that is staged,
and ends with 75. Meanwhile it says "moved" to all requests; askers read the next map and go on.
"""

from __future__ import annotations

import argparse
import logging
import os
import secrets
import socket
import threading
import time
from typing import Optional, Sequence

from lacuna import frames
from lacuna.frames import Refused, introduce, stay
from lacuna.link import Link
from lacuna.messages import EXIT_LEFT, endpoint
from lacuna.worker import Worker

from .map import Directory, Map
from .messages import Header, receive, send
from .rows import PARTS, Rows, Table, Tensors
from .saving import restore, save

log = logging.getLogger("lacuna")

#: Seconds of silence after which a member that is asked counts as dead.
SILENCE = 20.0


class Moved(Refused):
    """Not all of these rows lie there now; the next map says where."""


def connected(address: str, token: str) -> socket.socket:
    """A connection to a member. OSError if it does not answer, Refused."""
    connection = socket.create_connection(endpoint(address), SILENCE)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        introduce(connection, token)
    except BaseException:
        connection.close()
        raise
    return connection


def asked(to: socket.socket, header: Header, tensors: Tensors) -> tuple[Header, Tensors]:
    """The answer to a message. OSError if there is none, Refused."""
    send(to, header, tensors)
    return answered(to)


def answered(source: socket.socket) -> tuple[Header, Tensors]:
    """The next answer. OSError if there is none, Refused."""
    header, tensors = receive(source)
    if header.get("say") != "done":
        raise (Moved if header.get("say") == "moved" else Refused)(str(header.get("why", header)))
    return header, tensors


class Holder:
    """What a table member does, without its connections.

    ``pace``: seconds that a looked-up and updated row takes at least, for slow members in tests.
    ``every``: steps between two checkpoints.
    """

    def __init__(
        self, name: str, directory: Optional[Directory], every: int = 100, pace: float = 0.0
    ) -> None:
        self.name = name
        self._directory = directory
        self._every = every
        self._pace = pace
        self._map: Optional[Map] = None
        self._saved = 0
        self.rows: dict[str, Rows] = {}
        #: Parts that another member gave, before the map says so.
        self.given: list[tuple[Header, Tensors]] = []
        self.leaving = False

    @classmethod
    def alone(cls, tables: Sequence[Table], pace: float = 0.0) -> "Holder":
        """One that holds all parts."""
        holder = cls("alone", None, pace=pace)
        for table in tables:
            holder.rows[table.name] = Rows(table)
            holder.rows[table.name].begin(range(PARTS))
        return holder

    def follow(self) -> None:
        """Reads the newest map, and takes or drops parts so that they are its own.

        Parts that were given come before those of checkpoints. The map is read once for both: a
        gift lies here before its map is out.
        """
        directory = self._directory
        if directory is None:
            return
        is_known = self._map is not None and directory.is_newest(self._map.number)
        found = self._map if is_known else directory.newest()
        if found is None:
            return
        for header, tensors in self.given:
            name = header["table"]
            if header["for"] <= found.number and name in found.tables:
                rows = self.rows.setdefault(name, Rows(found.tables[name]))
                mine = set(found.parts(name, self.name)) - set(rows.parts)
                rows.put(header, tensors, mine & set(header["parts"]))
        # A gift whose map is not out yet waits.
        self.given = [one for one in self.given if one[0]["for"] > found.number]
        if is_known:
            return
        self._map = found
        for name, table in found.tables.items():
            rows = self.rows.setdefault(name, Rows(table))
            mine = found.parts(name, self.name)
            rows.drop([part for part in rows.parts if part not in mine])
            missing = [part for part in mine if part not in rows.parts]
            if missing:
                step = restore(directory.folder, rows, missing)
                log.info("%d parts of %s begin at step %s", len(missing), name, step)

    def look_up(self, applied: int, tensors: Tensors) -> tuple[Header, Tensors]:
        """Rows of each table, after the updates up to a step."""
        began = time.monotonic()
        count, found, lost = 0.0, {}, {}
        for name, rows in self.rows.items():
            count += 2 / 3 * rows.apply(applied)
            if rows.lost:
                lost[name], rows.lost = {str(k): v for k, v in rows.lost.items()}, {}
            found[name] = rows.look_up(tensors[name])
            count += 1 / 3 * len(tensors[name])
        if applied >= self._saved + self._every and self._directory is not None:
            self.save(applied)
        self._wait(began, count)
        return {"say": "done", "lost": lost, "step": self.newest}, found

    @property
    def newest(self) -> int:
        """The newest step that is in any row."""
        return max((rows.newest for rows in self.rows.values()), default=0)

    def save(self, step: int) -> None:
        """Writes a checkpoint; a failure is logged."""
        self._saved = step
        try:
            for rows in self.rows.values():
                assert self._directory is not None
                save(self._directory.folder, rows, self.name)
        except OSError as error:
            log.warning("the checkpoint of step %d failed: %s", step, error)

    def stage(self, header: Header, tensors: Tensors) -> None:
        """Keeps the gradients of a share."""
        attempt = (int(header["run"]), int(header["size"]))
        for name, rows in self.rows.items():
            rows.stage(
                *(int(header["step"]), attempt, int(header["rank"]), int(header["shares"])),
                *(tensors[f"ids/{name}"], tensors[f"gradients/{name}"]),
            )

    def _wait(self, began: float, count: float) -> None:
        left = began + self._pace * count - time.monotonic()
        if left > 0.0:
            time.sleep(left)

    def hand_over(self, wanted: str = "") -> bool:
        """Gives parts to other members by the next map: all, or a newcomer's share.

        False if no other member can take them; then they are in a checkpoint.
        """
        directory = self._directory
        assert directory is not None
        while True:
            self.follow()
            now = self._map
            if now is None:
                return True
            others = [name for name in directory.members() if name != self.name]
            if not wanted and not others:
                self.save(self.newest)
                return self.name not in now.members
            new = now.with_one(wanted) if wanted else now.without(self.name, others)
            if wanted:
                # The others give their own parts.
                mine = {
                    table: [
                        new.holders[table][part] if holder == self.name else holder
                        for part, holder in enumerate(holders)
                    ]
                    for table, holders in now.holders.items()
                }
                new = Map(new.number, new.tables, mine)
            if new.holders == now.holders:
                return True
            try:
                for other in sorted(set(new.members) - {self.name}):
                    self._give(other, now, new)
            except (OSError, Refused) as error:
                log.warning("%s takes no parts: %s", other, error)
                if wanted:
                    return False
                time.sleep(0.1)
                if isinstance(error, OSError):
                    directory.forget(other)
                continue
            if directory.publish(new):
                self.follow()
                return True

    def _give(self, other: str, now: Map, new: Map) -> None:
        assert self._directory is not None
        given = {
            name: [p for p in new.parts(name, other) if now.holders[name][p] == self.name]
            for name in new.tables
        }
        if not any(given.values()):
            return
        entry = self._directory.member(other)
        if entry is None:
            raise Refused("it is gone")
        with connected(entry["address"], entry["token"]) as connection:
            for name, parts in given.items():
                header, tensors = self.rows[name].state(parts)
                asked(connection, {"say": "put", **header, "for": new.number}, tensors)


class Server(frames.Server):
    """Answers the callers of a :class:`Holder`; one message at a time."""

    def __init__(self, holder: Holder, host: str, token: str) -> None:
        super().__init__(lambda: [token], self._messages)
        self._holder = holder
        self._turn = threading.Lock()
        self.address = f"{host}:{self.port}"
        self.start()

    def _messages(self, connection: socket.socket) -> None:
        stay(connection)
        while True:
            header, tensors = receive(connection)
            send(connection, *self._reply(header, tensors))

    def _reply(self, header: Header, tensors: Tensors) -> tuple[Header, Tensors]:
        say = header.get("say")
        try:
            with self._turn:
                if self._holder.leaving:
                    return {"say": "moved", "why": "this member leaves"}, {}
                if say == "put":
                    self._holder.given.append((header, tensors))
                elif say == "give":
                    self._holder.follow()
                    self._holder.hand_over(str(header["to"]))
                elif say in ("look_up", "stage"):
                    self._holder.follow()
                    if say == "look_up":
                        return self._holder.look_up(int(header["applied"]), tensors)
                    self._holder.stage(header, tensors)
                else:
                    return {"say": "refused", "why": f"what is {say!r}?"}, {}
        except LookupError as error:
            return {"say": "moved", "why": str(error)}, {}
        except (ValueError, TypeError, OSError, RuntimeError) as error:
            return {"say": "refused", "why": str(error)}, {}
        return {"say": "done"}, {}

    def leave(self) -> bool:
        """Gives all parts away; False if there was no member to take them."""
        with self._turn:
            self._holder.leaving = True
            self._holder.follow()
            return self._holder.hand_over()


EPILOG = """examples:
  python3 -m lacuna_tables /shared/tables              under regroup or alone; ends by SIGTERM
  python3 -m lacuna_tables /shared/tables --every 50  a checkpoint each 50 steps
"""


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Holds rows until it is asked to leave: 75; 64 for wrong arguments."""
    parser = argparse.ArgumentParser(
        prog="python3 -m lacuna_tables",
        description="Holds rows of embedding tables for members that train.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", metavar="FOLDER", help="seen by all; also for checkpoints")
    parser.add_argument("--name", help="of this member (default: LACUNA_NODE, or host and process)")
    parser.add_argument("--host", help="address for the others (default: this host's name)")
    parser.add_argument("--every", type=int, default=100, help="steps between checkpoints (100)")
    parser.add_argument("--pace", type=float, default=0.0, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.every < 1 or options.pace < 0.0:
        parser.error("--every: expected 1 or more")
    logging.basicConfig(level=logging.INFO, format="%(created).3f %(name)s %(message)s")
    return hold(options.folder, options.name, options.host, options.every, options.pace)


def hold(
    folder: str,
    name: Optional[str] = None,
    host: Optional[str] = None,
    every: int = 100,
    pace: float = 0.0,
    as_stage: bool = False,
) -> int:
    """Holds rows until it is asked to leave; the exit code. Arguments as those of :func:`main`.

    ``as_stage``: the dense part is of the same trainer, and its end is the end of this member: 0.
    """
    host = host or socket.gethostname()
    name = name or os.environ.get("LACUNA_NODE") or f"{host}.{os.getpid()}"
    # An incarnation of a node gets a name of its own: its parts are not those of the last one.
    name = f"{name.replace('/', '_')}.{secrets.token_hex(3)}"
    directory = Directory(folder)
    holder = Holder(name, directory, every, pace)
    token = secrets.token_hex(16)
    server = Server(holder, host, token)
    address = os.environ.get("LACUNA_SOCKET")
    link = Link(address, os.environ.get("LACUNA_DEADLINE_FILE"), Worker.of(os.environ))
    link.start()
    directory.announce(name, server.address, token)
    _ask_for_share(directory, name)
    link.say({"say": "ready"})
    log.info("table member %s listens at %s", name, server.address)
    looks = 0
    while not link.wait(lambda: link.leaving is not None, 0.5 if as_stage else None):
        # One that still needs rows has a connection, but for a moment after a failure.
        looks = looks + 1 if directory.has_ended and not server.connections else 0
        if looks > 1:
            holder.save(holder.newest)
            directory.forget(name)
            link.close()
            return 0
    directory.announce(name, server.address, token, leaving=True)
    whole = server.leave()
    directory.forget(name)
    log.info("table member %s leaves%s", name, "" if whole else ", its rows are in a checkpoint")
    link.flush()
    link.close()
    return EXIT_LEFT


def _ask_for_share(directory: Directory, name: str) -> None:
    """A newcomer asks each member that has more than its share; deaths are the askers' business."""
    now = directory.newest()
    for other in now.members if now else []:
        entry = directory.member(other)
        try:
            if entry is not None:
                with connected(entry["address"], entry["token"]) as connection:
                    asked(connection, {"say": "give", "to": name}, {})
        except (OSError, Refused) as error:
            log.info("%s gives no parts: %s", other, error)
