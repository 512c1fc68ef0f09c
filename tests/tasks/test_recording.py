"""The file format: what goes in comes out, and what is wrong is named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gaitway_tasks.recording import MIN_STEPS, Recording, RecordingError, RolloutBuffer

T, N, J = MIN_STEPS, 2, 3


def values(**changes: Any) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    quat = rng.normal(size=(T, N, 4)).astype(np.float32)
    shapes = {
        "observation": 5, "action": J, "joint_pos": J, "joint_vel": J, "root_pos_w": 3, "root_lin_vel": 3,
        "root_ang_vel": 3, "command": 3,
    }  # fmt: skip
    arrays = {name: rng.normal(size=(T, N, width)).astype(np.float32) for name, width in shapes.items()}
    about = {
        "joint_names": ("a", "b", "c"), "quat_order": "wxyz", "velocity_frame": "base", "control_dt": 0.02,
        "physics_dt": 0.005, "simulator": "a test", "starts_at_reset": True, "observation_noise": False,
        "flat_ground": True,
    }  # fmt: skip
    done = np.zeros((T, N), bool)
    quat /= np.linalg.norm(quat, axis=-1, keepdims=True)
    return {**arrays, **about, "root_quat": quat, "done": done, **changes}


def test_what_goes_in_comes_out(tmp_path: Path) -> None:
    recording = Recording(**values(joint_pos_target=np.ones((T, N, J), np.float32)))
    path = recording.save(tmp_path / "rollout")
    assert path == tmp_path / "rollout.npz" and [p.name for p in tmp_path.iterdir()] == ["rollout.npz"]
    again = Recording.load(path)
    for name, value in vars(recording).items():
        np.testing.assert_array_equal(getattr(again, name), value, err_msg=name)
    assert again.torques_held is None
    held = Recording(**values(torques_held=True)).save(tmp_path / "held")
    assert Recording.load(held).torques_held is True
    assert again.joint_names == ("a", "b", "c") and again.applied_torque is None


def test_a_buffer_collects_rows() -> None:
    given = values()
    about = {name: value for name, value in given.items() if not isinstance(value, np.ndarray)}
    buffer = RolloutBuffer(**about)
    with pytest.raises(RecordingError, match="nothing has been recorded"):
        buffer.recording()
    for t in range(T):
        buffer.add({name: value[t] for name, value in given.items() if isinstance(value, np.ndarray)})
    np.testing.assert_array_equal(buffer.recording().joint_vel, given["joint_vel"])


def bad(name: str, change: Any) -> dict[str, Any]:
    return values(**{name: change(values()[name].copy() if isinstance(values()[name], np.ndarray) else values()[name])})


def put(value: float) -> Any:
    def change(array: np.ndarray) -> np.ndarray:
        array[3, 1, 2] = value
        return array

    return change


FAULTS = {
    "shape": ("joint_pos", lambda a: a[:, :, :2], r"joint_pos has shape .*, expected \(20, 2, 3\)"),
    "not finite": ("joint_vel", put(np.nan), "joint_vel is nan at step 3, environment 1, column 2"),
    "type": ("done", lambda a: a.astype(np.float32), "done has type float32: use bool"),
    "integers": ("action", lambda a: a.astype(int), "action has type int64"),
    "quaternion": ("root_quat", lambda a: 2 * a, "no unit quaternion"),
    "order": ("quat_order", lambda _: "zyxw", "quat_order is 'zyxw'"),
    "frame": ("velocity_frame", lambda _: "body", "velocity_frame is 'body'"),
    "rates": ("physics_dt", lambda _: 0.007, "control_dt 0.02 is not a multiple of physics_dt 0.007"),
    "twice": ("joint_names", lambda _: ("a", "b", "a"), "joint_names lists a twice"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_named(fault: str) -> None:
    name, change, message = FAULTS[fault]
    with pytest.raises(RecordingError, match=message):
        Recording(**bad(name, change))


def test_too_short() -> None:
    short = {name: v[:5] if isinstance(v, np.ndarray) else v for name, v in values().items()}
    with pytest.raises(RecordingError, match="at least 20 steps"):
        Recording(**short)


def test_files_that_are_none(tmp_path: Path) -> None:
    path = Recording(**values()).save(tmp_path / "good")
    content = dict(np.load(path))

    def written(**changes: Any) -> Path:
        file = tmp_path / f"bad{len(list(tmp_path.iterdir()))}.npz"
        np.savez(file, **{k: v for k, v in {**content, **changes}.items() if v is not None})
        return file

    for broken, message in (
        (tmp_path / "none.npz", "no recording at"),
        (written(format=None), "is no recording"),
        (written(version=np.array(7)), "recording version 7"),
        (written(joint_vel=None), "lacks joint_vel"),
        (written(jont_pos=content["joint_pos"]), "holds jont_pos.*do you mean 'joint_pos'"),
        (written(control_dt=np.zeros(2)), "control_dt has shape"),
        (written(version=np.array(["1", "2"])), "recording version"),
        (written(control_dt=np.array("soon")), "control_dt is 'soon', expected a finite number"),
        (written(physics_dt=np.array(b"\xff")), "plain arrays"),
        (written(control_dt=np.array(1j)), "plain arrays|expected a finite number"),
        (written(control_dt=np.array(np.nan)), "control_dt is nan, expected a finite number"),
        (written(physics_dt=np.array(np.inf)), "physics_dt is inf, expected a finite number"),
        (written(starts_at_reset=np.array(21)), "starts_at_reset is 21, expected true or false"),
        (written(flat_ground=np.array("yes")), "flat_ground is 'yes', expected true or false"),
        (written(simulator=np.array(4.0)), "simulator is 4.0, expected text"),
        (written(done=np.ones_like(content["done"])), "no two rows follow each other"),
        (written(observation=np.array([{}, None], dtype=object)), "plain arrays"),
    ):
        with pytest.raises(RecordingError, match=message):
            Recording.load(broken)
    path.write_bytes(path.read_bytes()[:900])
    with pytest.raises(RecordingError, match="cut short"):
        Recording.load(path)
    np.savez(tmp_path / "pickled.npz", format=np.array([{}], dtype=object))
    with pytest.raises(RecordingError, match=r"no \.npz archive of plain arrays"):
        Recording.load(tmp_path / "pickled.npz")


def test_changed_copies_are_checked() -> None:
    with pytest.raises(RecordingError):
        replace(Recording(**values()), joint_pos=np.zeros((T, N, 7), np.float32))
