"""Stands in front of ``torchrun``: its nodes meet by a rendezvous of ours, named ``lacuna``.

Lacuna's agent puts this module as ``sitecustomize.py`` into a folder of its own, first on
``PYTHONPATH``. So torchrun's Python needs no package of Lacuna, and all of PyTorch from 1.13 on has
the rendezvous. It differs from PyTorch's ``c10d``:

* Nothing is unpickled. ``c10d`` keeps its state in the store as a pickle, which each node runs.
* The members are those that control has named, and their ranks are control's. Each writes one key
  and waits for those of the others, so no time passes for members that may still come.
* There are no keep-alives. Control hears of the end of a node by its agent.

Workers import it too. Each writes its uncaught exception to the agent as it happens, and torchrun
the ends of workers that could not: torchruns exit in any order, so the first of them to exit says
nothing about where the fault was.

The id of the rendezvous is the token of the incarnation, by which control's store knows its keys.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import json
import os
import signal
import sys
import time
from datetime import timedelta
from types import ModuleType
from typing import Any, List, Optional

NAME = "lacuna"
#: The module that has PyTorch's list of rendezvous.
HOME = "torch.distributed.elastic.rendezvous"
#: Seconds for an answer of the store, and for all members to come.
ANSWER, JOIN = 60, 120
#: The variable by which workers know the process of torchrun.
PARENT = "LACUNA_TORCHRUN"
#: Most letters of a failure's words.
WORDS = 4000


def register(api: Any) -> None:
    """Adds the rendezvous to those that PyTorch knows; ``api`` is the module at HOME."""

    class Fixed(api.RendezvousHandler):  # type: ignore[misc, name-defined]
        """A rendezvous of members that are known before."""

        def __init__(self, parameters: Any) -> None:
            self._parameters = parameters
            self._store: Any = None

        def get_backend(self) -> str:
            return NAME

        def next_rendezvous(self) -> Any:
            """The store, this node's rank and the number of nodes, once all nodes are here."""
            from torch.distributed import PrefixStore, TCPStore

            os.environ[PARENT] = str(os.getpid())
            asked = self._parameters
            rank, count = asked.get_as_int("rank"), asked.max_nodes
            if rank is None or not 0 <= rank < count:
                raise ValueError(f"--rdzv_conf=rank={rank} is no rank of {count} nodes")
            host, _, port = asked.endpoint.rpartition(":")
            try:
                store = TCPStore(
                    host, int(port), is_master=False, timeout=timedelta(seconds=ANSWER)
                )
                store = PrefixStore(asked.run_id, store)
                store.set(f"here/{rank}", "1")
            except RuntimeError as error:
                raise api.RendezvousConnectionError(f"the store does not answer: {error}") from None
            join = asked.get_as_int("join_timeout", JOIN)
            try:
                store.wait([f"here/{one}" for one in range(count)], timedelta(seconds=join))
            except RuntimeError as error:
                reason = f"not all {count} nodes are here: {error}"
                raise api.RendezvousTimeoutError(reason) from None
            self._store = store
            if not hasattr(api, "RendezvousInfo"):
                return store, rank, count
            build = api.RendezvousStoreInfo.build
            more = [None] if "local_addr" in inspect.signature(build).parameters else []
            return api.RendezvousInfo(store, rank, count, build(rank, store, *more))

        def is_closed(self) -> bool:
            return False

        def set_closed(self) -> None:
            """Nothing: control ends an incarnation."""

        def num_nodes_waiting(self) -> int:
            """None ever waits: another incarnation has a rendezvous of its own."""
            return 0

        def get_run_id(self) -> str:
            return str(self._parameters.run_id)

        def shutdown(self) -> bool:
            return True

    api.rendezvous_handler_registry.register(NAME, Fixed)


class _After(importlib.abc.MetaPathFinder):
    """Finds the module at HOME as the other finders do, and adds to it after its import."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Of HOME, once; None for all other modules."""
        if name != HOME:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        inner = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            inner(module)
            register(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _the_sites_own() -> Optional[importlib.machinery.ModuleSpec]:
    """The module of this name that this one hides, in a folder that Python searches later."""
    here = os.path.dirname(os.path.abspath(__file__))
    searched = [os.path.abspath(entry) for entry in sys.path]
    behind = searched[searched.index(here) + 1 :] if here in searched else searched
    return importlib.machinery.PathFinder.find_spec("sitecustomize", behind)


def _tell(at: float, rank: int, words: str, bare: bool = False) -> None:
    """Appends to the file of the agent that the worker of this local rank failed at this time.
    ``bare`` words name no cause."""
    line = {"t": at, "rank": rank, "failed": words[:WORDS], "bare": bare}
    try:
        with open(os.environ["LACUNA_PROGRESS_FILE"], "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
    except (KeyError, OSError):
        pass


def _words(error: Optional[BaseException]) -> str:
    """An exception, and those from which it came."""
    said: List[str] = []
    while error is not None and len(said) < 4:
        said.append(f"{type(error).__name__}: {error}".strip(": \n"))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return ", from ".join(said)


def _tell_of(kind: type, error: BaseException) -> None:
    """Tells the agent of a worker's exception or, in torchrun, of the workers that have failed."""
    rank = os.environ.get("LOCAL_RANK", "")
    # A program that a worker starts may fail, and the worker go on.
    is_worker = rank.isdigit() and os.environ.get(PARENT) == str(os.getppid())
    if kind.__name__ == "ChildFailedError":
        # Its ``failures`` and their fields are documented. They have whole seconds. torchrun itself
        # ends the workers that are left by SIGTERM, and newer ones count these too.
        failures = list(getattr(error, "failures", {}).values())
        own = [failure for failure in failures if failure.exitcode != -signal.SIGTERM]
        for failure in own or failures:
            code, name = failure.exitcode, failure.signal_name()
            how = f"with exit code {code}" if code > 0 else f"by signal {-code} ({name})"
            words = f"worker {failure.local_rank} ended {how}"
            _tell(float(failure.timestamp), failure.local_rank, words, bare=code > 0)
    elif is_worker and isinstance(error, Exception):
        _tell(time.time(), int(rank), _words(error))


def _at_exception(kind: type, error: BaseException, trace: Any) -> None:
    """Tells the agent. One line where torchrun is asked to end; for all else what Python prints."""
    _tell_of(kind, error)
    if kind.__name__ == "SignalException":
        print(f"torchrun was asked to end: {error}", file=sys.stderr, flush=True)
    else:
        sys.__excepthook__(kind, error, trace)


if __name__ == "sitecustomize":
    sys.meta_path.insert(0, _After())
    sys.excepthook = _at_exception
    _own = _the_sites_own()
    if _own is not None and _own.loader is not None:
        _own.loader.exec_module(importlib.util.module_from_spec(_own))
