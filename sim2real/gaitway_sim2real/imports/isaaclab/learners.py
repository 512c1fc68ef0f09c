"""The actor of a run by the learner that trained it: rsl_rl, skrl or rl_games.

skrl and rl_games normalise, clip and name their tensors in ways of their own; here they become those of
:mod:`.networks`. Other learners' policies can be imported as ONNX with a description.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from gaitway_files.checkpoints import load_checkpoint
from gaitway_files.reading import VALUE, FileError, printable
from torch import Tensor

from .checkpoint import Weights, actor_config, check_sizes, newest_checkpoint, read_weights
from .config import Settings, given
from .errors import IsaacLabImportError
from .networks import ActorConfig

DESCRIBE = (
    "export the policy as ONNX, complete the description that 'gaitway import RUN --template' prints, and import the "
    "ONNX file with --describe"
)
SKRL_ACTIVATIONS = {name: name for name in ("elu", "relu", "selu", "sigmoid", "softplus", "tanh")} | {
    "leaky_relu": "lrelu"
}
RL_GAMES_ACTIVATIONS = {name: name for name in ("relu", "tanh", "sigmoid", "elu", "selu", "swish", "gelu", "softplus")}
RL_GAMES_EPS = 1e-5
"""Added to the variance by rl_games' ``RunningMeanStd``."""
SKRL_EPS = 1e-8
"""Added to the standard deviation by skrl's ``RunningStandardScaler``."""
LARGEST = 5.0
"""Clamp of normalised observations in both, where skrl's settings have no other."""


@dataclass(frozen=True, kw_only=True)
class FoundActor:
    """An actor's settings and weights, and where they come from."""

    config: ActorConfig
    weights: Weights
    checkpoint: Path
    groups: tuple[str, ...] | None
    """Observation groups that the actor reads; None follows rsl_rl's rules."""
    experiment: str | None


def find_actor(agent: Settings, run: Path, checkpoint: Path | None) -> FoundActor:
    """The actor of a run. Raises :class:`IsaacLabImportError`."""
    if isinstance(agent.data.get("params"), Mapping):
        return _rl_games(agent.child("params"), run, checkpoint)
    if isinstance(agent.data.get("models"), Mapping):
        return _skrl(agent, run, checkpoint)
    if isinstance(agent.data.get("policy"), str):
        raise IsaacLabImportError(
            f"{agent.where} is Stable-Baselines3's (policy: {printable(agent.data['policy'], VALUE)}); actors of "
            f"rsl_rl, skrl and rl_games are read: {DESCRIBE}"
        )
    config = actor_config(agent)
    file = checkpoint if checkpoint is not None else newest_checkpoint(run)
    experiment = agent.get("experiment_name", str)
    return FoundActor(config=config, weights=read_weights(file), checkpoint=file, groups=None, experiment=experiment)


def _skrl(agent: Settings, run: Path, checkpoint: Path | None) -> FoundActor:
    node = agent.child("models").child("policy")
    networks = node.get("network", list, [])
    if len(networks) != 1 or not isinstance(networks[0], Mapping):
        raise IsaacLabImportError(
            f"{node.where}.network has {len(networks)} parts, and actors of one are read: {DESCRIBE}"
        )
    network = Settings(networks[0], f"{node.where}.network[0]")
    for where, key, allowed in ((network, "input", ("OBSERVATIONS", "STATES")), (node, "output", ("ACTIONS",))):
        if (value := where.require(key, str)) not in allowed:
            raise IsaacLabImportError(
                f"{where.where}.{key} is {printable(value, VALUE)}; {' or '.join(allowed)} is read: {DESCRIBE}"
            )
    layers = [_units(layer) for layer in network.require("layers", list)]
    file = checkpoint or _newest(run / "checkpoints", r"agent_(\d+)", ".pt", "agent_<timestep>.pt")
    data = _loaded(file, "skrl")
    if not isinstance(state := data.get("policy"), Mapping):
        raise IsaacLabImportError(f"{file} has no 'policy'; give agent_<timestep>.pt with --checkpoint")
    name = network.require("name", str)
    tensors = _linears(state, rf"{re.escape(name)}_container\.(\d+)", "policy_layer")
    trained = agent.child("agent")
    key = "observation_preprocessor"  # from 2.0, whose state_preprocessor is the critic's
    key = key if key in trained.data or key in data else "state_preprocessor"
    normalizer = state if isinstance(state := data.get(key), Mapping) else None
    asked = given(trained.data.get(key))
    if asked != (normalizer is not None):
        raise IsaacLabImportError(
            f"{file} has {'a' if normalizer is not None else 'no'} normaliser of observations, and {trained.where}"
            f" {'has none' if not asked else 'has one'}: they are not of the same run"
        )
    if normalizer is not None:
        tensors |= _normalizer(normalizer, file, "running_variance", 0.0)
    scaler = Settings(trained.get(f"{key}_kwargs", dict, {}), f"{trained.where}.{key}_kwargs")
    config = ActorConfig(
        hidden_dims=check_sizes(tuple(layers), f"{network.where}.layers"),
        activation=_activation(network.data.get("activations", ""), SKRL_ACTIVATIONS, f"{network.where}.activations"),
        normalized=normalizer is not None, normalizer_eps=float(scaler.get("epsilon", float, SKRL_EPS)),
        normalizer_clip=float(scaler.get("clip_threshold", float, LARGEST)),
    )  # fmt: skip
    experiment = Settings(trained.get("experiment", dict, {}), f"{trained.where}.experiment").get("directory", str)
    steps = re.fullmatch(r"agent_(\d+)", file.stem)
    weights = _weights("skrl", "policy", tensors, int(steps[1]) if steps else None)
    return FoundActor(config=config, weights=weights, checkpoint=file, groups=("policy",), experiment=experiment)


def _rl_games(params: Settings, run: Path, checkpoint: Path | None) -> FoundActor:
    node, config, env = params.child("network"), params.child("config"), Settings(
        params.get("env", dict, {}), f"{params.where}.env"
    )  # fmt: skip
    mlp = node.child("mlp")
    for where, key in ((node, "rnn"), (node, "cnn"), (node, "normalization"), (mlp, "d2rl")):
        if (value := where.data.get(key)) not in (None, False, {}, "None"):
            raise IsaacLabImportError(
                f"{where.where}.{key} is {printable(value, VALUE)}; actors of linear layers alone are read: {DESCRIBE}"
            )
    space = node.child("space").child("continuous")
    if (last := space.get("mu_activation", str, "None")) != "None":
        raise IsaacLabImportError(f"{space.where}.mu_activation is {printable(last, VALUE)}; None is read: {DESCRIBE}")
    name = config.require("name", str)
    file = checkpoint or _newest(
        run / "nn", rf"last_{re.escape(name)}_ep_(\d+)_rew_.*", ".pth", f"last_{name}_ep_<epoch>_rew_<reward>.pth", name
    )
    data = _loaded(file, "rl_games")
    if not isinstance(model := data.get("model"), Mapping):
        raise IsaacLabImportError(f"{file} has no 'model', as rl_games writes it")
    state = {str(key).replace("_orig_mod.", ""): value for key, value in model.items()}  # of torch.compile
    tensors = _linears(state, r"a2c_network\.actor_mlp\.(\d+)", "a2c_network.mu")
    normalized = config.get("normalize_input", bool, False)
    if normalized:
        inside = {key.removeprefix("running_mean_std."): value for key, value in state.items()}
        older = data.get("running_mean_std")
        tensors |= _normalizer(older if isinstance(older, Mapping) else inside, file, "running_var", RL_GAMES_EPS)
    limit, seen = (float(env.get(key, float, math.inf)) for key in ("clip_actions", "clip_observations"))
    scaled = config.get("clip_actions", bool, True)  # to [-1, 1], then to the environment's range
    if scaled and math.isinf(limit):
        raise IsaacLabImportError(f"{env.where}.clip_actions is missing: the range that actions were scaled to")
    actor = ActorConfig(
        hidden_dims=check_sizes(tuple(mlp.require("units", list)), f"{mlp.where}.units"),
        activation=_activation(mlp.require("activation", str), RL_GAMES_ACTIVATIONS, f"{mlp.where}.activation"),
        normalized=normalized, normalizer_eps=0.0, normalizer_clip=LARGEST,
        observation_clip=None if math.isinf(seen) else seen,
        action_clip=1.0 if scaled else None if math.isinf(limit) else limit,
        action_scale=limit if scaled else 1.0,
    )  # fmt: skip
    groups = Settings(env.get("obs_groups", dict, {}), f"{env.where}.obs_groups").get("obs", list, ["policy"])
    epoch = data.get("epoch")
    weights = _weights("rl_games", "model", tensors, epoch if isinstance(epoch, int) else None)
    return FoundActor(config=actor, weights=weights, checkpoint=file, groups=tuple(map(str, groups)), experiment=name)


def _loaded(file: Path, learner: str) -> Mapping[str, Any]:
    try:
        data = load_checkpoint(file)
    except FileError as error:
        raise IsaacLabImportError(f"{file} is not a checkpoint as {learner} writes it: {error.reason}") from None
    if not isinstance(data, Mapping):
        raise IsaacLabImportError(f"{file} holds {type(data).__name__}; expected {learner}'s dictionary of state dicts")
    return data


def _newest(folder: Path, pattern: str, suffix: str, name: str, other: str | None = None) -> Path:
    """The file in ``folder`` with the highest number in its name, else that called ``other``."""
    found = [(int(m[1]), path) for path in folder.glob(f"*{suffix}") if (m := re.fullmatch(pattern, path.stem))]
    if found:
        return max(found)[1]
    if other is not None and (best := folder / f"{other}{suffix}").is_file():
        return best
    raise IsaacLabImportError(f"no {name} in {folder}: give the file with --checkpoint")


def _linears(state: Mapping[str, Any], hidden: str, last: str) -> dict[str, tuple[str, Tensor]]:
    """Weights and biases of the layers in their order, under rsl_rl's names, each with its name in the file."""
    places: dict[int, str] = {}
    for name in state:
        if match := re.fullmatch(rf"({hidden})\.weight", str(name)):
            places[int(match[2])] = match[1]
    layers = [places[number] for number in sorted(places)]
    if f"{last}.weight" in state:
        layers.append(last)
    return {
        f"mlp.{2 * number}.{part}": (f"{layer}.{part}", value)
        for number, layer in enumerate(layers)
        for part in ("weight", "bias")
        if isinstance(value := state.get(f"{layer}.{part}"), Tensor)
    }


def _normalizer(state: Mapping[str, Any], file: Path, variance: str, eps: float) -> dict[str, tuple[str, Tensor]]:
    """Mean (1, D) and standard deviation (1, D) of a normaliser that keeps a variance; ``eps`` is added to it."""
    for name in ("running_mean", variance):
        if not isinstance(state.get(name), Tensor) or state[name].ndim != 1:
            raise IsaacLabImportError(
                f"{file} has no {name} for its observations, which agent.yaml normalises: is it of this run?"
            )
    return {
        "normalizer._mean": ("running_mean", state["running_mean"].float()[None]),
        "normalizer._std": (variance, torch.sqrt(state[variance].float() + eps)[None]),
    }


def _weights(learner: str, section: str, tensors: Mapping[str, tuple[str, Tensor]], iteration: int | None) -> Weights:
    return Weights(
        version=learner, section=section, iteration=iteration,
        tensors={name: tensor for name, (_, tensor) in tensors.items()},
        file_names={name: f"{section}[{file_name!r}]" for name, (file_name, _) in tensors.items()},
    )  # fmt: skip


def _units(layer: Any) -> Any:
    """Units of a layer of skrl: a number, or ``linear`` with it."""
    if isinstance(layer, Mapping) and set(layer) == {"linear"}:
        inner = layer["linear"]
        layer = inner.get("out_features", inner.get("features")) if isinstance(inner, Mapping) else inner
        return layer[0] if isinstance(layer, list) and layer else layer
    return layer


def _activation(value: Any, known: Mapping[str, str], where: str) -> str:
    """Our name of an activation: one word, or a list of the same word."""
    words = {str(word).lower() for word in (value if isinstance(value, list) else [value])}
    if len(words) != 1 or (word := words.pop()) not in known:
        raise IsaacLabImportError(
            f"{where} is {printable(value, VALUE)}; one of {', '.join(known)} is read: {DESCRIBE}"
        )
    return known[word]
