"""Checkpoints below the server's folder, by their ``tinker://`` paths. A later server finds them again."""

from __future__ import annotations

import datetime
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gaitway_files.errors import UserError
from gaitway_files.json_files import read_json
from gaitway_files.writing import whole_folder, write_text

from ..runs.files import disk_error

KINDS = {"weights": "training", "sampler_weights": "sampler"}
"""The middle part of a path, and the kind of checkpoint by Tinker's name."""
ABOUT = "about.json"
RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,119}")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}")


@dataclass(frozen=True)
class About:
    """What a checkpoint says of itself."""

    base_model: str
    fingerprint: str
    """Digest of the model's weights under the adapters."""
    rank: int | None
    seed: int
    train_attn: bool
    train_mlp: bool
    created: str
    """ISO 8601, UTC."""
    expires: str | None = None
    user_metadata: dict[str, str] | None = None
    ephemeral: bool = field(default=False)
    """Made for one sampling client; the oldest of them go."""

    @property
    def expired(self) -> bool:
        return self.expires is not None and self.expires < now()


@dataclass(frozen=True)
class Place:
    """A checkpoint's run, kind and name."""

    run: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"tinker://{self.run}/{self.kind}/{self.name}"


def now(seconds: float = 0.0) -> str:
    """The time in ``seconds`` from now, ISO 8601 in UTC."""
    moment = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=seconds)
    return moment.isoformat(timespec="microseconds")


def place_of(path: Any) -> Place:
    """The place that a ``tinker://RUN/weights/NAME`` or ``.../sampler_weights/NAME`` names. Raises UserError."""
    parts = path.removeprefix("tinker://").split("/") if isinstance(path, str) else []
    if not (isinstance(path, str) and path.startswith("tinker://") and len(parts) == 3 and parts[1] in KINDS):
        raise UserError(f"path {path!r}: expected tinker://RUN/weights/NAME or tinker://RUN/sampler_weights/NAME")
    return checked(Place(*parts))


def checked(place: Place) -> Place:
    if not RUN_ID.fullmatch(place.run) or not NAME.fullmatch(place.name):
        raise UserError(f"checkpoint {str(place)!r}: names have letters, digits, '.', '_' and '-', at most 120 of them")
    return place


class Checkpoints:
    """Folders ``root/RUN/KIND/NAME``, with the weights and ``about.json``."""

    def __init__(self, root: Path):
        self.root = root

    def folder(self, place: Place) -> Path:
        return self.root / place.run / place.kind / place.name

    def save(self, place: Place, about: About, write: Callable[[Path], None], *, overwrite: bool = False) -> None:
        """Have ``write`` fill the checkpoint's folder. UserError if there is one already."""
        folder = self.folder(checked(place))
        if folder.exists() and not overwrite:
            raise UserError(f"checkpoint {place} exists: choose another name, or overwrite it")
        self.sweep()
        try:
            with whole_folder(folder) as partial:
                write(partial)
                write_text(partial / ABOUT, json.dumps(asdict(about), indent=1))
        except OSError as error:
            raise disk_error(folder, error) from None

    def read(self, place: Place) -> tuple[Path, About]:
        """The folder of a checkpoint and what it says of itself. UserError if it is not there, or has expired."""
        folder = self.folder(place)
        about = _about(folder)
        if about is None or about.expired:
            raise UserError(f"no checkpoint {place} below {self.root}: never saved there, deleted or expired")
        return folder, about

    def of_run(self, run: str) -> list[tuple[Place, About]]:
        """Checkpoints of a run that were saved by name, oldest first."""
        found = [(place, about) for place, about in self._all(run) if not about.ephemeral and not about.expired]
        return sorted(found, key=lambda pair: pair[1].created)

    def runs(self) -> list[str]:
        """Names of the runs that have a checkpoint."""
        folders = self.root.iterdir() if self.root.is_dir() else ()
        names = sorted(folder.name for folder in folders if RUN_ID.fullmatch(folder.name))
        return [name for name in names if self.of_run(name)]

    def delete(self, place: Place) -> None:
        folder, _ = self.read(checked(place))
        shutil.rmtree(folder)

    def drop_ephemeral(self, run: str, keep: int) -> None:
        """Delete all but the ``keep`` newest checkpoints of a run that were made for a sampling client."""
        made = [(place, about) for place, about in self._all(run, "sampler_weights") if about.ephemeral]
        for place, _ in sorted(made, key=lambda pair: pair[1].created)[: max(0, len(made) - keep)]:
            shutil.rmtree(self.folder(place), ignore_errors=True)

    def sweep(self, *, ephemeral: bool = False) -> None:
        """Delete checkpoints that have expired and, at a start, those of sampling clients, which are gone."""
        for folder in self.root.iterdir() if self.root.is_dir() else ():
            if RUN_ID.fullmatch(folder.name):
                for place, about in self._all(folder.name):
                    if about.expired or (ephemeral and about.ephemeral):
                        shutil.rmtree(self.folder(place), ignore_errors=True)

    def _all(self, run: str, *kinds: str) -> list[tuple[Place, About]]:
        folders = [f for kind in kinds or KINDS for f in (self.root / run / kind).glob("*") if NAME.fullmatch(f.name)]
        read = [(Place(run, folder.parent.name, folder.name), _about(folder)) for folder in folders]
        return [(place, about) for place, about in read if about is not None]


def _about(folder: Path) -> About | None:
    path = folder / ABOUT
    if not path.is_file():
        return None
    try:
        return About(**read_json(path))
    except TypeError:
        raise UserError(f"{path} is not of this version of Gaitway: remove the checkpoint") from None
