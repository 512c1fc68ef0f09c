"""Actuator networks: from the commands and motion of a joint to the torque of its drive.

Two kinds: a multi-layer perceptron over a short history of position errors and velocities (Hwangbo et al., "Learning
agile and dynamic motor skills for legged robots", Science Robotics 2019), and an LSTM that keeps the history itself
(Rudin et al., "Learning to walk in minutes", CoRL 2021). One network serves all joints.

A file holds numbers and no code: a numpy archive of the weights, and a description with their architecture and the
conditions for using the network. Isaac Lab's ``ActuatorNetMLPCfg`` and ``ActuatorNetLSTMCfg`` read
TorchScript, which is code; :func:`write_torchscript` makes it from a network that was read here.
"""

from __future__ import annotations

import dataclasses
import json
import math
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gaitway_files.archives import read_npz
from gaitway_files.errors import UserError
from gaitway_files.json_files import parse_json
from gaitway_files.reading import MIB, FileError
from gaitway_files.writing import whole_file, write_file
from numpy.typing import NDArray
from torch import Tensor, nn

from .actuators import motor_clip
from .robots.robot import DCMotor, Robot

KINDS = ("mlp", "lstm")
ACTIVATIONS: dict[str, type[nn.Module]] = {
    "softsign": nn.Softsign, "elu": nn.ELU, "relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid,
}  # fmt: skip
VERSION = 1
FORMAT, DESCRIPTION = "gaitway_actuator_network", "description"
"""Arrays of the file besides the weights: the format version, and the description as JSON."""
GAIN_TOLERANCE = 0.01
FILE_BYTES = 64 * MIB
WIDTH, DEPTH, REACH = 4096, 16, 1000
"""Limits for files: units of a layer, layers, and periods of history."""


class NetworkError(UserError):
    """A network that cannot replace the drives in this simulation, with the reason and the fix."""


@dataclass(frozen=True, kw_only=True)
class NetworkDescription:
    """Description stored in the file beside the weights."""

    kind: str
    robot: str
    period: float
    """Time between two evaluations [s]; the physics step must equal it."""
    gains: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Commanded kp [N m/rad] and kd [N m s/rad] of each joint; the network was trained with these gains."""
    input_idx: tuple[int, ...] = (0, 1, 2)
    """History entries that an "mlp" reads, in periods before now."""
    pos_scale: float = 1.0
    vel_scale: float = 1.0
    torque_scale: float = 1.0
    input_order: str = "pos_vel"
    activation: str = "softsign"
    """Activation between the layers of an "mlp"."""

    def __post_init__(self) -> None:
        for name, known in (("kind", KINDS), ("activation", ACTIVATIONS), ("input_order", ("pos_vel", "vel_pos"))):
            if (value := getattr(self, name)) not in known:
                raise NetworkError(f"an actuator network of {name} {value!r}: known are {', '.join(known)}")
        if not 0.0 < self.period < math.inf:
            raise NetworkError(f"an actuator network with a period of {self.period} s: it must be positive")
        if not self.input_idx or not all(0 <= step <= REACH for step in self.input_idx):
            raise NetworkError(f"an actuator network with input_idx {self.input_idx}: use periods from 0 to {REACH}")


class MLPNetwork(nn.Module):
    """MLP from scaled position errors and velocities (N, 2 H), newest first, to scaled torque (N, 1)."""

    def __init__(self, history: int, hidden: tuple[int, ...] = (32, 32), activation: str = "softsign"):
        super().__init__()
        layers: list[nn.Module] = []
        for inputs, outputs in zip((2 * history, *hidden), (*hidden, 1), strict=True):
            layers += [nn.Linear(inputs, outputs), ACTIVATIONS[activation]()]
        self.layers = nn.Sequential(*layers[:-1])

    def forward(self, x: Tensor) -> Tensor:
        torque: Tensor = self.layers(x)
        return torque


class LSTMNetwork(nn.Module):
    """LSTM from (N, T, 2), position errors [rad] and velocities [rad/s], and state (h, c) to torque [N m] and state.

    The torque has shape (N, T, 1). The scales are part of the network, because Isaac Lab has none for this kind.
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


Network = MLPNetwork | LSTMNetwork


def save_network(network: nn.Module, description: NetworkDescription, path: str | Path) -> Path:
    """Write weights and description into one ``.npz`` file, atomically. Raises :class:`NetworkError`.

    ``network`` is a :class:`MLPNetwork` or :class:`LSTMNetwork` that fits its description.
    """
    weights = {name: value.detach().cpu().numpy() for name, value in network.state_dict().items()}
    _built(weights, description, path)
    facts = json.dumps(dataclasses.asdict(description))
    arrays: dict[str, Any] = {FORMAT: np.array(VERSION), DESCRIPTION: np.array(facts), **weights}
    return write_file(path, lambda file: np.savez(file, **arrays))


def read_network(path: str | Path) -> tuple[Network, NetworkDescription]:
    """The network of a file and its description. Raises :class:`NetworkError`."""
    _refuse_torchscript(path)
    try:
        arrays = read_npz(path, limit=FILE_BYTES)
        version, facts = arrays.pop(FORMAT, None), arrays.pop(DESCRIPTION, None)
        if version is None or facts is None or version.shape or facts.shape:
            raise FileError(path, "is no actuator network: 'gaitway identify --network' trains one")
        if version.dtype.kind not in "iu" or int(version) != VERSION:
            raise FileError(path, f"is an actuator network of format {version}; this Gaitway reads {VERSION}")
        description = _description(parse_json(str(facts), path), path)
    except FileError as error:
        raise NetworkError(str(error)) from None
    network = _built(arrays, description, path)
    return network.eval(), description


def _description(data: Any, path: str | Path) -> NetworkDescription:
    """Check plain data and build the description from it."""
    kinds: dict[str, type] = {
        "kind": str, "robot": str, "period": float, "gains": dict, "input_idx": list, "pos_scale": float,
        "vel_scale": float, "torque_scale": float, "input_order": str, "activation": str,
    }  # fmt: skip
    if not isinstance(data, dict) or data.keys() != kinds.keys():
        raise FileError(path, f"its description must have exactly {', '.join(kinds)}")
    values = dict(data)
    for name, kind in kinds.items():
        if kind is float and isinstance(values[name], int) and not isinstance(values[name], bool):
            values[name] = float(values[name])
        if not isinstance(values[name], kind):
            raise FileError(path, f"{name} of its description is {values[name]!r:.60}, expected {kind.__name__}")
    if any(not isinstance(step, int) or isinstance(step, bool) for step in values["input_idx"]):
        raise FileError(path, "input_idx of its description must be whole numbers")
    pairs = values["gains"].values()
    if any(not isinstance(pair, list) or [type(value) for value in pair] != [float, float] for pair in pairs):
        raise FileError(path, "gains of its description must be [kp, kd] of each joint")
    values |= {"input_idx": tuple(values["input_idx"]), "gains": {k: tuple(v) for k, v in values["gains"].items()}}
    try:
        return NetworkDescription(**values)
    except NetworkError as error:
        raise FileError(path, str(error)) from None


def _built(weights: Mapping[str, NDArray[Any]], description: NetworkDescription, path: str | Path) -> Network:
    """Network of the declared architecture with these weights. Names and shapes must match exactly."""
    with torch.device("meta"):  # allocates no memory for sizes that the file only declares
        network = _outline(weights, description, path)
    own = network.state_dict()
    for name in [*own, *weights]:
        if name not in weights or name not in own or weights[name].shape != tuple(own[name].shape):
            there = weights[name].shape if name in weights else "missing"
            wanted = tuple(own[name].shape) if name in own else "none such"
            raise NetworkError(f"{path} is no {description.kind} as declared: {name!r:.60} is {there}, not {wanted}")
        if weights[name].dtype != np.float32 or not np.isfinite(weights[name]).all():
            raise NetworkError(f"{path}: the weight {name!r:.60} must be finite numbers of 32 bits")
    network.load_state_dict({name: torch.from_numpy(value.copy()) for name, value in weights.items()}, assign=True)
    return network


def _outline(weights: Mapping[str, NDArray[Any]], description: NetworkDescription, path: str | Path) -> Network:
    """Network with the width and depth of the weights, of bounded size."""

    def width(name: str) -> int:
        shape = weights[name].shape
        if len(shape) != 2 or not 1 <= shape[0] <= 4 * WIDTH or not 1 <= shape[1] <= WIDTH:
            raise NetworkError(f"{path}: the weight {name!r:.60} is {shape}; layers have up to {WIDTH} units")
        return int(shape[1])

    if description.kind == "lstm":
        layers = sum(name.startswith("lstm.weight_hh_l") for name in weights)
        if not 1 <= layers <= DEPTH or "lstm.weight_hh_l0" not in weights:
            raise NetworkError(f"{path} declares an lstm and has {layers} layers of one; 1 to {DEPTH} are read")
        return LSTMNetwork(hidden=width("lstm.weight_hh_l0"), layers=layers)
    depth = sum(name.endswith(".weight") for name in weights)
    names = [f"layers.{2 * layer}.weight" for layer in range(depth)]
    if not 1 <= depth <= DEPTH or any(name not in weights for name in names):
        raise NetworkError(f"{path} declares an mlp and has {depth} layers; 1 to {DEPTH} in a row are read")
    hidden = tuple(width(name) for name in names)[1:]
    return MLPNetwork(len(description.input_idx), hidden, description.activation)


def _refuse_torchscript(path: str | Path) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            torchscript = any(name.endswith(("constants.pkl", "data.pkl")) for name in archive.namelist()[:1000])
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError):
        return  # reading the network raises the error
    if torchscript:
        raise NetworkError(
            f"{path} is TorchScript, which is code and is not run: train the network again with 'gaitway identify "
            "--network', or, if the file is your own, write its weights with "
            "gaitway_tasks.actuator_network.convert_torchscript(old, new)"
        )


def write_torchscript(network: nn.Module, path: str | Path) -> Path:
    """Write the network in the format that Isaac Lab's network drives load."""
    with whole_file(path) as partial, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch's successors of TorchScript are not Isaac Lab's
        torch.jit.script(network.cpu().eval()).save(str(partial))
    return Path(path)


def convert_torchscript(old: str | Path, new: str | Path) -> Path:
    """Write the weights of a file of Gaitway 0.1's first format, TorchScript, as :func:`read_network` reads them.

    This executes code in ``old``: use it only for your own files.
    """
    found = {"gaitway.json": ""}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        script = torch.jit.load(str(old), map_location="cpu", _extra_files=found)
    if not found["gaitway.json"]:
        raise NetworkError(f"{old} has no gaitway.json inside: it is no network that Gaitway wrote")
    description = _description({"activation": "softsign", **json.loads(found["gaitway.json"])}, old)
    weights = {name: value.numpy() for name, value in script.state_dict().items()}
    return save_network(_built(weights, description, old), description, new)


def check_network(description: NetworkDescription, robot: Robot, physics_dt: float, path: str | Path) -> None:
    """Raise :class:`NetworkError` unless the network fits the drives of ``robot`` and this physics step [s]."""
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
            assert isinstance(self.network, LSTMNetwork)
            lstm = self.network.lstm
            self._memory = [torch.zeros(lstm.num_layers, *shape, lstm.hidden_size) for _ in range(2)]
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
