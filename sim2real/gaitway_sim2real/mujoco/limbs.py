"""Hands of a robot, and the joints that swing arms and legs forward and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from .model import ancestors, last_links
from .shapes import lineage

ASIDE = 0.05  # of the standing height: what ends nearer to the middle plane is a head or a torso
ALONG = 0.7  # least share of a joint's axis across the robot for it to swing a limb forward and back


@dataclass(frozen=True, kw_only=True)
class Arm:
    """An arm that swings, and the leg of the other side. Joints are numbers in the contract's order."""

    hand: str
    """Body of the last driven link."""
    joints: tuple[tuple[int, float], tuple[int, float]]
    """Joints of the shoulder and of the hip across, with 1.0 if a larger angle swings it forward, -1.0 if backward."""


def hand_links(spec: Any, joint_names: Sequence[str], feet: Sequence[str]) -> list[str]:
    """Last driven links that no foot belongs to: hands, and heads and torsos, which :func:`find_arms` leaves out."""
    legs = {name for foot in feet for name in (foot, *ancestors(spec.body(foot)))}
    return [
        link
        for link in last_links(spec, joint_names)
        if link not in legs and not set(feet).intersection(ancestors(spec.body(link)))
    ]


def add_hand_sensors(spec: Any, base: str, links: Sequence[str]) -> None:
    """Add sensors of the position of each link's centre of mass in the base frame [m]."""
    for link in links:
        spec.add_sensor(
            name=f"hand/{link}",
            type=mujoco.mjtSensor.mjSENS_FRAMEPOS,
            objtype=mujoco.mjtObj.mjOBJ_BODY,
            objname=link,
            reftype=mujoco.mjtObj.mjOBJ_XBODY,
            refname=base,
        )


def hands(data: mujoco.MjData, base: int, links: Sequence[str], height: float) -> list[str]:
    """Members of ``links`` beside the body ``base`` in the pose of ``data``; ``height`` [m] is its standing height."""
    return [link for link in links if abs(data.body(link).xipos[1] - data.xpos[base][1]) > ASIDE * height]


def find_arms(
    data: mujoco.MjData, base: int, found: Sequence[str], feet: Sequence[str], joint_names: Sequence[str]
) -> tuple[Arm, ...]:
    """Arms of the hands ``found`` with the feet across, in the pose of ``data``, in which the base faces along x.

    Fingers, each a last driven link, are of one arm.
    """
    model, origin = data.model, data.xpos[base]
    joint_ids = [model.joint(name).id for name in joint_names]
    chains = {name: set(lineage(model, model.body(name).id)) for name in (*found, *feet)}
    left = {name: bool(data.body(name).xipos[1] > origin[1]) for name in chains}

    def swings(limb: str, others: Sequence[str]) -> tuple[int, float] | None:
        """The first joint, from the base, that swings a limb and none of ``others`` to and fro; and its sign."""
        own = chains[limb].difference(*(chains[name] for name in others))
        joints = [k for k, joint in enumerate(joint_ids) if model.jnt_bodyid[joint] in own]
        for k in sorted(joints, key=lambda k: int(model.jnt_bodyid[joint_ids[k]])):  # parents come before children
            across = float(data.xaxis[joint_ids[k]][1])
            if abs(across) > ALONG:
                return k, -float(np.sign(across))  # about y, a limb that hangs goes backward
        return None

    arms: dict[int, Arm] = {}
    for hand in found:
        far = [name for name in found if left[name] != left[hand]]
        across = [foot for foot in feet if left[foot] != left[hand]]
        shoulder = swings(hand, [*far, *feet])
        if shoulder is None or not across:
            continue
        place = data.body(hand).xipos[0]
        foot = min(across, key=lambda name: abs(data.body(name).xipos[0] - place))
        hip = swings(foot, [name for name in chains if name != foot])
        if hip is not None:
            arms.setdefault(shoulder[0], Arm(hand=hand, joints=(shoulder, hip)))
    return tuple(arms.values())
