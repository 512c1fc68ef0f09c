"""Actuator laws against ``DCMotor`` and ``IdealPDActuator`` of Isaac Lab, with the ANYdrive's own configuration."""

import pytest
import torch
from gaitway_tasks.actuators import dc_motor_torque, implicit_pd_torque
from gaitway_tasks.robots import ANYMAL_C, DCMotor, ImplicitPD
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
