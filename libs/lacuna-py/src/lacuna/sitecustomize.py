"""Stands in front of a program for ``lacuna stalls``: its steps are timed once it imports PyTorch.

Python imports a module of this name at its start. It lies in a folder of its own on ``PYTHONPATH``,
beside the package ``lacuna_stalls``: :mod:`lacuna.moments` and :mod:`lacuna.outside` of Lacuna. So
the program's Python needs no package of Lacuna.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from types import ModuleType
from typing import Any, Optional


class _AfterTorch(importlib.abc.MetaPathFinder):
    """Finds PyTorch as the other finders do, and wraps what it defines after its import."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Of ``torch``, once; None for all other modules."""
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        inner = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            inner(module)
            try:
                from lacuna_stalls.outside import install  # type: ignore[import-not-found]

                install()
            except Exception as error:  # noqa: BLE001 - the program trains without readings.
                print(f"lacuna stalls: no step is timed: {error!r}", file=sys.stderr)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _the_sites_own() -> Optional[importlib.machinery.ModuleSpec]:
    """The module of this name that this one hides, in a folder that Python searches later."""
    here = os.path.dirname(os.path.abspath(__file__))
    searched = [os.path.abspath(entry) for entry in sys.path]
    behind = searched[searched.index(here) + 1 :] if here in searched else searched
    return importlib.machinery.PathFinder.find_spec("sitecustomize", behind)


if "LACUNA_STALLS_INTO" in os.environ:
    sys.meta_path.insert(0, _AfterTorch())
_own = _the_sites_own()
if _own is not None and _own.loader is not None:
    _own.loader.exec_module(importlib.util.module_from_spec(_own))
