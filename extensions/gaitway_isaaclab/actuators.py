"""The task's actuator laws as Isaac Lab's actuator models."""

from __future__ import annotations

from typing import Any

from gaitway_tasks.mdp import events
from gaitway_tasks.robots.robot import ActuatorLaw, DCMotor
from gaitway_tasks.spec import Task
from isaaclab.actuators import DCMotorCfg, DelayedPDActuatorCfg, ImplicitActuatorCfg
from isaaclab.actuators.actuator_pd import DCMotor as IsaacDCMotor
from isaaclab.actuators.actuator_pd import DelayedPDActuator
from isaaclab.utils import configclass

from . import compat
from .compat import IsaacLabError


class DelayedDCMotor(DelayedPDActuator, IsaacDCMotor):
    """``DelayedPDActuator`` in front of a ``DCMotor``: one late command, drawn anew at each reset."""


@configclass
class DelayedDCMotorCfg(DelayedPDActuatorCfg, DCMotorCfg):
    class_type: type = DelayedDCMotor


def actuator_cfgs(task: Task, newton_armature: float | None) -> dict[str, Any]:
    """One ``ActuatorBaseCfg`` for each group of the robot's actuators.

    ``newton_armature`` [kg m^2] is what Newton gets where the law leaves it to the model, as in Isaac Lab's own tasks;
    PhysX then takes the asset's.
    """
    delay = action_delay(task)
    return {name: _actuator_cfg(law, delay, newton_armature) for name, law in task.robot.actuators.items()}


def action_delay(task: Task) -> tuple[int, int] | None:
    """Fewest and most physics steps of the task's action delay; None without one.

    Raises :class:`IsaacLabError` for a delay that is not drawn at each reset, which is when Isaac Lab draws it.
    """
    for name, event in task.events.items():
        if event.func is events.randomize_action_delay:
            if event.mode != "reset":
                raise IsaacLabError(
                    f"event {name!r}: Isaac Lab draws delays at resets only, so its mode must be 'reset'"
                )
            low, high = (round(limit / task.timing.physics_dt) for limit in event.params["delay_range"])
            return low, high
    return None


def _actuator_cfg(law: ActuatorLaw, delay: tuple[int, int] | None, newton_armature: float | None) -> Any:
    settings: dict[str, Any] = {
        "joint_names_expr": list(law.joints),
        "stiffness": {".*": law.stiffness},
        "damping": {".*": law.damping},
        "armature": law.armature,
    }
    if law.armature is None and newton_armature is not None and compat.is_3():
        settings["armature"] = compat.preset(0.0, newton_armature)
    if delay is not None:
        settings |= {"min_delay": delay[0], "max_delay": delay[1]}
    if isinstance(law, DCMotor):
        cls = DCMotorCfg if delay is None else DelayedDCMotorCfg
        return cls(
            effort_limit=law.effort_limit,
            saturation_effort=law.saturation_effort,
            velocity_limit=law.velocity_limit,
            **settings,
        )
    if delay is not None:  # the simulator's implicit drive takes no late commands, an explicit PD does
        return DelayedPDActuatorCfg(effort_limit=law.effort_limit, **settings)
    return ImplicitActuatorCfg(effort_limit_sim=law.effort_limit, **settings)
