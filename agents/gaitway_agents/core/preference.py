"""Losses of preferences between sequences: pure functions, one value for each pair or example, and their classes.

Scores are (P, 2), the chosen one first; differences and log-ratios are chosen minus rejected.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from gaitway_files.errors import UserError
from gaitway_files.ranges import Checked, NonNegativeFloat, PositiveFloat, Range, one_of
from torch import Tensor
from torch.nn.functional import logsigmoid

from .batch import Batch
from .losses import Loss
from .policy import Evaluation

# ---- pure functions -------------------------------------------------------------------------------------------------


def bradley_terry(difference: Tensor, margin: Tensor | float = 0.0) -> Tensor:
    """-log P(chosen beats rejected) of scores (Bradley and Terry 1952), with a margin as in Llama 2 (Touvron 2023)."""
    return -logsigmoid(difference - margin)


def dpo(log_ratio: Tensor, beta: float, label_smoothing: float = 0.0) -> Tensor:
    """Direct preference optimisation (Rafailov et al. 2023); smoothed labels make it Mitchell's conservative DPO."""
    reward = beta * log_ratio
    return -(1.0 - label_smoothing) * logsigmoid(reward) - label_smoothing * logsigmoid(-reward)


def hinge(log_ratio: Tensor, beta: float) -> Tensor:
    """SLiC's rank calibration (Zhao et al. 2023) on DPO's reward (Liu et al. 2024)."""
    return torch.relu(1.0 - beta * log_ratio)


def ipo(mean_log_ratio: Tensor, beta: float) -> Tensor:
    """Identity preference optimisation (Azar et al. 2024), of log-ratios that are means over tokens as in TRL."""
    return (mean_log_ratio - 1.0 / (2.0 * beta)).square()


def simpo(mean_log_prob_difference: Tensor, beta: float, gamma: float, label_smoothing: float = 0.0) -> Tensor:
    """SimPO (Meng et al. 2024): mean log-probabilities of tokens as rewards, a margin ``gamma``, no reference."""
    return dpo(beta * mean_log_prob_difference - gamma, 1.0, label_smoothing)


def kto(log_ratio: Tensor, baseline: Tensor, desirable: Tensor, beta: float) -> Tensor:
    """Kahneman-Tversky optimisation (Ethayarajh et al. 2024) of single examples, all arguments (B,).

    ``baseline`` estimates the KL divergence from the reference and is at least 0; ``desirable`` is 1 or 0.
    """
    sign = 2.0 * desirable - 1.0
    return 1.0 - torch.sigmoid(sign * beta * (log_ratio - baseline))


# ---- losses of the policy optimiser ---------------------------------------------------------------------------------


def _stack(columns: list[Tensor]) -> Tensor:
    return torch.stack([column.detach() for column in columns])


class RankingLoss:
    """Loss of a reward model. Rows are pairs; ``new.values`` are scores (P, 2), ``observations["margin"]`` is (P,)."""

    statistics: tuple[str, ...] = ("loss", "accuracy", "margin", "chosen_reward", "rejected_reward")

    def __init__(self, *, use_margin: bool = False, centring: float = 0.0):
        self.use_margin, self.centring = use_margin, centring

    def __call__(self, new: Evaluation, batch: Batch) -> tuple[Tensor, Tensor]:
        assert new.values is not None
        chosen, rejected = new.values.unbind(1)
        losses = bradley_terry(chosen - rejected, batch.observations["margin"] if self.use_margin else 0.0)
        if self.centring:  # the difference says nothing of the sum, which drifts (Eisenstein et al. 2023)
            losses = losses + self.centring * (chosen + rejected).square()
        return losses, _stack([losses, (chosen > rejected).to(losses.dtype), chosen - rejected, chosen, rejected])


LOSSES = ("dpo", "hinge", "ipo", "simpo", "kto")


@dataclass(frozen=True, kw_only=True)
class PreferenceLossConfig(Checked):
    """Settings of learning a policy from preferences."""

    loss: Annotated[str, one_of(*LOSSES)] = "dpo"
    """"dpo", "hinge", "ipo" or "simpo" of pairs; "kto" of single answers that are desirable or not."""
    beta: PositiveFloat = 0.1
    """Strength of the pull to the reference, typically 0.01 to 0.5; in SimPO, which has no reference, the scale of the
    rewards (the paper: 2 to 10)."""
    label_smoothing: Annotated[float, Range(lambda p: 0.0 <= p < 0.5, "must lie in [0, 0.5)")] = 0.0
    """Probability that a pair's label is wrong, for "dpo" and "simpo"; typically 0 to 0.3."""
    gamma: NonNegativeFloat = 0.5
    """Margin between rewards that "simpo" asks for."""
    desirable_weight: PositiveFloat = 1.0
    """Weight of desirable answers, for "kto"."""
    undesirable_weight: PositiveFloat = 1.0
    """Weight of undesirable answers, for "kto". If labels are unbalanced, the paper keeps weight times count within 4/3
    of each other."""
    sft_coefficient: NonNegativeFloat = 0.0
    """Weight of the chosen answer's mean negative log-likelihood beside a loss of pairs (RPO, Pang et al. 2024);
    typically 0 to 1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.label_smoothing and self.loss not in ("dpo", "simpo"):
            raise UserError(f"label_smoothing {self.label_smoothing} with loss {self.loss!r}: for 'dpo' and 'simpo'")
        if self.loss != "kto" and (self.desirable_weight, self.undesirable_weight) != (1.0, 1.0):
            raise UserError(f"desirable_weight and undesirable_weight with loss {self.loss!r}: only 'kto' has them")
        if self.sft_coefficient and self.loss == "kto":
            raise UserError(f"sft_coefficient {self.sft_coefficient} with loss 'kto': only losses of pairs have it")

    @property
    def needs_reference(self) -> bool:
        return self.loss != "simpo"


class PairLoss:
    """Loss of a policy. Rows are pairs: ``new.log_probs`` and ``batch.reference`` are sums over answers, (P, 2).

    ``observations["mask"]`` (P, 2, L) says how many tokens the sums are of. The reward of an answer is ``beta`` times
    its log-ratio to the reference, or its mean log-probability for SimPO.
    """

    def __init__(self, config: PreferenceLossConfig):
        self.config = config
        self.statistics: tuple[str, ...] = ("loss", "accuracy", "margin")
        self.statistics += ("chosen_reward", "rejected_reward", "chosen_log_prob")
        if config.sft_coefficient:
            self.statistics += ("pair_loss",)

    def __call__(self, new: Evaluation, batch: Batch) -> tuple[Tensor, Tensor]:
        cfg = self.config
        sizes = batch.observations["mask"].sum(-1).clamp(min=1.0)
        if cfg.loss == "simpo":
            scores = new.log_probs / sizes
            losses = simpo(scores[:, 0] - scores[:, 1], cfg.beta, cfg.gamma, cfg.label_smoothing)
        else:
            if batch.reference is None:
                raise UserError(f"loss {cfg.loss!r} needs the batch's reference log-probabilities, and it has none")
            scores = new.log_probs - batch.reference
            if cfg.loss == "ipo":
                means = scores / sizes
                losses = ipo(means[:, 0] - means[:, 1], cfg.beta)
            elif cfg.loss == "hinge":
                losses = hinge(scores[:, 0] - scores[:, 1], cfg.beta)
            else:
                losses = dpo(scores[:, 0] - scores[:, 1], cfg.beta, cfg.label_smoothing)
        chosen, rejected = (cfg.beta * scores).unbind(1)
        right = (chosen > rejected).to(losses.dtype)
        columns = [right, chosen - rejected, chosen, rejected, new.log_probs[:, 0]]
        if cfg.sft_coefficient:
            columns.append(losses)
            losses = losses - cfg.sft_coefficient * new.log_probs[:, 0] / sizes[:, 0]
        return losses, _stack([losses, *columns])


class KTOLoss:
    """Loss of a policy. Rows are examples: ``new.log_probs`` and ``batch.reference`` are sums over answers, (B,).

    Observations: ``desirable`` and ``baseline``, (B,). Accuracy is the share of rewards on the right side of the
    baseline, the margin by how much they are.
    """

    statistics: tuple[str, ...] = ("loss", "accuracy", "margin", "baseline")

    def __init__(self, config: PreferenceLossConfig):
        self.config = config

    def __call__(self, new: Evaluation, batch: Batch) -> tuple[Tensor, Tensor]:
        cfg = self.config
        if batch.reference is None:
            raise UserError("loss 'kto' needs the batch's reference log-probabilities, and it has none")
        desirable, baseline = batch.observations["desirable"], batch.observations["baseline"]
        log_ratio = new.log_probs - batch.reference
        weights = torch.where(desirable > 0.5, cfg.desirable_weight, cfg.undesirable_weight)
        losses = weights * kto(log_ratio, baseline, desirable, cfg.beta)
        margin = (2.0 * desirable - 1.0) * cfg.beta * (log_ratio - baseline)
        return losses, _stack([losses, (margin > 0.0).to(losses.dtype), margin, baseline])


def preference_loss(config: PreferenceLossConfig) -> Loss:
    """The loss of the settings."""
    return KTOLoss(config) if config.loss == "kto" else PairLoss(config)
