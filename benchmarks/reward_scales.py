"""Rewards times 0.001, 1 and 1000: PPO with DreamerV3's tricks against PPO without them, on CartPole-v1.

    python benchmarks/reward_scales.py [--learners NAME ...] [--seeds 0 1 2] [--steps 100000]

Every learner has the same networks, rollouts, epochs and learning rate; rewards are neither clipped nor normalised.
Returns are those of the game itself, the number of steps that the pole stood, whatever was paid for them.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import envpool
import numpy as np
import torch
from gaitway_agents.models.critics import DreamerTricks
from gaitway_agents.on_policy import OnPolicyTrainer
from gaitway_agents.presets import PPO_CARTPOLE, PPO_DREAMER, PPOConfig
from gaitway_agents.source import source_of
from gaitway_agents.trainer import evaluate
from gaitway_agents.vector.adapt import adapt
from gymnasium.vector import VectorEnv, VectorWrapper

SCALES = (1e-3, 1.0, 1e3)
EPISODES = 100
"""Deterministic episodes after training, whose mean return is the result of a run."""
PLAIN = replace(PPO_CARTPOLE, lam=0.95)
"""CartPole's settings, with a lambda that leaves the critic less to say while it has everything to learn."""


def changed(config: PPOConfig, tricks: DreamerTricks, unimix: float, **optimizer: Any) -> PPOConfig:
    model = replace(config.model, dreamer=tricks, unimix=unimix)
    return replace(config, model=model, optimizer=replace(config.optimizer, **optimizer))


ALL, UNIMIX, EPS = PPO_DREAMER.model.dreamer, PPO_DREAMER.model.unimix, PPO_DREAMER.optimizer.eps
LEARNERS = {
    "plain": PLAIN,
    "unnormalised": changed(PLAIN, DreamerTricks(), 0.0, normalize_advantages="none"),
    "tricks": changed(PLAIN, ALL, UNIMIX, normalize_advantages="none", eps=EPS),
    "no-ema": changed(PLAIN, replace(ALL, critic_ema=False), UNIMIX, normalize_advantages="none", eps=EPS),
    "critic": changed(PLAIN, replace(ALL, critic_ema=False, percentile_scaling=False), UNIMIX, eps=EPS),
}
"""By name: advantages normalised over each minibatch, or not at all; all tricks; all but the moving average; and only
those that concern networks, with normalised advantages."""


class Paid(VectorWrapper):
    """An environment whose rewards are multiplied by ``scale``; its account of finished episodes is not."""

    def __init__(self, env: VectorEnv, scale: float):
        super().__init__(env)
        self.scale = scale

    def step(self, actions: Any) -> tuple[Any, ...]:
        observation, reward, terminated, truncated, info = self.env.step(actions)
        return observation, reward * self.scale, terminated, truncated, info


def cartpole(num_envs: int, seed: int) -> VectorEnv:
    return adapt(envpool.make("CartPole-v1", env_type="gymnasium", num_envs=num_envs, num_threads=1, seed=seed))


def result(config: PPOConfig, scale: float, seed: int, steps: int) -> float:
    """Mean return, 500 at most, of the deterministic policy after ``steps`` steps."""
    trainer = OnPolicyTrainer(source_of(Paid(cartpole(8, seed), scale), config), config, seed=seed, total_steps=steps)
    while trainer.steps < steps:
        trainer.iterate()
    return float(np.mean([e.ret for e in evaluate(trainer, cartpole(10, seed + 1000), EPISODES, seed + 2000)]))


def table(results: dict[str, dict[float, list[float]]]) -> str:
    """A Markdown table: for each learner and scale the mean over seeds, and each seed."""

    def cell(returns: Sequence[float]) -> str:
        return f"{np.mean(returns):.0f} ({', '.join(f'{value:.0f}' for value in returns)})"

    lines = ["| learner | " + " | ".join(f"rewards x {scale:g}" for scale in SCALES) + " | worst to best |"]
    lines.append("|---" * (len(SCALES) + 2) + "|")
    for name, row in results.items():
        means = [np.mean(returns) for returns in row.values()]
        cells = [cell(returns) for returns in row.values()]
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {min(means) / max(means):.0%} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--learners", nargs="+", choices=LEARNERS, default=list(LEARNERS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=100_000, help="environment steps of a training")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"CartPole-v1, {options.steps} steps, {EPISODES} episodes, load {os.getloadavg()[0]:.1f}", flush=True)
    results: dict[str, dict[float, list[float]]] = {}
    for name in options.learners:
        results[name] = {scale: [] for scale in SCALES}
        for seed in options.seeds:
            for scale in SCALES:
                results[name][scale].append(result(LEARNERS[name], scale, seed, options.steps))
                print(f"{name}, rewards x {scale:g}, seed {seed}: {results[name][scale][-1]:.1f}", flush=True)
    print(table(results))


if __name__ == "__main__":
    main()
