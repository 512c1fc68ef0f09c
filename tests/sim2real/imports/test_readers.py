"""Readers of families: each finds its policies, reads the source's rules, and runs none of its code."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
import yaml
from gaitway_files.errors import UserError
from gaitway_sim2real.imports import families
from gaitway_sim2real.imports.families import Options
from gaitway_sim2real.imports.policy import Observer
from gaitway_sim2real.imports.readers import onnx_metadata, rl_sar, unitree_deploy, unitree_rl_gym
from memory_taken import watched
from sim2real.imports.published import G1, deploy_yaml, holosoma, linear_onnx, mangled, unitree_lab, write
from sim2real.imports.scripted import mlp
from torch import nn

MOTORS = G1.hardware.motors


def test_unitree_deploy_gains_are_by_motor_and_poses_by_joint(tmp_path):
    path = unitree_lab(tmp_path)
    family, found = families.find(path.parents[1])
    assert (family.name, found) == ("unitree_deploy", path)
    d = unitree_deploy.read(path).description
    ids = deploy_yaml()["joint_ids_map"]
    assert d.joints == tuple(MOTORS[motor] for motor in ids)
    assert d.stiffness == tuple(100.0 + motor for motor in ids) and d.damping[1] == 7.0
    assert d.default_joint_pos[3] == 0.03 and d.action.offset[3] == 0.03
    assert d.history.ages == (4, 3, 2, 1, 0) and d.history.by == "term" and d.history.fill == "first"
    assert d.command.clamp and d.command.ranges["lin_vel_x"] == (-0.5, 1.0)
    assert d.observation_dim == 480


def test_a_slice_that_python_wrote_is_all_joints_and_no_other_tag_is_built(tmp_path):
    text = yaml.safe_dump(deploy_yaml())
    whole = text.replace("joint_ids: null", "joint_ids: !!python/object/apply:builtins.slice [null, null, null]")
    assert unitree_deploy.read(unitree_lab(tmp_path / "a", whole)).description.observation_dim == 480
    for tag in ("python/object/apply:os.system [touch here]", "python/object/new:builtins.eval ['1']"):
        hostile = text.replace("joint_ids: null", f"joint_ids: !!{tag}")
        with pytest.raises(UserError):
            unitree_deploy.read(unitree_lab(tmp_path / "b", hostile))
    assert not (tmp_path / "here").exists()


def test_unitree_deploy_gait_phase_advances_before_it_is_read_and_is_zero_at_rest(tmp_path):
    terms = {**deploy_yaml()["observations"], "gait_phase": {"params": {"period": 0.6}, "scale": [1.0, 2.0]}}
    terms = {name: {**term, "history_length": 1} for name, term in terms.items()}
    path = unitree_lab(tmp_path, observations=terms)
    d = unitree_deploy.read(path).description
    assert d.observation_dim == 98
    phases = tuple(term for term in d.observation if term.term.startswith("phase"))
    assert [(term.term, term.scale) for term in phases] == [("phase_sin", 1.0), ("phase_cos", 2.0)]
    d = d.replace(observation=phases)
    observer = Observer(d, d.joints).eval()
    state, phase = torch.zeros(1, sum(observer.widths)), 0.0
    for vx in (0.5, 0.5, 0.09, 0.5):
        phase = (phase + 0.02 / 0.6) % 1.0
        zero, level = torch.zeros(1, 29), torch.tensor([[1.0, 0.0, 0.0, 0.0]])
        inputs = {
            "command": torch.tensor([[vx, 0.0, 0.0]]),
            "gyro": zero[:, :3],
            "imu_quat_wxyz": level,
            "state": state,
        }
        seen, kept = observer(*(inputs.get(name, zero) for name in observer.input_widths))
        angle = 2.0 * np.pi * phase
        expected = [np.sin(angle), 2.0 * np.cos(angle)] if vx >= 0.1 else [0.0, 0.0]
        assert np.allclose(seen[0].numpy(), expected, atol=1e-6)
        state = torch.cat((torch.ones(1, 1), zero, kept[:, : observer.widths[2]]), 1)


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"joint_ids_map": None}, ("joint_ids_map",)),
        ({"observations": {"base_height": {}}}, ("base_height", "base_ang_vel")),
        ({"actions": {"JointVelocityAction": {}}}, ("JointVelocityAction", "position")),
        ({"joint_ids_map": [99] * 29}, ("joint_ids_map",)),
        ({"observations": {"gait_phase": {"params": {"period": 0}}}}, ("gait_phase", "period")),
        (
            {"observations": {"gait_phase": {"params": {"period": 0.6}, "history_length": 5}}},
            ("gait_phase", "5 frames"),
        ),
        ({"joint_ids_map": list(range(7))}, ("7 joints", "--describe")),
    ],
)
def test_unitree_deploy_refuses_by_key(tmp_path, changes, parts):
    with pytest.raises(UserError) as error:
        unitree_deploy.read(unitree_lab(tmp_path, **changes))
    assert all(part in str(error.value) for part in parts)


def external(folder, location="policy.onnx.data", length=None):
    """The same graph with its weights in a file beside it, as torch writes large ones."""
    graph = linear_onnx(480, 29)
    model = onnx.load_from_string(graph)
    data, start = b"", 0
    for tensor in model.graph.initializer:
        raw = onnx.numpy_helper.to_array(tensor).tobytes()
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", location), ("offset", start), ("length", length or len(raw))):
            tensor.external_data.add(key=key, value=str(value))
        data, start = data + raw, start + len(raw)
    path = unitree_lab(folder)
    exported = path.parents[1] / "exported"
    write(exported / "policy.onnx", model.SerializeToString())
    write(exported / "policy.onnx.data", data)
    return path, graph


def test_weights_beside_the_graph_are_read_into_it(tmp_path):
    path, graph = external(tmp_path)
    ours = onnx.load_from_string(unitree_deploy.read(path).graph)
    theirs = onnx.load_from_string(graph)
    for a, b in zip(ours.graph.initializer, theirs.graph.initializer, strict=True):
        assert (onnx.numpy_helper.to_array(a) == onnx.numpy_helper.to_array(b)).all()


@pytest.mark.parametrize("location", ["../../secret", "/etc/passwd", "", "nowhere.data", "a\0b"])
def test_weights_elsewhere_are_refused(tmp_path, location):
    write(tmp_path / "secret", b"0" * 100_000)
    path, _ = external(tmp_path / "x", location)
    with pytest.raises(UserError):
        unitree_deploy.read(path)


def test_a_pointer_of_git_lfs_is_named_as_policy_and_as_the_weights_beside_one(tmp_path):
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:cd\nsize 282870\n"
    with pytest.raises(UserError, match=r"walk\.pt.*git lfs pull"):
        families.find(write(tmp_path / "walk.pt", pointer))
    path, _ = external(tmp_path)
    write(path.parents[1] / "exported" / "policy.onnx.data", pointer)
    with pytest.raises(UserError, match=r"policy\.onnx\.data.*git lfs pull"):
        unitree_deploy.read(path)
    (tmp_path / "linked.onnx").symlink_to("../.git/annex/objects/xy/policy.onnx")
    with pytest.raises(UserError, match=r"linked\.onnx.*\.git/annex/objects"):
        families.find(tmp_path / "linked.onnx")


@pytest.mark.parametrize("length", [-4, 10**12, "many", "9" * 5000, "٣"])
def test_weights_that_are_not_there_are_refused(tmp_path, length):
    path, _ = external(tmp_path, length=length)
    with pytest.raises(UserError, match=r"policy\.onnx\.data"):
        unitree_deploy.read(path)


def test_holosoma_terms_are_sorted_by_name_and_its_clock_rests(tmp_path):
    path = holosoma(tmp_path)
    family, found = families.find(tmp_path)
    assert (family.name, found) == ("onnx_metadata", path)
    d = onnx_metadata.read(path).description
    assert [term.term for term in d.observation] == [
        "last_action", "base_ang_vel", "generated_commands", "generated_commands", "phase_cos", "joint_pos_rel",
        "joint_vel_rel", "projected_gravity", "phase_sin",
    ]  # fmt: skip
    assert d.observation_dim == 100 and d.observation[2].columns == (2,) and d.observation[3].columns == (0, 1)
    assert d.clock.rest_phase == 0.5 and d.clock.restarts and d.clock.first == 1
    assert d.command.ranges["ang_vel_z"] == (-1.2, 1.2) and d.stiffness == (40.0,) * 29
    assert d.default_joint_pos[0] == -0.312 and d.robot == "g1-29dof"


def test_a_file_in_the_current_folder_is_found(tmp_path, monkeypatch):
    holosoma(tmp_path)
    monkeypatch.chdir(tmp_path)
    for source in ("walk.onnx", "."):
        family, found = families.find(Path(source))
        assert family.name == "onnx_metadata" and found.name == "walk.onnx"


def test_a_dance_is_no_walk(tmp_path):
    with pytest.raises(UserError, match="no velocity command"):
        onnx_metadata.read(holosoma(tmp_path, command_ranges=None))


def test_metadata_that_contradict_the_graph_are_refused(tmp_path):
    path = holosoma(tmp_path, kp=[40.0] * 12)
    with pytest.raises(UserError, match="12 entries for 29"):
        onnx_metadata.read(path)
    path = holosoma(tmp_path, dof_names=[name for name in G1.joint_names if "wrist" not in name])
    with pytest.raises(UserError, match="29"):
        onnx_metadata.load(path, Options()).export(tmp_path / "bundle")


def test_mjlab_metadata(tmp_path):
    names = ["base_lin_vel", "base_ang_vel", "projected_gravity", "joint_pos", "joint_vel", "actions", "command"]
    said = {
        "joint_names": ",".join(G1.joint_names),
        "joint_stiffness": ",".join(["40.2"] * 29),
        "joint_damping": ",".join(["2.6"] * 29),
        "default_joint_pos": ",".join(["0.1"] * 29),
        "action_scale": ",".join(["0.55"] * 29),
        "observation_names": ",".join(names),
    }
    path = write(tmp_path / "g1.onnx", linear_onnx(99, 29, metadata=said))
    d = onnx_metadata.read(path).description
    assert d.family == "mjlab" and d.observation_dim == 99 and d.action.scale == (0.55,) * 29
    assert d.observation[-1].term == "generated_commands" and "command ranges" in d.guessed


def torchscript(path, module, width):
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.jit.save(torch.jit.trace(module.eval(), torch.zeros(1, width)), str(path))
    return path


def sar(folder, **changes):
    """rl_sar's two files for a Go2, whose policy has left before right."""
    joints = [f"{leg}_{joint}_joint" for leg in ("FR", "FL", "RR", "RL") for joint in ("hip", "thigh", "calf")]
    write(folder / "policy/go2/base.yaml", {"go2": {"dt": 0.005, "decimation": 4, "joint_names": joints}})
    said = {
        "model_name": "policy.pt",
        "observations": ["ang_vel", "gravity_vec", "commands", "dof_pos", "dof_vel", "actions"],
        "observations_history": [0, 1, 2],
        "observations_history_priority": "time",
        "clip_obs": 100.0,
        "clip_actions_lower": [-3.0] * 12,
        "clip_actions_upper": [5.0] * 12,
        "rl_kp": [20.0 + k for k in range(12)],
        "rl_kd": [0.5] * 12,
        "action_scale": [0.125, 0.25, 0.25] * 4,
        "ang_vel_scale": 0.25,
        "dof_pos_scale": 1.0,
        "dof_vel_scale": 0.05,
        "commands_scale": [2.0, 2.0, 0.25],
        "torque_limits": [23.5] * 12,
        "default_dof_pos": [0.0, 0.8, -1.5] * 4,
        "joint_mapping": [3, 4, 5, 0, 1, 2, 9, 10, 11, 6, 7, 8],
        **changes,
    }
    torchscript(folder / "policy/go2/lab/policy.pt", mlp(135, 12), 135)
    return write(folder / "policy/go2/lab/config.yaml", {"go2/lab": said}), joints


def test_rl_sar_lists_are_the_policys_and_histories_newest_first(tmp_path):
    path, joints = sar(tmp_path)
    family, found = families.find(tmp_path)
    assert (family.name, found) == ("rl_sar", path)
    policy = rl_sar.load(path, Options())
    d = policy.robot.description
    assert d.joints[:3] == tuple(joints[3:6]) and d.stiffness[0] == 20.0
    assert d.history == type(d.history)(ages=(0, 1, 2), by="step", fill="zeros")
    assert d.action.raw_clip == ((-3.0, 5.0),) * 12 and d.clip_observation == 100.0
    assert d.robot == "go2" and d.control_dt == pytest.approx(0.02)


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"wheel_indices": [2, 5]}, ("wheel", "[2, 5]")),
        ({"observations": ["whole_body_tracking/motion_command"]}, ("motion_command", "gravity_vec")),
        ({"joint_mapping": [50] * 12}, ("joint_mapping",)),
        ({"rl_kp": None}, ("stiffness",)),
    ],
)
def test_rl_sar_refuses_by_key(tmp_path, changes, parts):
    path, _ = sar(tmp_path, **changes)
    with pytest.raises(UserError) as error:
        rl_sar.read(path)
    assert all(part in str(error.value) for part in parts)


def gym(folder, **changes):
    """unitree_rl_gym's two files for a G1 with twelve joints."""
    said = {
        "policy_path": "{LEGGED_GYM_ROOT_DIR}/deploy/pre_train/g1/motion.pt",
        "simulation_dt": 0.002, "control_decimation": 10, "kps": [100.0] * 12, "kds": [2.0] * 12,
        "default_angles": [-0.1, 0.0, 0.0, 0.3, -0.2, 0.0] * 2, "ang_vel_scale": 0.25, "dof_pos_scale": 1.0,
        "dof_vel_scale": 0.05, "action_scale": 0.25, "cmd_scale": [2.0, 2.0, 0.25], "num_actions": 12, **changes,
    }  # fmt: skip
    torchscript(folder / "deploy/pre_train/g1/motion.pt", mlp(47, 12), 47)
    write(folder / "deploy/deploy_real/configs/g1.yaml", {"max_cmd": [0.6, 0.4, 1.0]})
    return write(folder / "deploy/deploy_mujoco/configs/g1.yaml", said)


def test_unitree_rl_gym_reads_its_clock_and_largest_commands(tmp_path):
    path = gym(tmp_path)
    family, found = families.find(tmp_path)
    assert (family.name, found) == ("unitree_rl_gym", path)
    policy = unitree_rl_gym.load(path, Options())
    d = policy.robot.description
    assert d.clock.frequency == 1.25 and d.clock.first == 1 and d.observation_dim == 47
    assert d.command.ranges["lin_vel_x"] == (-0.6, 0.6)
    assert d.joints[6] == "right_hip_pitch_joint" and len(policy.robot.held) == 17
    waist = policy.robot.robot.joint_actuators[policy.robot.robot.joint_names.index("waist_yaw_joint")]
    assert waist.stiffness == 300.0 and waist.damping == 3.0


@pytest.mark.parametrize("named", ["../../../etc/passwd", "/etc/passwd"])
def test_unitree_rl_gym_reads_no_policy_outside_its_folder(tmp_path, named):
    with pytest.raises(UserError, match="leads out"):
        unitree_rl_gym.read(gym(tmp_path, policy_path=named))


def test_the_code_of_an_archive_is_never_run(tmp_path):
    class Loud(nn.Module):
        def __init__(self):
            super().__init__()
            self.actor = mlp(47, 12)

        def forward(self, x):
            torch.save(x, "ran.pt") if False else None
            return self.actor(x) * (2.0 if bool((x > 100).any()) else 1.0)

    path = gym(tmp_path)
    torch.jit.save(torch.jit.script(mlp(47, 12)), str(tmp_path / "deploy/pre_train/g1/motion.pt"))
    assert unitree_rl_gym.read(path).description.network.action == "action"
    archive = tmp_path / "deploy/pre_train/g1/motion.pt"
    with torch.no_grad():
        torch.jit.save(torch.jit.trace(Loud().eval(), torch.full((1, 47), 200.0)), str(archive))
    with pytest.raises(UserError, match="ONNX"):
        unitree_rl_gym.read(path)


def in_metadata(folder, said):
    return write(folder / "walk.onnx", linear_onnx(100, 29, metadata={k: json.dumps(v) for k, v in said.items()}))


MJLAB = {
    "joint_names": list(G1.joint_names), "joint_stiffness": [40.2] * 29, "joint_damping": [2.6] * 29,
    "default_joint_pos": [0.1] * 29, "action_scale": [0.55] * 29, "observation_names": ["joint_pos", "command"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("reader", "make", "rewrite"),
    [
        (unitree_deploy, unitree_lab, write),
        (rl_sar, lambda folder: sar(folder)[0], write),
        (unitree_rl_gym, gym, write),
        (onnx_metadata, holosoma, lambda path, said: in_metadata(path.parent, said)),
        (onnx_metadata, lambda folder: in_metadata(folder, MJLAB), lambda path, said: in_metadata(path.parent, said)),
    ],
    ids=["unitree_deploy", "rl_sar", "unitree_rl_gym", "holosoma", "mjlab"],
)
def test_whatever_stands_in_a_file_it_is_read_or_refused(tmp_path, monkeypatch, reader, make, rewrite):
    monkeypatch.setattr(reader, "read_network", lambda d, path: d, raising=False)
    path = make(tmp_path)
    said = {p.key: json.loads(p.value) for p in onnx.load(path).metadata_props} if path.suffix == ".onnx" else (
        yaml.safe_load(path.read_text()))  # fmt: skip
    refused = 0
    for place, changed in mangled(said):
        if not isinstance(changed, dict):
            continue
        rewrite(path, changed)
        if path not in reader.find(path):
            continue
        try:
            reader.read(path)
        except UserError:
            refused += 1
        except Exception as error:
            pytest.fail(f"{place}: {error!r}")
    assert refused > 20


def test_several_policies_are_listed_and_none_says_what_is_known(tmp_path):
    holosoma(tmp_path, "a.onnx")
    holosoma(tmp_path, "b.onnx")
    with pytest.raises(UserError) as error:
        families.find(tmp_path)
    assert "a.onnx" in str(error.value) and "b.onnx" in str(error.value) and "2 policies" in str(error.value)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(UserError) as error:
        families.find(empty)
    assert all(family.about in str(error.value) for family in families.FAMILIES) and "--describe" in str(error.value)
    with pytest.raises(UserError, match="nothing at"):
        families.find(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("reader", "make", "old", "new"),
    [
        (unitree_deploy, unitree_lab, r"history_length: \d+", "history_length: 1000000000"),
        (rl_sar, lambda folder: sar(folder)[0], r"\bdt: [\d.e-]+", "dt: [0.005, 0.005]"),
        (unitree_rl_gym, gym, r"simulation_dt: [\d.e-]+", "simulation_dt: [0.005]"),
    ],
    ids=["unitree_deploy", "rl_sar", "unitree_rl_gym"],
)
def test_numbers_are_numbers_before_they_are_reckoned_with(tmp_path, reader, make, old, new):
    path = make(tmp_path)
    texts = {file: file.read_text() for file in tmp_path.rglob("*.yaml")}
    changed = {file: re.sub(old, new, text) for file, text in texts.items()}
    assert changed != texts
    for file, text in changed.items():
        file.write_text(re.sub(r"decimation: \d+", "decimation: 1000000000", text))
    with watched() as taken, pytest.raises(UserError, match=r"expected (a whole number|numbers)"):
        reader.read(path)
    assert taken() < 100_000_000
