"""Tasks from a robot's facts, gaits by the number of feet, and what the preset cpu makes of two legs."""

import pytest
import torch
from gaitway_files.errors import UserError
from gaitway_tasks.registry import get_task
from gaitway_tasks.robots import ROBOTS
from gaitway_tasks.spec import Reward
from gaitway_tasks.velocity.gaits import gait_of
from gaitway_tasks.velocity.legged import flat
from gaitway_tasks.velocity.presets import cpu

SOLD = ["g1-29dof", "g1-23dof"]
TRAINED = [name for name, robot in ROBOTS.items() if name != "g1" and not robot.fixed_base]


@pytest.mark.parametrize("robot", ["h1", *SOLD])
def test_cpu_lets_two_legs_walk_by_a_clock_and_holds_the_rest(robot):
    task = get_task(f"velocity-flat-{robot}-blind", "cpu")
    schedule = task.rewards["feet_gait"].params
    assert schedule["offsets"] == (0.0, 0.5) and schedule["duty"] > 0.5  # both feet stand between two steps
    assert 2.7 < schedule["period"] / (task.robot.init_height / 9.81) ** 0.5 < 2.95
    scales = dict(zip(task.robot.joint_names, task.actions.scales(task.robot), strict=True))
    legs = {name for name in scales if "hip" in name or "knee" in name or "ankle" in name}
    assert {scales[name] for name in legs} == {0.5} and {scales[name] for name in scales.keys() - legs} == {0.15}
    held = {name: term.params["joints"] for name, term in task.rewards.items() if name.startswith("joint_deviation")}
    named = {part: {task.robot.joint_names[j] for j in task.robot.joint_ids(held[f"joint_deviation_{part}"])}
             for part in ("hip", "waist", "arms")}  # fmt: skip
    assert named["hip"] == {name for name in legs if "roll" in name or "yaw" in name} - {
        n for n in legs if "ankle" in n
    }
    assert named["waist"] | named["arms"] == scales.keys() - legs
    assert all("waist" in name or name == "torso" for name in named["waist"])
    command = task.commands["base_velocity"]
    assert command.lin_vel_x == (-0.6, 1.0) and command.lin_vel_y == (-0.4, 0.4) and command.ang_vel_z == (-0.8, 0.8)
    assert "command_growth" in task.curriculum and "terrain_levels" not in task.curriculum
    assert robot in task.name and task.robot.name == robot


def test_commands_of_robots_with_a_front_back_mirror_are_whole_from_the_start():
    grows = {name: "command_growth" in get_task(f"velocity-flat-{name}-blind", "cpu").curriculum for name in TRAINED}
    assert grows == {name: not name.startswith("anymal") for name in TRAINED}


def test_small_robots_swing_their_feet_higher_since_floors_are_as_soft_under_them():
    rises = {}
    for name in ("anymal-c", "go2"):
        task = get_task(f"velocity-flat-{name}-blind", "cpu")
        rises[name] = task.rewards["feet_phase"].params["height"] / task.robot.init_height
    assert rises["anymal-c"] == pytest.approx(0.15)
    assert 0.15 < rises["go2"] < 0.18


@pytest.mark.parametrize("robot", [name for name in TRAINED if not name.startswith("anymal")])
def test_changes_of_actions_cost_most_where_progress_is_paid(robot):
    own, anymal = (get_task(f"velocity-flat-{name}-blind", "cpu").rewards for name in (robot, "anymal-c"))
    assert "lin_vel_xy_progress" in own and "lin_vel_xy_progress" not in anymal
    assert own["action_rate_l2"].weight <= 5.0 * anymal["action_rate_l2"].weight < 0.0


def test_on_rough_ground_the_terrain_alone_grows():
    task = get_task("velocity-rough-go2-blind", "cpu")
    assert set(task.curriculum) == {"terrain_levels"} and "lin_vel_xy_progress" not in task.rewards


def test_a_user_s_own_terms_survive_what_cpu_makes_of_two_legs():
    task = get_task("velocity-flat-g1-29dof-blind")
    mine = Reward(func=my_reward, weight=0.5)
    assert cpu(task.replace(rewards={**task.rewards, "mine": mine})).rewards["mine"] == mine


def my_reward(world):
    return torch.zeros(world.num_envs)


@pytest.mark.parametrize(("feet", "known"), [(3, False), (5, False), (6, True)])
def test_gaits_are_for_two_four_and_six_feet(feet, known):
    robot = ROBOTS["anymal-c"]
    robot = robot.replace(name="other", foot_names=(*robot.foot_names, "base", "LF_HIP")[:feet])
    if known:
        offsets = gait_of(robot).offsets
        left, right = offsets[::2], offsets[1::2]
        assert all(a != b for a, b in zip(left, right, strict=True))  # opposite legs take turns
        assert left == (0.0, 0.5, 0.0)  # and so do neighbours: three feet stand
    else:
        with pytest.raises(UserError, match=f"'other' has {feet} feet"):
            flat(robot)


def test_weights_and_speeds_follow_from_mass_and_height():
    dog, small = ROBOTS["go2"], ROBOTS["go2"].replace(name="small", init_height=0.1)
    ours, theirs = flat(dog), get_task("velocity-flat-go2")
    assert ours.rewards["dof_torques_l2"].weight == pytest.approx(theirs.rewards["dof_torques_l2"].weight, rel=0.5)
    assert ours.commands["base_velocity"].lin_vel_x == pytest.approx((-0.99, 0.99), abs=0.02)
    assert flat(small).commands["base_velocity"].lin_vel_x[1] == pytest.approx(0.5 * (9.81 * 0.1) ** 0.5)
    light, heavy = ours.events["add_base_mass"].params["mass_distribution_params"]
    assert light == pytest.approx(-0.05 * 15.0, rel=0.02) and heavy == pytest.approx(0.1 * 15.0, rel=0.02)
