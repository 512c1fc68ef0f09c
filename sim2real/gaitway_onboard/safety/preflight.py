"""Checks of a bundle before anything can move: it must be for this robot, and validated."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from gaitway_files.archives import parse_npz
from gaitway_files.hardware import Hardware
from gaitway_files.reading import FileError
from gaitway_files.yaml_files import parse_yaml

from ..bundle.contract import CONTRACT_FILE, FILE_BYTES, WHAT_TO_DO, Contract, sha256, verify_files
from ..bundle.verdict import AGAIN, REHEARSAL, REHEARSAL_FILE, VERDICT_FILE, VerdictError, old_suite, read_verdict
from ..interface import DeployError

ANGLE = 1e-3  # [rad]; contracts are lossless, models of other makers are rounded


def check_bundle(
    bundle: str | Path, hardware: Hardware, *, provided: Collection[str] = (), i_know: bool = False
) -> tuple[str, ...]:
    """Raise :class:`DeployError`, or the bundle's own :class:`BundleError`, unless ``hardware`` may run it.

    ``provided`` are the signals of ``Contract.estimated`` that are estimated on the robot. ``i_know`` lets a bundle
    pass that was not validated, or failed; what it let pass is returned, to be shown to the person who said so, and so
    is that a PASS is of an old suite.
    """
    bundle = Path(bundle)
    files = verify_files(bundle)
    contract = Contract.load(bundle)
    if contract.robot != hardware.robot:
        raise DeployError(
            f"{bundle} is for the robot {contract.robot!r}, and {hardware.name} is a {hardware.robot!r}: "
            "deploy a bundle that was trained for it"
        )
    if "object_pos" in contract.estimated and "object_pos" not in provided:
        raise DeployError(
            f"{bundle} must not run on {hardware.name}: the policy reads where the "
            f"{' and '.join(contract.objects or ())} is (object_pos), and neither the robot nor its twin knows. A "
            "camera has to tell it, and no transport carries that yet: use gaitway run, whose simulation has the object"
        )
    faults = [*_joints(contract, hardware), *_order(contract, files)]
    if not faults:  # what follows goes by joint
        faults = [*_limits(contract, hardware), *_rates(contract, hardware), *_signals(contract, provided)]
    if faults:
        more = f" (and {len(faults) - 5} more)" if len(faults) > 5 else ""
        raise DeployError(f"{bundle} must not run on {hardware.name}: {'; '.join(faults[:5])}{more}")
    doubt = _validation(bundle, contract)
    if doubt is None:
        return _age(bundle)
    if not i_know:
        raise DeployError(f"{doubt}. To run it at your own risk: --i-know")
    return (f"NOT VALIDATED: {doubt}",)


def _joints(contract: Contract, hardware: Hardware) -> Iterator[str]:
    driven, known = hardware.joint_names, contract.joint_names
    if unknown := [name for name in known if name not in driven]:
        yield f"the policy moves {', '.join(unknown)}, which no motor of the robot drives"
    if free := [name for name in driven if name not in known]:
        yield (
            f"the policy does not move {', '.join(free)}, and a robot is driven as a whole: "
            "train a policy of all its joints"
        )


def _order(contract: Contract, files: dict[str, bytes]) -> Iterator[str]:
    """Joint names are all that leads from numbers to motors, so the bundle's other files must tell the same order."""
    try:
        descriptors = parse_yaml(files["io_descriptors.yaml"], "io_descriptors.yaml")
        golden = parse_npz(files["golden.npz"], "golden.npz", limit=FILE_BYTES)
    except FileError as error:
        raise DeployError(f"{error}: {WHAT_TO_DO}") from None
    for where, names in _joint_lists(descriptors):
        # An action may move some joints only.
        wanted = [name for name in contract.joint_names if where != "actions" or name in names]
        if names != wanted:
            yield (
                f"{CONTRACT_FILE} has the joints in the order {', '.join(contract.joint_names)}, and "
                f"io_descriptors.yaml ({where}) in the order {', '.join(map(str, names))}: {WHAT_TO_DO}"
            )
            return
    recorded, action = (golden.get(name, np.zeros(0)) for name in ("joint_pos_target", "action"))
    if recorded.shape != action.shape or action.shape[1:] != (contract.num_joints,) or not len(action):
        yield f"golden.npz is not a recording of {contract.num_joints} joints: {WHAT_TO_DO}"
        return
    recorded, action = recorded.astype(float), action.astype(float)
    law = contract.action
    if law.raw_clip is not None:
        action = np.clip(action, -law.raw_clip, law.raw_clip)
    targets = np.array(law.offset) + np.array(law.scale) * action
    if law.clip is not None:
        targets = np.clip(targets, *np.array(law.clip).T)
    off = np.abs(targets - recorded).max(0)
    if not off.max() < ANGLE:
        joint = contract.joint_names[int(off.argmax())]
        yield (
            f"the recorded targets of {joint} are {off.max():.3g} rad from what {CONTRACT_FILE} says of its action: "
            f"its joints are permuted, or it belongs to another policy: {WHAT_TO_DO}"
        )


def _joint_lists(descriptors: Any) -> Iterator[tuple[str, list[Any]]]:
    """Joint lists in io_descriptors.yaml, action first; a term may read some of them only."""
    if not isinstance(descriptors, dict):
        return
    actions, robots = descriptors.get("actions"), descriptors.get("articulations")
    rows = [("actions", row) for row in (actions if isinstance(actions, list) else ())]
    rows += [(str(name), row) for name, row in (robots.items() if isinstance(robots, dict) else ())]
    for where, row in rows:
        if isinstance(row, dict) and isinstance(names := row.get("joint_names"), list) and names:
            yield where, names


def _limits(contract: Contract, hardware: Hardware) -> Iterator[str]:
    gains = {
        "stiffness": (hardware.max_stiffness, "N m/rad", "with a softer drive"),
        "damping": (hardware.max_damping, "N m s/rad", "with less damping"),
        "effort_limit": (hardware.effort_limit, "N m", "with the robot's limit"),
    }
    for key, (bounds, unit, how) in gains.items():
        wrong = [
            f"{name} {value:g} (at most {bounds[name]:g})"
            for name, value in zip(contract.joint_names, contract.per_joint(key), strict=True)
            if not value <= bounds[name]
        ]
        if wrong:
            yield f"{key} [{unit}] beyond what the motors bear: {_few(wrong)}: train {how}"
    soft = [
        name
        for name, value in zip(contract.joint_names, contract.per_joint("stiffness"), strict=True)
        if not value > 0.0
    ]
    if soft:
        yield f"stiffness of {_few(soft)} is zero: targets would not be followed"
    ranges, true = dict(zip(contract.joint_names, contract.joint_pos_limits, strict=True)), hardware.joint_limits
    if true:
        wide = [
            f"{name} [{low:g}, {high:g}] (the robot's is [{true[name][0]:g}, {true[name][1]:g}])"
            for name, (low, high) in ranges.items()
            if not (low >= true[name][0] - ANGLE and high <= true[name][1] + ANGLE)
        ]
        if wide:
            yield f"joint ranges [rad] wider than the robot's: {_few(wide)}: {WHAT_TO_DO}"
    outside = [
        f"{name} {angle:g} (its range is [{ranges[name][0]:g}, {ranges[name][1]:g}])"
        for name, angle in zip(contract.joint_names, contract.default_joint_pos, strict=True)
        if not ranges[name][0] <= angle <= ranges[name][1]
    ]
    if outside:
        yield f"the default pose [rad] is out of reach: {_few(outside)}: {WHAT_TO_DO}"


def _rates(contract: Contract, hardware: Hardware) -> Iterator[str]:
    ratio = contract.control_dt / hardware.command_period
    if round(ratio) < 1 or not math.isclose(ratio, round(ratio), rel_tol=1e-6):
        yield (
            f"the policy's period of {1e3 * contract.control_dt:g} ms is no multiple of the robot's "
            f"{1e3 * hardware.command_period:g} ms: train at a rate that is, such as 50 Hz"
        )


def _signals(contract: Contract, provided: Collection[str]) -> Iterator[str]:
    if missing := [name for name in contract.estimated if name not in provided]:
        yield (
            f"the policy reads {' and '.join(missing)}, which no sensor measures and no estimator gives (estimated: "
            f"{', '.join(provided) or 'nothing'}): train from what the robot measures, as the tasks named ...-blind do"
            + (", or give it heights from a map of your own: docs/ground.md" if "height_scan" in missing else "")
        )


def _validation(bundle: Path, contract: Contract) -> str | None:
    """Reason why the bundle does not count as validated, or None."""
    try:
        verdict = read_verdict(bundle / VERDICT_FILE, policy=bundle / "policy.onnx")
    except VerdictError as error:
        return str(error)
    if verdict["contract_sha256"] != sha256((bundle / CONTRACT_FILE).read_bytes()):
        return f"{bundle / VERDICT_FILE} is about another {CONTRACT_FILE}: {AGAIN}"
    if verdict["model"] != "bundle" or verdict["suite_version"].endswith("(part)"):
        return f"{bundle / VERDICT_FILE} is not of the whole suite on the bundle's own model: {AGAIN}"
    if verdict["verdict"] != "PASS":
        failed = [row["title"] for row in verdict["scenarios"] if row["required"] and not row["passed"]]
        return f"{bundle} failed its validation ({_few(failed)}): train longer, see its report.html"
    return None


def _age(bundle: Path) -> tuple[str, ...]:
    """A warning if a bundle's verdict is of a suite that judged less than today's."""
    path = bundle / VERDICT_FILE
    doubt = old_suite(read_verdict(path, policy=bundle / "policy.onnx")["suite_version"])
    return () if doubt is None else (f"OLD VALIDATION: {path} {doubt}",)


def rehearsal_doubts(bundle: Path, hardware: Hardware) -> tuple[str, ...]:
    """Doubts about this bundle's rehearsal with this robot: they are printed, and refuse nothing."""
    path = bundle / REHEARSAL_FILE
    try:
        found = read_verdict(path, policy=bundle / "policy.onnx", kind=REHEARSAL)
    except VerdictError as error:
        return (f"NOT REHEARSED: {error}",)
    if found["robot"] != hardware.name or found["contract_sha256"] != sha256((bundle / CONTRACT_FILE).read_bytes()):
        return (f"NOT REHEARSED: {path} is about another robot or another {CONTRACT_FILE}: {REHEARSAL.again}",)
    if found["verdict"] != "PASS":
        failed = [" in ".join(filter(None, (row["name"], row["mode"]))) for row in found["trials"] if not row["passed"]]
        return (f"FAILED ITS REHEARSAL: {_few(failed)}; see its report",)
    return ()


def _few(items: list[str]) -> str:
    return ", ".join(items[:3]) + (f" and {len(items) - 3} more" if len(items) > 3 else "")
