"""Isaac Lab's YAML is read for what it says, and nothing in it is run."""

from __future__ import annotations

from pathlib import Path

import pytest
from gaitway_sim2real.imports.isaaclab.config import Opaque, Settings, read_yaml
from gaitway_sim2real.imports.isaaclab.errors import IsaacLabImportError
from gaitway_sim2real.imports.isaaclab.names import matching, values


def read(tmp_path: Path, text: str):
    path = tmp_path / "env.yaml"
    path.write_text(text)
    return read_yaml(path)


def test_the_tags_that_isaac_lab_writes(tmp_path):
    data = read(
        tmp_path,
        "a: !!python/tuple [1, !!python/tuple [2.5, x]]\n"
        "b: !!python/object/apply:builtins.slice [null, 4, 2]\n"
        "c: !!python/name:isaaclab.envs.mdp.observations.base_lin_vel ''\n"
        "d: !!python/object/apply:pathlib.PosixPath [/, data, robot.usd]\n"
        "e: !!python/object/apply:torch._utils._rebuild_tensor_v2 [1, 2]\n"
        "f: !!python/object:some.module.Class {x: 1}\n"
        "g: [&id001 !!python/tuple [0.0], *id001]\n",
    )
    assert data == {
        "a": (1, (2.5, "x")),
        "b": slice(None, 4, 2),
        "c": "isaaclab.envs.mdp.observations:base_lin_vel",
        "d": "/data/robot.usd",
        "e": Opaque("object/apply:torch._utils._rebuild_tensor_v2"),
        "f": Opaque("object:some.module.Class"),
        "g": [(0.0,), (0.0,)],
    }


@pytest.mark.parametrize(
    "tag", ["object/apply:os.system", "object/new:subprocess.Popen", "object/apply:builtins.exec", "module:antigravity"]
)
def test_nothing_is_executed(tmp_path, tag):
    mark = tmp_path / "mark"
    data = read(tmp_path, f"a: !!python/{tag} ['touch {mark}']\n")
    assert isinstance(data["a"], Opaque) and not mark.exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [("a: [1,\n", "not YAML"), ("- 1\n", "holds list"), ("a: !unknown 1\n", "not YAML"), ("", "holds NoneType")],
)
def test_broken_files(tmp_path, text, said):
    with pytest.raises(IsaacLabImportError, match=said) as error:
        read(tmp_path, text)
    assert str(tmp_path / "env.yaml") in str(error.value)
    with pytest.raises(IsaacLabImportError, match=r"cannot read .*absent.yaml: No such file"):
        read_yaml(tmp_path / "absent.yaml")


def test_errors_name_file_key_and_value():
    node = Settings({"sim": {"dt": "fast", "flag": True, "object": Opaque("object:a.B"), "never_set": {}}}, "env.yaml")
    sim = node.child("sim")
    with pytest.raises(IsaacLabImportError, match=r"env.yaml.sim.dt is 'fast'; expected float"):
        sim.get("dt", float)
    with pytest.raises(IsaacLabImportError, match=r"env.yaml.sim.flag is True; expected float"):
        sim.get("flag", float)
    with pytest.raises(IsaacLabImportError, match=r"env.yaml.sim.object is a Python object \(object:a.B\)"):
        sim.get("object", str)
    with pytest.raises(IsaacLabImportError, match=r"env.yaml has no 'scene'"):
        node.require("scene", str)
    assert sim.get("never_set", str, "default") == "default" and "never_set" not in sim


JOINTS = ("a_hip", "b_hip", "a_knee", "b_knee")


def test_names_come_in_the_order_of_the_joints_or_of_the_patterns():
    assert matching([".*_knee", "a_hip"], JOINTS, "x", preserve_order=False) == ["a_hip", "a_knee", "b_knee"]
    assert matching([".*_knee", "a_hip"], JOINTS, "x", preserve_order=True) == ["a_knee", "b_knee", "a_hip"]
    assert matching("b_.*", JOINTS, "x", preserve_order=False) == ["b_hip", "b_knee"]
    assert values({".*_hip": 1.0, "b_knee": 2.0}, JOINTS, "x") == {"a_hip": 1.0, "b_hip": 1.0, "b_knee": 2.0}


@pytest.mark.parametrize(
    ("patterns", "said"),
    [
        (["a_.*", ".*_hip"], "'a_hip' matches both 'a_.*' and '.*_hip'"),
        (["hip"], "'hip' matches none of the joints a_hip, b_hip"),
        (["(a"], "is no pattern of names"),
    ],
)
def test_names_that_isaac_lab_refuses_too(patterns, said):
    with pytest.raises(IsaacLabImportError) as error:
        matching(patterns, JOINTS, "env.yaml.x", preserve_order=False)
    assert said in str(error.value) and "env.yaml.x" in str(error.value)
