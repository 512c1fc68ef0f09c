"""The MuJoCo environment beyond the contract: standing still, divergence, options."""

import mujoco
import numpy as np
import pytest
import torch
from gaitway_mujoco import make_env
from gaitway_mujoco.model import PhysicsOptions
from gaitway_tasks.robots import ANYMAL_C
from quiet import quiet_task

JOINTS = ANYMAL_C.num_joints


def feet(env):
    """Foot positions in the world [m], (N, F, 3)."""
    data = mujoco.MjData(env.world.model)
    places = []
    for qpos in env.world._fields["qpos"].numpy():
        data.qpos[:] = qpos
        mujoco.mj_kinematics(env.world.model, data)
        places.append([data.body(name).xpos.copy() for name in ANYMAL_C.foot_names])
    return np.array(places)


def creep(**options):
    """Largest slide of a robot's feet in three seconds of standing [m], after one second to settle."""
    env = make_env(quiet_task(), 1, num_threads=1, **options)
    env.reset()
    for step in range(200):
        if step == 50:
            start = feet(env)
        _, _, terminated, _, _ = env.step(torch.zeros(1, JOINTS))
        assert not terminated.any()
    return np.linalg.norm(feet(env) - start, axis=-1).max()


def test_standing_feet_do_not_creep():
    assert creep(cone="elliptic") < 0.01
    assert creep(cone="elliptic", impratio=100.0) < 0.002
    assert creep() < 0.06  # the fast pyramidal cone does creep
    assert creep(impratio=1.0) > 0.12  # as much as that without a high impratio


@pytest.mark.parametrize("first_step", [True, False])
@pytest.mark.parametrize("speed", [3e3, 1e6, 1e9, 1e12, float("nan"), float("inf")])
def test_divergence_ends_the_episode_and_nothing_strange_comes_out(tmp_path, monkeypatch, speed, first_step):
    monkeypatch.chdir(tmp_path)  # where MuJoCo would write a log
    env, twin = (make_env(quiet_task("velocity-flat-anymal-c-blind"), 4, num_threads=1) for _ in range(2))
    env.reset(), twin.reset()
    if not first_step:
        for _ in range(5):
            env.step(torch.zeros(4, JOINTS)), twin.step(torch.zeros(4, JOINTS))
    env.world._fields["qvel"][2] = speed
    observation, reward, terminated, truncated, info = env.step(torch.zeros(4, JOINTS))
    reference, true_reward, *_ = twin.step(torch.zeros(4, JOINTS))
    assert terminated.tolist() == [False, False, True, False] and not truncated.any()
    assert info["_final_obs"].tolist() == terminated.tolist()
    others = [0, 1, 3]
    for name, value in observation.items():
        for seen in (value, info["final_obs"][name]):
            assert torch.isfinite(seen).all() and seen.abs().max() < 100.0
        assert torch.equal(value[others], reference[name][others])
    assert torch.equal(reward[others], true_reward[others])
    assert reward[2].abs() < 10.0
    assert all(np.isfinite(value) for value in info["log"].values())
    _, reward, terminated, *_ = env.step(torch.zeros(4, JOINTS))
    assert not terminated.any() and torch.isfinite(reward).all()
    assert not list(tmp_path.iterdir())


def test_a_diverged_simulation_is_not_a_time_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    env = make_env(quiet_task(), 1, num_threads=1)
    env.reset()
    env.world.episode_step[:] = env.world.max_episode_length - 1
    env.world._fields["qvel"][0] = 1e9
    _, _, terminated, truncated, _ = env.step(torch.zeros(1, JOINTS))
    assert terminated.all() and not truncated.any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"solver": "newtn"}, "solver 'newtn': use one of 'newton', 'cg', 'pgs'"),
        ({"cone": "round"}, "cone 'round': use 'pyramidal' or 'elliptic'"),
    ],
)
def test_unknown_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        PhysicsOptions(**options)


@pytest.mark.parametrize("solver", ["newton", "cg", "pgs"])
def test_every_solver_carries_the_robot(solver):
    env = make_env(quiet_task(), 1, num_threads=1, solver=solver, iterations=50)
    env.reset()
    for _ in range(50):
        _, _, terminated, _, _ = env.step(torch.zeros(1, JOINTS))
        assert not terminated.any()
    weight = env.world.model.body_subtreemass[0] * 9.81
    assert float(env.world.robot.contact_force_w[0, :, 2].sum()) == pytest.approx(weight, rel=0.05)
