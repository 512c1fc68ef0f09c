"""The evaluator of language trainings: held-out problems answered, pairs ranked, the likelihood of demonstrations."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import torch
from gaitway_agents.core.batch import Batch
from gaitway_agents.language.preference import PreferenceTrainer
from gaitway_agents.language.reward_model import RewardModelTrainer
from gaitway_agents.language.sft import SFTConfig, SFTTrainer, batch_of_examples
from gaitway_language.data import demonstrations, preferences
from torch import Tensor

from ...runs.files import make_folder
from ...training.evaluator import Evaluator
from .build import TextTraining, world_for_answers
from .evaluate import evaluate
from .pages import shown, write_page
from .ranking import rank
from .statistics import Measure, bootstrap_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gaitway_tasks.language.spec import Row

    from ...runs.folder import RunFolder
    from ...train_config import TrainConfig

ANSWERS = "answers"
"""Folder of a run with a page of answers for each evaluation."""
SEED = 10_000
"""Evaluations are seeded so much above the run."""
BATCH = 32


class TextEvaluator(Evaluator):
    """Evaluates what the agent is to learn."""

    def __init__(self, config: TrainConfig, run: RunFolder, training: TextTraining):
        super().__init__(config, run, training.trainer)
        self.training = training

    def watch(self, wall: float) -> dict[str, float]:
        if self.is_due() and self.trainer.steps < self.config.total_steps:
            self._evaluate(wall)
        return {}

    def finish(self, wall: float) -> None:
        if self.config.evaluation_episodes:
            print(f"evaluation: {', '.join(f'{name} {text}' for name, text in self._evaluate(wall).items())}")

    def close(self) -> None:
        world: Any = getattr(self.trainer, "world", None)
        if world is not None:
            world.close()

    def _evaluate(self, wall: float) -> dict[str, str]:
        """Record an evaluation; returns the numbers that tell most, by name, as people read them."""
        rows = self.training.task.source.rows("test")[: self.config.evaluation_episodes]
        measures: dict[str, Measure] = {}
        with torch.no_grad():
            if isinstance(self.trainer, RewardModelTrainer | PreferenceTrainer) and "chosen" in rows[0]:
                pairs = preferences(rows, self.training.task, self.training.conversation)
                measures["pair accuracy"] = rank(pairs, self._scores, self.training.device)
            if isinstance(self.trainer, SFTTrainer) and "completion" in rows[0]:
                measures["demonstration loss"] = self._demonstration_loss(rows)
        told = {name: shown(name, measure) for name, measure in measures.items()}
        row: dict[str, Any] = {"returns": [], "lengths": []}
        if not isinstance(self.trainer, RewardModelTrainer):
            evaluation = evaluate(
                world_for_answers(self.config, self.training),
                rows,
                model=str(self.run.path),
                steps=self.trainer.steps,
                seed=self.config.seed + SEED,
            )
            make_folder(self.run.path / ANSWERS)
            write_page(evaluation, self.run.path / ANSWERS / f"step_{self.trainer.steps:012d}.html")
            measures |= evaluation.measures
            wanted = ("greedy accuracy", "greedy format", "greedy reward", "greedy share of the optimum")
            told |= {name: shown(name, evaluation.measures[name]) for name in wanted if name in evaluation.measures}
            greedy = [problem.greedy for problem in evaluation.problems]
            row = {"returns": [answer.reward for answer in greedy], "lengths": [answer.tokens for answer in greedy]}
        self.run.append_evaluation(
            {
                "steps": self.trainer.steps,
                "wall_s": wall,
                "deterministic": True,
                "seed": self.config.seed + SEED,
                **row,
                "measures": {name: asdict(measure) for name, measure in measures.items()},
            }
        )
        return told

    def _demonstration_loss(self, rows: Sequence[Row]) -> Measure:
        """Negative log-likelihood of a token of held-out demonstrations [nats], over demonstrations."""
        training, agent = self.training, self.config.agent
        assert isinstance(self.trainer, SFTTrainer) and isinstance(agent, SFTConfig)
        examples = demonstrations(rows, training.task, training.conversation, last_only=agent.last_answer_only)
        losses: list[float] = []
        for first in range(0, len(rows), BATCH):
            batch = batch_of_examples(examples[first : first + BATCH], self.training.device)
            assert batch.mask is not None
            losses += (-self.trainer.evaluate(batch).log_probs.sum(1) / batch.mask.sum(1)).tolist()
        return bootstrap_mean(losses)

    def _scores(self, batch: Batch) -> Tensor:
        """Scores of pairs of answers, shape (P, 2): a reward model's, or the implicit rewards of DPO and its kin."""
        if isinstance(self.trainer, PreferenceTrainer):
            return self.trainer.rewards(batch)
        assert isinstance(self.trainer, RewardModelTrainer)
        found = self.trainer.evaluate(batch).values
        assert found is not None
        return found
