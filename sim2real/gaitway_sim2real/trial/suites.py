"""The suite of each family of tasks: a row for ours; a command of another package names its own."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from gaitway_files.errors import UserError
from gaitway_files.trust import object_named, require_trust
from gaitway_onboard.bundle.contract import CONTRACT_FILE, VELOCITY, Contract

from .suite import Suite

SUITES = {VELOCITY: "gaitway_velocity.suite:SUITE"}
"""Suites by the operator that gives a policy its commands."""
OURS = ("gaitway_tracking.suite:SUITE",)
"""Our suites of commands that name theirs."""
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
    if contract.suite in OURS:
        return suite_named(contract.suite)
    if not contract.suite:
        raise NoSuite(
            f"{contract.task} follows {', '.join(contract.command_names)}, and no suite judges it: give its command a "
            "suite, Command.suite = 'module:SUITE' (docs/your_task.md), and export it again"
        )
    require_trust(contract.suite.partition(":")[0], CONTRACT_FILE)
    return suite_named(contract.suite)


def suite_named(path: str) -> Suite:
    """The suite at ``module:OBJECT``, one of ours or of a module that the user named."""
    return _checked(_own(path) if path in OURS else object_named(path), path)


def suite_for(operator: str) -> Suite:
    """The suite of one of our families."""
    return _checked(_own(SUITES[operator]), SUITES[operator])


def _own(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


def _checked(found: Any, name: str) -> Suite:
    if not isinstance(found, Suite):
        raise NoSuite(f"{name} is a {type(found).__name__}, no Suite (gaitway_sim2real.trial.suite)")
    return found
