"""The same changes of members under torchrun alone, for :mod:`benches`.

One torchrun a pretended node, with the settings that proved fastest: a store outside of the nodes,
and short waits. At a change torchrun ends all workers and starts all again, from a checkpoint.
Nodes must not share rank 0's store over meetings (``TORCH_DISABLE_SHARE_RDZV_TCP_STORE``): a
newcomer waits in vain for its address, since only the first meeting has written it (PyTorch 2.15,
``DynamicRendezvousHandler.next_rendezvous``).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Sequence

#: The kinds of change that torchrun knows.
KINDS = {
    "join": "another torchrun starts",
    "sigterm": "a torchrun gets SIGTERM",
    "sigkill": "a torchrun and its workers are killed",
}
#: More nodes than there will ever be at a time.
MOST = 64


@dataclass
class Torchruns:
    """The agents of torchrun, by the names of pretended nodes, oldest first."""

    module: Sequence[str]
    folder: Path
    env: dict[str, str]
    store_port: int
    workers: int
    agents: "dict[str, subprocess.Popen[bytes]]" = field(default_factory=dict)
    started: int = 0

    @property
    def argv(self) -> list[str]:
        """What starts torchrun with the program."""
        argv = [sys.executable, "-m", "torch.distributed.run", f"--nnodes=1:{MOST}"]
        argv += [f"--nproc_per_node={self.workers}", "--max_restarts=1000"]
        argv += ["--rdzv_backend=c10d", f"--rdzv_endpoint=127.0.0.1:{self.store_port}"]
        # Members are lost after three seconds without a sign of life; PyTorch 1.13 has fifteen.
        waits = "last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=3"
        argv += ["--rdzv_id=bench", f"--rdzv_conf=is_host=0,{waits}"]
        argv += ["--monitor_interval=0.1", f"--log_dir={self.folder / 'torchrun'}", "-r", "3"]
        return [*argv, "-m", *self.module]

    def start(self) -> None:
        """Starts one more node."""
        name = f"t{self.started:04d}"
        self.started += 1
        env = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            **self.env,
            "LACUNA_NODE": name,
            "LACUNA_CHECKPOINT_DIR": str(self.folder / "checkpoints"),
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        }
        with open(self.folder / f"{name}.out", "ab") as file:
            self.agents[name] = subprocess.Popen(
                self.argv,
                env=env,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )

    def end(self, name: str, number: int) -> None:
        """Ends the torchrun of a node by a signal. SIGKILL goes to its workers too."""
        agent = self.agents.pop(name)
        pids = _below(agent.pid) if number == signal.SIGKILL else []
        for pid in [agent.pid, *pids]:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
        agent.wait(60.0)

    def close(self) -> None:
        """Kills all."""
        for name in list(self.agents):
            self.end(name, signal.SIGKILL)

    def trial(self, kind: str, place: int, settle: Callable[[int, float], None]) -> float:
        """Changes the members and waits; the Unix time of the change.

        ``settle(members, since)`` waits until that many have trained since then.
        """
        began = time.time()
        if kind == "join":
            self.start()
        else:
            name = list(self.agents)[place]
            self.end(name, signal.SIGTERM if kind == "sigterm" else signal.SIGKILL)
        settle(len(self.agents) * self.workers, began)
        return began

    def restore(self, nodes: int) -> None:
        """Brings the number of nodes back to that before the change."""
        while len(self.agents) < nodes:
            self.start()
        while len(self.agents) > nodes:
            self.end(next(iter(self.agents)), signal.SIGTERM)


def _below(process: int) -> list[int]:
    """All descendants of a process (proc(5), ``/proc/pid/task/tid/children``)."""
    found: list[int] = []
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        for pid in map(int, children.read_text().split()):
            found += [pid, *_below(pid)]
    return found
