"""Versions of what is installed."""

import platform

import numpy
from gaitway_files.versions import versions


def test_what_is_not_installed_is_left_out() -> None:
    assert versions("numpy", "no-such-package") == {"python": platform.python_version(), "numpy": numpy.__version__}
