"""The form of answers, and the result that a text settles on."""

import time

import pytest
from gaitway_tasks.language.answers import TAGS, final_answer, has_format, last_number, with_tags
from gaitway_tasks.language.programs import find_program
from gaitway_tasks.language.rewards import correctness, format_reward
from hypothesis import given
from hypothesis import strategies as st

words = st.text(st.characters(exclude_characters="<>", exclude_categories=["Cs"]), min_size=1).filter(str.strip)


@given(words, words)
def test_a_complete_answer_has_the_form_and_its_answer_is_found(thought, answer):
    text = with_tags(thought, answer[:100])
    assert has_format(text) == bool(answer[:100].strip())
    assert final_answer(text, tags_only=True) == (answer[:100].strip() or None)


@given(st.lists(st.sampled_from([*TAGS, " ", "7", "x"]), max_size=10))
def test_only_one_order_of_tags_has_the_form(pieces):
    kept = [piece if piece in TAGS else "." for piece in pieces if piece != " "]
    squeezed = [piece for i, piece in enumerate(kept) if piece in TAGS or kept[i - 1 : i] != ["."]]
    assert has_format("".join(pieces)) == (squeezed == [TAGS[0], ".", TAGS[1], TAGS[2], ".", TAGS[3]])


@pytest.mark.parametrize(
    "text",
    [
        "<think> 1 </think> <answer> 2 </answer> and more",
        "so <think> 1 </think> <answer> 2 </answer>",
        "<think> 1 </think> so <answer> 2 </answer>",
        "<think> 1 </think> <answer> 2 </answer> <answer> 2 </answer>",
        "<think></think> <answer> 2 </answer>",
        "<think> 1 </think> <answer> </answer>",
        "<answer> 2 </answer> <think> 1 </think>",
        "<think> 1 <answer> 2 </answer> </think>",
        "<think> 1 </think> <answer> 2",
        "",
    ],
)
def test_what_lacks_the_form(text):
    assert format_reward([""], [text]) == [0.0]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<think> 9 </think> <answer> 7 </answer>", "7"),
        ("<answer>1</answer> no: <answer>2</answer>", "2"),
        ("<answer>1</answer> no: <answer>2", "1"),
        ("<answer> 7", None),
        ("</answer> 7 <answer>", None),
        ("so \\boxed{\\frac{1}{2}}. Then \\boxed{x^{2}}.", "x^{2}"),
        ("so \\boxed{3}, \\boxed{5}", "3, 5"),
        ("\\[\\boxed{(1, 2)} \\quad \\text{and} \\quad \\boxed{3}\\]", "(1, 2), 3"),
        ("first \\boxed{3}, hence the total is \\boxed{5}", "5"),
        ("thus \\boxed 7 since 3 < 4", "7"),
        ("\\fbox{7} of 9", "7"),
        ("<answer>\\boxed{B}</answer>", "B"),
        ("<answer>so\n#### 42\nDone.</answer>", "42"),
        ("<think> \\boxed{9} </think> It is 7.", "7"),
        ("<think> \\boxed{9} </think>", "9"),
        ("#### 42\n" + "It holds in every case. " * 20, "42"),
        ("#### Final answer\n\n42", "42"),
        ("The answer is (B), since 3 < 4.", "B"),
        ("So it is \\boxed{3}? Final answer: $x = 4$.", "x = 4"),
        ("Therefore $x \\geq 5$ is the solution.", "x \\geq 5"),
        ("It is $\\frac{1}{2}$.", "\\frac{1}{2}"),
        ("Ann pays $5 and Bob pays $7.", "7"),
        ("the number of $k$ is 3,5", "3,5"),
        ("so \\boxed{1", "1"),
        ("3 + 4 = 7\n#### 1,234", "1,234"),
        ("It takes 3 and then 4.5 hours.", "4.5"),
        ("-3 or 1/2", "1/2"),
        ("nothing", None),
        ("<answer>" + "9" * 300 + "</answer>", None),
    ],
)
def test_the_final_answer(text, answer):
    assert final_answer(text) == answer


def test_without_tags_there_is_no_answer_where_tags_are_asked_for():
    texts = ["it is 7", "<think> 7 </think> 7", "<answer> 7", "<answer> 7 </answer>", "<answer> 8 </answer> 7"]
    rows = {"prompts": [""] * 5, "completions": texts, "answer": ["7"] * 5}
    assert correctness(**rows, tags_only=True) == [0.0, 0.0, 0.0, 1.0, 0.0]
    assert correctness(**rows) == [1.0, 1.0, 0.0, 1.0, 0.0]


def test_a_flood_of_text_takes_no_time():
    for piece in ("<answer>", "</answer>", "\\boxed{", "1", "####", "<think>", "1,", "9 "):
        flood = piece * (2_000_000 // len(piece))
        final_answer(flood), final_answer(flood, tags_only=True), has_format(flood), last_number(flood)


@pytest.mark.parametrize(
    "piece",
    ["```\n", "``` ", "`", "```py\n`", "<answer>", "<answer></answer>", "\\boxed{", "####", "1,", "<think>", "1/"],
)
def test_a_megabyte_is_read_at_once(piece):
    text = piece * (1_000_000 // len(piece))
    begin = time.process_time()
    for read in (find_program, final_answer, has_format):
        read(text)
    assert time.process_time() - begin < 0.5
