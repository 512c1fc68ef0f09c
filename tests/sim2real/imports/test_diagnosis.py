"""A wrong description is found out: its joint order, sign, scale or gain is named."""

from __future__ import annotations

import pytest
from gaitway_sim2real.diagnose import diagnose_bundle
from gaitway_sim2real.diagnose.record import record_bundle
from gaitway_sim2real.imports.families import Options
from gaitway_sim2real.imports.readers import described
from sim2real.imports.published import description, linear_onnx, write


def bundle_of(folder, **changes):
    data = {key: value for key, value in description(**changes).items() if key != "family"}
    policy = described.load(
        write(folder / "policy.onnx", linear_onnx(45, 12)), write(folder / "d.yaml", data), Options()
    )
    return policy.export(folder / "bundle")


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """Recording of the rightly described policy."""
    folder = tmp_path_factory.mktemp("right")
    path = folder / "recording.npz"
    record_bundle(bundle_of(folder), seconds=1.5, envs=4).save(path)
    return path


def observation(**changes):
    """The usual terms with one changed."""
    terms = description()["observation"]
    return [term | changes.get(term["term"], {}) for term in terms]


JOINTS = description()["joints"]
WRONG = {
    "sign and scale": (
        {"observation": observation(joint_vel_rel={"scale": 0.1}, base_ang_vel={"scale": [-0.25, 0.25, 0.25]})},
        ("scale by 0.5", "base_ang_vel"),
    ),
    "order": (
        {"joints": [*JOINTS[3:6], *JOINTS[:3], *JOINTS[6:]]},
        ("FR_hip_joint, FR_thigh_joint, FR_calf_joint, FL",),
    ),
    "gain": ({"stiffness": 12.5}, ("stiffness should be about 25",)),
}


@pytest.mark.slow
def test_the_right_description_has_no_mismatch(recording, tmp_path):
    assert diagnose_bundle(bundle_of(tmp_path), recording).findings == ()


@pytest.mark.slow
@pytest.mark.parametrize("case", WRONG)
def test_the_wrong_part_is_named(recording, tmp_path, case):
    changes, named = WRONG[case]
    diagnosis = diagnose_bundle(bundle_of(tmp_path, **changes), recording)
    assert diagnosis.findings and all(part in diagnosis.summary() for part in named)
