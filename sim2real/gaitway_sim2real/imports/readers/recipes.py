"""Policies whose files say nothing about how they are run: what their runners do stands in the recipes of this package.

A recipe is a description with three more keys: ``match`` (the file's name, its folder in the checkout, and how many
numbers the policy reads and gives), ``model`` (the source's own MJCF) and ``read_in`` (where each fact was read).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gaitway_files.errors import UserError
from gaitway_files.yaml_files import dump_yaml, read_yaml

from ..bundle import Found
from ..described_policy import DescribedPolicy, described
from ..description import Description
from ..description_file import description_from
from ..errors import PolicyImportError
from ..families import Options
from ..graph import open_network
from ..robot import OtherRobot
from ..weights import read_network, torchscript_network

FOLDER = Path(__file__).parent.parent / "recipes"
SUFFIXES = (".onnx", ".pt", ".pth", ".jit")


@dataclass(frozen=True, kw_only=True)
class Match:
    """The published file that a recipe runs, and only that one."""

    file: str
    """Its name."""
    below: str
    """Its folder in the source's checkout."""
    observation: int
    action: int
    named: bool = True
    """True if the name alone identifies it; otherwise the folder must match too."""

    def may_be(self, path: Path) -> bool:
        """True if ``path`` has the name."""
        folders = Path(self.below).parts
        return path.name == self.file and (self.named or path.absolute().parent.parts[-len(folders) :] == folders)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Recipe that runs the policies of one robot in one source."""

    name: str
    match: Match
    model: str
    """The source's own MJCF, in its checkout."""
    read_in: Mapping[str, str]
    """Source file and lines of each fact."""
    data: Mapping[str, Any] = field(repr=False)

    def description(self, file: str) -> Description:
        """Description of the network in ``file``."""
        data = {**self.data, "network": {**self.data.get("network", {}), "file": file}}
        return description_from(data, f"recipe {self.name}", family="recipes")

    def widths_of(self, path: Path) -> tuple[int, int]:
        """Numbers that the network at ``path`` reads and gives. Raises :class:`UserError`."""
        if path.suffix != ".onnx":
            module, _ = torchscript_network(path)
            return module.in_features, module.num_actions
        found = read_network(self.description(path.name), path)
        network = open_network(found.graph, found.description.network)
        return network.observation_dim, network.action_dim


def names() -> list[str]:
    """Names of all recipes."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


@functools.cache
def recipe(name: str) -> Recipe:
    """The recipe ``name``. Raises :class:`PolicyImportError`."""
    if name not in names():
        raise PolicyImportError(f"there is no recipe {name!r}; there are {', '.join(names())}")
    data = dict(read_yaml(FOLDER / f"{name}.yaml"))
    match, model, read_in = (data.pop(key) for key in ("match", "model", "read_in"))
    return Recipe(name=name, match=Match(**match), model=model, read_in=read_in, data=data)


def template(name: str) -> str:
    """The recipe ``name`` as a description to change."""
    return dump_yaml(dict(recipe(name).data))


def find(source: Path) -> list[Path]:
    """Files that a recipe knows: ``source`` itself, in it, or at their place below it, if it is a checkout."""
    if source.is_file():
        candidates = [source]
    else:
        candidates = sorted(path for suffix in SUFFIXES for path in source.glob(f"*{suffix}"))
        candidates += [source / r.match.below / r.match.file for r in map(recipe, names())]
    return [path for path in dict.fromkeys(candidates) if path.is_file() and _recipe_of(path) is not None]


def load(path: Path, options: Options) -> DescribedPolicy:
    """The policy in the file ``path``, run as the recipe of its name or that of ``options`` says."""
    found = recipe(options.recipe) if options.recipe is not None else _recipe_of(path)
    assert found is not None
    return _described(found, path, options)


def load_named(source: Path, options: Options) -> DescribedPolicy:
    """The policy at ``source``, a file or the source's checkout, run as the recipe ``options.recipe`` says."""
    assert options.recipe is not None
    chosen = recipe(options.recipe)
    if source.is_dir():
        source = source / chosen.match.below / chosen.match.file
    if not source.is_file():
        raise PolicyImportError(f"{source} is no file: with --recipe, SOURCE is the network, .onnx or .pt")
    return _described(chosen, source, options)


def _described(chosen: Recipe, path: Path, options: Options) -> DescribedPolicy:
    found = _read(chosen, path)
    try:
        return described(found, options)
    except OtherRobot as error:
        raise PolicyImportError(f"{error}; this source's own is {chosen.model}") from None


def _read(chosen: Recipe, path: Path) -> Found:
    """The policy, whose network must have the recipe's widths."""
    d = chosen.description(path.name)
    have = chosen.widths_of(path)
    if have != (want := (chosen.match.observation, chosen.match.action)):
        raise PolicyImportError(
            f"{path} reads {have[0]} numbers and gives {have[1]}, and the recipe {chosen.name} is for {want[0]} and "
            f"{want[1]}: it is another policy. Change a copy of the recipe (gaitway import --recipe {chosen.name} "
            f"--template) and give it with --describe"
        )
    return read_network(d, path)


def _recipe_of(path: Path) -> Recipe | None:
    """The recipe for the file ``path``: its name and widths are those of the published policy."""
    for candidate in map(recipe, names()):
        if not candidate.match.may_be(path):
            continue
        try:
            if candidate.widths_of(path) == (candidate.match.observation, candidate.match.action):
                return candidate
        except UserError:  # a different network under the same name
            continue
    return None
