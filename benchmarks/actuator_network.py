"""Cost of an actuator network in the MuJoCo world, beside the robot's own law: environment steps per CPU second.

    python benchmarks/actuator_network.py [--task velocity-flat-go2-blind] [--num_envs 256] [--steps 40]

The networks' weights are random, their outputs small, so that all robots fall alike; one thread.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import torch
from gaitway_mujoco import make_env
from gaitway_tasks.actuator_network import LSTMNetwork, MLPNetwork, NetworkDescription, save_network
from gaitway_tasks.identified import identified_task
from gaitway_tasks.registry import get_task
from gaitway_tasks.robots.parameters import RobotParameters
from gaitway_tasks.spec import Task


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="velocity-flat-go2-blind")
    parser.add_argument("--num_envs", type=int, default=256)
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()
    torch.set_num_threads(1)
    task = get_task(options.task)
    with tempfile.TemporaryDirectory() as folder:
        rates = {"law": rate(task, options)}
        for kind in ("mlp", "lstm"):
            description = NetworkDescription(
                kind=kind, robot=task.robot.name, period=task.timing.physics_dt, input_idx=(0, 1, 2, 4)
            )
            network = MLPNetwork(4) if kind == "mlp" else LSTMNetwork()
            path = save_network(network, description, Path(folder) / f"{kind}.npz")
            parameters = RobotParameters(robot=task.robot.name, actuator_network=str(path))
            rates[kind] = rate(identified_task(task, parameters), options)
    for kind, found in rates.items():
        print(f"{kind:5} {found:9,.0f} steps per CPU second, {found / rates['law']:.2f} of the law's")


def rate(task: Task, options: argparse.Namespace) -> float:
    """Environment steps per CPU second."""
    env = make_env(task, options.num_envs, num_threads=1)
    env.reset(seed=0)
    action = torch.zeros(options.num_envs, task.robot.num_joints)
    for _ in range(3):
        env.step(action)
    start = time.process_time()
    for _ in range(options.steps):
        env.step(action)
    return float(options.num_envs * options.steps / (time.process_time() - start))


if __name__ == "__main__":
    main()
