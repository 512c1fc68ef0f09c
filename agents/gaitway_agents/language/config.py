"""Settings of policy gradients on sampled sequences."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from gaitway_files.errors import UserError
from gaitway_files.ranges import Checked, NonNegativeFloat, PositiveFloat, PositiveInt, PositiveShare, Share, one_of

from ..core.group_advantage import SCALES
from ..core.optimizer import OptimizerConfig
from .corrections import CorrectionConfig
from .entropy_control import EntropyControlConfig
from .fixed_data import one_step
from .kl_control import KLControlConfig
from .schedule import LearningRateSchedule

ADVANTAGES = ("group", "leave_one_out", "reinforce++", "reinforce++_baseline", "gae", "place")
OF_TOKENS = ("reinforce++", "gae", "place")
"""Advantages that tell the tokens of a sequence apart."""


@dataclass(frozen=True, kw_only=True)
class PolicyGradientConfig(Checked):
    """One iteration samples ``prompts_per_step * group_size`` answers and learns from them. Defaults are GRPO's."""

    prompts_per_step: PositiveInt = 32
    """Prompts of each iteration; typically 16 to 512."""
    group_size: PositiveInt = 16
    """Answers to each prompt; typically 4 to 64."""
    learnt_answers: PositiveInt | None = None
    """Answers of each group to learn from, those whose rewards vary most (PODS, Xu et al. 2025); None: all.
    Sampling costs the same, and learning less."""
    advantage: Annotated[str, one_of(*ADVANTAGES)] = "group"
    """"group" (GRPO), "leave_one_out" (RLOO), "reinforce++", "reinforce++_baseline", "gae" with a critic (PPO), or
    "place": each turn of a dialogue with others after the same reply to the same prompt, for environments."""
    scale: Annotated[str, one_of(*SCALES)] = "group"
    """Standard deviation that divides the advantages of "group": over the "group", over the "batch", or "none"."""
    gamma: Share = 1.0
    """Discount factor of tokens, typically 1; with "place" of turns, typically 0.95 to 1."""
    lam: Share = 0.95
    """Lambda of generalised advantage estimation, typically 0.95 to 1; with "place" of turns, typically 0.2 to 1."""
    zero_variance: Annotated[str, one_of("keep", "drop", "resample")] = "keep"
    """Treatment of prompts whose answers all earn the same: "keep" them, with advantages of exactly 0; "drop" them
    from the batch and its means; or "resample" others in their place (dynamic sampling, Yu et al. 2025)."""
    max_resamples: PositiveInt = 4
    """Further calls of the world for "resample"; then the batch stays smaller."""
    truncated: Annotated[str, one_of("keep", "mask")] = "keep"
    """Treatment of answers that hit the limit of their length: "keep", or "mask" (overlong filtering)."""
    missing_eos_penalty: NonNegativeFloat = 0.0
    """Penalty on the reward of an answer that did not end by itself; typically 0 to 1."""
    missing_eos_reward: float | None = None
    """Reward of such an answer, whatever its text; None leaves its own reward."""
    overlong_start: int | None = None
    """Tokens from which an answer is punished (soft overlong punishment, Yu et al. 2025); None never does."""
    overlong_end: int | None = None
    """Tokens at which the punishment, growing linearly, reaches 1."""
    kl: KLControlConfig | None = None
    """Penalty on the reward for leaving the reference, by the trainer's log-probabilities whatever ``behaviour`` is;
    the penalty in the loss is ``optimizer.reference_kl``."""
    reference_interval: PositiveInt | None = None
    """Updates after which the reference moves towards the policy (TR-DPO, Gorbatovski et al. 2024); None never."""
    reference_rate: PositiveShare = 0.6
    """Share of the way that it moves; 1 is all of it, typically 0.6 to 1."""
    whiten_rewards: bool = False
    """Scale the rewards of tokens to unit standard deviation over the batch, without moving their mean."""
    behaviour: Annotated[str, one_of("engine", "trainer")] = "engine"
    """Log-probabilities that the ratio starts from: those of the "engine", from sampling, or of the "trainer",
    computed anew before the update at the cost of one more forward pass."""
    correction: CorrectionConfig | None = None
    """Importance weights of tokens, trainer over engine, for behaviour "trainer"; None: none."""
    off_policy_threshold: PositiveFloat | None = None
    """Least log-probability ratio, trainer to engine, of bad answers to learn from, in nats per token, for behaviour
    "trainer" (DeepSeek-V3.2 2025); None: all."""
    entropy_share: PositiveShare = 1.0
    """Share of the tokens to learn from, the least certain ones, for behaviour "trainer" (Wang et al. 2025); typically
    0.2."""
    entropy: EntropyControlConfig | None = None
    """Steer ``optimizer.entropy_coefficient`` to a target of the entropy."""
    schedule: LearningRateSchedule = field(default_factory=LearningRateSchedule)
    optimizer: OptimizerConfig = field(default_factory=one_step)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_groups()
        self._check_lengths()
        self._check_optimizer()
        self._check_corrections()
        self._check_reference()
        if self.whiten_rewards and self.advantage not in OF_TOKENS:
            raise UserError(
                f"whiten_rewards with advantage {self.advantage!r}: only {' and '.join(map(repr, OF_TOKENS))} have "
                "rewards of tokens; set it false"
            )

    @property
    def needs_reference(self) -> bool:
        """True if leaving the reference is penalised."""
        return self.kl is not None or self.optimizer.reference_kl is not None

    @property
    def group_learnt(self) -> int:
        """Answers of each group that are learnt from."""
        return self.group_size if self.learnt_answers is None else self.learnt_answers

    def _check_groups(self) -> None:
        if self.learnt_answers is not None:
            if self.advantage in OF_TOKENS:
                raise UserError(f"learnt_answers with advantage {self.advantage!r}, which has no groups: leave it out")
            if not 2 <= self.learnt_answers < self.group_size:
                raise UserError(
                    f"learnt_answers {self.learnt_answers}: must be at least 2 and below group_size {self.group_size}"
                )
        if self.advantage in OF_TOKENS:
            if self.zero_variance != "keep":
                raise UserError(
                    f"zero_variance {self.zero_variance!r} with advantage {self.advantage!r}, which compares no "
                    "whole answers: use 'keep'"
                )
        elif self.group_size < 2:
            raise UserError(
                f"group_size {self.group_size} with advantage {self.advantage!r}: an answer is compared with others "
                "to its prompt; use at least 2"
            )
        if self.scale != "group" and self.advantage != "group":
            raise UserError(f"scale {self.scale!r} is for advantage 'group', not {self.advantage!r}: leave it out")

    def _check_lengths(self) -> None:
        if self.missing_eos_penalty and self.missing_eos_reward is not None:
            raise UserError("missing_eos_penalty and missing_eos_reward: use one of them")
        if self.truncated == "mask" and (self.missing_eos_penalty or self.missing_eos_reward is not None):
            raise UserError("truncated 'mask' learns nothing from answers without an end: it needs no missing_eos_...")
        start, end = self.overlong_start, self.overlong_end
        if (start is None) != (end is None):
            raise UserError(f"overlong_start {start}, overlong_end {end}: give both or neither")
        if start is not None and end is not None and not 0 <= start < end:
            raise UserError(f"overlong_start {start}, overlong_end {end}: the start must lie below the end")

    def _check_reference(self) -> None:
        if self.kl is not None and self.optimizer.reference_kl is not None:
            raise UserError("kl and optimizer.reference_kl: punish leaving the reference in one place, not in both")
        if self.reference_interval is not None and not self.needs_reference:
            raise UserError("reference_interval without a reference: set kl or optimizer.reference_kl, or leave it out")

    def _check_corrections(self) -> None:
        for name, asked in (
            ("correction", self.correction is not None),
            ("off_policy_threshold", self.off_policy_threshold is not None),
            ("entropy_share", self.entropy_share < 1.0),
        ):
            if asked and self.behaviour != "trainer":
                raise UserError(f"{name} with behaviour {self.behaviour!r}: needs 'trainer', which it compares with")

    def _check_optimizer(self) -> None:
        if self.optimizer.schedule == "adaptive" and self.schedule.changes:
            raise UserError("schedule with optimizer.schedule 'adaptive', which steers the rate itself: use 'constant'")
        sequences = self.prompts_per_step * self.group_learnt
        if sequences % self.optimizer.minibatches:
            name = "group_size" if self.learnt_answers is None else "learnt_answers"
            raise UserError(
                f"optimizer.minibatches {self.optimizer.minibatches} does not divide the {sequences} sequences of "
                f"prompts_per_step {self.prompts_per_step} times {name} {self.group_learnt}"
            )
        if self.advantage != "gae" and self.optimizer.critic is not None:
            raise UserError(f"optimizer.critic with advantage {self.advantage!r}: only 'gae' has a critic")
        if self.entropy is not None and self.optimizer.entropy_coefficient:
            raise UserError("entropy steers optimizer.entropy_coefficient: set that to 0")
