"""``params/deploy.yaml`` beside ``exported/policy.onnx``: policies of unitree_rl_lab and unitree_rl_mjlab.

Their C++ runner (``deploy/include/isaaclab``) reads terms in the file's order, clamps and then scales each, and keeps a
history of each term, oldest first, filled with the first frame. Pose, scale and offset are in the policy's order;
stiffness and damping are in the motors' order, ``joint_ids_map`` goes from one to the other. Joints have no names.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gaitway_files.reading import FileError
from gaitway_files.yaml_files import Loader, read_yaml
from gaitway_onboard.bundle.contract import sha256
from gaitway_tasks.robots import ROBOTS, Robot

from ..bundle import Found
from ..described_policy import DescribedPolicy, described
from ..description import OLDEST
from ..description_file import description_from, whole
from ..errors import PolicyImportError, in_form
from ..families import Options
from ..weights import whole_onnx

TERMS = {
    "base_ang_vel": "base_ang_vel", "projected_gravity": "projected_gravity",
    "velocity_commands": "generated_commands", "joint_pos_rel": "joint_pos_rel", "joint_vel_rel": "joint_vel_rel",
    "last_action": "last_action",
}  # fmt: skip
PHASE = "gait_phase"
"""Sine and cosine of a clock that advances before it is read, both 0 at a command shorter than ``RESTS``."""
RESTS = 0.1
LONGEST = 100.0
"""Longest period of a gait that is read [s]."""

KEYS = ("joint_ids_map", "step_dt", "stiffness", "damping", "default_joint_pos", "one action", "observations",
        "commands.base_velocity.ranges")  # fmt: skip


class _Slices(Loader):
    """The safe loader, for which a slice that Python wrote is None: all joints."""


_Slices.add_constructor("tag:yaml.org,2002:python/object/apply:builtins.slice", lambda loader, node: None)


def find(source: Path) -> list[Path]:
    """Each ``deploy.yaml`` at or below ``source`` that has a policy beside it."""
    if source.name == "deploy.yaml":
        return [source]
    if source.suffix == ".onnx":
        return [p] if (p := source.parents[1] / "params" / "deploy.yaml").is_file() else []
    found = [source / "deploy.yaml", source / "params" / "deploy.yaml", *sorted(source.glob("*/params/deploy.yaml"))]
    found += sorted(source.glob("*/*/params/deploy.yaml")) + sorted(
        source.glob("deploy/robots/*/config/policy/*/*/params/deploy.yaml")
    )
    return [path for path in dict.fromkeys(found) if path.is_file() and _graph(path) is not None]


def load(path: Path, options: Options) -> DescribedPolicy:
    return described(read(path), options)


def read(path: Path) -> Found:
    """The policy that the ``deploy.yaml`` at ``path`` describes."""
    graph = _graph(path)
    if graph is None:
        raise PolicyImportError(f"{path} has no exported/policy.onnx beside its folder: export the policy first")
    try:
        said = read_yaml(path, loader=_Slices, tags=True)
    except FileError as error:
        raise PolicyImportError(str(error)) from None
    content = whole_onnx(graph)
    with in_form(path, "unitree_rl_lab", KEYS):
        d = _description(said, path, graph)
    return Found(description=description_from(d, str(path)), graph=content, weights_sha256=sha256(content))


def _graph(path: Path) -> Path | None:
    folder = path.parent.parent if path.parent.name == "params" else path.parent
    return next((p for p in (folder / "exported" / "policy.onnx", folder / "policy.onnx") if p.is_file()), None)


def _description(said: Any, path: Path, graph: Path) -> dict[str, Any]:
    ids, observations = said["joint_ids_map"], said["observations"]
    ((kind, action),) = said["actions"].items()
    ranges = said["commands"]["base_velocity"]["ranges"]
    gains = {key: [said[key][slot] for slot in ids] for key in ("stiffness", "damping")}
    known = (*TERMS, PHASE)
    if unknown := [name for name in observations if name not in known]:
        raise PolicyImportError(f"{path} reads {', '.join(unknown)}; known terms are {', '.join(known)}")
    if not kind.startswith("JointPosition"):
        raise PolicyImportError(f"{path} acts by {kind}; a bundle's output is joint position targets")
    robot = _robot(path, len(ids))
    motors = robot.hardware.motors if robot.hardware else robot.joint_names
    joints = [motors[slot] for slot in ids]
    lengths = {term.get("history_length") or 1 for term in observations.values()}
    if len(lengths) != 1:
        raise PolicyImportError(f"{path}: terms have histories of {sorted(lengths)} frames; one length is read")
    length = whole(lengths.pop(), f"{path}: history_length", OLDEST)
    if PHASE in observations and length > 1:
        raise PolicyImportError(f"{path}: {PHASE} has a history of {length} frames; it is read with 1")
    mjlab = "mjlab" in str(path).lower()
    return {
        "family": "unitree_rl_mjlab" if mjlab else "unitree_rl_lab",
        "name": f"{robot.name}-{path.parents[1].parent.name}-{path.parents[1].name}",
        "robot": robot.name,
        "joints": joints,
        "default_joint_pos": said["default_joint_pos"],
        **gains,
        "control_dt": said["step_dt"],
        "action": {"scale": action["scale"], "offset": action["offset"],
                   **({"clip": action["clip"]} if action.get("clip") else {})},
        "observation": [part for name, term in observations.items() for part in _terms(name, term)],
        **({"clock": _clock(observations[PHASE], f"{path}: {PHASE}")} if PHASE in observations else {}),
        "history": {"ages": list(range(length - 1, -1, -1)), "by": "term", "fill": "first"},
        "command": {"ranges": {k: ranges[k] for k in ("lin_vel_x", "lin_vel_y", "ang_vel_z")}, "clamp": True},
        "network": {"file": graph.name},
        "licence": "Apache-2.0",
        "source": f"unitreerobotics/{'unitree_rl_mjlab' if mjlab else 'unitree_rl_lab'}",
        "guessed": {"torque limits": f"those of {robot.name}; deploy.yaml has none"},
    }  # fmt: skip


def _terms(name: str, term: Any) -> list[dict[str, Any]]:
    scale, clip = term.get("scale") or 1.0, {"clip": term["clip"]} if term.get("clip") else {}
    if name != PHASE:
        return [{"term": TERMS[name], "scale": scale, **clip}]
    scales = scale if isinstance(scale, list) else [scale] * 2
    return [{"term": of, "scale": scales[k], **clip} for k, of in enumerate(("phase_sin", "phase_cos"))]


def _clock(term: Any, where: str) -> dict[str, Any]:
    period = term["params"]["period"]
    if not isinstance(period, int | float) or not 0.0 < period < LONGEST:
        raise PolicyImportError(f"{where} has the period {period!r}; expected seconds, up to {LONGEST:g}")
    return {"frequency": 1.0 / period, "first": 1, "rest_below": RESTS}


def _robot(path: Path, joints: int) -> Robot:
    """The robot whose folder the file lies in (``deploy/robots/g1``), else the one of Unitree's with as many joints."""
    named = [part.lower() for part in path.parts]
    fitting = [r for r in ROBOTS.values() if r.num_joints == joints and r.hardware is not None]
    best = [r for r in fitting if r.name in named or r.name.partition("-")[0] in named] or fitting
    if len(best) != 1:
        raise PolicyImportError(
            f"{path} has {joints} joints without names, as {', '.join(r.name for r in best) or 'no robot known here'}: "
            f"keep the folder's name (robots/g1/...), or give a description with --describe"
        )
    return best[0]
