"""Checkpoints for the case that all members go: atomic, checksummed, pruned.

A checkpoint is two files in one folder::

    step-000000001200-5f2c9a.pt      what torch.save writes
    step-000000001200-5f2c9a.json    its size, SHA-256, step and samples

Both are written under another name, flushed to the disk and renamed, the data first. So
if the second file exists, the first is complete. A reader checks the size and the checksum of the
manifest. It skips a damaged checkpoint with a warning, and uses the next older one.

Of a sharded model, each worker of the node writes its part: two files ``....0of2.pt`` and
``....0of2.json``. The checkpoint is complete when all parts are. As many workers read one part
each, any other number of workers reads all of them and cuts the tensors again.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import math
import os
import secrets
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Callable, Optional, cast

import torch

from .sharding import Node
from .state import joined_states
from .tree import pack, unpack

log = logging.getLogger("lacuna")

FORMAT = 2
#: Samples, step, name and number of parts of a checkpoint.
_Key = tuple[int, int, str, int]
#: Files of a dead writer are deleted when they are older than this, seconds.
STALE = 3600.0


@dataclass(frozen=True)
class File:
    """A file of a checkpoint, as its manifest describes it."""

    path: Path
    sha256: str
    size: int


@dataclass(frozen=True)
class Saved:
    """A complete checkpoint, by its manifests; of a sharded model, one file for each worker."""

    step: int
    samples: int
    files: tuple[File, ...]

    @property
    def path(self) -> Path:
        """Its file, or the first one."""
        return self.files[0].path


class _Sink(io.RawIOBase):
    """Writes and hashes; an error is kept, not raised.

    PyTorch's writer ends the process if its destructor meets a full disk, so the error is kept
    from it.
    """

    def __init__(self, file: io.BufferedWriter) -> None:
        super().__init__()
        self._file = file
        self.hash = hashlib.sha256()
        self.size = 0
        self.error: Optional[OSError] = None

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        length = memoryview(data).nbytes
        if self.error is None:
            try:
                self._file.write(data)
                self.hash.update(data)
                self.size += length
            except OSError as error:
                self.error = error
        return length


class Checkpoints:
    """The checkpoints of one trainer, in one folder; ``keep`` newest ones stay.

    Without a folder there are none. ``node``: the workers that write and read the parts of one
    together.
    """

    def __init__(
        self, folder: Optional[str], keep: int = 3, node: Optional[Node] = None
    ) -> None:
        self._folder = Path(folder or ".")
        #: Whether there is a folder.
        self.on = bool(folder)
        self._keep = max(1, keep)
        self._node = node or Node()
        self._writer: Optional[threading.Thread] = None
        #: Failed writes, and damaged checkpoints found.
        self.failures = 0
        self.damaged = 0
        #: The newest complete checkpoint known here.
        self.newest: Optional[Saved] = None

    def look(self) -> Optional[Saved]:
        """Finds the newest complete checkpoint; its content is not read."""
        found = self._all()
        if found and (self.newest is None or found[0].samples >= self.newest.samples):
            self.newest = found[0]
        return self.newest

    def load(self) -> tuple[Optional[dict[str, Any]], Optional[Saved]]:
        """The newest state that is complete and undamaged, or nothing."""
        found, limit = self._all(), math.inf
        while True:
            saved = next((one for one in found if one.samples <= limit), None)
            state, reason = (None, "") if saved is None else self._read(saved)
            if saved is not None and state is None:
                self.damaged += 1
                log.warning("checkpoint %s is damaged and is passed over: %s", saved.path, reason)
            samples = -1 if saved is None else saved.samples
            rows = self._node.gather(samples, float(state is not None))
            # All workers of the node take one that all of them can read.
            limit = min(row[0] for row in rows)
            if saved is None or limit < 0:
                self.newest = None
                return None, None
            if rows == [(limit, 1.0)] * len(rows):
                self.newest = saved
                log.info("resumes from %s (step %d)", saved.path, saved.step)
                return state, saved
            if all(row[0] == limit for row in rows):
                found.remove(saved)

    def _read(self, saved: Saved) -> tuple[Optional[dict[str, Any]], str]:
        """This worker's part of a state, or why it cannot be read."""
        rank, count = self._node.rank, self._node.count
        mine = len(saved.files) == count
        states = []
        for file in saved.files[rank : rank + 1] if mine else saved.files:
            state, reason = _read(file)
            if state is None:
                return None, f"{file.path.name} {reason}"
            states.append(state)
        return (states[0] if mine else joined_states(states, rank, count)), ""

    @property
    def busy(self) -> bool:
        """Whether a checkpoint is being written."""
        return self._writer is not None and self._writer.is_alive()

    def save(self, state: dict[str, Any], then: Optional[Callable[[Saved], None]] = None) -> bool:
        """Writes a state that does not change meanwhile. False if it failed, with a warning."""
        if not self._write(state):
            self.failures += 1
            return False
        saved = self.look()
        self._prune()
        if then is not None and saved is not None:
            then(saved)
        return True

    def save_beside(
        self, state: dict[str, Any], then: Optional[Callable[[Saved], None]] = None
    ) -> None:
        """Like :meth:`save`, in another thread while training goes on; one at a time."""
        if not self.busy:
            self._writer = threading.Thread(
                target=self.save, args=(state, then), name="lacuna-checkpoint", daemon=True
            )
            self._writer.start()

    def settle(self, timeout: Optional[float] = None) -> None:
        """Waits for a checkpoint that is being written."""
        if self._writer is not None and self._writer is not threading.current_thread():
            self._writer.join(timeout)

    def _write(self, state: dict[str, Any]) -> bool:
        position, node = state["position"], self._node
        step, samples = int(position["step"]), int(position["samples"])
        if node.count > 1:
            name = f"step-{step:012d}-{node.token}.{node.rank}of{node.count}"
        else:
            name = f"step-{step:012d}-{secrets.token_hex(3)}"
        data, manifest = self._folder / f"{name}.pt", self._folder / f"{name}.json"
        try:
            if manifest.exists():
                # This worker's part of this step: perhaps others have not written theirs.
                return True
            nested, tensors = pack(state)
            # The model once more, for torch.load(...)["model"]; its tensors are written once.
            model = {key: part for key, part in state["model"].items() if torch.is_tensor(part)}
            content = {"model": model, "text": nested, "tensors": tensors}
            self._folder.mkdir(parents=True, exist_ok=True)
            with open(_unfinished(data), "wb") as file:
                sink = _Sink(file)
                torch.save(content, cast(BinaryIO, sink))
                if sink.error is not None:
                    raise sink.error
                file.flush()
                os.fsync(file.fileno())
            os.replace(_unfinished(data), data)
            text = {
                "format": FORMAT,
                "step": step,
                "samples": samples,
                "file": data.name,
                "bytes": sink.size,
                "sha256": sink.hash.hexdigest(),
                "part": [node.rank, node.count],
            }
            with open(_unfinished(manifest), "w", encoding="utf-8") as file:
                file.write(json.dumps(text) + "\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(_unfinished(manifest), manifest)
            _sync_folder(self._folder)
            return True
        except (OSError, TypeError) as error:
            log.warning("no checkpoint of step %d, training goes on: %s", step, error)
        for leftover in (manifest, _unfinished(manifest), data, _unfinished(data)):
            try:
                leftover.unlink()
            except OSError:
                pass
        return False

    def _all(self) -> list[Saved]:
        """Complete checkpoints, the newest first."""
        return _complete(self._found())

    def _found(self) -> dict[_Key, dict[int, File]]:
        """Files with a manifest, by checkpoint and worker."""
        try:
            names = [p for p in self._folder.iterdir() if p.suffix == ".json"] if self.on else []
        except OSError:
            return {}
        found: dict[_Key, dict[int, File]] = {}
        for manifest in names:
            try:
                value = json.loads(manifest.read_text(encoding="utf-8"))
                path = self._folder / Path(value["file"]).name
                file = File(path, str(value["sha256"]), int(value["bytes"]))
                step, samples = int(value["step"]), int(value["samples"])
                rank, count = value.get("part", [0, 1])
                if int(value["format"]) != FORMAT:
                    raise ValueError(f"format {value['format']} is not known")
            except FileNotFoundError:
                continue
            except (OSError, ValueError, KeyError, TypeError) as error:
                self.damaged += 1
                log.warning("manifest %s is damaged and is passed over: %s", manifest, error)
                continue
            key = (samples, step, path.name.partition(".")[0], int(count))
            found.setdefault(key, {})[int(rank)] = file
        return found

    def _prune(self) -> None:
        """Deletes all but the newest, the manifest first, and leftovers of dead writers."""
        try:
            found = self._found()
            for saved in _complete(found)[self._keep :]:
                for file in saved.files:
                    file.path.with_suffix(".json").unlink(missing_ok=True)
                    file.path.unlink(missing_ok=True)
            partial = {
                file.path.stem
                for (_, _, _, count), files in found.items()
                for file in files.values()
                if len(files) < count
            }
            newest = max((p.stat().st_mtime for p in self._folder.iterdir()), default=0.0)
            for path in self._folder.iterdir():
                alone = (
                    path.suffix == ".pt"
                    and path.name.startswith("step-")
                    and not path.with_suffix(".json").exists()
                )
                loose = alone or path.name.startswith(".unfinished-") or path.stem in partial
                if loose and path.stat().st_mtime < newest - STALE:
                    path.unlink(missing_ok=True)
        except OSError as error:
            log.debug("old checkpoints stay: %s", error)


def _complete(found: dict[_Key, dict[int, File]]) -> list[Saved]:
    """The checkpoints of which all parts are there, the newest first."""
    return [
        Saved(step, samples, tuple(files[rank] for rank in range(count)))
        for (samples, step, _, count), files in sorted(found.items(), reverse=True)
        if len(files) == count
    ]


def _unfinished(path: Path) -> Path:
    return path.with_name(f".unfinished-{path.name}")


def _read(file: File) -> tuple[Optional[dict[str, Any]], str]:
    try:
        data = file.path.read_bytes()
    except OSError as error:
        return None, str(error)
    if len(data) != file.size:
        return None, f"{len(data)} bytes instead of {file.size}"
    if hashlib.sha256(data).hexdigest() != file.sha256:
        return None, "the checksum is wrong"
    try:
        # Tensors and texts alone: who can write into the folder must not run code here.
        parts = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
        state = unpack(parts["text"], parts["tensors"])
    except Exception as error:  # noqa: BLE001 - an older checkpoint may do.
        return None, f"cannot be read: {error}"
    if not isinstance(state, dict) or "position" not in state:
        return None, "is no state of a trainer"
    return state, ""


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
