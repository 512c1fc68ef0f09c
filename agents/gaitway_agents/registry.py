"""The algorithms there are, one row each. Nothing is imported until a row is used: listing them needs no torch.

To add one, write its file and a row here. The file has a frozen dataclass of settings, and a
:class:`gaitway_agents.trainer.Trainer` made from environments (or what ``source`` makes of them), settings, ``seed``
and ``total_steps``; ``tests/agents/coin_agent.py`` is the smallest.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gymnasium import spaces

ANY = ("Box", "Discrete", "MultiDiscrete")
LEARNING = ("torch", "gymnasium", "tensorboard")
WRITING = ("torch", "gymnasium", "transformers", "peft", "math_verify", "jinja2")


@dataclass(frozen=True, kw_only=True)
class Algorithm:
    """One algorithm. Whatever is imported is named as ``module:name``; modules of this package begin with a dot."""

    name: str
    summary: str
    trainer: str
    config: str
    """The dataclass of its settings."""
    source: str | None = None
    """Factory of a rollout source from environments and settings; None: the trainer has the environments."""
    restored: str | None = None
    """Factory of policy and actor from a trainer's state alone, for vectors; None: its policies are not exported."""
    preset: str | None = None
    """Its settings where a task has none of its own; None are the defaults of ``config``."""
    actions: tuple[str, ...] = ANY
    """Classes of :mod:`gymnasium.spaces` in which it can act."""
    tables: bool = False
    """Needs whole numbers as observation; planners a single one."""
    vectors: bool = False
    """Needs vectors as observations."""
    fields: tuple[str, ...] = ()
    """Fields of rows that it learns from, of algorithms for texts."""
    needs_reward: bool = False
    """True if a task of texts needs a reward."""
    samples: bool = False
    """True if it learns from answers of its own to prompts."""
    taught: bool = False
    """True if it learns from a teacher: ``--teacher``, in environments the field ``teacher`` of its settings."""
    modules: tuple[str, ...] = LEARNING
    """Modules of other packages that it imports."""
    extras: tuple[str, ...] = ("train",)
    """Extras of the wheel that bring them."""

    def config_path(self) -> str:
        return _absolute(self.config)

    def defaults(self) -> Any:
        """Its settings where a task has none of its own."""
        return load(self.config)() if self.preset is None else load(self.preset)

    def objection(self, observation_space: spaces.Dict, action_space: spaces.Space[Any]) -> str | None:
        """Reason why it cannot handle an environment with these spaces; None if it can."""
        from gymnasium import spaces

        if not isinstance(action_space, tuple(getattr(spaces, name) for name in self.actions)):
            return f"cannot act in {action_space}"
        entries = [space for name, space in observation_space.spaces.items() if name != "action_mask"]
        described = ", ".join(str(entry) for entry in observation_space.spaces.values())
        if self.tables and not (len(entries) == 1 and isinstance(entries[0], spaces.Discrete | spaces.MultiDiscrete)):
            return f"keeps a table and cannot index it by {described}"
        if self.vectors and not all(isinstance(e, spaces.Box) and len(e.shape) == 1 for e in entries):
            return f"reads vectors only, not {described}"
        return None


def load(path: str) -> Any:
    """Object named by ``module:name``."""
    module, _, name = _absolute(path).partition(":")
    return getattr(importlib.import_module(module), name)


def _absolute(path: str) -> str:
    return f"{__package__}{path}" if path.startswith(".") else path


def _policy_gradient(name: str, summary: str, preset: str | None) -> Algorithm:
    return Algorithm(
        name=name, summary=summary, trainer=".on_policy:OnPolicyTrainer", config=".presets:PPOConfig", preset=preset,
        source=".source:source_of", restored=".restored:restored",
    )  # fmt: skip


def _tabular(name: str, summary: str, trainer: str, config: str, preset: str | None = None) -> Algorithm:
    return Algorithm(
        name=name, summary=summary, trainer=trainer, config=config, preset=preset, actions=("Discrete",), tables=True
    )


def _writer(name: str, summary: str, trainer: str, config: str, fields: tuple[str, ...], **more: Any) -> Algorithm:
    """An algorithm whose model writes or judges texts."""
    return Algorithm(
        name=name, summary=summary, trainer=trainer, config=config, fields=fields, modules=WRITING,
        extras=("train", "language"), **more,
    )  # fmt: skip


def _text_policy_gradient(name: str, summary: str, preset: str) -> Algorithm:
    return _writer(
        name, summary, ".language.policy_gradient:PolicyGradientTrainer", ".language.config:PolicyGradientConfig",
        ("prompt",), needs_reward=True, samples=True, preset=f".language.presets:{preset}",
    )  # fmt: skip


def _preference(name: str, summary: str, preset: str) -> Algorithm:
    return _writer(
        name, summary, ".language.preference:PreferenceTrainer", ".language.preference:PreferenceConfig", PAIRS,
        preset=f".language.presets:{preset}",
    )  # fmt: skip


PAIRS = ("prompt", "chosen", "rejected")
_TD, _DP = ".tabular.td_trainer", ".tabular.dp_trainer"
_SAC: dict[str, Any] = {
    "trainer": ".off_policy.sac:SACTrainer",
    "config": ".off_policy.config:SACConfig",
    "restored": ".off_policy.sac:restored",
    "actions": ("Box",),
}

ENVIRONMENTS: dict[str, Algorithm] = {
    row.name: row
    for row in (
        _policy_gradient(
            "ppo",
            "proximal policy optimisation: robots, games, classic control; of texts, with critic and reference",
            None,
        ),
        _policy_gradient(
            "a2c", "advantage actor-critic: PPO with one epoch of the whole batch, and RMSprop", ".presets:A2C"
        ),
        _policy_gradient("vpg", "vanilla policy gradient with a value baseline", ".presets:VPG"),
        _policy_gradient("reinforce", "policy gradient of Monte-Carlo returns", ".presets:REINFORCE"),
        _policy_gradient(
            "trpo", "trust-region policy optimisation: natural gradient and line search", ".presets:TRPO"
        ),
        _policy_gradient("impala", "V-trace with actors one update behind the learner", ".presets:IMPALA"),
        _policy_gradient(
            "ppo-dreamer", "PPO with DreamerV3's tricks: any scale of rewards", ".presets:PPO_DREAMER"
        ),
        Algorithm(
            name="rsl_rl",
            summary="rsl-rl-lib's own PPO",
            trainer=".rsl_rl.trainer:RslRlTrainer",
            restored=".rsl_rl.trainer:restored",
            config=".rsl_rl.config:RslRlConfig",
            actions=("Box",),
            vectors=True,
            modules=(*LEARNING, "rsl_rl"),
            extras=("train", "rsl-rl"),
        ),
        Algorithm(
            name="distill",
            summary="policy distillation: a robot's student learns the actions of a teacher, which may see more",
            trainer=".distillation:PolicyDistillationTrainer",
            restored=".restored:restored",
            config=".distillation:PolicyDistillationConfig",
            source=".distillation:source_of",
            actions=("Box",),
            vectors=True,
            taught=True,
        ),
        Algorithm(
            name="dqn",
            summary="deep Q-network: double, duelling, n-step, prioritised as switches; discrete actions",
            trainer=".off_policy.dqn:DQNTrainer",
            config=".off_policy.config:DQNConfig",
            actions=("Discrete",),
        ),
        Algorithm(name="sac", summary="soft actor-critic; continuous actions", **_SAC),
        Algorithm(
            name="fast-sac",
            summary="soft actor-critic for many environments at once",
            preset=".off_policy.presets:FAST_SAC",
            **_SAC,
        ),
        _tabular(
            "q-learning", "Watkins' Q-learning on a table", f"{_TD}:TDControlTrainer", f"{_TD}:QLearningConfig"
        ),
        _tabular("sarsa", "SARSA on a table", f"{_TD}:TDControlTrainer", f"{_TD}:SarsaConfig"),
        _tabular(
            "expected-sarsa", "expected SARSA on a table", f"{_TD}:TDControlTrainer", f"{_TD}:SarsaConfig",
            f"{_TD}:EXPECTED_SARSA",
        ),
        _tabular(
            "value-iteration", "exact planning in a known model, by value iteration", f"{_DP}:ValueIterationTrainer",
            f"{_DP}:ValueIterationConfig",
        ),
        _tabular(
            "policy-iteration", "exact planning in a known model, by policy iteration",
            f"{_DP}:PolicyIterationTrainer", f"{_DP}:PolicyIterationConfig",
        ),
    )
}  # fmt: skip
"""Algorithms that learn in environments, by name."""

TEXTS: dict[str, Algorithm] = {
    row.name: row
    for row in (
        _writer(
            "sft", "supervised fine-tuning on demonstrations", ".language.sft:SFTTrainer", ".language.sft:SFTConfig",
            ("prompt", "completion"),
        ),
        _text_policy_gradient(
            "grpo", "group-relative policy optimisation: several answers to a prompt, each against the others", "GRPO"
        ),
        _text_policy_gradient("dr-grpo", "GRPO without its biases towards long answers and easy prompts", "DR_GRPO"),
        _text_policy_gradient(
            "dapo", "GRPO with clip-higher, dynamic sampling, token means and overlong handling", "DAPO"
        ),
        _text_policy_gradient("gspo", "GRPO with the ratio of whole sequences", "GSPO"),
        _text_policy_gradient("cispo", "GRPO with clipped weights in place of clipped surrogates", "CISPO"),
        _text_policy_gradient("rloo", "REINFORCE with the other answers to a prompt as baseline", "RLOO"),
        _text_policy_gradient(
            "reinforce++", "REINFORCE with advantages normalised over the batch", "REINFORCE_PLUS_PLUS"
        ),
        _text_policy_gradient(
            "ppo", "proximal policy optimisation of texts, with a critic and a reference of its own", "PPO_RLHF"
        ),
        _writer(
            "online-dpo", "DPO on pairs of fresh answers, the better one by reward",
            ".language.online_dpo:OnlineDPOTrainer", ".language.online_dpo:OnlineDPOConfig", ("prompt",),
            needs_reward=True, samples=True,
        ),
        _writer(
            "gkd", "generalised knowledge distillation: a teacher's distributions, on answers of the student's own",
            ".language.distillation:DistillationTrainer", ".language.distillation:DistillationConfig", ("prompt",),
            samples=True, taught=True,
        ),
        _writer(
            "reward-model", "Bradley-Terry reward model of preferences", ".language.reward_model:RewardModelTrainer",
            ".language.reward_model:RewardModelConfig", PAIRS,
        ),
        _preference("dpo", "direct preference optimisation", "DPO"),
        _preference("ipo", "identity preference optimisation: DPO with a bounded target", "IPO"),
        _preference("kto", "Kahneman-Tversky optimisation: answers labelled good or bad", "KTO"),
        _preference("simpo", "simple preference optimisation: mean log-probabilities, no reference", "SIMPO"),
    )
}  # fmt: skip
"""Algorithms that learn from texts, by name."""


def algorithms() -> dict[str, Algorithm]:
    """All algorithms by name; PPO, which is among both, as the one for environments."""
    return {**ENVIRONMENTS, **{name: row for name, row in TEXTS.items() if name not in ENVIRONMENTS}}
