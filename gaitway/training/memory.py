"""Check before anything is built that a training fits into this machine's memory.

The estimate is a lower bound, of what grows with the settings: a training that is refused cannot have worked. One of a
language model from a folder or the hub has an estimate of its own, :mod:`gaitway_language.memory`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError

if TYPE_CHECKING:
    from ..train_config import TrainConfig

LEARNT = 16  # bytes of a parameter: itself, its gradient and Adam's two moments
STEP = 16  # bytes of a step beside its observation: action, reward, value, log-probability
COPIES = 4
"""Times that a rollout is in memory while a CPU learns from it: as it was collected, in order, in minibatches.

Measured between 1,024 and 4,096 robots: 5.3, Go2 and G1 alike; of images, between 8 and 32 games of Pong: 15.
"""


def estimate(config: TrainConfig, observation: int = 4) -> dict[str, int]:
    """Bytes that a training needs at least, by the setting that asks for them; an observation has ``observation``."""
    found = {"num_envs": config.num_envs * config.domain.environment_bytes(config)}
    if (steps := getattr(config.agent, "num_steps", None)) is not None:
        copies = COPIES if config.domain.device(config.world, config.device).type == "cpu" else 1
        found["num_envs x agent.num_steps"] = config.num_envs * steps * (observation + STEP) * copies
    for path, value in _settings(config.agent, "agent"):
        name = path.rpartition(".")[2]
        if name in ("hidden", "hidden_dims", "actor_hidden", "critic_hidden"):
            found[path] = LEARNT * sum(a * b for a, b in pairwise((1, *value)))
        elif name == "buffer_size":
            found[path] = value * (observation + STEP)
        elif name == "memory_size" and config.agent.model.recurrent != "none":
            found[path] = LEARNT * 3 * value * value
    return found | {name: LEARNT * count for name, count in config.domain.parameters(config).items()}


def check(config: TrainConfig, observation: int = 4) -> None:
    """Raise unless the machine has the memory of :func:`estimate`."""
    needed = estimate(config, observation)
    free, total = _free(), sum(needed.values())
    if free is None or total <= free:
        return
    path, most = max(needed.items(), key=lambda item: item[1])
    raise ConfigError(
        f"{path} needs at least {_gib(most)} GiB of memory, the training {_gib(total)} GiB, and this machine has "
        f"{_gib(free)} GiB free: lower it"
    )


def bytes_of(observations: Any) -> int:
    """Bytes of one observation of a Gymnasium space that is a ``Dict`` of arrays."""
    return sum(part.dtype.itemsize * math.prod(part.shape) for part in observations.values())


def _settings(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if not dataclasses.is_dataclass(value):
        yield path, value
        return
    for field in dataclasses.fields(value):
        yield from _settings(getattr(value, field.name), f"{path}.{field.name}")


def _free() -> int | None:
    """Bytes; None where the system does not tell."""
    import torch
    from gaitway_language.memory import available_memory

    try:
        return available_memory(torch.device("cpu"))
    except OSError:
        return None


def _gib(size: int) -> str:
    return f"{size / 2**30:,.1f}"
