"""Described policies as bundles: the published network's numbers, an honest contract, refusals before any file."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
import yaml
from gaitway_files.errors import UserError
from gaitway_onboard.bundle.contract import Contract, verify_files
from gaitway_onboard.bundle.policy import OnboardPolicy
from gaitway_onboard.interface import Signals
from gaitway_sim2real.bundle.golden import plausible_signals
from gaitway_sim2real.imports import bundle
from gaitway_sim2real.imports.description import Network
from gaitway_sim2real.imports.description_file import description_from
from gaitway_sim2real.imports.families import Options
from gaitway_sim2real.imports.graph import memory_of, open_network
from gaitway_sim2real.imports.policy import Mover, Observer
from once import made_once
from onnx import TensorProto
from sim2real.imports.published import GO2, bundle_of, linear_onnx, loaded, recurrent_onnx, write


@pytest.fixture(scope="module")
def right(tmp_path_factory):
    """Bundle of a graph with the usual description. Read-only."""
    return made_once(tmp_path_factory, "described-bundle", bundle_of) / "bundle"


def made(tmp_path, graph, **changes):
    """The bundle of a graph with the usual description, and that description."""
    policy = loaded(tmp_path, graph, **changes)
    return policy.export(tmp_path / "bundle"), policy.robot.description


@pytest.fixture(scope="module")
def rich(tmp_path_factory):
    """A graph with history, clamp and limited commands, its bundle, and its description."""
    graph = linear_onnx(45 * 3, 12, opset=11)
    return graph, *made(
        tmp_path_factory.mktemp("rich"), graph, licence="MIT", source="somebody/something", guessed={"rate": "50 Hz"},
        history={"ages": [2, 1, 0], "by": "step", "fill": "zeros"}, action={"scale": 0.25, "raw_clip": 5.0},
        command={"ranges": {"lin_vel_x": [-0.5, 1.0], "lin_vel_y": [0.0, 0.0], "ang_vel_z": [-1.0, 1.0]},
                 "acceleration": [1.0, 1.0, 2.0]},
    )  # fmt: skip


def test_a_bundle_computes_what_the_network_and_its_runner_do(rich):
    graph, bundle, d = rich
    verify_files(bundle)
    contract = Contract.load(bundle)
    weights = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load_from_string(graph).graph.initializer}
    observer = Observer(d, contract.joint_names)
    mover = Mover(observer, contract.joint_names, contract.default_joint_pos)
    signals = plausible_signals(np.array(contract.default_joint_pos), np.array(contract.command_ranges), steps=40,
                                batch=4, step_dt=0.02, seed=3)  # fmt: skip
    session = onnxruntime.InferenceSession((bundle / "policy.onnx").read_bytes())
    state = torch.zeros(4, contract.state_dim)
    for step in range(40):
        feed = {name: signals[name][step] for name in contract.input_names[:-1]}
        observation, kept = observer(*(torch.from_numpy(value) for value in feed.values()), state)
        action = np.tanh(observation.numpy() @ weights["W"] + weights["b"]).astype(np.float32)
        expected = mover(torch.from_numpy(action), kept)
        found = session.run(list(contract.output_names), feed | {"state": state.numpy()})
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(ours, theirs.numpy(), atol=1e-5)
        state = expected[-1]


def test_the_memory_of_a_recurrent_graph_is_the_bundles(tmp_path):
    memory = {"file": "policy.onnx", "observation": "obs", "action": "actions", "memory": [["h_in", "h_out", 1]]}
    bundle, _ = made(tmp_path, recurrent_onnx(45, 6, 12, opset=18), network=memory)
    contract = Contract.load(bundle)
    assert contract.state_dim == 1 + 12 + 6
    golden = np.load(bundle / "golden.npz")
    assert (golden["state"][0] == 0).all() and np.ptp(golden["next_state"][:, -6:], axis=0).min() > 0.0
    policy = OnboardPolicy(bundle)  # replays the golden vectors, memory included
    signals = Signals(*(golden[name][0] for name in contract.input_names[:4]), stamp=0.0)
    target = policy.step(signals, golden["command"][0])
    np.testing.assert_allclose(target, golden["joint_pos_target"][0], atol=1e-6)


@pytest.mark.parametrize("key", ["previous_action", "previous_result"])
def test_a_low_pass_and_a_raw_phase_are_in_the_graph(tmp_path, key):
    action = {"scale": 0.25, key: 0.2}
    clock = {"frequency": 1.4, "offsets": [0.0, 0.5, 0.5, 0.0], "rest_below": 0.01, "rest_phase": -1.0}
    terms = ["joint_pos_rel", "last_action", "phase"]
    bundle, _ = made(tmp_path, linear_onnx(28, 12), action=action, clock=clock, observation=terms)
    golden, contract = np.load(bundle / "golden.npz"), Contract.load(bundle)
    raw, pose = golden["action"], np.array(contract.default_joint_pos)
    past = np.zeros(12)
    for step in range(len(raw)):
        past = past * (golden["state"][step][0] > 0.5)  # zero after a reset
        mixed = 0.8 * raw[step] + 0.2 * past
        np.testing.assert_allclose(golden["joint_pos_target"][step], pose + 0.25 * mixed, atol=1e-5)
        past = raw[step] if key == "previous_action" else mixed
    assert np.ptp(raw, axis=0).min() > 0.0


def test_the_contract_says_what_was_published_and_what_was_not(rich):
    _, bundle, d = rich
    contract = Contract.load(bundle)
    assert contract.origin == {"family": "described", "source": "somebody/something", "licence": "MIT",
                               "policy": "policy.onnx"}  # fmt: skip
    assert contract.joint_names == d.joints and set(contract.joint_names) == set(GO2.joint_names)
    assert contract.command_acceleration == (1.0, 1.0, 2.0) and contract.action.raw_clip == 5.0
    assert contract.command_ranges == ((-0.5, 1.0), (0.0, 0.0), (-1.0, 1.0))
    assert contract.per_joint("stiffness") == (25.0,) * 12 and contract.physics_dt == 0.005
    hardware = GO2.hardware.effort_limit
    assert all(contract.per_joint("effort_limit")[k] <= hardware[name] for k, name in enumerate(contract.joint_names))
    assert verify_files(bundle)["robot_license.txt"] == GO2.mjcf.with_name("LICENSE").read_bytes()
    again = description_from(yaml.safe_load((bundle / "description.yaml").read_text()), "again")
    assert again == d


def test_stronger_motors_than_the_robots_are_not_believed(tmp_path):
    policy = loaded(tmp_path, linear_onnx(45, 12), effort_limit=500.0)
    assert any("500" in note for note in policy.robot.notes)
    weakest = [law.effort_limit for law in policy.robot.robot.joint_actuators]
    assert max(weakest) < 50.0


def test_a_graph_for_the_environments_of_its_training_is_imported_for_any_number(tmp_path):
    memory = {"observation": "obs", "action": "actions", "memory": [["h_in", "h_out", 1]]}
    one = open_network(recurrent_onnx(45, 6, 12), Network(file="one.onnx", memory=(("h_in", "h_out", 1),)))
    bundle, d = made(tmp_path, recurrent_onnx(45, 6, 12, robots=4096), network={"file": "policy.onnx", **memory})
    golden = np.load(bundle / "golden.npz")
    observer = Observer(d, Contract.load(bundle).joint_names, memory_of(one))
    signals = [torch.from_numpy(golden[name][1:2]) for name in observer.input_widths]
    observation, _, hidden = observer(*signals)
    action, following = one.run(observation.numpy(), [hidden.numpy()])
    np.testing.assert_allclose(golden["action"][1], action[0], atol=1e-5)
    np.testing.assert_allclose(golden["next_state"][1][-6:], following.ravel(), atol=1e-5)
    assert np.abs(hidden.numpy()).min() > 0.0


def mixing(robots):
    """A graph whose robots share the mean of their observations."""
    model = onnx.load_from_string(linear_onnx(45, 12, robots=robots))
    mean = onnx.helper.make_node("ReduceMean", ["obs"], ["mean"], axes=[0])
    model.graph.node.insert(0, onnx.helper.make_node("Sub", ["obs", "mean"], ["apart"]))
    model.graph.node.insert(0, mean)
    model.graph.node[2].input[0] = "apart"
    return model.SerializeToString()


def reshaping(robots):
    """A graph that has the number of robots in it."""
    model = onnx.load_from_string(linear_onnx(45, 12, robots=robots))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([robots, 45]), "shape"))
    model.graph.node.insert(0, onnx.helper.make_node("Reshape", ["obs", "shape"], ["shaped"]))
    model.graph.node[1].input[0] = "shaped"
    return model.SerializeToString()


@pytest.mark.parametrize("graph", [mixing, reshaping])
def test_a_graph_that_only_its_number_of_robots_can_run_is_refused_with_its_shape(tmp_path, graph):
    said = refused(tmp_path, graph(64))
    assert "[64, 45]" in said and "dynamic_axes" in said and "obs" in said


def refused(tmp_path, graph, asked=None, model=None, **changes):
    with pytest.raises(UserError) as error:
        loaded(tmp_path, graph, Options(robot=asked, model=model), **changes).export(tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()
    return str(error.value)


def test_widths_that_do_not_match_are_refused_with_both(tmp_path):
    said = refused(tmp_path, linear_onnx(48, 12))
    assert "48" in said and "45" in said and "joint_vel_rel 12" in said
    said = refused(tmp_path, linear_onnx(45, 10))
    assert "10" in said and "12" in said and "action.joints" in said


def test_half_precision_and_broken_weights_are_refused(tmp_path, right, monkeypatch):
    assert "float32" in refused(tmp_path, linear_onnx(45, 12, dtype=TensorProto.FLOAT16))
    model = onnx.load_from_string(linear_onnx(45, 12))
    weights = onnx.numpy_helper.to_array(model.graph.initializer[0]).copy()
    weights[:] = np.nan
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(weights, "W"))
    monkeypatch.setattr(bundle, "bundle_graph", lambda *parts: (right / "policy.onnx").read_bytes())
    assert "weights are broken" in refused(tmp_path, model.SerializeToString())


def test_unknown_joints_and_robots_are_refused_by_name(tmp_path):
    said = refused(tmp_path, linear_onnx(45, 12), asked="h1")
    assert "FR_hip_joint" in said and "--model" in said
    assert "go2" in refused(tmp_path, linear_onnx(45, 12), asked="spot")
    assert "--robot" in refused(tmp_path, linear_onnx(45, 12), robot=None)  # A1 and Go1 have the same joints


def test_tensors_that_nobody_feeds_are_named(tmp_path):
    assert "h_in" in refused(tmp_path, recurrent_onnx(45, 6, 12))
    assert "no axis 3" in refused(
        tmp_path, recurrent_onnx(45, 6, 12), network={"file": "p", "memory": [["h_in", "h_out", 3]]}
    )
    assert "hidden_state" in refused(
        tmp_path, recurrent_onnx(45, 6, 12), network={"file": "p", "memory": [["hidden_state", "h_out", 1]]}
    )


def test_a_model_without_the_strength_of_a_joint_asks_for_it(tmp_path):
    legs = "".join(
        f'<body name="{side}_leg" pos="0 {y} 0"><joint name="{side}_hip_joint" axis="0 1 0"/>'
        f'<geom type="capsule" size=".02" fromto="0 0 0 0 0 -.3"/></body>'
        for side, y in (("left", 0.1), ("right", -0.1))
    )
    base = f'<body name="base" pos="0 0 .4"><freejoint/><geom type="box" size=".1 .1 .05"/>{legs}</body>'
    xml = f"<mujoco><worldbody>{base}</worldbody></mujoco>"
    model = write(tmp_path / "two_legs.xml", xml)
    joints = {"joints": ["left_hip_joint", "right_hip_joint"], "default_joint_pos": 0.0, "robot": None,
              "observation": ["joint_pos_rel", "base_lin_vel"]}  # fmt: skip
    said = refused(tmp_path, linear_onnx(5, 2), model=model, **joints)
    assert "left_hip_joint" in said and "effort_limit" in said
    policy = loaded(tmp_path, linear_onnx(5, 2), Options(model=model), effort_limit=20.0, **joints)
    contract = Contract.load(policy.export(tmp_path / "bundle"))
    assert contract.foot_bodies == ("left_leg", "right_leg") and contract.per_joint("effort_limit") == (20.0, 20.0)
    assert contract.estimated == ("base_lin_vel",)
