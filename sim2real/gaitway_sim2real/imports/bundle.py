"""The bundle of a described policy: what the suite, the twin and the on-board half run."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from gaitway_files.graphs import open_graph
from gaitway_files.writing import whole_folder
from gaitway_files.yaml_files import dump_yaml
from gaitway_onboard.bundle.contract import Contract, is_bundle, sha256
from gaitway_onboard.bundle.parts import Action, Signal, TermLayout
from gaitway_tasks.actions import JointPositionAction
from gaitway_tasks.mdp import observations
from gaitway_tasks.mdp.commands import UniformVelocityCommand
from gaitway_tasks.robots import Robot, mjcf
from gaitway_tasks.robots.check import check_robot
from gaitway_tasks.spec import ObservationGroup, Task, Timing
from gaitway_tasks.vocabulary import OBSERVATIONS

from ..bundle.contracts import CONVENTIONS, UNITS, versions
from ..bundle.golden import Signals, plausible_signals, record_golden
from ..bundle.io_descriptors import io_descriptors, raw_observation
from ..bundle.model_files import copy_model
from ..bundle.robot_fields import robot_fields
from ..mujoco.plant import build_plant
from .description import TERMS, Description, Term
from .description_file import as_data
from .errors import PolicyImportError
from .graph import STEPS, bundle_graph, check_equal, memory_of, open_network
from .policy import Mover, Observer, scales_offsets_clips
from .robot import FoundRobot

DESCRIPTION_FILE = "description.yaml"
GOLDEN_STEPS = 96
LONGEST_STEP = 0.005  # [s], of a description that does not say
ROBOTS = (1, 3)
SIGNALS = {
    "base_ang_vel": ("gyro",), "base_lin_vel": ("root_lin_vel_b",), "projected_gravity": ("imu_quat_wxyz",),
    "euler_xyz": ("imu_quat_wxyz",), "generated_commands": ("command",), "joint_pos": ("joint_pos",),
    "joint_pos_rel": ("joint_pos",), "joint_vel_rel": ("joint_vel",), "last_action": ("action",),
    "phase": ("clock",), "phase_sin": ("clock",), "phase_cos": ("clock",), "moving": ("command",),
    "constant": ("clock",),
}  # fmt: skip
"""Signals that each term reads, as the contract names them."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """A policy that a reader has read: how it is run, and its graph."""

    description: Description
    graph: bytes
    """ONNX, whatever the source has."""
    weights_sha256: str
    """Hash of the file that the graph was read from."""


def write_bundle(found: Found, robot: FoundRobot, out: Path) -> None:
    """Write the bundle to the folder ``out``, whole or not at all."""
    if out.exists() and not is_bundle(out) and (not out.is_dir() or any(out.iterdir())):
        raise PolicyImportError(f"{out} exists and is not a bundle: choose another --out")
    try:
        with whole_folder(out) as partial:
            _write(found, robot, partial)
    except OSError as error:
        raise PolicyImportError(f"cannot write the bundle {out}: {error.strerror or error}") from error


def _write(found: Found, robot: FoundRobot, folder: Path) -> None:
    d, joints = robot.description, robot.robot.joint_names
    check_robot(robot.robot, start=robot.own_model is None or d.init_height is not None)
    network = open_network(found.graph, d.network)
    _check_widths(d, network.observation_dim, network.action_dim)
    observer = Observer(d, joints, memory_of(network)).eval()
    mover = Mover(observer, joints, robot.robot.default_joint_pos).eval()
    graph = bundle_graph(network, observer, mover)

    def signals(steps: int, batch: int, seed: int) -> Signals:
        return plausible_signals(
            np.array(robot.robot.default_joint_pos), np.array(list(d.command.ranges.values())), steps=steps,
            batch=batch, step_dt=d.control_dt, seed=seed, estimated=observer.estimated,
        )  # fmt: skip

    for robots in ROBOTS:
        check_equal(graph, network, observer, mover, signals(STEPS, robots, robots))
    (folder / "policy.onnx").write_bytes(graph)
    session = open_graph(graph, "the bundle's graph", own=True)
    golden = record_golden(session, signals(GOLDEN_STEPS, 1, 0), sum(observer.widths))
    np.savez_compressed(folder / "golden.npz", allow_pickle=False, **golden)
    _write_robot(d, robot.robot, observer, folder)
    (folder / DESCRIPTION_FILE).write_text(dump_yaml(as_data(d)), "utf-8")
    files = {path.name: sha256(path.read_bytes()) for path in sorted(folder.iterdir())}
    contract = contract_of(d, robot, observer, files, found.weights_sha256)
    if robot.own_model is not None and d.init_height is None:  # an MJCF may hang its robot anywhere
        model = folder / "robot.xml"
        contract = dataclasses.replace(contract, init_height=build_plant(contract, model, model).stand_height)
    contract.save(folder)


def _check_widths(d: Description, observation: int, action: int) -> None:
    if d.observation_dim != observation:
        parts = ", ".join(f"{term.term} {d.width(term)}" for term in d.observation)
        frames = f" x {len(d.history.ages)} frames" if len(d.history.ages) > 1 else ""
        raise PolicyImportError(
            f"{d.network.file} reads {observation} numbers, and the description gives {d.observation_dim} "
            f"({parts}){frames}: mend observation or history"
        )
    if len(d.action.joints) != action:
        raise PolicyImportError(
            f"{d.network.file} gives {action} numbers, and the description moves {len(d.action.joints)} joints: mend "
            f"action.joints"
        )


def physics_dt(d: Description) -> float:
    """The time step of training [s], or a whole share of the control period."""
    if d.physics_dt is not None:
        return d.physics_dt
    return d.control_dt / math.ceil(d.control_dt / LONGEST_STEP - 1e-9)


def contract_of(
    d: Description, found: FoundRobot, observer: Observer, files: Mapping[str, str], weights: str
) -> Contract:
    """The contract: the description in the terms that every bundle has."""
    joints, robot = found.robot.joint_names, found.robot
    scale, offset, clips = scales_offsets_clips(d, joints, robot.default_joint_pos)
    outputs = {"joint_pos_target": len(joints), "action": len(joints), "next_state": sum(observer.widths)}

    def named(widths: Mapping[str, int]) -> tuple[Signal, ...]:
        return tuple(Signal(name=name, shape=("N", width), unit=UNITS[name]) for name, width in widths.items())

    return Contract(
        task=f"{d.family}-{d.name}",
        **robot_fields(robot),
        action=Action(
            kind="joint_position", scale=tuple(scale), offset=tuple(offset),
            clip=None if clips is None else tuple(clips), raw_clip=_raw_clip(d),
        ),
        control_dt=d.control_dt,
        physics_dt=physics_dt(d),
        commands={"base_velocity": dict(d.command.ranges)},
        conventions=CONVENTIONS | {"history": _history(d)},
        inputs=named(observer.input_widths),
        outputs=named(outputs),
        state_dim=sum(observer.widths),
        observation=tuple(_layout(d, term) for term in d.observation),
        software=versions() | {"imported_from": d.family},
        checkpoint_sha256=weights,
        files=files,
        command_acceleration=d.command.acceleration,
        origin={"family": d.family, "source": d.source, "licence": d.licence, "policy": d.network.file},
    )  # fmt: skip


def _raw_clip(d: Description) -> float | None:
    """The clamp of the action if one number says it; the graph has any other."""
    ranges = set(d.action.raw_clip or ())
    if len(ranges) == 1:
        ((low, high),) = ranges
        return high if low == -high else None
    return None


def _layout(d: Description, term: Term) -> TermLayout:
    return TermLayout(
        term=d.name_of(term), dim=d.width(term), history=len(d.ages(term)), scale=term.scale, clip=term.clip,
        signals=SIGNALS[term.term],
    )  # fmt: skip


def _history(d: Description) -> str:
    ages = sorted({age for term in d.observation for age in d.ages(term)})
    if ages == [0]:
        return "none"
    order = {"term": "term by term", "step": "frame by frame"}[d.history.by]
    fill = {"first": "the first frame repeated", "zeros": "zeros"}[d.history.fill]
    own = "" if all(term.ages is None for term in d.observation) else ", each term its own"
    shown = ", ".join(map(str, d.history.ages if not own else ages))
    return f"{order}, frames of {shown} control steps ago{own}; before the first: {fill}; inside the graph"


def _write_robot(d: Description, robot: Robot, observer: Observer, folder: Path) -> None:
    """``robot.xml`` with its licence, and ``io_descriptors.yaml``."""
    path = copy_model(robot.mjcf, folder)
    if d.damping_is_whole:
        _without_damping(path, d.joints)
    spec = mjcf.load_spec(path)
    mjcf.check_joints(spec, robot.joint_names)
    model = mjcf.compile_spec(spec, path)
    dofs = [int(model.joint(name).dofadr[0]) for name in robot.joint_names]
    scale, offset, _ = scales_offsets_clips(d, robot.joint_names, robot.default_joint_pos)
    step, names = physics_dt(d), [re.escape(name) for name in robot.joint_names]
    task = Task(
        name=d.name,
        robot=robot,
        observations={"policy": ObservationGroup(terms={})},
        actions=JointPositionAction(
            scale=dict(zip(names, scale, strict=True)), offset=dict(zip(names, offset, strict=True))
        ),
        rewards={},
        terminations={},
        commands={"base_velocity": UniformVelocityCommand()},
        timing=Timing(physics_dt=step, decimation=round(d.control_dt / step), episode_length_s=20.0),
    )
    described = io_descriptors(
        task, {}, armature=model.dof_armature[dofs].tolist(), friction=model.dof_frictionloss[dofs].tolist()
    )
    described["observations"]["policy"] = [_descriptor(d, term) for term in d.observation]
    (folder / "io_descriptors.yaml").write_text(dump_yaml(described), "utf-8")


def _descriptor(d: Description, term: Term) -> dict[str, object]:
    """A term for tools that read IO descriptors; one of ours, read whole, is named by its function."""
    joints = d.joints if TERMS[term.term] == "joints" else None
    row = raw_observation(d.name_of(term), SIGNALS[term.term][0], d.width(term), joints)
    whole = term.columns is None and not term.zeroed and term.at is None
    known = term.term in OBSERVATIONS and d.full_width(term) == d.width(term)
    return row | {"full_path": f"{observations.__name__}.{term.term}" if whole and known else None}


def _without_damping(path: Path, joints: Sequence[str]) -> None:
    """Take the passive damping of ``joints`` out of the MJCF at ``path``."""
    spec = mjcf.load_spec(path)
    for name in joints:
        joint = spec.joint(name)
        joint.damping = 0.0 * joint.damping
    path.write_text(spec.to_xml(), "utf-8")
