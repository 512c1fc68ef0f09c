"""Divergences of a student's distributions from its teacher's, and the loss that is their mean."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .batch import Batch
from .objective import categorical_kl
from .policy import Evaluation


def generalised_jsd(student: Tensor, teacher: Tensor, beta: float) -> Tensor:
    """Generalised Jensen-Shannon divergence of log-probabilities (..., V), shape (...) (Agarwal et al. 2024, "GKD").

    beta KL(teacher || m) + (1 - beta) KL(student || m) with the mixture m = beta teacher + (1 - beta) student. As in
    TRL, ``beta`` 0 is KL(teacher || student), which covers all that the teacher says, and 1 is KL(student || teacher),
    which keeps to what it says most.
    """
    if beta == 0.0:
        return categorical_kl(teacher, student)
    if beta == 1.0:
        return categorical_kl(student, teacher)
    mixture = torch.logaddexp(student + math.log1p(-beta), teacher + math.log(beta))
    return beta * categorical_kl(teacher, mixture) + (1.0 - beta) * categorical_kl(student, mixture)


class DivergenceLoss:
    """The divergence that a policy found at each decision."""

    statistics: tuple[str, ...] = ("loss",)

    def __call__(self, new: Evaluation, batch: Batch) -> tuple[Tensor, Tensor]:
        assert new.divergence is not None
        return new.divergence, new.divergence.detach()[None]


def squared_error(student: Tensor, teacher: Tensor) -> Tensor:
    return (student - teacher).square()


def huber_error(student: Tensor, teacher: Tensor) -> Tensor:
    """Half the squared error up to 1, and linear beyond (Huber 1964)."""
    return torch.nn.functional.huber_loss(student, teacher, reduction="none")


ERRORS = {"mse": squared_error, "huber": huber_error}
"""Errors of a student's mean actions from its teacher's, number by number, by rsl_rl's names."""
