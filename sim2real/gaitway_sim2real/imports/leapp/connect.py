"""Connection of a LEAPP package's tensors to a robot's signals: by kind, element names and Isaac Lab's connection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gaitway_tasks.commands import TWIST

from .package import TARGET_KIND, LeappError, LeappPackage, LeappTensor

XYZ = ("x", "y", "z")
QUAT_XYZW = ("qx", "qy", "qz", "qw")
GAINS = {"stiffness": "kp", "damping": "kd"}
"""Kind of the constant outputs that carry the gains."""
FRAME = "only vectors in the base frame can be measured"
QUAT_WXYZ = ("qw", "qx", "qy", "qz")


@dataclass(frozen=True, kw_only=True)
class Source:
    """Origin of an input of the package in an input of the bundle."""

    signal: str
    indices: tuple[int, ...] = ()
    """Numbers of the signal, in the order in which the package has them."""
    form: str = "take"
    """``take``, ``gravity`` (of the orientation), ``ray_hits`` (of the height scan), ``origin`` (zeros)"""


@dataclass(frozen=True, kw_only=True)
class Connections:
    """Every tensor of the package, understood."""

    sources: dict[str, Source]
    """Source of each input of the package, by name."""
    targets: tuple[tuple[str, int], ...]
    """(output, column) of each joint's position target, in the order of the robot's joints."""
    gains: dict[str, dict[str, tuple[str, int]]]
    """``stiffness`` and ``damping``: (output, column) by joint; empty where the package has none."""

    @property
    def signals(self) -> set[str]:
        return {source.signal for source in self.sources.values()}


def connect(package: LeappPackage, joint_names: Sequence[str]) -> Connections:
    """Match the package with a robot that has ``joint_names``; refuses with everything that cannot be matched."""
    faults, sources = [], {}
    for tensor in package.inputs:
        found = _source(tensor, joint_names)
        if isinstance(found, Source):
            sources[tensor.name] = found
        else:
            faults.append(f"input {tensor}: {found}")
    targets: dict[str, tuple[str, int]] = {}
    gains: dict[str, dict[str, tuple[str, int]]] = {what: {} for what in GAINS}
    by_kind = {TARGET_KIND: targets} | {kind: gains[what] for what, kind in GAINS.items()}
    for tensor in package.outputs:
        if tensor.kind not in by_kind:
            faults.append(f"output {tensor}: run here are joint position targets ({TARGET_KIND})")
        elif fault := _joint_fault(tensor, joint_names):
            faults.append(f"output {tensor}: {fault}")
        else:
            by_kind[tensor.kind] |= {name: (tensor.name, column) for column, name in enumerate(tensor.elements or ())}
    if not faults and (missing := [name for name in joint_names if name not in targets]):
        faults.append(f"no output is the position target of {', '.join(missing)}")
    if faults:
        raise LeappError(
            f"the LEAPP package {package.path} cannot be run as a velocity policy: {'; '.join(faults)}. Give these "
            f"tensors the semantics that Isaac Lab's manager-based export gives them and export again"
        )
    return Connections(sources=sources, targets=tuple(targets[name] for name in joint_names), gains=gains)


def _source(tensor: LeappTensor, joint_names: Sequence[str]) -> Source | str:
    """The source of an input, or why it has none."""
    kind, source, elements = tensor.kind, tensor.source, tensor.elements
    if kind in ("state/joint/position", "state/joint/velocity"):
        fault = _joint_fault(tensor, joint_names)
        signal = "joint_pos" if kind == "state/joint/position" else "joint_vel"
        return fault or Source(signal=signal, indices=tuple(joint_names.index(name) for name in elements or ()))
    if kind == "state/body/rotation" and source.endswith("quat_w"):
        return _ordered("imu_quat_wxyz", QUAT_WXYZ, elements or QUAT_XYZW, tensor)
    if kind == "state/body/angular_velocity":
        return _ordered("gyro", XYZ, elements or XYZ, tensor) if source.endswith("ang_vel_b") else FRAME
    if kind == "state/body/linear_velocity":
        return _ordered("base_lin_vel", XYZ, elements or XYZ, tensor) if source.endswith("lin_vel_b") else FRAME
    if kind == "state/vector3d" and source.endswith("projected_gravity_b"):
        found = _ordered("imu_quat_wxyz", XYZ, elements or XYZ, tensor)
        return found if isinstance(found, str) else Source(signal=found.signal, indices=found.indices, form="gravity")
    if kind == "command/body/velocity":
        return _ordered("command", TWIST, elements or TWIST, tensor)
    if kind == "state/sensor/ray_hit_position" and len(tensor.shape) == 3:
        return Source(signal="height_scan", form="ray_hits")
    if kind == "state/sensor/position" and tensor.width == 3:
        return Source(signal="height_scan", form="origin")
    return "no sensor or estimate of a legged robot gives it" if kind else "it has no kind"


def _ordered(signal: str, ours: Sequence[str], theirs: Sequence[str], tensor: LeappTensor) -> Source | str:
    if sorted(ours) != sorted(theirs) or tensor.width != len(ours):
        return f"its {tensor.width} numbers are {', '.join(theirs)}; expected {', '.join(ours)} in any order"
    return Source(signal=signal, indices=tuple(ours.index(name) for name in theirs))


def _joint_fault(tensor: LeappTensor, joint_names: Sequence[str]) -> str:
    elements = tensor.elements or ()
    if len(elements) != tensor.width:
        return f"it has {tensor.width} numbers and {len(elements)} joint names"
    if unknown := [name for name in elements if name not in joint_names]:
        return f"the robot has no joint {', '.join(unknown)}; its joints are {', '.join(joint_names)}"
    return ""
