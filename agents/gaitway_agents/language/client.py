"""A training client for people who write their own loops: gradients, steps, samples and states, one verb each.

The verbs are those of Tinker's ``TrainingClient`` (Thinking Machines, 2025), for a model in this process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from gaitway_files.checkpoints import load_checkpoint
from gaitway_files.errors import UserError
from gaitway_files.reading import FileError
from gaitway_files.writing import whole_file
from torch import Tensor

from ..core import objective
from ..core.batch import Batch
from ..core.likelihood import NegativeLogLikelihood
from ..core.losses import Loss, PolicyLoss, PolicyLossConfig
from ..core.optimizer import OptimizerConfig, PolicyOptimizer
from ..core.policy import Evaluation
from ..interfaces import Engine
from ..models.causal_lm import CausalLMPolicy
from .datum import Datum, Sample, batch_of
from .evaluation import evaluate
from .fixed_data import one_step
from .weights import load_trainable_state, trainable_state

POLICY_LOSSES: dict[str, dict[str, Any]] = {
    "importance_sampling": {"surrogate": "importance_sampling"},
    "ppo": {},
    "cispo": {"surrogate": "cispo"},
    "gspo": {"ratio": "sequence", "clip": 3e-4, "clip_high": 4e-4},
    "sapo": {"surrogate": "sapo"},
    "reinforce": {"surrogate": "reinforce"},
}
"""Losses by name, and the settings of ``PolicyLossConfig`` that make them so."""
LOSSES = ("cross_entropy", *POLICY_LOSSES)

LossFunction = Callable[[Evaluation, Batch], Tensor]
"""The loss of each token, (B, L), of what the policy says now and of the data as a batch."""


@dataclass(frozen=True)
class Output:
    """Loss, statistics and log-probabilities of data."""

    loss: float
    """Mean over the data, as the client aggregates."""
    statistics: Mapping[str, float]
    """Means over the tokens to be learnt."""
    log_probs: Sequence[Tensor]
    """Log-probabilities of the tokens of each datum, (L,); 0 where its mask is 0."""


class TrainingClient:
    """``forward_backward`` as often as you like, then ``optim_step``; ``sample`` whenever you like.

    All calls between two steps are one batch: how its data are split over them changes nothing. A loss is one of
    ``LOSSES``, a ``PolicyLossConfig``, a loss of the core, or a function of the policy's ``Evaluation`` and the batch
    that returns the loss of each token. Learning rate, clipping of gradients and ``aggregation`` are those of
    ``config``.
    """

    def __init__(self, policy: CausalLMPolicy, config: OptimizerConfig | None = None, *, engine: Engine | None = None):
        config = one_step(learning_rate=1e-5) if config is None else config
        wrong = {
            name: getattr(config, name)
            for name, only in (
                ("epochs", 1),
                ("minibatches", 1),
                ("schedule", "constant"),
                ("normalize_advantages", "none"),
                ("critic", None),
                ("workers", 1),
            )
            if getattr(config, name) != only
        }
        if wrong:
            raise UserError(f"{wrong}: the loop is yours; begin with fixed_data.one_step(), which has none of these")
        self.policy, self.engine = policy, engine
        self.optimizer = PolicyOptimizer(policy, config)
        self.steps = 0
        """Optimiser steps taken."""
        self._told = -1

    @property
    def device(self) -> torch.device:
        return next(self.policy.parameters()).device

    # ---- learning --------------------------------------------------------------------------------------------------

    def forward(self, data: Sequence[Datum], loss: str | PolicyLossConfig | Loss | LossFunction) -> Output:
        """The loss of ``data``, and log-probabilities, without a gradient."""
        batch = self._batch(data)
        recorder = _Recorder(self._loss(loss, batch), batch)
        recorder(evaluate(self.policy, batch, self.optimizer.config), batch)
        return self._output(recorder, batch)

    def forward_backward(self, data: Sequence[Datum], loss: str | PolicyLossConfig | Loss | LossFunction) -> Output:
        """The same, and add the gradient of the loss to what ``optim_step`` will go along."""
        batch = self._batch(data)
        recorder = _Recorder(self._loss(loss, batch), batch)
        self.optimizer.loss = recorder
        self.optimizer.gather(batch)
        return self._output(recorder, batch)

    def optim_step(self, learning_rate: float | None = None) -> dict[str, float]:
        """Step along the mean gradient of all data since the last step, at the rate given now or before."""
        if learning_rate is not None:
            if not learning_rate > 0.0:
                raise UserError(f"learning_rate {learning_rate}: must be positive")
            self.optimizer.learning_rate = learning_rate
        norm = self.optimizer.step()
        self.steps += 1
        return {"grad_norm": norm, "learning_rate": self.optimizer.learning_rate}

    # ---- sampling --------------------------------------------------------------------------------------------------

    def sample(self, prompts: Sequence[Sequence[int]], sampling: Any, num_samples: int = 1) -> list[list[Sample]]:
        """``num_samples`` continuations of each prompt by the newest weights; ``sampling`` is what the engine takes.

        An engine that draws by a seed draws the same again for the same one: change it from call to call.
        """
        if self.engine is None:
            raise UserError("there is no engine to sample with: give the client one, TrainingClient(..., engine=...)")
        if num_samples < 1:
            raise UserError(f"num_samples {num_samples}: must be at least 1")
        self.sync()
        found = self.engine.generate([prompt for prompt in prompts for _ in range(num_samples)], sampling)
        samples = [
            Sample(list(prompts[i // num_samples]), list(said.tokens), list(said.log_probs), said.finished)
            for i, said in enumerate(found)
        ]
        return [samples[i : i + num_samples] for i in range(0, len(samples), num_samples)]

    def sync(self) -> dict[str, float]:
        """Let the engine have the newest weights, if it has not; what it says of them."""
        if self.engine is None or self._told == self.steps:
            return {}
        said = self.engine.update(self.policy.named_weights())
        self._told = self.steps
        return dict(said or {})

    # ---- states ----------------------------------------------------------------------------------------------------

    def save_state(self, path: str | Path) -> None:
        """Everything the rest of the training depends on but the loop's own: weights, optimiser, gathered gradient."""
        gathered = self.optimizer.gathered
        state = {
            "policy": trainable_state(self.policy),
            "optimizer": self.optimizer.state_dict(),
            "steps": self.steps,
            "gathered": gathered,
            "gradient": self.optimizer.flat.flat.grad if gathered else None,
        }
        with whole_file(path) as partial:
            torch.save(state, partial)

    def load_state(self, path: str | Path) -> None:
        """Go on from a saved state, bit for bit. Raises ``ValueError`` if it is another model's, or none."""
        try:
            state = load_checkpoint(path, self.device)
            policy, gradient = state["policy"], state["gradient"]
        except (KeyError, TypeError, FileError) as error:
            raise UserError(f"{path} is no state of a training client: {error}") from error
        try:
            load_trainable_state(self.policy, policy)
        except RuntimeError as error:
            raise UserError(f"{path} holds the state of another model: {error}") from error
        self.optimizer.load_state_dict(state["optimizer"])
        self.optimizer.gathered, self.steps, self._told = state["gathered"], state["steps"], -1
        if gradient is not None:
            assert self.optimizer.flat.flat.grad is not None
            self.optimizer.flat.flat.grad.copy_(gradient)

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _batch(self, data: Sequence[Datum]) -> Batch:
        model: Any = self.policy.model
        return batch_of(data, int(model.get_input_embeddings().num_embeddings), self.device)

    def _loss(self, loss: str | PolicyLossConfig | Loss | LossFunction, batch: Batch) -> Loss:
        """The core's loss that ``loss`` means, if ``batch`` has what it needs."""
        if isinstance(loss, str):
            if loss not in LOSSES:
                raise UserError(f"loss {loss!r}: use one of {', '.join(map(repr, LOSSES))}, settings or a function")
            if loss == "cross_entropy":
                return NegativeLogLikelihood()
            config = self.optimizer.config
            settings: dict[str, Any] = {
                "entropy_coefficient": 0.0,
                "aggregation": config.aggregation,
                "horizon": config.horizon,
            }
            loss = PolicyLossConfig(**(settings | POLICY_LOSSES[loss]))
        if isinstance(loss, PolicyLossConfig):
            self._check(loss, batch)
            return PolicyLoss(loss)
        return cast(Loss, loss) if hasattr(loss, "statistics") else _Plain(loss)

    def _check(self, loss: PolicyLossConfig, batch: Batch) -> None:
        config = self.optimizer.config
        if (loss.aggregation, loss.horizon) != (config.aggregation, config.horizon):
            raise UserError(
                f"the loss has aggregation {loss.aggregation!r} (horizon {loss.horizon}), the client's config "
                f"{config.aggregation!r} ({config.horizon}): losses of one step are averaged alike, make them equal"
            )
        if loss.entropy_coefficient and self.policy.entropy != "gradient":
            raise UserError(
                f"entropy_coefficient {loss.entropy_coefficient}: the policy's entropy has no gradient; set it 0, or "
                "make the policy with entropy='gradient'"
            )
        needed = ["advantages"]
        if loss.surrogate != "reinforce":
            needed.append("log_probs")
        if loss.kl_coefficient:
            needed.append("reference")
        for name in needed:
            value = getattr(batch, name)
            if value is None or bool(value.isnan().all()):
                raise UserError(f"surrogate {loss.surrogate!r} needs the {name} of every datum, and they have none")

    def _output(self, recorder: _Recorder, batch: Batch) -> Output:
        assert batch.mask is not None
        config = self.optimizer.config
        if config.aggregation == "sequence":
            loss = objective.sequence_means(recorder.losses, batch.mask).mean()
        else:
            total = batch.mask.sum() if config.aggregation == "decision" else len(batch) * (config.horizon or 1)
            loss = objective.masked_mean(recorder.losses, batch.mask, total)
        means = recorder.sums / batch.mask.sum()
        lengths = batch.observations["lengths"].tolist()
        log_probs = (recorder.log_probs * batch.mask).cpu()
        return Output(
            float(loss),
            dict(zip(recorder.statistics, means.tolist(), strict=True)),
            [row[:length] for row, length in zip(log_probs, lengths, strict=True)],
        )


class _Plain:
    """A function of a user's as a loss."""

    statistics: tuple[str, ...] = ()

    def __init__(self, function: LossFunction):
        self.function = function

    def __call__(self, new: Evaluation, batch: Batch) -> tuple[Tensor, Tensor]:
        losses = self.function(new, batch)
        if losses.shape != batch.actions.shape:
            raise UserError(
                f"the loss returned shape {tuple(losses.shape)} for tokens {tuple(batch.actions.shape)}: return the "
                "loss of each token"
            )
        return losses, losses.new_zeros(0, *losses.shape)


class _Recorder:
    """A loss that remembers what it said of each row, in whatever order it was asked."""

    def __init__(self, loss: Loss, batch: Batch):
        self.loss, self.statistics = loss, loss.statistics
        self.losses, self.log_probs = torch.zeros(2, *batch.actions.shape, device=batch.actions.device)
        self.sums = torch.zeros(len(loss.statistics), device=batch.actions.device)

    def __call__(self, new: Evaluation, batch: Batch) -> tuple[Tensor, Tensor]:
        losses, columns = self.loss(new, batch)
        assert batch.mask is not None
        rows = batch.observations["row"]
        self.losses[rows], self.log_probs[rows] = losses.detach().float(), new.log_probs.detach().float()
        self.sums += (columns * batch.mask).flatten(1).sum(1)
        return losses, columns
