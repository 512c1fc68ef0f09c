"""Terms with memory: an object for each world, told when episodes end, kept in checkpoints."""

import pytest
import torch
from gaitway_files.errors import UserError
from gaitway_tasks.managers import Managers
from gaitway_tasks.mdp import rewards
from gaitway_tasks.robots import ANYMAL_C
from gaitway_tasks.spec import ObservationTerm, Reward
from gaitway_tasks.stateful import StatefulTerm
from gaitway_tasks.velocity import velocity_flat
from tensor_world import TensorWorld, close

from gaitway.config.tree import from_tree, to_tree


class Steps(StatefulTerm):
    """Steps of each episode that the term has seen."""

    STATE = ("count",)

    def __init__(self, term, world):
        self.count = torch.zeros(world.num_envs)

    def __call__(self, world, most=100.0):
        self.count += 1.0
        return self.count.clamp(max=most)

    def reset(self, env_ids):
        self.count[env_ids] = 0.0


def managers(world, **params):
    task = velocity_flat(ANYMAL_C)
    task = task.replace(rewards={"steps": Reward(func=Steps, weight=1.0 / world.step_dt, params=params)})
    return Managers(task, world, torch.Generator().manual_seed(0))


def test_a_term_remembers_and_forgets_the_episodes_that_end():
    first, second = managers(TensorWorld(ANYMAL_C, 3)), managers(TensorWorld(ANYMAL_C, 3))
    for _ in range(4):
        told = first.rewards.compute()
    close(told, [4.0, 4.0, 4.0])
    close(second.rewards.compute(), [1.0, 1.0, 1.0])  # another world has a memory of its own
    first.forget(torch.tensor([1]))
    close(first.rewards.compute(), [5.0, 1.0, 5.0])


def test_its_memory_is_in_checkpoints_and_its_parameters_are_arguments():
    first, second = managers(TensorWorld(ANYMAL_C, 2), most=6.0), managers(TensorWorld(ANYMAL_C, 2), most=6.0)
    for _ in range(5):
        first.rewards.compute()
    second.load_state_dict(first.state_dict())
    for manager in (first, second):
        close(manager.rewards.compute(), [6.0, 6.0])
        close(manager.rewards.compute(), [6.0, 6.0])  # of 7 steps


def test_robots_observe_without_memory():
    with pytest.raises(UserError, match="Steps is a class"):
        ObservationTerm(func=Steps)


def test_a_class_is_named_in_files_like_a_function():
    mean = Reward(
        func=rewards.track_mean_ang_vel_z_exp, weight=2.0, params={"std": 0.5, "command_name": "base", "time": 0.5}
    )
    plain = to_tree(mean)
    assert plain["func"] == "gaitway_tasks.mdp.rewards:track_mean_ang_vel_z_exp"
    assert from_tree(Reward, plain) == mean
    with pytest.raises(UserError, match=r"params\.time is missing"):
        from_tree(Reward, {**plain, "params": {"std": 0.5, "command_name": "base"}})
    with pytest.raises(UserError, match=r"params\.tim"):
        from_tree(Reward, {**plain, "params": {**plain["params"], "tim": 0.5}})
