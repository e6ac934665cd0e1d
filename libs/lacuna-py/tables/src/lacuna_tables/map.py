"""Where each part of a table lies: a folder that all members see, with numbered maps.

    map-00000007.json     for each table its member by part; the greatest number holds
    member-c1.json        address and token of a table member
    items-000000000040-c1.rows    a checkpoint of parts, see :mod:`lacuna_tables.saving`
    ended                 the training is over

A map is written whole and linked to its number. The link fails if that number exists, so of two
writers one wins, and the other reads again. Files are readable by their owner alone: who can read
a member's token may ask it.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Mapping, Optional, Sequence

from .rows import PARTS, Table

log = logging.getLogger("lacuna")


@dataclass(frozen=True)
class Map:
    """The member of each part of each table."""

    number: int
    tables: dict[str, Table]
    holders: dict[str, list[str]]

    def parts(self, table: str, member: str) -> list[int]:
        """The parts that a member holds."""
        return [part for part, holder in enumerate(self.holders[table]) if holder == member]

    @property
    def members(self) -> list[str]:
        """All members that hold a part."""
        return sorted({name for holders in self.holders.values() for name in holders})

    def without(self, member: str, others: Sequence[str]) -> "Map":
        """The next map: the parts of a member go to those of the others that have the fewest."""
        holders = {}
        for table, before in self.holders.items():
            now = list(before)
            counts = {other: before.count(other) for other in others}
            for part in self.parts(table, member):
                now[part] = min(others, key=lambda other: (counts[other], other))
                counts[now[part]] += 1
            holders[table] = now
        return Map(self.number + 1, self.tables, holders)

    def with_one(self, member: str) -> "Map":
        """The next map: a newcomer gets its share from those that have the most."""
        holders = {}
        for table, before in self.holders.items():
            now = list(before)
            names = sorted({*before, member})
            while True:
                counts = {name: now.count(name) for name in names}
                most = max(names, key=lambda name: (counts[name], name))
                if counts[most] <= counts[member] + 1:
                    break
                now[len(now) - 1 - now[::-1].index(most)] = member
            holders[table] = now
        return Map(self.number + 1, self.tables, holders)


class Directory:
    """The folder of one set of tables."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _write(self, name: str, value: Any) -> Path:
        half = self.folder / f".{name}.{secrets.token_hex(4)}.half"
        with open(half, "x", encoding="utf-8", opener=_private) as file:
            json.dump(value, file)
            file.flush()
            os.fsync(file.fileno())
        return half

    # Members.

    def announce(self, member: str, address: str, token: str, leaving: bool = False) -> None:
        """Says where a member listens, or that it leaves."""
        entry = {"address": address, "token": token, "leaving": leaving}
        half = self._write(member, entry)
        half.replace(self._entry(member))

    def _entry(self, member: str) -> Path:
        return self.folder / f"member-{member}.json"

    def forget(self, member: str) -> None:
        """A member is gone."""
        try:
            self._entry(member).unlink()
        except FileNotFoundError:
            pass

    def member(self, name: str) -> Optional[dict[str, Any]]:
        """What a member announced; None if it is gone."""
        try:
            entry = json.loads(self._entry(name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return entry if isinstance(entry, dict) else None

    def members(self) -> list[str]:
        """Members that can take parts."""
        names = [path.name[len("member-") : -len(".json")] for path in self._files("member-*.json")]
        entries = {name: self.member(name) for name in names}
        return sorted(name for name, entry in entries.items() if entry and not entry["leaving"])

    # The end.

    def end(self) -> None:
        """The training is over: members that hold rows as a stage of it may end."""
        (self.folder / "ended").touch(mode=0o600)

    @property
    def has_ended(self) -> bool:
        """Whether the training is over."""
        return (self.folder / "ended").exists()

    def _files(self, pattern: str) -> list[Path]:
        return sorted(self.folder.glob(pattern))

    # Maps.

    def newest(self) -> Optional[Map]:
        """The map that holds; None before the first."""
        found = self._files("map-*.json")
        if not found:
            return None
        value = json.loads(found[-1].read_text(encoding="utf-8"))
        tables = [Table.of(table) for table in value["tables"]]
        return Map(value["number"], {table.name: table for table in tables}, value["holders"])

    def is_newest(self, number: int) -> bool:
        """Whether no map follows that of a number."""
        return not self._path(number + 1).exists()

    def _path(self, number: int) -> Path:
        return self.folder / f"map-{number:08d}.json"

    def publish(self, new: Map) -> bool:
        """Makes a map the newest; False if another one has its number already."""
        tables = [table.described() for table in new.tables.values()]
        value = {"number": new.number, "tables": tables, "holders": new.holders}
        half = self._write(f"map-{new.number}", value)
        try:
            os.link(half, self._path(new.number))
        except FileExistsError:
            return False
        finally:
            half.unlink()
        for old in self._files("map-*.json")[:-8]:
            old.unlink()
        return True

    def first(self, tables: Mapping[str, Table], count: int, patience: float) -> Map:
        """The newest map, or the first one over ``count`` members as soon as they are there.

        TimeoutError if they are not, ValueError if the map has other tables.
        """
        end = time.monotonic() + patience
        while True:
            found = self.newest()
            if found is not None:
                if found.tables != dict(tables):
                    others = list(found.tables.values())
                    raise ValueError(f"{self.folder} has other tables: {others}")
                return found
            names = self.members()
            if len(names) >= count:
                holders = {name: [names[p % len(names)] for p in range(PARTS)] for name in tables}
                self.publish(Map(1, dict(tables), holders))
            elif time.monotonic() > end:
                raise TimeoutError(
                    f"{len(names)} of {count} table members are in {self.folder}: start more with "
                    f"python3 -m lacuna_tables {self.folder}"
                )
            else:
                time.sleep(0.05)

    def moved_from(self, dead: str, is_dead: Callable[[str], bool]) -> Optional[Map]:
        """The newest map, in which a dead member holds nothing. None if no other is there."""
        while True:
            found = self.newest()
            if found is None or dead not in found.members:
                return found
            others = [name for name in self.members() if name != dead and not is_dead(name)]
            if not others:
                return None
            if self.publish(found.without(dead, others)):
                self.forget(dead)
                log.warning("table member %s is dead: its parts go to %s", dead, ", ".join(others))


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
