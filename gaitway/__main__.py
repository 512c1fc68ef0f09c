"""``python -m gaitway``."""

import os
import sys
from pathlib import Path

if not sys.flags.safe_path and os.path.realpath(sys.path[0]) == os.getcwd() != str(Path(__file__).parents[1]):
    del sys.path[0]  # a json.py there would be imported in the place of Python's own

from .cli import main

sys.exit(main())
