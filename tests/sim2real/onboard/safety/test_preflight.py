"""Bundles that must not reach a robot, each with the reason and the fix; and those that may."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from gaitway_files.hardware import Hardware
from gaitway_onboard.bundle.contract import CONTRACT_FILE, BundleError, Contract, sha256
from gaitway_onboard.bundle.parts import Signal
from gaitway_onboard.bundle.verdict import seal
from gaitway_onboard.interface import DeployError
from gaitway_onboard.safety.preflight import check_bundle
from gaitway_sim2real.bundle.export import export_bundle
from gaitway_sim2real.hardware import hardware_from
from gaitway_sim2real.trial.intervals import Samples
from gaitway_sim2real.trial.result import ScenarioResult
from gaitway_sim2real.trial.verdict import Verdict
from gaitway_tasks.robots import ANYMAL_C, GO2
from gaitway_tasks.velocity import blind, velocity_flat
from gaitway_velocity.metrics import METRICS
from gaitway_velocity.scenarios import SCENARIOS

JOINTS = ANYMAL_C.joint_names


def every(value: float) -> dict[str, float]:
    return dict.fromkeys(JOINTS, value)


HARDWARE = Hardware(
    name="test-anymal",
    robot="anymal-c",
    family="ros2",
    motors=JOINTS[::-1],
    enable=dict.fromkeys(JOINTS, 1),
    effort_limit=every(80.0),
    velocity_limit=every(7.5),
    max_stiffness=every(40.0),
    max_damping=every(5.0),
    damping=every(5.0),
    joint_limits=dict(zip(JOINTS, ANYMAL_C.joint_limits, strict=True)),
)


def approve(bundle: Path, *, passed: bool = True, **changes: object) -> Path:
    """Write a verdict about the bundle as it is."""
    contract = Contract.load(bundle)
    samples = Samples(values=np.zeros(272), kind="share")
    result = ScenarioResult.of(
        SCENARIOS[0], dict.fromkeys([limit.metric for limit in SCENARIOS[0].limits], samples), {}, METRICS
    )
    check = dataclasses.replace(result.checks[0], passed=passed)
    fields = {
        "suite_version": "3.0",
        "seed": 0,
        "task": contract.task,
        "robot": contract.robot,
        "policy_sha256": contract.files["policy.onnx"],
        "contract_sha256": sha256((bundle / CONTRACT_FILE).read_bytes()),
        "model": "bundle",
        "model_sha256": "",
        "notes": (),
        "software": {},
        "scenarios": (dataclasses.replace(result, title="Command grid", required=True, checks=(check,)),),
    }
    return Verdict(**{**fields, **changes}).save(bundle / "validation.json")


@pytest.fixture
def approved(bundle: Path) -> Path:
    approve(bundle)
    return bundle


def refused(bundle: Path, hardware: Hardware = HARDWARE, **options: object) -> str:
    with pytest.raises(DeployError) as error:
        check_bundle(bundle, hardware, **options)
    return str(error.value)


def test_a_good_bundle_passes_whatever_the_order_of_the_motors(approved: Path) -> None:
    assert check_bundle(approved, HARDWARE) == ()
    assert check_bundle(approved, HARDWARE, i_know=True) == ()


def test_a_go2_bundle_fits_the_go2(actor, tmp_path: Path) -> None:
    bundle = export_bundle(blind(velocity_flat(GO2), 3), actor, tmp_path / "bundle", checkpoint_sha256="ab" * 32)
    approve(bundle)
    assert check_bundle(bundle, hardware_from(GO2)) == ()
    assert Contract.load(bundle).action.clip == GO2.joint_limits  # what a deployment would clip is clipped already
    assert "for the robot 'go2', and test-anymal is a 'anymal-c'" in refused(bundle)


def test_a_bundle_for_another_robot(approved: Path, reseal) -> None:
    assert "for the robot 'anymal-c', and unitree-go2 is a 'go2'" in refused(approved, hardware_from(GO2), i_know=True)
    reseal(approved, robot="go2")
    approve(approved)
    text = refused(approved, hardware_from(GO2), i_know=True)
    assert "the policy moves LF_HAA, LF_HFE" in text and "which no motor of the robot drives" in text
    assert "the policy does not move FR_hip_joint" in text and "driven as a whole" in text


def without(name: str, hardware: Hardware = HARDWARE) -> Hardware:
    """The robot without one of its motors."""
    tables = {
        field.name: {joint: value for joint, value in getattr(hardware, field.name).items() if joint != name}
        for field in dataclasses.fields(hardware)
        if field.name in ("enable", "effort_limit", "velocity_limit", "max_stiffness", "max_damping", "damping")
    }
    return dataclasses.replace(hardware, motors=tuple(j for j in hardware.motors if j != name), **tables)


def test_a_joint_without_a_motor(approved: Path) -> None:
    assert "the policy moves RH_KFE, which no motor of the robot drives" in refused(approved, without("RH_KFE"))


def test_names_permuted_in_the_contract(approved: Path, reseal) -> None:
    names = Contract.load(approved).joint_names
    swapped = (*names[3:6], *names[:3], *names[6:])
    reseal(approved, joint_names=swapped)
    approve(approved)
    text = refused(approved, i_know=True)
    assert "contract.yaml has the joints in the order LH_HAA, LH_HFE" in text and "export the run again" in text


def test_an_action_of_some_joints(approved: Path, reseal) -> None:
    descriptors = yaml.safe_load((approved / "io_descriptors.yaml").read_text())
    (row,) = descriptors["actions"]
    row["joint_names"] = row["joint_names"][:-2]
    (approved / "io_descriptors.yaml").write_text(yaml.safe_dump(descriptors))
    reseal(approved)
    approve(approved)
    assert check_bundle(approved, HARDWARE) == ()


def test_names_permuted_everywhere_but_in_the_policy(approved: Path, reseal) -> None:
    """Front and hind legs change places, with all that goes by joint: only what the policy did tells."""
    contract = Contract.load(approved)
    order = [3, 4, 5, 0, 1, 2, 9, 10, 11, 6, 7, 8]

    def moved(values):
        return tuple(values[index] for index in order)

    descriptors = yaml.safe_load((approved / "io_descriptors.yaml").read_text())
    for row in (*descriptors["actions"], *descriptors["articulations"].values()):
        row["joint_names"] = list(moved(row["joint_names"]))
    (approved / "io_descriptors.yaml").write_text(yaml.safe_dump(descriptors))
    action = dataclasses.replace(contract.action, offset=moved(contract.action.offset))
    reseal(
        approved,
        joint_names=moved(contract.joint_names),
        default_joint_pos=moved(contract.default_joint_pos),
        joint_pos_limits=moved(contract.joint_pos_limits),
        action=action,
    )
    approve(approved)
    text = refused(approved, i_know=True)
    assert "rad from what contract.yaml says of its action: its joints are permuted" in text


def changed(contract: Contract, **values: float) -> tuple:
    return tuple(dataclasses.replace(group, **values) for group in contract.actuators)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"stiffness": 41.0}, "stiffness [N m/rad] beyond what the motors bear: LF_HAA 41 (at most 40), LF_HFE 41"),
        ({"damping": 5.5}, "damping [N m s/rad] beyond what the motors bear: LF_HAA 5.5 (at most 5)"),
        ({"effort_limit": 81.0}, "effort_limit [N m] beyond what the motors bear: LF_HAA 81 (at most 80)"),
        ({"stiffness": 0.0}, "stiffness of LF_HAA, LF_HFE, LF_KFE and 9 more is zero"),
    ],
)
def test_gains_and_efforts_beyond_the_robot(approved: Path, reseal, values: dict, message: str) -> None:
    reseal(approved, actuators=changed(Contract.load(approved), **values))
    approve(approved)
    assert message in refused(approved, i_know=True)


def test_ranges_wider_than_the_robot_s(approved: Path, reseal) -> None:
    limits = list(Contract.load(approved).joint_pos_limits)
    limits[0] = (limits[0][0], 1.2)
    reseal(approved, joint_pos_limits=tuple(limits))
    approve(approved)
    assert "joint ranges [rad] wider than the robot's: LF_HAA [-0.72, 1.2] (the robot's is [-0.72, 0.49])" in refused(
        approved
    )


def test_a_default_pose_out_of_reach(approved: Path, reseal) -> None:
    pose = list(Contract.load(approved).default_joint_pos)
    pose[3] = 0.52
    reseal(approved, default_joint_pos=tuple(pose))
    approve(approved)
    assert "the default pose [rad] is out of reach: LH_HAA 0.52 (its range is [-0.72, 0.49])" in refused(approved)


@pytest.mark.parametrize("period", [0.003, 0.05])
def test_rates_that_do_not_divide(approved: Path, period: float) -> None:
    text = refused(approved, dataclasses.replace(HARDWARE, command_period=period))
    assert f"period of 20 ms is no multiple of the robot's {1e3 * period:g} ms" in text


def test_what_nobody_estimates(approved: Path, reseal) -> None:
    inputs = Contract.load(approved).inputs
    velocity = Signal(name="base_lin_vel", shape=("N", 3), unit="m/s")
    reseal(approved, inputs=(*inputs[:-1], velocity, inputs[-1]))
    approve(approved)
    text = refused(approved, i_know=True)
    assert "the policy reads base_lin_vel, which no sensor measures and no estimator gives (estimated: nothing)" in text
    assert check_bundle(approved, HARDWARE, provided=("base_lin_vel",)) == ()


def test_files_that_were_touched(approved: Path) -> None:
    (approved / "policy.onnx").write_bytes(b"another policy")
    with pytest.raises(BundleError, match="truncated or edited"):
        check_bundle(approved, HARDWARE, i_know=True)


# ---- the verdict ---------------------------------------------------------------------------------------------------


def doubtful(bundle: Path, message: str) -> None:
    text = refused(bundle)
    assert message in text and text.endswith("--i-know")
    (note,) = check_bundle(bundle, HARDWARE, i_know=True)
    assert note.startswith("NOT VALIDATED: ") and message in note


def test_no_verdict(bundle: Path) -> None:
    doubtful(bundle, "run gaitway validate first")


def test_a_verdict_of_fail(bundle: Path) -> None:
    approve(bundle, passed=False)
    doubtful(bundle, "failed its validation (Command grid)")


def test_a_verdict_about_another_policy(bundle: Path) -> None:
    approve(bundle, policy_sha256="0" * 64)
    doubtful(bundle, "is about another policy than")


def test_a_verdict_about_another_contract(approved: Path, reseal) -> None:
    reseal(approved, init_height=0.61)
    doubtful(approved, "is about another contract.yaml")


@pytest.mark.parametrize("changes", [{"model": "other.xml"}, {"suite_version": "3.0 (part)"}])
def test_a_verdict_of_less_than_the_suite(bundle: Path, changes: dict) -> None:
    approve(bundle, **changes)
    doubtful(bundle, "is not of the whole suite on the bundle's own model")


def test_a_pass_of_an_older_suite_is_let_through_with_a_warning(bundle: Path) -> None:
    approve(bundle)
    assert check_bundle(bundle, HARDWARE) == ()
    for suite, lacks in (("1.0", "the gait or how the robot stands"), ("2.0", "how the robot stands")):
        approve(bundle, suite_version=suite)
        [doubt] = check_bundle(bundle, HARDWARE)
        assert doubt.startswith("OLD VALIDATION: ") and doubt.endswith("run gaitway validate again")
        assert f"is of suite {suite}, which did not judge {lacks}, stops" in doubt


def test_a_verdict_that_was_edited(bundle: Path) -> None:
    path = approve(bundle, passed=False)
    data = json.loads(path.read_text())
    data["verdict"] = "PASS"
    path.write_text(json.dumps(data))
    doubtful(bundle, "has been edited since it was written")
    path.write_text(json.dumps(data | {"seal": "\u00e9"}))
    doubtful(bundle, "has been edited since it was written")
    path.write_text("{")
    doubtful(bundle, "is not JSON, or cut off")
    path.write_text("[]")
    doubtful(bundle, "is not a verdict of schema 1")


@pytest.mark.hostile("untrusted files")
@pytest.mark.parametrize(
    "changes",
    [
        {"verdict": 1}, {"contract_sha256": None}, {"model": []}, {"scenarios": None}, {"scenarios": [1]},
        {"scenarios": [{"title": "Walk"}]}, {"policy_sha256": "\ud800"},
    ],
    ids=str,
)  # fmt: skip
def test_a_verdict_that_was_sealed_by_a_stranger(bundle: Path, changes: dict) -> None:
    path = approve(bundle)
    data = json.loads(path.read_text()) | changes
    data["seal"] = seal({name: value for name, value in data.items() if name != "seal"})
    path.write_text(json.dumps(data))
    doubtful(bundle, "printable line" if "policy_sha256" in changes else "does not say what a verdict says")


def test_seals_are_those_of_validate(approved: Path) -> None:
    data = json.loads((approved / "validation.json").read_text())
    assert data.pop("seal") == seal(data)
