"""Arms that move by themselves: another controller has them while the policy walks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from gaitway_sim2real.mujoco.plant import Plant
from gaitway_sim2real.mujoco.robots import RobotBatch
from gaitway_sim2real.mujoco.shapes import lineage
from gaitway_sim2real.trial.stressors import Stressor

PERIOD = 2.0
"""Time from one random pose of the arms to the next [s]."""
SHARE = 0.25
"""Share of the way from the default pose to the soft limits of a joint, within which its targets are drawn."""


@dataclass
class Motion:
    """The poses that the K joints of the arms of N robots go from and to."""

    joints: np.ndarray  # (K,) in the contract's order
    rng: np.random.Generator
    poses: list[np.ndarray] = field(default_factory=list)  # (N, K) each [rad], one in each period
    step: int = 0


@dataclass(frozen=True)
class ArmsMoved(Stressor):
    """The targets of all joints of the arms are random poses and smooth ways between them, whatever the policy says.

    As when a controller for manipulation takes the arms of a robot that walks. The policy is not told.
    """

    def start(self, world: RobotBatch, rng: np.random.Generator) -> Motion:
        return Motion(joints=arm_joints(world.plant, world.contract.joint_names), rng=rng)

    def driven(self, target: np.ndarray, world: RobotBatch, kept: Motion) -> np.ndarray:
        rest = np.array(world.contract.default_joint_pos)[kept.joints]
        ends = np.array(world.contract.soft_joint_pos_limits())[kept.joints]
        low, high = (rest + SHARE * (end - rest) for end in ends.T)
        number, along = divmod(kept.step * world.contract.control_dt, PERIOD)
        kept.step += 1
        while len(kept.poses) < number + 2:
            drawn = kept.rng.uniform(low, high, (len(target), len(rest)))
            kept.poses.append(drawn if kept.poses else np.broadcast_to(rest, drawn.shape))
        start, end = kept.poses[int(number)], kept.poses[int(number) + 1]
        moved = target.copy()
        moved[:, kept.joints] = start + (end - start) * (1.0 - np.cos(np.pi * along / PERIOD)) / 2.0
        return moved


def arm_joints(plant: Plant, names: Sequence[str]) -> np.ndarray:
    """Places in ``names`` of the joints of the arms, (K,): joints that move some of the hands, and no foot."""
    model = plant.model
    bodies = [int(model.jnt_bodyid[model.joint(name).id]) for name in names]
    legs = {body for name in plant.foot_names for body in lineage(model, model.body(name).id)}
    arms = [set(lineage(model, model.body(hand).id)) - legs for hand in plant.hands]
    waist = set.intersection(*arms) if len(arms) > 1 else set()
    return np.flatnonzero([any(body in arm for arm in arms) and body not in waist for body in bodies])
