"""Errors of ``import gaitway``: options of the command line by their names in Python."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

from gaitway_files.errors import NotDone, UserError

TRUST = re.compile(r"--trust (\S+?)(?=[,;.:)]*(?:\s|$))")
FLAGS = re.compile(r"--(resume|quiet|lora|rough|distributed)\b")
OPTION = re.compile(r"(?<![\w-])--([a-z][a-z-]*[a-z])\b")


def in_python(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, whose errors name arguments in place of options."""

    @functools.wraps(function)
    def called(*given: Any, **named: Any) -> Any:
        try:
            return function(*given, **named)
        except (UserError, NotDone) as error:
            error.args = (said(str(error)), *error.args[1:])
            raise

    return called


def said(message: str) -> str:
    """A message of the command line as Python's users know its options."""
    message = TRUST.sub(r'gaitway_files.trust.trust("\1")', message)
    message = FLAGS.sub(r"\1=True", message)
    return OPTION.sub(lambda match: match[1].replace("-", "_"), message)
