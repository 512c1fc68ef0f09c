"""Speed of training, everything included, against Stable-Baselines3, a CleanRL-style loop and rsl_rl.

For each task all contestants have the same network, number of environments, rollout and updates, one thread for torch,
and take turns; the best of several turns counts, for this is meant to be about code and not about what else the machine
does. Stable-Baselines3 and the plain loop step environments as their own examples do: Gymnasium's vector environments,
and EnvPool in the loop for Atari. Pong is about environments: the same learner with ale-py's games in C++, and with
Gymnasium's wrapped games in its vector environments of one process and of several. A last table shows how much of
EnvPool's own speed is left when nothing learns.

    python benchmarks/throughput.py [--tasks cartpole,half-cheetah,breakout,pong] [--rounds 3]
"""

from __future__ import annotations

import argparse
import functools
import json
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

STEPS = {"cartpole": 25_600, "half-cheetah": 32_768, "breakout": 4_096, "pong": 4_096}
"""Environment steps of one turn."""
IDS = {
    "cartpole": "CartPole-v1",
    "half-cheetah": "HalfCheetah-v5",
    "breakout": "BreakoutNoFrameskip-v4",
    "pong": "PongNoFrameskip-v4",
}
CONTESTANTS = {
    "cartpole": ("gaitway", "sb3", "plain"),
    "half-cheetah": ("gaitway", "sb3", "plain", "rsl_rl"),  # rsl_rl has continuous actions only
    "breakout": ("gaitway", "gaitway_bfloat16", "sb3", "plain"),
    "pong": ("gaitway", "gymnasium_sync", "gymnasium_async"),
}


def config(task: str) -> Any:
    """The settings of all contestants, as ours has them: one clip, minibatches, no reward scaling."""
    from gaitway_agents import presets

    kinds = {"cartpole": presets.PPO_CARTPOLE, "half-cheetah": presets.PPO_MUJOCO}
    kind = kinds.get(task, presets.PPO_ATARI)
    optimizer = replace(kind.optimizer, clip_value_loss=False)
    if task == "cartpole":
        optimizer = replace(optimizer, epochs=20)  # as rl-baselines3-zoo has it
    model = replace(kind.model, normalize_observations=False, clip_observations=None)
    return replace(kind, optimizer=optimizer, model=model, scale_rewards=False, learning_rate_final=None)


def num_envs(task: str) -> int:
    return 64 if task == "half-cheetah" else 8


def our_env(task: str) -> Any:
    import gaitway_ale
    import gaitway_gymnasium
    from gaitway_agents.vector.adapt import adapt

    if task in ("breakout", "pong"):
        return adapt(gaitway_ale.make_env(gaitway_ale.task_named(task), num_envs(task), num_threads=2))
    return adapt(gaitway_gymnasium.make_env(gaitway_gymnasium.task_named(task), num_envs(task), num_threads=1))


def gymnasium_game(task: str) -> Any:
    """A game as ``our_env`` plays it, by Gymnasium's wrappers."""
    import ale_py
    import gymnasium
    from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

    gymnasium.register_envs(ale_py)
    return FrameStackObservation(AtariPreprocessing(gymnasium.make(IDS[task]), terminal_on_life_loss=True), 4)


def gaitway(task: str, steps: int, precision: str = "float32", env: Any = None) -> float:
    from gaitway_agents.on_policy import OnPolicyTrainer
    from gaitway_agents.source import source_of

    settings = config(task)
    settings = replace(settings, optimizer=replace(settings.optimizer, precision=precision))
    trainer = OnPolicyTrainer(source_of(our_env(task) if env is None else env, settings), settings, seed=0)
    trainer.iterate()
    start, first = time.perf_counter(), trainer.steps
    while trainer.steps - first < steps:
        trainer.iterate()
    return (trainer.steps - first) / (time.perf_counter() - start)


def gaitway_bfloat16(task: str, steps: int) -> float:
    """As the preset is on CPUs that multiply bfloat16."""
    return gaitway(task, steps, "bfloat16")


def gymnasium_sync(task: str, steps: int) -> float:
    return gaitway(task, steps, env=_gymnasium_env(task, "SyncVectorEnv"))


def gymnasium_async(task: str, steps: int) -> float:
    """A process for each game."""
    return gaitway(task, steps, env=_gymnasium_env(task, "AsyncVectorEnv"))


def _gymnasium_env(task: str, kind: str) -> Any:
    from gaitway_agents.vector.adapt import adapt
    from gymnasium import vector

    games = [functools.partial(gymnasium_game, task)] * num_envs(task)
    return adapt(getattr(vector, kind)(games, autoreset_mode=vector.AutoresetMode.SAME_STEP))


def rsl_rl(task: str, steps: int) -> float:
    from gaitway_agents.rsl_rl.config import RslRlActorConfig, RslRlAlgorithmConfig, RslRlConfig, RslRlModelConfig
    from gaitway_agents.rsl_rl.trainer import RslRlTrainer

    ours = config(task)
    hidden, optimizer = ours.model.actor_hidden, ours.optimizer
    theirs = RslRlConfig(
        num_steps_per_env=ours.num_steps,
        init_at_random_ep_len=False,
        algorithm=RslRlAlgorithmConfig(
            num_learning_epochs=optimizer.epochs,
            num_mini_batches=optimizer.minibatches,
            learning_rate=optimizer.learning_rate,
            schedule="fixed",
            use_clipped_value_loss=False,
        ),
        actor=RslRlActorConfig(hidden_dims=hidden, activation="tanh"),
        critic=RslRlModelConfig(hidden_dims=hidden, activation="tanh"),
    )
    trainer = RslRlTrainer(our_env(task), theirs, seed=0)
    trainer.iterate()
    start, first = time.perf_counter(), trainer.steps
    while trainer.steps - first < steps:
        trainer.iterate()
    return (trainer.steps - first) / (time.perf_counter() - start)


def sb3(task: str, steps: int) -> float:
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_atari_env, make_vec_env
    from stable_baselines3.common.vec_env import VecFrameStack

    ours, n = config(task), num_envs(task)
    if task == "breakout":
        import ale_py
        import gymnasium

        gymnasium.register_envs(ale_py)
        env: Any = VecFrameStack(make_atari_env(IDS[task], n), 4)
    else:
        env = make_vec_env(IDS[task], n)
    hidden = list(ours.model.actor_hidden)
    model = PPO(
        "CnnPolicy" if task == "breakout" else "MlpPolicy",
        env,
        n_steps=ours.num_steps,
        batch_size=n * ours.num_steps // ours.optimizer.minibatches,
        n_epochs=ours.optimizer.epochs,
        gamma=ours.gamma,
        gae_lambda=ours.lam,
        learning_rate=ours.optimizer.learning_rate,
        policy_kwargs=None if task == "breakout" else {"net_arch": {"pi": hidden, "vf": hidden}},
        device="cpu",
    )
    model.learn(n * ours.num_steps)
    start, first = time.perf_counter(), model.num_timesteps
    model.learn(steps, reset_num_timesteps=False)
    return (model.num_timesteps - first) / (time.perf_counter() - start)


class Agent(nn.Module):
    """The networks of a plain loop."""

    def __init__(self, observation: tuple[int, ...], actions: int, continuous: bool):
        super().__init__()
        if len(observation) == 3:
            body = [nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3, 1)]
            shared = nn.Sequential(*body, nn.ReLU(), nn.Flatten(), nn.Linear(64 * 7 * 7, 512), nn.ReLU())
            self.actor = nn.Sequential(shared, nn.Linear(512, actions))
            self.critic = nn.Sequential(shared, nn.Linear(512, 1))
        else:
            self.actor, self.critic = (
                nn.Sequential(
                    nn.Linear(observation[0], 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs)
                )
                for outputs in (actions, 1)
            )
        self.log_std = nn.Parameter(torch.zeros(actions)) if continuous else None

    def forward(self, x: torch.Tensor) -> tuple[torch.distributions.Distribution, torch.Tensor]:
        x = x / 255.0 if x.dim() == 4 else x
        mean, value = self.actor(x), self.critic(x).squeeze(-1)
        if self.log_std is None:
            return torch.distributions.Categorical(logits=mean), value
        return torch.distributions.Independent(torch.distributions.Normal(mean, self.log_std.exp()), 1), value


def plain(task: str, steps: int) -> float:
    """The loop that single-file implementations have: lists of tensors, torch.distributions, Adam."""
    import gymnasium

    ours, n = config(task), num_envs(task)
    if task == "breakout":
        import envpool

        env: Any = envpool.make("Breakout-v5", env_type="gymnasium", num_envs=n, num_threads=2, seed=0)
    else:
        env = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make(IDS[task])] * n)
    space = getattr(env, "single_action_space", env.action_space)
    continuous = hasattr(space, "shape") and len(space.shape) > 0 and space.dtype == np.float32
    shape = getattr(env, "single_observation_space", env.observation_space).shape
    agent = Agent(shape, space.shape[-1] if continuous else int(space.n), continuous)
    adam = torch.optim.Adam(agent.parameters(), lr=ours.optimizer.learning_rate, eps=1e-5)
    seen, done = torch.as_tensor(env.reset()[0]).float(), torch.zeros(n)
    total, start = 0, 0.0
    while total < steps + n * ours.num_steps:
        if total == n * ours.num_steps:
            start = time.perf_counter()
        rows: list[tuple[torch.Tensor, ...]] = []
        for _ in range(ours.num_steps):
            with torch.no_grad():
                distribution, value = agent(seen)
                action = distribution.sample()
                log_prob = distribution.log_prob(action)
            observation, reward, terminated, truncated, _ = env.step(action.numpy())
            rows.append((seen, action, log_prob, value, torch.as_tensor(reward).float(), done))
            seen = torch.as_tensor(observation).float()
            done = torch.as_tensor(terminated | truncated).float()
        data = [torch.stack(part) for part in zip(*rows, strict=True)]
        _learn(agent, adam, data, seen, done, ours)
        total += n * ours.num_steps
    return (total - n * ours.num_steps) / (time.perf_counter() - start)


def _learn(agent: Agent, adam: Any, data: list[torch.Tensor], seen: Any, done: Any, ours: Any) -> None:
    observations, actions, log_probs, values, rewards, dones = data
    with torch.no_grad():
        last = agent(seen)[1]
        advantages, running = torch.zeros_like(rewards), torch.zeros_like(done)
        for t in reversed(range(len(rewards))):
            after, ended = (last, done) if t == len(rewards) - 1 else (values[t + 1], dones[t + 1])
            delta = rewards[t] + ours.gamma * after * (1 - ended) - values[t]
            advantages[t] = running = delta + ours.gamma * ours.lam * (1 - ended) * running
        returns = advantages + values
    flat = [x.flatten(0, 1) for x in (observations, actions, log_probs, advantages, returns)]
    size = len(flat[0]) // ours.optimizer.minibatches
    for _ in range(ours.optimizer.epochs):
        for rows in torch.randperm(len(flat[0])).split(size):
            o, a, old, adv, ret = (x[rows] for x in flat)
            distribution, value = agent(o)
            log_ratio = distribution.log_prob(a) - old
            ratio = log_ratio.exp()
            adv = (adv - adv.mean()) / (adv.std() + 1e-8)
            clip = ours.optimizer.surrogate.clip
            policy_loss = torch.max(-adv * ratio, -adv * ratio.clamp(1 - clip, 1 + clip)).mean()
            value_loss = (value - ret).square().mean()
            entropy = distribution.entropy().mean()
            loss = policy_loss + ours.optimizer.value_coefficient * value_loss
            adam.zero_grad()
            (loss - ours.optimizer.entropy_coefficient * entropy).backward()
            nn.utils.clip_grad_norm_(agent.parameters(), ours.optimizer.max_grad_norm)
            adam.step()


# ---- without learning ------------------------------------------------------------------------------------------------


def idle(task: str, what: str, seconds: float = 3.0) -> float:
    """Steps per second of EnvPool itself ("bare"), of our environment ("adapted"), and with a policy ("acting")."""
    import envpool
    from gaitway_agents.collector import Collector
    from gaitway_agents.models.actor_critic import ActorCritic

    n, count = num_envs(task), 0
    if what == "bare":
        env: Any = envpool.make(IDS[task], env_type="gymnasium", num_envs=n, num_threads=1, seed=0)
        env.reset()
        actions: Any = np.stack([env.action_space.sample() for _ in range(n)])
    else:
        env = our_env(task)
        env.reset(seed=0)
        actions = torch.as_tensor(np.asarray(env.action_space.sample()))
    start = time.perf_counter()
    if what == "acting":
        policy = ActorCritic(env.single_observation_space, env.single_action_space, config(task).model)
        collector = Collector(env, num_steps=100, random_episode_start=False)
        collector.begin(policy, torch.Generator(), None)
        while time.perf_counter() - start < seconds:
            collector.collect(count, last=False)
            count += 100
    else:
        while time.perf_counter() - start < seconds:
            env.step(actions)
            count += 1
    return count * n / (time.perf_counter() - start)


def turn(function: str, *arguments: str) -> float:
    """One turn, in a process of its own."""
    command = [sys.executable, "-W", "ignore", __file__, "--turn", function, *arguments]
    return float(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", default="cartpole,half-cheetah,breakout,pong")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--turn", nargs="+", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.turn:
        warnings.filterwarnings("ignore")
        torch.set_num_threads(1)
        name, task, *rest = args.turn
        print()
        print(json.dumps(idle(task, *rest) if name == "idle" else globals()[name](task, STEPS[task])))
        return
    for task in args.tasks.split(","):
        best = dict.fromkeys(CONTESTANTS[task], 0.0)
        for _ in range(args.rounds):
            for name in best:
                best[name] = max(best[name], turn(name, task))
        print(f"{task}: " + ", ".join(f"{name} {speed:,.0f} steps/s" for name, speed in best.items()))
        for ours in (name for name in best if name.startswith("gaitway")):
            ratios = (f"{best[ours] / speed:.2f} x {name}" for name, speed in best.items() if name[:7] != "gaitway")
            print(f"  {ours} is {', '.join(ratios)}", flush=True)
    for task in ("cartpole", "half-cheetah"):
        if task in args.tasks.split(","):
            found = dict.fromkeys(("bare", "adapted", "acting"), 0.0)
            for _ in range(args.rounds):
                for what in found:
                    found[what] = max(found[what], turn("idle", task, what))
            print(
                f"{task} without learning: EnvPool {found['bare']:,.0f} steps/s; ours {found['adapted']:,.0f} "
                f"({found['adapted'] / found['bare']:.0%}), with a policy acting {found['acting']:,.0f} "
                f"({found['acting'] / found['bare']:.0%})"
            )


if __name__ == "__main__":
    main()
