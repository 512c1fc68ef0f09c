"""Language tasks by name, and those of a file."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from gaitway_files.trust import object_named, trust

from ..registry import UnknownNameError, call, is_outside
from .answers import FORMAT_PROMPT, has_format
from .arithmetic import ArithmeticSource
from .arrows import ArrowSource
from .descriptions import DescriptionSource, judge
from .digit_sums import DigitSumSource
from .files import ENDINGS, SUFFIXES, is_file_name
from .gyms import IDS, GymnasiumSource
from .gyms import PREFIX as PLAYED
from .instructions import InstructionSource, followed, nearness
from .programs import code
from .reasoning_gym import PREFIX as REASONING
from .reasoning_gym import ReasoningGymSource, reasoning_score
from .records import RecordSource, likeness, recorded
from .rewards import correctness, format_reward
from .rows import SPLITS, FieldError, RowError
from .sources import GSM8K, FileSource, MixedSource
from .spec import LanguageTask, Source, TextReward
from .verifiers import PREFIX as VERIFIERS
from .verifiers import VerifiersSource, module_of


def arithmetic() -> LanguageTask:
    """Word problems of two or three steps; half of the demonstrations have a slip."""
    return LanguageTask(
        name="arithmetic",
        source=ArithmeticSource(demonstrations=8000, slips=0.25),
        rewards={
            "correctness": TextReward(func=correctness, params={"tags_only": True}),
            "format": TextReward(func=format_reward, weight=0.2),
        },
        max_prompt_tokens=64,
        max_completion_tokens=64,
    )


def arrows() -> LanguageTask:
    """Arrows to follow to their end; demonstrators give up early, and test problems are deeper than all others."""
    return LanguageTask(
        name="arrows",
        source=ArrowSource(),
        rewards={"correctness": TextReward(func=correctness, params={"tags_only": True})},
        max_prompt_tokens=32,
        max_completion_tokens=32,
    )


def digit_sums() -> LanguageTask:
    """Sums of 16 digits modulo ten; one demonstration in twenty writes running sums, the others answer at once."""
    return LanguageTask(
        name="digit-sums",
        source=DigitSumSource(),
        rewards={"correctness": TextReward(func=correctness, params={"tags_only": True})},
        max_prompt_tokens=32,
        max_completion_tokens=32,
    )


def descriptions() -> LanguageTask:
    """Requests to describe things, and the taste of a judge that preferences tell of."""
    return LanguageTask(
        name="descriptions",
        source=DescriptionSource(),
        rewards={"judge": TextReward(func=judge)},
        max_prompt_tokens=24,
        max_completion_tokens=40,
    )


def instructions() -> LanguageTask:
    """Short requests under constraints that a program checks, for a model that can write."""
    return LanguageTask(
        name="instructions",
        source=InstructionSource(),
        rewards={"correctness": TextReward(func=followed), "nearness": TextReward(func=nearness, weight=0.5)},
        max_prompt_tokens=128,
        max_completion_tokens=64,
    )


def records() -> LanguageTask:
    """Sentences to turn into JSON objects with given keys, for a model that can write."""
    return LanguageTask(
        name="records",
        source=RecordSource(),
        rewards={"correctness": TextReward(func=recorded), "likeness": TextReward(func=likeness, weight=0.5)},
        max_prompt_tokens=128,
        max_completion_tokens=64,
    )


def gsm8k() -> LanguageTask:
    """Grade-school word problems, answered with reasoning and result between tags."""
    return LanguageTask(
        name="gsm8k",
        source=GSM8K(),
        rewards={"correctness": TextReward(func=correctness), "format": TextReward(func=format_reward, weight=0.2)},
        system_prompt=FORMAT_PROMPT,
        max_prompt_tokens=512,
        max_completion_tokens=512,
    )


def gymnasium_text(name: str) -> LanguageTask:
    """A Gymnasium environment in words, by a short name of :data:`~gaitway_tasks.language.gyms.IDS` or by its id."""
    source = GymnasiumSource(env_id=IDS.get(name, name))
    source.make().close()
    return LanguageTask(
        name=f"{PLAYED}{name}", source=source, max_turns=32, max_prompt_tokens=192, max_completion_tokens=320
    )


def reasoning(name: str) -> LanguageTask:
    """Problems of one of reasoning-gym's data sets, judged by its own score."""
    source = ReasoningGymSource(dataset=name)
    source.rows("test")
    return LanguageTask(
        name=f"{REASONING}{name}",
        source=source,
        rewards={
            "correctness": TextReward(func=reasoning_score),
            "format": TextReward(func=format_reward, weight=0.2),
        },
        system_prompt=FORMAT_PROMPT,
        max_prompt_tokens=1024,
        max_completion_tokens=1024,
    )


def verifiers(taskset: str) -> LanguageTask:
    """Tasks of an installed taskset of verifiers, with its own rewards."""
    trust(module_of(taskset))  # the user has named it
    source = VerifiersSource(taskset=taskset)
    source.new().host.ask("tasks", start=0, count=1)
    return LanguageTask(
        name=f"{VERIFIERS}{taskset}", source=source, max_turns=8, max_prompt_tokens=1024, max_completion_tokens=1024
    )


_FAMILIES = {PLAYED: gymnasium_text, REASONING: reasoning, VERIFIERS: verifiers}


def in_family(name: str) -> bool:
    """True if ``name`` begins like the names of tasks that are made by name."""
    return name.startswith(tuple(_FAMILIES))


_TASKS: dict[str, Callable[[], LanguageTask]] = {
    "arithmetic": arithmetic,
    "arrows": arrows,
    "instructions": instructions,
    "descriptions": descriptions,
    "digit-sums": digit_sums,
    "gsm8k": gsm8k,
    "records": records,
}


def language_task_names() -> list[str]:
    """Names that :func:`get_language_task` knows."""
    return sorted(_TASKS)


def summary(name: str) -> str:
    """One line about the task of that name; empty with python -OO."""
    return (_TASKS[name].__doc__ or "").rstrip(".")


def get_language_task(name: str) -> LanguageTask:
    """The task of that name, or of a file of rows (``files.SUFFIXES``), or ``module:object``.

    Raises :class:`UnknownNameError` for an unknown name, ``RowError`` for a file that cannot be used.
    """
    if name in _TASKS:
        return _TASKS[name]()
    for prefix, make in _FAMILIES.items():
        if name.startswith(prefix):
            return make(name.removeprefix(prefix))
    if is_file_name(name):
        task = mixed_task(name.split(",")) if "," in name and not Path(name).exists() else file_task(name)
        call(task.name, name)
        return task
    if is_outside(name):
        task = object_named(name)
        assert isinstance(task, LanguageTask), f"{name} is no language task"
        return task
    raise UnknownNameError("language task", name, [*_TASKS, f"a file of rows ({', '.join(SUFFIXES)})"])


def file_task(path: str | Path, fields: Mapping[str, str] | None = None) -> LanguageTask:
    """The task of a file: rows with ``answer`` are rewarded for it, rows with ``tests`` for programs that pass them.

    Others have no reward of their own: they are demonstrations, preferences, or prompts for a reward model. ``fields``
    are names of the file's fields by ours. A file named ``...train...`` is tested on the one beside it named
    ``...test...``, if there is one.
    """
    path = Path(path)
    beside = path.with_name(path.name.replace("train", "test"))
    test = str(beside) if beside != path and beside.is_file() else None
    source = FileSource(train=str(path), test=test, fields=fields or {})
    try:
        row = source.first()
    except FieldError:  # fields that are yet to be mapped; check_task tells of those that then are missing
        row = {"prompt": "", "answer": ""}
    rewards = {}
    if "tests" in row:
        rewards["code"] = TextReward(func=code)
    elif "answer" in row:
        rewards["correctness"] = TextReward(func=correctness)
        rewards["format"] = TextReward(func=format_reward, weight=0.2)
    in_tags = "correctness" in rewards and ("completion" not in row or has_format(row["completion"]))
    return LanguageTask(
        name=path.name.partition(".")[0],
        source=source,
        rewards=rewards,
        system_prompt=FORMAT_PROMPT if in_tags else "",
        max_prompt_tokens=1024,
        max_completion_tokens=1024,
    )


def mixed_task(paths: Sequence[str]) -> LanguageTask:
    """The task of several files, drawn in proportion to their rows until ``task.source.weights`` says otherwise."""
    paths = [path.strip() for path in paths]
    if bad := next((path for path in paths if not is_file_name(path)), None):
        raise RowError(f"{bad!r} among {', '.join(paths)}: each must be a file that ends in {ENDINGS}")
    if len(set(paths)) < len(paths):
        raise RowError(f"{', '.join(paths)}: a file is named twice; give it a weight, as in task.source.weights")
    tasks = [file_task(path) for path in paths]
    names = [task.name for task in tasks]
    if len(set(names)) < len(names):  # train.jsonl of two folders
        names = [f"{Path(path).absolute().parent.name}-{task.name}" for path, task in zip(paths, tasks, strict=True)]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise RowError(f"{', '.join(paths)}: two of them are called {twice}; rename one")
    for path, task in zip(paths, tasks, strict=True):
        if task.rewards.keys() != tasks[0].rewards.keys():
            told = [" and ".join(one.rewards) or "nothing" for one in (tasks[0], task)]
            raise RowError(f"{paths[0]} is rewarded by {told[0]} and {path} by {told[1]}: mix files of one kind")
    files = {name: task.source for name, task in zip(names, tasks, strict=True) if isinstance(task.source, FileSource)}
    in_tags = all(task.system_prompt for task in tasks)
    return tasks[0].replace(
        name="+".join(names), source=MixedSource(files=files), system_prompt=FORMAT_PROMPT if in_tags else ""
    )


def offers(source: Source) -> frozenset[str]:
    """Names of the fields that a source's rows have, found without reading all of them."""
    if isinstance(source, GSM8K):
        return frozenset({"prompt", "answer", "completion"})
    if isinstance(source, FileSource | MixedSource):
        return frozenset(source.first())
    return frozenset(next(source.stream("train", 0)))


def check_task(task: LanguageTask, needs: Iterable[str] = ()) -> dict[str, int]:
    """Read every row of a task and count: "train", "test" and "skipped".

    Raises ``RowError`` for a bad row, and where the rows lack a field of ``needs`` or one that a reward asks for.
    """
    counts, skipped = {}, set()
    for split in SPLITS:
        if isinstance(task.source, FileSource | GSM8K | MixedSource):
            rows, errors = task.source.examine(split)
            skipped |= {str(error) for error in errors}  # both splits may be of one file
        else:
            rows = task.source.rows(split)
        counts[split] = len(rows)
    fields = offers(task.source)
    asked = [(field, "this kind of learning") for field in needs]
    asked += [(field, f"its reward {name!r}") for name, reward in task.rewards.items() for field in _required(reward)]
    for field, by in asked:
        if field not in fields:
            raise RowError(
                f"task {task.name} has no field {field!r}, which {by} needs: its rows have "
                f"{', '.join(sorted(fields))}. If another field holds it, set task.source.fields.{field} to its name"
            )
    return {**counts, "skipped": len(skipped)}


def _required(reward: TextReward) -> list[str]:
    """Columns without which a reward cannot be called."""
    return [
        parameter.name
        for parameter in inspect.signature(reward.func).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        and parameter.name not in ("prompts", "completions", *reward.params)
    ]
