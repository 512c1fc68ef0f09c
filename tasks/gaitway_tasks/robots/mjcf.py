"""Prepare an MJCF for control by a Gaitway actuator law. The file must have the robot's joints; all else is free.

Needs MuJoCo; imported only by the worlds and tools that step it.
"""

from __future__ import annotations

import functools
import hashlib
import math
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from gaitway_files.contained import contained
from gaitway_files.errors import UserError
from gaitway_files.mjcf_files import MODEL_BYTES, check_mjcf, names_a_urdf
from gaitway_files.reading import GIB, FileError, check_stand_in, one_line, read_bytes

from ..ground import Ground
from .parameters import RobotParameters
from .robot import ActuatorLaw, DCMotor, Robot

NARROWEST, WIDEST = 0.4, 8.0 * math.pi
"""Width of a joint's range [rad] that at least one joint of a robot has, and that not all of them have.

Three half turns each way, as ANYbotics writes for no limit, are .33 rad if they are taken for degrees.
"""
ENDLESS = 1e4
"""Limit of a joint [rad] that means none."""
_MATERIAL = re.compile(rb"<material\b[^>]*?(/>|(?<!/)>.*?</material>)", re.DOTALL)
MESHES = (".stl", ".obj", ".msh")
"""Endings of mesh files that MuJoCo reads."""
COMPILER_BYTES = 4 * GIB
"""Most memory that MuJoCo may take for a robot and its meshes."""


def _warn(text: str) -> None:
    print(f"MuJoCo: {text}", file=sys.stderr)


if mujoco.get_mju_user_warning() is None:  # else it writes MUJOCO_LOG.TXT into whatever folder the user is in
    mujoco.set_mju_user_warning(_warn)


class ModelError(UserError):
    """An MJCF that cannot be used, with the fix."""


def load_spec(path: str | Path, *, urdf: bool = False) -> mujoco.MjSpec:
    """Parse an MJCF file, or with ``urdf`` also one of that kind.

    A foreign file is first checked, and compiled in a process with limits.
    """
    path = Path(path)
    if not path.is_file():
        raise ModelError(f"no MJCF file at {path}")
    kind = "MJCF"
    try:
        content = read_bytes(path, MODEL_BYTES)
        kind = "URDF" if names_a_urdf(path, content) else kind
        if not urdf and kind == "URDF":
            out = path.with_suffix(".xml") if path.suffix == ".urdf" else path.with_name(f"{path.stem}_mjcf.xml")
            raise ModelError(f"{path} is a URDF, and an MJCF is needed: gaitway convert {path} --out {out} writes one")
        digest = hashlib.sha256(content).digest()
        if digest not in _ours() and (path.resolve(), digest) not in _tried:
            check_mjcf(path)
            contained(functools.partial(_try, path), path, "compiling it and taking it apart", memory=COMPILER_BYTES)
            _tried.add((path.resolve(), digest))
    except FileError as error:
        raise ModelError(
            f"{path} is not a valid {kind}: {error.reason if error.name == str(path) else error}"
        ) from None
    try:
        spec = _parsed(path, content)
    except (ValueError, mujoco.FatalError) as error:
        raise ModelError(f"{path} is not a valid {kind}: {one_line(error)}") from error
    _check_unit(spec, path)
    return spec


def _parsed(path: Path, content: bytes) -> mujoco.MjSpec:
    try:
        return mujoco.MjSpec.from_file(str(path))
    except ValueError as error:
        if "repeated element: 'material'" not in str(error):  # which ROS takes in a URDF
            raise
    return spec_of(_MATERIAL.sub(b"", content), path)


def spec_of(content: bytes, path: Path) -> mujoco.MjSpec:
    """The model of ``content``, whose files are where those of ``path`` would be."""
    spec = mujoco.MjSpec.from_string(content.decode())
    spec.modelfiledir = str(path.absolute().parent)
    return spec


def check_meshes(spec: mujoco.MjSpec, path: Path) -> None:
    """Read what MuJoCo does not of a model's mesh files, or raise :class:`ModelError` with what they are instead."""
    for mesh in spec.meshes:
        file = path.absolute().parent / spec.meshdir / mesh.file
        if not mesh.file or "://" in mesh.file or not file.is_file():  # MuJoCo says which one is not there
            continue
        with file.open("rb") as content:
            start = content.read(1024).lstrip()
        try:
            check_stand_in(start, file)
        except FileError as error:
            raise ModelError(f"{file} {error.reason}") from None
        if file.suffix.lower() not in MESHES:
            raise ModelError(
                f"{file}: MuJoCo reads {', '.join(MESHES)} and no {file.suffix or 'file without an ending'}: convert "
                "it to STL or OBJ, with Blender or trimesh for example"
            )
        if file.suffix.lower() == ".stl" and start.startswith(b"solid") and b"facet" in start:
            _read_text_stl(mesh, read_bytes(file, MODEL_BYTES), file)


def _read_text_stl(mesh: mujoco.MjsMesh, content: bytes, file: Path) -> None:
    """Give a mesh the triangles of an STL in text, of which MuJoCo reads the binary kind only."""
    try:
        rows = [line.split()[1:4] for line in content.decode("utf-8", "replace").splitlines() if "vertex" in line]
        corners = np.array(rows, float).reshape(-1, 9)
    except ValueError:
        raise ModelError(f"{file} is a damaged STL in text: a triangle has three lines 'vertex x y z'") from None
    vertices, faces = np.unique(corners.reshape(-1, 3), axis=0, return_inverse=True)
    mesh.name = mesh.name or file.stem
    mesh.file = ""
    mesh.uservert, mesh.userface = vertices.ravel().tolist(), faces.ravel().tolist()


def _check_unit(spec: mujoco.MjSpec, path: Path) -> None:
    """Raise if the ranges of all hinges can only be those of another unit of angles."""
    unit = math.radians(1.0) if spec.compiler.degree else 1.0
    ranges = {joint.name: joint.range * unit for joint in spec.joints if joint.type == mujoco.mjtJoint.mjJNT_HINGE}
    widths = {name: float(high - low) for name, (low, high) in ranges.items() if low < high < ENDLESS}
    if len(widths) < 2:
        return
    widest, narrowest = max(widths, key=widths.__getitem__), min(widths, key=widths.__getitem__)
    if widths[widest] < NARROWEST:
        raise ModelError(
            f"{path}: no joint turns by more than {widths[widest]:.3g} rad ({widest}): its angles were written in "
            'radians and read as degrees: add <compiler angle="radian"/>'
        )
    if widths[narrowest] > WIDEST:
        raise ModelError(
            f"{path}: every limited joint turns by {widths[narrowest]:.3g} rad ({narrowest}) or more: its angles were "
            'written in degrees and read as radians: remove angle="radian" from its <compiler>, or write radians'
        )


_tried: set[tuple[Path, bytes]] = set()
"""Digests of the models that were already compiled in a copy of this process."""


@functools.cache
def _ours() -> frozenset[bytes]:
    """Digests of Gaitway's own robot files, which refer to no other file."""
    return frozenset(hashlib.sha256(path.read_bytes()).digest() for path in Path(__file__).parent.glob("*/*.xml"))


def _try(path: Path) -> None:
    """Compile a model, allocate its simulation, and delete whatever a robot is used without, one by one as it takes.

    The caller's own compilation reports all other errors.
    """
    try:
        spec = mujoco.MjSpec.from_file(str(path))
        model = spec.compile()
        mujoco.mj_forward(model, mujoco.MjData(model))
        for group in (spec.keys, spec.sensors, spec.actuators, spec.pairs, spec.lights, spec.cameras, spec.sites,
                      spec.geoms, spec.skins, spec.materials, spec.textures):  # fmt: skip
            for element in list(group):
                spec.delete(element)
    except (ValueError, mujoco.FatalError) as error:
        if "alloc" in str(error).lower():
            raise


def set_actuators(
    spec: mujoco.MjSpec, joint_names: Sequence[str], laws: Sequence[ActuatorLaw], *, delay_steps: int = 0
) -> None:
    """Replace all actuators of the model by one law for each of ``joint_names``, in that order.

    ``DCMotor`` becomes MuJoCo's ``dcmotor``: with a back-EMF-compensated torque command and a clamped voltage its
    torque is the clip of :func:`gaitway_tasks.actuators.dc_motor_torque` exactly, and the velocity-dependent part
    is integrated implicitly. A law's armature replaces the joint's. ``delay_steps`` > 0 gives
    each actuator a delay line of that many physics steps. :class:`DriveParameters` reads and changes the laws later.
    """
    for actuator, law in zip(_new_actuators(spec, joint_names), laws, strict=True):
        _set_armature(spec, actuator.target, law)
        if isinstance(law, DCMotor):
            actuator.set_to_dcmotor(
                motorconst=[1.0, 1.0],
                resistance=law.velocity_limit / law.saturation_effort,
                saturation=[law.effort_limit, 0.0, 0.0],
                controller=[law.stiffness, 0.0, law.damping, 0.0, 0.0, law.velocity_limit],
                ctrlspec=1,
            )
        else:
            actuator.set_to_position(kp=law.stiffness, kv=law.damping)
            actuator.forcelimited = 1
            actuator.forcerange = [-law.effort_limit, law.effort_limit]
        if delay_steps:
            actuator.nsample = delay_steps + 1


def set_motors(spec: mujoco.MjSpec, joint_names: Sequence[str], laws: Sequence[ActuatorLaw]) -> None:
    """As :func:`set_actuators`, but each actuator gives the torque of its ``ctrl`` [N m], without limit."""
    for actuator, law in zip(_new_actuators(spec, joint_names), laws, strict=True):
        _set_armature(spec, actuator.target, law)
        actuator.forcelimited = 0
        actuator.set_to_motor()


def set_affine_drives(spec: mujoco.MjSpec, joint_names: Sequence[str]) -> None:
    """As :func:`set_actuators`, but every number of the law is given at run time, by :class:`AffineDrives`."""
    for actuator in _new_actuators(spec, joint_names):
        actuator.gaintype, actuator.biastype = mujoco.mjtGain.mjGAIN_FIXED, mujoco.mjtBias.mjBIAS_AFFINE
        actuator.gainprm[0] = 1.0
        actuator.forcelimited, actuator.forcerange = 1, [-1.0, 1.0]


def _new_actuators(spec: mujoco.MjSpec, joint_names: Sequence[str]) -> list[mujoco.MjsActuator]:
    """One blank actuator on each joint, in place of the model's own actuators."""
    check_joints(spec, joint_names)
    _remove_control(spec, joint_names)
    made = [spec.add_actuator(name=name, target=name, trntype=mujoco.mjtTrn.mjTRN_JOINT) for name in joint_names]
    for actuator in made:  # it inherits the file's defaults, which would scale or clamp the law's torque
        actuator.gear = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        actuator.ctrllimited = actuator.actlimited = actuator.group = 0
    return made


def _set_armature(spec: mujoco.MjSpec, joint: str, law: ActuatorLaw) -> None:
    if law.armature is not None:
        spec.joint(joint).armature = law.armature


class DriveParameters:
    """The numbers of the laws that :func:`set_actuators` gave a model, J actuators: read once, written at any time.

    ``fields`` looks up MuJoCo's arrays by name; the default is the model's own, with shapes (J, ...). A
    ``mujoco.batch.Batch`` gives ``batch.expand``, with shapes (N, J, ...). ``array`` makes what is read into arrays of
    the kind that ``fields`` has, if that is not numpy; all that is written is then of that kind.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        fields: Callable[[str], Any] | None = None,
        array: Callable[[np.ndarray], Any] = np.asarray,
    ) -> None:
        self._fields = fields or functools.partial(getattr, model)
        motor = model.actuator_gaintype == mujoco.mjtGain.mjGAIN_DCMOTOR
        gain, bias = model.actuator_gainprm, model.actuator_biasprm
        self._motor, self._position = array(np.flatnonzero(motor)), array(np.flatnonzero(~motor))
        self._resistance = array(gain[motor, 0].copy())
        self.stiffness = array(np.where(motor, gain[:, 4], gain[:, 0]))
        """kp of the compiled model [N m/rad], (J,)."""
        self.damping = array(np.where(motor, gain[:, 6], -bias[:, 2]))
        """kd of the compiled model [N m s/rad], (J,)."""
        self.effort_limit = array(model.actuator_forcerange[:, 1].copy())
        """Effort limits of the compiled model [N m], (J,)."""

    def write(
        self,
        stiffness: Any = None,
        damping: Any = None,
        *,
        effort_limit: Any = None,
        strength: Any = 1.0,
        rows: Any = ...,
    ) -> None:
        """Set all parameters, each (J,) or (rows, J); those not given get the values of the compiled model.

        ``strength`` is a factor on the torque: on gains, effort limit and the stall torque of a DC motor. ``rows``
        are the simulations of a batch.
        """
        kp = strength * (self.stiffness if stiffness is None else stiffness)
        kd = strength * (self.damping if damping is None else damping)
        limit = strength * (self.effort_limit if effort_limit is None else effort_limit)
        motor, position = self._motor, self._position
        gain = [(position, 0, kp[..., position])]
        if len(motor):
            factor = (strength + 0.0 * kp)[..., motor]
            gain += [(motor, 0, self._resistance / factor), (motor, 4, kp[..., motor]), (motor, 6, kd[..., motor])]
        self._put("actuator_gainprm", rows, gain)
        if len(position):
            self._put("actuator_biasprm", rows, [(position, 1, -kp[..., position]), (position, 2, -kd[..., position])])
        self._put("actuator_forcerange", rows, [(slice(None), 0, -limit), (slice(None), 1, limit)])

    def _put(self, field: str, rows: Any, values: list[tuple[Any, int, Any]]) -> None:
        array = self._fields(field)
        part = array[rows]
        for joints, column, value in values:
            part[..., joints, column] = value
        array[rows] = part


class AffineDrives:
    """The laws that :func:`set_affine_drives` gave a model, for one simulation."""

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        self._constant, (self._low, self._high) = data.ctrl, model.actuator_forcerange.T
        self._stiffness, self._damping = model.actuator_biasprm[:, 1], model.actuator_biasprm[:, 2]

    def write(
        self, constant: np.ndarray, stiffness: np.ndarray, damping: np.ndarray, low: np.ndarray, high: np.ndarray
    ) -> None:
        """Torque = clip(constant - stiffness q - damping qd, low, high) from now on [N m], (J,) each."""
        self._constant[:] = constant
        np.negative(stiffness, out=self._stiffness)
        np.negative(damping, out=self._damping)
        self._low[:], self._high[:] = low, high


def set_parameters(spec: mujoco.MjSpec, robot: Robot) -> None:
    """Apply ``robot.parameters`` to joints and base; the identified drives are :attr:`Robot.real_actuators`."""
    parameters = robot.parameters
    if parameters is None:
        return
    check_joints(spec, list(parameters.joints))
    for name, found in parameters.joints.items():
        joint = spec.joint(name)
        if found.friction is not None:
            joint.frictionloss = found.friction
        if found.viscous is not None:
            damping = np.zeros_like(np.atleast_1d(joint.damping))  # later terms are powers of the speed
            damping[0] = found.viscous
            joint.damping = damping if damping.size > 1 else found.viscous
    base = spec.body(robot.base_name)
    if (parameters.base_mass, parameters.base_com) != (None, None) and not base.explicitinertial:
        raise ModelError(f"{robot.mjcf}: the base has no <inertial>, whose mass or centre could be replaced")
    if parameters.base_mass is not None:
        ratio = parameters.base_mass / base.mass
        base.mass = parameters.base_mass
        base.inertia, base.fullinertia = ratio * np.array(base.inertia), ratio * np.array(base.fullinertia)
    if parameters.base_com is not None:
        base.ipos = parameters.base_com


def compensate_gravity(spec: mujoco.MjSpec, base: str) -> None:
    """Hold up the links of the robot under ``base``, as the controllers of some arms do; objects keep their weight."""
    for body in spec.body(base).find_all("body"):
        body.gravcomp = 1.0


def compensate_known(model: mujoco.MjModel, fields: Callable[[str], Any]) -> None:
    """Let a compensation of gravity hold the masses of ``model``, whatever masses bodies have in a batch.

    MuJoCo holds the mass that a body has: it would hide a load of which the robot's controller knows nothing.
    ``fields`` looks up MuJoCo's arrays by name, (N, ...) of numpy or torch.
    """
    if model.body_gravcomp.any():
        masses, held = fields("body_mass"), model.body_gravcomp * model.body_mass
        if not isinstance(masses, np.ndarray):
            held = masses.new_tensor(held)
        fields("body_gravcomp")[:] = held / masses.clip(1e-9)


def _remove_control(spec: mujoco.MjSpec, joint_names: Sequence[str]) -> None:
    """Remove the file's actuators and everything that refers to them or limits them."""
    for sensor in list(spec.sensors):
        if sensor.objtype == mujoco.mjtObj.mjOBJ_ACTUATOR:
            spec.delete(sensor)
    for key in list(spec.keys):  # sized for the actuators of the file
        spec.delete(key)
    for actuator in list(spec.actuators):
        spec.delete(actuator)
    spec.option.disableactuator = 0
    for joint in spec.joints:
        if joint.name in joint_names:
            joint.actfrclimited = joint.actgravcomp = 0


def compile_spec(spec: mujoco.MjSpec, path: str | Path) -> mujoco.MjModel:
    """Compile; an error such as a missing mesh names the file."""
    check_meshes(spec, Path(path))
    try:
        return spec.compile()
    except (ValueError, mujoco.FatalError) as error:
        raise ModelError(f"{path} does not compile: {one_line(error)}") from error


def effort_limits(model: mujoco.MjModel, joints: Sequence[str]) -> dict[str, float]:
    """The most that the file lets each joint be driven with [N m]; joints without a limit are left out.

    It is the smallest of the joint's own limit and those of the actuators that move it.
    """
    found = {}
    for name in joints:
        joint = model.joint(name).id
        limits = [model.jnt_actfrcrange[joint][1]] if model.jnt_actfrclimited[joint] else []
        for k in range(model.nu):
            if model.actuator_trntype[k] == mujoco.mjtTrn.mjTRN_JOINT and model.actuator_trnid[k, 0] == joint:
                gear = abs(model.actuator_gear[k, 0])
                if model.actuator_forcelimited[k]:
                    limits.append(gear * model.actuator_forcerange[k, 1])
                elif model.actuator_ctrllimited[k] and model.actuator_biastype[k] == mujoco.mjtBias.mjBIAS_NONE:
                    limits.append(gear * model.actuator_gainprm[k, 0] * model.actuator_ctrlrange[k, 1])
        if limits and min(limits) > 0.0:
            found[name] = float(min(limits))
    return found


def has_gains(actuator: mujoco.MjsActuator) -> bool:
    """True for a position actuator, and others whose force follows joint angle and speed."""
    return bool(actuator.biastype == mujoco.mjtBias.mjBIAS_AFFINE)


def position_gains(model: mujoco.MjModel, joints: Sequence[str]) -> list[tuple[float, float]]:
    """Stiffness [N m/rad] and damping [N m s/rad] of the position actuator on each joint; 0 without one."""
    found = dict.fromkeys(joints, (0.0, 0.0))
    for k in range(model.nu):
        name = model.joint(model.actuator_trnid[k, 0]).name
        on_joint = model.actuator_trntype[k] == mujoco.mjtTrn.mjTRN_JOINT and name in found
        if on_joint and model.actuator_biastype[k] == mujoco.mjtBias.mjBIAS_AFFINE:
            gear = float(model.actuator_gear[k, 0]) ** 2
            found[name] = gear * float(model.actuator_gainprm[k, 0]), -gear * float(model.actuator_biasprm[k, 2])
    return list(found.values())


def apply_parameters(model: mujoco.MjModel, parameters: RobotParameters, base: str) -> None:
    """Set a compiled model's joint armature, friction and damping, and the mass of ``base``, as identified.

    Drive parameters (gains, strength, delay, network) are left to the caller. The base's inertia
    grows with its mass.
    """
    for name, joint in parameters.joints.items():
        dof = model.joint(name).dofadr[0]
        for field, value in (
            (model.dof_armature, joint.armature),
            (model.dof_frictionloss, joint.friction),
            (model.dof_damping, joint.viscous),
        ):
            if value is not None:
                field[dof] = value
    body = model.body(base).id
    if parameters.base_mass is not None:
        model.body_inertia[body] *= parameters.base_mass / model.body_mass[body]
        model.body_mass[body] = parameters.base_mass
    if parameters.base_com is not None:
        model.body_ipos[body] = parameters.base_com
    mujoco.mj_setConst(model, mujoco.MjData(model))


def check_joints(spec: mujoco.MjSpec, joint_names: Sequence[str]) -> None:
    """Raise :class:`ModelError` unless every name is exactly one hinge or slide joint of the model."""
    if twice := sorted({name for name in joint_names if list(joint_names).count(name) > 1}):
        raise ModelError(f"joint {', '.join(twice)} is named more than once in the list of joints to control")
    found = [
        joint.name for joint in spec.joints if joint.type in (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)
    ]
    if missing := [name for name in joint_names if name not in found]:
        known = ", ".join(filter(None, found)) or "unnamed"
        raise ModelError(f"the model has no joint named {', '.join(missing)}; its joints are {known}")


def strip_visuals(spec: mujoco.MjSpec) -> None:
    """Delete geoms that cannot collide: they cost time in every kinematics pass and do not change the physics.

    Those that define the mass of their body stay.
    """
    if spec.compiler.inertiafromgeom == mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_TRUE:
        return
    for geom in list(spec.geoms):
        massless = geom.parent.name == "world" or geom.parent.explicitinertial or geom.mass == 0
        if geom.contype == 0 and geom.conaffinity == 0 and massless:
            spec.delete(geom)


GROUND = "ground"


def add_ground(
    spec: mujoco.MjSpec, ground: Ground, solimp: tuple[float, float, float] = (0.9, 0.95, 0.001)
) -> list[mujoco.MjsGeom]:
    """The geoms of ``ground``, whose friction and softness decide every contact with them (they have priority)."""
    geoms: list[mujoco.MjsGeom] = ground.build(spec)
    for number, geom in enumerate(geoms):
        geom.name = f"{GROUND}_{number}" if number else GROUND
        geom.contype = geom.conaffinity = geom.priority = 1
        geom.condim = 3
        geom.friction = [ground.friction, 0.02, 0.01]
        geom.solimp = [*solimp, 0.5, 2.0]
    return geoms


def ground_geoms(model: mujoco.MjModel) -> np.ndarray:
    """Ids of the geoms of :func:`add_ground`."""
    world = np.flatnonzero(model.geom_bodyid == 0)
    return np.array([geom for geom in world if model.geom(geom).name.partition("_")[0] == GROUND])
