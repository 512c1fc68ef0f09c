"""The drives of a contract as the actuator laws that simulators take."""

from __future__ import annotations

from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.bundle.parts import Actuator
from gaitway_tasks.robots.robot import ActuatorLaw, DCMotor, ImplicitPD


def actuator_laws(contract: Contract) -> list[ActuatorLaw]:
    """The law of each joint, in the contract's order.

    Without armature: what a robot's joints weigh is the model's to say, whatever training assumed.
    """
    return [actuator_law(actuator) for actuator in contract.joint_actuators]


def actuator_law(actuator: Actuator, joints: tuple[str, ...] = (".*",)) -> ActuatorLaw:
    """The law of one group, for the ``joints`` that these regular expressions match."""
    kp, kd, effort = actuator.stiffness, actuator.damping, actuator.effort_limit
    if actuator.law == "implicit_pd":
        return ImplicitPD(stiffness=kp, damping=kd, effort_limit=effort, joints=joints)
    stall, no_load = actuator.saturation_effort, actuator.velocity_limit
    assert stall is not None and no_load is not None  # by the contract's schema
    return DCMotor(
        stiffness=kp, damping=kd, effort_limit=effort, saturation_effort=stall, velocity_limit=no_load, joints=joints
    )
