"""Training a reward model on pairs of answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from gaitway_files.errors import UserError
from gaitway_files.ranges import NonNegativeFloat, NonNegativeInt
from torch import Tensor
from torch.nn.functional import logsigmoid

from ..core.batch import Batch
from ..core.optimizer import OptimizerConfig
from ..core.policy import Evaluation, Policy
from ..core.preference import RankingLoss
from ..models.reward_model import RewardModel
from ..models.sequences import token_chunks
from .fixed_data import FixedDataConfig, FixedDataTrainer, one_step
from .pairs import Pair, batch_of_pairs, check_pairs


@dataclass(frozen=True, kw_only=True)
class RewardModelConfig(FixedDataConfig):
    """Settings of a Bradley-Terry reward model."""

    use_margin: bool = False
    """True asks for a difference between scores of at least the pair's margin (Llama 2, Touvron et al. 2023)."""
    centring: NonNegativeFloat = 0.0
    """Weight of the squared sum of a pair's scores, which keeps them near 0; typically 0 to 0.01 (Eisenstein et al.
    2023)."""
    normalise_on: NonNegativeInt = 1000
    """Pairs on whose answers scores are normalised to mean 0 and standard deviation 1 at the end of the training, since
    policies that learn from them start where those answers come from; 0 leaves scores as they are."""
    optimizer: OptimizerConfig = field(default_factory=lambda: one_step(learning_rate=1e-5))


class RankingPolicy(Policy):
    """Reward model as a policy that chooses the better of two answers."""

    def __init__(self, model: RewardModel):
        super().__init__()
        self.model = model

    def evaluate(self, batch: Batch) -> Evaluation:
        """Scores (P, 2), and the log-probability (P,) that the first answer of each pair is chosen."""
        lengths = batch.observations["lengths"]
        scores = self.model.score(batch.actions.flatten(0, 1), lengths.flatten()).float().view(lengths.shape)
        log_probs = logsigmoid(scores[:, 0] - scores[:, 1])
        return Evaluation(log_probs=log_probs, entropy=torch.zeros_like(log_probs), values=scores)

    def chunks(self, batch: Batch, size: int) -> list[Tensor]:
        """The rows of each forward pass, of at most ``size`` tokens."""
        return token_chunks(batch, size)


class RewardModelTrainer(FixedDataTrainer):
    """Learns which of two answers is chosen."""

    policy: RankingPolicy
    config: RewardModelConfig

    def __init__(
        self,
        model: RewardModel,
        preferences: Sequence[Pair],
        config: RewardModelConfig,
        *,
        seed: int,
        total_steps: int | None = None,
    ):
        check_pairs(preferences)
        if config.use_margin and not any(margin for *_, margin in preferences):
            raise UserError("use_margin: no pair has a margin; add a field 'margin' to the rows, or leave it out")
        self.preferences = preferences
        self.device = next(model.parameters()).device
        policy = RankingPolicy(model)
        loss = RankingLoss(use_margin=config.use_margin, centring=config.centring)
        super().__init__(policy, len(preferences), self._batch, loss, config, seed=seed, total_steps=total_steps)

    def iterate(self) -> dict[str, float]:
        metrics = super().iterate()
        if self.config.normalise_on and self.total_steps is not None and self.steps >= self.total_steps:
            self.policy.model.normalise(self.scores(self.preferences[: self.config.normalise_on]).flatten())
        return metrics

    @torch.no_grad()
    def scores(self, preferences: Sequence[Pair]) -> Tensor:
        """Scores of chosen and rejected answers, shape (P, 2), on the CPU."""
        found = []
        for start in range(0, len(preferences), self.config.batch_size):
            batch = batch_of_pairs(preferences[start : start + self.config.batch_size], self.device)
            values = self.evaluate(batch).values
            assert values is not None
            found.append(values.cpu())
        return torch.cat(found)

    def accuracy(self, preferences: Sequence[Pair]) -> float:
        """Share of pairs whose chosen answer has the higher score; equal scores count half."""
        chosen, rejected = self.scores(preferences).unbind(1)
        return float((chosen > rejected).float().mean() + 0.5 * (chosen == rejected).float().mean())

    def _batch(self, rows: list[int]) -> Batch:
        pairs = [self.preferences[row] for row in rows]
        batch = batch_of_pairs(pairs, self.device)
        margin = torch.tensor([margin for *_, margin in pairs], device=self.device)
        return batch.replace(observations=batch.observations | {"margin": margin})
