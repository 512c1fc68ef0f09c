"""A model in one file: what it takes from other files becomes numbers, and what only a camera sees goes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import mujoco
from gaitway_files.mjcf_files import check_mjcf, names_files
from gaitway_tasks.robots import mjcf
from gaitway_tasks.robots.mjcf import ModelError

GREY = (0.5, 0.5, 0.5, 1.0)


def copy_standalone(path: Path, out: Path) -> None:
    """Copy an MJCF to ``out``, as it is if it needs no other file. Raises :class:`ModelError`."""
    content = check_mjcf(path)
    if not names_files(content):
        out.write_bytes(content)
        return
    alone(mjcf.load_spec(path), out, path)


def alone(spec: Any, out: Path, path: Path) -> mujoco.MjModel:
    """Write the model ``spec``, which was read from ``path``, to the one file ``out``; returns the compiled model."""
    drop_looks(spec)
    model = mjcf.compile_spec(spec, path)
    freeze(spec, model)
    write_standalone(spec, model, "world", out, path)
    return model


def drop_looks(spec: Any) -> None:
    """Delete what only a camera sees, and with it the need for its files, which are often not published."""
    mjcf.strip_visuals(spec)
    for geom in spec.geoms:
        # Collision shapes are often hidden, and are all that is left.
        geom.material, geom.group, geom.rgba = "", 0, GREY
    for part in (*spec.sites, *spec.tendons):
        part.material = ""
    # Sensors are no part of the robot's copy, and may name geoms that are deleted here.
    for group in (spec.materials, spec.textures, spec.skins, spec.sensors):
        for element in list(group):
            spec.delete(element)
    used = {geom.meshname for geom in spec.geoms if geom.type == mujoco.mjtGeom.mjGEOM_MESH}
    for mesh in list(spec.meshes):
        if mesh.name not in used:
            spec.delete(mesh)


def freeze(spec: Any, model: mujoco.MjModel) -> None:
    """Write inertias, and the places of meshes, as the numbers that were compiled from ``spec``, unchanged since."""
    _place_meshes(spec, model)
    for body in spec.bodies:
        compiled = model.body(body.id)
        if body.name != "world" and compiled.mass[0] > 0.0:
            body.explicitinertial, body.mass = 1, float(compiled.mass[0])
            body.ipos, body.iquat, body.inertia = compiled.ipos, compiled.iquat, compiled.inertia
            body.fullinertia = [float("nan"), *[0.0] * 5]
            body.ialt.type = mujoco.mjtOrientation.mjORIENTATION_QUAT


def write_standalone(spec: Any, model: mujoco.MjModel, base: str, out: Path, path: Path) -> None:
    """Write a frozen ``spec`` with its meshes as vertices; the mass of ``base`` and what hangs on it must be kept."""
    mjcf.strip_visuals(spec)
    for mesh in list(spec.meshes):
        _inline(spec, mesh, model)
    try:
        copy = spec.compile()
        # Classes of geoms keep the names of materials that are gone, and cannot be asked for.
        out.write_text(re.sub(r' material="[^"]*"', "", spec.to_xml()), "utf-8")
        mujoco.MjModel.from_xml_path(str(out))
    except (ValueError, mujoco.FatalError) as error:
        reason = " ".join(str(error).split())
        raise ModelError(f"{path} cannot be made independent of other files: {reason}") from None
    ours = float(model.body_subtreemass[model.body(base).id])
    if abs(float(copy.body_subtreemass[copy.body(base).id]) - ours) > 1e-6 * ours:
        raise ModelError(f"{path}: the robot's mass changed while the file was made independent of others")


def _place_meshes(spec: Any, model: mujoco.MjModel) -> None:
    """Place mesh geoms as the compiler does: it centres every mesh and shifts its geoms to compensate."""
    for geom in spec.geoms:
        if geom.type == mujoco.mjtGeom.mjGEOM_MESH:
            placed = model.geom(geom.id)
            geom.pos, geom.quat = placed.pos, placed.quat
            geom.alt.type = mujoco.mjtOrientation.mjORIENTATION_QUAT


def _inline(spec: Any, mesh: Any, model: mujoco.MjModel) -> None:
    """Put a mesh of its centred vertices in the place of one with a file; geoms collide with its convex hull anyway."""
    compiled = model.mesh(mesh.name)
    start, count = int(compiled.vertadr[0]), int(compiled.vertnum[0])
    vertices = spec.add_mesh(
        name=f"{mesh.name}_hull", uservert=model.mesh_vert[start : start + count].flatten().tolist()
    )
    for geom in spec.geoms:
        if geom.type == mujoco.mjtGeom.mjGEOM_MESH and geom.meshname == mesh.name:
            geom.meshname = vertices.name
    spec.delete(mesh)
