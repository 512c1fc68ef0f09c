"""CPU time of one PPO update: Gaitway's PolicyOptimizer against rsl_rl's PPO, on the same data and networks.

    python benchmarks/ppo_update.py [--epochs 5] [--repeats 3]

Both do the same arithmetic: clipped surrogate, clipped value loss, entropy, exact KL with the adaptive learning rate,
gradients of actor and critic clipped apart, Adam. One thread each, process time, the contestants in turn; the best
repeat of each counts, as whatever else the machine does can only add.
"""

from __future__ import annotations

import argparse
import copy
import platform
import time
from collections.abc import Callable
from importlib.metadata import version

import numpy as np
import torch
from gaitway_agents.core.batch import Batch
from gaitway_agents.core.optimizer import OptimizerConfig, PolicyOptimizer
from gaitway_agents.models.actor_critic import ActorCritic, ActorCriticConfig
from gaitway_agents.models.heads import gaussian_log_prob
from gaitway_agents.presets import has_bfloat16
from gymnasium import spaces
from rsl_rl.algorithms import PPO
from rsl_rl.models import MLPModel
from rsl_rl.storage import RolloutStorage
from tensordict import TensorDict
from torch import Tensor

OBSERVATIONS, ACTIONS, HIDDEN = 48, 12, (512, 256, 128)
MINIBATCHES = 4
TARGETS = {"float32": 0.9, "bfloat16": 0.4}


@torch.no_grad()
def make_data(policy: ActorCritic, steps: int, envs: int) -> dict[str, Tensor]:
    """Rollout of ``policy`` over random observations, (T, N, ...)."""
    observations = torch.randn(steps, envs, OBSERVATIONS)
    flat = policy.distribution({"policy": observations.flatten(0, 1)})
    mean, std = (parameter.unflatten(0, (steps, envs)).contiguous() for parameter in flat)
    actions = mean + std * torch.randn(steps, envs, ACTIONS)
    values = policy.value({"policy": observations.flatten(0, 1)}).reshape(steps, envs)
    return {
        "observations": observations,
        "actions": actions,
        "mean": mean,
        "std": std,
        "log_probs": gaussian_log_prob(mean, std, actions),
        "values": values,
        "returns": values + torch.randn(steps, envs),
        "advantages": torch.randn(steps, envs),
    }


def ours(policy: ActorCritic, data: dict[str, Tensor], epochs: int, precision: str) -> Callable[[], object]:
    flat = {name: value.flatten(0, 1) for name, value in data.items()}
    batch = Batch(
        observations={"policy": flat["observations"]},
        distribution=(flat["mean"], flat["std"]),
        **{name: flat[name] for name in ("actions", "log_probs", "values", "returns", "advantages")},
    )
    # rsl_rl normalises advantages when a rollout ends, so its update does not contain that.
    config = OptimizerConfig(epochs=epochs, minibatches=MINIBATCHES, precision=precision, normalize_advantages="none")
    optimizer = PolicyOptimizer(copy.deepcopy(policy), config, torch.Generator().manual_seed(0))
    return lambda: optimizer.update(batch)


def theirs(policy: ActorCritic, data: dict[str, Tensor], epochs: int) -> Callable[[], object]:
    steps, envs = data["values"].shape
    observations = TensorDict({"policy": data["observations"][0]}, batch_size=[envs])
    groups = {"actor": ["policy"], "critic": ["policy"]}
    gaussian = {"class_name": "GaussianDistribution", "init_std": 1.0}
    actor = MLPModel(observations, groups, "actor", ACTIONS, HIDDEN, "elu", distribution_cfg=gaussian)
    critic = MLPModel(observations, groups, "critic", 1, HIDDEN, "elu")
    actor.mlp.load_state_dict(policy.actor.state_dict())
    critic.mlp.load_state_dict(policy.critic.state_dict())
    storage = RolloutStorage("rl", envs, steps, observations, [ACTIONS])
    storage.observations = TensorDict({"policy": data["observations"]}, batch_size=[steps, envs])
    storage.actions = data["actions"]
    storage.distribution_params = [data["mean"], data["std"]]
    storage.actions_log_prob = data["log_probs"][..., None]
    for name in ("values", "returns", "advantages"):
        setattr(storage, name, data[name][..., None])
    return PPO(
        actor, critic, storage, num_learning_epochs=epochs, num_mini_batches=MINIBATCHES, entropy_coef=0.005
    ).update


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--envs", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=24)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = ActorCriticConfig(actor_hidden=HIDDEN, critic_hidden=HIDDEN, normalize_observations=False)
    seen, action = (spaces.Box(-np.inf, np.inf, (n,), np.float32) for n in (OBSERVATIONS, ACTIONS))
    policy = ActorCritic(spaces.Dict({"policy": seen}), action, config)
    data = make_data(policy, args.steps, args.envs)
    contestants = {"rsl_rl": theirs(policy, data, args.epochs), "float32": ours(policy, data, args.epochs, "float32")}
    if has_bfloat16(torch.device("cpu")):
        contestants["bfloat16"] = ours(policy, data, args.epochs, "bfloat16")
    best = dict.fromkeys(contestants, float("inf"))
    for _ in range(args.repeats):
        for name, update in contestants.items():
            start = time.process_time()
            update()
            best[name] = min(best[name], time.process_time() - start)
    size = " -> ".join(map(str, (OBSERVATIONS, [*HIDDEN], ACTIONS)))
    print(f"{args.envs} x {args.steps} samples, {size}, {args.epochs} epochs x {MINIBATCHES} minibatches, 1 thread")
    cpu = f"{platform.machine()} with {torch.backends.cpu.get_cpu_capability()}"
    print(f"{cpu}, torch {torch.__version__}, rsl_rl {version('rsl-rl-lib')}")
    print(f"{'update':<18} {'CPU-s':>8} {'ratio':>7} {'target':>7}")
    for name, seconds in best.items():
        label = name if name == "rsl_rl" else f"Gaitway {name}"
        target = f"{TARGETS[name]:7.2f}" if name in TARGETS else ""
        print(f"{label:<18} {seconds:8.2f} {seconds / best['rsl_rl']:7.3f} {target}")


if __name__ == "__main__":
    main()
