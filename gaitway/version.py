"""``gaitway --version``: what a report of a fault must name."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from . import __version__

# Every command builds the option, so what is needed to answer it is imported then.


def version_line() -> str:
    """Gaitway's version and commit, as far as it is known, and Python's version, on one line."""
    import platform

    from .runs import provenance

    state = provenance.git_state()
    commit = "" if state is None else f", commit {state['commit'][:12]}{' with changes' if state['dirty'] else ''}"
    return f"{__version__}{commit}, Python {platform.python_version()}"


def installed_extras() -> list[str]:
    """The extras all of whose packages are installed; ``isaaclab`` where Isaac Lab itself is."""
    from .catalogue import EXTRAS

    asked = {name: packages for name, packages in EXTRAS.items() if name != "core"} | {"isaaclab": ("isaaclab",)}
    return [name for name, packages in asked.items() if all(map(_is_installed, packages))]


def _is_installed(package: str) -> bool:
    from importlib.metadata import PackageNotFoundError, version

    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


class ShowVersion(argparse.Action):
    """The option ``--version``. It asks git and looks for packages, which no other command has to wait for."""

    def __init__(self, option_strings: list[str], dest: str, **kwargs: Any):
        super().__init__(option_strings, dest, nargs=0, help="show version, commit, Python and extras", **kwargs)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        print(f"gaitway {version_line()}\nextras: {', '.join(installed_extras()) or 'none'}")
        parser.exit()
