"""Stressors of an arm's joints and encoders."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np
from gaitway_sim2real.mujoco.robots import RobotBatch
from gaitway_sim2real.trial.stressors import Signals, Stressor


@dataclass(frozen=True)
class JointFriction(Stressor):
    """Dry friction of each joint of the arm, up to ``most`` [N m], beside the model's."""

    most: float

    def start(self, world: RobotBatch, rng: np.random.Generator) -> None:
        model, dofs = world.plant.model, world.plant.joint_dof
        dofs = dofs[model.jnt_type[model.dof_jntid[dofs]] == int(mujoco.mjtJoint.mjJNT_HINGE)]  # not the fingers
        world.batch.expand("dof_frictionloss")[:, dofs] += rng.uniform(0.0, self.most, (len(world.mass), len(dofs)))


@dataclass(frozen=True)
class EncoderNoise(Stressor):
    """Uniform noise of positions, up to ``joint_pos`` [rad], and of velocities, up to ``joint_vel`` [rad/s]."""

    joint_pos: float
    joint_vel: float

    def sensed(self, signals: Signals, kept: np.random.Generator) -> Signals:
        most = {"joint_pos": self.joint_pos, "joint_vel": self.joint_vel}
        return signals | {name: signals[name] + kept.uniform(-m, m, signals[name].shape) for name, m in most.items()}
