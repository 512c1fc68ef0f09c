"""A recording in the contract's terms: joints in its order, quaternions w, x, y, z, velocities in both frames."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from gaitway_onboard.bundle.contract import Contract
from gaitway_onboard.rotation import quat_apply, quat_apply_inverse
from gaitway_tasks.recording import Recording, RecordingError

UPRIGHT = 0.7  # mean of the base's z axis along the vertical, above which robots are on their feet


@dataclass(frozen=True, kw_only=True, eq=False)
class View:
    """T steps, N environments, J joints of the contract; float64."""

    recording: Recording
    contract: Contract
    joint_pos: np.ndarray
    joint_vel: np.ndarray
    target: np.ndarray | None
    quat: np.ndarray  # (T, N, 4) w, x, y, z
    root_pos: np.ndarray
    lin_vel_b: np.ndarray
    lin_vel_w: np.ndarray
    ang_vel_b: np.ndarray
    ang_vel_w: np.ndarray
    command: np.ndarray
    action: np.ndarray
    observation: np.ndarray
    first: np.ndarray  # (T, N) bool, row 0 of an episode
    age: np.ndarray  # (T, N) rows since the start of the episode, or of the recording
    start_known: np.ndarray  # (T, N) bool, the episode's row 0 is in the recording

    @property
    def continues(self) -> np.ndarray:
        """Rows t and t + 1 belong to one episode, (T - 1, N)."""
        return ~self.first[1:]

    @property
    def com_lin_vel_b(self) -> np.ndarray | None:
        value = self.recording.root_com_lin_vel
        if value is None or self.recording.velocity_frame == "base":
            return value
        return quat_apply_inverse(self.quat, value)


def view_of(recording: Recording, contract: Contract) -> View:
    """Map a recording to the contract by name; raises :class:`RecordingError` if they do not fit."""
    names, wanted = recording.joint_names, contract.joint_names
    faults = [f"the recording lacks {n}" for n in wanted if n not in names]
    faults += [f"the contract does not know {n}" for n in names if n not in wanted]
    if faults:
        raise RecordingError(f"the recorded joints are not those of {contract.robot}: {'; '.join(faults[:4])}")
    if recording.action.shape[2] != contract.num_joints:
        raise RecordingError(
            f"action has {recording.action.shape[2]} columns, the bundle's policy commands {contract.num_joints} joints"
        )
    if abs(recording.control_dt - contract.control_dt) > 1e-6:
        raise RecordingError(
            f"the recording's control_dt is {recording.control_dt} s, the bundle's {contract.control_dt} s: a policy "
            "runs at the rate it was trained at; record with the task of the bundle"
        )
    order = [names.index(name) for name in wanted]

    def joints(values: np.ndarray | None) -> np.ndarray | None:
        return None if values is None else values[..., order].astype(float)

    quat = recording.root_quat.astype(float)
    if recording.quat_order == "xyzw":
        quat = np.roll(quat, 1, axis=-1)
    _check_upright(quat, recording)
    quat /= np.linalg.norm(quat, axis=-1, keepdims=True)
    lin, ang = recording.root_lin_vel.astype(float), recording.root_ang_vel.astype(float)
    to_w, to_b = lambda v: quat_apply(quat, v), lambda v: quat_apply_inverse(quat, v)
    in_base = recording.velocity_frame == "base"
    first = np.concatenate([np.full((1, recording.num_envs), True), recording.done[:-1]])
    age, start = np.zeros(first.shape, int), np.full(first.shape, recording.starts_at_reset)
    for t in range(1, len(first)):
        age[t] = np.where(first[t], 0, age[t - 1] + 1)
        start[t] = np.where(first[t], True, start[t - 1])
    joint_pos, joint_vel = joints(recording.joint_pos), joints(recording.joint_vel)
    assert joint_pos is not None and joint_vel is not None
    return View(
        recording=recording,
        contract=contract,
        joint_pos=joint_pos,
        joint_vel=joint_vel,
        target=joints(recording.joint_pos_target),
        quat=quat,
        root_pos=recording.root_pos_w.astype(float),
        lin_vel_b=lin if in_base else to_b(lin),
        lin_vel_w=to_w(lin) if in_base else lin,
        ang_vel_b=ang if in_base else to_b(ang),
        ang_vel_w=to_w(ang) if in_base else ang,
        command=recording.command.astype(float),
        action=recording.action.astype(float),
        observation=recording.observation.astype(float),
        first=first,
        age=age,
        start_known=start,
    )


def _check_upright(quat: np.ndarray, recording: Recording) -> None:
    """Refuse a quaternion order under which the robot lies about and another under which it stands."""

    def up(q: np.ndarray) -> float:
        return float(np.mean(1.0 - 2.0 * (q[..., 1] ** 2 + q[..., 2] ** 2)))

    other = "xyzw" if recording.quat_order == "wxyz" else "wxyz"
    turned = np.roll(quat, 1 if other == "xyzw" else -1, axis=-1)
    if up(quat) < UPRIGHT < up(turned) and up(quat) < up(turned) - 0.1:
        raise RecordingError(
            f"quat_order is {recording.quat_order!r}, but read so the robot does not stand; as {other!r} it does: "
            "correct quat_order in the recorder"
        )
