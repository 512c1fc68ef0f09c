"""The task `records`: JSON objects with given keys and values, checked exactly."""

from __future__ import annotations

import json
import re
from itertools import islice

import pytest
from gaitway_tasks.language.records import KINDS, NEW, TRAINED, RecordSource
from gaitway_tasks.language.score import score
from gaitway_tasks.language.tasks import get_language_task

TASK = get_language_task("records")
ROW = {"prompt": "Anna is 34.", "record": {"name": "Anna", "age": 34}}


@pytest.mark.parametrize(
    ("answer", "correctness", "likeness"),
    [
        ('{"age": 34, "name": "Anna"}\n', 1.0, 1.0),
        ('{"name": "Anna", "age": "34"}', 0.0, 0.8),
        ('{"name": "Anna", "age": true}', 0.0, 0.6),
        ('{"name": "Anna"}', 0.0, 0.6),
        ('{"name": "Anna", "age": 34, "city": "Rome", "id": 1}', 0.0, 0.6),
        ('{"name": "anna", "age": [34]}', 0.0, 0.2),
        ('```json\n{"name": "Anna", "age": 34}\n```', 0.0, 0.0),
        ('{"name": "Anna", "age": 34', 0.0, 0.1),
        ("[34]", 0.0, 0.05),
        ("9" * 5000, 0.0, 0.0),
        ("[" * 100_000, 0.0, 0.0),
    ],
)
def test_only_the_record_itself_is_right(answer, correctness, likeness):
    _, parts = score(TASK, [ROW["prompt"]], [answer], [ROW])
    assert (parts["correctness"][0], parts["likeness"][0]) == (correctness, pytest.approx(likeness))


@pytest.mark.parametrize("unseen", [False, True])
def test_written_records_are_right(unseen):
    rows = RecordSource(unseen=unseen).rows("test")
    _, parts = score(TASK, [row["prompt"] for row in rows], [row["completion"] for row in rows], rows)
    assert set(parts["correctness"]) == {1.0}
    assert {row["level"] for row in rows} == set(NEW if unseen else TRAINED)


def test_test_problems_share_no_value_or_wording_with_training_but_numbers():
    train, test = list(islice(TASK.source.stream("train", 0), 3000)), TASK.source.rows("test")
    texts = [{v for row in rows for v in row["record"].values() if isinstance(v, str)} for rows in (train, test)]
    assert not texts[0] & texts[1]
    for name in TRAINED:
        wording = re.compile(re.sub(r"{\w+}", ".+", KINDS[name].sentences[-1]))
        assert not any(wording.search(row["prompt"]) for row in train)
        assert all(wording.search(row["prompt"]) for row in test if row["level"] == name)
    assert json.loads(json.dumps(train)) == train
