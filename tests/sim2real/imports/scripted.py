"""Policies in the wrappers that others export, small and of our own making, and what torch.jit.save makes of them.

Annotations are evaluated here, since torch.jit reads them.
"""

import io
import zipfile
from collections.abc import Callable

import torch
from torch import Tensor, nn

D, A = 9, 4


def mlp(width: int = D, out: int = A, activation: type[nn.Module] = nn.ELU) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, 16), activation(), nn.Linear(16, 8), activation(), nn.Linear(8, out))


class EmpiricalNormalization(nn.Module):
    """As rsl_rl 1 and 2 have it: an update that may only run in training stands before the formula."""

    def __init__(self, width: int, eps: float):
        super().__init__()
        self.eps = eps
        self.register_buffer("_mean", torch.randn(1, width))
        self.register_buffer("_std", torch.rand(1, width) + 0.5)
        self.register_buffer("count", torch.tensor(7))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.update(x)
        return (x - self._mean) / (self._std + self.eps)

    @torch.jit.unused
    def update(self, x: Tensor) -> None:
        self.count += len(x)


class PolicyExporter(nn.Module):
    """rsl_rl's exporter of an actor without memory."""

    def __init__(self, actor: nn.Module, normalizer: nn.Module):
        super().__init__()
        self.actor, self.normalizer = actor, normalizer

    def forward(self, x: Tensor) -> Tensor:
        return self.actor(self.normalizer(x))

    @torch.jit.export
    def reset(self) -> None:
        pass


class ObsNormalizer(nn.Module):
    """Its numbers are parameters, and its epsilon stands in the code."""

    def __init__(self, width: int):
        super().__init__()
        self._mean, self._std = nn.Parameter(torch.randn(width)), nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return (x - self._mean) / (self._std + 1e-8)


class RecurrentExporter(nn.Module):
    """An exporter of an actor after an LSTM, which keeps its memory in buffers."""

    def __init__(self, normalizer: nn.Module, layers: int = 1):
        super().__init__()
        self.normalizer, self.memory, self.actor = normalizer, nn.LSTM(D, 6, layers), mlp(6)
        self.register_buffer("hidden_state", torch.zeros(layers, 1, 6))
        self.register_buffer("cell_state", torch.zeros(layers, 1, 6))

    def forward(self, x: Tensor) -> Tensor:
        x = self.normalizer(x)
        out, (h, c) = self.memory(x.unsqueeze(0), (self.hidden_state, self.cell_state))
        self.hidden_state[:] = h
        self.cell_state[:] = c
        return self.actor(out.squeeze(0))

    @torch.jit.export
    def reset(self) -> None:
        self.hidden_state[:] = 0.0
        self.cell_state[:] = 0.0


class EncoderExporter(nn.Module):
    """HIMLoco's exporter: 3 frames, the newest first; the encoder gives 3 speeds and 5 numbers of unit length."""

    def __init__(self):
        super().__init__()
        self.estimator, self.actor = mlp(3 * D, 8), mlp(D + 8)

    def forward(self, obs_history: Tensor) -> Tensor:
        parts = self.estimator(obs_history)[:, 0:8]
        vel, z = parts[..., :3], parts[..., 3:]
        z = torch.nn.functional.normalize(z, dim=-1, p=2.0)
        return self.actor(torch.cat((obs_history[:, 0:9], vel, z), dim=1))


class LateEncoderExporter(nn.Module):
    """The same with 4 frames, the newest last, of which the encoder reads the last 3."""

    def __init__(self):
        super().__init__()
        self.estimator, self.actor = mlp(3 * D, 8), mlp(D + 8)

    def forward(self, obs_history: Tensor) -> Tensor:
        frames = obs_history.view(1, 4, 9)
        newest = frames[:, -1, :]
        parts = self.estimator(frames[:, 1:, :].reshape(1, -1).detach())
        vel, z = parts[..., :3], parts[..., 3:]
        z = torch.nn.functional.normalize(z, dim=-1, p=2.0)
        return self.actor(torch.cat((newest, vel, z), dim=1))


class ActorCritic(nn.Module):
    """A policy with a critic that its forward does not ask; traced in what others publish."""

    def __init__(self):
        super().__init__()
        self.actor, self.critic, self.std = mlp(), mlp(D, 1), nn.Parameter(torch.ones(A))

    def forward(self, x: Tensor) -> Tensor:
        return self.actor(x.detach())


class Flat(nn.Module):
    """Layers of its own, as a graph of torch.fx that was made from ONNX has them."""

    def __init__(self):
        super().__init__()
        for index, layer in enumerate(mlp()):
            self.add_module(f"actor_{index}", layer)

    def forward(self, x: Tensor) -> Tensor:
        x = self.actor_1(self.actor_0(x))
        return self.actor_4(self.actor_3(self.actor_2(x)))


class Winding(nn.Module):
    """Its layers do not act in the order in which it has them, and one acts twice."""

    def __init__(self):
        super().__init__()
        self.last, self.twice, self.first = nn.Linear(8, A), nn.Linear(8, 8), nn.Linear(D, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = self.twice(torch.tanh(self.first(x)))
        return self.last(torch.relu(self.twice(x)))


def saved(module: nn.Module, example: Tensor | None = None) -> bytes:
    """The archive of a module, scripted, or traced with an example."""
    module = module.eval().requires_grad_(False)
    made = torch.jit.script(module) if example is None else torch.jit.trace(module, example)
    out = io.BytesIO()
    torch.jit.save(made, out)
    return out.getvalue()


def with_member(
    content: bytes, ending: str, change: Callable[[bytes], bytes], kind: int | None = None, rename: str | None = None
) -> bytes:
    """The archive with the members whose names end in ``ending`` changed, packed by ``kind`` if given."""
    out, found = io.BytesIO(), 0
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w") as new:
        for info in old.infolist():
            data, name, packed = old.read(info), info.filename, info.compress_type
            if name.endswith(ending):
                found += 1
                data, name, packed = change(data), rename or name, packed if kind is None else kind
            new.writestr(name, data, packed)
    assert found, ending
    return out.getvalue()
