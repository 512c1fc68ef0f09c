"""Runs to compare: find the folders, read, select and group them. Runs that cannot be compared are listed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gaitway_files.errors import UserError
from gaitway_files.reading import FileError
from gaitway_files.yaml_files import parse_yaml

from ..config.overrides import CONFIG_FILE, flatten, read_settings
from ..errors import ConfigError, RunError, nearest
from ..runs.folder import METRICS, RECORD, RunFolder, is_run
from .foreign import Log, find_logs, read_log
from .names import Names, text_of
from .series import Evaluation, Judged, NothingToCompare, Series, read_evaluations, read_judged, read_series

RECORDED = {"task": "task", "agent": "algorithm", "preset": "preset", "seed": "seed", "world": "world"}
"""Names of facts about a run, and their keys in ``run.json``."""
PLAIN = ("agent", "preset", "task", "world")
"""Facts whose values say what they are."""
STOPPED = ("running", "interrupted")
"""Status of a run that ended before its time, and did not fail."""
BASELINE = " (baseline)"


@dataclass(frozen=True, kw_only=True)
class Header:
    """Record and configuration of a run, read before its numbers."""

    path: Path
    record: Mapping[str, Any]
    config: Mapping[str, Any] = field(repr=False)
    """Dotted keys of config.yaml."""
    baseline: bool = False
    group: str = ""
    log: Log | None = None
    """Numbers of a training by another program."""

    @property
    def task(self) -> str:
        return str(self.record["task"])

    @property
    def seed(self) -> int:
        return int(self.record["seed"])

    def has(self, key: str) -> bool:
        return key in RECORDED or key in self.config

    def get(self, key: str) -> Any:
        return self.record.get(RECORDED[key]) if key in RECORDED else self.config.get(key)


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run with its numbers."""

    header: Header
    series: Series
    evaluations: tuple[Evaluation, ...]
    judged: Judged = field(default_factory=Judged)

    @property
    def task(self) -> str:
        return self.header.task

    @property
    def group(self) -> str:
        return self.header.group

    @property
    def record(self) -> Mapping[str, Any]:
        return self.header.record


@dataclass(frozen=True)
class LeftOut:
    """A run that is not compared, and the reason. ``failed``: its training failed."""

    path: Path
    reason: str
    header: Header | None = None
    failed: bool = False

    def __str__(self) -> str:
        return f"{self.path} is left out: {self.reason}"


def find_runs(paths: Iterable[Path]) -> list[Path]:
    """Folders of runs and of other programs' logs at and below ``paths``, each once, in order."""
    found: dict[Path, Path] = {}
    for path in paths:
        if not path.exists():
            raise UserError(f"no file or folder {path}")
        runs = [path] if is_run(path) else sorted([*(file.parent for file in path.rglob(RECORD)), *find_logs(path)])
        if not runs:
            raise UserError(
                f"no run folder at or below {path}: a run folder holds a {RECORD}; monitor.csv of Stable-Baselines3 "
                "and event files of TensorBoard are read too"
            )
        for run in runs:
            found.setdefault(run.resolve(), run)
    return list(found.values())


def read_headers(paths: Iterable[Path], *, baseline: bool = False) -> tuple[list[Header], list[LeftOut]]:
    """Records and configurations; a damaged run is left out, one of another format refused by its reader too."""
    headers, left_out = [], []
    for path in paths:
        try:
            if not is_run(path):
                log = read_log(path)
                headers.append(Header(path=path, record=log.record, config={}, baseline=baseline, log=log))
                continue
            record = RunFolder.open(path).record
            if missing := [key for key in ("task", "algorithm", "seed", "status") if key not in record]:
                raise RunError(f"{RECORD} has no {missing[0]}")
            headers.append(Header(path=path, record=record, config=_read_config(path), baseline=baseline))
        except RunError as error:
            reason = str(error).replace(f"{path}/", "").replace(f"{path} ", "it ")
            left_out.append(LeftOut(path, reason))
    return headers, left_out


def choose(headers: list[Header], conditions: Sequence[str]) -> list[Header]:
    """Runs for which every ``key=value`` holds."""
    for text in conditions:
        key, separator, value = text.partition("=")
        if not separator:
            raise UserError(f"--where {text}: write key=value, for example --where task=hopper")
        _check_key(headers, key, "--where")
        kept = [header for header in headers if text_of(header.get(key)) == text_of(_parse(value))]
        if headers and not kept:
            there = ", ".join(sorted({text_of(header.get(key)) for header in headers}))
            raise UserError(f"--where {text}: no run has it; {key} is {there}")
        headers = kept
    return headers


def put_into_groups(headers: list[Header], keys: str, labels: Sequence[str]) -> list[Header]:
    """Headers with the name of their group: the values of ``keys`` (comma-separated), renamed by ``old=new``."""
    names = Names(header.config for header in headers)
    parts = [key.strip() for key in keys.split(",")]
    for key in parts:
        if names.term(key) == key:
            continue
        if key not in RECORDED and (below := names.below(key)):
            raise UserError(f"--group {key}: it holds several settings, and no run lacks it: name one, such as {below}")
        _check_key(headers, key, "--group")
    renamed = {}
    groups = {_group_name(header, parts, names) for header in headers}
    for text in labels:
        old, separator, new = text.rpartition("=")
        if not separator or old not in groups or not new:
            raise UserError(f"--label {text}: write old=new, where old is one of {', '.join(sorted(groups))}")
        renamed[old] = new
    named = []
    for header in headers:
        name = _group_name(header, parts, names)
        suffix = BASELINE if header.baseline else ""
        named.append(replace(header, group=renamed.get(name, name) + suffix))
    return named


def read_runs(headers: Iterable[Header], metric: str, *, unfinished: bool = False) -> tuple[list[Run], list[LeftOut]]:
    """The finished runs with their numbers, or also those that were stopped, and the others."""
    runs: list[Run] = []
    left_out: list[LeftOut] = []
    for header in headers:
        status = header.record["status"]
        if status != "finished" and not (unfinished and status in STOPPED):
            left_out.append(_unfinished(header, status))
            continue
        if header.record["steps"] == 0 and not (header.path / METRICS).exists():
            left_out.append(LeftOut(header.path, "it has done no steps", header))
            continue
        try:
            evaluations = () if header.log is not None else read_evaluations(header.path)
            series = header.log.series(metric) if header.log else read_series(header.path, metric, evaluations)
            judged = Judged() if header.log is not None else read_judged(header.path)
        except RunError as error:
            left_out.append(LeftOut(header.path, str(error), header))
        else:
            runs.append(Run(header=header, series=series, evaluations=evaluations, judged=judged))
    return runs, left_out


def _unfinished(header: Header, status: str) -> LeftOut:
    if status == "failed":
        error = header.record.get("error", "it does not say why")
        return LeftOut(header.path, f"its training failed: {error}", header, failed=True)
    done, total = header.record.get("steps", 0), header.record.get("total_steps", 0)
    state = "is unfinished (running, or killed)" if status == "running" else f"was {status}"
    return LeftOut(header.path, f"it {state} at {done:,} of {total:,} steps", header)


def _read_config(run: Path) -> dict[str, Any]:
    path = run / CONFIG_FILE
    if not path.exists():
        raise NothingToCompare(f"it has no {CONFIG_FILE}")
    try:
        return flatten(read_settings(path))
    except ConfigError as error:
        raise RunError(f"{CONFIG_FILE} cannot be read: {str(error).replace(f'{path} ', '')}") from None


def _group_name(header: Header, keys: list[str], names: Names) -> str:
    """Group name: plain values for names (an agent, a preset), the setting with its value for others."""
    return ", ".join(
        text_of(header.get(key))
        if key in PLAIN
        else f"{key} {text_of(header.get(key))}"
        if key in RECORDED
        else names.value(key, header.config)
        for key in keys
    )


def _check_key(headers: list[Header], key: str, option: str) -> None:
    if headers and not any(header.has(key) for header in headers):
        near = nearest(key, [*RECORDED, *{k for header in headers for k in header.config}])
        hint = (
            f": did you mean {near}?" if near else f"; known are {', '.join(RECORDED)} and every key of {CONFIG_FILE}"
        )
        raise UserError(f"{option} {key}: no run has such a setting{hint}")


def _parse(value: str) -> Any:
    for read in (int, float):  # YAML 1.1 takes 1e-3 for text
        try:
            return read(value)
        except ValueError:
            continue
    try:
        return parse_yaml(value, "the value")
    except FileError:
        return value
