"""Several files as one task: drawn by weights, tested on what each holds out."""

import json
from collections import Counter
from itertools import islice

import pytest
from gaitway_files.errors import UserError
from gaitway_tasks.language.rows import RowError
from gaitway_tasks.language.sources import MIXED_FROM, FileSource, MixedSource
from gaitway_tasks.language.tasks import check_task, get_language_task, offers


def write(path, count, **fields):
    path.parent.mkdir(exist_ok=True)
    rows = [{"prompt": f"{path.stem} {i}", "answer": str(i), **fields} for i in range(count)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def task(tmp_path):
    a, b = write(tmp_path / "a.jsonl", 300), write(tmp_path / "b.jsonl", 100)
    return get_language_task(f"{a},{b}")


def weighted(task, **weights):
    return MixedSource(files=task.source.files, weights=weights)


def test_without_weights_rows_are_drawn_in_proportion(task):
    assert task.name == "a+b" and task.rewards.keys() == {"correctness", "format"}
    drawn = Counter(row[MIXED_FROM] for row in islice(task.source.stream("train", 0), 4000))
    assert drawn["a"] / 4000 == pytest.approx(0.75, abs=0.03)


def test_weights_say_how_often_each_file_is_drawn(task):
    rows = list(islice(weighted(task, a=3, b=7).stream("train", 1), 4000))
    assert Counter(row[MIXED_FROM] for row in rows)["b"] / 4000 == pytest.approx(0.7, abs=0.03)
    of_a = [row["prompt"] for row in rows if row[MIXED_FROM] == "a"]
    assert set(Counter(of_a[:270]).values()) == {1}, "each file's rows come in epochs"


def test_equal_seeds_draw_equal_rows_however_the_files_were_named(task):
    other = MixedSource(files=dict(reversed(task.source.files.items())), weights={"b": 1.0, "a": 2.0})
    same = weighted(task, a=2.0, b=1.0)
    first, again, swapped, another = (
        [row["prompt"] for row in islice(source.stream("train", seed), 200)]
        for source, seed in ((same, 0), (same, 0), (other, 0), (same, 1))
    )
    assert first == again == swapped != another


def test_each_file_keeps_its_test_rows(tmp_path):
    write(tmp_path / "b-test.jsonl", 5)
    a, b = write(tmp_path / "a.jsonl", 40), write(tmp_path / "b-train.jsonl", 40)
    task = get_language_task(f"{a},{b}")
    assert check_task(task) == {"train": 36 + 40, "test": 4 + 5, "skipped": 0}
    test = task.source.rows("test")
    assert [row[MIXED_FROM] for row in test] == ["a", "b-train"] * 4 + ["b-train"], "the first few are of all files"
    assert not {row["prompt"] for row in test} & {row["prompt"] for row in task.source.rows("train")}


def test_fields_of_each_file_are_its_own(tmp_path):
    a, b = write(tmp_path / "a.jsonl", 20, completion="x"), write(tmp_path / "b.jsonl", 20, other="y")
    files = {"a": FileSource(train=str(a)), "b": FileSource(train=str(b), fields={"completion": "other"})}
    assert "completion" in offers(MixedSource(files=files))
    files["b"] = FileSource(train=str(b))
    source = MixedSource(files=files)
    assert "completion" not in offers(source) and source.lacking("completion") == [str(b)]


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ({"a": 1.0, "b": 0.0}, "weights.b 0.0: must be positive"),
        ({"a": -1.0, "b": 1.0}, "weights.a -1.0: must be positive"),
        ({"a": float("nan"), "b": 1.0}, "weights.a nan: must be positive"),
        ({"a": 1.0}, "one to each of the files a, b"),
        ({"a": 1.0, "b": 1.0, "c": 1.0}, "one to each of the files a, b"),
    ],
)
def test_impossible_weights_are_refused(task, weights, said):
    with pytest.raises(UserError, match=said):
        weighted(task, **weights)


def test_files_that_cannot_be_mixed_are_refused(tmp_path):
    a = write(tmp_path / "a.jsonl", 20)
    code = write(tmp_path / "code.jsonl", 20, tests=["assert f() == 1"])
    for names, said in (
        (f"{a},{code}", "code.jsonl by code: mix files of one kind"),
        (f"{a},{a}", "named twice"),
        (f"{tmp_path / 'a.txt'},{a}", "must be a file that ends in .jsonl"),
    ):
        with pytest.raises(RowError, match=said):
            get_language_task(names)


def test_files_of_one_name_are_told_apart_by_their_folders(tmp_path):
    x, y = write(tmp_path / "x" / "train.jsonl", 20), write(tmp_path / "y" / "train.jsonl", 20)
    assert list(get_language_task(f"{x},{y}").source.files) == ["x-train", "y-train"]
