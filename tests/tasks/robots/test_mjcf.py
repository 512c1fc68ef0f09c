"""Actuators put on a model obey the published laws; unusable models are refused with the reason."""

import mujoco
import numpy as np
import pytest
from gaitway_tasks.actuators import dc_motor_torque, implicit_pd_torque
from gaitway_tasks.ground import Plane
from gaitway_tasks.robots import ANYMAL_C, ImplicitPD
from gaitway_tasks.robots.mjcf import ModelError, add_ground, load_spec, set_actuators, strip_visuals

MOTOR = ANYMAL_C.joint_actuators[0]
PD = ImplicitPD(stiffness=80.0, damping=2.0, effort_limit=60.0)
ARM = """<mujoco><worldbody><body name="base"><freejoint name="root"/><geom size="0.1"/>
  <body name="arm"><joint name="elbow"/><geom size="0.1"/>
    <body name="hand"><joint name="wrist" type="ball"/><geom size="0.1"/></body></body></body></worldbody>
  <actuator><motor name="old" joint="elbow" gear="9"/></actuator></mujoco>"""


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "model.xml"
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize(("law", "torque"), [(MOTOR, dc_motor_torque), (PD, implicit_pd_torque)])
def test_mujoco_computes_the_law_over_a_grid(law, torque):
    # One joint name out of canonical order shows that actuators follow the given order, not the file's.
    names = (*ANYMAL_C.joint_names[1:], ANYMAL_C.joint_names[0])
    spec = load_spec(ANYMAL_C.mjcf)
    set_actuators(spec, names, [law] * len(names))
    model = spec.compile()
    data = mujoco.MjData(model)
    assert [model.actuator(i).name for i in range(model.nu)] == list(names)
    position = [model.joint(name).qposadr[0] for name in names]
    velocity = [model.joint(name).dofadr[0] for name in names]
    rng = np.random.default_rng(0)
    grid = np.array(np.meshgrid(np.linspace(-3, 3, 9), np.linspace(-1, 1, 7), np.linspace(-20, 20, 33)))
    grid = grid.reshape(3, -1)
    order = rng.permutation(grid.shape[1])
    for start in range(0, len(order), 12):
        # Every joint at its own place on the grid; the last few places are visited together with the first.
        target, pos, vel = grid[:, np.take(order, range(start, start + 12), mode="wrap")]
        data.qpos[position], data.qvel[velocity], data.ctrl[:] = pos, vel, target
        mujoco.mj_forward(model, data)
        expected = torque(law, target, pos, vel)
        np.testing.assert_allclose(data.actuator_force, expected, atol=1e-10)
        np.testing.assert_allclose(data.qfrc_actuator[velocity], expected, atol=1e-10)


def test_a_delayed_actuator_sees_the_command_that_many_physics_steps_later():
    for delay in (0, 1, 4):
        spec = load_spec(ANYMAL_C.mjcf)
        set_actuators(spec, ANYMAL_C.joint_names, [MOTOR] * 12, delay_steps=delay)
        model = spec.compile()
        model.actuator_delay[:] = delay * model.opt.timestep
        data = mujoco.MjData(model)
        data.ctrl[:] = 1.0
        first = None
        for step in range(8):
            mujoco.mj_step(model, data)
            if first is None and data.actuator_force[0] > 20.0:
                first = step
        assert first == delay


def test_old_actuators_are_replaced(write):
    spec = load_spec(write(ARM))
    set_actuators(spec, ["elbow"], [PD])
    model = spec.compile()
    assert [model.actuator(i).name for i in range(model.nu)] == ["elbow"]
    assert model.actuator_gear[0, 0] == 1.0


@pytest.mark.parametrize("missing", ["shoulder", "wrist", "root"])
def test_a_missing_joint_is_named_with_what_there_is(write, missing):
    # "wrist" and "root" are joints, but neither a hinge nor a slide.
    with pytest.raises(ModelError, match=f"the model has no joint named {missing}; its joints are elbow"):
        set_actuators(load_spec(write(ARM)), ["elbow", missing], [PD, PD])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<mujoco><worldbody><bod",
        "not xml at all",
        "<mujoco><worldbody><body><geom size='big'/></body></worldbody></mujoco>",
        ARM.replace('name="wrist" type="ball"', 'name="elbow"'),  # a joint twice
    ],
)
def test_a_malformed_file_is_refused_by_name(write, text):
    path = write(text)
    with pytest.raises(ModelError, match=f"{path} is not a valid MJCF"):
        load_spec(path)


def test_a_missing_file_is_refused_by_name(tmp_path):
    with pytest.raises(ModelError, match=f"no MJCF file at {tmp_path / 'none.xml'}"):
        load_spec(tmp_path / "none.xml")
    with pytest.raises(ModelError, match="no MJCF file at"):
        load_spec(tmp_path)


def test_a_model_without_visuals_has_the_same_physics():
    full, bare = load_spec(ANYMAL_C.mjcf), load_spec(ANYMAL_C.mjcf)
    strip_visuals(bare)
    with_visuals, without = full.compile(), bare.compile()
    assert without.ngeom < with_visuals.ngeom
    assert (without.geom_contype | without.geom_conaffinity).all()
    np.testing.assert_array_equal(without.body_mass, with_visuals.body_mass)
    np.testing.assert_array_equal(without.body_inertia, with_visuals.body_inertia)


def test_the_ground_decides_the_friction_and_holds_the_robot():
    spec = load_spec(ANYMAL_C.mjcf)
    add_ground(spec, Plane(friction=0.35))
    # Stiff, because with the task's own gains standing takes a policy: at its default targets the robot sags.
    law = ImplicitPD(stiffness=200.0, damping=5.0, effort_limit=80.0)
    set_actuators(spec, ANYMAL_C.joint_names, [law] * 12)
    model = spec.compile()
    data = mujoco.MjData(model)
    for name, angle in zip(ANYMAL_C.joint_names, ANYMAL_C.default_joint_pos, strict=True):
        data.joint(name).qpos = angle
        data.actuator(name).ctrl = angle
    for _ in range(400):  # two seconds
        mujoco.mj_step(model, data)
    assert data.ncon == 4
    touching = {model.geom(contact.geom[1]).name for contact in data.contact}
    assert touching == set(ANYMAL_C.foot_names)
    assert all(contact.friction[0] == pytest.approx(0.35) for contact in data.contact)
    # It stands: base near its height, weight carried by the feet.
    assert 0.45 < data.qpos[2] < 0.6 and np.abs(data.qvel).max() < 0.05
