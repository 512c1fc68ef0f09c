"""Recipes: each describes the policy that it matches, no other policy is taken for it, and clocks rest as they say."""

from __future__ import annotations

import math

import mujoco
import numpy as np
import onnx
import pytest
import torch
from gaitway_sim2real.imports import families
from gaitway_sim2real.imports.bundle import _write_robot
from gaitway_sim2real.imports.description import Clock, Term
from gaitway_sim2real.imports.errors import PolicyImportError
from gaitway_sim2real.imports.policy import Observer
from gaitway_sim2real.imports.readers import recipes
from onnx import TensorProto, helper
from sim2real.imports.scripted import saved
from torch import nn

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
NAMES = recipes.names()
DT = 0.02


def onnx_network(observation: int, action: int, memory: tuple[tuple[str, str, int], ...] = ()) -> bytes:
    """A linear policy of these widths for one robot, as sources publish them; each ``memory`` keeps what it has."""
    weights = np.full((observation, action), 0.01, np.float32)
    state = [
        [helper.make_tensor_value_info(names[k], TensorProto.FLOAT, [1, 1, 4]) for names in memory] for k in (0, 1)
    ]
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["obs", "weights"], ["action"]),
            *(helper.make_node("Identity", [before], [after]) for before, after, _ in memory),
        ],
        "policy",
        [helper.make_tensor_value_info("obs", TensorProto.FLOAT, [1, observation]), *state[0]],
        [helper.make_tensor_value_info("action", TensorProto.FLOAT, [1, action]), *state[1]],
        [onnx.numpy_helper.from_array(weights, "weights")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return model.SerializeToString()


def network(file: str, observation: int, action: int, memory: tuple[tuple[str, str, int], ...]) -> bytes:
    if file.endswith(".onnx"):
        return onnx_network(observation, action, memory)
    return saved(nn.Sequential(nn.Linear(observation, 16), nn.ELU(), nn.Linear(16, action)))


def checkout(folder, name: str, more: int = 0):
    """A checkout with the policy that the recipe matches, or one that reads ``more`` numbers; and the policy's path."""
    match = recipes.recipe(name).match
    path = folder / match.below / match.file
    path.parent.mkdir(parents=True)
    memory = recipes.recipe(name).description(match.file).network.memory
    path.write_bytes(network(match.file, match.observation + more, match.action, memory))
    return path


@pytest.mark.parametrize("name", NAMES)
def test_describes_the_widths_it_matches(name: str) -> None:
    recipe = recipes.recipe(name)
    d = recipe.description(recipe.match.file)
    assert (d.observation_dim, len(d.action.joints)) == (recipe.match.observation, recipe.match.action)
    assert d.name == name
    assert "not stated" not in (d.licence, d.source)
    assert recipe.read_in.keys() >= {"licence", "command ranges"}
    assert ".xml" in recipe.model


@pytest.mark.parametrize("name", NAMES)
def test_finds_the_published_policy_alone_or_in_its_checkout(name: str, tmp_path) -> None:
    path = checkout(tmp_path, name)
    assert recipes.find(path) == recipes.find(tmp_path) == recipes.find(path.parent) == [path]
    assert families.find(path)[0].name == "recipes"


@pytest.mark.parametrize("name", NAMES)
def test_another_policy_of_that_name_is_not_taken_for_it(name: str, tmp_path) -> None:
    path = checkout(tmp_path, name, more=3)
    match = recipes.recipe(name).match
    assert recipes.find(path) == []
    with pytest.raises(PolicyImportError, match="--describe"):
        families.find(path)
    with pytest.raises(PolicyImportError) as error:
        recipes.load_named(path, families.Options(recipe=name))
    for part in (str(path), f"reads {match.observation + 3} ", f"for {match.observation} and", "--describe"):
        assert part in str(error.value)


def test_a_common_file_name_needs_its_folder(tmp_path) -> None:
    match = recipes.recipe("lite3-rl-deploy").match
    (tmp_path / match.file).write_bytes(onnx_network(match.observation, match.action))
    assert recipes.find(tmp_path) == []


def test_own_policy_with_a_recipe(tmp_path) -> None:
    path = tmp_path / "mine.onnx"
    path.write_bytes(onnx_network(48, 12))
    policy = recipes.load_named(path, families.Options(recipe="playground-go1"))
    assert policy.robot.robot.name == "go1"
    d = policy.robot.description
    _write_robot(d, policy.robot.robot, Observer(d, policy.robot.robot.joint_names), tmp_path)
    # The recipe's damping is all there is: 0.5 in the motors, and none is left in the joints.
    assert d.damping == (0.5,) * 12
    assert np.all(mujoco.MjModel.from_xml_path(str(tmp_path / "robot.xml")).dof_damping == 0.0)


def test_unknown_recipe_lists_the_known() -> None:
    with pytest.raises(PolicyImportError, match="playground-go1"):
        recipes.recipe("playground-go7")


def test_robot_unknown_here_names_the_sources_model(tmp_path) -> None:
    path = checkout(tmp_path, "playground-t1")
    with pytest.raises(PolicyImportError, match=r"--model.*t1/xmls/scene_mjx_feetonly_flat_terrain\.xml"):
        recipes.load(path, families.Options())


def test_template_of_a_recipe_is_a_description(tmp_path) -> None:
    from gaitway_sim2real.imports.readers import described

    (tmp_path / "mine.yaml").write_text(recipes.template("playground-go1"))
    (tmp_path / "mine.onnx").write_bytes(onnx_network(48, 12))
    policy = described.load(tmp_path / "mine.onnx", tmp_path / "mine.yaml", families.Options())
    assert policy.robot.description.joints == recipes.recipe("playground-go1").description("").joints


# Clocks, each read through the first half of a bundle's graph.


def phases(clock: Clock, commands: list[tuple[float, float, float]]) -> np.ndarray:
    """Phase of each foot in cycles, (steps, feet); NaN where sine and cosine are both 0."""
    d = recipes.recipe("playground-go1").description("p.onnx")
    d = d.replace(clock=clock, observation=(Term(term="phase_sin"), Term(term="phase_cos")))
    observer = Observer(d, d.joints).eval()
    state = torch.zeros(1, sum(observer.widths))
    shown = []
    for command in commands:
        quat = torch.tensor([[1.0, 0.0, 0.0, 0.0]])
        inputs = {"imu_quat_wxyz": quat, "gyro": torch.zeros(1, 3), "command": torch.tensor([command]), "state": state}
        still = torch.zeros(1, len(d.joints))
        seen, kept = observer(*(inputs.get(name, still) for name in observer.input_widths))
        sine, cosine = seen[0].numpy().reshape(2, -1)
        assert np.allclose(np.hypot(sine, cosine), 1.0, atol=1e-6) or np.all(seen.numpy() == 0.0)
        shown.append(np.where(np.hypot(sine, cosine) > 0.5, np.arctan2(sine, cosine) / (2 * math.pi) % 1.0, np.nan))
        clocked = kept[:, : sum(observer.widths[2:5])]
        state = torch.cat((torch.ones(1, 1), torch.zeros(1, observer.widths[1]), clocked), 1)
    return np.array(shown)


def close(a, b) -> bool:
    """Equal phases, which go round."""
    gap = (np.asarray(a) - np.asarray(b) + 0.5) % 1.0 - 0.5
    return bool(np.all(np.abs(gap) < 1e-5))


WALK, STAND = (0.5, 0.0, 0.0), (0.0, 0.0, 0.0)
PLAYGROUND = [name for name in NAMES if recipes.recipe(name).data.get("clock", {}).get("offsets") == [0.0, 0.5]]


@pytest.mark.parametrize("name", PLAYGROUND)
def test_feet_are_half_a_cycle_apart_and_start_at_zero(name: str) -> None:
    clock = recipes.recipe(name).description("").clock
    walked = phases(clock, [WALK] * 120)
    assert close(walked[0], [0.0, 0.5])
    assert close(walked[:, 0] + 0.5, walked[:, 1])


def test_a_frequency_is_kept_for_a_minute_without_drift() -> None:
    """One whose advance in a step is no binary fraction: it would drift if it were added up."""
    walked = phases(Clock(frequency=0.7), [WALK] * 3000)[:, 0]
    assert close(walked, np.arange(3000) * 0.7 * DT % 1.0)


@pytest.mark.parametrize("length", [0.0, 0.3, 0.75, 1.5, 4.0])
def test_frequency_grows_with_the_command(length: float) -> None:
    clock = recipes.recipe("playground-apollo").description("").clock
    walked = phases(clock, [(length, 0.0, 0.0)] * 50 + [(0.0, length, 0.0)] * 2 + [WALK] * 2)
    hertz = 1.25 + 0.5 * min(length, 1.5) / 1.5
    if length:
        assert close(walked[:52, 0], np.arange(52) * hertz * DT % 1.0)
    else:
        assert close(walked[:52], 0.5)
    assert close(walked[53] - walked[52], (1.25 + 0.5 * 0.5 / 1.5) * DT)


@pytest.mark.parametrize("name", ["playground-t1", "playground-apollo"])
def test_at_rest_both_feet_are_down_and_the_clock_goes_on(name: str) -> None:
    clock = recipes.recipe(name).description("").clock
    walked = phases(clock, [WALK] * 7 + [STAND] * 5 + [WALK] * 3)
    assert close(walked[7:12], 0.5)
    slow, quick = (clock.frequency + clock.faster * min(v, 1.5) / 1.5 for v in (0.0, 0.5))
    assert close(walked[12, 0], (7 * quick + 5 * slow) * DT)
    below = phases(clock, [(0.0099, 0.0, 0.0), (0.0, 0.0, -0.0101)])
    assert close(below[0], 0.5)
    assert not close(below[1], 0.5)


def test_restart_begins_anew() -> None:
    clock = Clock(frequency=1.0, offsets=(0.0, 0.5), rest_below=0.01, rest_phase=0.5, restarts=True, first=1)
    walked = phases(clock, [WALK] * 4 + [STAND] * 3 + [WALK] * 2)
    assert close(walked[0], [DT, DT + 0.5])
    assert close(walked[7], [0.0, 0.5])
    assert close(walked[8], [DT, DT + 0.5])


def test_booster_rests_with_no_phase_and_wakes_a_step_late() -> None:
    clock = recipes.recipe("booster-gym-t1").description("").clock
    walked = phases(clock, [WALK] * 6 + [STAND] * 4 + [WALK] * 4)[:, 0]
    assert np.isnan(walked[6:10]).all()
    assert close(walked[:6], np.arange(6) * DT)
    assert close(walked[10], 0.0)
    assert close(walked[11:], np.arange(11, 14) * DT)
    assert np.isnan(phases(clock, [STAND] * 2)).all()
