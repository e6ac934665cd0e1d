"""Checkpoints for the case that all members go: atomic, checksummed, pruned.

A checkpoint is two files in one folder::

    step-000000001200-5f2c9a.pt      what torch.save writes
    step-000000001200-5f2c9a.json    its size, SHA-256, step and samples

Both are written under another name, flushed to the disk and renamed, the data first. So
if the second file exists, the first is complete. A reader checks the size and the checksum of the
manifest. It skips a damaged checkpoint with a warning, and uses the next older one.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import os
import secrets
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Callable, Optional, cast

import torch

log = logging.getLogger("lacuna")

FORMAT = 2
#: Files of a dead writer are deleted when they are older than this, seconds.
STALE = 3600.0


@dataclass(frozen=True)
class Saved:
    """A complete checkpoint, by its manifest."""

    step: int
    samples: int
    path: Path
    sha256: str
    size: int


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
    """The checkpoints of one trainer, in one folder; ``keep`` newest ones stay."""

    def __init__(self, folder: str, keep: int = 3) -> None:
        self._folder = Path(folder)
        self._keep = max(1, keep)
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
        for saved in self._all():
            state, reason = _read(saved)
            if state is not None:
                self.newest = saved
                log.info("resumes from %s (step %d)", saved.path, saved.step)
                return state, saved
            self.damaged += 1
            log.warning("checkpoint %s is damaged and is passed over: %s", saved.path, reason)
        self.newest = None
        return None, None

    @property
    def busy(self) -> bool:
        """Whether a checkpoint is being written."""
        return self._writer is not None and self._writer.is_alive()

    def save(self, state: dict[str, Any], then: Optional[Callable[[Saved], None]] = None) -> bool:
        """Writes a state that does not change meanwhile. False if it failed, with a warning."""
        saved = self._write(state)
        if saved is None:
            self.failures += 1
            return False
        self.newest = saved
        self._prune()
        if then is not None:
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

    def _write(self, state: dict[str, Any]) -> Optional[Saved]:
        position = state["position"]
        step, samples = int(position["step"]), int(position["samples"])
        name = f"step-{step:012d}-{secrets.token_hex(3)}"
        data, manifest = self._folder / f"{name}.pt", self._folder / f"{name}.json"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with open(_unfinished(data), "wb") as file:
                sink = _Sink(file)
                torch.save(state, cast(BinaryIO, sink))
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
            }
            with open(_unfinished(manifest), "w", encoding="utf-8") as file:
                file.write(json.dumps(text) + "\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(_unfinished(manifest), manifest)
            _sync_folder(self._folder)
            return Saved(step, samples, data, sink.hash.hexdigest(), sink.size)
        except OSError as error:
            log.warning("no checkpoint of step %d, training goes on: %s", step, error)
        for leftover in (manifest, _unfinished(manifest), data, _unfinished(data)):
            try:
                leftover.unlink()
            except OSError:
                pass
        return None

    def _all(self) -> list[Saved]:
        """Complete checkpoints, the newest first."""
        try:
            names = [p for p in self._folder.iterdir() if p.suffix == ".json"]
        except OSError:
            return []
        found = []
        for manifest in names:
            try:
                value = json.loads(manifest.read_text(encoding="utf-8"))
                saved = Saved(
                    int(value["step"]),
                    int(value["samples"]),
                    self._folder / Path(value["file"]).name,
                    str(value["sha256"]),
                    int(value["bytes"]),
                )
                if int(value["format"]) != FORMAT:
                    raise ValueError(f"format {value['format']} is not known")
            except FileNotFoundError:
                continue
            except (OSError, ValueError, KeyError, TypeError) as error:
                self.damaged += 1
                log.warning("manifest %s is damaged and is passed over: %s", manifest, error)
                continue
            found.append(saved)
        return sorted(found, key=lambda s: (s.samples, s.step, s.path.name), reverse=True)

    def _prune(self) -> None:
        """Deletes all but the newest, the manifest first, and leftovers of dead writers."""
        try:
            for saved in self._all()[self._keep :]:
                saved.path.with_suffix(".json").unlink(missing_ok=True)
                saved.path.unlink(missing_ok=True)
            newest = max((p.stat().st_mtime for p in self._folder.iterdir()), default=0.0)
            for path in self._folder.iterdir():
                loose = path.name.startswith(".unfinished-") or (
                    path.suffix == ".pt"
                    and path.name.startswith("step-")
                    and not path.with_suffix(".json").exists()
                )
                if loose and path.stat().st_mtime < newest - STALE:
                    path.unlink(missing_ok=True)
        except OSError as error:
            log.debug("old checkpoints stay: %s", error)


def _unfinished(path: Path) -> Path:
    return path.with_name(f".unfinished-{path.name}")


def _read(saved: Saved) -> tuple[Optional[dict[str, Any]], str]:
    try:
        data = saved.path.read_bytes()
    except OSError as error:
        return None, str(error)
    if len(data) != saved.size:
        return None, f"{len(data)} bytes instead of {saved.size}"
    if hashlib.sha256(data).hexdigest() != saved.sha256:
        return None, "the checksum is wrong"
    try:
        # Schedulers and the user's own parts may hold more than tensors, and the file is the
        # trainer's own, so it is read in full (PyTorch 2.6 would by default read tensors only).
        state = torch.load(io.BytesIO(data), map_location="cpu", weights_only=False)
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
