"""Checkpoints of parts of tables: frames in files, checksummed, renamed when complete."""

from __future__ import annotations

import hashlib
import logging
import os
from pathlib import Path
from typing import Any, Iterator, Optional

from lacuna.frames import head, pieces, receive

from .messages import message, named
from .rows import Rows, Tensors

log = logging.getLogger("lacuna")

#: Complete checkpoints of each part that stay.
KEEP = 2


def save(folder: Path, rows: Rows, member: str) -> None:
    """Writes all parts that lie here, and deletes what newer files have replaced. OSError."""
    if not rows.parts:
        return
    header, tensors = rows.state(rows.parts)
    header, listed = message(header, tensors)
    digest = hashlib.sha256()
    for piece in pieces({}, listed)[1:]:
        digest.update(piece)
    whole = pieces({**header, "sha256": digest.hexdigest()}, listed)
    path = folder / f"{rows.table.name}-{rows.newest:012d}-{member}.rows"
    half = path.with_name(f".{path.name}.half")
    with open(half, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        for piece in whole:
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())
    half.replace(path)
    _prune(folder, rows.table.name)


def _newest_first(folder: Path, table: str) -> list[Path]:
    paths = folder.glob(f"{table}-{'[0-9]' * 12}-*.rows")
    key = len(table) + 1
    return sorted(paths, key=lambda path: path.name[key : key + 12], reverse=True)


def _found(folder: Path, table: str) -> Iterator[tuple[Path, dict[str, Any], Tensors]]:
    """The good checkpoints of a table, newest first."""
    for path in _newest_first(folder, table):
        try:
            with open(path, "rb") as file:
                header, data = receive(file, path.stat().st_size)
            if hashlib.sha256(data).hexdigest() != header["sha256"]:
                raise ValueError("the checksum is wrong")
            tensors = named(header, data)
        except (OSError, ValueError, KeyError) as error:
            log.warning("checkpoint %s is passed over: %s", path, error)
            continue
        yield path, header, tensors


def restore(folder: Path, rows: Rows, parts: list[int]) -> Optional[int]:
    """Takes parts from their newest checkpoints, or with their first values.

    The oldest step of these; None if there was no part to take.
    """
    left, steps = set(parts), []
    for _, header, tensors in _found(folder, rows.table.name):
        here = left & set(header["parts"])
        if here:
            rows.put(header, tensors, here)
            steps += [step for part, step in zip(header["parts"], header["steps"]) if part in here]
            left -= here
        if not left:
            break
    rows.begin(sorted(left))
    steps += [0] * len(left)
    return min(steps, default=None)


def _prune(folder: Path, table: str) -> None:
    seen: dict[int, int] = {}
    for path in _newest_first(folder, table):
        try:
            with open(path, "rb") as file:
                header = head(file, path.stat().st_size)[0]
        except (OSError, ValueError):
            continue
        if all(seen.get(part, 0) >= KEEP for part in header["parts"]):
            try:
                path.unlink()
            except OSError:
                pass
        for part in header["parts"]:
            seen[part] = seen.get(part, 0) + 1
