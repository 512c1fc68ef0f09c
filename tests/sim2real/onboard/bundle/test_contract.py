"""contract.yaml: lossless, validated, sealed."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from gaitway_onboard.bundle.contract import CONTRACT_FILE, SEAL, BundleError, Contract, is_bundle, verify_files
from gaitway_onboard.bundle.schema import CONTRACT_SCHEMA, problems
from hypothesis import given, settings
from hypothesis import strategies as st

FILES = ("policy.onnx", "golden.npz", "robot.xml", "robot_license.txt", "io_descriptors.yaml")


def test_save_then_load_returns_the_same_contract(bundle: Path, tmp_path: Path) -> None:
    contract = Contract.load(bundle)
    odd = dataclasses.replace(
        contract, default_joint_pos=tuple(k / 30 + 1e-17 * k for k in range(12)), init_height=1e-5
    )
    (tmp_path / "other").mkdir()
    odd.save(tmp_path / "other")
    assert Contract.load(tmp_path / "other") == odd


def test_contract_says_what_the_task_is(bundle: Path) -> None:
    contract = Contract.load(bundle)
    assert contract.task == "velocity-flat-anymal-c-blind"
    assert contract.joint_names[:3] == ("LF_HAA", "LF_HFE", "LF_KFE")
    [drive] = contract.actuators
    assert drive.law == "dc_motor" and drive.velocity_limit == 7.5 and drive.joints == contract.joint_names
    assert contract.per_joint("stiffness") == (40.0,) * 12 and contract.estimated == ()
    assert contract.decimation == 4
    assert contract.state_dim == 1 + 12 + 3 * 45
    assert [term.term for term in contract.observation][:2] == ["base_ang_vel", "projected_gravity"]
    assert contract.observation[1].signals == ("imu_quat_wxyz",)
    low, high = contract.soft_joint_pos_limits()[0]
    assert (low, high) == pytest.approx((-0.115 - 0.605 * 0.95, -0.115 + 0.605 * 0.95))


@pytest.fixture(scope="module")
def written(exported: Path) -> Any:
    """The contract's YAML."""
    return yaml.safe_load((exported / CONTRACT_FILE).read_text())


def test_the_file_itself_satisfies_the_published_schema(written: Any) -> None:
    jsonschema.Draft202012Validator.check_schema(CONTRACT_SCHEMA)
    jsonschema.validate(written, CONTRACT_SCHEMA)
    assert not list(problems(written, CONTRACT_SCHEMA))


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("harm", ["missing", "truncated", "edited", "emptied"])
def test_a_harmed_file_is_refused_by_name(bundle: Path, name: str, harm: str) -> None:
    path, content = bundle / name, (bundle / name).read_bytes()
    match harm:
        case "missing":
            path.unlink()
        case "truncated":
            path.write_bytes(content[: len(content) // 2])
        case "edited":
            path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        case "emptied":
            path.write_bytes(b"")
    with pytest.raises(BundleError, match=name.replace(".", r"\.")):
        verify_files(bundle)


def test_untouched_files_are_accepted_and_returned(bundle: Path) -> None:
    assert verify_files(bundle) == {name: (bundle / name).read_bytes() for name in FILES}


def test_every_truncation_of_the_contract_is_refused(bundle: Path) -> None:
    path = bundle / CONTRACT_FILE
    content = path.read_bytes()
    for length in itertools.chain(range(0, len(content) - 1, 97), [len(content) - 2]):
        path.write_bytes(content[:length])
        with pytest.raises(BundleError, match=r"contract\.yaml"):
            Contract.load(bundle)


@pytest.mark.parametrize(
    ("old", "new"),
    [("stiffness: 40.0", "stiffness: 80.0"), ("sha256: ", "sha256: 0"), ("control_dt: 0.02", "control_dt: 0.01")],
)
def test_an_edited_contract_is_refused(bundle: Path, old: str, new: str) -> None:
    path = bundle / CONTRACT_FILE
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(BundleError, match="edited"):
        Contract.load(bundle)


def test_a_contract_of_another_version_says_so(bundle: Path) -> None:
    path = bundle / CONTRACT_FILE
    path.write_text(path.read_text().replace("gaitway_contract: 3", "gaitway_contract: 7"))
    with pytest.raises(BundleError, match="versions 2 and 3: use the Gaitway that wrote it"):
        Contract.load(bundle)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"joint_names": ("a",) * 12}, "lists a twice"),
        ({"default_joint_pos": (0.0,)}, "default_joint_pos has 1 entries for 12"),
        ({"control_dt": 0.021}, "not a multiple of physics_dt"),
        ({"init_height": float("nan")}, "init_height is nan, expected a finite number"),
        ({"control_dt": -0.02}, "control_dt is -0.02, expected a finite number >= 0.0001 and <= 1"),
        ({"state_dim": 5}, "state has shape"),
        ({"task": ""}, "task is ''"),
        ({"checkpoint_sha256": "abc"}, "checkpoint_sha256 is 'abc'"),
        ({"joint_pos_limits": ((1.0, -1.0),) * 12}, "range of LF_HAA is empty"),
        ({"default_joint_pos": (20.0,) * 12}, r"LF_HAA is 20.0, outside .*\[-0.72, 0.49\].*0.3491 rad"),
    ],
)
def test_nonsense_is_refused_when_saved(bundle: Path, changes: dict[str, Any], message: str) -> None:
    before = (bundle / CONTRACT_FILE).read_bytes()
    with pytest.raises(BundleError, match=message):
        dataclasses.replace(Contract.load(bundle), **changes).save(bundle)
    assert (bundle / CONTRACT_FILE).read_bytes() == before


def test_nonsense_with_a_good_seal_is_refused_when_loaded(bundle: Path) -> None:
    path = bundle / CONTRACT_FILE
    body = path.read_text().rpartition("sha256: ")[0].replace("law: dc_motor", "law: hydraulic")
    path.write_text(f"{body}sha256: {hashlib.sha256(body.encode()).hexdigest()}\n")
    with pytest.raises(BundleError, match=r"actuators\[0\]\.law is 'hydraulic', expected one of dc_motor, implicit_pd"):
        Contract.load(bundle)


def test_folders_that_are_no_bundles(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="no such folder"):
        Contract.load(tmp_path / "nothing")
    with pytest.raises(BundleError, match=r"contract\.yaml is missing"):
        Contract.load(tmp_path)
    assert not is_bundle(tmp_path)


def mutations(data: Any) -> st.SearchStrategy[Any]:
    """``data`` with one value somewhere replaced, removed or added."""
    junk = st.sampled_from([None, True, 0, -1, 1.5, 1e300, 10**30, "", "x", [], {}, ["N", 12], [0.0, 1.0], "0" * 64])

    def change(draw: st.DrawFn, value: Any) -> Any:
        if isinstance(value, dict) and value and draw(st.integers(0, 9)):
            key = draw(st.sampled_from(sorted(value)))
            action = draw(st.sampled_from(["into", "into", "into", "remove", "add"]))
            rest = {k: v for k, v in value.items() if k != key}
            if action == "remove":
                return rest
            return {**value, "unknown": draw(junk)} if action == "add" else {**rest, key: change(draw, value[key])}
        if isinstance(value, list) and value and draw(st.integers(0, 3)):
            index = draw(st.integers(0, len(value) - 1))
            return [*value[:index], change(draw, value[index]), *value[index + 1 :]]
        return draw(junk)

    return st.composite(lambda draw: change(draw, data))()


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_our_checker_agrees_with_a_complete_schema_validator(written: Any, data: st.DataObject) -> None:
    mutant = data.draw(mutations(written))
    expected = jsonschema.Draft202012Validator(CONTRACT_SCHEMA).is_valid(mutant)
    assert (not list(problems(mutant, CONTRACT_SCHEMA))) == expected


def test_the_schema_uses_no_keyword_our_checker_ignores() -> None:
    known = {
        "$schema", "title", "description", "$defs", "$ref", "type", "const", "enum", "required", "properties",
        "additionalProperties", "items", "minItems", "maxItems", "minimum", "maximum", "exclusiveMinimum", "pattern",
        "oneOf",
    }  # fmt: skip

    def keywords(schema: Any) -> set[str]:
        if isinstance(schema, list):
            return set().union(*map(keywords, schema))
        if not isinstance(schema, dict):
            return set()
        named = {"properties", "$defs"}
        inside = [value for key, item in schema.items() if key in named for value in item.values()]
        return set(schema) | keywords(inside) | keywords([v for k, v in schema.items() if k not in named])

    assert keywords(CONTRACT_SCHEMA) <= known


def test_reading_a_contract_imports_no_torch() -> None:
    code = "import sys, gaitway_onboard.bundle.contract, gaitway_onboard.control.loop; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


POINT = {"x": (0.2, 0.5), "z": (-0.4, 0.3)}
FREE = {"commands": {"point": POINT}, "operator": "numbers", "command_acceleration": (0.5, 0.5)}
"""A command of two numbers, for which the bundle's inputs are not made."""


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"commands": {}}, "commands has nothing, and a bundle has one command"),
        ({"commands": {"point": {}}}, "commands has point, and a bundle has one command with numbers"),
        ({"commands": {"a": POINT, "b": POINT}}, "commands has a, b, and a bundle has one command"),
        (
            {"commands": {"point": POINT}},
            "has x, z; a velocity has lin_vel_x, lin_vel_y, ang_vel_z, others",
        ),
        ({"operator": "sorcery"}, "operator is 'sorcery', expected one of velocity, numbers"),
        (
            {**FREE, "command_acceleration": None},
            "command_acceleration is missing, and nothing else limits how fast",
        ),
        ({**FREE, "command_acceleration": (0.5,)}, "command_acceleration has 1 entries for 2 numbers of the command"),
        ({**FREE, "command_rest": (0.2, 0.5)}, r"command_rest of z is 0.5, outside its range \[-0.4, 0.3\]"),
        ({**FREE}, "the unit of command is '.*'; expected one, and a comma, for each of x, z"),
        (
            {"fixed_base": True},
            "gyro, command, .*; expected joint_pos, joint_vel, command",
        ),
        ({"fixed_base": "yes"}, "fixed_base is 'yes', expected true or false"),
        ({"foot_bodies": ()}, "foot_bodies is empty, which only a robot with fixed_base may have"),
    ],
)
def test_faults_of_commands_and_bases(bundle: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BundleError, match=message):
        dataclasses.replace(Contract.load(bundle), **changes).save(bundle)


def test_contracts_of_version_2_are_read(bundle: Path) -> None:
    """They have no operator and no kind of base: velocities, on a free one."""
    now = Contract.load(bundle)
    path = bundle / CONTRACT_FILE
    body = path.read_text().rpartition(SEAL)[0].replace("gaitway_contract: 3", "gaitway_contract: 2")
    body = body.replace("operator: velocity\n", "")
    path.write_text(f"{body}{SEAL}{hashlib.sha256(body.encode()).hexdigest()}\n")
    then = Contract.load(bundle)
    assert then == dataclasses.replace(now, gaitway_contract=2)
    assert (then.operator, then.fixed_base, then.still) == ("velocity", None, (0.0, 0.0, 0.0))
