"""The source of rollouts that are one update behind: it acts while the learner learns, with the same result always."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor

from .collector import Collector
from .core.threads import result_of
from .models.actor_critic import ActorCritic
from .rollout import EnvRollout, rollout_from_state, rollout_state
from .symmetry import Symmetry


class DecoupledCollector(Collector):
    """Plays the next rollout in a background thread while the learner works on the last (Cleanba, Huang et al. 2023).

    When a rollout is handed out the next begins, with a copy of the policy as it is then: before it learns from the
    one handed out. So every rollout but the first is one update old, and what is in it does not depend on which
    thread is faster. Between two calls of :meth:`collect` the environments and the generator belong to the thread.
    """

    def __init__(self, *args: Any, **settings: Any):
        super().__init__(*args, **settings)
        self._thread = ThreadPoolExecutor(1, "actor", torch.set_num_threads, (torch.get_num_threads(),))
        self._next: Future[EnvRollout] | None = None

    def begin(self, policy: ActorCritic, generator: torch.Generator, symmetry: Symmetry | None) -> None:
        seed = int(torch.randint(2**62, (), generator=generator, device=generator.device))
        super().begin(copy.deepcopy(policy), torch.Generator(generator.device).manual_seed(seed), symmetry)

    def publish(self, weights: Mapping[str, Tensor], version: int) -> None:
        """The next rollout but one is of these: they are copied when it begins."""
        self._weights = weights

    def collect(self, steps: int, *, last: bool) -> EnvRollout:
        if self._next is None:
            self._begin(steps)
        assert self._next is not None
        under_way, self._next = self._next, None
        rollout = result_of(under_way, self._thread)
        if not last:
            self._begin(steps + self.num_steps * self.num_envs)
        return rollout

    def _begin(self, steps: int) -> None:
        self.policy.load_state_dict(self._weights)
        self._next = self._thread.submit(self.play, steps)

    def state_dict(self) -> dict[str, Any]:
        """Waits for the rollout under way, which is part of the state."""
        rollout = None if self._next is None else rollout_state(result_of(self._next, self._thread))
        return super().state_dict() | {"actor_generator": self.generator.get_state(), "rollout": rollout}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if self._next is not None:
            result_of(self._next, self._thread)  # the environments are the thread's until then
        super().load_state_dict(state)
        self.generator.set_state(state["actor_generator"])
        self._next = None
        if state["rollout"] is not None:
            self._next = Future()
            self._next.set_result(rollout_from_state(state["rollout"]))

    def close(self) -> None:
        self._thread.shutdown()
        super().close()
