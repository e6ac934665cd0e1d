"""Agents and control on one machine, in one process: for tests, measurements and first trials.

:class:`Loopback` starts a program once per pretended node, talks to it as Lacuna's agent does,
and opens a new run whenever a node joins, leaves, dies or falls silent. The programs, the store
and the process groups are real; only Lacuna itself is replaced.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Optional, Sequence

#: A program that has said nothing for this many seconds is killed.
HANG_AFTER = 5.0
#: An agent does not speak for a program that has said nothing for this many seconds.
MUTE_AFTER = 2.0
#: After a break of the group, members without an agent's word are left out after this many seconds.
BROKEN_WAIT = 0.3


@dataclass
class Node:
    """A pretended node and the program on it."""

    name: str
    process: "subprocess.Popen[bytes]"
    heard: float
    output: Path
    connection: Optional[socket.socket] = None
    ready: bool = False
    gone: bool = False
    #: The run that it has reported as broken.
    broken: int = 0
    said: list[dict[str, Any]] = field(default_factory=list)

    def tell(self, message: dict[str, Any]) -> None:
        """Sends a line; an ended program is no error."""
        try:
            if self.connection is not None:
                self.connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            pass

    def signal(self, number: int) -> None:
        """Sends a signal to the program's process group."""
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass


class Loopback:
    """A cluster of pretended nodes that runs ``argv`` on each."""

    def __init__(
        self,
        argv: Sequence[str],
        folder: Path,
        *,
        env: Optional[dict[str, str]] = None,
        hang_after: float = HANG_AFTER,
        store_port: int = 0,
        control: bool = True,
    ) -> None:
        self._argv = list(argv)
        self.folder = folder
        self._env = dict(env or {})
        self._hang_after = hang_after
        #: Whether reports of broken groups are handled.
        self._control = control
        self._broken_at: Optional[float] = None
        self._changed = threading.Condition()
        self.nodes: dict[str, Node] = {}
        self.members: list[str] = []
        self.run = 0
        #: Every report of rank 0, in the order in which it came.
        self.progress: list[dict[str, Any]] = []
        self._closed = False
        self.store_port = store_port
        self.store = self._start_store()
        threading.Thread(target=self._watch, name="loopback-watch", daemon=True).start()

    def __enter__(self) -> "Loopback":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Changes of nodes.

    def start(self, name: str) -> Node:
        """Starts the program on a new node; it is no member yet."""
        path = tempfile.mktemp(prefix="lacuna-", suffix=f"-{name}")
        server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        server.bind("\0" + path)
        server.listen(1)
        output = self.folder / f"{name}.out"
        env = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            **self._env,
            "LACUNA_SOCKET": "@" + path,
            "LACUNA_NODE": name,
            "LACUNA_TRAINER": "loopback",
        }
        with open(output, "ab") as file:
            process = subprocess.Popen(
                self._argv, env=env, stdout=file, stderr=file, start_new_session=True
            )
        node = Node(name, process, time.monotonic(), output)
        with self._changed:
            self.nodes[name] = node
        threading.Thread(
            target=self._listen, args=(node, server), name=f"agent-{name}", daemon=True
        ).start()
        return node

    def join(self, *names: str, timeout: float = 60.0) -> None:
        """Waits until programs are ready, then opens a run with them too."""
        for name in names:
            self.wait_ready(name, timeout)
        with self._changed:
            self._open([*self.members, *(n for n in names if not self.nodes[n].gone)])

    def leave(self, name: str, deadline: Optional[float] = None) -> None:
        """Its node is wanted: the program leaves, and the others go on without it."""
        message: dict[str, Any] = {"tell": "leave"}
        if deadline is not None:
            message["deadline"] = deadline
        self.nodes[name].tell(message)
        with self._changed:
            if name in self.members:
                self._open([m for m in self.members if m != name])

    def signal(self, name: str, number: int) -> None:
        """Sends a signal to the program; the consequences are handled as by an agent."""
        self.nodes[name].signal(number)

    # Observations.

    def wait(self, ready: Callable[[], bool], timeout: float, what: str) -> None:
        """Waits for a condition. Raises TimeoutError with the end of the programs' output."""
        with self._changed:
            if not self._changed.wait_for(ready, timeout):
                words = "\n".join(f"--- {name}: {self.words(name)}" for name in self.nodes)
                raise TimeoutError(f"after {timeout} s not true: {what}\n{words}")

    def wait_ready(self, name: str, timeout: float = 60.0) -> None:
        """Waits until a program waits for its group. Raises RuntimeError if it ends before."""
        node = self.nodes[name]
        self.wait(lambda: node.ready or node.gone, timeout, f"{name} is ready")
        if node.gone:
            raise RuntimeError(f"{name} ended before it was ready: {self.words(name)}")

    def wait_gone(self, name: str, timeout: float = 30.0) -> int:
        """Waits for a program's end and gives its exit code."""
        node = self.nodes[name]
        self.wait(lambda: node.gone, timeout, f"{name} has ended")
        return node.process.wait(timeout)

    def wait_step(self, step: int, timeout: float = 60.0) -> None:
        """Waits until a step has been reported."""
        self.wait(
            lambda: bool(self.progress) and self.progress[-1]["step"] >= step,
            timeout,
            f"step {step} is reported",
        )

    def wait_together(self, timeout: float = 60.0) -> None:
        """Waits until the newest run reports a step of its own."""
        run = self.run
        self.wait(
            lambda: (
                self.run > run
                or any(p["run"] == run and p["samples"] > 0 for p in self.progress[-20:])
            ),
            timeout,
            f"run {run} trains",
        )

    def words(self, name: str) -> str:
        """The end of a program's output."""
        return self.nodes[name].output.read_text(errors="replace")[-2000:]

    def close(self) -> None:
        """Kills whatever still runs, and waits for it."""
        self._closed = True
        for node in self.nodes.values():
            node.signal(signal.SIGKILL)
        for node in self.nodes.values():
            node.process.wait(10.0)
        self.stop_store()

    # The store.

    def _start_store(self) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-m", "lacuna.store", "--port", str(self.store_port)],
            env={**os.environ, **self._env},
            stdout=subprocess.PIPE,
            text=True,
        )
        line = process.stdout.readline() if process.stdout else ""
        if "listening on" not in line:
            process.kill()
            raise RuntimeError(f"the store did not start: {line!r}")
        self.store_port = int(line.rsplit(":", 1)[1])
        return process

    def stop_store(self) -> None:
        """Kills the store as a power cut would."""
        self.store.kill()
        self.store.wait(10.0)
        if self.store.stdout:
            self.store.stdout.close()

    def restart_store(self) -> None:
        """The store comes back at the same port, empty."""
        self.store = self._start_store()

    # Agents and control.

    def _open(self, members: list[str]) -> None:
        self.run += 1
        self.members = sorted(members)
        self._broken_at = None
        for rank, name in enumerate(self.members):
            self.nodes[name].tell(
                {
                    "tell": "run",
                    "run": self.run,
                    "rank": rank,
                    "members": self.members,
                    "store": f"127.0.0.1:{self.store_port}",
                }
            )
        self._changed.notify_all()

    def _listen(self, node: Node, server: socket.socket) -> None:
        server.settimeout(0.1)
        buffer = b""
        try:
            while node.connection is None and node.process.poll() is None and not self._closed:
                try:
                    connection = server.accept()[0]
                    node.heard = time.monotonic()
                    node.connection = connection
                except socket.timeout:
                    continue
            server.close()
            while node.connection is not None:
                data = node.connection.recv(1 << 16)
                if not data:
                    break
                *lines, buffer = (buffer + data).split(b"\n")
                with self._changed:
                    for line in lines:
                        self._heard(node, json.loads(line))
                    self._changed.notify_all()
        except OSError:
            pass
        with self._changed:
            node.gone = True
            if node.name in self.members and self.nodes.get(node.name) is node:
                self._open([m for m in self.members if m != node.name])
            self._changed.notify_all()

    def _heard(self, node: Node, message: dict[str, Any]) -> None:
        node.heard = time.monotonic()
        node.said.append(message)
        if message["say"] == "ready":
            node.ready = True
        elif message["say"] == "progress":
            self.progress.append(message)
        elif message["say"] in ("broken", "whole"):
            node.broken = message["run"] if message["say"] == "broken" else 0
            self._judge()

    def _judge(self) -> None:
        """A broken group goes on with all members that report it or whose agent answers."""
        now = time.monotonic()
        members = [self.nodes[name] for name in self.members]
        others = [node for node in members if node.broken != self.run]
        if not self._control or len(others) == len(members):
            self._broken_at = None
            return
        if self._broken_at is None:
            self._broken_at = now
        if others and now < self._broken_at + BROKEN_WAIT:
            return
        silent = [node for node in others if now - node.heard > MUTE_AFTER]
        for node in silent:
            node.signal(signal.SIGKILL)
        self._open([node.name for node in members if node not in silent])

    def _watch(self) -> None:
        """Kills programs that have fallen silent, as the agent does."""
        while not self._closed:
            time.sleep(0.05)
            now = time.monotonic()
            for node in list(self.nodes.values()):
                if node.connection is not None and not node.gone:
                    if now - node.heard > self._hang_after:
                        node.signal(signal.SIGKILL)
            with self._changed:
                self._judge()
