"""Which nodes of a trainer hold its tables while the others train: ``LACUNA_TABLE_NODES``.

Patterns of node names, separated by commas, as ``cpu*,fat[0-9]``. All members of a trainer have the
same setting. So each knows from a run's members alone who trains with it.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Callable, Mapping, Optional

SETTING = "LACUNA_TABLE_NODES"


def holds_tables(environment: Mapping[str, str]) -> Optional[Callable[[str], bool]]:
    """Whether a node, by its name, holds tables; None where no node of the trainer does."""
    patterns = [one.strip() for one in environment.get(SETTING, "").split(",") if one.strip()]
    if not patterns:
        return None
    return lambda node: any(fnmatchcase(node, pattern) for pattern in patterns)


def is_table_node(environment: Mapping[str, str]) -> bool:
    """Whether this node, ``LACUNA_NODE``, is one that holds tables."""
    holds = holds_tables(environment)
    return holds is not None and holds(environment.get("LACUNA_NODE", ""))
