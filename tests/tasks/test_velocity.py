"""The velocity tasks by name: their terms run on their robot, and presets change what they say and no more."""

from dataclasses import replace

import pytest
import torch
from gaitway_sim2real.mujoco.robots import MAX_TILT, MIN_HEIGHT
from gaitway_tasks.ground import Slope
from gaitway_tasks.registry import UnknownNameError, entries, get_task, presets, task_names
from gaitway_tasks.robots import GO2, ROBOTS
from gaitway_tasks.velocity import velocity_flat
from gaitway_tasks.velocity.presets import cpu
from tensor_world import TensorWorld

STOCK = [name for name, robot in ROBOTS.items() if robot.usd is not None]
"""Robots of Isaac Lab's, whose velocity tasks ours are."""
SOLD = ["g1-29dof", "g1-23dof"]
"""Robots that Isaac Lab has no task of."""
QUADRUPEDS = [name for name, robot in ROBOTS.items() if len(robot.foot_names) == 4]


WALKING = [name for name in task_names() if name.startswith("velocity-")]
TRAINED = [*QUADRUPEDS, "h1", *SOLD]
"""Robots that walk after a training on few cores."""


def test_every_robot_of_isaac_lab_has_its_tasks_and_those_that_walk_have_more():
    grounds, names = ("flat", "rough"), set(WALKING)
    assert names == {f"velocity-{ground}-{robot}" for ground in grounds for robot in STOCK} | {
        f"velocity-rough-{robot}-blind" for robot in QUADRUPEDS
    } | {f"velocity-flat-{robot}{blind}" for robot in TRAINED for blind in ("", "-blind")}
    assert all(entry.summary for entry in entries().values())
    for name in names:
        assert get_task(name).name == name
        robot = get_task(name).robot.name
        expected = ["cpu"] if robot in (QUADRUPEDS if "rough" in name else TRAINED) else []
        expected += ["sprint"] if robot in QUADRUPEDS and "flat" in name else []
        assert presets(name) == [*expected, *(["isaaclab3"] if robot in STOCK else [])]


@pytest.mark.parametrize(
    ("name", "preset"),
    [(name, preset) for name in WALKING for preset in (None, "isaaclab3") if preset in (None, *presets(name))],
)
def test_every_term_runs_on_its_robot(name, preset):
    task = get_task(name, preset)
    world = TensorWorld(task.robot, 64).randomize(0)
    world.scans["height_scanner"] = torch.arange(64.0)[:, None].expand(64, 187)
    for term in (*task.rewards.values(), *task.terminations.values()):
        value = term.func(world, **term.params)
        assert value.shape == (64,)
        assert value.unique().numel() > 1 or getattr(term, "weight", 1.0) == 0.0, term
    for key, group in task.observations.items():
        width = sum(term.func(world, **term.params).shape[1] for term in group.terms.values())
        sees = "blind" not in name or key == "critic"
        assert width == 9 + 3 * task.robot.num_joints + 3 * sees + 187 * (sees and "rough" in name)
    for event in task.events.values():
        event.func(world, torch.arange(64), **event.params)


def test_a_robot_of_another_name_gets_anymal_s_values():
    mine = ROBOTS["anymal-c"].replace(name="mine")
    task = velocity_flat(mine)
    assert task.name == "velocity-flat-mine" and task.rewards == get_task("velocity-flat-anymal-c").rewards


@pytest.mark.parametrize("robot", SOLD)
def test_the_g1s_that_are_sold_share_the_weights_of_isaac_lab_s(robot):
    task, stock = get_task(f"velocity-flat-{robot}"), get_task("velocity-flat-g1")
    weights = {name: reward.weight for name, reward in task.rewards.items()}
    assert weights.pop("joint_deviation_waist") == -1.0 and task.actions.scale == 0.25
    assert weights.items() <= {name: reward.weight for name, reward in stock.rewards.items()}.items()
    kept = task.robot.joint_ids(task.rewards["joint_deviation_arms"].params["joints"])
    assert [task.robot.joint_names[joint] for joint in kept] == [
        name for name in task.robot.joint_names if any(part in name for part in ("shoulder", "elbow", "wrist"))
    ]
    assert task.commands == stock.commands and task.terminations == stock.terminations


def test_small_robots_get_low_ground_and_humanoids_a_scanner_on_the_torso():
    def boxes(robot):
        task = get_task(f"velocity-rough-{robot}")
        return task.ground.generator.sub_terrains["boxes"].params["grid_height_range"]

    assert boxes("go2") == (0.025, 0.1) and boxes("anymal-d") == boxes("h1") == (0.05, 0.2)
    bodies = {robot: get_task(f"velocity-rough-{robot}").height_scanners["height_scanner"].body for robot in STOCK}
    assert {robot for robot, body in bodies.items() if body == "torso_link"} == {"h1", "g1"}
    assert all(bodies[robot] is None for robot in QUADRUPEDS)


@pytest.mark.parametrize("robot", QUADRUPEDS)
def test_cpu_stiffens_sluggish_drives_and_slows_geared_ones(robot):
    task, quick = get_task(f"velocity-flat-{robot}"), get_task(f"velocity-flat-{robot}", "cpu")
    (law,), (changed, *geared) = task.robot.actuators.values(), quick.robot.actuators.values()
    if robot.startswith("anymal"):
        assert (changed.stiffness, changed.damping) == (80.0, 4.0)
    else:
        assert replace(changed, joints=law.joints) == law
    calves = {name for group in geared for name in group.joints}
    assert calves == ({f"{leg}_calf_joint" for leg in ("FL", "FR", "RL", "RR")} if robot == "go2" else set())
    assert all((group.velocity_limit, group.saturation_effort) == (15.7, 45.43) for group in geared)
    assert len(quick.robot.joint_actuators) == quick.robot.num_joints
    assert quick.actions == replace(task.actions, scale=0.5)  # of 0.25 or 0.5
    assert set(task.rewards) - set(quick.rewards) == {"feet_air_time"}  # the clock takes its place


@pytest.mark.parametrize("robot", QUADRUPEDS)
def test_cpu_trots_by_a_clock_that_fits_the_robot(robot):
    task = get_task(f"velocity-flat-{robot}-blind", "cpu")
    schedule = task.rewards["feet_gait"].params
    cycle = schedule["period"] / (task.robot.init_height / 9.81) ** 0.5
    assert 2.0 < cycle < 2.2 and all("gait_phase" in group.terms for group in task.observations.values())
    assert 1.0 / schedule["period"] < 2.4  # steps of a foot per second
    assert schedule["period"] / (2 * task.timing.step_dt) == pytest.approx(round(schedule["period"] / 0.04))
    legs = dict(zip(task.robot.foot_names, schedule["offsets"], strict=True))
    left_front, left_hind, right_front, right_hind = legs.values()
    if not robot.startswith("anymal"):  # FL, FR, RL, RR
        left_hind, right_front = right_front, left_hind
    assert left_front == right_hind and right_front == left_hind and abs(left_front - right_front) == 0.5


@pytest.mark.parametrize("robot", QUADRUPEDS)
def test_cpu_on_rough_ground_begins_on_level_ground_and_looks_ahead_of_the_feet(robot):
    task, height = get_task(f"velocity-rough-{robot}", "cpu"), ROBOTS[robot].init_height
    tiles = task.ground.generator.sub_terrains
    assert task.ground.max_init_level == 0
    assert tiles["pyramid_stairs"].params["step_height_range"] == (0.0, round(0.33 * height, 2))
    assert tiles["hf_pyramid_slope"].params["slope_range"] == (0.0, 0.4)
    assert task.rewards["feet_phase"].params["reach"] == 0.15 and task.rewards["feet_stumble"].weight < 0.0
    assert task.curriculum["terrain_levels"].params["falls"] and task.timing.episode_length_s == 10.0
    assert task.rewards["torque_limits"].weight < 0.0
    assert task.actions.clips(task.robot) == ROBOTS[robot].joint_limits
    blind = get_task(f"velocity-rough-{robot}-blind", "cpu")
    assert blind.ground == task.ground and blind.rewards == task.rewards


@pytest.mark.parametrize("robot", STOCK)
def test_isaac_lab_3_disturbs_every_robot(robot):
    old, new = get_task(f"velocity-flat-{robot}"), get_task(f"velocity-flat-{robot}", "isaaclab3")
    mass = new.events["add_base_mass"]
    assert mass.params["scale_range"] == (0.8, 1.25)
    assert mass.params["body"] == (None if robot in QUADRUPEDS else "torso_link")
    assert new.events["push_robot"].mode == "interval" and ("base_com" in new.events) == (robot in QUADRUPEDS)
    assert set(new.events["reset_base"].params["velocity_range"].values()) == {(-0.5, 0.5)}
    assert new.name == old.name and new.observations == old.observations and new.commands == old.commands


def test_isaac_lab_3_keeps_go2_up_on_lower_stairs_and_h1_even():
    flat, rough = (get_task(f"velocity-{ground}-go2-blind", "isaaclab3") for ground in ("flat", "rough"))
    assert flat.rewards["base_height_l2"].params == {"target_height": 0.4}
    assert rough.rewards["base_height_l2"].params == {"target_height": 0.4, "sensor": "height_scanner"}
    stairs = [s.params["step_height_range"] for n, s in rough.ground.generator.sub_terrains.items() if "stairs" in n]
    assert stairs == 2 * [(0.025, 0.12)]
    limits = {j: law.effort_limit for j, law in zip(GO2.joint_names, flat.robot.joint_actuators, strict=True)}
    assert {j.rsplit("_", 2)[1]: limit for j, limit in limits.items()} == {"hip": 23.7, "thigh": 23.7, "calf": 45.43}
    assert "air_time_variance" in get_task("velocity-flat-h1", "isaaclab3").rewards


def test_cpu_on_ground_of_another_kind_is_refused():
    task = get_task("velocity-rough-go2")
    with pytest.raises(ValueError, match=r"walks on Slope: its preset is for Tiles"):
        cpu(task.replace(ground=Slope(angle=0.1)))


def test_scales_of_single_joints_are_raised_one_by_one():
    task = get_task("velocity-flat-go2")
    scales = {".*hip.*": 0.125, ".*(thigh|calf).*": 0.75}
    quick = cpu(replace(task, actions=replace(task.actions, scale=scales)))
    assert quick.actions.scale == {".*hip.*": 0.5, ".*(thigh|calf).*": 0.75}


def test_humanoids_have_no_trot():
    assert "feet_gait" not in cpu(get_task("velocity-flat-g1")).rewards


@pytest.mark.parametrize("robot", QUADRUPEDS)
def test_cpu_disturbs_every_robot(robot):
    events = get_task(f"velocity-flat-{robot}", "cpu").events
    assert {"push_robot", "base_com", "add_base_mass"} <= set(events)
    assert events["reset_base"].params["velocity_range"]["x"] == (-1.0, 1.0)


@pytest.mark.parametrize("robot", QUADRUPEDS)
def test_cpu_ends_an_episode_at_what_validation_calls_a_fall(robot):
    task = get_task(f"velocity-flat-{robot}-blind", "cpu")
    assert task.terminations["tilted"].params["limit_angle"] == MAX_TILT
    assert task.terminations["low"].params["minimum_height"] == MIN_HEIGHT * task.robot.init_height


def test_of_names_that_are_as_near_the_first_is_suggested():
    with pytest.raises(UnknownNameError, match="did you mean 'velocity-flat-anymal-c'"):
        get_task("velocity-flat-anymal")
    with pytest.raises(UnknownNameError, match="did you mean 'velocity-flat-go2-blind'"):
        get_task("velocity-flat-g02-blind")
    with pytest.raises(UnknownNameError, match=r"unknown task 'zzz': known: velocity-flat-anymal-c, "):
        get_task("zzz")
    with pytest.raises(UnknownNameError, match=f"and {len(task_names()) - 3} more: 'gaitway list tasks' shows them$"):
        get_task("zzz")
    with pytest.raises(UnknownNameError, match="unknown preset of velocity-flat-g1 'cpu': known: isaaclab3"):
        get_task("velocity-flat-g1", "cpu")


def test_a_robot_made_from_another_does_not_inherit_its_hardware():
    assert all(robot.hardware is None or robot.hardware.robot == robot.name for robot in ROBOTS.values())


def test_a_trot_needs_the_height_of_the_foot_frames():
    task = get_task("velocity-flat-go2")
    with pytest.raises(ValueError, match=r"'go2': foot_height is not set.* radius of a ball"):
        cpu(task.replace(robot=task.robot.replace(foot_height=None)))
