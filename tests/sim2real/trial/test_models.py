"""``--model``: the same robot written another way gives the same numbers; what is no such robot is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
from gaitway_onboard.bundle.contract import BundleError, Contract
from gaitway_sim2real.bundle.batched_policy import BatchedPolicy
from gaitway_sim2real.mujoco.plant import build_plant
from gaitway_sim2real.trial import validate_bundle
from gaitway_sim2real.trial.judging import help_note
from gaitway_sim2real.trial.scenario import Scenario
from gaitway_sim2real.trial.simulate import Trajectory, simulate
from gaitway_tasks.robots.mjcf import ModelError
from gaitway_velocity.suite import SUITE
from stand_bundle import make_stand_bundle

PUSHED = Scenario(name="p", title="", about="", limits=(), envs=4, seconds=4.0, push=0.3, friction=(0.5, 0.9))


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_stand_bundle(tmp_path_factory.mktemp("stand"))


@pytest.fixture(scope="module")
def own(bundle: Path) -> Trajectory:
    return run(bundle, bundle / "robot.xml")


def run(bundle: Path, model: Path, scenario: Scenario = PUSHED) -> Trajectory:
    contract = Contract.load(bundle)
    plant = build_plant(contract, model, bundle / "robot.xml")
    conditions = SUITE.draw(scenario, contract, 0)
    return simulate(plant, contract, BatchedPolicy(bundle / "policy.onnx", contract, scenario.envs), conditions)


def assert_same_motion(first: Trajectory, second: Trajectory, atol: float = 1e-3) -> None:
    for name in ("joint_pos", "joint_vel", "lin_vel", "ang_vel", "torque"):
        a, b = getattr(first, name), getattr(second, name)
        scale = max(1.0, float(np.abs(a).max()))
        np.testing.assert_allclose(a, b, atol=atol * scale, err_msg=name)
    np.testing.assert_array_equal(first.fall_step, second.fall_step)


def write(folder: Path, spec: mujoco.MjSpec) -> Path:
    spec.compile()
    path = folder / "other.xml"
    path.write_text(spec.to_xml())
    return path


def robot(bundle: Path) -> mujoco.MjSpec:
    return mujoco.MjSpec.from_file(str(bundle / "robot.xml"))


def test_other_names_actuators_sensors_floor_and_bystanders(bundle: Path, own: Trajectory, tmp_path: Path) -> None:
    spec = robot(bundle)
    for body in spec.bodies:
        if body.name.endswith(("HIP", "THIGH", "SHANK")) or body.name == "base":
            body.name = f"link_{body.name.lower()}"
    for geom in spec.geoms:
        geom.name = ""
    spec.joint("root").name = "floating"
    for joint in spec.joints:
        if joint.name.endswith("KFE"):
            joint.actfrclimited, joint.actfrcrange = 1, [-5.0, 5.0]
            actuator = spec.add_actuator(
                name=f"servo_{joint.name}", target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT
            )
            actuator.set_to_position(kp=3.0)
    spec.add_sensor(
        name="foreign", type=mujoco.mjtSensor.mjSENS_FRAMEPOS, objtype=mujoco.mjtObj.mjOBJ_BODY, objname="link_base"
    )
    spec.worldbody.add_geom(
        name="ground", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], pos=[0, 0, 0.4], friction=[3, 0, 0]
    )
    ball = spec.worldbody.add_body(name="ball", pos=[0.0, 0.0, 2.0])
    ball.add_freejoint()
    ball.add_geom(size=[0.2, 0, 0])
    spec.option.timestep, spec.option.gravity, spec.option.integrator = (
        0.001,
        [0, 0, -1],
        mujoco.mjtIntegrator.mjINT_EULER,
    )
    assert_same_motion(own, run(bundle, write(tmp_path, spec)))


def test_joints_in_reverse_order(bundle: Path, own: Trajectory, tmp_path: Path) -> None:
    text = (bundle / "robot.xml").read_text()
    start, end = text.index('<body name="LF_HIP"'), text.index("    </body>\n  </worldbody>")
    legs = re.split(r'(?=<body name="[LR][FH]_HIP")', text[start:end])[1:]
    path = tmp_path / "reversed.xml"
    path.write_text(text[:start] + "".join(reversed(legs)) + text[end:])
    order = [joint.name for joint in mujoco.MjSpec.from_file(str(path)).joints]
    assert order[1:4] == ["RH_HAA", "RH_HFE", "RH_KFE"]
    assert_same_motion(own, run(bundle, path))


@pytest.mark.parametrize("turn", [[0.0, 0.0, 0.0, 1.0], [0.5, 0.5, 0.5, 0.5]])
def test_turned_base_frame_is_found_and_undone(
    bundle: Path, own: Trajectory, tmp_path: Path, turn: list[float]
) -> None:
    """The base body's axes point elsewhere while the robot stays as it is: sensors and velocities are converted."""
    spec = robot(bundle)
    base = spec.body("base")
    quat = np.array(turn)
    back = quat * [1, -1, -1, -1]

    def turned(vector: np.ndarray) -> np.ndarray:
        out = np.zeros(3)
        mujoco.mju_rotVecQuat(out, np.asarray(vector, float), back)
        return out

    def composed(old: np.ndarray) -> np.ndarray:
        out = np.zeros(4)
        mujoco.mju_mulQuat(out, back, np.asarray(old, float))
        return out

    model = spec.compile()
    base.iquat, base.ipos, base.inertia = (
        composed(model.body("base").iquat),
        turned(base.ipos),
        model.body("base").inertia,
    )
    base.fullinertia = [np.nan] * 6
    for geom in base.geoms:
        geom.pos, geom.quat = turned(model.geom_pos[geom.id]), composed(model.geom_quat[geom.id])
        geom.size, geom.fromto = model.geom_size[geom.id], [np.nan] * 6
    for body in base.bodies:
        body.pos, body.quat = turned(body.pos), composed(body.quat)
    path = write(tmp_path, spec)
    plant = build_plant(Contract.load(bundle), path, bundle / "robot.xml")
    assert not plant.frame.is_identity
    assert_same_motion(own, run(bundle, path))


def test_start_orientation_of_the_file_does_not_matter(bundle: Path, own: Trajectory, tmp_path: Path) -> None:
    text = (
        (bundle / "robot.xml")
        .read_text()
        .replace('name="base" pos="0 0 0.6"', 'name="base" pos="3 1 7" quat="0 0 0 1"')
    )
    path = tmp_path / "turned.xml"
    path.write_text(text)
    assert_same_motion(own, run(bundle, path))


def test_feet_without_bodies_of_their_own(bundle: Path, tmp_path: Path) -> None:
    """Foot spheres as part of the shank, joint friction, an elliptic cone: the last link is the foot."""
    spec = robot(bundle)
    spec.option.cone, spec.option.impratio = mujoco.mjtCone.mjCONE_ELLIPTIC, 10
    for leg in ("LF", "LH", "RF", "RH"):
        foot, shank = spec.body(f"{leg}_FOOT"), spec.body(f"{leg}_SHANK")
        pos = foot.pos.copy()
        spec.delete(foot)
        shank.add_geom(
            pos=pos,
            size=[0.03, 0, 0],
            mass=0,
            condim=6,
            priority=1,
            contype=4,
            conaffinity=4,
            friction=[0.8, 0.02, 0.01],
        )
        for joint in ("HAA", "HFE", "KFE"):
            spec.joint(f"{leg}_{joint}").frictionloss = 0.1
    path = write(tmp_path, spec)
    contract = Contract.load(bundle)
    plant = build_plant(contract, path, bundle / "robot.xml")
    assert plant.foot_names == ("LF_SHANK", "LH_SHANK", "RF_SHANK", "RH_SHANK")
    rec = run(bundle, path)
    assert (rec.fall_step < 0).all() and rec.foot_contact[-1].all()
    ice = Scenario(name="i", title="", about="", limits=(), envs=2, seconds=2.0, push=0.0, friction=(0.02, 0.02))
    rubber = Scenario(name="i", title="", about="", limits=(), envs=2, seconds=2.0, push=0.0, friction=(1.0, 1.0))
    slid = [np.abs(run(bundle, path, s).foot_slip).max() for s in (ice, rubber)]
    assert slid[0] > 3 * slid[1]  # the knob acts although the file gives its feet priority


def test_an_arm_nobody_commands_is_held(bundle: Path, tmp_path: Path) -> None:
    spec = robot(bundle)
    arm = spec.body("base").add_body(name="arm", pos=[0.3, 0, 0.15])
    arm.add_joint(name="shoulder", axis=[0, 1, 0])
    arm.add_geom(fromto=[0, 0, 0, 0.2, 0, 0], size=[0.02, 0, 0], type=mujoco.mjtGeom.mjGEOM_CAPSULE, mass=0.5)
    spec.add_actuator(name="shoulder", target="shoulder", trntype=mujoco.mjtTrn.mjTRN_JOINT)
    plant = build_plant(Contract.load(bundle), write(tmp_path, spec), bundle / "robot.xml")
    assert plant.model.nq == 19 and plant.model.nu == 12
    assert plant.mass == pytest.approx(44.96468 + 0.5)


BAD_MODELS = {
    "missing joint": (lambda t: t.replace('"LF_KFE"', '"LF_KNEE"'), "no joint named LF_KFE"),
    "joint twice": (lambda t: t.replace('"LF_KFE"', '"LF_HFE"'), "LF_HFE|LF_KFE"),
    "malformed": (lambda t: t[: len(t) // 2], "not a valid MJCF"),
    "not XML": (lambda t: "robot", "not a valid MJCF"),
    "fixed base": (lambda t: t.replace('<freejoint name="root"/>', ""), "free joint"),
    "reversed axis": (
        lambda t: t.replace('name="RF_HFE" axis="0 1 0"', 'name="RF_HFE" axis="0 -1 0"'),
        "RF_HFE by 180 deg",
    ),
    "no contacts": (lambda t: t.replace('conaffinity="1"', 'conaffinity="0"'), "no feet"),
}


@pytest.mark.parametrize("case", BAD_MODELS)
def test_bad_models_are_refused_before_anything_is_written(bundle: Path, tmp_path: Path, case: str) -> None:
    change, message = BAD_MODELS[case]
    path = tmp_path / "bad.xml"
    path.write_text(change((bundle / "robot.xml").read_text()))
    with pytest.raises(ModelError, match=message) as caught:
        validate_bundle(bundle, model=path, report_dir=tmp_path / "report")
    assert "\n" not in str(caught.value) and "bad.xml" in str(caught.value)
    assert not (tmp_path / "report").exists()


def test_missing_model_and_edited_bundle(bundle: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no MJCF file"):
        validate_bundle(bundle, model=tmp_path / "none.xml", report_dir=tmp_path / "report")
    edited = make_stand_bundle(tmp_path / "edited")
    (edited / "policy.onnx").write_bytes((edited / "policy.onnx").read_bytes() + b" ")
    with pytest.raises(BundleError, match=r"policy\.onnx is truncated or edited"):
        validate_bundle(edited, report_dir=tmp_path / "report")
    assert not (tmp_path / "report").exists()


def lighter(spec: mujoco.MjSpec) -> None:
    for body in spec.bodies[1:]:
        body.gravcomp = 0.5


def windy(spec: mujoco.MjSpec) -> None:
    spec.option.wind, spec.option.density, spec.option.viscosity = [3.0, 0.0, 5.0], 1000.0, 5.0


def held(spec: mujoco.MjSpec) -> None:
    (root,) = [joint for joint in spec.joints if joint.type == mujoco.mjtJoint.mjJNT_FREE]
    for name in ("damping", "stiffness", "armature"):  # numbers, or the coefficients of polynomials
        size = np.size(getattr(root, name))
        setattr(root, name, 50.0 if size == 1 else np.r_[50.0, np.zeros(size - 1)])


def welded(spec: mujoco.MjSpec) -> None:
    base = spec.worldbody.first_body().name
    spec.add_equality(type=mujoco.mjtEq.mjEQ_WELD, objtype=mujoco.mjtObj.mjOBJ_BODY, name1=base, solref=[0.1, 1.0])


def pinned(spec: mujoco.MjSpec) -> None:
    spec.worldbody.add_site(name="sky", pos=[0.0, 0.0, 2.0])
    spec.worldbody.first_body().add_site(name="hook")
    spec.add_equality(
        type=mujoco.mjtEq.mjEQ_CONNECT, objtype=mujoco.mjtObj.mjOBJ_SITE, name1="hook", name2="sky", solref=[0.5, 1.0]
    )


def hanging(spec: mujoco.MjSpec) -> None:
    spec.worldbody.add_site(name="sky", pos=[0.0, 0.0, 2.0])
    spec.worldbody.first_body().add_site(name="hook")
    string = spec.add_tendon(stiffness=500.0)
    string.wrap_site("sky")
    string.wrap_site("hook")


def overridden(spec: mujoco.MjSpec) -> None:
    spec.option.enableflags |= mujoco.mjtEnableBit.mjENBL_OVERRIDE
    spec.option.o_solref, spec.option.noslip_iterations = [0.5, 1.0], 100


@pytest.mark.hostile("untrusted files")
@pytest.mark.parametrize(("help_", "said"), [
    (lighter, "gravity compensation of "),
    (windy, "wind, or a fluid around it"),
    (held, "a spring, damping, friction or inertia of its free base"),
    (welded, "1 constraints or tendons between it and the world"),
    (pinned, "1 constraints or tendons between it and the world"),
    (hanging, "1 constraints or tendons between it and the world"),
    (overridden, ""),
])  # fmt: skip
def test_a_model_gives_its_robot_no_help(bundle: Path, own: Trajectory, tmp_path: Path, help_: Any, said: str) -> None:
    spec = robot(bundle)
    help_(spec)
    path = write(tmp_path, spec)
    assert_same_motion(own, run(bundle, path))
    (note,) = help_note(path, Contract.load(bundle)) or ("",)
    assert (said in note and note.startswith("Left out of other.xml, since no robot has it: ")) if said else note == ""
    assert help_note(bundle / "robot.xml", Contract.load(bundle)) == ()
