"""Objects beside a robot: what a declaration refuses, their contacts, and robots without any."""

import mujoco
import pytest
from gaitway_files.errors import UserError
from gaitway_tasks.ground import LEVEL
from gaitway_tasks.objects import RigidObject, add_objects, addresses
from gaitway_tasks.robots import ANYMAL_C, FRANKA
from gaitway_tasks.robots.mjcf import ModelError, add_ground, load_spec, strip_visuals

CUBE = RigidObject(size=(0.048, 0.048, 0.048), mass=0.1, pos=(0.5, 0.0, 0.055))


@pytest.mark.parametrize(
    "changes", [{"size": (0.0, 0.1, 0.1)}, {"mass": -1.0}, {"friction": 0.0}, {"pos": (0.0, float("nan"), 0.0)}]
)
def test_a_declaration_that_makes_no_sense(changes):
    with pytest.raises(UserError, match="must be above 0"):
        RigidObject(**{"size": (0.1, 0.1, 0.1), "mass": 1.0, "pos": (0.0, 0.0, 0.0), **changes})


def spec_of(robot, objects):
    spec = load_spec(robot.mjcf)
    strip_visuals(spec)
    add_ground(spec, LEVEL)
    add_objects(spec, objects)
    return spec


def test_names_and_robots_that_no_object_fits():
    with pytest.raises(ModelError, match="'panda_hand': the robot has a body of this name"):
        spec_of(FRANKA, {"panda_hand": CUBE})
    with pytest.raises(ModelError, match="set bit 2 of the conaffinity"):
        spec_of(ANYMAL_C, {"object": CUBE})


def test_what_an_object_touches():
    """Ground, links, palm and fingers touch it; the hand's capsules, which reach over the fingers, do not."""
    model = spec_of(FRANKA, {"object": CUBE}).compile()
    cube, (qpos, dof) = model.geom("object").id, addresses(model, ["object"])["object"]
    assert (qpos, dof) == (9, 9) and model.nq == 16 and model.body("object").mass == pytest.approx(0.1)

    def touches(a: int, b: int) -> bool:
        kinds, masks = model.geom_contype, model.geom_conaffinity
        return bool(kinds[a] & masks[b] or kinds[b] & masks[a])

    names = [model.geom(geom).name for geom in range(model.ngeom) if geom != cube and touches(cube, geom)]
    assert {"ground", "panda_link5", "panda_palm", "panda_leftpad", "panda_rightpad"} <= set(names)
    assert not {"panda_hand", "panda_hand_low"} & set(names)
    ground = model.geom("ground").id
    assert touches(ground, model.geom("panda_hand_low").id) and not touches(ground, model.geom("panda_leftpad").id)


def test_fingers_squeeze_a_cube_and_hold_it():
    model = spec_of(FRANKA, {"object": CUBE}).compile()
    model.opt.timestep, model.opt.cone, model.opt.impratio = 0.005, mujoco.mjtCone.mjCONE_ELLIPTIC, 10.0
    data = mujoco.MjData(model)
    arm = [0.0, -0.255, 0.0, -2.438, 0.0, 2.183, 0.785, 0.039, 0.039]
    data.qpos[:9] = arm
    mujoco.mj_forward(model, data)
    hand = data.body("panda_hand")
    tip = hand.xpos + hand.xmat.reshape(3, 3) @ [0.0, 0.0, 0.1034]
    data.qpos[9:12] = tip
    for _ in range(200):
        data.qfrc_applied[:9] = data.qfrc_bias[:9] - 400.0 * (data.qpos[:9] - arm) - 40.0 * data.qvel[:9]
        data.qfrc_applied[7:9] = -40.0
        mujoco.mj_step(model, data)
    assert data.qpos[7] == pytest.approx(0.022, abs=0.002) and abs(data.qpos[11] - tip[2]) < 0.005


def test_a_world_without_objects_has_no_shapes_for_them():
    names = {geom.name for geom in spec_of(FRANKA, {}).geoms}
    assert "panda_hand_low" in names and not {"panda_palm", "panda_leftpad", "panda_leftfinger"} & names
