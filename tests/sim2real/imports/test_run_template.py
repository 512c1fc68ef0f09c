"""Descriptions of runs whose policy is not read: what env.yaml tells is there, the rest is marked."""

from __future__ import annotations

import pytest
import yaml
from gaitway_files.errors import UserError
from gaitway_sim2real.imports.description_file import description_from
from gaitway_sim2real.imports.families import Options
from gaitway_sim2real.imports.readers import described
from gaitway_sim2real.imports.run_template import run_template
from gaitway_tasks.robots import ROBOTS
from gaitway_tasks.robots.orders import physx_order
from sim2real.imports.isaaclab.run_folder import env_settings, term, write_run
from sim2real.imports.published import linear_onnx


def direct() -> dict:
    """A direct task of the Go2, whose robot is no part of its scene."""
    env = env_settings()
    robot = env["scene"].pop("robot")
    for key in ("observations", "actions", "commands"):
        del env[key]
    return env | {"robot": robot, "action_scale": 0.5, "observation_space": 48}


def printed(folder, env) -> str:
    write_run(folder, env)
    return run_template(folder, Options())


def test_a_direct_task_has_its_robot_rates_and_scale(tmp_path):
    text = printed(tmp_path / "walk", direct())
    data = yaml.safe_load(text)
    order = physx_order(ROBOTS["go2"])
    assert data["joints"] == list(order) and data["robot"] == "go2" and data["name"] == "walk"
    pose = dict(zip(order, data["default_joint_pos"], strict=True))
    assert pose["FL_hip_joint"] == 0.1 and pose["RR_thigh_joint"] == 1.0 and pose["FR_calf_joint"] == -1.5
    assert set(data["stiffness"]) == {25.0} and set(data["damping"]) == {0.5} and set(data["effort_limit"]) == {23.5}
    assert (data["control_dt"], data["physics_dt"], data["action"]["scale"]) == (0.02, 0.005, 0.5)
    assert "48 numbers" in text and "not in env.yaml:\nobservation" in text and "not in env.yaml:\ncommand" in text
    description_from(data, "mine.yaml", family="described", network={"file": "policy.onnx"})


def test_what_it_prints_imports_the_exported_policy(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(printed(tmp_path / "walk", env_settings()))
    (tmp_path / "walk.onnx").write_bytes(linear_onnx(45, 12))
    policy = described.load(tmp_path / "walk.onnx", file, Options())
    d = policy.robot.description
    assert [t.term for t in d.observation] == ["base_ang_vel", "projected_gravity", "generated_commands",
                                               "joint_pos_rel", "joint_vel_rel", "last_action"]  # fmt: skip
    assert d.command.ranges["lin_vel_y"] == (-0.5, 0.5) and set(d.action.scale) == {0.25}


def test_terms_that_are_not_known_and_missing_robots_are_named(tmp_path):
    env = env_settings()
    env["observations"]["policy"]["contacts"] = term("my.package:foot_contacts")
    text = printed(tmp_path / "a", env)
    assert "# observation: contacts is my.package:foot_contacts, which is not known" in text
    bare = {"decimation": 4, "sim": {"dt": 0.005}, "observation_space": 260, "action_scale": 0.5}
    text = printed(tmp_path / "b", bare)
    data = yaml.safe_load(text)
    assert "no robot" in text and "260 numbers" in text
    assert data["control_dt"] == 0.02 and data["action"] == {"scale": 0.5}
    env = direct()
    env["robot"]["spawn"]["usd_path"] = "somebody/dog.usd"
    assert "# joints: the run spawns somebody/dog.usd" in printed(tmp_path / "c", env)
    with pytest.raises(UserError, match="no run folder"):
        run_template(tmp_path / "nowhere", Options())
