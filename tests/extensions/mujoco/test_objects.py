"""Objects in the training world: reset, state, checkpoints, and the lab's world with the same physics."""

import numpy as np
import pytest
import torch
from gaitway_files.errors import UserError
from gaitway_mujoco.env import MujocoVectorEnv
from gaitway_mujoco.options import PhysicsOptions
from gaitway_sim2real.bundle.in_memory import contract_before_training
from gaitway_sim2real.mujoco.plant import build_plant
from gaitway_sim2real.mujoco.robots import RobotBatch
from gaitway_tasks.registry import get_task
from scripted_lift import ScriptedLift

N = 3
TASK = get_task("lift-franka", "cpu")
PLAIN = TASK.replace(events={name: TASK.events[name] for name in ("reset_all", "reset_object_position")})


@pytest.fixture
def env():
    env = MujocoVectorEnv(PLAIN, N, seed=0, num_threads=1, options=PhysicsOptions(cone="elliptic", impratio=100.0))
    env.reset()
    return env


def test_it_starts_in_its_range_and_comes_to_lie_while_the_arm_holds_itself_up(env):
    cube = env.world.objects["object"]
    way = cube.root_pos_w - torch.tensor([0.5, 0.0, 0.055])
    assert (way.abs() <= torch.tensor([0.1, 0.25, 1e-6])).all() and way[:, :2].std() > 0.0
    torch.testing.assert_close(env.world.object_pos("object"), cube.root_pos_w)
    for _ in range(20):
        env.step(torch.zeros(N, 8))
    torch.testing.assert_close(cube.root_pos_w[:, 2], torch.full((N,), 0.024), atol=1e-3, rtol=0.0)
    arm = env.world.robot.joint_pos[:, :7]
    torch.testing.assert_close(arm, torch.tensor(PLAIN.robot.default_joint_pos[:7]).expand(N, 7), atol=1e-4, rtol=0.0)
    with pytest.raises(UserError, match="has no object 'ball': it has object"):
        env.world.object_pos("ball")


def test_a_checkpoint_goes_on_bit_by_bit(env):
    random = torch.Generator().manual_seed(0)
    actions = torch.randn(30, N, 8, generator=random)
    for action in actions[:10]:
        env.step(action)
    kept = env.state_dict()
    again = MujocoVectorEnv(PLAIN, N, seed=5, num_threads=1, options=env.world.options)
    again.reset()
    again.load_state_dict(kept)
    for action in actions[10:]:
        (one, *_), (two, *_) = env.step(action), again.step(action)
        assert torch.equal(one["policy"], two["policy"])


@pytest.mark.slow
def test_a_scripted_hand_lifts_it_as_the_lab_does(env):
    """The same targets through the lab's world: the cube comes to the same place."""
    contract = contract_before_training(PLAIN)
    lab = RobotBatch(build_plant(contract, PLAIN.robot.mjcf, PLAIN.robot.mjcf), contract, N, 1)
    lab.place(yaw=np.zeros(N), joint_offset=np.zeros((N, 9)), velocity=np.zeros((N, 2)))
    lab.qpos[:], lab.qvel[:] = env.world._qpos, 0.0
    policy, observation = ScriptedLift(PLAIN), env.episodes._observe(torch.arange(N))
    for _ in range(150):
        observation, *_ = env.step(policy(observation["policy"]))
        lab.ctrl[:] = env.world._ctrl
        lab.step(lab.plant.decimation)
    here, there = env.world.objects["object"].root_pos_w.numpy(), lab.object_pos()["object"]
    assert (here[:, 2] > 0.2).all()
    np.testing.assert_allclose(here, there, atol=2e-3)
    np.testing.assert_allclose(env.world.robot.joint_pos.numpy(), lab.qpos[:, lab.plant.joint_qpos], atol=2e-3)
