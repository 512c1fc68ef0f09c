"""The USD says what MuJoCo compiles: masses, frames, joints, colliders; read back with pxr."""

import math
import sys

import mujoco
import numpy as np
import pytest
from gaitway_isaaclab.usd import MASSLESS_SHARE, UsdError, write_usd
from gaitway_tasks.robots import ROBOTS
from gaitway_tasks.robots.anymal_c import ANYMAL_C
from pxr import Gf, Usd, UsdGeom, UsdPhysics, UsdShade

# Frames turned and shifted in every way that an MJCF allows, a massless foot on a massless ankle.
SKEWED = """
<mujoco>
  <worldbody>
    <body name="base" pos="0.1 0.2 0.7" quat="0.9 0.1 -0.3 0.2">
      <freejoint/>
      <inertial pos="0.01 -0.02 0.03" mass="7" fullinertia="0.3 0.25 0.2 0.01 -0.02 0.03"/>
      <geom type="box" size="0.2 0.1 0.05" pos="0.01 0 0.02" euler="10 20 30"/>
      <body name="thigh" pos="0.2 0.1 -0.05" quat="0.7 -0.2 0.4 0.3">
        <inertial pos="0 0.01 -0.1" mass="2" quat="0.8 0.2 0.3 -0.1" diaginertia="0.02 0.018 0.004"/>
        <joint name="hip" axis="-1 2 0.5" pos="0.01 -0.02 0.03" range="-40 70" damping="0.7" armature="0.03"/>
        <geom type="capsule" size="0.03" fromto="0 0 0 0.05 0.02 -0.2" friction="0.55 0.01 0.01"/>
        <body name="shank" pos="0 0.05 -0.2" euler="30 -20 50">
          <inertial pos="0.01 0 -0.1" mass="1" diaginertia="0.011 0.010 0.002"/>
          <joint name="knee" axis="-1 0 0" frictionloss="0.4"/>
          <geom type="cylinder" size="0.02 0.1" pos="0 0 -0.1"/>
          <body name="ankle" pos="0.02 0 -0.21" euler="0 90 0">
            <body name="foot" pos="0.03 0 0">
              <geom type="sphere" size="0.04" mass="0"/>
            </body>
          </body>
        </body>
      </body>
    </body>
  </worldbody>
</mujoco>
"""


def skewed_robot(folder, text=SKEWED):
    path = folder / "skewed.xml"
    path.write_text(text)
    return ANYMAL_C.replace(
        name="skewed-1",
        joint_names=("hip", "knee"),
        body_names=("base", "thigh", "shank", "foot"),
        foot_names=("foot",),
        default_joint_pos=(0.0, 0.0),
        joint_limits=((-0.6, 1.2), (-3.0, 3.0)),
        mjcf=path,
        mirrors={},
    )


@pytest.fixture(params=[*(name for name, robot in ROBOTS.items() if not robot.fixed_base), "skewed"])
def robot(request, tmp_path):
    return skewed_robot(tmp_path) if request.param == "skewed" else ROBOTS[request.param]


@pytest.fixture
def model(robot):
    return mujoco.MjModel.from_xml_path(str(robot.mjcf))


@pytest.fixture
def stage(robot, tmp_path):
    return Usd.Stage.Open(str(write_usd(robot, tmp_path / "out" / "robot.usd")))


def link(stage, name):
    prim = stage.GetDefaultPrim().GetChild(name)
    assert prim.HasAPI(UsdPhysics.RigidBodyAPI), name
    return prim


def joints(stage):
    return [p for p in stage.Traverse() if p.IsA(UsdPhysics.Joint)]


def rotation(quat):
    matrix = np.empty(9)
    mujoco.mju_quat2Mat(matrix, np.array([quat.GetReal(), *quat.GetImaginary()], dtype=float))
    return matrix.reshape(3, 3)


def inertial(stage, name):
    """Mass, centre of mass and inertia about it, in the frame of the base at zero joint angles."""
    prim = link(stage, name)
    mass = UsdPhysics.MassAPI(prim)
    pose = np.array(UsdGeom.Xformable(prim).ComputeLocalToWorldTransform(Usd.TimeCode.Default())).T
    axes = pose[:3, :3] @ rotation(mass.GetPrincipalAxesAttr().Get())
    com = pose[:3, :3] @ np.array(mass.GetCenterOfMassAttr().Get()) + pose[:3, 3]
    return mass.GetMassAttr().Get(), com, axes @ np.diag(mass.GetDiagonalInertiaAttr().Get()) @ axes.T


def combined(parts):
    """Bodies as one: mass, centre of mass, inertia about it."""
    mass = sum(m for m, _, _ in parts)
    com = sum(m * c for m, c, _ in parts) / mass
    total = np.zeros((3, 3))
    for m, c, inertia in parts:
        d = c - com
        total += inertia + m * (d @ d * np.eye(3) - np.outer(d, d))
    return mass, com, total


def posed(model, joint_pos=0.0):
    """The base at the origin, its joints at ``joint_pos``."""
    data = mujoco.MjData(model)
    data.qpos[:7] = [0, 0, 0, 1, 0, 0, 0]
    data.qpos[7:] = joint_pos
    mujoco.mj_forward(model, data)
    return data


def welded(model, body):
    """``body`` and all that is fixed to it."""
    return [b for b in range(1, model.nbody) if model.body_weldid[b] == model.body_weldid[body]]


def test_masses_centres_and_inertias_are_those_of_the_mjcf(stage, model):
    data = posed(model)
    for body in sorted({int(model.body_weldid[b]) for b in range(1, model.nbody)}):
        group = [b for b in welded(model, body) if model.body_mass[b] > 0]
        expected = combined(
            [
                (
                    model.body_mass[b],
                    data.xipos[b],
                    data.ximat[b].reshape(3, 3) @ np.diag(model.body_inertia[b]) @ data.ximat[b].reshape(3, 3).T,
                )
                for b in group
            ]
        )
        found = combined([inertial(stage, model.body(b).name) for b in welded(model, body)])
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-6)
    masses = [inertial(stage, model.body(b).name)[0] for b in range(1, model.nbody)]
    assert min(masses) > 0.0
    assert sum(masses) == pytest.approx(model.body_mass.sum(), abs=1e-5)


def test_bodies_without_massless_children_keep_their_own_figures(stage, model, robot):
    massless = {b: [w for w in welded(model, b) if model.body_mass[w] == 0] for b in range(1, model.nbody)}
    alone = [b for b, shares in massless.items() if not shares]
    assert alone
    for body in alone:
        mass = UsdPhysics.MassAPI(link(stage, model.body(body).name))
        assert mass.GetMassAttr().Get() == pytest.approx(model.body_mass[body], abs=1e-6)
        np.testing.assert_allclose(mass.GetCenterOfMassAttr().Get(), model.body_ipos[body], atol=1e-6)
        assert sorted(mass.GetDiagonalInertiaAttr().Get()) == pytest.approx(sorted(model.body_inertia[body]), abs=1e-6)
    for foot in robot.foot_names:
        parent = model.body(int(model.body(foot).parentid[0])).name
        if model.body(foot).mass[0] == 0 and model.body(parent).mass[0] > 0:
            assert inertial(stage, foot)[0] == pytest.approx(MASSLESS_SHARE * model.body(parent).mass[0])


def test_joints_move_the_links_as_in_mujoco(stage, model, robot):
    data = posed(model, np.random.default_rng(0).uniform(-1.0, 1.0, model.nq - 7))
    angles = {model.joint(j).name: data.qpos[model.jnt_qposadr[j]] for j in range(1, model.njnt)}
    assert {p.GetName() for p in joints(stage) if p.IsA(UsdPhysics.RevoluteJoint)} == set(robot.joint_names)

    poses = {robot.base_name: np.eye(4)}
    for prim in joints(stage):  # a parent before its children
        joint = UsdPhysics.Joint(prim)
        parent, child = (rel.GetTargets()[0].name for rel in (joint.GetBody0Rel(), joint.GetBody1Rel()))
        frame0, frame1, turn = np.eye(4), np.eye(4), np.eye(4)
        frame0[:3, :3], frame0[:3, 3] = rotation(joint.GetLocalRot0Attr().Get()), joint.GetLocalPos0Attr().Get()
        frame1[:3, :3], frame1[:3, 3] = rotation(joint.GetLocalRot1Attr().Get()), joint.GetLocalPos1Attr().Get()
        if prim.IsA(UsdPhysics.RevoluteJoint):
            assert UsdPhysics.RevoluteJoint(prim).GetAxisAttr().Get() == "X"
            half = angles[prim.GetName()] / 2
            turn[:3, :3] = rotation(Gf.Quatd(math.cos(half), math.sin(half), 0.0, 0.0))
        poses[child] = poses[parent] @ frame0 @ turn @ np.linalg.inv(frame1)
    for body in range(1, model.nbody):
        pose = poses[model.body(body).name]
        np.testing.assert_allclose(pose[:3, 3], data.xpos[body], atol=1e-6)
        np.testing.assert_allclose(pose[:3, :3], data.xmat[body].reshape(3, 3), atol=1e-6)


def test_joint_limits_drives_and_what_else_the_model_says(stage, model, robot):
    for index, name in enumerate(robot.joint_names):
        prim = next(p for p in joints(stage) if p.GetName() == name)
        joint, number = UsdPhysics.RevoluteJoint(prim), model.joint(name).id
        if model.jnt_limited[number]:
            limits = joint.GetLowerLimitAttr().Get(), joint.GetUpperLimitAttr().Get()
            np.testing.assert_allclose(np.radians(limits), model.jnt_range[number], atol=1e-6)
        else:
            assert not math.isfinite(joint.GetLowerLimitAttr().Get())
        law, drive = robot.joint_actuators[index], UsdPhysics.DriveAPI(prim, "angular")
        assert drive.GetStiffnessAttr().Get() * 180 / math.pi == pytest.approx(law.stiffness)
        assert drive.GetDampingAttr().Get() * 180 / math.pi == pytest.approx(law.damping)
        assert drive.GetMaxForceAttr().Get() == pytest.approx(law.effort_limit)
        dof = model.jnt_dofadr[number]
        for attribute, value in (
            ("physxJoint:armature", model.dof_armature[dof]),
            ("physxJoint:jointFriction", 0.0),
            ("physxJointAxis:angular:armature", model.dof_armature[dof]),
            ("physxJointAxis:angular:staticFrictionEffort", model.dof_frictionloss[dof]),
            ("physxJointAxis:angular:dynamicFrictionEffort", model.dof_frictionloss[dof]),
            ("physxJointAxis:angular:viscousFrictionCoefficient", math.radians(np.ravel(model.dof_damping[dof])[0])),
            ("newton:armature", model.dof_armature[dof]),
            ("newton:friction", model.dof_frictionloss[dof]),
            ("mjc:damping", np.ravel(model.dof_damping[dof])[0]),
        ):
            assert prim.GetAttribute(attribute).Get() == pytest.approx(value), (name, attribute)
        assert {"PhysxJointAPI", "PhysxJointAxisAPI:angular"} <= set(prim.GetPrimTypeInfo().GetAppliedAPISchemas())


def test_colliders_are_the_geoms_that_collide(stage, model):
    cache = UsdGeom.XformCache()
    base = cache.GetLocalToWorldTransform(stage.GetDefaultPrim())
    data = posed(model)
    shapes = {p.GetPath().pathString: p for p in stage.Traverse() if p.HasAPI(UsdPhysics.CollisionAPI)}
    colliding = [g for g in range(model.ngeom) if model.geom_contype[g] or model.geom_conaffinity[g]]
    assert len(shapes) == len(colliding)
    for geom in colliding:
        body = int(model.geom_bodyid[geom])
        number = geom - int(model.body_geomadr[body])
        prim = link(stage, model.body(body).name).GetChild(f"collision_{number}")
        place = np.array(cache.GetLocalToWorldTransform(prim) * base.GetInverse()).T
        np.testing.assert_allclose(place[:3, 3], data.geom_xpos[geom], atol=1e-6)
        material = UsdShade.MaterialBindingAPI(prim).ComputeBoundMaterial("physics")[0]
        friction = UsdPhysics.MaterialAPI(material.GetPrim()).GetDynamicFrictionAttr().Get()
        assert friction == pytest.approx(model.geom_friction[geom, 0])
        size = model.geom_size[geom]
        match prim.GetTypeName():
            case "Sphere":
                assert UsdGeom.Sphere(prim).GetRadiusAttr().Get() == pytest.approx(size[0])
            case "Cube":
                edges = np.linalg.norm(place[:3, :3], axis=0) * UsdGeom.Cube(prim).GetSizeAttr().Get()
                np.testing.assert_allclose(edges, 2 * size, atol=1e-6)
            case "Capsule" | "Cylinder":
                shape = getattr(UsdGeom, prim.GetTypeName())(prim)
                assert shape.GetRadiusAttr().Get() == pytest.approx(size[0])
                assert shape.GetHeightAttr().Get() == pytest.approx(2 * size[1])
                np.testing.assert_allclose(place[:3, 2], data.geom_xmat[geom].reshape(3, 3)[:, 2], atol=1e-6)
            case other:
                pytest.fail(f"{prim.GetPath()} is a {other}")


def test_openusd_s_own_parser_finds_one_articulation_with_the_base_as_its_root(stage, model, robot):
    assert UsdGeom.GetStageUpAxis(stage) == "Z" and UsdGeom.GetStageMetersPerUnit(stage) == 1.0
    found = UsdPhysics.LoadUsdPhysicsFromRange(stage, ["/"])

    def parsed(*kinds):
        return {path.name: each for kind in kinds for path, each in zip(*found.get(kind, ((), ())), strict=True)}

    kinds = UsdPhysics.ObjectType
    (articulation,) = parsed(kinds.Articulation).values()
    assert [path.name for path in articulation.rootPrims] == [robot.base_name]
    bodies = {model.body(body).name for body in range(1, model.nbody)}
    assert {path.name for path in articulation.articulatedBodies} == set(parsed(kinds.RigidBody)) == bodies
    assert set(robot.body_names) <= bodies

    hinges, fixed = parsed(kinds.RevoluteJoint), parsed(kinds.FixedJoint)
    assert {path.name for path in articulation.articulatedJoints} == hinges.keys() | fixed.keys()
    assert hinges.keys() == set(robot.joint_names)
    links = {each.body1.name: each.body0.name for each in (*hinges.values(), *fixed.values())}
    assert links == {model.body(b).name: model.body(int(model.body_parentid[b])).name for b in range(2, model.nbody)}
    for name, joint in hinges.items():
        assert joint.jointEnabled and joint.axis == UsdPhysics.Axis.X and joint.drive.enabled
        assert joint.body1.name == model.body(int(model.joint(name).bodyid[0])).name
        assert joint.limit.enabled == bool(model.joint(name).limited[0])
        if joint.limit.enabled:
            limits = np.radians([joint.limit.lower, joint.limit.upper])
            np.testing.assert_allclose(limits, model.joint(name).range, atol=1e-6)

    shapes = [kinds.SphereShape, kinds.CapsuleShape, kinds.CylinderShape, kinds.CubeShape]
    carried = sorted(shape.rigidBody.name for kind in shapes for shape in found.get(kind, ((), ()))[1])
    colliding = [g for g in range(model.ngeom) if model.geom_contype[g] or model.geom_conaffinity[g]]
    assert carried == sorted(model.body(int(model.geom_bodyid[g])).name for g in colliding)


def test_bodies_collide_with_each_other_only_where_the_mjcf_lets_them(tmp_path):
    def self_collisions(robot):
        stage = Usd.Stage.Open(str(write_usd(robot, tmp_path / f"{robot.name}.usd")))
        return link(stage, robot.base_name).GetAttribute("physxArticulation:enabledSelfCollisions").Get()

    assert self_collisions(ANYMAL_C) is False  # its colliders meet the ground alone
    assert self_collisions(skewed_robot(tmp_path)) is True
    ground_only = SKEWED.replace("<geom ", '<geom contype="0" conaffinity="1" ')
    assert self_collisions(skewed_robot(tmp_path, ground_only).replace(name="skewed-2")) is False


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("<freejoint/>", "", "free joint"),
        ('<joint name="knee"', '<joint name="knee" type="slide"', "shank.*slide.*needs one hinge"),
        ('<joint name="knee"', '<joint name="knee" ref="5"', "shank.*ref"),
        ('<joint name="knee"', '<joint name="ankle_roll"', "no joint named knee"),
        ('type="sphere" size="0.04"', 'type="ellipsoid" size="0.04 0.03 0.02"', "foot.*ellipsoid"),
        ('<body name="foot"', '<body name="toe"', "no body named foot"),
        ('diaginertia="0.011 0.010 0.002"', 'diaginertia="1e-5 1e-5 1e-5"', "ankle.*no mass.*shank"),
    ],
)
def test_what_a_usd_cannot_say_is_refused_by_name(tmp_path, old, new, message):
    assert old in SKEWED
    broken = skewed_robot(tmp_path, SKEWED.replace(old, new))
    with pytest.raises(ValueError, match=message):
        write_usd(broken, tmp_path / "robot.usd")
    assert not (tmp_path / "robot.usd").exists()


def test_the_name_of_the_file_and_a_missing_library_are_named(tmp_path, monkeypatch):
    with pytest.raises(UsdError, match=r"robot\.xml.*\.usda"):
        write_usd(ANYMAL_C, tmp_path / "robot.xml")
    monkeypatch.setitem(sys.modules, "pxr", None)
    with pytest.raises(UsdError, match="pip install usd-core"):
        write_usd(ANYMAL_C, tmp_path / "robot.usd")
