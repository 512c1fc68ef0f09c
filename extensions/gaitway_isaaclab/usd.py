"""A robot's MJCF as a USD that Isaac Lab spawns with ``UsdFileCfg``, written with usd-core alone.

One prim per body under the default prim. The base is the articulation's root: marked on a prim above, simulators take
the body in the middle of the tree of joints. Every body has explicit mass properties, so that no importer guesses them
from shapes; joints and bodies keep the names of the MJCF. The values are those of MuJoCo's compiled model. Schema
and units are OpenUSD's UsdPhysics (degrees for angles and for what is divided by them); ``physxJoint:``,
``physxJointAxis:``, ``newton:`` and ``mjc:`` attributes of PhysX, Newton and MuJoCo hold values that UsdPhysics lacks.

The module is a program too, ``usd.py DESCRIPTION FILE``, for processes in which ``pxr`` must not be imported yet.
"""

from __future__ import annotations

import itertools
import math
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from gaitway_files.json_files import read_json
from gaitway_tasks.robots.robot import ImplicitPD, Robot
from gaitway_tasks.robots.source import Inertial, SourceError, check_inertials, compiled, matrix, read_spec

from gaitway_isaaclab.sayable import check_sayable

if TYPE_CHECKING:
    import mujoco

MASSLESS_SHARE = 0.01
"""A massless body takes this share of the mass of the body that it is fixed to.

Simulators refuse links without mass. Mass, centre of mass and inertia of the two together stay those of the MJCF.
"""


class UsdError(SourceError):
    """A robot that cannot be written as USD, or a missing library, with the fix."""


def write_usd(robot: Robot, path: str | Path, *, rename: bool = False) -> Path:
    """Write ``robot`` to ``path`` (``.usd``, ``.usda`` or ``.usdc``) and return it.

    Names that a USD cannot have are refused, or written as :func:`renamed` says with ``rename``.
    Raises :class:`UsdError` when usd-core or MuJoCo is missing, and for unsupported parts of the MJCF: joints
    other than hinges, a base that is fixed to the world, colliders other than primitive shapes and meshes.
    Meshes collide as their convex hulls, as in MuJoCo.
    """
    model = _compile(robot)
    new = renamed(model)
    if new and not rename:
        old, better = next(iter(new.items()))
        raise UsdError(
            f"{robot.mjcf} cannot be written as USD: {old!r} is no name that it can have or has not yet: names are "
            f"letters, digits and _, no digit first. Call it {better!r}"
        )
    try:
        from pxr import Gf, Sdf, Usd, UsdGeom, UsdPhysics
    except ImportError as error:
        raise UsdError(
            "writing a USD needs pxr, which is not installed: pip install usd-core, or, where Isaac Sim brings it, "
            "start Isaac Sim first"
        ) from error

    path = Path(path)
    if path.suffix not in (".usd", ".usda", ".usdc"):
        raise UsdError(f"{path} is no name for a USD file: end it with .usd, .usda or .usdc")
    path.parent.mkdir(parents=True, exist_ok=True)
    stage = Usd.Stage.CreateInMemory()
    UsdGeom.SetStageUpAxis(stage, UsdGeom.Tokens.z)
    UsdGeom.SetStageMetersPerUnit(stage, 1.0)
    UsdPhysics.SetStageKilogramsPerUnit(stage, 1.0)
    root = UsdGeom.Xform.Define(stage, f"/{_identifier(robot.name)}")
    stage.SetDefaultPrim(root.GetPrim())

    inertials = body_inertials(model)
    places = _places(model)
    names = {body: model.body(body).name for body in range(1, model.nbody)}
    paths = {body: root.GetPath().AppendChild(new.get(name, name)) for body, name in names.items()}
    for body in range(1, model.nbody):
        prim = UsdGeom.Xform.Define(stage, paths[body])
        position, rotation = places[body]
        _place(prim, position, rotation)
        UsdPhysics.RigidBodyAPI.Apply(prim.GetPrim())
        if body == 1:
            UsdPhysics.ArticulationRootAPI.Apply(prim.GetPrim())
            prim.GetPrim().AddAppliedSchema("PhysxArticulationAPI")  # Newton reads the attribute too
            prim.GetPrim().CreateAttribute("physxArticulation:enabledSelfCollisions", Sdf.ValueTypeNames.Bool).Set(
                _collides_with_itself(model)
            )
        moments, axes = inertials[body].principal()
        mass = UsdPhysics.MassAPI.Apply(prim.GetPrim())
        mass.CreateMassAttr(inertials[body].mass)
        mass.CreateCenterOfMassAttr(Gf.Vec3f(*inertials[body].com.tolist()))
        mass.CreateDiagonalInertiaAttr(Gf.Vec3f(*moments.tolist()))
        mass.CreatePrincipalAxesAttr(_quatf(axes))
        _shapes(stage, prim.GetPath(), robot, model, body)
    for one, other in _filtered(model):
        pairs = UsdPhysics.FilteredPairsAPI.Apply(stage.GetPrimAtPath(paths[one]))
        pairs.CreateFilteredPairsRel().AddTarget(paths[other])
    joints = UsdGeom.Scope.Define(stage, root.GetPath().AppendChild("joints")).GetPath()
    for body in range(2, model.nbody):
        _joint(stage, paths, joints, new, robot, model, body)
    stage.GetRootLayer().Export(str(path))
    return path


def renamed(model: mujoco.MjModel) -> dict[str, str]:
    """Names of bodies and joints that a USD cannot have, each with the one that it gets."""
    found: dict[str, str] = {}
    bodies = [model.body(body).name for body in range(1, model.nbody)]
    joints = [model.joint(joint).name for joint in range(1, model.njnt)]
    for names, reserved in ((bodies, ("joints", "materials")), (joints, ())):
        taken = {*reserved, *(name for name in names if _identifier(name) == name)}
        for name in names:
            if _identifier(name) == name and name not in reserved:
                continue
            new = _identifier(name)
            while new in taken:
                new += "_"
            taken.add(new)
            found[name] = new
    return found


def _identifier(name: str) -> str:
    """``name`` as OpenUSD's identifiers are: ASCII letters, digits and underscores, no digit first."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return f"_{plain}" if not plain or plain[0].isdigit() else plain


def described(robot: Robot) -> dict[str, Any]:
    """Data of ``robot`` that :func:`write_usd` reads, as JSON types."""
    return {
        "name": robot.name,
        "mjcf": str(robot.mjcf.absolute()),
        "joint_names": robot.joint_names,
        "body_names": robot.body_names,
        "drives": [
            {
                **{key: getattr(law, key) for key in ("stiffness", "damping", "armature")},
                "effort_limit": law.effort_limit if math.isfinite(law.effort_limit) else None,
            }
            for law in robot.joint_actuators
        ],
    }


def robot_of(description: dict[str, Any]) -> Robot:
    """Inverse of :func:`described`: a robot with the data that :func:`write_usd` reads."""
    joints = tuple(description["joint_names"])
    return Robot(
        name=description["name"],
        mjcf=Path(description["mjcf"]),
        joint_names=joints,
        body_names=tuple(description["body_names"]),
        actuators={
            joint: ImplicitPD(
                joints=(re.escape(joint),),
                **{**drive, "effort_limit": math.inf if drive["effort_limit"] is None else drive["effort_limit"]},
            )
            for joint, drive in zip(joints, description["drives"], strict=True)
        },
        foot_names=(),
        default_joint_pos=(),
        joint_limits=(),
        soft_joint_pos_limit_factor=1.0,
        init_height=0.0,
    )


def body_inertials(model: mujoco.MjModel) -> list[Inertial]:
    """Mass properties per body of ``model`` as the USD has them: massless bodies given a share of a neighbour's."""
    found = [compiled(model, body) for body in range(model.nbody)]
    waiting = [body for body in range(1, model.nbody) if found[body].mass == 0.0]
    while waiting:
        shared = next((pair for body in waiting if (pair := (body, _donor(model, found, body)))[1]), None)
        if shared is None:
            name = model.body(waiting[0]).name
            raise UsdError(f"body {name!r} has no mass, nor has any that is fixed to it: give it an inertial")
        body, donor = shared
        mass = MASSLESS_SHARE * found[donor].mass
        radius = max((float(model.geom_rbound[geom]) for geom in _geoms(model, body)), default=0.01)
        found[body] = Inertial(mass, np.zeros(3), 0.4 * mass * radius**2 * np.eye(3))
        rest = found[donor].minus(found[body].moved(*_seen_from(model, donor, body)))
        moments = rest.principal()[0]
        if moments[0] <= 0.0 or moments[0] + moments[1] < moments[2]:
            raise UsdError(
                f"body {model.body(body).name!r} has no mass and {model.body(donor).name!r}, which is fixed to it, too "
                "little inertia to give it some: give it an inertial"
            )
        found[donor] = rest
        waiting.remove(body)
    return found


def _donor(model: mujoco.MjModel, found: list[Inertial], body: int) -> int:
    """A body with mass that is fixed to ``body``; 0 if there is none yet."""
    parent = int(model.body_parentid[body])
    if not model.body_jntnum[body] and found[parent].mass > 0.0:
        return parent
    children = np.flatnonzero((model.body_parentid == body) & (model.body_jntnum == 0)).tolist()
    return next((child for child in children if child != body and found[child].mass > 0.0), 0)


def _seen_from(model: mujoco.MjModel, donor: int, body: int) -> tuple[np.ndarray, np.ndarray]:
    """Position and rotation of ``body``'s frame in that of ``donor``, its parent or a child."""
    if model.body_parentid[body] == donor:
        return model.body_pos[body], matrix(model.body_quat[body])
    turn = matrix(model.body_quat[donor]).T
    return -turn @ model.body_pos[donor], turn


def _compile(robot: Robot) -> mujoco.MjModel:
    model = compile_file(robot.mjcf)
    where = f"{robot.mjcf} cannot be written as USD"
    joints = [model.joint(joint).name for joint in range(1, model.njnt)]
    if missing := [name for name in robot.joint_names if name not in joints]:
        raise UsdError(f"{where}: it has no joint named {', '.join(missing)}; its joints are {', '.join(joints)}")
    names = [model.body(body).name for body in range(1, model.nbody)]
    if names[0] != robot.base_name:
        raise UsdError(f"{where}: its first body is {names[0]!r}, the base of {robot.name} is {robot.base_name!r}")
    if missing := [name for name in robot.body_names if name not in names]:
        raise UsdError(f"{where}: it has no body named {', '.join(missing)}")
    return model


def compile_file(path: Path) -> mujoco.MjModel:
    """The model of a file that :func:`gaitway_tasks.robots.source.read_spec` reads; the first body is the base.

    Raises :class:`gaitway_tasks.robots.source.SourceError` for what a USD of a walking robot cannot say.
    """
    try:
        import mujoco
        from gaitway_tasks.robots.mjcf import compile_spec
    except ImportError as error:
        raise UsdError("reading an MJCF needs MuJoCo, which is not installed: pip install mujoco") from error
    spec, where = read_spec(path), f"{path} cannot be written as USD"
    check_sayable(spec, where)
    model = compile_spec(spec, path)
    check_inertials(path, model)
    if model.nbody < 2 or model.body_jntnum[1] != 1 or model.jnt_type[0] != mujoco.mjtJoint.mjJNT_FREE:
        raise UsdError(f"{where}: its first body needs a free joint and no other: add <freejoint/> to it")
    base = model.body(1).name
    for body in range(1, model.nbody):
        name = model.body(body).name
        if not name or (body > 1 and model.body_parentid[body] == 0):
            raise UsdError(f"{where}: every body needs a name and has to hang on {base!r}; body {body} is {name!r}")
        own = range(model.body_jntadr[body], model.body_jntadr[body] + model.body_jntnum[body])
        for joint in own if body > 1 else ():
            kind = mujoco.mjtJoint(model.jnt_type[joint])
            if len(own) > 1 or kind != mujoco.mjtJoint.mjJNT_HINGE:
                has = f"{len(own)} joints" if len(own) > 1 else f"a {kind.name[6:].lower()} joint"
                raise UsdError(f"{where}: body {name!r} has {has}, and needs one hinge or no joint")
            if not model.joint(joint).name:
                raise UsdError(f"{where}: the joint of body {name!r} needs a name")
            if model.qpos0[model.jnt_qposadr[joint]] != 0.0:
                raise UsdError(f"{where}: the joint of body {name!r} has a ref, which has to be 0")
    return model


def _geoms(model: mujoco.MjModel, body: int) -> range:
    return range(model.body_geomadr[body], model.body_geomadr[body] + model.body_geomnum[body])


def _collides_with_itself(model: mujoco.MjModel) -> bool:
    """True if geoms of any two bodies may collide. An articulation has one switch for all of them."""
    apart = model.body_weldid[model.geom_bodyid][:, None] != model.body_weldid[model.geom_bodyid][None, :]
    return bool((_may_collide(model) & apart).any())


def _may_collide(model: mujoco.MjModel) -> np.ndarray:
    """Pairs of geoms that contype and conaffinity let collide, (G, G)."""
    types, masks = model.geom_contype, model.geom_conaffinity
    return ((types[:, None] & masks[None, :]) | (types[None, :] & masks[:, None])).astype(bool)


def _filtered(model: mujoco.MjModel) -> list[tuple[int, int]]:
    """Pairs of bodies that MuJoCo lets pass through each other, where the articulation collides with itself.

    They are excluded by name, their geoms' bits do not meet, they are welded together, or one is welded to a body that
    a joint joins to the other. Simulators leave out bodies that share a joint themselves.
    """
    if not _collides_with_itself(model):
        return []
    weld, allowed = model.body_weldid, _may_collide(model)
    excluded = {(int(sign) >> 16, int(sign) & 0xFFFF) for sign in model.exclude_signature}
    colliders = {
        body: [geom for geom in _geoms(model, body) if model.geom_contype[geom] or model.geom_conaffinity[geom]]
        for body in range(1, model.nbody)
    }
    found = []
    for one, other in itertools.combinations([body for body, geoms in colliders.items() if geoms], 2):
        above = [weld[model.body_parentid[weld[body]]] for body in (one, other)]
        near = weld[one] == weld[other] or above[1] == weld[one] or above[0] == weld[other]
        named = (one, other) in excluded or (other, one) in excluded
        meet = allowed[np.ix_(colliders[one], colliders[other])].any()
        if model.body_parentid[other] != one and (near or named or not meet):
            found.append((one, other))
    return found


def _places(model: mujoco.MjModel) -> list[tuple[np.ndarray, np.ndarray]]:
    """Position and rotation of every body in the frame of the base, all joints at zero."""
    places = [(np.zeros(3), np.eye(3))] * 2  # the world and the base
    for body in range(2, model.nbody):
        position, rotation = places[model.body_parentid[body]]
        places.append((position + rotation @ model.body_pos[body], rotation @ matrix(model.body_quat[body])))
    return places


def _joint(
    stage: Any, paths: dict[int, Any], joints: Any, new: dict[str, str], robot: Robot, model: mujoco.MjModel, body: int
) -> None:
    """The joint between ``body`` and its parent: a hinge about the x axis of the joint frames, or fixed."""
    from pxr import Gf, Sdf, UsdPhysics

    anchor, axes = np.zeros(3), np.eye(3)
    prim: Any
    if not model.body_jntnum[body]:
        prim = UsdPhysics.FixedJoint.Define(stage, joints.AppendChild(f"{paths[body].name}_fixed"))
    else:
        joint = int(model.body_jntadr[body])
        dof = int(model.jnt_dofadr[joint])
        name = model.joint(joint).name
        anchor, axes = model.jnt_pos[joint], _frame_about(model.jnt_axis[joint])
        prim = UsdPhysics.RevoluteJoint.Define(stage, joints.AppendChild(new.get(name, name)))
        prim.CreateAxisAttr("X")
        if model.jnt_limited[joint]:
            lower, upper = np.degrees(model.jnt_range[joint])
            prim.CreateLowerLimitAttr(float(lower))
            prim.CreateUpperLimitAttr(float(upper))
        armature = float(model.dof_armature[dof])
        if name in robot.joint_names:
            law = robot.joint_actuators[robot.joint_names.index(name)]
            armature = armature if law.armature is None else law.armature
            drive = UsdPhysics.DriveAPI.Apply(prim.GetPrim(), "angular")
            drive.CreateTypeAttr("force")
            drive.CreateStiffnessAttr(math.radians(law.stiffness))  # per degree
            drive.CreateDampingAttr(math.radians(law.damping))
            if math.isfinite(law.effort_limit):
                drive.CreateMaxForceAttr(law.effort_limit)
        prim.GetPrim().AddAppliedSchema("PhysxJointAPI")
        prim.GetPrim().AddAppliedSchema("PhysxJointAxisAPI:angular")  # its armature takes precedence
        friction, damping = float(model.dof_frictionloss[dof]), float(np.ravel(model.dof_damping[dof])[0])
        for attribute, value in (
            ("physxJoint:armature", armature),
            ("physxJoint:jointFriction", 0.0),  # a coefficient, of PhysX's older model
            ("physxJointAxis:angular:armature", armature),
            ("physxJointAxis:angular:staticFrictionEffort", friction),
            ("physxJointAxis:angular:dynamicFrictionEffort", friction),
            ("physxJointAxis:angular:viscousFrictionCoefficient", math.radians(damping)),  # per degree
            ("newton:armature", armature),
            ("newton:friction", friction),
            ("mjc:damping", damping),
        ):
            prim.GetPrim().CreateAttribute(attribute, Sdf.ValueTypeNames.Float).Set(value)
    prim.CreateBody0Rel().SetTargets([paths[int(model.body_parentid[body])]])
    prim.CreateBody1Rel().SetTargets([paths[body]])
    turned = matrix(model.body_quat[body])
    prim.CreateLocalPos0Attr(Gf.Vec3f(*(model.body_pos[body] + turned @ anchor).tolist()))
    prim.CreateLocalRot0Attr(_quatf(turned @ axes))
    prim.CreateLocalPos1Attr(Gf.Vec3f(*anchor.tolist()))
    prim.CreateLocalRot1Attr(_quatf(axes))


def _shapes(stage: Any, body_path: Any, robot: Robot, model: mujoco.MjModel, body: int) -> None:
    """Colliders with their friction, and visual shapes; a collider covered by a visual shape is not drawn."""
    import mujoco
    from pxr import Gf, Sdf, UsdGeom, UsdPhysics, UsdShade

    geoms = list(_geoms(model, body))
    seen = [geom for geom in geoms if not (model.geom_contype[geom] or model.geom_conaffinity[geom])]
    for number, geom in enumerate(geoms):
        kind, size = mujoco.mjtGeom(model.geom_type[geom]), model.geom_size[geom]
        where = body_path.AppendChild(f"{'visual' if geom in seen else 'collision'}_{number}")
        scale = None
        shape: Any
        if kind == mujoco.mjtGeom.mjGEOM_SPHERE:
            shape = UsdGeom.Sphere.Define(stage, where)
            shape.CreateRadiusAttr(float(size[0]))
        elif kind in (mujoco.mjtGeom.mjGEOM_CAPSULE, mujoco.mjtGeom.mjGEOM_CYLINDER):
            shape = (UsdGeom.Capsule if kind == mujoco.mjtGeom.mjGEOM_CAPSULE else UsdGeom.Cylinder).Define(
                stage, where
            )
            shape.CreateAxisAttr("Z")
            shape.CreateRadiusAttr(float(size[0]))
            shape.CreateHeightAttr(2.0 * float(size[1]))
        elif kind == mujoco.mjtGeom.mjGEOM_BOX:
            shape = UsdGeom.Cube.Define(stage, where)
            shape.CreateSizeAttr(2.0)
            scale = Gf.Vec3f(*size.tolist())
        elif kind == mujoco.mjtGeom.mjGEOM_MESH:
            shape = _mesh(stage, where, model, geom, hull=geom not in seen)
        elif geom in seen:
            continue
        else:
            raise UsdError(
                f"{robot.mjcf}: a collider of body {model.body(body).name!r} is a {kind.name[7:].lower()}; "
                "use spheres, capsules, cylinders, boxes and meshes"
            )
        _place(shape, model.geom_pos[geom], matrix(model.geom_quat[geom]), scale)
        shape.CreateDisplayColorAttr([Gf.Vec3f(*model.geom_rgba[geom][:3].tolist())])
        if geom in seen:
            continue
        if seen:
            shape.CreatePurposeAttr(UsdGeom.Tokens.guide)
        UsdPhysics.CollisionAPI.Apply(shape.GetPrim())
        friction = float(model.geom_friction[geom][0])
        material = UsdShade.Material.Define(
            stage, stage.GetDefaultPrim().GetPath().AppendPath(f"materials/friction_{friction:g}".replace(".", "_"))
        )
        physics = UsdPhysics.MaterialAPI.Apply(material.GetPrim())
        physics.CreateStaticFrictionAttr(friction)
        physics.CreateDynamicFrictionAttr(friction)
        binding = UsdShade.MaterialBindingAPI.Apply(shape.GetPrim())
        binding.GetDirectBindingRel("physics").SetTargets([Sdf.Path(material.GetPath())])


def _mesh(stage: Any, where: Any, model: mujoco.MjModel, geom: int, *, hull: bool) -> Any:
    """A mesh as it is seen, or its convex hull, which is what MuJoCo collides."""
    from pxr import Gf, UsdGeom, UsdPhysics, Vt

    mesh = int(model.geom_dataid[geom])
    first, count = int(model.mesh_vertadr[mesh]), int(model.mesh_vertnum[mesh])
    points = model.mesh_vert[first : first + count]
    first, count = int(model.mesh_faceadr[mesh]), int(model.mesh_facenum[mesh])
    faces = model.mesh_face[first : first + count]
    if hull:
        # vertices, faces, an address for each vertex, a number for each, edges, and the corners of each face
        graph = model.mesh_graph[int(model.mesh_graphadr[mesh]) :]
        corners, triangles = int(graph[0]), int(graph[1])
        start = 2 + 2 * corners + corners + 3 * triangles
        faces = graph[start : start + 3 * triangles].reshape(-1, 3)
        kept, faces = np.unique(faces, return_inverse=True)
        points, faces = points[kept], faces.reshape(-1, 3)
    shape = UsdGeom.Mesh.Define(stage, where)
    shape.CreatePointsAttr(Vt.Vec3fArray([Gf.Vec3f(*point) for point in points.tolist()]))
    shape.CreateFaceVertexCountsAttr([3] * len(faces))
    shape.CreateFaceVertexIndicesAttr(faces.ravel().tolist())
    shape.CreateSubdivisionSchemeAttr(UsdGeom.Tokens.none)
    shape.CreateExtentAttr([Gf.Vec3f(*points.min(0).tolist()), Gf.Vec3f(*points.max(0).tolist())])
    if hull:
        UsdPhysics.MeshCollisionAPI.Apply(shape.GetPrim()).CreateApproximationAttr(UsdPhysics.Tokens.convexHull)
    return shape


def _place(prim: Any, position: np.ndarray, rotation: np.ndarray, scale: Any = None) -> None:
    from pxr import Gf, UsdGeom

    prim.AddTranslateOp().Set(Gf.Vec3d(*position.tolist()))
    prim.AddOrientOp(UsdGeom.XformOp.PrecisionDouble).Set(Gf.Quatd(*_quaternion(rotation)))
    # Isaac Lab's tools expect all three operations on every prim.
    prim.AddScaleOp().Set(Gf.Vec3f(1.0) if scale is None else scale)


def _frame_about(axis: np.ndarray) -> np.ndarray:
    """A rotation whose first column is ``axis`` (3,), the nearest to no rotation, shape (3, 3)."""
    x = np.array([1.0, 0.0, 0.0])
    axis = axis / np.linalg.norm(axis)
    if np.allclose(axis, -x):
        return np.diag([-1.0, -1.0, 1.0])
    cross, cosine = np.cross(x, axis), float(x @ axis)
    skew = np.cross(np.eye(3), cross)
    return np.eye(3) + skew + skew @ skew / (1.0 + cosine)


def _quaternion(rotation: np.ndarray) -> list[float]:
    import mujoco

    quat = np.empty(4)
    mujoco.mju_mat2Quat(quat, np.ascontiguousarray(rotation).ravel())
    return quat.tolist()


def _quatf(rotation: np.ndarray) -> Any:
    from pxr import Gf

    return Gf.Quatf(*_quaternion(rotation))


def main(description: str, path: str) -> int:
    """Write the USD of the robot in the JSON file ``description`` to ``path``; print errors on stdout."""
    try:
        write_usd(robot_of(read_json(description)), path)
    except ValueError as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
