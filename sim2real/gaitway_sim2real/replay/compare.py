"""A flight against a bundle: the policy on recorded signals, recorded frames in MuJoCo, and the policy in the loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gaitway_onboard.flight.reading import Flight
from gaitway_tasks.robots.parameters import RobotParameters

from .closed_loop import ClosedLoop, walk
from .motion import Motion, make_body, reconstruct
from .open_loop import OpenLoop, play
from .policy_check import PolicyCheck, load_policy, rerun
from .summary import ReplayError

EVERY = 0.02
"""Time between two states of a reconstructed motion [s]."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Comparison of a flight with the same signals, frames and commands elsewhere."""

    bundle: str
    policy: PolicyCheck | None
    """None if the policy was never in charge."""
    windows: OpenLoop
    walk: ClosedLoop | None
    why_no_walk: str

    @property
    def ok(self) -> bool:
        """False if the bundle that flew does not compute what was recorded: then one of the two computers is wrong."""
        return self.policy is None or self.policy.same or not self.policy.same_bundle

    def text(self, flight: Flight) -> str:
        """Comparison as text for a terminal."""
        lines = [f"against {self.bundle}:"]
        lines.append(self.policy.text(flight) if self.policy else "the policy was never in charge: nothing to re-run")
        lines.append(self.windows.text())
        lines.append(self.walk.text(flight) if self.walk else f"not walked in simulation: {self.why_no_walk}")
        return "\n  ".join(lines)


def compare(
    flight: Flight,
    bundle: str | Path,
    *,
    hung: bool = False,
    parameters: RobotParameters | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Comparison:
    """Raises :class:`ReplayError` for a bundle for another robot and a flight without states or frames.

    ``hung`` says that the base was fixed to a stand; ``parameters`` are those of the robot that flew, as identified.
    """
    load_policy(flight, bundle)
    body = make_body(flight, parameters=parameters)
    motion = reconstruct(flight, body, EVERY, hung=hung)
    say(f"velocity of the base: {motion.source}")
    policy = rerun(flight, bundle) if len(flight.policy) else None
    windows = play(flight, body, motion, hung=hung, parameters=parameters)
    loop, why = None, "the robot hung on its stand"
    if not hung:
        try:
            loop, why = walk(flight, bundle, body, motion, parameters=parameters), ""
        except ReplayError as error:
            why = str(error)
    return Comparison(bundle=str(bundle), policy=policy, windows=windows, walk=loop, why_no_walk=why)


def motion_of(flight: Flight, *, hung: bool = False) -> Motion:
    """The motion alone, for pictures."""
    return reconstruct(flight, make_body(flight), EVERY, hung=hung)
