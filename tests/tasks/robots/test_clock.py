"""MuJoCo's profiling clock stands still while a world steps, and only then."""

import mujoco
import pytest
from gaitway_tasks.robots.clock import untimed

MODEL = "<mujoco><worldbody><body><freejoint/><geom size='0.1'/></body></worldbody></mujoco>"


def stepped() -> mujoco.MjData:
    model = mujoco.MjModel.from_xml_string(MODEL)
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data, nstep=20)
    return data


def test_steps_are_timed_again_afterwards_and_come_out_the_same():
    with untimed():
        silent = stepped()
    timed = stepped()
    assert not silent.timer.duration.any() and timed.timer.duration.any()
    assert (silent.qpos == timed.qpos).all()


def test_an_error_leaves_the_clock_running():
    with pytest.raises(ZeroDivisionError), untimed():
        1 / 0  # noqa: B018
    assert stepped().timer.duration.any()
