"""The actor's settings in ``agent.yaml`` and its weights in ``model_*.pt``, for rsl_rl 3.x to 5.x.

The two are written by different libraries (Isaac Lab and rsl_rl) and change at different times, so they are recognised
separately: settings under ``policy`` (3.x) or ``actor`` (from 4.0); weights under ``model_state_dict`` (3.x) or
``actor_state_dict`` (from 4.0). What a teacher taught is the ``student`` (from 4.0).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gaitway_files.checkpoints import load_checkpoint
from gaitway_files.reading import FileError
from torch import Tensor

from .config import Settings, given
from .errors import IsaacLabImportError
from .networks import ACTIVATIONS, ActorConfig, RunActor

KINDS = {"ActorCritic": False, "ActorCriticRecurrent": True, "MLPModel": False, "RNNModel": True}
"""Classes of actors that can be read, with True for those with a memory."""

MAX_UNITS, MAX_LAYERS = 16_384, 32
"""Limits of an actor; those of robots have 512 units in 3 layers."""

DISTRIBUTIONS = {"GaussianDistribution": False, "HeteroscedasticGaussianDistribution": True}
"""Distributions, with True for those whose standard deviation comes from the network."""


@dataclass(frozen=True, kw_only=True)
class Weights:
    """An actor's tensors under version-independent names, and their names in the file."""

    version: str
    """Release of rsl_rl that wrote such a file, ``"3.x"``, ``"4.x"`` or ``"5.x"``, or another learner's name."""
    section: str
    """Name of the state dict."""
    tensors: Mapping[str, Tensor]
    file_names: Mapping[str, str]
    iteration: int | None


def newest_checkpoint(run: Path) -> Path:
    """``model_<n>.pt`` with the highest n in the folder ``run``."""
    numbered = [(int(m[1]), path) for path in run.glob("model_*.pt") if (m := re.fullmatch(r"model_(\d+)", path.stem))]
    if not numbered:
        raise IsaacLabImportError(f"no model_<iteration>.pt in {run}: give the file with --checkpoint")
    return max(numbered)[1]


def actor_config(agent: Settings) -> ActorConfig:
    """The actor described by an ``agent.yaml``."""
    role = next((role for role in ("actor", "student", "policy") if role in agent), None)
    if role is None:
        raise IsaacLabImportError(
            f"{agent.where} is of none of the learners that are read: it has neither 'policy' (rsl_rl 3.x) nor 'actor' "
            "(from 4.0), nor 'models' (skrl), nor 'params' (rl_games)"
        )
    node, recent = agent.child(role), role != "policy"
    kind = node.get("class_name", str, "MLPModel" if recent else "ActorCritic").rpartition(":")[2].rpartition(".")[2]
    if kind not in KINDS:
        raise IsaacLabImportError(f"{node.where}.class_name is {kind}: only {', '.join(KINDS)} can be read (no images)")
    activation = node.get("activation", str, "elu").lower()
    if activation not in ACTIVATIONS:
        raise IsaacLabImportError(f"{node.where}.activation is {activation!r}; rsl_rl has {', '.join(ACTIVATIONS)}")
    prefix = "" if recent else "actor_"
    normalized = agent.get("empirical_normalization", bool, False) or node.get(
        f"{prefix}obs_normalization", bool, False
    )
    memory: dict[str, Any] = {}
    if KINDS[kind]:
        memory = {
            "rnn_type": node.get("rnn_type", str, "lstm").lower(),
            "rnn_dim": node.get("rnn_hidden_dim", int, node.get("rnn_hidden_size", int, 256)),
            "rnn_layers": node.get("rnn_num_layers", int, 1),
        }
        if memory["rnn_type"] not in ("lstm", "gru"):
            raise IsaacLabImportError(f"{node.where}.rnn_type is {memory['rnn_type']!r}; expected 'lstm' or 'gru'")
    hidden_dims = tuple(node.get(f"{prefix}hidden_dims", (list, tuple), (256, 256, 256)))
    for key, sizes in (("hidden_dims", hidden_dims), ("rnn_dim", (memory.get("rnn_dim", 1),))):
        check_sizes(sizes, f"{node.where}.{key}")
    if not 1 <= memory.get("rnn_layers", 1) <= MAX_LAYERS:
        raise IsaacLabImportError(f"{node.where}.rnn_num_layers is {memory['rnn_layers']}; 1 to {MAX_LAYERS} are read")
    return ActorConfig(
        hidden_dims=hidden_dims,
        activation=activation,
        normalized=normalized,
        state_dependent_std=_state_dependent_std(node),
        **memory,
    )


def check_sizes(sizes: tuple[Any, ...], where: str) -> tuple[int, ...]:
    """``sizes`` if they are those of layers, before anything is made of that size."""
    if not all(isinstance(size, int) and 1 <= size <= MAX_UNITS for size in sizes) or len(sizes) > MAX_LAYERS:
        raise IsaacLabImportError(
            f"{where} is {list(sizes[:9])}; at most {MAX_LAYERS} layers of 1 to {MAX_UNITS} units are read"
        )
    return sizes


def _state_dependent_std(node: Settings) -> bool:
    distribution = node.data.get("distribution_cfg")
    if not given(distribution) or not isinstance(distribution, Mapping):
        return bool(node.get("state_dependent_std", bool, False))
    name = str(distribution.get("class_name", "GaussianDistribution")).rpartition(":")[2].rpartition(".")[2]
    if name not in DISTRIBUTIONS:
        raise IsaacLabImportError(
            f"{node.where}.distribution_cfg.class_name is {name}: only {', '.join(DISTRIBUTIONS)} can be read"
        )
    return DISTRIBUTIONS[name]


def read_weights(path: Path) -> Weights:
    """The actor's tensors in an rsl_rl checkpoint; only data is unpickled."""
    try:
        data = load_checkpoint(path)
    except FileError as error:
        raise IsaacLabImportError(
            f"{path} is not a checkpoint of tensors as rsl_rl writes it: {error.reason}"
        ) from None
    if not isinstance(data, dict):
        raise IsaacLabImportError(f"{path} holds {type(data).__name__}; expected rsl_rl's dictionary of state dicts")
    renamed: dict[str, tuple[str, Tensor]] = {}
    section = "student_state_dict" if "student_state_dict" in data else "actor_state_dict"
    if isinstance(state := data.get(section), Mapping):
        version = "5.x" if any(name.startswith("distribution.") for name in state) else "4.x"
        rules = {"mlp.": "mlp.", "rnn.rnn.": "rnn.", "obs_normalizer.": "normalizer."}
        _rename(state, section, rules, renamed)
    elif isinstance(state := data.get("model_state_dict"), Mapping):
        if "obs_norm_state_dict" in data:
            raise IsaacLabImportError(
                f"{path} has its normaliser in obs_norm_state_dict, as rsl_rl 2 wrote it: only files of rsl_rl 3 to 5 "
                "are read; train again with Isaac Lab 2.3 or newer, or move it to model_state_dict under "
                "actor_obs_normalizer.*"
            )
        version = "3.x"
        rules = {"actor.": "mlp.", "memory_a.rnn.": "rnn.", "actor_obs_normalizer.": "normalizer."}
        section = "model_state_dict"
        _rename(state, section, rules, renamed)
    else:
        raise IsaacLabImportError(
            f"{path} has neither actor_state_dict (rsl_rl from 4.0) nor model_state_dict (3.x); "
            f"it has {', '.join(map(str, data)) or 'nothing'}"
        )
    iteration = data.get("iter")
    return Weights(
        version=version,
        section=section,
        tensors={name: tensor for name, (_, tensor) in renamed.items()},
        file_names={name: file_name for name, (file_name, _) in renamed.items()},
        iteration=iteration if isinstance(iteration, int) else None,
    )


def _rename(
    state: Mapping[str, Any], section: str, rules: Mapping[str, str], into: dict[str, tuple[str, Tensor]]
) -> None:
    """Collect the tensors whose names begin with a key of ``rules``, that key replaced by its value."""
    for name, value in state.items():
        for prefix, replacement in rules.items():
            if name.startswith(prefix) and isinstance(value, Tensor):
                into[replacement + name.removeprefix(prefix)] = (f"{section}[{name!r}]", value)
                break


def build_actor(config: ActorConfig, weights: Weights, widths: Mapping[str, int], action_dim: int) -> RunActor:
    """The actor filled with ``weights``.

    ``widths`` are the columns of each observation term, history included. Raises with the name and shape of the first
    tensor that does not fit, and with the terms if it is the one that reads the observation.
    """
    observation_dim = sum(widths.values())
    actor = RunActor(config, observation_dim, action_dim)
    expected = actor.weights()
    _check_presence(config, weights, expected)
    entrance = "rnn.weight_ih_l0" if config.rnn_type else "mlp.0.weight"
    last = f"mlp.{len(actor.mlp) - 1}."
    for name in (entrance, *expected):
        found, wanted = tuple(weights.tensors[name].shape), tuple(expected[name].shape)
        if found == wanted:
            continue
        message = f"{weights.file_names[name]} has shape {list(found)}, but the settings need {list(wanted)}"
        if name == entrance and found[0] == wanted[0] and found[1] != wanted[1]:
            message += _blame(widths, found[1])
        elif found[0] != wanted[0] and name.startswith(last):
            message += f": env.yaml's actions take {action_dim} numbers"
        else:
            message += ": agent.yaml describes another network than this checkpoint's"
        raise IsaacLabImportError(message)
    actor.fill(weights.tensors)
    if broken := [weights.file_names[name] for name in expected if not weights.tensors[name].isfinite().all()]:
        raise IsaacLabImportError(f"{broken[0]} holds numbers that are not finite: the training had diverged")
    return actor.eval()


def _check_presence(config: ActorConfig, weights: Weights, expected: Mapping[str, Tensor]) -> None:
    """Raise unless the file has exactly the kinds of tensor that the settings call for."""
    missing = [name for name in expected if name not in weights.tensors]
    if any(name.startswith("normalizer.") for name in missing):
        raise IsaacLabImportError(
            f"agent.yaml says that observations are normalised, but the checkpoint has no normaliser "
            f"({_in_file('normalizer._mean', weights)} is missing): use the checkpoint of this very run"
        )
    if missing:
        raise IsaacLabImportError(
            f"the checkpoint has no {_in_file(missing[0], weights)}, which agent.yaml's actor "
            f"({'recurrent ' + config.rnn_type if config.rnn_type else 'without memory'}, hidden layers "
            f"{list(config.hidden_dims)}) needs; it has {', '.join(weights.file_names.values())}"
        )
    ignored = {"normalizer._var", "normalizer.count"}
    if surplus := [name for name in weights.tensors if name not in expected and name not in ignored]:
        what = {"normalizer": "says that observations are not normalised", "rnn": "describes an actor without memory"}
        raise IsaacLabImportError(
            f"the checkpoint has {weights.file_names[surplus[0]]}, but agent.yaml "
            f"{what.get(surplus[0].partition('.')[0], 'describes a smaller network')}: they are not of the same run"
        )


def _in_file(name: str, weights: Weights) -> str:
    """Name of a missing tensor in this version of rsl_rl; of another learner's file, the layer by its place."""
    kind, _, rest = name.partition(".")
    if weights.version[0] not in "345":
        return f"{rest.partition('.')[2]} of layer {int(rest.partition('.')[0]) // 2 + 1} in {weights.section}"
    if weights.version in ("4.x", "5.x"):
        prefix = {"mlp": "mlp.", "rnn": "rnn.rnn.", "normalizer": "obs_normalizer."}[kind]
        return f"{weights.section}[{prefix + rest!r}]"
    prefix = {"mlp": "actor.", "rnn": "memory_a.rnn.", "normalizer": "actor_obs_normalizer."}[kind]
    return f"{weights.section}[{prefix + rest!r}]"


def _blame(widths: Mapping[str, int], found: int) -> str:
    """Terms that explain the difference between env.yaml's observation and the checkpoint's, and the table."""
    total = sum(widths.values())
    difference = total - found
    table = ", ".join(f"{name} {width}" for name, width in widths.items())
    text = f": it reads {found} numbers, and env.yaml's terms give {total} ({table})"
    if suspects := [name for name, width in widths.items() if width == difference]:
        text += f"; without {' or '.join(suspects)} they would fit"
    elif (found and total % found == 0) or (total and found % total == 0):
        text += "; one is a multiple of the other: was the history length changed?"
    else:
        text += f"; {abs(difference)} numbers too {'many' if difference > 0 else 'few'}"
    return text + ". Is env.yaml the one of this checkpoint's run?"
