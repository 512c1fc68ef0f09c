"""The suite of each family of tasks: a row for ours; a command of another package names its own."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from gaitway_files.errors import UserError
from gaitway_files.trust import object_named, require_trust
from gaitway_onboard.bundle.contract import CONTRACT_FILE, Contract
from gaitway_onboard.bundle.parts import VELOCITY

from .suite import Suite

SUITES = {VELOCITY: "gaitway_velocity.suite:SUITE"}
"""Suites by the operator that gives a policy its commands."""
OWN = ("gaitway_tracking.suite:SUITE", "gaitway_reach.suite:SUITE", "gaitway_lift.suite:SUITE")
"""Suites of our families that a command names; they need no trust."""
EARLIER = VELOCITY
"""Operator of the policies of verdicts that do not describe their metrics."""


class NoSuite(UserError):
    """A policy that no suite judges."""


def suite_of(contract: Contract) -> Suite:
    """The suite that judges policies of ``contract``.

    Raises :class:`NoSuite` without one, and :class:`TrustError` for one of a module that the user did not name.
    """
    if contract.operator in SUITES:
        return suite_for(contract.operator)
    if not contract.suite:
        raise NoSuite(
            f"{contract.task} follows {', '.join(contract.command_names)}, and no suite judges it: give its command a "
            "suite, Command.suite = 'module:SUITE' (docs/your_task.md), and export it again"
        )
    if contract.suite not in OWN:
        require_trust(contract.suite.partition(":")[0], CONTRACT_FILE)
    return suite_named(contract.suite)


def suite_named(path: str) -> Suite:
    """The suite at ``module:OBJECT``, one of ours or of a module that the user named."""
    return _imported(path) if path in OWN else _checked(object_named(path), path)


def suite_for(operator: str) -> Suite:
    """The suite of one of our families."""
    return _imported(SUITES[operator])


def _imported(path: str) -> Suite:
    module, _, name = path.partition(":")
    return _checked(getattr(import_module(module), name), path)


def _checked(found: Any, name: str) -> Suite:
    if not isinstance(found, Suite):
        raise NoSuite(f"{name} is a {type(found).__name__}, no Suite (gaitway_sim2real.trial.suite)")
    return found
