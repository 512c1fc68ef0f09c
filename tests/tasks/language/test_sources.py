"""Rows of files: what is understood, what is refused, and how."""

import csv
import gzip
import json
import re
from itertools import islice

import pytest
from gaitway_tasks.language.answers import final_answer, has_format
from gaitway_tasks.language.rows import RowError
from gaitway_tasks.language.sources import GSM8K, FileSource
from hypothesis import given
from hypothesis import strategies as st

CHAT = [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}]
WORKED = "Ann has 2+2=<<2+2=4>>4 pens.\nThen 4-1=<<4-1=3>>3.\n#### 1,003"


def write(path, records):
    text = "".join(record if isinstance(record, str) else json.dumps(record) + "\n" for record in records)
    data = text.encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
    return str(path)


@pytest.fixture
def first(tmp_path):
    """The row that a record becomes."""

    def read(record, **settings):
        return FileSource(train=write(tmp_path / "rows.jsonl", [record]), holdout=0, **settings).rows("train")[0]

    return read


@pytest.mark.parametrize(
    ("record", "row"),
    [
        ({"prompt": "p", "completion": "c"}, {"prompt": "p", "completion": "c"}),
        ({"question": "q", "answer": 7}, {"prompt": "q", "answer": "7"}),
        ({"problem": "q", "solution": "s"}, {"prompt": "q", "solution": "s"}),
        (
            {"problem": "q", "solution": "so \\boxed{x^{2}}."},
            {"prompt": "q", "answer": "x^{2}", "completion": "so \\boxed{x^{2}}."},
        ),
        ({"problem": "q", "solution": "thus $\\boxed 0$ since $3<4$"}, {"answer": "0"}),
        ({"problem": "q", "solution": "thus \\fbox{7} of 9"}, {"answer": "7"}),
        ({"problem": "q", "solution": "so \\boxed{3} or \\boxed{5}."}, {"answer": "3, 5"}),
        ({"problem": "q", "answer": "so \\boxed{7}, as 3 < 4"}, {"answer": "7"}),
        ({"problem": "q", "answer": "<think> 3 </think> <answer> 7 </answer>"}, {"answer": "7"}),
        ({"problem": "q", "answer": "so\n#### 7\nHe has 9."}, {"answer": "7"}),
        ({"instruction": "i", "input": "n", "output": "o"}, {"prompt": "i\n\nn", "completion": "o"}),
        ({"instruction": "i", "input": "", "output": "o"}, {"prompt": "i", "completion": "o"}),
        ({"messages": CHAT}, {"prompt": CHAT[:1], "completion": "4"}),
        ({"messages": CHAT[:1]}, {"prompt": CHAT[:1]}),
        ({"messages": CHAT * 2}, {"prompt": (CHAT * 2)[:3], "completion": "4", "messages": CHAT * 2}),
        ({"messages": CHAT * 2, "prompt": "p", "completion": "c"}, {"prompt": "p", "completion": "c"}),
        ({"prompt": CHAT[:1], "completion": CHAT[1:]}, {"prompt": CHAT[:1], "completion": "4"}),
        ({"prompt": "p", "chosen": "a", "rejected": "b", "margin": 2}, {"chosen": "a", "rejected": "b", "margin": 2}),
        (
            {"chosen": CHAT, "rejected": [CHAT[0], {"role": "assistant", "content": "5"}]},
            {"prompt": CHAT[:1], "chosen": "4", "rejected": "5"},
        ),
        (
            {"chosen": "\n\nHuman: 2+2?\n\nAssistant: 4", "rejected": "\n\nHuman: 2+2?\n\nAssistant: 5\n"},
            {"prompt": CHAT[:1], "chosen": "4", "rejected": "5"},
        ),
        ({"prompt": "p", "completion": "c", "label": True}, {"label": True}),
        ({"prompt": "p", "completion": "c", "label": "False"}, {"label": False}),  # a table has text alone
        ({"prompt": "p", "tests": "assert x"}, {"tests": ["assert x"]}),
        ({"prompt": "p", "tests": [{"input": "1", "output": "2"}], "level": 3}, {"level": 3}),
    ],
)
def test_fields_of_well_known_data_sets(first, record, row):
    found = first(record)
    assert {name: found[name] for name in row} == row


SAYS = {"role": "system", "content": "be brief"}
TOLD = {"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}
FIVE = {"role": "assistant", "content": "5"}
SHARED = [{"from": "human", "value": "2+2?"}, {"from": "gpt", "value": "4"}]


@pytest.mark.parametrize(
    ("record", "row"),
    [
        ({"conversations": SHARED}, {"prompt": CHAT[:1], "completion": "4"}),
        ({"conversation": json.dumps(CHAT)}, {"prompt": CHAT[:1], "completion": "4"}),
        ({"conversations": SHARED, "system": "be brief"}, {"prompt": [SAYS, CHAT[0]], "completion": "4"}),
        (
            {"conversations": SHARED[:1], "chosen": SHARED[1], "rejected": {"from": "gpt", "value": "5"}},
            {"prompt": CHAT[:1], "chosen": "4", "rejected": "5"},
        ),
        ({"system_prompt": "be brief", "question": "2+2?", "response": "4"}, {"prompt": [SAYS, CHAT[0]]}),
        (
            {"system": "be brief", "question": "2+2?", "chosen": "4", "rejected": "5"},
            {"prompt": [SAYS, CHAT[0]], "chosen": "4"},
        ),
        ({"messages": [SAYS, *CHAT], "system": "be brief"}, {"prompt": [SAYS, CHAT[0]], "completion": "4"}),
        (
            {"instruction": "2+2?", "output": "4", "system": "be brief", "history": [["hi", "ho"]]},
            {"prompt": [SAYS, *TOLD, CHAT[0]], "completion": "4", "messages": [SAYS, *TOLD, *CHAT]},
        ),
        ({"prompt": "2+2?", "answer": 4, "history": list(TOLD)}, {"prompt": [*TOLD, CHAT[0]], "answer": "4"}),
        ({"instruction": "i", "context": "c", "response": "r"}, {"prompt": "i\n\nc", "completion": "r"}),
        ({"prompt": "2+2?", "messages": [*CHAT, *TOLD]}, {"prompt": [*CHAT, TOLD[0]], "completion": "ho"}),
        (
            {"prompt": "2+2?", "chosen": CHAT, "rejected": [CHAT[0], FIVE]},
            {"prompt": "2+2?", "chosen": "4", "rejected": "5"},
        ),
        (
            {"prompt": "2+2?", "chosen": [SAYS, *CHAT], "rejected": [SAYS, CHAT[0], FIVE]},
            {"prompt": [SAYS, CHAT[0]], "chosen": "4", "rejected": "5"},
        ),
        ({"prompt": [SAYS, CHAT[0]], "completion": CHAT}, {"prompt": [SAYS, CHAT[0]], "completion": "4"}),
        ({"prompt": CHAT[:1], "reward_model": {"style": "rule", "ground_truth": "4"}}, {"answer": "4"}),
        ({"messages": CHAT, "tools": "[]"}, {"tools": []}),
        (
            {"messages": CHAT, "tools": [{"name": "f", "parameters": {"x": {"type": "string"}, "y": None}}]},
            {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"x": {"type": "string"}}}}]},
        ),
    ],
)
def test_forms_that_other_trainers_read(first, record, row):
    found = first(record)
    assert {name: found[name] for name in row} == row


def test_an_answer_of_weight_0_is_not_learnt(first):
    wrong = {"role": "assistant", "content": "5", "weight": 0}
    row = first({"messages": [CHAT[0], wrong, *CHAT, CHAT[0], wrong]})
    assert row["messages"] == [CHAT[0], wrong, *CHAT] and row["completion"] == "4", "nothing after the last to learn"
    assert row["prompt"] == [CHAT[0], {"role": "assistant", "content": "5"}, CHAT[0]]


@pytest.mark.parametrize(
    ("record", "told"),
    [
        ({"messages": [CHAT[0], CHAT[1] | {"weight": 0}]}, "weight 0"),
        ({"prompt": "p", "chosen": [CHAT[1] | {"weight": 0}], "rejected": "b"}, "'chosen' has the weight 0"),
        ({"messages": [SAYS, *CHAT], "system": "be long"}, "'system' and a system message"),
        ({"prompt": "p", "answer": "1", "history": [["hi"]]}, "'history'"),
        ({"messages": [CHAT[1], *CHAT]}, "begin with an answer"),
        ({"question": "q", "context": {"title": "t"}, "answer": "1"}, "'context'"),
        ({"prompt": "Say it.", "chosen": "Say it. a", "rejected": "Say it. b"}, "begin with the prompt"),
        ({"prompt": "p", "chosen": CHAT, "rejected": [CHAT[0], FIVE]}, "'chosen' has 2 messages"),
        ({"messages": CHAT, "tools": [{"type": "function"}]}, "'tools' has no name"),
        ({"prompt": "p", "answer": "1", "tools": "{"}, "'tools' is not valid JSON"),
        ({"dialog": CHAT}, r"task\.source\.fields\.messages=dialog"),
        ({"prompt": "nice \ud83d", "completion": "c"}, r"'prompt' has \\ud83d, half of a character"),
        ({"messages": [CHAT[0], {"role": "assistant", "content": "\udc00"}]}, r"\\udc00"),
        *(
            ({"messages": CHAT, name: value}, rf"'{name}' would be left out.*task\.source\.ignore=\[{name}\]")
            for name, value in {
                "images": ["1.jpg"], "image": {"path": "1.jpg"}, "videos": ["1.mp4"], "audio": "1.wav",
                "functions": [{"name": "f"}], "documents": ["d"], "chat_template_kwargs": {"a": 1},
            }.items()
        ),
    ],
)  # fmt: skip
def test_what_would_change_the_meaning_is_refused(first, record, told):
    with pytest.raises(RowError, match=f"row 1: (?s:.*){told}"):
        first(record)


def test_what_a_user_has_ignored_is_left_out(first):
    record = {"messages": [CHAT[0], CHAT[1] | {"timestamp": 3}], "images": ["1.jpg"]}
    row = first(record, ignore=("timestamp", "images"))
    assert row == {"prompt": CHAT[:1], "completion": "4"}


def test_nested_fields_are_mapped(first):
    record = {"ask": {"text": ["p", "q"]}, "extra.x": "7", "extra": {"x": "8", "y": "9"}}
    row = first(record, fields={"prompt": "ask.text.1", "answer": "extra.x", "level": "extra.y"})
    assert (row["prompt"], row["answer"], row["level"]) == ("q", "7", "9"), "a name with a dot comes first"
    with pytest.raises(RowError, match=r"no field 'ask\.text\.2', which fields\.prompt names"):
        first(record, fields={"prompt": "ask.text.2"})


def test_json_arrays_and_tables(tmp_path):
    """Rows are named as they are counted in each: items from 1, and a table's below its header."""
    records = [{"prompt": f"p{i}, and\nmore", "answer": f"{i}"} for i in range(3)]
    (tmp_path / "rows.json").write_text(json.dumps(records, indent=1))
    (tmp_path / "lines.json").write_text("".join(json.dumps(record) + "\n" for record in records))
    with (tmp_path / "rows.csv").open("w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file).writerows([["prompt", "answer"], *(record.values() for record in records)])
    places = {}
    for name in ("rows.json", "lines.json", "rows.csv"):
        rows = FileSource(train=str(tmp_path / name), holdout=0).rows("train")
        assert rows == records
        places[name] = [row.place.rpartition(" ")[2] for row in rows]
    assert places == {"rows.json": ["1", "2", "3"], "lines.json": ["1", "2", "3"], "rows.csv": ["2", "3", "4"]}


def test_rows_held_out_do_not_change_the_places_of_others(tmp_path):
    path = write(tmp_path / "rows.jsonl", [{"prompt": f"p{i}"} for i in range(1, 61)])
    rows = [row for split in ("train", "test") for row in FileSource(train=path).rows(split)]
    assert len(rows) == 60 and all(row.place == f"{path}, row {row['prompt'][1:]}" for row in rows)


def test_gsm8k_answers_become_an_answer_and_a_demonstration(first):
    row = first({"question": "How many?", "answer": WORKED})
    assert row["answer"] == "1,003" == final_answer(row["completion"], tags_only=True)
    assert has_format(row["completion"]) and "Ann has 2+2=4 pens.\nThen 4-1=3." in row["completion"]


def test_fields_are_mapped(first):
    record = {"q": "what", "gold": {"x": 1}, "final": "7", "prompt": "not this"}
    row = first(record, fields={"prompt": "q", "answer": "final"})
    assert (row["prompt"], row["answer"]) == ("what", "7")


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ('{"prompt": "p"\n', r"not valid JSON"),
        ('["p"]\n', r"list instead of a JSON object"),
        ("[" * 100_000 + "\n", r"not valid JSON"),
        ({"text": "p"}, r"no prompt among its fields \('text'\): map one, as in task.source.fields.prompt=question"),
        ({"prompt": "  "}, r"the prompt is empty"),
        ({"prompt": None, "answer": "1"}, r"no prompt among its fields"),
        ({"prompt": 3}, r"'prompt' must be text or a list of messages"),
        ({"prompt": CHAT}, r"must end with a message that the assistant answers"),
        (
            {"prompt": [{"role": "robot", "content": "x"}]},
            r"role 'robot' and needs a 'role' of system, user, assistant, tool",
        ),
        ({"messages": [{"role": "user", "content": ""}]}, r"the user's message in 'messages' is empty"),
        (
            {"messages": [CHAT[0], CHAT[1] | {"tool_calls": [{"name": "sum"}]}]},
            r"a message of 'messages' has 'tool_calls' beside its content, which would be left out",
        ),
        ({"messages": []}, r"'messages' must be text or a list of messages"),
        ({"prompt": "p", "completion": ""}, r"'completion' is empty"),
        ({"prompt": "p", "completion": CHAT}, r"'completion' has 2 messages"),
        ({"prompt": "p", "answer": ""}, r"the answer '' is no text or number"),
        ({"prompt": "p", "answer": ["7"]}, r"the answer \['7'\] is no text or number"),
        ({"prompt": "p", "answer": "so " * 100}, r"an answer of 299 characters.*fields.answer"),
        ({"problem": "p", "solution": "so \\boxed{1 as 3 < 4"}, r"the box of 'solution' cannot be read.*fields.answer"),
        ({"problem": "p", "solution": "so \\boxed{} as 3 < 4"}, r"the box of 'solution' cannot be read"),
        ({"problem": "p", "solution": "so \\boxed 1+x, as 3 < 4"}, r"the box of 'solution' cannot be read"),
        ({"problem": "p", "solution": "\\boxed{7}, no: \\boxed{"}, r"the box of 'solution' cannot be read"),
        ({"prompt": "p", "answer": "so \\boxed{1 as 3 < 4"}, r"the box of 'answer' cannot be read"),
        ({"prompt": "p", "answer": float("nan")}, r"the answer nan is no text or number"),
        ({"prompt": "p", "chosen": "a", "rejected": "a"}, r"'chosen' and 'rejected' are equal"),
        ({"chosen": "a", "rejected": "b"}, r"no field 'prompt', and 'chosen' is no whole conversation"),
        ({"chosen": CHAT, "rejected": [*CHAT, *CHAT]}, r"answer different prompts"),
        ({"chosen": CHAT[:1], "rejected": CHAT}, r"'chosen' must end with a message of the assistant"),
        ({"prompt": "p", "completion": "c", "label": "yes"}, r"label 'yes' must be true"),
        ({"prompt": "p", "margin": "big"}, r"margin 'big' must be a number"),
        ({"prompt": "p", "tests": [{"input": "1"}]}, r"'tests' must be a list"),
        ({"prompt": "p", "tests": []}, r"'tests' must be a list"),
    ],
)
def test_bad_rows_are_named_or_skipped_and_counted(tmp_path, record, message):
    good = {"prompt": "p", "answer": "1"}
    path = write(tmp_path / "rows.jsonl", [good, "\n", record, good])
    source = FileSource(train=path, holdout=0)
    with pytest.raises(RowError, match=rf"rows\.jsonl, row 3: (?s:.*){message}(?s:.*)skip_bad_rows=true"):
        source.rows("train")
    rows, errors = FileSource(train=path, holdout=0, skip_bad_rows=True).examine("train")
    assert len(rows) == 2 and len(errors) == 1 and re.search(message, str(errors[0]))


def test_rows_that_lack_what_the_first_has(tmp_path):
    path = write(tmp_path / "a.jsonl", [{"prompt": "p", "answer": "1", "note": 1}, {"prompt": "q", "answer": "2"}])
    assert len(FileSource(train=path, holdout=0).rows("train")) == 2  # a note is nobody's need
    path = write(tmp_path / "b.jsonl", [{"prompt": "p", "answer": "1"}, {"prompt": "q"}, {"prompt": "r"}])
    with pytest.raises(RowError, match=r"b.jsonl, row 2: no field 'answer', which the rows before it.*1 more bad row"):
        FileSource(train=path, holdout=0).rows("train")


def test_files_of_all_kinds_hold_the_same(tmp_path):
    from pyarrow import Table, parquet

    records = [{"question": f"q{i}", "answer": f"a{i}", "messages": None} for i in range(30)]
    parquet.write_table(Table.from_pylist(records), tmp_path / "rows.parquet")
    paths = [write(tmp_path / name, records) for name in ("rows.jsonl", "rows.jsonl.gz")]
    found = [FileSource(train=path).rows("train") for path in [*paths, str(tmp_path / "rows.parquet")]]
    assert found[0] == found[1] == found[2] and len(found[0]) == 27


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.jsonl", None, "no such file"),
        ("empty.jsonl", b"\n\n", "no rows"),
        ("half.jsonl.gz", gzip.compress(b'{"prompt": "p"}\n' * 9999, mtime=0)[:60], "not a whole gzip file"),
        ("not.jsonl.gz", b"plain", "not a whole gzip file"),
        ("not.parquet", b"plain", "not a parquet file"),
        ("cut.json", b'[{"prompt": "p"},', "not a JSON array"),
        ("number.json", b"[3]", "row 1: int instead of a JSON object"),
        ("twice.csv", b"prompt,prompt\np,q\n", "'prompt' stands twice"),
        ("short.csv", b"prompt,answer\np\n", "row 2: 1 cells, and 2 in the first row"),
        ("latin.csv", "prompt\né\n".encode("latin-1"), "no text in UTF-8"),
        ("open.csv", b'prompt\n"p', "not a CSV file"),
        ("empty.csv", b"", "no rows"),
        ("latin.jsonl", '{"prompt": "é"}\n'.encode("latin-1"), "row 1: not valid JSON"),
    ],
)
def test_files_that_are_not_what_they_seem(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(RowError, match=rf"{name}.*{message}"):
        FileSource(train=str(tmp_path / name), skip_bad_rows=True).rows("train")


def test_names_that_are_neither_files_nor_data_sets():
    with pytest.raises(ValueError, match=r"rows of 'data.txt': name a file that ends in"):
        FileSource(train="data.txt")
    with pytest.raises(ValueError, match="holdout -1"):
        FileSource(train="a.jsonl", holdout=-1)


@given(st.integers(2, 60), st.integers(0, 30))
def test_held_out_rows_are_the_others(tmp_path_factory, count, holdout):
    path = write(tmp_path_factory.mktemp("rows") / "rows.jsonl", [{"prompt": f"p{i}"} for i in range(count)])
    source = FileSource(train=path, holdout=holdout)
    train = source.rows("train")
    test = source.rows("test") if holdout else []
    assert (
        len(test) == min(holdout, max(1, count // 10))
        and FileSource(train=path, holdout=holdout).rows("train") == train
    )
    assert sorted(row["prompt"] for row in [*train, *test]) == sorted(f"p{i}" for i in range(count))


def test_nothing_to_hold_out(tmp_path):
    path = write(tmp_path / "one.jsonl", [{"prompt": "p"}])
    with pytest.raises(RowError, match="one row cannot be both"):
        FileSource(train=path).rows("train")
    with pytest.raises(RowError, match="no test rows with holdout=0"):
        FileSource(train=path, holdout=0).rows("test")


def test_a_stream_is_epochs_in_an_order_of_the_seed(tmp_path):
    path = write(tmp_path / "rows.jsonl", [{"prompt": f"p{i}"} for i in range(10)])
    source = FileSource(train=path, test=path)

    def drawn(seed):
        return [row["prompt"] for row in islice(source.stream("train", seed), 30)]

    assert drawn(0) == drawn(0) != drawn(1)
    epochs = [drawn(0)[i : i + 10] for i in (0, 10, 20)]
    assert all(sorted(epoch) == sorted(epochs[0]) for epoch in epochs) and epochs[0] != epochs[1] != epochs[2]


def gsm8k_rows(count):
    return [{"question": f"q{i}", "answer": f"so\n#### {i}"} for i in range(count)]


@pytest.mark.parametrize("place", ["{}.jsonl", "grade_school_math/data/{}.jsonl", "main/{}.jsonl.gz"])
def test_gsm8k_in_a_folder(tmp_path, place):
    for split, count in (("train", 20), ("test", 5)):
        path = tmp_path / place.format(split)
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, gsm8k_rows(count))
    source = GSM8K(data=str(tmp_path))
    assert [len(source.rows(split)) for split in ("train", "test")] == [20, 5]
    assert next(source.stream("test", 0))["prompt"].startswith("q")


def test_gsm8k_in_one_file_or_nowhere(tmp_path, monkeypatch):
    path = write(tmp_path / "train.jsonl", gsm8k_rows(30))
    source = GSM8K(data=path, holdout=2)
    assert [len(source.rows(split)) for split in ("train", "test")] == [28, 2]
    with pytest.raises(RowError, match=r"has no test\.jsonl or test parquet file; to hold out"):
        GSM8K(data=str(tmp_path)).rows("test")
    with pytest.raises(RowError, match=r"is no folder with a train\.jsonl"):
        GSM8K(data=str(tmp_path / "nowhere")).rows("train")


def test_the_hub_out_of_reach(monkeypatch):
    """In a process of its own, since the library reads at import that there is no network."""
    import subprocess
    import sys

    program = (
        "from gaitway_tasks.language.sources import GSM8K\n"
        "try: GSM8K().rows('train')\n"
        "except ValueError as error: print(type(error).__name__, error)"
    )
    env = {"HF_HUB_OFFLINE": "1", "HF_HOME": "/nonexistent", "PATH": ""}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env, timeout=120)
    assert re.search(
        r"RowError split 'train' of dataset 'openai/gsm8k' cannot be loaded.*task\.source\.data", done.stdout
    )
