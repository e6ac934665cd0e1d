"""Embedding tables at members of their own, beside a dense part that trains by ``lacuna.elastic``.

A package of its own beside :mod:`lacuna`. :mod:`lacuna_tables.tables` says how it is used.
"""

from .rows import Table
from .tables import Tables

__all__ = ["Table", "Tables"]
