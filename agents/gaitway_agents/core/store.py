"""Parameters, gradients and the optimiser's state: whole in every process, or a part in each.

All are steps of one optimiser with the mean of the processes' gradients: which one is a question of memory alone.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn

from . import distributed
from .flat import FlatParameters
from .offload import MOMENTS, OffloadedAdam
from .parts import local

Groups = Sequence[Sequence[nn.Parameter]]
STORES = ("flat", "sharded", "fsdp")


class Settings(Protocol):
    """Settings of the optimiser that a store depends on."""

    @property
    def algorithm(self) -> str: ...
    @property
    def learning_rate(self) -> float: ...
    @property
    def betas(self) -> tuple[float, float]: ...
    @property
    def eps(self) -> float: ...
    @property
    def weight_decay(self) -> float: ...
    @property
    def precision(self) -> str: ...
    @property
    def offload(self) -> bool: ...


class ParameterStore(Protocol):
    """What the optimiser needs of the parameters that it improves.

    Processes call the same methods in the same order.
    """

    def zero(self) -> None:
        """Forget the gradient."""
        ...

    def reduce(self, *sums: Tensor) -> None:
        """Replace the gradient, and ``sums``, by their means over the processes."""
        ...

    def clip(self, max_norm: float, *, look: bool = False) -> Tensor:
        """Scale the gradient of each group to at most ``max_norm``, as ``clip_grad_norm_`` does; the whole norm.

        With ``look`` shorter gradients are not touched. Only a CPU can look at their length without waiting for it.
        """
        ...

    def step(self, learning_rate: float) -> None:
        """Take a step of the optimiser with the gradient as it is."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """State that a single process can save."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...

    def parts(self) -> dict[str, Any]:
        """State that lies in parts in the processes, for torch.distributed.checkpoint, which writes it from all of
        them and reads it into any number; empty if there is none. Reading fills these very tensors."""
        ...

    def take_parts(self, parts: Mapping[str, Any]) -> None:
        """Continue with ``parts`` that were read."""
        ...


class FlatStore(FlatParameters):
    """All of it in every process, in one tensor each."""

    def __init__(self, groups: Groups, config: Settings):
        super().__init__(groups)
        assert self.flat.grad is not None
        self.gradient = self.flat.grad
        distributed.from_first_(self.flat.data)
        make = functools.partial(_make, config)
        self.inner = OffloadedAdam(make, self.flat.data, self.gradient) if config.offload else make(self.flat)
        self._betas, self._eps = config.betas, config.eps

    def zero(self) -> None:
        self.gradient.zero_()

    def reduce(self, *sums: Tensor) -> None:
        distributed.means_(*sums, self.gradient)

    def clip(self, max_norm: float, *, look: bool = False) -> Tensor:
        return self.clip_gradients(max_norm, look=look)

    def step(self, learning_rate: float) -> None:
        if type(self.inner) is torch.optim.Adam and (state := self.inner.state.get(self.flat)):
            # What its step does, without the bookkeeping, which takes longer than the step of a small network.
            with torch.no_grad():
                state["step"] += 1
                torch._fused_adam_(
                    [self.flat], [self.gradient], [state["exp_avg"]], [state["exp_avg_sq"]], [], [state["step"]],
                    amsgrad=False, beta1=self._betas[0], beta2=self._betas[1], lr=learning_rate, weight_decay=0.0,
                    eps=self._eps, maximize=False,
                )  # fmt: skip
        else:
            self.inner.param_groups[0]["lr"] = learning_rate
            self.inner.step()

    def state_dict(self) -> dict[str, Any]:
        return self.inner.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.inner.load_state_dict(dict(state))

    def parts(self) -> dict[str, Any]:
        return {}

    def take_parts(self, parts: Mapping[str, Any]) -> None: ...


class ShardedStore:
    """Weights to compute with and their gradient in every process, and a part of everything else in each (ZeRO-1,
    Rajbhandari et al. 2020).

    The parameters, group after group, are one vector, of which every process has an equal part: with the moments of
    Adam and, where networks compute in bfloat16, the weights in float32, which the bfloat16 ones are made of after
    every step. Gradients are summed in float32. With N processes a parameter takes 2 + 4 + 12 / N bytes then, and with
    ``offload`` the last are in the machine's memory. Forward and backward passes need no other process.
    """

    def __init__(self, groups: Groups, config: Settings):
        self.parameters = [parameter for group in groups for parameter in group]
        self._meshes: dict[str, Any] = {}
        first, sizes = self.parameters[0], [parameter.numel() for parameter in self.parameters]
        size, rank, self.total = distributed.size(), distributed.rank(), sum(sizes)
        each = -(-self.total // size)
        self._own = slice(min(rank * each, self.total), min((rank + 1) * each, self.total))
        low = config.precision == "bfloat16"
        kind = torch.bfloat16 if low else first.dtype
        self._weights = torch.zeros(size * each, dtype=kind, device=first.device)
        # What is computed with is what learns, where it has the precision.
        self._part = self._weights[self._own]
        if low or config.offload:
            home = torch.device("cpu") if config.offload else first.device
            pinned = config.offload and first.is_cuda
            self._part = torch.empty(len(self._part), dtype=first.dtype, device=home, pin_memory=pinned)
        self._take(sizes)
        self._gradient = torch.zeros(size * each, dtype=self._part.dtype, device=first.device)
        for parameter, gradient in zip(self.parameters, self._gradient[: self.total].split(sizes), strict=True):
            if low:
                parameter.register_post_accumulate_grad_hook(functools.partial(_move_gradient, gradient))
            else:
                parameter.grad = gradient.view(parameter.shape)
        self._slope = self._gradient[self._own]
        ends = [0]
        for group in groups:
            ends.append(ends[-1] + sum(p.numel() for p in group))
        begin, end = self._own.start, self._own.stop
        # Of this process's part, what belongs to each group.
        self._pieces = [slice(max(a, begin) - begin, max(min(b, end), begin) - begin) for a, b in pairwise(ends)]
        make = functools.partial(_make, config)
        self.inner: Any
        if config.offload:
            self.inner = OffloadedAdam(make, self._part, self._slope)
        else:
            parameter = nn.Parameter(self._part)
            parameter.grad = self._slope
            self.inner = make(parameter)

    @torch.no_grad()
    def _take(self, sizes: list[int]) -> None:
        """Move the parameters of the first process into the vectors, one after the other, each out of its old place."""
        begin, own, apart = 0, self._own, self._part.data_ptr() != self._weights[self._own].data_ptr()
        for parameter, count in zip(self.parameters, sizes, strict=True):
            values = distributed.from_first_(parameter.detach().contiguous()).flatten()
            a, b = max(begin, own.start), min(begin + count, own.stop)
            if apart and a < b:
                self._part[a - own.start : b - own.start] = values[a - begin : b - begin]
            weights = self._weights[begin : begin + count]
            weights.copy_(values)
            parameter.grad, parameter.data = None, weights.view(parameter.shape)
            begin += count

    def zero(self) -> None:
        self._gradient.zero_()

    def reduce(self, *sums: Tensor) -> None:
        for each in sums:
            distributed.mean_(each)
        distributed.own_part_of_mean_(self._gradient)

    def clip(self, max_norm: float, *, look: bool = False) -> Tensor:
        pieces = [self._slope[piece] for piece in self._pieces]
        squares = torch.stack([piece.square().sum() for piece in pieces])
        norms = distributed.sum_(squares).sqrt()
        for piece, norm in zip(pieces, norms, strict=True):
            if not look or not norm + 1e-6 < max_norm:
                piece.mul_((max_norm / (norm + 1e-6)).clamp(max=1.0))
        return norms[0] if len(norms) == 1 else norms.norm()

    def step(self, learning_rate: float) -> None:
        self.inner.param_groups[0]["lr"] = learning_rate
        self.inner.step()
        self._tell()

    def _tell(self) -> None:
        """Let all processes compute with what this one's part has become."""
        own = self._weights[self._own]
        if own.data_ptr() != self._part.data_ptr():
            own.copy_(self._part)
        distributed.share_parts_(self._weights)

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...

    def parts(self) -> dict[str, Any]:
        state = self.inner.state_dict()["state"].get(0, {})
        moments = {name: state[name] if state else torch.zeros_like(self._part) for name in MOMENTS}
        found = {"parameters": self._part, **moments}
        steps = state["step"].detach().cpu() if state else torch.tensor(0.0)
        return {"step": steps.clone()} | {name: self._of_all(value.detach()) for name, value in found.items()}

    def _of_all(self, own: Tensor) -> Any:
        """A tensor of which every process has a part, as torch.distributed knows it; a plain one of a single one."""
        if not (dist.is_available() and dist.is_initialized()):
            return own
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import DTensor, Shard

        if own.device.type not in self._meshes:
            self._meshes[own.device.type] = init_device_mesh(own.device.type, (distributed.size(),))
        mesh, shape = self._meshes[own.device.type], torch.Size((self.total,))
        return DTensor.from_local(own, mesh, [Shard(0)], shape=shape, stride=(1,))

    def take_parts(self, parts: Mapping[str, Any]) -> None:
        own = {name: local(value) for name, value in parts.items()}
        self._part.copy_(own.pop("parameters"))
        state = {"state": {0: own} if own["step"] else {}, "param_groups": self.inner.state_dict()["param_groups"]}
        self.inner.load_state_dict(state)
        self._tell()


def _move_gradient(total: Tensor, parameter: Tensor) -> None:
    """Add the gradient of a pass to the sum, in its precision."""
    assert parameter.grad is not None
    total.add_(parameter.grad.flatten())
    parameter.grad = None


def _make(config: Settings, parameter: nn.Parameter) -> torch.optim.Optimizer:
    return adam_of(config, [parameter])


def adam_of(config: Settings, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    """The optimiser that ``config`` asks for."""
    if config.algorithm == "rmsprop":
        return torch.optim.RMSprop(parameters, config.learning_rate, alpha=config.betas[1], eps=config.eps)
    kind, decay = (torch.optim.AdamW, config.weight_decay) if config.weight_decay else (torch.optim.Adam, 0.0)
    return kind(parameters, config.learning_rate, betas=config.betas, eps=config.eps, weight_decay=decay, fused=True)
