"""A wrong description is found out: its joint order, sign, scale or gain is named."""

from __future__ import annotations

import pytest
from gaitway_sim2real.diagnose import diagnose_bundle
from gaitway_sim2real.diagnose.record import record_bundle
from gaitway_sim2real.imports import bundle
from once import made_once
from sim2real.imports.published import bundle_of, description


@pytest.fixture(scope="module")
def right(tmp_path_factory):
    """Bundle of the rightly described policy, and its recording."""
    folder = made_once(tmp_path_factory, "described-bundle", bundle_of)
    path = tmp_path_factory.mktemp("right") / "recording.npz"
    record_bundle(folder / "bundle", seconds=1.5, envs=4).save(path)
    return folder / "bundle", path


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
def test_the_right_description_has_no_mismatch(right):
    assert diagnose_bundle(*right).findings == ()


@pytest.mark.slow
@pytest.mark.parametrize("case", WRONG)
def test_the_wrong_part_is_named(right, tmp_path, case, monkeypatch):
    (made, recording), (changes, named) = right, WRONG[case]
    if case == "gain":  # it is not in the graph
        monkeypatch.setattr(bundle, "bundle_graph", lambda *parts: (made / "policy.onnx").read_bytes())
    diagnosis = diagnose_bundle(bundle_of(tmp_path, **changes), recording)
    assert diagnosis.findings and all(part in diagnosis.summary() for part in named)
