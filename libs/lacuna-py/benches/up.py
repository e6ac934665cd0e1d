"""The services of ``lacuna up`` for a measurement."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Callable, Optional


def until(ready: Callable[[], bool], limit: float, what: str, every: float = 0.1) -> None:
    """Waits until something holds. Raises RuntimeError after ``limit`` seconds."""
    end = time.monotonic() + limit
    while not ready():
        if time.monotonic() > end:
            raise RuntimeError(f"after {limit:.0f} s {what}")
        time.sleep(every)


class Up:
    """``lacuna up`` with data below a folder, from entering to leaving; its log if that fails."""

    def __init__(self, program: str, folder: Path, config: str) -> None:
        self._program = program
        self._log = folder / "up.log"
        self._config = folder / "lacuna.toml"
        self._config.write_text(config)
        self._env = {**os.environ, "LACUNA_DATA_DIR": str(folder / "data")}

    @staticmethod
    def program(given: Optional[str]) -> Optional[str]:
        """The path of the program: as given, else of target/release, else of PATH; None, and words
        to standard error, without one."""
        built = (p / "target" / "release" / "lacuna" for p in Path(__file__).resolve().parents)
        known = next((str(path) for path in built if path.exists()), None)
        found = given or known or shutil.which("lacuna")
        if found is None:
            print("benches: lacuna is not here: --lacuna PROGRAM", file=sys.stderr)
            return None
        return str(Path(found).absolute())

    def lacuna(self, *arguments: str) -> str:
        """The output of a command of ``lacuna``. Raises CalledProcessError."""
        argv = [self._program, *arguments]
        done = subprocess.run(argv, env=self._env, stdout=subprocess.PIPE, text=True, check=True)
        return done.stdout

    def noted(self, pattern: str) -> list[str]:
        """What the pattern's group is in each line of control's log that has it."""
        log = (self._log.parent / "data" / "logs" / "control.log").read_text(errors="replace")
        return [found[1] for line in log.splitlines() if (found := re.search(pattern, line))]

    def __enter__(self) -> "Up":
        with open(self._log, "w", encoding="utf-8") as log:
            argv = [self._program, "up", "--config", str(self._config)]
            self._up = subprocess.Popen(argv, env=self._env, stdout=log, stderr=log)
        try:
            until(lambda: "\nup after " in self._log.read_text(), 60.0, "lacuna up is not up")
        except RuntimeError as error:
            self.__exit__(type(error))
            raise
        return self

    def __exit__(self, kind: Optional[type], *_: object) -> None:
        self._up.send_signal(signal.SIGTERM)
        try:
            self._up.wait(60.0)
        except subprocess.TimeoutExpired:
            self._up.kill()
        if kind is not None:
            print(self._log.read_text(), file=sys.stderr)
