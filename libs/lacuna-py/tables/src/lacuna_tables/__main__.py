"""``python3 -m lacuna_tables FOLDER``: a member that holds rows (:mod:`lacuna_tables.member`)."""

import sys

from .member import main

sys.exit(main())
