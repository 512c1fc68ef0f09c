"""Executor: the thread that computes the policy, this one or another meanwhile (:mod:`.runner`)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..bundle.contract import Contract
from ..bundle.policy import SignalError
from ..interface import Decision, Signals


class Policy(Protocol):
    """Interface of :class:`gaitway_onboard.bundle.policy.OnboardPolicy` and of excitations."""

    contract: Contract

    def reset(self) -> None: ...

    @property
    def action(self) -> NDArray[np.float32]: ...

    @property
    def state(self) -> NDArray[np.float32]: ...

    @property
    def estimates(self) -> Mapping[str, NDArray[np.float32]]: ...

    def step(self, signals: Signals, command: tuple[float, ...]) -> NDArray[np.float32]: ...


class Executor(Protocol):
    def reset(self) -> None:
        """Forget the past."""
        ...

    def submit(self, signals: Signals, command: tuple[float, ...], now: float) -> bool:
        """Begin a step; False if the last one still runs."""
        ...

    def poll(self) -> Decision | None:
        """A step that has ended and was not fetched before; raises what the policy raised."""
        ...

    def close(self) -> None: ...


class InlineExecutor:
    """Computes at once: what simulated time wants."""

    def __init__(self, policy: Policy):
        self._policy, self._decision = policy, None

    _decision: Decision | None

    def reset(self) -> None:
        self._policy.reset()
        self._decision = None

    def submit(self, signals: Signals, command: tuple[float, ...], now: float) -> bool:
        self._decision = decide(self._policy, signals, command, now, time.perf_counter())
        return True

    def poll(self) -> Decision | None:
        decision, self._decision = self._decision, None
        return decision

    def close(self) -> None: ...


def decide(policy: Policy, signals: Signals, command: tuple[float, ...], now: float, started: float) -> Decision:
    """Step ``policy``; ``started`` is the :func:`time.perf_counter` of the hand-over."""
    state = policy.state
    try:
        targets, refused = policy.step(signals, command), None
    except SignalError as error:
        targets, refused = np.zeros(0, np.float32), str(error)
    compute = 1e6 * (time.perf_counter() - started)
    return Decision(now, command, state, policy.action, policy.estimates, targets, compute, refused)
