"""Stand-ins for what a published runner needs: its simulator, robot, SDK and modules."""

from __future__ import annotations

import runpy
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from gaitway_sim2real.bundle.golden import Signals
from gaitway_sim2real.imports.description import Description
from numpy.typing import NDArray

Array = NDArray[np.floating]
Steps = list[tuple[Array, dict[str, float]]]
"""The observation (D,) and the targets by joint of each control step."""


@dataclass(frozen=True)
class Case:
    """A published policy and how its own runner is run."""

    checkout: str
    policy: str
    model: str | None
    run: Callable[[Path, Case, Signals, tuple[str, ...], Description], Steps]
    """(checkout, this, signals (steps, 1, d), joints of the signals, description) -> what the runner did."""
    name: str = ""
    """Name of the case in its runner."""


class Done(Exception):
    """All steps are run."""


@contextmanager
def modules(**stands: Any) -> Iterator[None]:
    """Stand-ins for modules, by their names with two underscores for a dot."""
    made = {}
    for name, content in stands.items():
        module = types.ModuleType(name.replace("__", "."))
        module.__dict__.update(content)
        made[module.__name__] = module
    for name, module in made.items():
        parent, _, child = name.rpartition(".")
        if parent in made:
            setattr(made[parent], child, module)
    with mock.patch.dict(sys.modules, made):
        yield


@contextmanager
def underscores(stands: Mapping[str, Any]) -> Iterator[None]:
    """:func:`modules` for names whose parts begin with an underscore."""
    with modules(**stands):
        for name in stands:
            module = sys.modules.pop(name.replace("__", "."), None)
            right = name.replace("___", "._").replace("__", ".")
            if module is not None:
                sys.modules[right] = module
        for name in [n.replace("___", "._").replace("__", ".") for n in stands]:
            parent, _, child = name.rpartition(".")
            if parent in sys.modules:
                setattr(sys.modules[parent], child, sys.modules[name])
        yield


def packages(root: Path, *names: str) -> dict[str, dict[str, Any]]:
    """The checkout's own packages for :func:`modules`: the first part of each name is the folder ``root``."""
    return {name: {"__path__": [str(root.joinpath(*name.split("__")[1:]))]} for name in names}


def simulator(data: Any, mj_step: Callable[..., None], model: Any = None) -> dict[str, Any]:
    """MuJoCo as a runner uses it, with one model and data."""
    model = model or types.SimpleNamespace(opt=types.SimpleNamespace(timestep=0.0))
    kind = types.SimpleNamespace(from_xml_path=lambda _: model)
    return {"MjModel": kind, "MjData": lambda _: data, "mj_step": mj_step}


def run_script(path: Path, *arguments: str) -> None:
    """Run a script as from the command line, until :class:`Done`."""
    with mock.patch.object(sys, "argv", [str(path), *arguments]), suppress(Done):
        runpy.run_path(str(path), run_name="__main__")


def sensors(signals: Signals, k: int) -> tuple[Array, Array, Array, Array, Array]:
    """Joint positions and velocities, attitude, turn rate and command of step ``k``."""
    names = ("joint_pos", "joint_vel", "imu_quat_wxyz", "gyro", "command")
    return tuple(signals[name][k, 0].astype(np.float64) for name in names)


def matrix(quat: Array) -> Array:
    """Rotation matrix (3, 3) from body to world."""
    w, x, y, z = quat / np.linalg.norm(quat)
    return np.array([
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ])  # fmt: skip


def state_row(signals: Signals, k: int, order: list[int]) -> Array:
    """Position, attitude, joints, velocity, turn rate and joint velocities of step ``k``, as HumanoidVerse has them."""
    q, qd, quat, gyro, _ = sensors(signals, k)
    return np.concatenate((np.zeros(3), quat, q[order], np.zeros(3), gyro, qd[order]))[None]


class Anything:
    """Stand-in for a device, its driver or a logger: every attribute and every call is one again."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __getattr__(self, name: str) -> Any:
        return Anything()

    def __call__(self, *_: Any, **__: Any) -> Any:
        return Anything()


UNITREE = {
    name: {"ChannelFactoryInitialize": Anything(), "ChannelPublisher": Anything, "ChannelSubscriber": Anything,
           "WirelessController_": Anything, "LowState_": Anything, "CRC": Anything}
    for name in ("unitree_sdk2py", "unitree_sdk2py__core", "unitree_sdk2py__core__channel", "unitree_sdk2py__utils",
                 "unitree_sdk2py__utils__crc", "unitree_sdk2py__idl", "unitree_sdk2py__idl__unitree_go",
                 "unitree_sdk2py__idl__unitree_hg", "unitree_sdk2py__idl__unitree_go__msg",
                 "unitree_sdk2py__idl__unitree_hg__msg")
}  # fmt: skip
for _kind in ("go", "hg"):
    UNITREE[f"unitree_sdk2py__idl__unitree_{_kind}__msg__dds_"] = UNITREE["unitree_sdk2py"]
