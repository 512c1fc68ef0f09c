"""The search finds a planted weakness, shrinks it to its cause, and its file falls again."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from gaitway_onboard.bundle.contract import Contract, sha256
from gaitway_sim2real.falsify import (
    Budget,
    CaseError,
    load_case,
    load_cases,
    run_case,
    save_cases,
    search,
    section,
)
from gaitway_sim2real.falsify.case import Case
from gaitway_sim2real.falsify.space import Space
from gaitway_sim2real.population.twin import Kind, Twin
from gaitway_velocity.knots import KNOTS
from onnx import TensorProto, helper, numpy_helper
from stand_bundle import make_stand_bundle

BEARS = 1.52
"""Sum of the joints' distances from the pose beyond which the planted policy gives way [rad]; its own weight
makes it 1.45 when it lands."""


@pytest.fixture(scope="module")
def steady(tmp_path_factory) -> Path:
    return make_stand_bundle(tmp_path_factory.mktemp("steady") / "bundle")


@pytest.fixture(scope="module")
def weak(tmp_path_factory) -> Path:
    """A bundle that stands as long as it carries little."""
    bundle = make_stand_bundle(tmp_path_factory.mktemp("weak") / "bundle", stiffness=90.0)
    model = onnx.load(bundle / "policy.onnx")
    graph = model.graph
    graph.initializer.append(numpy_helper.from_array(np.array([[BEARS]], np.float32), "limit"))
    (target,) = [node for node in graph.node if "joint_pos_target" in node.output]
    target.output[0] = "standing"
    graph.node.extend([
        helper.make_node("Sub", ["joint_pos", "pose"], ["sags"]),
        helper.make_node("Abs", ["sags"], ["sag"]),
        helper.make_node("ReduceSum", ["sag", "axis"], ["all_sag"], keepdims=1),
        helper.make_node("Greater", ["all_sag", "limit"], ["too_much"]),
        helper.make_node("Cast", ["too_much"], ["gives_up"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["gives_up", "sags"], ["yields"]),
        helper.make_node("Add", ["standing", "yields"], ["joint_pos_target"]),
    ])  # fmt: skip
    action = next(node for node in graph.node if "action" in node.output)
    graph.node.remove(action)
    graph.node.append(action)
    onnx.save(model, bundle / "policy.onnx")
    contract = Contract.load(bundle)
    files = {**contract.files, "policy.onnx": sha256((bundle / "policy.onnx").read_bytes())}
    dataclasses.replace(contract, files=files).save(bundle)
    return bundle


@pytest.fixture(scope="module")
def case(weak) -> Case:
    """A load under which the weak policy falls."""
    contract = Contract.load(weak)
    return Case(
        task=contract.task, robot=contract.robot, joint_names=contract.joint_names, policy_sha256="0", seconds=3.0,
        contract_sha256="0", seed=0, command=((0.0, 0.0, 0.0, 0.0), (1.0, 0.5, 0.0, 0.0)), blows=(),
        twin=Twin(payload=0.15, payload_at=(0.01, 0.0, 0.0)), size=0.75, shares={"payload": 0.75}, says="falls",
        cause="base height", falls_after=0.5, falls=8,
    )  # fmt: skip


@pytest.mark.slow
def test_a_planted_weakness_is_found_and_shrunk(weak):
    found = search(weak, Budget(runs=400), threads=1)
    case, outcome = found.cases[0]
    assert found.runs <= 400 and outcome.failed and case.falls >= 6
    assert case.size == pytest.approx(np.linalg.norm(list(case.shares.values()))) and case.size < 0.4
    assert {"payload", "strength", "stiffness"} & set(case.shares) and len(case.shares) <= 4
    assert case.command == ((0.0, 0.0, 0.0, 0.0),) and case.blows == (), "what does not matter is dropped"
    assert f"{found.runs:,} runs" in found.words() and case.says in found.words()


@pytest.mark.slow
def test_a_search_with_the_same_runs_is_the_same_and_its_file_falls_again(weak, tmp_path):
    first, second = (search(weak, Budget(runs=200), threads=threads) for threads in (1, 2))
    assert first.cases and [case for case, _ in first.cases] == [case for case, _ in second.cases]
    (path, *_), why = save_cases(first, weak, tmp_path, video=False)
    case = load_case(path)
    assert case == first.cases[0][0] and why == "not asked for"
    assert case.says in section(first, [path], why).html()
    again = run_case(case, weak, threads=1)
    assert (again.falls, again.cause, again.falls_after) == (case.falls, case.cause, case.falls_after)


def test_a_stop_ends_the_search(weak):
    said: list[int] = []
    stopped = search(
        weak, Budget(stopped=lambda: len(said) >= 1), threads=1, show=lambda found, left: said.append(found.runs)
    )
    assert said == [stopped.runs] and stopped.runs == 32


def test_a_file_falls_again_and_a_better_policy_survives_it(case, weak, steady, tmp_path):
    kept = load_case(case.save(tmp_path / "case.json"))
    assert kept == case
    worse, better = (run_case(kept, bundle, threads=1) for bundle in (weak, steady))
    assert worse.failed and not worse.survived and f"{worse.falls} of 8 robots fell, after" in worse.words()
    assert better.survived and not better.failed and better.words() == "none of 8 robots fell"
    assert better.walk.command[25, 0].tolist() == [0.0, 0.0, 0.0], "robots rest before the first command"
    assert better.walk.command[75, 0].tolist() == [0.5, 0.0, 0.0]


def test_nothing_found_says_so_with_the_bounds(steady):
    nothing = search(steady, Budget(runs=32), threads=1)
    assert not nothing.cases and nothing.words() == "no failing case found in 32 runs"
    page = section(nothing, [], "not asked for").html()
    assert "friction" in page and "0.35 to 1.4" in page and "does not change the verdict" in page


@pytest.fixture(scope="module")
def space(steady) -> Space:
    return Space(Kind(steady, Contract.load(steady)), KNOTS)


def test_no_share_is_the_model_and_bounds_are_the_ends(space):
    still = np.zeros(space.dim)
    assert (space.twin(still), space.blows(still), space.size(still)) == (Twin(), (), 0.0)
    assert space.command(still) == ((0.0, 0.0, 0.0, 0.0),)
    names = [each.name for each in space.coordinates]
    point = still.copy()
    point[names.index("friction")], point[names.index("delay")], point[names.index("payload_at.x")] = -1.0, 0.5, 1.0
    point[space.blow_at[0]], point[space.blow_at[0] + 1] = 1.0, 1.0
    point = space.tidy(point)
    assert space.twin(point) == Twin(friction=0.35, delay=0.011), "the place of no payload means nothing"
    (blow,) = space.blows(point)
    assert np.hypot(*blow.impulse) == pytest.approx(space.strongest), "and no blow is stronger than its bound"
    assert space.size(point) == pytest.approx(1.5)
    point[space.told] = 1.0
    assert space.size(point) == pytest.approx(1.5), "commands are free"
    assert space.command(point)[1] == (1.0, 1.0, 1.0, 1.0)


def test_words_say_where_a_blow_comes_from(space, case, steady):
    space.strongest, point = 4.0, np.zeros(space.dim)
    point[space.blow_at[0] + 1], point[space.times] = -1.0, -1.0
    hit = dataclasses.replace(case, blows=space.blows(point), twin=Twin())
    words = space.says(space.tidy(point), run_case(hit, steady, threads=1))
    assert ": a blow of 4.00 m/s from the left at 1.5 s while walking ahead at 0.5 m/s" in words
    assert words.startswith("falls after 1.")


def test_words_of_commands():
    assert KNOTS.says((0.0, 0.01, 0.0)) == "standing"
    assert KNOTS.says((0.0, 0.0, -1.0)) == "turning right at 1 rad/s"
    assert KNOTS.says((-0.5, 0.3, 0.0)) == "walking back at 0.5 m/s and to the left at 0.3 m/s"


def test_a_robot_without_a_side_does_not_go_there(steady):
    contract = dataclasses.replace(
        Contract.load(steady), commands={"base_velocity": {"lin_vel_x": (0.0, 1.0), "lin_vel_y": (-0.1, 0.1),
                                                           "ang_vel_z": (-1.0, 1.0)}})  # fmt: skip
    assert KNOTS.told(np.array([[-1.0, 1.0, 0.5]]), contract).tolist() == [[0.0, 0.0, 0.5]]


@pytest.fixture
def written(case, tmp_path) -> Path:
    return case.save(tmp_path / "case-1.json")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"twin": {"friction": 9.0}}, ["friction is 9", "0.35 to 1.4"]),
        ({"twin": {"wheels": 4}}, ["'wheels'", "payload"]),
        ({"command": [[1.0, 0, 0, 0]]}, ["begin at 0"]),
        ({"blows": [{"at": 1.0}]}, ["damaged"]),
        ({"size": "large"}, ["damaged"]),
        ({"joint_names": 3}, ["damaged"]),
        ({"gaitway_case": 99}, ["no case of version 1"]),
    ],
)
def test_bad_files_are_refused_in_one_sentence(written, change, words):
    written.write_text(json.dumps(json.loads(written.read_text()) | change))
    with pytest.raises(CaseError) as refused:
        load_case(written)
    assert all(word in str(refused.value) for word in [*words, str(written)]) and "\n" not in str(refused.value)


def test_a_cut_file_is_refused(written):
    written.write_text(written.read_text()[:200])
    with pytest.raises(ValueError, match="not JSON, or cut off"):
        load_case(written)


def test_a_case_of_another_robot_or_range_is_refused(written, steady, tmp_path):
    contract = Contract.load(steady)
    (pair,) = load_cases(written.parent, contract)
    assert pair == (written, load_case(written))
    with pytest.raises(CaseError, match=r"anymal-c.*go2"):
        load_cases(written, dataclasses.replace(contract, robot="go2"))
    fast = dataclasses.replace(load_case(written), command=((0.0, 3.0, 0.0, 0.0),))
    with pytest.raises(CaseError, match=r"lin_vel_x is 3 .*-1 to 1"):
        fast.check(contract, written)
    with pytest.raises(CaseError, match="its base is fixed"):
        fast.check(dataclasses.replace(contract, fixed_base=True), written)
    (tmp_path / "none").mkdir()
    with pytest.raises(CaseError, match=r"no case-\*\.json"):
        load_cases(tmp_path / "none", contract)


def test_a_fixed_base_is_not_searched(steady, monkeypatch):
    fixed = dataclasses.replace(Contract.load(steady), fixed_base=True)
    monkeypatch.setattr(Contract, "load", lambda bundle: fixed)
    with pytest.raises(CaseError, match="base is fixed"):
        search(steady, Budget(runs=1))
