"""A policy's first guess: before its first update it is fitted to what is known of the task, by supervision.

Exploration adds noise to single actions, and does not find a motion of several joints over half a second. An actor that
begins with that motion explores around it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .core import distributed
from .core.policy import computing
from .models.actor_critic import ActorCritic
from .models.encoders import Vector

STEPS, ROWS = 600, 512
"""Gradient steps of the fit, and random observations in each."""
RATE = 1e-3
"""Learning rate of the fit."""
RESTING = 0.15
"""Share of the observations in which the clock is at rest."""


@dataclass(frozen=True)
class FirstGuess:
    """Actions by a clock, whatever else is observed."""

    columns: tuple[int, int]
    """Columns of the observation ``policy`` that hold sine and cosine of the clock's newest phase; 0 at rest."""
    actions: Tensor
    """Action at each of S phases, evenly spaced over a cycle from 0 on, (S, A); 0 at rest."""


def fit(policy: ActorCritic, guess: FirstGuess) -> float:
    """Fit the mean action of ``policy``; returns the root mean square of what is missing.

    All observations but the clock are drawn from a normal distribution in the units in which the actor reads them.
    Every process of a training does the same.
    """
    (part,) = policy.actor_encoder.parts.values()
    assert isinstance(part, Vector)
    device = next(policy.actor.parameters()).device
    generator = torch.Generator().manual_seed(0)
    columns = list(guess.columns)
    angle = 2.0 * torch.pi * torch.arange(len(guess.actions)) / len(guess.actions)
    raw = torch.zeros(len(angle) + 1, part.dim)
    raw[:-1, columns] = torch.stack((angle.sin(), angle.cos()), 1)
    with torch.no_grad():
        clock = part(raw.to(device))[:, columns].cpu()
    actions = torch.cat((guess.actions, torch.zeros_like(guess.actions[:1])))
    inputs = policy.actor_encoder.dim if policy.estimator is None else policy.estimator.dim
    places = columns if policy.estimator is None else [policy.estimator.newest.tolist().index(c) for c in columns]
    optimizer = torch.optim.Adam(policy.actor.parameters(), RATE, foreach=False)
    loss = torch.zeros(())
    with computing(device, "float32"):
        for _ in range(STEPS):
            rows = torch.randint(len(guess.actions), (ROWS,), generator=generator)
            rows[: round(RESTING * ROWS)] = len(guess.actions)
            read = torch.randn(ROWS, inputs, generator=generator)
            read[:, places] = clock[rows]
            loss = (policy.actor(read.to(device)) - actions[rows].to(device)).square().mean()
            optimizer.zero_grad(set_to_none=False)
            loss.backward()
            optimizer.step()
    optimizer.zero_grad(set_to_none=False)
    for parameter in policy.actor.parameters():
        distributed.from_first_(parameter.data)
    return float(loss.detach().sqrt())
