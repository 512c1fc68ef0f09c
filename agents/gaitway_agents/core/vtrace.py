"""V-trace: values and advantages from rollouts that an older policy made. A pure function, time first."""

from __future__ import annotations

import torch
from torch import Tensor


def vtrace(
    rewards: Tensor,
    values: Tensor,
    next_values: Tensor,
    terminated: Tensor,
    done: Tensor,
    ratios: Tensor,
    gamma: float,
    lam: float = 1.0,
    rho_bar: float = 1.0,
    c_bar: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Advantages and value targets (Espeholt et al. 2018), all tensors (T, N).

    ``ratios`` are those of the learner's action probabilities to the behaviour's; all else is as in ``gae``, also at
    time limits. Ratios count up to ``rho_bar`` in the fixed point and in the advantages, which are therefore the
    whole weight of the gradient of log-probabilities, and up to ``c_bar`` in how far errors reach back.
    ``lam`` is the paper's remark 2. With all ratios 1 the advantages are those of ``gae``.
    """
    rho, c = ratios.clamp(max=rho_bar), lam * ratios.clamp(max=c_bar)
    not_terminated = 1.0 - terminated.to(values.dtype)
    goes_on = 1.0 - done.to(values.dtype)
    deltas = rewards + gamma * next_values * not_terminated - values
    advantages, corrections = torch.empty_like(deltas), torch.empty_like(deltas)
    running = torch.zeros_like(deltas[0])
    for t in range(len(deltas) - 1, -1, -1):
        later = gamma * goes_on[t] * running
        advantages[t] = rho[t] * (deltas[t] + lam * later)
        corrections[t] = running = rho[t] * deltas[t] + c[t] * later
    return advantages, values + corrections
