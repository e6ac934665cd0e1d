"""Measurements of the package, which stand beside it and are not installed.

In ``libs/lacuna-py``: ``python3 -m benches``, and ``python3 -m benches.loops``. They measure the
``lacuna`` that Python finds, as of ``PYTHONPATH``; without one, the package beside them.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent

if find_spec("lacuna") is None:
    sys.path.insert(0, str(HERE / "src"))
