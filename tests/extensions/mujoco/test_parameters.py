"""A world of one robot as it was identified: joints, base, drives, and networks in the drives' place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from gaitway_mujoco import make_env
from gaitway_mujoco.model import build_model
from gaitway_mujoco.options import PhysicsOptions
from gaitway_tasks.actuator_network import LSTMNetwork, MLPNetwork, NetworkDescription, NetworkError, save_network
from gaitway_tasks.actuators import dc_motor_torque
from gaitway_tasks.identified import identified_task
from gaitway_tasks.robots import ANYMAL_C, DCMotor
from gaitway_tasks.robots.parameters import JointParameters, RobotParameters
from gaitway_tasks.spec import Timing
from quiet import quiet_task

JOINTS = ANYMAL_C.num_joints
FOUND = JointParameters(stiffness_scale=1.2, damping_scale=0.7, strength=0.8, armature=0.05, friction=0.6, viscous=0.3)
PARAMETERS = RobotParameters(
    robot="anymal-c",
    joints=dict.fromkeys(ANYMAL_C.joint_names[3:], FOUND),
    base_mass=21.0,
    base_com=(0.02, -0.01, 0.03),
)
ONE_STEP = quiet_task(timing=Timing(physics_dt=0.005, decimation=1), terminations={})
LAW = ANYMAL_C.joint_actuators[0]


def thrown(env):
    """Robots in the air, each in another state: target, position and velocity of the joints."""
    env.reset()
    n, world, generator = env.num_envs, env.world, torch.Generator().manual_seed(0)
    pos = world.default_joint_pos + torch.randn(n, JOINTS, generator=generator)
    vel = 4.0 * torch.randn(n, JOINTS, generator=generator)
    action = 2.0 * torch.randn(n, JOINTS, generator=generator)
    high = torch.tensor([[0.0, 0.0, 3.0]]).expand(n, 3)
    ids = torch.arange(n)
    world.write_root_state(ids, high, torch.tensor([[1.0, 0, 0, 0]]).expand(n, 4), 0 * high, 0 * high)
    world.write_joint_state(ids, pos, vel)
    world.finish_events()
    return action, world.default_joint_pos + 0.5 * action, pos, vel


def close(actual, expected):
    torch.testing.assert_close(actual, expected.float(), rtol=1e-4, atol=1e-4)


def test_joints_and_base_are_what_was_found_and_the_rest_is_the_model():
    plain = build_model(ONE_STEP, PhysicsOptions())
    model = build_model(identified_task(ONE_STEP, PARAMETERS), PhysicsOptions())
    changed = [model.joint(name).dofadr[0] for name in ANYMAL_C.joint_names[3:]]
    same = [model.joint(name).dofadr[0] for name in ANYMAL_C.joint_names[:3]]
    for field, value in (("dof_frictionloss", 0.6), ("dof_damping", 0.3), ("dof_armature", 0.05)):
        assert getattr(model, field)[changed] == pytest.approx(value)
        assert getattr(model, field)[same] == pytest.approx(getattr(plain, field)[same])
    base, was = model.body("base"), plain.body("base")
    assert base.mass == pytest.approx(21.0) and base.ipos == pytest.approx((0.02, -0.01, 0.03))
    assert base.inertia == pytest.approx(was.inertia * 21.0 / was.mass)
    assert model.body("LF_HIP").mass == plain.body("LF_HIP").mass


def test_drives_are_told_the_nominal_gains_and_do_what_was_found():
    task = identified_task(ONE_STEP, PARAMETERS)
    assert task.robot.joint_actuators == ANYMAL_C.joint_actuators
    env = make_env(task, 16, num_threads=1)
    action, target, pos, vel = thrown(env)
    env.step(action)
    real = DCMotor(
        stiffness=LAW.stiffness * 1.2 * 0.8, damping=LAW.damping * 0.7 * 0.8, effort_limit=LAW.effort_limit * 0.8,
        saturation_effort=LAW.saturation_effort * 0.8, velocity_limit=LAW.velocity_limit,
    )  # fmt: skip
    torque = env.world.robot.applied_torque
    close(torque[:, 3:], dc_motor_torque(real, target, pos, vel)[:, 3:])
    close(torque[:, :3], dc_motor_torque(LAW, target, pos, vel)[:, :3])


def test_randomised_strength_is_a_factor_on_what_was_found():
    env = make_env(identified_task(ONE_STEP, PARAMETERS), 16, num_threads=1)
    action, target, pos, vel = thrown(env)
    env.world.set_motor_strength(torch.arange(16), torch.full((16, JOINTS), 0.5))
    env.step(action)
    close(env.world.robot.applied_torque[:, :3], 0.5 * dc_motor_torque(LAW, target, pos, vel)[:, :3])
    weak = replace(PARAMETERS, joints={name: replace(FOUND, strength=0.4) for name in PARAMETERS.joints})
    other = make_env(identified_task(ONE_STEP, weak), 16, num_threads=1)
    action, *_ = thrown(other)
    other.step(action)
    close(env.world.robot.applied_torque[:, 3:], other.world.robot.applied_torque[:, 3:])


def law_network(kp: float, kd: float) -> MLPNetwork:
    """The law of ANYmal's drives, as a network of the present alone."""
    network = MLPNetwork(1, hidden=())
    network.load_state_dict({"layers.0.weight": torch.tensor([[kp, -kd]]), "layers.0.bias": torch.zeros(1)})
    return network


GAINS = dict.fromkeys(ANYMAL_C.joint_names, (LAW.stiffness, LAW.damping))
DESCRIPTION = NetworkDescription(kind="mlp", robot="anymal-c", period=0.005, gains=GAINS, input_idx=(0,))


def with_network(path: Path, task=ONE_STEP):
    return identified_task(task, RobotParameters(robot="anymal-c", actuator_network=str(path)))


def test_a_network_that_is_the_law_gives_the_torques_of_the_law(tmp_path):
    path = save_network(law_network(LAW.stiffness, LAW.damping), DESCRIPTION, tmp_path / "pd.npz")
    env = make_env(with_network(path), 16, num_threads=1)
    action, target, pos, vel = thrown(env)
    env.world.set_motor_strength(torch.arange(16)[:8], torch.full((8, JOINTS), 0.5))
    env.step(action)
    expected = dc_motor_torque(LAW, target, pos, vel)
    close(env.world.robot.applied_torque[8:], expected[8:])
    close(env.world.robot.applied_torque[:8], 0.5 * expected[:8])


def test_a_robot_stands_on_a_network_for_as_many_steps_as_on_its_law(tmp_path):
    path = save_network(law_network(LAW.stiffness, LAW.damping), DESCRIPTION, tmp_path / "pd.npz")
    heights = []
    for task in (quiet_task(), with_network(path, quiet_task())):
        env = make_env(task, 2, num_threads=1)
        env.reset()
        for _ in range(100):
            _, _, terminated, _, _ = env.step(torch.zeros(2, JOINTS))
            assert not terminated.any()
        heights.append(float(env.world.robot.root_pos_w[0, 2]))
    assert heights[0] == pytest.approx(heights[1], abs=0.01)  # explicit damping creeps a little otherwise


def test_the_memory_of_a_network_is_part_of_the_checkpoint(tmp_path):
    torch.manual_seed(0)
    description = replace(DESCRIPTION, kind="lstm")
    path = save_network(LSTMNetwork((5.0, 0.2, 40.0)), description, tmp_path / "lstm.npz")
    env, other = (make_env(with_network(path), 4, num_threads=1) for _ in range(2))
    actions = torch.randn(20, 4, JOINTS, generator=torch.Generator().manual_seed(1))
    for one in (env, other):
        one.reset(seed=0)
    for action in actions[:10]:
        env.step(action)
    other.load_state_dict(env.state_dict())
    for action in actions[10:]:
        a, b = env.step(action), other.step(action)
        torch.testing.assert_close(a[0]["policy"], b[0]["policy"], rtol=0, atol=0)


def test_what_is_inside_the_network_cannot_be_varied_or_stepped_otherwise(tmp_path):
    path = save_network(law_network(1.0, 1.0), DESCRIPTION, tmp_path / "pd.npz")
    env = make_env(with_network(path), 2, num_threads=1)
    env.reset()
    ids, ones = torch.arange(2), torch.ones(2, JOINTS)
    with pytest.raises(ValueError, match="has its gains in it"):
        env.world.set_gain_scale(ids, ones, ones)
    with pytest.raises(ValueError, match="has its delay in it"):
        env.world.set_action_delay(ids, torch.zeros(2))
    coarse = quiet_task(timing=Timing(physics_dt=0.01, decimation=2))
    with pytest.raises(NetworkError, match=r"trained for steps of 0\.005 s"):
        make_env(with_network(path, coarse), 2)
