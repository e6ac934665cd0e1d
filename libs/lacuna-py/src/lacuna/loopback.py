"""Agents and control on one machine, in one process: for tests, measurements and first trials.

:class:`Loopback` starts the workers of each pretended node, talks to them as Lacuna's agent does,
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

from .messages import EXIT_LEFT

#: A program that has said nothing for this many seconds is killed.
HANG_AFTER = 5.0
#: An agent does not speak for a program that has said nothing for this many seconds.
MUTE_AFTER = 2.0
#: After a break of the group, members without an agent's word are left out after this many seconds.
BROKEN_WAIT = 0.3
#: After the end of its first worker a node has this many seconds to end.
GRACE = 20.0


@dataclass
class Worker:
    """One of the processes on a pretended node."""

    process: "subprocess.Popen[bytes]"
    heard: float
    connection: Optional[socket.socket] = None
    #: Reads what it says.
    reader: Optional[threading.Thread] = None
    ready: bool = False
    #: The run that it has reported as broken.
    broken: int = 0
    #: Whether it has said that it ends: then it may be silent.
    ends: bool = False

    def signal(self, number: int) -> None:
        """Sends a signal to its process group, unless it has ended."""
        if self.process.returncode is not None:
            return
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass


@dataclass
class Node:
    """A pretended node and its workers, by local rank."""

    name: str
    output: Path
    workers: list[Worker] = field(default_factory=list)
    #: When its first worker ended.
    ending: Optional[float] = None
    #: Workers that have ended, and whether all have.
    ended: int = 0
    gone: bool = False
    #: The exit code of the first worker that failed or left, else 0.
    code: int = 0
    said: list[dict[str, Any]] = field(default_factory=list)

    @property
    def ready(self) -> bool:
        """Whether all workers wait for their group."""
        return all(worker.ready for worker in self.workers)

    @property
    def broken(self) -> int:
        """The newest run that a worker has reported as broken."""
        return max(worker.broken for worker in self.workers)

    @property
    def heard(self) -> float:
        """The time since which a worker has been silent that has a connection and does not end."""
        here = [worker for worker in self.workers if worker.connection is not None]
        times = [worker.heard for worker in here if not worker.ends]
        return min(times, default=time.monotonic())

    def tell(self, message: dict[str, Any]) -> None:
        """Sends a line to all workers; an ended one is no error."""
        for worker in self.workers:
            connection = worker.connection
            try:
                if connection is not None:
                    connection.sendall(json.dumps(message).encode() + b"\n")
            except OSError:
                pass

    def signal(self, number: int) -> None:
        """Sends a signal to all workers."""
        for worker in self.workers:
            worker.signal(number)


class Loopback:
    """A cluster of pretended nodes that runs ``argv`` on each, as ``workers`` processes."""

    def __init__(
        self,
        argv: Sequence[str],
        folder: Path,
        *,
        env: Optional[dict[str, str]] = None,
        hang_after: float = HANG_AFTER,
        store_port: int = 0,
        control: bool = True,
        workers: int = 1,
        place: Optional[Callable[[str], Sequence[str]]] = None,
        host: str = "127.0.0.1",
    ) -> None:
        """``place``: the command that runs a node's program elsewhere, as in a network namespace.

        ``host``: the address at which programs find the store.
        """
        if workers < 1:
            raise ValueError(f"a node needs at least one worker, not {workers}")
        self._argv = list(argv)
        self._place = place
        self._host = host
        self.folder = folder
        self._env = dict(env or {})
        self._hang_after = hang_after
        self._workers = workers
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
        """Starts the workers of a new node; it is no member yet."""
        path = tempfile.mktemp(prefix="lacuna-", suffix=f"-{name}")
        server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # An abstract name ends with its process, but belongs to one network namespace.
        abstract = self._place is None
        server.bind("\0" + path if abstract else path)
        server.listen(self._workers)
        output = self.folder / f"{name}.out"
        env = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            **self._env,
            "LACUNA_SOCKET": "@" + path if abstract else path,
            "LACUNA_NODE": name,
            "LACUNA_TRAINER": "loopback",
        }
        if self._workers > 1:
            env["LACUNA_LOCAL_WORLD_SIZE"] = str(self._workers)
        node = Node(name, output)
        argv = [*(self._place(name) if self._place else ()), *self._argv]
        with open(output, "ab") as file:
            for rank in range(self._workers):
                if self._workers > 1:
                    env["LACUNA_LOCAL_RANK"] = str(rank)
                process = subprocess.Popen(
                    argv, env=env, stdout=file, stderr=file, start_new_session=True
                )
                node.workers.append(Worker(process, time.monotonic()))
        with self._changed:
            self.nodes[name] = node
        jobs: list[tuple[Callable[..., None], Any]] = [(self._accept, server)]
        jobs += [(self._guard, worker) for worker in node.workers]
        for job, subject in jobs:
            threading.Thread(target=job, args=(node, subject), name=name, daemon=True).start()
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

    def signal(self, name: str, number: int, local_rank: Optional[int] = None) -> None:
        """Sends a signal to one worker, or all; the consequences are handled as by an agent."""
        node = self.nodes[name]
        (node if local_rank is None else node.workers[local_rank]).signal(number)

    # Observations.

    def wait(self, ready: Callable[[], bool], timeout: float, what: str) -> None:
        """Waits for a condition. Raises TimeoutError with the end of the programs' output."""
        with self._changed:
            if not self._changed.wait_for(ready, timeout):
                words = "\n".join(f"--- {name}: {self.words(name)}" for name in self.nodes)
                raise TimeoutError(f"after {timeout} s not true: {what}\n{words}")

    def wait_ready(self, name: str, timeout: float = 60.0) -> None:
        """Waits until all workers wait for their group. RuntimeError if one ends before."""
        node = self.nodes[name]
        self.wait(lambda: node.ready or node.ending is not None, timeout, f"{name} is ready")
        if node.ending is not None:
            raise RuntimeError(f"{name} ended before it was ready: {self.words(name)}")

    def wait_gone(self, name: str, timeout: float = 30.0) -> int:
        """Waits for the end of all workers: the code of the first that failed or left, else 0."""
        node = self.nodes[name]
        self.wait(lambda: node.gone, timeout, f"{name} has ended")
        return node.code

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
            for worker in node.workers:
                worker.process.wait(10.0)
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
                    "store": f"{self._host}:{self.store_port}",
                    "token": f"token-{self.run}",
                }
            )
        self._changed.notify_all()

    def _accept(self, node: Node, server: socket.socket) -> None:
        """Takes the connections of a node's workers, in any order."""
        server.settimeout(0.1)
        connected = 0
        while connected < len(node.workers) and not node.gone and not self._closed:
            try:
                connection = server.accept()[0]
            except socket.timeout:
                continue
            connected += 1
            reader = threading.Thread(
                target=self._listen, args=(node, connection), name=node.name, daemon=True
            )
            reader.start()
        path = server.getsockname()
        server.close()
        if isinstance(path, str) and path:
            os.unlink(path)

    def _listen(self, node: Node, connection: socket.socket) -> None:
        buffer = b""
        worker: Optional[Worker] = None
        try:
            while data := connection.recv(1 << 16):
                *lines, buffer = (buffer + data).split(b"\n")
                with self._changed:
                    for line in lines:
                        message = json.loads(line)
                        if worker is None:
                            worker = node.workers[message["local_rank"]]
                            worker.connection = connection
                            worker.reader = threading.current_thread()
                        self._heard(node, worker, message)
                    self._changed.notify_all()
        except OSError:
            pass
        if worker is not None:
            worker.connection = None
        connection.close()

    def _guard(self, node: Node, worker: Worker) -> None:
        """Waits for the end of a worker; one that ends alone ends its node, as the agent says."""
        code = worker.process.wait()
        if worker.reader is not None:
            # What it has said counts before its end does.
            worker.reader.join(1.0)
        with self._changed:
            node.ending = node.ending or time.monotonic()
            node.code = node.code or code
            if code == EXIT_LEFT:
                node.signal(signal.SIGUSR1)
            elif code != 0:
                node.signal(signal.SIGKILL)
            node.ended += 1
            node.gone = node.ended == len(node.workers)
            if node.gone and node.name in self.members and self.nodes.get(node.name) is node:
                self._open([m for m in self.members if m != node.name])
            self._changed.notify_all()

    def _heard(self, node: Node, worker: Worker, message: dict[str, Any]) -> None:
        worker.heard = time.monotonic()
        node.said.append(message)
        if message["say"] == "ready":
            worker.ready = True
        elif message["say"] in ("done", "exiting"):
            worker.ends = True
        elif message["say"] == "progress":
            self.progress.append(message)
        elif message["say"] in ("broken", "whole"):
            worker.broken = message["run"] if message["say"] == "broken" else 0
            self._judge()

    def _judge(self) -> None:
        """A broken group goes on with all members that report it or whose agent answers."""
        now = time.monotonic()
        members = [self.nodes[name] for name in self.members]
        # An agent does not report for a node of which a worker is silent.
        mute = [node for node in members if now - node.heard > MUTE_AFTER]
        others = [node for node in members if node.broken != self.run or node in mute]
        if not self._control or len(others) == len(members):
            self._broken_at = None
            return
        if self._broken_at is None:
            self._broken_at = now
        if others and now < self._broken_at + BROKEN_WAIT:
            return
        for node in mute:
            node.signal(signal.SIGKILL)
        self._open([node.name for node in members if node not in mute])

    def _watch(self) -> None:
        """Kills programs that have fallen silent, as the agent does."""
        while not self._closed:
            time.sleep(0.05)
            now = time.monotonic()
            for node in list(self.nodes.values()):
                late = node.ending is not None and now - node.ending > GRACE
                if late or now - node.heard > self._hang_after:
                    node.signal(signal.SIGKILL)
            with self._changed:
                self._judge()
