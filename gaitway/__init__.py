"""Gaitway: one task definition, many worlds; one policy optimiser, many kinds of action.

Importing this package is instant; what it offers (:mod:`gaitway.api`) is imported when it is first used. The command
line is :mod:`gaitway.cli`.
"""

import sys

__version__ = "0.1.0"

_refusal = None
if sys.version_info < (3, 11):  # noqa: UP036  of a checkout, which pip has not refused
    _refusal = "needs Python 3.11, 3.12 or 3.13, and this is {}.{}".format(*sys.version_info)
elif sys.platform == "win32":
    _refusal = "runs on Linux: on Windows install it in WSL 2 (wsl --install) or in a container"
if _refusal is not None:
    # The command, or python -m gaitway: one line for its user. A program that imports Gaitway gets what it can catch.
    _program = sys.argv[0].replace("\\", "/").rpartition("/")[2].removesuffix(".exe")
    raise (SystemExit if _program in ("gaitway", "-m") else ImportError)(f"Gaitway {_refusal}")

OFFERED = {
    "train": "gaitway.api",
    "load_run": "gaitway.api",
    "evaluate": "gaitway.api",
    "export": "gaitway.api",
    "gate": "gaitway.api",
    "validate": "gaitway.api",
    "validate_all": "gaitway.api",
    "play": "gaitway.api",
    "make_vec": "gaitway.vectors",
    "Callback": "gaitway.callback",
    "Run": "gaitway.handles",
    "Policy": "gaitway.handles",
    "Bundle": "gaitway.handles",
    "Film": "gaitway.handles",
    "UserError": "gaitway_files.errors",
    "NotDone": "gaitway_files.errors",
}
"""Names that ``import gaitway`` offers, and their modules."""

TYPE_CHECKING = False  # importing typing takes longer than this file
if TYPE_CHECKING:
    from gaitway_files.errors import NotDone as NotDone
    from gaitway_files.errors import UserError as UserError

    from .api import evaluate as evaluate
    from .api import export as export
    from .api import gate as gate
    from .api import load_run as load_run
    from .api import play as play
    from .api import train as train
    from .api import validate as validate
    from .api import validate_all as validate_all
    from .callback import Callback as Callback
    from .handles import Bundle as Bundle
    from .handles import Film as Film
    from .handles import Policy as Policy
    from .handles import Run as Run
    from .vectors import make_vec as make_vec


def __getattr__(name: str) -> object:
    if name not in OFFERED:
        raise AttributeError(f"module 'gaitway' has no attribute {name!r}; it offers {', '.join(OFFERED)}")
    from importlib import import_module

    found = getattr(import_module(OFFERED[name]), name)
    if OFFERED[name] not in ("gaitway.api", "gaitway.vectors"):
        return found
    from .python_names import in_python

    return in_python(found)


def __dir__() -> list[str]:
    return sorted([*globals(), *OFFERED])
