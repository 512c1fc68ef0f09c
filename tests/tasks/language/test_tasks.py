"""Tasks by name and by file, and the check of all their rows."""

import json
import subprocess
import sys
from itertools import islice

import pytest
from gaitway_tasks.language.rows import RowError
from gaitway_tasks.language.score import score
from gaitway_tasks.language.sources import GSM8K, FileSource
from gaitway_tasks.language.tasks import check_task, get_language_task, language_task_names, offers
from gaitway_tasks.registry import UnknownNameError


@pytest.mark.parametrize("name", ["arithmetic", "arrows", "descriptions", "digit-sums"])
def test_demonstrations_of_a_generator_are_worth_something(name):
    task = get_language_task(name)
    assert task.name == name and name in language_task_names()
    counts = check_task(task, ["completion"])
    assert counts["train"] >= 1000 and counts["test"] >= 500 and counts["skipped"] == 0
    rows = [row for row in task.source.rows("train") if row.get("flawless", True)][:50]
    totals, parts = score(task, [row["prompt"] for row in rows], [row["completion"] for row in rows], rows)
    assert parts.keys() == task.rewards.keys() and len(totals) == 50
    if name == "arithmetic":
        assert totals == [1.2] * 50
        wrong = [row["completion"].replace("<answer> ", "<answer> 1") for row in rows]
        assert score(task, [""] * 50, wrong, rows)[0] == [0.2] * 50


def test_gsm8k_demonstrations_get_the_full_reward(tmp_path):
    path = tmp_path / "train.jsonl"
    path.write_text(
        "".join(json.dumps({"question": f"q{i}", "answer": f"{i}+1\n#### {i + 1}"}) + "\n" for i in range(20))
    )
    task = get_language_task("gsm8k").replace(source=GSM8K(data=str(path)))
    assert "<think>" in task.system_prompt
    assert check_task(task, ["answer", "completion"]) == {"train": 18, "test": 2, "skipped": 0}
    rows = list(islice(task.source.stream("train", 0), 18))
    assert score(task, [""] * 18, [row["completion"] for row in rows], rows)[0] == [1.2] * 18
    assert score(task, [""] * 18, [f"It is {row['answer']}." for row in rows], rows)[0] == [1.0] * 18


def write(path, *records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


@pytest.mark.parametrize(
    ("record", "rewards", "prompted"),
    [
        ({"prompt": "p", "answer": "1"}, {"correctness", "format"}, True),
        ({"prompt": "p", "answer": "1", "completion": "plain"}, {"correctness", "format"}, False),
        ({"question": "p", "answer": "so\n#### 1"}, {"correctness", "format"}, True),
        ({"prompt": "p", "tests": ["assert f() == 1"], "answer": "1"}, {"code"}, False),
        ({"prompt": "p", "completion": "c"}, set(), False),
        ({"prompt": "p", "chosen": "a", "rejected": "b"}, set(), False),
    ],
)
def test_a_file_is_a_task(tmp_path, record, rewards, prompted):
    task = get_language_task(write(tmp_path / "mine.v2.jsonl", *[record] * 10))
    assert (task.name, set(task.rewards), bool(task.system_prompt)) == ("mine", rewards, prompted)
    assert check_task(task)["train"] == 9


def test_a_test_file_beside_the_training_file_is_found(tmp_path):
    train = write(tmp_path / "math-train.jsonl", *[{"prompt": "p", "answer": "1"}] * 5)
    write(tmp_path / "math-test.jsonl", *[{"prompt": "p", "answer": "1"}] * 3)
    assert check_task(get_language_task(train)) == {"train": 5, "test": 3, "skipped": 0}


def test_fields_may_be_mapped_after_the_task_is_made(tmp_path):
    path = write(tmp_path / "odd.jsonl", *[{"q": "p", "a": "1"}] * 10)
    task = get_language_task(path)
    with pytest.raises(RowError, match="no prompt among its fields"):
        check_task(task)
    mapped = task.replace(source=FileSource(train=path, fields={"prompt": "q", "answer": "a"}))
    assert check_task(mapped, ["answer"])["train"] == 9
    half = task.replace(source=FileSource(train=path, fields={"prompt": "q"}))
    with pytest.raises(
        RowError, match=r"no field 'answer', which its reward 'correctness' needs.*task.source.fields.answer"
    ):
        check_task(half)


def test_what_a_kind_of_learning_needs_is_checked(tmp_path):
    task = get_language_task(write(tmp_path / "a.jsonl", *[{"prompt": "p", "completion": "c"}] * 10))
    assert offers(task.source) >= {"prompt", "completion"}
    with pytest.raises(RowError, match=r"task a has no field 'chosen', which this kind of learning needs"):
        check_task(task, ["chosen", "rejected"])
    with pytest.raises(RowError, match="task gsm8k has no field"):
        check_task(get_language_task("gsm8k").replace(source=get_language_task("arithmetic").source), ["chosen"])


def test_bad_rows_are_counted_once(tmp_path):
    good = {"prompt": "p", "answer": "1"}
    path = write(tmp_path / "a.jsonl", *[good] * 10, {"prompt": ""}, {"prompt": "p"})
    with pytest.raises(RowError, match="row 11"):
        check_task(get_language_task(path))
    task = get_language_task(path)
    assert check_task(task.replace(source=FileSource(train=path, skip_bad_rows=True))) == {
        "train": 9,
        "test": 1,
        "skipped": 2,
    }


def test_unknown_names_and_missing_files():
    with pytest.raises(UnknownNameError, match="did you mean 'gsm8k'"):
        get_language_task("gsm-8k")
    with pytest.raises(RowError, match=r"nowhere\.jsonl: no such file"):
        get_language_task("nowhere.jsonl")


def test_naming_tasks_loads_nothing_heavy():
    code = "import sys; from gaitway_tasks.language.tasks import language_task_names as n; n(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "numpy", "math_verify", "sympy", "pyarrow", "datasets", "transformers"} & set(loaded)
