"""The task tree: timing, checks at construction, signals that no robot measures."""

import pytest
from gaitway_tasks.ground import Slope
from gaitway_tasks.mdp import observations
from gaitway_tasks.robots import ANYMAL_C, ROBOTS
from gaitway_tasks.spec import Event, ObservationTerm, Timing
from gaitway_tasks.terrain import SubTerrain, TerrainGenerator
from gaitway_tasks.velocity import blind, velocity_flat
from tensor_world import TensorWorld

TASK = velocity_flat(ANYMAL_C)


def test_timing():
    assert Timing().step_dt == 0.02 and Timing().max_episode_length == 1000
    # 20 / 0.06 is 333.33...; 0.7 / 0.1 is 6.999... in floating point.
    assert Timing(physics_dt=0.02, decimation=3).max_episode_length == 333
    assert Timing(physics_dt=0.1, decimation=1, episode_length_s=0.7).max_episode_length == 7


def test_events_are_checked():
    with pytest.raises(ValueError, match="event mode 'restart': use 'startup', 'reset' or 'interval'"):
        Event(func=print, mode="restart")
    for wrong in ({"mode": "interval"}, {"mode": "reset", "interval_range_s": (1.0, 2.0)}):
        with pytest.raises(ValueError, match="interval_range_s belongs to interval events"):
            Event(func=print, **wrong)


def test_terrain_is_checked():
    with pytest.raises(ValueError, match=r"slope of 1\.6 rad"):
        Slope(angle=1.6)
    with pytest.raises(ValueError, match="no parameter 'step_width': it takes slope_range"):
        SubTerrain(kind="pyramid_slope", proportion=1.0, params={"step_width": 0.3})
    with pytest.raises(ValueError, match=r"proportion -0\.1"):
        SubTerrain(kind="flat", proportion=-0.1)
    with pytest.raises(ValueError, match="proportion above 0"):
        TerrainGenerator(sub_terrains={"flat": SubTerrain(kind="flat", proportion=0.0)})


def test_the_actor_with_base_velocity_is_not_deployable_and_the_blind_one_is():
    assert TASK.unmeasurable_signals() == {"base_lin_vel": ["root_lin_vel_b"]}
    assert TASK.replace(estimators=("root_lin_vel_b",)).unmeasurable_signals() == {}
    assert blind(TASK).unmeasurable_signals() == {}


def test_unmeasurable_signals_are_named_by_term():
    group = TASK.observations["policy"]

    def mystery(world):
        return world.robot.root_pos_w

    terms = {
        "height": ObservationTerm(func=observations.base_pos_z),
        "mystery": ObservationTerm(func=mystery),
        "joint_pos": ObservationTerm(func=observations.joint_pos_rel),
    }
    import dataclasses

    task = TASK.replace(observations={"policy": dataclasses.replace(group, terms=terms)})
    assert task.unmeasurable_signals() == {"height": ["root_pos_w"], "mystery": ["undeclared:mystery"]}


def test_blind_keeps_everything_but_the_velocity_and_the_critic_is_clean():
    task = blind(TASK, history_length=3)
    policy, critic = task.observations["policy"], task.observations["critic"]
    assert task.name == "velocity-flat-anymal-c-blind"
    assert [*critic.terms] == ["base_lin_vel", *policy.terms] == [*TASK.observations["policy"].terms]
    assert (policy.history_length, critic.history_length) == (3, 1)
    assert policy.enable_corruption and not critic.enable_corruption
    assert task.rewards == TASK.rewards and task.events == TASK.events


def test_every_reward_and_termination_of_the_task_runs_on_every_environment():
    world = TensorWorld(ANYMAL_C, 6).randomize(0)
    for name, term in {**TASK.rewards, **TASK.terminations}.items():
        value = term.func(world, **term.params)
        assert value.shape == (6,), name
        assert value.isfinite().all(), name
        assert (value.dtype.is_floating_point) == (name in TASK.rewards), name


def test_robots_are_listed_under_their_names():
    assert ROBOTS["anymal-c"] is ANYMAL_C
    assert all(robot.name == name for name, robot in ROBOTS.items())


def test_patterns_match_whole_names_and_misses_are_named():
    assert ANYMAL_C.joint_ids("LF_.*") == (0, 1, 2)
    assert ANYMAL_C.body_ids("base") == (0,)
    assert ANYMAL_C.body_ids(".*_FOOT") == (4, 8, 12, 16)
    with pytest.raises(ValueError, match=r"robot 'anymal-c' has no joint matching 'HAA'; it has LF_HAA, LF_HFE"):
        ANYMAL_C.joint_ids("HAA")
