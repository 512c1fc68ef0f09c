"""Settings of earlier versions: where each stands now. Files are read as they were meant; a command line is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import ConfigError

GONE = {"env_groups": 1}
"""Settings that are no more, with the value at which they change nothing."""
SIMULATORS = {"isaaclab": "IsaacLabOptions", "physics": "PhysicsOptions"}
"""Former keys of ``simulator``, and the kinds of their settings; a run in Isaac Lab had both."""
PLACE = ("agent", "optimizer")
MOVED = {
    "ratio": "surrogate.ratio",
    "clip": "surrogate.clip",
    "clip_high": "surrogate.clip_high",
    "dual_clip": "surrogate.dual_clip",
    "sapo_temperatures": "surrogate.temperatures",
    "vespo_shapes": "surrogate.shapes",
    "vespo_rates": "surrogate.rates",
    "kl_coefficient": "reference_kl.coefficient",
    "kl_estimator": "reference_kl.estimator",
    "kl_importance": "reference_kl.importance",
}
"""Settings of ``agent.optimizer`` that stood beside each other, whether a surrogate had them or not."""
SURROGATES = {
    "clip": ("ClippedSurrogate", ("ratio", "clip", "clip_high", "dual_clip")),
    "importance_sampling": ("ImportanceSampling", ("ratio",)),
    "reinforce": ("Reinforce", ()),
    "cispo": ("CISPO", ("ratio", "clip", "clip_high")),
    "sapo": ("SAPO", ("ratio", "temperatures")),
    "vespo": ("VESPO", ("shapes", "rates")),
}
"""Former names of surrogates: their class now, and the settings that it has."""


def as_now(tree: dict[str, Any], file: str) -> dict[str, Any]:
    """A file's settings in their places of today."""
    for key, usual in GONE.items():
        if tree.get(key, usual) != usual:
            raise ConfigError(f"{file}: {key} is no setting any more; write {key}: {usual} to play or export the run")
    tree = _simulator({key: value for key, value in tree.items() if key not in GONE})
    task = tree.get("task")
    if isinstance(task, dict) and isinstance(terrain := task.get("terrain"), dict):
        tree["task"] = {name: value for name, value in task.items() if name != "terrain"} | {"ground": _ground(terrain)}
    agent, optimizer = tree.get(PLACE[0]), _optimizer(tree)
    if not (isinstance(agent, dict) and _old(optimizer)):
        return tree
    return tree | {PLACE[0]: agent | {PLACE[1]: _moved(optimizer)}}


def refuse_moved(tree: Any) -> None:
    """Name the new key if a setting of the command line has an old one."""
    if isinstance(tree, Mapping):
        for key in SIMULATORS:
            for name in tree[key] if isinstance(tree.get(key), Mapping) else ():
                raise ConfigError(f"unknown key '{key}.{name}': it is now 'simulator.{name}'")
    optimizer, place = _optimizer(tree), ".".join(PLACE)
    for key in _old(optimizer):
        if key == "surrogate":
            kind = SURROGATES.get(optimizer[key], SURROGATES["clip"])[0]
            raise ConfigError(f"{place}.{key}={optimizer[key]!r}: a class now; use {place}.surrogate.kind={kind}")
        raise ConfigError(f"unknown key '{place}.{key}': it is now '{place}.{MOVED[key]}'")


def _simulator(tree: dict[str, Any]) -> dict[str, Any]:
    found = {key: tree[key] for key in SIMULATORS if isinstance(tree.get(key), Mapping)}
    kept = {key: value for key, value in tree.items() if key not in SIMULATORS}
    for key, settings in found.items():
        return kept | {"simulator": {"kind": SIMULATORS[key], **settings}}
    return kept


def _ground(terrain: dict[str, Any]) -> dict[str, Any]:
    if terrain.get("generator") is None:
        return {"kind": "Plane"} | {key: terrain[key] for key in ("friction",) if key in terrain}
    return {**terrain, "kind": "Tiles"}


def _optimizer(tree: Any) -> Any:
    for key in PLACE:
        tree = tree.get(key) if isinstance(tree, Mapping) else None
    return tree


def _old(optimizer: Any) -> list[str]:
    """Old keys among the settings of an optimiser."""
    if not isinstance(optimizer, Mapping):
        return []
    named = isinstance(optimizer.get("surrogate"), str)
    return [key for key in optimizer if key in MOVED or (key == "surrogate" and named)]


def _moved(optimizer: dict[str, Any]) -> dict[str, Any]:
    old = {key: optimizer[key] for key in _old(optimizer)}
    tree = {key: value for key, value in optimizer.items() if key not in old}
    parts: dict[str, dict[str, Any]] = {"surrogate": {}, "reference_kl": {}}
    for key, place in MOVED.items():
        if key in old:
            part, name = place.split(".")
            parts[part][name] = old[key]
    if "surrogate" in old:
        kind, has = SURROGATES.get(old["surrogate"], (old["surrogate"], ()))
        if "clip" not in has and tree.get("value_clip") is None:
            tree["value_clip"] = old.get("clip")  # which clipped values even where it clipped no ratio
        parts["surrogate"] = {"kind": kind} | {name: v for name, v in parts["surrogate"].items() if name in has}
    tree |= {part: values for part, values in parts.items() if values}
    if "kl_coefficient" in old and not old["kl_coefficient"]:
        tree["reference_kl"] = None
    return tree
