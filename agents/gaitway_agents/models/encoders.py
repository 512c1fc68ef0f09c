"""Encoders of observations of any space to one feature vector."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeGuard, cast

import numpy as np
import torch
from gaitway_files.errors import UserError
from gymnasium import spaces
from torch import Tensor, nn

from ..core.policy import in_precision
from .critics import symlog
from .linear import Linear, is_traced
from .normalizer import RunningNormalizer

ACTOR_FEATURES, CRITIC_FEATURES = "actor_features", "critic_features"
"""Keys of a prepared batch that replace the observations."""
SMALLEST = 36
"""Height and width of an image that the convolutions need [pixels]."""
SQUARE = 4
"""Step of the first convolution, and half its height and width [pixels]."""


class Encoder(nn.Module):
    """Features (B, ``dim``) of the observations named ``keys``, side by side."""

    def __init__(
        self,
        space: spaces.Dict,
        keys: Sequence[str],
        *,
        normalize: bool,
        clip: float | None = None,
        symlog: bool = False,
        images: str = "nature",
    ):
        """``images`` is one of :data:`IMAGES`."""
        super().__init__()
        self.keys = list(keys)
        parts = [_part(key, space[key], normalize, clip, symlog, images) for key in self.keys]
        self.parts = nn.ModuleDict(dict(zip(_module_names(self.keys), parts, strict=True)))
        self.dim = sum(cast("Vector | OneHot | NatureCNN | ImpalaCNN", part).dim for part in self.parts.values())

    def forward(self, observations: dict[str, Tensor]) -> Tensor:
        features = [part(observations[key]) for key, part in zip(self.keys, self.parts.values(), strict=True)]
        return features[0] if len(features) == 1 else torch.cat(features, 1)

    @property
    def only_vectors(self) -> bool:
        """True if features are as small as the observations and follow from statistics alone, not from weights."""
        return all(isinstance(part, Vector) for part in self.parts.values())

    @property
    def has_images(self) -> bool:
        return any(isinstance(part, NatureCNN | ImpalaCNN) for part in self.parts.values())

    def update(self, observations: dict[str, Tensor]) -> None:
        """Feed observations (B, ...) to the running statistics of the vectors among them."""
        for key, part in zip(self.keys, self.parts.values(), strict=True):
            if isinstance(part, Vector):
                part.update(observations[key])


class Vector(nn.Module):
    """Numbers of any shape and type, flattened, with symlog and then running normalisation if asked for."""

    def __init__(self, dim: int, normalize: bool, clip: float | None, symlog: bool):
        super().__init__()
        self.dim, self.symlog = dim, symlog
        self.normalizer = RunningNormalizer(dim, clip=clip) if normalize else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.normalizer(self._numbers(x))

    def update(self, x: Tensor) -> None:
        if isinstance(self.normalizer, RunningNormalizer):
            self.normalizer.update(self._numbers(x))

    def _numbers(self, x: Tensor) -> Tensor:
        flat = x if x.dim() == 2 else x.flatten(1)
        flat = flat if flat.is_floating_point() else flat.to(torch.get_default_dtype())
        return symlog(flat) if self.symlog else flat


class OneHot(nn.Module):
    """Whole numbers as one-hot vectors, side by side."""

    def __init__(self, starts: Sequence[int], sizes: Sequence[int]):
        super().__init__()
        self.sizes, self.dim = list(sizes), sum(sizes)
        self.register_buffer("starts", torch.as_tensor(list(starts)), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        columns = x.reshape(len(x), -1).long() - self.get_buffer("starts")
        hot = [nn.functional.one_hot(columns[:, i], size) for i, size in enumerate(self.sizes)]
        return torch.cat(hot, 1).to(torch.get_default_dtype())


def _squares(x: Tensor) -> Tensor:
    """Bytes (B, C, H, W) with the 4 x 4 pixels of each square as channels, which are last in memory: (B, 16 C, H // 4,
    W // 4).

    With :func:`_squares_of_weights` a convolution of 8 x 8 in steps of 4 becomes one of 2 x 2 in steps of 1. Its sums
    over channels are 16 times as long, which suits the matrix units of CPUs, and four bytes at a time are the
    quickest to move.
    """
    height, width = (size // SQUARE * SQUARE for size in x.shape[2:])
    words = x[:, :, :height, :width].contiguous().view(torch.int32)
    words = words.unflatten(2, (-1, SQUARE)).permute(0, 2, 4, 1, 3).contiguous()
    return words.view(torch.uint8).flatten(3).permute(0, 3, 1, 2)


def _squares_of_weights(weight: Tensor) -> Tensor:
    """Weights (O, C, 8, 8) as (O, 16 C, 2, 2), in the order of :func:`_squares`."""
    blocks = weight.unflatten(3, (2, SQUARE)).unflatten(2, (2, SQUARE))
    return blocks.permute(0, 1, 3, 5, 2, 4).flatten(1, 3)


class NatureCNN(nn.Module):
    """The convolutional network of Mnih et al. (2015) on byte images (B, C, H, W) -> (B, 512)."""

    def __init__(self, shape: tuple[int, ...]):
        super().__init__()
        self.dim = 512
        _check_size(shape)
        self.convolutions = nn.Sequential(
            nn.Conv2d(shape[0], 32, 2 * SQUARE, SQUARE), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(),
            nn.Conv2d(64, 64, 3, 1), nn.ReLU(), nn.Flatten(),
        )  # fmt: skip
        with torch.no_grad():
            features = self.convolutions(torch.zeros(1, *shape)).shape[1]
        self.output = nn.Sequential(Linear(features, self.dim), nn.ReLU())
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                nn.init.orthogonal_(module.weight, 2.0**0.5)
                nn.init.zeros_(module.bias)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        first = cast(nn.Conv2d, self.convolutions[0])
        # The weights are divided by 255 instead of the pixels, which are many and in bfloat16 exact only as bytes.
        weight, stride = first.weight / 255.0, SQUARE
        if x.dtype == torch.uint8 and x.device.type == "cpu" and not is_traced():
            x, weight, stride = _squares(x), _squares_of_weights(weight), 1
        pixels = in_precision(x)
        pixels = pixels if pixels.is_floating_point() else pixels.to(first.weight.dtype)
        features = nn.functional.conv2d(pixels, weight, first.bias, stride)
        return self.output(self.convolutions[1:](features))


class ImpalaCNN(nn.Module):
    """The residual network of Espeholt et al. (2018) on byte images (B, C, H, W) -> (B, 256), without its LSTM.

    Initial weights are Cleanba's (Huang et al. 2023).
    """

    def __init__(self, shape: tuple[int, ...], channels: Sequence[int] = (16, 32, 32)):
        super().__init__()
        self.dim = 256
        _check_size(shape)
        widths = (shape[0], *channels)
        self.stages = nn.Sequential(*(_Stage(a, b) for a, b in pairwise(widths)))
        with torch.no_grad():
            features = self.stages(torch.zeros(1, *shape)).numel()
        self.output = nn.Sequential(nn.ReLU(), nn.Flatten(), Linear(features, self.dim), nn.ReLU())
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, nonlinearity="linear")
            elif isinstance(module, nn.Linear):
                nn.init.orthogonal_(module.weight, 2.0**0.5)
            if isinstance(module, nn.Conv2d | nn.Linear):
                nn.init.zeros_(module.bias)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        pixels = in_precision(x.contiguous(memory_format=torch.channels_last))
        pixels = pixels if pixels.is_floating_point() else pixels.to(next(self.parameters()).dtype)
        return self.output(self.stages(pixels / 255.0))


class _Stage(nn.Module):
    """Half the height and width, and two residual blocks."""

    def __init__(self, channels: int, width: int):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(channels, width, 3, padding=1), nn.MaxPool2d(3, 2, padding=1))
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1)
            )
            for _ in range(2)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for block in self.blocks:
            x = x + block(x)
        return x


IMAGES: dict[str, Callable[[tuple[int, ...]], nn.Module]] = {"nature": NatureCNN, "impala": ImpalaCNN}
"""Networks of images by name."""


def _check_size(shape: tuple[int, ...]) -> None:
    if min(shape[1:]) < SMALLEST:
        raise UserError(f"images of shape {shape}: the convolutions need (C, H, W) with H and W of {SMALLEST} or more")


def _module_names(keys: Sequence[str]) -> list[str]:
    """The keys, but for those that torch does not take as names of modules: attributes of its own, and with dots."""
    taken = nn.ModuleDict()
    return [f"observation {i}" if "." in key or hasattr(taken, key) else key for i, key in enumerate(keys)]


def is_image(space: spaces.Space) -> TypeGuard[spaces.Box]:
    """True for bytes (C, H, W) that are large enough for convolutions; smaller ones, such as boards, are vectors."""
    if not isinstance(space, spaces.Box) or space.dtype != np.uint8 or len(space.shape) != 3:
        return False
    return min(space.shape[1:]) >= SMALLEST


def _part(key: str, space: spaces.Space, normalize: bool, clip: float | None, symlog: bool, images: str) -> nn.Module:
    if is_image(space):
        return IMAGES[images](space.shape)
    if isinstance(space, spaces.Discrete):
        return OneHot([int(space.start)], [int(space.n)])
    if isinstance(space, spaces.MultiDiscrete):
        return OneHot(space.start.flatten().tolist(), space.nvec.flatten().tolist())
    if isinstance(space, spaces.Box | spaces.MultiBinary):
        return Vector(int(np.prod(space.shape)), normalize, clip, symlog)
    raise UserError(f"observation {key!r} of space {space}: use Box, Discrete, MultiDiscrete or MultiBinary")
