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
        self.param_groups: list[dict[str, Any]] = self._inner[0].param_groups
        """Settings, of which ``lr`` may be changed."""

    def step(self) -> None:
        for part, value, slope, optimizer in zip(self._parts, self._values, self._slopes, self._inner, strict=True):
            away = value.device != slope.device
            if away:
                part.data = value.to(slope.device, non_blocking=True)
            part.grad = slope
            optimizer.param_groups[0]["lr"] = self.param_groups[0]["lr"]
            state = optimizer.state[part]
            host = {name: state[name] for name in MOMENTS if name in state}
            for name, moment in host.items():
                state[name] = moment.to(part.device, non_blocking=True)
            optimizer.step()
            for name in MOMENTS:
                state[name] = self._home(host.get(name), state[name])
            if away:
                value.copy_(part.data, non_blocking=True)
                part.grad, part.data = None, slope.new_empty(0)
        if self._slopes[0].is_cuda:
            # What came home is read from here next.
            torch.cuda.current_stream(self._slopes[0].device).synchronize()

    @staticmethod
    def _home(host: Tensor | None, moment: Tensor) -> Tensor:
        """``moment`` in the memory of the machine, at its former place."""
        if host is None:  # memory that a GPU reads without help; on other devices there is no such
            host = torch.empty(moment.shape, dtype=moment.dtype, device="cpu", pin_memory=moment.is_cuda)
        return host.copy_(moment, non_blocking=True)

    def state_dict(self) -> dict[str, Any]:
        states = [optimizer.state[part] for part, optimizer in zip(self._parts, self._inner, strict=True)]
        found = {} if not states[0] else {0: {"step": states[0]["step"]}}
        if found:
            found[0] |= {name: torch.cat([state[name] for state in states]) for name in MOMENTS}
        return {"state": found, "param_groups": self._inner[0].state_dict()["param_groups"]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        whole = state["state"].get(0)
        moments = [] if whole is None else list(zip(*(whole[name].split(PART) for name in MOMENTS), strict=True))
        for i, (part, optimizer) in enumerate(zip(self._parts, self._inner, strict=True)):
            own = (
                {}
                if whole is None
                else {0: {"step": whole["step"].clone(), **dict(zip(MOMENTS, moments[i], strict=True))}}
            )
            optimizer.load_state_dict({"state": own, "param_groups": state["param_groups"]})
            for name in MOMENTS if own else ():
                optimizer.state[part][name] = self._home(None, optimizer.state[part][name])
        self.param_groups = self._inner[0].param_groups
