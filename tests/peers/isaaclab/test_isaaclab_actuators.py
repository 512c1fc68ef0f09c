"""Actuator laws against ``DCMotor`` and ``IdealPDActuator`` of Isaac Lab, with the ANYdrive's own configuration."""

import re

import pytest
import torch
from gaitway_isaaclab.actuators import actuator_cfgs
from gaitway_isaaclab.compat import IsaacLabError
from gaitway_tasks.actuator_network import LSTMNetwork, MLPNetwork, NetworkDescription, NetworkDrives, save_network
from gaitway_tasks.actuators import dc_motor_torque, implicit_pd_torque
from gaitway_tasks.identified import identified_task
from gaitway_tasks.registry import get_task
from gaitway_tasks.robots import ANYMAL_C, DCMotor, ImplicitPD
from gaitway_tasks.robots.parameters import JointParameters, RobotParameters
from isaac_side import JOINTS
from isaaclab.actuators import DCMotorCfg, IdealPDActuatorCfg
from isaaclab.utils.types import ArticulationActions
from isaaclab_assets.robots.anymal import ANYDRIVE_3_SIMPLE_ACTUATOR_CFG
from tensor_world import close

N = 512
G = torch.Generator().manual_seed(0)
POS = torch.randn(N, 12, generator=G)
TARGET = POS + 2.0 * torch.randn(N, 12, generator=G)
VEL = 8.0 * torch.randn(N, 12, generator=G)  # well beyond the no-load speed too


def isaac_torque(cfg):
    cfg = cfg.copy()  # an actuator writes the limits it settled on into its configuration
    actuator = cfg.class_type(cfg, JOINTS, slice(None), N, "cpu")
    action = ArticulationActions(
        joint_positions=TARGET.clone(), joint_velocities=torch.zeros(N, 12), joint_efforts=torch.zeros(N, 12)
    )
    return actuator.compute(action, POS.clone(), VEL.clone()).joint_efforts


def test_dc_motor_of_the_robot():
    torque = isaac_torque(ANYDRIVE_3_SIMPLE_ACTUATOR_CFG)
    ours = dc_motor_torque(ANYMAL_C.joint_actuators[0], TARGET, POS, VEL)
    close(ours, torque, 1e-5)
    law = ANYMAL_C.joint_actuators[0]
    beyond = VEL.abs() > law.velocity_limit
    saturated = (torque - (law.stiffness * (TARGET - POS) - law.damping * VEL)).abs() > 1e-3
    assert beyond.sum() > 500 and saturated.sum() > 1000 and (~saturated).sum() > 1000


@pytest.mark.parametrize("effort", [5.0, 119.0, 120.0, 200.0])
def test_dc_motor_for_any_ratio_of_effort_limit_to_stall_torque(effort):
    law = DCMotor(stiffness=55.0, damping=1.5, effort_limit=effort, saturation_effort=120.0, velocity_limit=6.0)
    cfg = DCMotorCfg(
        joint_names_expr=[".*"], stiffness=law.stiffness, damping=law.damping, effort_limit=law.effort_limit,
        saturation_effort=law.saturation_effort, velocity_limit=law.velocity_limit,
    )  # fmt: skip
    close(dc_motor_torque(law, TARGET, POS, VEL), isaac_torque(cfg), 1e-5)


def test_clipped_pd():
    law = ImplicitPD(stiffness=60.0, damping=2.0, effort_limit=45.0)
    cfg = IdealPDActuatorCfg(joint_names_expr=[".*"], stiffness=60.0, damping=2.0, effort_limit=45.0)
    close(implicit_pd_torque(law, TARGET, POS, VEL), isaac_torque(cfg), 1e-5)


GAINS = {name: (law.stiffness, law.damping) for name, law in zip(JOINTS, ANYMAL_C.joint_actuators, strict=True)}


@pytest.mark.parametrize("kind", ["mlp", "lstm"])
def test_networks_from_one_file(kind, tmp_path):
    """The same file, the same motor, the same history: the same torque, step after step, and after a reset."""
    torch.manual_seed(0)
    description = NetworkDescription(
        kind=kind, robot="anymal-c", period=0.005, gains=GAINS, input_idx=(0, 1, 3), pos_scale=2.0, vel_scale=0.3,
        torque_scale=200.0,
    )  # fmt: skip
    network = MLPNetwork(3) if kind == "mlp" else LSTMNetwork((2.0, 0.3, 400.0))
    path = save_network(network, description, tmp_path / "drives.npz")
    task = identified_task(
        get_task("velocity-flat-anymal-c"), RobotParameters(robot="anymal-c", actuator_network=str(path))
    )
    (cfg,) = actuator_cfgs(task).values()
    theirs = cfg.class_type(cfg, JOINTS, slice(None), N, "cpu")
    ours = NetworkDrives(path, task.robot, 0.005, N)
    generator = torch.Generator().manual_seed(1)
    saturated = 0
    for step in range(12):
        pos, target = (torch.randn(N, 12, generator=generator) for _ in range(2))
        vel = 4.0 * torch.randn(N, 12, generator=generator)
        if step == 8:
            ids = torch.arange(0, N, 2)
            ours.reset(ids)
            theirs.reset(ids)
        action = ArticulationActions(
            joint_positions=target.clone(), joint_velocities=torch.zeros(N, 12), joint_efforts=torch.zeros(N, 12)
        )
        if kind == "lstm":
            theirs._joint_vel[:] = vel  # Isaac Lab's LSTM does not keep it, and clips at the speed of the start
        expected = theirs.compute(action, pos.clone(), vel.clone()).joint_efforts
        close(ours.torque(target - pos, vel), expected, 1e-4)
        saturated += int((expected != theirs.computed_effort).sum())
    assert 100 < saturated < 12 * 12 * N - 100


def test_identified_drives_are_groups_of_equal_joints():
    found = {
        name: JointParameters(stiffness_scale=1.1, strength=0.9, friction=0.4, viscous=0.2)
        for name in JOINTS
        if name.endswith("KFE")
    }
    task = identified_task(
        get_task("velocity-flat-anymal-c"), RobotParameters(robot="anymal-c", joints=found, delay=0.01)
    )
    groups = actuator_cfgs(task)
    by_joint = {
        joint: cfg
        for cfg in groups.values()
        for joint in JOINTS
        if any(re.fullmatch(p, joint) for p in cfg.joint_names_expr)
    }
    law = ANYMAL_C.joint_actuators[0]
    for name in JOINTS:
        cfg, knee = by_joint[name], name in found
        assert cfg.stiffness[".*"] == pytest.approx(law.stiffness * (0.99 if knee else 1.0))
        assert cfg.effort_limit == pytest.approx(law.effort_limit * (0.9 if knee else 1.0))
        assert (cfg.friction, cfg.dynamic_friction, cfg.viscous_friction) == ((0.4, 0.4, 0.2) if knee else (None,) * 3)
    with pytest.raises(IsaacLabError, match="base_mass and base_com are not put into"):
        actuator_cfgs(identified_task(task, RobotParameters(robot="anymal-c", base_mass=20.0)))
