"""Adam with its moments in the machine's memory, for parameters that leave a GPU no room for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

PART = 2**26
"""Parameters of which the moments are on the GPU at a time: 512 MiB of them."""
MOMENTS = ("exp_avg", "exp_avg_sq")


class OffloadedAdam:
    """The same steps as the optimiser that ``make`` makes of ``vector``, one of torch's Adam or AdamW.

    Vector and ``gradient`` are cut into parts, each with an optimiser of its own, whose moments come to the gradient's
    device for their step alone; so does the vector, where it lies elsewhere. The ``state_dict`` is that of one
    optimiser for all.
    """

    def __init__(self, make: Callable[[nn.Parameter], torch.optim.Optimizer], vector: Tensor, gradient: Tensor):
        away = vector.device != gradient.device
        self._slopes = gradient.split(PART)
        self._values = vector.split(PART)
        self._parts = [nn.Parameter(gradient.new_empty(0) if away else part) for part in self._values]
        self._inner = [make(part) for part in self._parts]
        self._kept: dict[str, Tensor] = {}
        self.param_groups: list[dict[str, Any]] = self._inner[0].param_groups
        """Settings, of which ``lr`` may be changed."""

    def step(self) -> None:
        begin = 0
        for part, value, slope, optimizer in zip(self._parts, self._values, self._slopes, self._inner, strict=True):
            away = value.device != slope.device
            if away:
                part.data = value.to(slope.device, non_blocking=True)
            part.grad = slope
            optimizer.param_groups[0]["lr"] = self.param_groups[0]["lr"]
            state = optimizer.state[part]
            for name in MOMENTS if state else ():
                state[name] = state[name].to(part.device, non_blocking=True)
            optimizer.step()
            self._bring_home(begin, state)
            begin += len(slope)
            if away:
                value.copy_(part.data, non_blocking=True)
                part.grad, part.data = None, slope.new_empty(0)
        if self._slopes[0].is_cuda:
            # What came home is read from here next.
            torch.cuda.current_stream(self._slopes[0].device).synchronize()

    def _bring_home(self, begin: int, state: dict[str, Any]) -> None:
        """Put the moments of a part, whose first parameter is ``begin``, where they are kept."""
        for name in MOMENTS:
            home = self._moments(name)[begin : begin + len(state[name])]
            state[name] = home.copy_(state[name], non_blocking=True)

    def _moments(self, name: str) -> Tensor:
        if name not in self._kept:  # memory that a GPU reads without help; on other devices there is no such
            like, count = self._slopes[0], sum(map(len, self._slopes))
            self._kept[name] = torch.zeros(count, dtype=like.dtype, device="cpu", pin_memory=like.is_cuda)
        return self._kept[name]

    def state_dict(self) -> dict[str, Any]:
        state = self._inner[0].state[self._parts[0]]
        found = {0: {"step": state["step"], **{name: self._moments(name) for name in MOMENTS}}} if state else {}
        return {"state": found, "param_groups": self._inner[0].state_dict()["param_groups"]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        whole, begin = state["state"].get(0), 0
        for part, slope, optimizer in zip(self._parts, self._slopes, self._inner, strict=True):
            own: dict[int, Any] = {}
            if whole is not None:
                moments = {name: whole[name][begin : begin + len(slope)] for name in MOMENTS}
                own = {0: {"step": whole["step"].clone(), **moments}}
            optimizer.load_state_dict({"state": own, "param_groups": state["param_groups"]})
            if own:
                self._bring_home(begin, optimizer.state[part])
            begin += len(slope)
        self.param_groups = self._inner[0].param_groups
