"""Descriptions in files: what is read, what comes back, and what is refused with the line to mend."""

from __future__ import annotations

import pytest
import yaml
from gaitway_files.errors import UserError
from gaitway_sim2real.imports.description_file import as_data, description_from
from gaitway_sim2real.imports.readers.described import TEMPLATE
from sim2real.imports.published import description, mangled


def test_numbers_of_joints_are_one_for_all_a_list_or_patterns():
    d = description_from(description(stiffness=list(range(12)), damping=0.5), "d.yaml")
    assert d.default_joint_pos[:3] == (0.1, 0.8, -1.5) and d.stiffness[11] == 11.0 and d.damping == (0.5,) * 12
    assert d.action.offset == d.default_joint_pos and d.action.scale == (0.25,) * 12


def test_a_description_comes_back_the_same():
    whole = description(
        action={"scale": 0.25, "raw_clip": 100.0, "clip": [-3.0, 3.0]},
        history={"ages": [1, 0], "by": "step", "fill": "zeros"},
        clock={"frequency": 1.5, "offsets": [0.0, 0.5], "rest_below": 0.1},
        held={"stiffness": {".*": 20.0}},
        guessed={"rate": "50 Hz"},
        notes=["a note"],
    )
    d = description_from(whole, "d.yaml")
    assert description_from(yaml.safe_load(yaml.safe_dump(as_data(d))), "again.yaml") == d


def test_the_template_is_a_description():
    d = description_from(yaml.safe_load(TEMPLATE), "template.yaml", family="described")
    assert d.observation_dim == 3 + 3 + 3 + 4 + 4 + 4


REFUSED = {
    "joints_twice": ({"joints": ["FR_hip_joint", "FL_hip_joint", "FR_hip_joint"]}, ("joints", "FR_hip_joint twice")),
    "no_pattern": ({"default_joint_pos": {".*hip.*": 0.1}}, ("default_joint_pos", "FR_thigh_joint")),
    "list_too_short": ({"stiffness": [1.0, 2.0]}, ("stiffness", "2", "12")),
    "unknown_key": ({"stifness": 2.0}, ("stifness", "stiffness")),
    "unknown_term": ({"observation": ["base_height"]}, ("base_height", "base_ang_vel")),
    "no_clock": ({"observation": ["phase_sin"]}, ("phase_sin", "clock")),
    "no_observation": ({"observation": []}, ("observation",)),
    "scale_of_term": ({"observation": [{"term": "base_ang_vel", "scale": [1.0, 2.0]}]}, ("scale", "2", "3")),
    "columns": ({"observation": [{"term": "base_ang_vel", "columns": [3]}]}, ("columns", "[3]", "3")),
    "empty_range": (
        {"command": {"ranges": {"lin_vel_x": [1.0, -1.0], "lin_vel_y": [0, 0], "ang_vel_z": [0, 0]}}},
        ("lin_vel_x", "[1.0, -1.0]"),
    ),
    "no_axis": ({"command": {"ranges": {"lin_vel_x": [0, 1]}}}, ("lin_vel_y", "ang_vel_z")),
    "text_for_a_number": ({"control_dt": "fast"}, ("control_dt", "fast", "float")),
    "not_finite_rate": ({"control_dt": 0.0}, ("control_dt", "0.0")),
    "not_a_number": ({"stiffness": float("nan")}, ("stiffness", "nan")),
    "endless_clock": ({"clock": {"frequency": float("inf")}}, ("frequency", "inf")),
    "history": ({"history": {"ages": [-1]}}, ("history", "ages")),
    "history_of_a_year": ({"history": {"ages": [10**9]}}, ("history.ages", "1000")),
    "ages_of_a_term": ({"observation": [{"term": "base_ang_vel", "ages": [-1]}]}, ("observation[0].ages", "1000")),
    "ages_of_a_frame": (
        {"observation": [{"term": "base_ang_vel", "ages": [1]}], "history": {"ages": [0], "by": "step"}},
        ("ages of its own", "term"),
    ),
    "moving_without_clock": ({"observation": ["moving"]}, ("moving", "clock")),
    "stance": ({"clock": {"frequency": 1.0, "stance": 1.0}}, ("clock.stance", "1", "between")),
    "history_by": ({"history": {"ages": [0], "by": "row"}}, ("row", "term", "step")),
    "physics_step": ({"physics_dt": 0.0}, ("physics_dt", "0.0")),
    "fill": ({"history": {"ages": [0], "fill": "mean"}}, ("mean", "first", "zeros")),
    "moves_unknown": ({"action": {"joints": ["wheel"]}}, ("wheel", "FR_hip_joint")),
    "zeroed_unknown": ({"observation": [{"term": "joint_pos", "zeroed": ["head"]}]}, ("head", "FR_hip_joint")),
    "step_of_nothing": ({"control_dt": 1e-300}, ("control_dt", "1e-300", "0.0001")),
    "physics_of_nothing": ({"physics_dt": 1e-300}, ("physics_dt", "1e-300", "1000")),
    "range_without_end": (
        {"command": {"ranges": {"lin_vel_x": [-1e308, 1e308], "lin_vel_y": [0, 0], "ang_vel_z": [0, 0]}}},
        ("lin_vel_x", "1e+308"),
    ),
    "frames_without_end": ({"history": {"ages": [0] * 50_000}}, ("50000 frames", "100000")),
    "terms_without_end": ({"observation": ["last_action"] * 100_000}, ("observation has 100000", "256")),
    "joints_without_end": ({"joints": [f"j{k}" for k in range(100_000)]}, ("joints has 100000", "256")),
    "patterns_without_end": ({"stiffness": {f"j{k}": 1.0 for k in range(100_000)}}, ("stiffness has 100000", "256")),
    "pattern_without_end": ({"stiffness": {"(.*)*x": 1.0}}, ("stiffness", "FR_hip_joint")),
    "lines_in_a_note": ({"notes": ["harmless\nsigned by nvidia"]}, ("harmless", "printable line")),
    "no_mapping": ({"command": 3}, ("command", "3")),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_run_is_refused_with_its_place(case):
    changes, parts = REFUSED[case]
    with pytest.raises(UserError) as error:
        description_from(description(**changes), "mine.yaml")
    said = str(error.value)
    assert all(part in said for part in parts) and ("mine.yaml" in said or "walk" in said)


@pytest.mark.parametrize("key", ["joints", "observation", "control_dt", "command", "stiffness"])
def test_what_is_missing_is_named(key):
    data = description()
    del data[key]
    with pytest.raises(UserError, match=key):
        description_from(data, "mine.yaml")


def test_a_clock_faster_than_half_the_rate_is_refused():
    from gaitway_sim2real.imports.policy import Observer

    d = description_from(description(observation=["phase_sin"], clock={"frequency": 30.0}), "d.yaml")
    with pytest.raises(UserError, match="30 Hz"):
        Observer(d, d.joints)


def test_whatever_stands_in_a_description_is_read_or_refused():
    whole = description(
        action={"scale": 0.25, "raw_clip": 100.0, "clip": [-3.0, 3.0], "joints": ["FR_hip_joint"], "offset": 0.1},
        history={"ages": [1, 0], "by": "step", "fill": "zeros"},
        clock={"frequency": 1.5, "offsets": [0.0, 0.5], "rest_below": 0.1},
        held={"stiffness": {".*": 20.0}},
        guessed={"rate": "50 Hz"},
        notes=["a note"],
    )
    refused = 0
    for place, changed in mangled(whole):
        try:
            description_from(changed, "mine.yaml")
        except UserError:
            refused += 1
        except Exception as error:
            pytest.fail(f"{place}: {error!r}")
    assert refused > 200
