"""Rewards for programs."""

import time

import pytest
from gaitway_tasks.language.programs import code, find_program
from hypothesis import given
from hypothesis import strategies as st

TESTS = ["assert add(1, 2) == 3", "assert add(-1, 1) == 0", "assert add('a', 'b') == 'ab'", "add(1, 2, 3)"]


def judge(program, tests, **params):
    return code([""], [f"Here:\n```python\n{program}\n```\nDone."], tests=[tests], **params)[0]


@pytest.mark.parametrize(
    ("program", "share"),
    [
        ("def add(a, b): return a + b", 0.75),
        ("def add(a, b): return int(a) + int(b)", 0.5),
        ("def add(*a): return a", 0.25),
        ("def add(a, b) return a + b", 0.0),
        ("def sub(a, b): return a - b", 0.0),
        ("print('passed 4 of 4')", 0.0),
        ("import os; os._exit(0)", 0.0),
        ("import sys; sys.exit(0)", 0.0),
        ("def add(a, b):\n  import os\n  os._exit(0)", 0.0),
        ("def add(a, b):\n  raise SystemExit", 0.0),
        ("if __name__ == '__main__': raise ValueError\ndef add(a, b): return a + b", 0.75),
        ("assert_, AssertionError = None, ValueError\ndef add(a, b): return 0", 0.25),
    ],
)
def test_the_share_of_tests_that_pass(program, share):
    assert judge(program, TESTS) == share


def test_what_programs_read_and_print():
    tests = [{"input": "1 2\n", "output": "3"}, {"input": "5 5", "output": "10\n\n"}, {"input": "x", "output": ""}]
    assert judge("print(sum(map(int, input().split())), ' ')", tests) == pytest.approx(2 / 3)
    assert judge("print(3)", [*tests, "assert True"]) == 0.5
    assert judge("print(3); raise ValueError", tests) == 0.0


def test_an_endless_program_costs_what_it_may_and_others_are_judged():
    texts = [f"```python\n{text}\n```" for text in ("while True: pass", "x = 1", "x = 'a' * 10 ** 10")]
    assert code([""] * 3, texts, tests=[["x"]] * 3, cpu=1.0) == [0.0, 1.0, 0.0]


@pytest.mark.hostile("durability")
@pytest.mark.parametrize("endless", ["import time; time.sleep(600)", "while True: pass"])
def test_a_batch_ends_in_its_time_and_the_others_are_judged(endless):
    texts = [f"```python\n{text}\n```" for text in [endless] * 4 + ["x = 1", "x = 2"]]
    begin = time.monotonic()
    assert code([""] * 6, texts, tests=[["x", "x == 1"]] * 6, batch=3.0) == [0.0] * 4 + [1.0, 1.0]
    assert time.monotonic() - begin < 5.0


def test_a_program_that_sleeps_passes_no_further_test():
    tests = [{"input": "1", "output": "1"}] * 3
    begin = time.monotonic()
    assert judge("import time\nprint(input())\ntime.sleep(60)", tests) == 0.0
    assert time.monotonic() - begin < 5.0  # and not once for each test


def test_columns_that_it_does_not_know_are_let_pass():
    assert code(["p"], ["nothing"], tests=[["x"]], level=[3]) == [0.0]


def test_no_tests_are_an_error():
    with pytest.raises(ValueError, match="no tests"):
        judge("x = 1", [])


@pytest.mark.parametrize(
    ("completion", "program"),
    [
        ("```python\na\n```", "a\n"),
        ("```py\na\n``` or ```\nb\n```", "a\n"),
        ("```\na\n``` or ```\nb\n```", "b\n"),
        ("```text\nno\n```\nHere:\n```python\na\n```", "a\n"),
        ("```python\na = 3\nprint(a)\n```\nOutput:\n```\n3\n```", "a = 3\nprint(a)\n"),
        ("```\na = 3\nprint(a)\n```\nOutput:\n```\n3\n```", "a = 3\nprint(a)\n"),
        ("```bash\npip install x\n```\n```Python3 title='a.py'\na\n```\n```json\n{}\n```", "a\n"),
        ("~~~python\na\n~~~", "a\n"),
        ("````python\na\n```\nb\n````", "a\n```\nb\n"),
        ("1. So:\n   ```python\n   if a:\n       b\n   ```\n2. Done", "if a:\n    b\n"),
        (
            "```python\ndef f():\n    :\n    ```python\n    f()\n    ```\n```",
            "def f():\n    :\n    ```python\n    f()\n    ```\n",
        ),
        ("```python\na = '```'\n```", "a = '```'\n"),
        ("```python\na\n\nNo, better:\n```python\nb\n```", "b\n"),
        ("Use ```pip``` first.\n```python\na\n```", "a\n"),
        ("```python\na```", "a"),
        ("```python\r\na\r\n```", "a\r\n"),
        ("<think>```python\nx\n```</think><answer>c</answer>", "c"),
        ("<think>```python\nx\n</think>```\nc\n```", "c\n"),
        ("<think> x </think> <answer> c </answer>", " c "),
        ("<answer>```python\nd\n```</answer>", "d\n"),
        ("a = 1", None),
        ("```python\nunclosed", None),
        ("```python\n\n```", None),
        ("```python\n" + "x = 1\n" * 20_000 + "```", None),
    ],
)
def test_where_the_program_is(completion, program):
    assert find_program(completion) == program


@given(st.lists(st.sampled_from(["`", "```", "```python\n", "<answer>", "</answer>", "x\n"]), max_size=30))
def test_any_text_has_a_program_or_none(pieces):
    text = "".join(pieces)
    found = find_program(text)
    assert found is None or (found in text and found.strip())
