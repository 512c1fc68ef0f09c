"""Networks that stand for a robot's drives: what a joint was told and did, to the torque that it got.

Two kinds, each in one TorchScript file that Isaac Lab's ``ActuatorNetMLPCfg`` and ``ActuatorNetLSTMCfg`` load as it
is: a multi-layer perceptron over a short history of position errors and velocities (Hwangbo et al., "Learning agile
and dynamic motor skills for legged robots", Science Robotics 2019), and an LSTM that keeps the history itself (Rudin
et al., "Learning to walk in minutes", CoRL 2021). One network serves all joints. What Isaac Lab wants told beside the
file, and what a network must not be used without, is written into the file.
"""

from __future__ import annotations

import dataclasses
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from gaitway_files.writing import whole_file
from torch import Tensor, nn

from .actuators import motor_clip
from .robots.robot import DCMotor, Robot

KINDS = ("mlp", "lstm")
DESCRIPTION = "gaitway.json"
GAIN_TOLERANCE = 0.01


class NetworkError(ValueError):
    """A network that cannot stand for the drives of this simulation, with the reason and the fix."""


@dataclass(frozen=True, kw_only=True)
class NetworkDescription:
    """What is written into the file beside the weights."""

    kind: str
    robot: str
    period: float
    """Time between two evaluations [s]; a simulation must step as often."""
    gains: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """kp [N m/rad] and kd [N m s/rad] that each joint was commanded with: the network has learnt them."""
    input_idx: tuple[int, ...] = (0, 1, 2)
    """Of the history that an "mlp" reads, in periods before now."""
    pos_scale: float = 1.0
    vel_scale: float = 1.0
    torque_scale: float = 1.0
    input_order: str = "pos_vel"

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise NetworkError(f"an actuator network of kind {self.kind!r}: known are {', '.join(KINDS)}")
        if not self.period > 0.0:
            raise NetworkError(f"an actuator network with a period of {self.period} s: it must be positive")


class MLPNetwork(nn.Module):
    """(N, 2 H) scaled position errors and velocities, newest first, to scaled torque (N, 1)."""

    def __init__(self, history: int, hidden: int = 32):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(2 * history, hidden), nn.Softsign(), nn.Linear(hidden, hidden), nn.Softsign(),
            nn.Linear(hidden, 1),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        torque: Tensor = self.layers(x)
        return torque


class LSTMNetwork(nn.Module):
    """(N, T, 2) position errors [rad] and velocities [rad/s] and the state (h, c) to torque (N, T, 1) [N m] and state.

    Scales are inside, since Isaac Lab has none for this kind.
    """

    def __init__(self, scales: tuple[float, float, float] = (1.0, 1.0, 1.0), hidden: int = 8, layers: int = 2):
        super().__init__()
        self.lstm = nn.LSTM(2, hidden, layers, batch_first=True)
        self.head = nn.Linear(hidden, 1)
        self.register_buffer("in_scale", torch.tensor(scales[:2]))
        self.register_buffer("out_scale", torch.tensor(scales[2]))

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        out, state = self.lstm(x * self.in_scale, state)  # type: ignore[operator]
        return self.head(out) * self.out_scale, state


def save_network(network: nn.Module, description: NetworkDescription, path: str | Path) -> Path:
    """Write weights and description into one TorchScript file, atomically."""
    path = Path(path)
    with whole_file(path) as partial, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch's successors of TorchScript are not Isaac Lab's
        script = torch.jit.script(network.cpu().eval())
        script.save(str(partial), _extra_files={DESCRIPTION: json.dumps(dataclasses.asdict(description))})
    return path


def read_network(path: str | Path) -> tuple[Any, NetworkDescription]:
    """The TorchScript module and its description. Raises :class:`NetworkError`."""
    found = {DESCRIPTION: ""}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            network = torch.jit.load(str(path), map_location="cpu", _extra_files=found)
    except (RuntimeError, ValueError, OSError) as error:
        raise NetworkError(f"{path} is no actuator network: {str(error).splitlines()[0]}") from None
    if not found[DESCRIPTION]:
        raise NetworkError(f"{path} has no {DESCRIPTION} inside: train it with gaitway_sim2real.identify.networks")
    data = json.loads(found[DESCRIPTION])
    data |= {"input_idx": tuple(data["input_idx"]), "gains": {k: tuple(v) for k, v in data["gains"].items()}}
    return network.eval(), NetworkDescription(**data)


def check_network(description: NetworkDescription, robot: Robot, physics_dt: float, path: str | Path) -> None:
    """Raise :class:`NetworkError` unless the network may stand for the drives of ``robot`` at this step."""
    if description.robot != robot.name:
        raise NetworkError(f"{path} is of the robot {description.robot!r}, not of {robot.name!r}")
    if abs(description.period - physics_dt) > 1e-9:
        raise NetworkError(
            f"{path} was trained for steps of {description.period:g} s, and the simulation makes steps of "
            f"{physics_dt:g} s: set task.timing.physics_dt={description.period:g}, with task.timing.decimation to match"
        )
    for name, law in zip(robot.joint_names, robot.joint_actuators, strict=True):
        kp, kd = description.gains.get(name, (law.stiffness, law.damping))
        if abs(kp - law.stiffness) > GAIN_TOLERANCE * kp or abs(kd - law.damping) > GAIN_TOLERANCE * kd:
            raise NetworkError(
                f"{path} has learnt {name} with kp {kp:g} and kd {kd:g}, and the task commands {law.stiffness:g} and "
                f"{law.damping:g}: record the robot with the gains of the task"
            )


class NetworkDrives:
    """The drives of N robots in a simulation, one evaluation for each of its steps; joints in canonical order."""

    def __init__(self, path: str | Path, robot: Robot, physics_dt: float, num_envs: int):
        self.network, self.description = read_network(path)
        check_network(self.description, robot, physics_dt, path)
        self._laws = robot.joint_actuators
        shape = (num_envs, robot.num_joints)
        self.strength = torch.ones(shape)
        """Factor on the delivered torque, limit included, (N, J)."""
        if self.description.kind == "mlp":
            length = max(self.description.input_idx) + 1
            self._memory = [torch.zeros(2, length, *shape)]
        else:
            weights = self.network.lstm.state_dict()
            layers, hidden = len(weights) // 4, weights["weight_hh_l0"].shape[1]
            self._memory = [torch.zeros(layers, *shape, hidden) for _ in range(2)]
        self._groups = _grouped(self._laws)

    def reset(self, env_ids: Tensor) -> None:
        for memory in self._memory:
            memory.index_fill_(1 if self.description.kind == "lstm" else 2, env_ids, 0.0)

    def torque(self, error: Tensor, vel: Tensor) -> Tensor:
        """Torque [N m] for position errors target - q [rad] and velocities [rad/s], (N, J) each."""
        with torch.inference_mode():
            wanted = self._mlp(error, vel) if self.description.kind == "mlp" else self._lstm(error, vel)
            for law, joints in self._groups:
                clipped = (
                    motor_clip(law, wanted[:, joints], vel[:, joints])
                    if isinstance(law, DCMotor)
                    else wanted[:, joints].clip(-law.effort_limit, law.effort_limit)
                )
                wanted[:, joints] = clipped
            return wanted * self.strength

    def _mlp(self, error: Tensor, vel: Tensor) -> Tensor:
        described, history = self.description, self._memory[0]
        history[:, 1:] = history[:, :-1].clone()
        history[0, 0], history[1, 0] = error, vel
        recent = history[:, list(described.input_idx)].flatten(2).transpose(1, 2)  # (2, N J, H)
        pos, speed = recent[0] * described.pos_scale, recent[1] * described.vel_scale
        x = torch.cat((pos, speed) if described.input_order == "pos_vel" else (speed, pos), 1)
        out: Tensor = self.network(x)
        return out.view(error.shape) * described.torque_scale

    def _lstm(self, error: Tensor, vel: Tensor) -> Tensor:
        x = torch.stack((error, vel), -1).flatten(0, 1)[:, None]
        out, state = self.network(x, tuple(memory.flatten(1, 2) for memory in self._memory))
        for memory, new in zip(self._memory, state, strict=True):
            memory.copy_(new.view(memory.shape))
        return out.reshape(error.shape).clone()

    def state_dict(self) -> dict[str, Any]:
        return {"memory": [memory.clone() for memory in self._memory], "strength": self.strength.clone()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for memory, stored in zip(self._memory, state["memory"], strict=True):
            memory.copy_(stored)
        self.strength.copy_(state["strength"])


def _grouped(laws: tuple[Any, ...]) -> list[tuple[Any, Tensor]]:
    groups: dict[Any, list[int]] = {}
    for joint, law in enumerate(laws):
        groups.setdefault(law, []).append(joint)
    return [(law, torch.tensor(joints)) for law, joints in groups.items()]
