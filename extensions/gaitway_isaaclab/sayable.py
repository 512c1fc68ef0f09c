"""What a USD of a robot does not hold, of the robot's file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from gaitway_tasks.robots.source import SourceError, read_spec

if TYPE_CHECKING:
    import mujoco


def check_sayable(spec: mujoco.MjSpec, where: str) -> None:
    """Raise :class:`SourceError` for physics of the robot that a USD of it would lose."""
    if (lost := next(_lost(spec), None)) is not None:
        raise SourceError(f"{where}: {lost}, which a USD of a robot does not hold: remove it from a copy of the file")


def _lost(spec: mujoco.MjSpec) -> Iterator[str]:
    for equality in spec.equalities:
        if equality.active:
            kind = equality.type.name.removeprefix("mjEQ_").lower()
            yield f"{equality.name1!r} is tied to {equality.name2 or 'the world'!r} (equality {kind}, or <mimic>)"
    for tendon in spec.tendons:
        yield f"it has the tendon {tendon.name!r}"
    for joint in spec.joints:
        if np.any(joint.stiffness):
            yield f"joint {joint.name!r} has a spring (stiffness)"
    for body in spec.bodies:
        if body.gravcomp:
            yield f"body {body.name!r} has gravcomp={body.gravcomp:g}"
    own = {geom.name for geom in spec.geoms if geom.name and geom.parent.name != "world"}
    for pair in spec.pairs:
        if pair.geomname1 in own and pair.geomname2 in own:
            yield f"geoms {pair.geomname1!r} and {pair.geomname2!r} are a <pair>"
    for flex in spec.flexes:
        yield f"it has the soft body {flex.name!r}"


def left_out(path: Path) -> str:
    """What the USD of a file does not hold on purpose, for the person who converts it; empty if there is nothing."""
    from gaitway_tasks.robots.mjcf import has_gains

    spec = read_spec(path)
    kinds = Counter("other actuator" for actuator in spec.actuators if not has_gains(actuator))
    kinds["sensor"], kinds["keyframe"], kinds["camera"] = len(spec.sensors), len(spec.keys), len(spec.cameras)
    kinds["contact <pair> with the scene"] = len(spec.pairs)
    kinds["shape of the scene"] = len(spec.worldbody.geoms)
    return ", ".join(f"{count} {name}{'s' * (count > 1)}" for name, count in kinds.items() if count)
