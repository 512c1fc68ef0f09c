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
    """Actions by some columns of the observation ``policy``, whatever else is observed."""

    columns: tuple[int, ...]
    """The columns; without ``seen`` those of sine and cosine of the clock's newest phase, 0 at rest."""
    actions: Tensor
    """Action at each of S values that are seen, (S, A)."""
    seen: Tensor | None = None
    """What the columns hold, (S, C); None for phases evenly spaced over a cycle from 0 on, and the action 0 at rest."""
    alone: bool = False
    """True if the first layer has no weights for other columns at first: actions are then exact, and feedback is learnt
    by reinforcement."""
    steps: int = STEPS
    """Gradient steps of the fit."""
    decay: bool = False
    """True if the learning rate falls to 0 by the end."""

    def table(self) -> tuple[Tensor, Tensor, float]:
        """What is seen (R, C), actions (R, A), and the share of the fit that is for the last row."""
        if self.seen is not None:
            return self.seen, self.actions, 0.0
        angle = 2.0 * torch.pi * torch.arange(len(self.actions)) / len(self.actions)
        phases = torch.nn.functional.pad(torch.stack((angle.sin(), angle.cos()), 1), (0, 0, 0, 1))
        return phases, torch.nn.functional.pad(self.actions, (0, 0, 0, 1)), RESTING


def fit(policy: ActorCritic, guess: FirstGuess) -> float:
    """Fit the mean action of ``policy``; returns the root mean square of what is missing.

    All observations but those of ``guess`` are drawn from a normal distribution in the units in which the actor reads
    them, unless the guess stands alone. Every process of a training does the same.
    """
    (part,) = policy.actor_encoder.parts.values()
    assert isinstance(part, Vector)
    device = next(policy.actor.parameters()).device
    generator = torch.Generator().manual_seed(0)
    columns = list(guess.columns)
    known, actions, last = guess.table()
    raw = torch.zeros(len(known), part.dim)
    raw[:, columns] = known
    with torch.no_grad():
        read_as = part(raw.to(device))[:, columns].cpu()
    inputs = policy.actor_encoder.dim if policy.estimator is None else policy.estimator.dim
    places = columns if policy.estimator is None else [policy.estimator.newest.tolist().index(c) for c in columns]
    if guess.alone:
        first = next(layer for layer in policy.actor.modules() if isinstance(layer, torch.nn.Linear))
        others = [column for column in range(inputs) if column not in places]
        with torch.no_grad():
            first.weight[:, others] = 0.0
    optimizer = torch.optim.Adam(policy.actor.parameters(), RATE, foreach=False)
    loss = torch.zeros(())
    with computing(device, "float32"):
        for step in range(guess.steps):
            if guess.decay:
                optimizer.param_groups[0]["lr"] = RATE * (1.0 - step / guess.steps)
            rows = torch.randint(len(actions) - (last > 0.0), (ROWS,), generator=generator)
            rows[: round(last * ROWS)] = len(actions) - 1
            read = torch.zeros(ROWS, inputs) if guess.alone else torch.randn(ROWS, inputs, generator=generator)
            read[:, places] = read_as[rows]
            loss = (policy.actor(read.to(device)) - actions[rows].to(device)).square().mean()
            optimizer.zero_grad(set_to_none=False)
            loss.backward()
            optimizer.step()
    optimizer.zero_grad(set_to_none=False)
    for parameter in policy.actor.parameters():
        distributed.from_first_(parameter.data)
    return float(loss.detach().sqrt())
