"""Actuator networks from what drives were told and reported. Needs torch, unlike the rest of identification.

Method and shape of the networks: see :mod:`gaitway_tasks.actuator_network`. What is learnt is the torque that the
drives *report*: most robots measure current, not torque, so that a motor which is weaker than it believes stays so.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from gaitway_onboard.interface import Array
from gaitway_tasks.actuator_network import LSTMNetwork, MLPNetwork, NetworkDescription
from gaitway_tasks.robots import Robot
from torch import Tensor, nn

from .drive_log import DriveLog, IdentificationError

HELD_OUT = 0.2
"""Share of each recording, its end, that judges the network."""
SEQUENCE, WARM_UP = 100, 20
"""Periods of a training sequence of an LSTM, and how many of them go by before its errors count."""
ROWS = 4096
"""Samples of a gradient step."""
STEADY = 0.01
"""Relative change of the commanded gains that a network, which does not see them, can live with."""


@dataclass(frozen=True, kw_only=True)
class TrainedNetwork:
    network: nn.Module
    description: NetworkDescription
    error: float
    """Root mean square over the held-out part [N m]."""
    spread: float
    """Standard deviation of the reported torque itself there [N m]: the error of a network that gives zero."""
    pd_error: float
    """Error of the commanded PD law, without delay or loss, there [N m]."""


def train_network(
    logs: Sequence[DriveLog],
    robot: Robot,
    *,
    kind: str = "mlp",
    period: float = 0.005,
    input_idx: tuple[int, ...] = (0, 1, 2, 4),
    epochs: int = 40,
    seed: int = 0,
    say: Callable[[str], None] = lambda text: None,
) -> TrainedNetwork:
    """Learn the torque of all drives of ``robot``, whose joint order the logs have.

    ``period`` [s] is the physics step of the simulation that will use it; ``input_idx`` are the periods before now that
    an "mlp" reads, which must reach as far back as the drives' delay. Raises :class:`IdentificationError`.
    """
    gains = _gains(logs, robot)
    parts = [_sampled(log, period) for log in logs]
    scales = tuple(1.0 / max(1e-6, float(np.concatenate([part[i] for part in parts]).std())) for i in range(3))
    description = NetworkDescription(
        kind=kind,
        robot=robot.name,
        period=period,
        gains=gains,
        input_idx=input_idx,
        pos_scale=scales[0],
        vel_scale=scales[1],
        torque_scale=1.0 / scales[2],
    )
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    batches = (_windows if kind == "mlp" else _sequences)(parts, description)
    network = MLPNetwork(len(input_idx)) if kind == "mlp" else LSTMNetwork((scales[0], scales[1], 1.0 / scales[2]))
    unit = 1.0 if kind == "mlp" else scales[2]
    error = _fit(network, batches, unit, epochs, generator, say) / scales[2]
    judged = [tuple(values[int(len(values) * (1.0 - HELD_OUT)) :] for values in part) for part in parts]
    kp, kd = np.array([gains[name] for name in robot.joint_names]).T
    pd = [kp * e - kd * v - tau for e, v, tau in judged]
    return TrainedNetwork(
        network=network,
        description=description,
        error=error,
        spread=_rms([tau for _, _, tau in judged]),
        pd_error=_rms(pd),
    )


def _gains(logs: Sequence[DriveLog], robot: Robot) -> dict[str, tuple[float, float]]:
    """The gains that were commanded, which must be the same throughout: a network does not see them."""
    if not logs:
        raise IdentificationError("an actuator network needs at least one recording")
    kp, kd = (np.concatenate([getattr(log, name) for log in logs]) for name in ("stiffness", "damping"))
    for name, values in (("kp", kp), ("kd", kd)):
        middle = np.median(values, axis=0)
        changed = np.abs(values - middle) > STEADY * np.maximum(middle, 1e-9)
        if changed.any():
            joint = robot.joint_names[int(changed.any(0).argmax())]
            raise IdentificationError(
                f"{logs[0].source}: {name} of {joint} changes from {values[:, changed.any(0)].min():g} to "
                f"{values[:, changed.any(0)].max():g}, and an actuator network sees no gains: cut the recording to "
                "where they are the policy's"
            )
    return {
        name: (float(p), float(d))
        for name, p, d in zip(robot.joint_names, np.median(kp, 0), np.median(kd, 0), strict=True)
    }


def _sampled(log: DriveLog, period: float) -> tuple[Array, Array, Array]:
    """Position errors, velocities and torques at every ``period``, (T, J) each; targets hold until the next."""
    if log.torque is None:
        raise IdentificationError(f"{log.source}: the robot reports no torque, and a network is taught by it")
    start, end = max(log.time[0], log.frame_time[0]), min(log.time[-1], log.frame_time[-1])
    times = np.arange(start, end, period)
    if len(times) < 10 * SEQUENCE:
        raise IdentificationError(f"{log.source} has {end - start:.1f} s: too little for a network")
    held = log.targets[np.searchsorted(log.frame_time, times + 1e-9, side="right") - 1]

    def at(values: Array) -> Array:
        return np.stack([np.interp(times, log.time, column) for column in values.T], 1)

    return held - at(log.pos), at(log.vel), at(log.torque)


Batches = tuple[Tensor, Tensor, Tensor, Tensor]
"""Inputs and torques to learn from, inputs and torques to judge by."""


def _windows(parts: Sequence[tuple[Array, Array, Array]], described: NetworkDescription) -> Batches:
    inputs, outputs = [], []
    for error, vel, torque in parts:
        reach = max(described.input_idx)
        rows = np.arange(reach, len(error))
        e = np.stack([error[rows - k] for k in described.input_idx], -1) * described.pos_scale
        v = np.stack([vel[rows - k] for k in described.input_idx], -1) * described.vel_scale
        inputs.append(np.concatenate((e, v), -1))
        outputs.append(torque[rows, :, None] / described.torque_scale)
    return _split(inputs, outputs, 1)


def _sequences(parts: Sequence[tuple[Array, Array, Array]], described: NetworkDescription) -> Batches:
    inputs, outputs = [], []
    for error, vel, torque in parts:
        count = len(error) // SEQUENCE
        x = np.stack((error, vel), -1)[: count * SEQUENCE].reshape(count, SEQUENCE, -1, 2)
        inputs.append(x.transpose(0, 2, 1, 3))
        outputs.append(torque[: count * SEQUENCE].reshape(count, SEQUENCE, -1, 1).transpose(0, 2, 1, 3))
    return _split(inputs, outputs, 2)


def _split(inputs: list[Array], outputs: list[Array], inner: int) -> Batches:
    """Time first; all joints are samples alike."""

    def gather(arrays: list[Array], first: bool) -> Tensor:
        cut = [int(len(array) * (1.0 - HELD_OUT)) for array in arrays]
        kept = [a[:c] if first else a[c:] for a, c in zip(arrays, cut, strict=True)]
        joined = np.concatenate([a.reshape(-1, *a.shape[-inner:]) for a in kept])
        return torch.from_numpy(joined.astype(np.float32))

    return gather(inputs, True), gather(outputs, True), gather(inputs, False), gather(outputs, False)


def _fit(
    network: nn.Module, batches: Batches, unit: float, epochs: int, generator: torch.Generator, say: Callable[..., None]
) -> float:
    """Train in place, keep the best weights; returns the held-out error in units of the torque's deviation."""
    x, y, judge_x, judge_y = batches
    size = ROWS // SEQUENCE if isinstance(network, LSTMNetwork) else ROWS

    def loss_of(rows: Tensor, wanted: Tensor) -> Tensor:
        if not isinstance(network, LSTMNetwork):
            return ((network(rows) - wanted) ** 2).mean()
        lstm = network.lstm
        state = torch.zeros(2, lstm.num_layers, len(rows), lstm.hidden_size)
        found, _ = network(rows, (state[0], state[1]))
        error: Tensor = ((found - wanted)[:, WARM_UP:] * unit) ** 2
        return error.mean()

    optimizer = torch.optim.Adam(network.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs, eta_min=1e-4)
    best, weights = float("inf"), copy.deepcopy(network.state_dict())
    for epoch in range(epochs):
        for rows in torch.randperm(len(x), generator=generator).split(size):
            loss = loss_of(x[rows], y[rows])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
        schedule.step()
        with torch.no_grad():
            found = float(loss_of(judge_x, judge_y))
        if found < best:
            best, weights = found, copy.deepcopy(network.state_dict())
        say(f"epoch {epoch + 1} of {epochs}: held-out error {found**0.5:.4f} of the torque's deviation")
    network.load_state_dict(weights)
    return best**0.5


def _rms(arrays: Sequence[Array]) -> float:
    return float(np.sqrt(np.mean(np.concatenate([array.ravel() for array in arrays]) ** 2)))
