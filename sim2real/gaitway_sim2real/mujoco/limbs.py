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
    """Of the shoulder and of the hip across, with 1.0 if a larger angle swings it forward, -1.0 if backward."""


def hand_links(spec: Any, joint_names: Sequence[str], feet: Sequence[str]) -> list[str]:
    """Last driven links that no foot belongs to: hands, and heads and torsos, which :func:`find_arms` leaves out."""
    legs = {name for foot in feet for name in (foot, *ancestors(spec.body(foot)))}
    return [
        link
        for link in last_links(spec, joint_names)
        if link not in legs and not set(feet).intersection(ancestors(spec.body(link)))
    ]


def add_hand_sensors(spec: Any, base: str, links: Sequence[str]) -> None:
    """Where the centre of mass of each of ``links`` is in the frame of the base [m]."""
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
    """Those of ``links`` that are beside the body ``base`` in the pose of ``data``; ``height`` [m] is how it stands."""
    return [link for link in links if abs(data.body(link).xipos[1] - data.xpos[base][1]) > ASIDE * height]


def find_arms(
    data: mujoco.MjData, base: int, found: Sequence[str], feet: Sequence[str], joint_names: Sequence[str]
) -> tuple[Arm, ...]:
    """Arms of the hands ``found`` with the feet across, in the pose of ``data``, in which the base faces along x."""
    model = data.model
    joint_ids = [model.joint(name).id for name in joint_names]
    chains = {name: set(lineage(model, model.body(name).id)) for name in (*found, *feet)}

    def swings(limb: str) -> tuple[int, float] | None:
        """The first joint of its own, from the base, that swings a limb to and fro; and its sign."""
        others = set[int]().union(*(chain for name, chain in chains.items() if name != limb))
        own = [k for k, joint in enumerate(joint_ids) if model.jnt_bodyid[joint] in chains[limb] - others]
        for k in sorted(own, key=lambda k: int(model.jnt_bodyid[joint_ids[k]])):  # parents come before children
            across = float(data.xaxis[joint_ids[k]][1])
            if abs(across) > ALONG:
                return k, -float(np.sign(across))  # about y, a limb that hangs goes backward
        return None

    arms = []
    for hand in found:
        place = data.body(hand).xipos - data.xpos[base]
        across = [foot for foot in feet if (data.body(foot).xpos[1] - data.xpos[base][1]) * place[1] < 0]
        if not across:
            continue
        foot = min(across, key=lambda name: abs(data.body(name).xpos[0] - data.xpos[base][0] - place[0]))
        shoulder, hip = swings(hand), swings(foot)
        if shoulder is not None and hip is not None:
            arms.append(Arm(hand=hand, joints=(shoulder, hip)))
    return tuple(arms)
