"""A robot's file, MJCF or URDF, as MuJoCo reads it, held against what the file itself says.

MuJoCo gives a URDF's link without ``<inertial>`` the mass of its shapes at the density of water; ROS gives it none.
"""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import numpy as np
from gaitway_files.errors import UserError
from gaitway_files.mjcf_files import MODEL_BYTES, names_a_urdf, read_mjcf, without_comments
from gaitway_files.reading import read_bytes

if TYPE_CHECKING:
    import mujoco

TOLERANCE = 1e-5
"""Difference of mass, centre and inertia from the file's that rounding explains, as a part of the largest number."""


DUMMY = 1e-4
"""Mass [kg] up to which a link is a frame with a name, whose inertia no one means."""
SPECK = 1e-10
"""Inertia of a kilogram [m^2] that is none: it lies within a hundredth of a millimetre."""


_XACRO = re.compile(rb"<xacro:(include|macro|property|arg)")


class SourceError(UserError):
    """A robot's file that cannot be converted without changing the robot, with the part and the fix."""


@dataclass(frozen=True)
class Inertial:
    """Mass [kg], centre of mass in the body frame [m], inertia about it in the axes of the body frame [kg m^2]."""

    mass: float
    com: np.ndarray
    inertia: np.ndarray

    def moved(self, position: np.ndarray, rotation: np.ndarray) -> Inertial:
        """Body as seen from a frame in which this body's frame has ``position`` (3,) and ``rotation`` (3, 3)."""
        return Inertial(self.mass, position + rotation @ self.com, rotation @ self.inertia @ rotation.T)

    def about(self, point: np.ndarray) -> np.ndarray:
        """Inertia about ``point`` (3,), shape (3, 3)."""
        offset = self.com - point
        return self.inertia + self.mass * (offset @ offset * np.eye(3) - np.outer(offset, offset))

    def minus(self, other: Inertial) -> Inertial:
        """This body without ``other``, both in the same frame."""
        mass = self.mass - other.mass
        com = (self.mass * self.com - other.mass * other.com) / mass
        return Inertial(mass, com, self.about(com) - other.about(com))

    def balanced(self) -> Inertial:
        """The same mass with one moment about all axes, the mean of its own."""
        return Inertial(self.mass, self.com, max(float(np.trace(self.inertia)), 0.0) / 3.0 * np.eye(3))

    def principal(self) -> tuple[np.ndarray, np.ndarray]:
        """Principal moments (3,) and the right-handed axes they belong to, as columns, shape (3, 3)."""
        moments, axes = np.linalg.eigh(self.inertia)
        axes[:, 2] *= np.sign(np.linalg.det(axes))
        return moments, axes


def is_urdf(path: Path) -> bool:
    return names_a_urdf(path, read_bytes(path, MODEL_BYTES)) if path.is_file() else path.suffix.lower() == ".urdf"


def read_spec(path: Path, mended: list[str] | None = None) -> mujoco.MjSpec:
    """The robot of an MJCF, or of a URDF with its first link free to move.

    With ``mended``, three faults are mended and told in it: shapes whose meshes are missing, or are no meshes that
    MuJoCo reads, are left out, moments of inertia that no body has become the nearest ones that a body can have, and
    visual shapes collide in a URDF in which nothing does.

    A URDF's links that are fixed to others stay bodies, and have the mass that the file gives them. Meshes called
    ``package://NAME/...`` are looked for beside the file and above it. Raises :class:`SourceError` for what MuJoCo
    would have to invent.
    """
    import mujoco

    from .mjcf import load_spec

    if path.is_file() and _XACRO.search(without_comments(read_bytes(path, MODEL_BYTES), path)):
        raise SourceError(f"{path} is a xacro, of which ROS makes a URDF: ros2 run xacro xacro {path} > robot.urdf")
    spec = load_spec(path, urdf=True)
    if mended is not None and not spec.geoms and is_urdf(path):
        spec = _seen(path)
        mended += ["no link has a <collision>: the <visual> shapes collide"] if spec.geoms else []
    if mended is not None:
        _drop_lost(spec, path, mended)
    if not is_urdf(path):
        return spec
    spec.compiler.fusestatic = False
    spec.compiler.inertiafromgeom = mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_FALSE
    for mesh in spec.meshes:
        mesh.file = _found(path, mesh.file, spec.meshdir)
        mesh.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL  # no shape decides a mass, nor needs a volume
    if len(spec.bodies) < 2:
        raise SourceError(f"{path} has no link with a mass or a collision shape")
    if not spec.bodies[1].joints:
        spec.bodies[1].add_freejoint()
    for name, inertial in urdf_inertials(path).items():
        moments = inertial.principal()[0]
        rounding = max(TOLERANCE * moments[2], SPECK * abs(inertial.mass))
        unreal = moments[0] < -rounding or moments[0] + moments[1] < moments[2] - rounding
        if unreal and inertial.mass >= 0.0 and mended is not None:
            mended.append(f"link {name!r} has moments of inertia that no body has: the largest is lowered")
        elif inertial.mass < 0.0 or unreal:
            raise SourceError(
                f"{path}: link {name!r} has {inertial.mass:g} kg and the principal moments "
                f"{', '.join(f'{moment:.4g}' for moment in moments)} kg m^2, which no body has: none may be negative, "
                "nor one of them larger than the two others together"
            )
        if (unreal or moments[0] <= rounding or inertial.mass <= DUMMY) and (body := spec.body(name)) is not None:
            _write_principal(body, inertial)
    for body in spec.bodies[1:]:
        if body.joints and not any(each.explicitinertial and each.mass > 0.0 for each in _fixed_to(body)):
            raise SourceError(
                f"{path}: link {body.name!r} moves and has no mass, nor has any link that is fixed to it: give it an "
                "<inertial>"
            )
    return spec


def _seen(path: Path) -> mujoco.MjSpec:
    """A URDF whose visual shapes collide."""
    from .mjcf import spec_of

    content = without_comments(read_bytes(path, MODEL_BYTES), path)
    return spec_of(re.sub(rb"(</?)visual\b", rb"\1collision", content), path)


def _drop_lost(spec: mujoco.MjSpec, path: Path, mended: list[str]) -> None:
    """Delete the shapes whose meshes cannot be read."""

    from .mjcf import MESHES

    folder = path.absolute().parent / spec.meshdir
    for mesh in list(spec.meshes):
        try:
            file = folder / (_found(path, mesh.file, spec.meshdir) if is_urdf(path) else mesh.file)
        except SourceError:
            file = folder / mesh.file
        if not mesh.file or (file.is_file() and file.suffix.lower() in MESHES):
            continue
        name = mesh.name or Path(mesh.file).stem
        shapes = [geom for geom in spec.geoms if geom.meshname == name]
        links = ", ".join(dict.fromkeys(geom.parent.name for geom in shapes))
        mended.append(f"mesh {Path(mesh.file).name} is not there, or is no mesh that MuJoCo reads: left out of {links}")
        for geom in shapes:
            spec.delete(geom)
        spec.delete(mesh)


def _write_principal(body: mujoco.MjsBody, inertial: Inertial) -> None:
    """Give a body the inertia that it has but for rounding, or as a mere frame, which MuJoCo may refuse to read."""
    import mujoco

    moments, axes = inertial.principal()
    moments = np.maximum(moments, 0.0)
    moments[2] = min(moments[2], moments[0] + moments[1])
    quat = np.empty(4)
    mujoco.mju_mat2Quat(quat, axes.flatten())
    body.inertia, body.iquat = moments, quat
    body.fullinertia, body.ialt.type = [math.nan, *[0.0] * 5], mujoco.mjtOrientation.mjORIENTATION_QUAT


def _fixed_to(body: mujoco.MjsBody) -> Iterator[mujoco.MjsBody]:
    """A body and those that move with it."""
    yield body
    for child in body.bodies:
        if not child.joints:
            yield from _fixed_to(child)


def check_inertials(path: Path, model: mujoco.MjModel) -> None:
    """Raise :class:`SourceError` unless each link of ``model`` has the mass, centre and inertia of the URDF's."""
    if not is_urdf(path):
        return
    told = urdf_inertials(path)
    for body in range(1, model.nbody):
        name = model.body(body).name
        ours = compiled(model, body)
        theirs = told.get(name, Inertial(0.0, np.zeros(3), np.zeros((3, 3))))
        size = max(float(np.abs(theirs.inertia).max()), 1e-12)
        for what, found, wanted, scale in (
            ("mass", ours.mass, theirs.mass, max(theirs.mass, 1e-6)),
            ("centre of mass", ours.com, theirs.com, max(float(np.abs(theirs.com).max()), 1e-3)),
            ("inertia", ours.inertia, theirs.inertia, size),
        ):
            differs = np.abs(np.asarray(found) - wanted).max() > TOLERANCE * scale
            if differs and (theirs.mass or what == "mass"):  # where there is no mass, its place has no meaning
                raise SourceError(f"{path}: the {what} of link {name!r} is {wanted}, and MuJoCo reads {found}")


def compiled(model: mujoco.MjModel, body: int) -> Inertial:
    """The mass properties of a body of a compiled model."""
    axes = matrix(model.body_iquat[body])
    inertia = axes @ np.diag(model.body_inertia[body]) @ axes.T
    return Inertial(float(model.body_mass[body]), model.body_ipos[body].copy(), inertia)


def urdf_inertials(path: Path) -> dict[str, Inertial]:
    """The mass properties of each link of a URDF that has any, in the frame of the link."""
    found = {}
    for link in read_mjcf(path).iter("link"):
        inertial = link.find("inertial")
        mass = None if inertial is None else inertial.find("mass")
        if inertial is None or mass is None or float(mass.get("value", 0.0)) == 0.0:
            continue
        origin, moments = inertial.find("origin"), inertial.find("inertia")
        xyz, rpy = (_numbers(origin, name) for name in ("xyz", "rpy"))
        xx, xy, xz, yy, yz, zz = (
            float(moments.get(f"i{axes}", 0.0)) if moments is not None else 0.0
            for axes in ("xx", "xy", "xz", "yy", "yz", "zz")
        )
        turn = _turned(*rpy)
        inertia = turn @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ turn.T
        told = Inertial(float(mass.get("value", 0.0)), np.array(xyz), inertia)
        meant = told.mass > DUMMY and np.abs(inertia).max() > SPECK * told.mass
        found[str(link.get("name"))] = told if meant else told.balanced()
    return found


def _numbers(element: ElementTree.Element | None, name: str) -> list[float]:
    text = "" if element is None else element.get(name, "")
    return [float(word) for word in text.split()] or [0.0] * 3


def _turned(roll: float, pitch: float, yaw: float) -> np.ndarray:
    """Rotation by roll about x, then pitch about y, then yaw about z, all fixed axes, shape (3, 3)."""
    (cr, cp, cy), (sr, sp, sy) = (tuple(map(f, (roll, pitch, yaw))) for f in (math.cos, math.sin))
    about_x = np.array([[1.0, 0.0, 0.0], [0.0, cr, -sr], [0.0, sr, cr]])
    about_y = np.array([[cp, 0.0, sp], [0.0, 1.0, 0.0], [-sp, 0.0, cp]])
    about_z = np.array([[cy, -sy, 0.0], [sy, cy, 0.0], [0.0, 0.0, 1.0]])
    return about_z @ about_y @ about_x


def matrix(quat_wxyz: np.ndarray) -> np.ndarray:
    """Rotation of a quaternion (4,), shape (3, 3)."""
    import mujoco

    flat = np.empty(9)
    mujoco.mju_quat2Mat(flat, quat_wxyz)
    return flat.reshape(3, 3)


def _found(urdf: Path, file: str, meshdir: str) -> str:
    """The file of a mesh called ``file://PATH``, ``package://NAME/REST``, or by a path.

    REST is below a folder above the URDF. A path begins there too, or in the folder that the URDF names to MuJoCo,
    which then reads the path's last part alone.
    """
    if file.startswith("file:"):
        return unquote(urlsplit(file).path)
    if not file.startswith("package://"):
        folder = urdf.absolute().parent
        places = (folder / meshdir / file, folder / file, folder / meshdir / Path(file).name)
        return str(next((place for place in places if place.is_file()), file))
    rest = file.removeprefix("package://").partition("/")[2]
    for folder in urdf.absolute().parents:
        if (folder / rest).is_file():
            return str(folder / rest)
    raise SourceError(f"{urdf}: the mesh {file} is in no folder above the file: there is no {rest}")
