"""The converted robot in the user's cache: written by a process of its own, once, and anew where it would be stale."""

import sys

import pytest
from gaitway_isaaclab import assets
from gaitway_isaaclab.usd import UsdError, write_usd
from gaitway_tasks.identified import identified_task
from gaitway_tasks.registry import get_task
from gaitway_tasks.robots.anymal_c import ANYMAL_C
from gaitway_tasks.robots.parameters import JointParameters, RobotParameters
from pxr import Usd


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def text(path):
    stage = Usd.Stage.Open(str(path))
    return stage.GetRootLayer().ExportToString()


def files(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def test_a_process_of_its_own_writes_it_and_pxr_stays_out_of_this_one(monkeypatch, tmp_path, cache):
    with monkeypatch.context() as before:
        before.delitem(sys.modules, "pxr")
        path = assets._usd_of(ANYMAL_C)
        assert "pxr" not in sys.modules
    assert files(cache) == [path] and path.name == "anymal_c.usd"
    assert text(path) == text(write_usd(ANYMAL_C, tmp_path / "here.usd"))
    written = path.stat().st_mtime_ns
    task = identified_task(
        get_task("velocity-flat-anymal-c"),
        RobotParameters(robot="anymal-c", joints={"LF_KFE": JointParameters(friction=0.4, strength=0.9)}),
    )
    assert assets._usd_of(task.robot) == assets._usd_of(ANYMAL_C) == path  # drives are the configuration's
    assert path.stat().st_mtime_ns == written


def test_what_the_process_says_is_raised_here(monkeypatch, tmp_path, cache):
    monkeypatch.delitem(sys.modules, "pxr")
    with pytest.raises(UsdError, match=r"anymal_c\.xml cannot be written as USD: it has no body named nose"):
        assets._usd_of(ANYMAL_C.replace(body_names=("base", "nose")))
    (tmp_path / "pxr.py").write_text("raise ImportError('hidden')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsdError, match=r"pip install usd-core, or, where Isaac Sim brings it, start Isaac Sim first"):
        assets._usd_of(ANYMAL_C)
    (tmp_path / "pxr.py").write_text("import os; os._exit(7)")
    with pytest.raises(UsdError, match="ended with exit code 7"):
        assets._usd_of(ANYMAL_C)
    assert not files(cache)


def test_a_model_that_refers_to_other_files_is_converted_every_time(tmp_path):
    part, model = tmp_path / "part.xml", tmp_path / "robot.xml"
    shank = '<mujoco><body name="shank"><joint name="knee"/><geom size="0.1" mass="{}"/></body></mujoco>'
    model.write_text(
        '<mujoco><worldbody><body name="base"><freejoint/><geom size="0.2" mass="5"/><include file="part.xml"/></body>'
        "</worldbody></mujoco>"
    )
    robot = ANYMAL_C.replace(name="linked", joint_names=("knee",), body_names=("base", "shank"), mjcf=model, usd=None)
    masses = []
    for mass in (1.0, 2.0):
        part.write_text(shank.format(mass))
        stage = Usd.Stage.Open(str(assets._usd_of(robot)))
        stage.Reload()
        masses.append(stage.GetPrimAtPath("/linked/shank").GetAttribute("physics:mass").Get())
    assert masses == [1.0, 2.0]


def test_omniverse_is_asked_by_a_process_of_its_own():
    """Its client is not installed here, and if it were, importing it here would keep Isaac Sim from starting."""
    assert not assets.reachable("omniverse://localhost/robot.usd")
    assert "omni" not in sys.modules
