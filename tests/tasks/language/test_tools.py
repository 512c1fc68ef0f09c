"""Tools: what counts as a call, what they reply, and what they refuse."""

import ast
import functools
import re
import time
from fractions import Fraction

import pytest
from gaitway_tasks.language import tools
from gaitway_tasks.language.tools import (
    MAX_CALLS,
    MAX_RESULT_CHARS,
    TOOLS,
    Tool,
    ToolWarning,
    calculator,
    call_tools,
    find_calls,
    tool_prompt,
)
from hypothesis import given
from hypothesis import strategies as st


def call(answer, names=("calculator", "python")):
    return call_tools([TOOLS[name] for name in names], answer)


numbers = st.integers(0, 1000).map(str)
expressions = st.recursive(
    numbers,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "//", "%"]), inner).map(" ".join),
        inner.map("({})".format),
        inner.map("-{}".format),
    ),
    max_leaves=12,
)


class _Exact(ast.NodeTransformer):
    def visit_Constant(self, node):
        return ast.Call(ast.Name("Fraction", ast.Load()), [node], [])


@given(expressions)
def test_the_calculator_is_right(text):
    tree = ast.fix_missing_locations(_Exact().visit(ast.parse(text, mode="eval")))
    try:
        value = Fraction(eval(compile(tree, "", "eval"), {"Fraction": Fraction}))
    except ZeroDivisionError:
        with pytest.raises(ZeroDivisionError):
            calculator(text)
        return
    if len(text) <= 200:
        assert float(calculator(text)) == pytest.approx(float(value), rel=1e-9)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3*4", "12"),
        ("12 / 4", "3"),
        ("1/3*3", "1"),
        ("0.1 + 0.2", "0.3"),
        ("2^10", "1024"),
        ("2 ** 0.5", "1.414213562"),
        ("2 ** -1", "0.5"),
        ("1,234 × 2", "2468"),
        ("7 ÷ 2 − 1", "2.5"),
    ],
)
def test_ways_to_write_arithmetic(text, value):
    assert calculator(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "9**9**9",
        "2**(10**9)",
        "(2**1000)**2*(2**1000)",
        "2.5**1e300",
        "9.9**999.5",
        "(-8)**(1/3)",
        "1e999",
        "__import__('os')",
        "().__class__",
        "x",
        "[1]*10",
        "'a'*10",
        "1 if 1 else 2",
        "True + 1",
        "1j",
        "lambda: 1",
        "(" * 150,
        "-" * 190 + "1" * 20,
        "1" + "+1" * 200,
        "",
        "\x00",
    ],
)
def test_what_is_no_arithmetic_or_too_much_of_it(text):
    begin = time.process_time()
    with pytest.raises((ValueError, ArithmeticError)):
        calculator(text)
    assert time.process_time() - begin < 0.5


@given(st.text(max_size=40))
def test_any_input_gets_a_reply(text):
    reply = call(f"<tool>calculator: {text.replace('<', '')}</tool>")
    assert isinstance(reply, str) and reply


def test_calls():
    reply = call
    assert reply("So <tool>calculator: 3*4</tool>\n") == "12"
    assert reply("<tool>calculator: 1+1</tool> then <tool>calculator: 2+2</tool>") == "2\n4"
    assert reply("<tool>python: print(6 * 7)</tool>") == "42"
    assert reply("<tool>python: ```python\nprint('a')\n```</tool>") == "a"
    assert reply("<tool>python: x = 1</tool>") == "(nothing printed)"
    assert reply('<tool_call>\n{"name": "calculator", "arguments": {"expression": "7/2"}}\n</tool_call>') == "3.5"
    assert reply('<tool_call>{"name": "calculator", "arguments": "{\\"x\\": \\"1+1\\"}"}</tool_call>') == "2"


FORMS = [
    '<tool_call>\n{{"name": "price", "arguments": {{"item": "{item}", "count": {count}}}}}\n</tool_call>',
    '<tool_call>{{"name": "price", "parameters": {{"item": "{item}", "count": {count}}}}}</tool_call>',
    '<tool_call>{{"name": "price", "arguments": "{{\\"item\\": \\"{item}\\", \\"count\\": {count}}}"}}</tool_call>',
    "<tool_call>\n<function=price>\n<parameter=item>\n{item}\n</parameter>\n<parameter=count>\n{count}\n</parameter>\n"
    "</function>\n</tool_call>",
    "<tool_call>price\n<arg_key>item</arg_key>\n<arg_value>{item}</arg_value>\n<arg_key>count</arg_key>\n"
    "<arg_value>{count}</arg_value>\n</tool_call>",
    '{{"name": "price", "parameters": {{"item": "{item}", "count": {count}}}}}',
    '<think>So.</think>\n\n<|python_tag|>{{"name": "price", "arguments": {{"item": "{item}", "count": {count}}}}}',
]
"""Calls as Qwen 2.5 and 3, Hermes, Qwen 3.5 and Nemotron 3, GLM 4.5 and Llama 3 are told to write them."""


@given(st.text("abc {}<>=/", max_size=12).map(str.strip).filter(bool), st.integers(0, 99), st.sampled_from(FORMS))
def test_calls_in_the_forms_that_chat_templates_prescribe(item, count, form):
    written = form.format(item=item, count=count)
    if "</tool_call>" not in item:
        assert call_tools([Tool(price)], f"{written}\n") == f"{item}: {3 * count}"
    assert call_tools([Tool(price)], f"{written} is it") is None


def test_several_calls_of_one_answer():
    xml = "<tool_call>\n<function=calculator>\n<parameter=expression>\n{}\n</parameter>\n</function>\n</tool_call>"
    bare = '{{"name": "calculator", "parameters": {{"expression": "{}"}}}}'
    for form, between in ((xml, "\n"), (bare, "; "), (bare, "\n")):
        assert call(between.join(form.format(text) for text in ("1+1", "3*4"))) == "2\n12"
    assert call(bare.format("1+1") + ' {"note": 1}') is None
    assert call('{"name": "Ann", "age": 3}') is None


def test_what_is_no_call():
    reply = functools.partial(call, names=["calculator"])
    for text in ("", "12", "<tool>calculator: 3*4</tool> is 12", "<tool>calculator: 3*4", "calculator: 3*4</tool>"):
        assert reply(text) is None


def test_calls_that_fail_say_why():
    reply = functools.partial(call, names=["calculator"])
    assert reply("<tool>calculator: 1/0</tool>") == "error: division by zero"
    assert reply("<tool>calculator: 1+</tool>") == "error: not an arithmetic expression"
    assert reply("<tool>python: print(1)</tool>") == "error: no tool 'python', there are calculator"
    for text in ("{", "3", '{"name": "calculator"}'):
        assert reply(f"<tool_call>{text}</tool_call>") == "error: a call needs a name and its arguments"
    text = '{"name": "calculator", "arguments": {"a": "1", "b": "2"}}'
    assert "expression" in reply(f"<tool_call>{text}</tool_call>")
    python = call
    assert python("<tool>python: print(1); 1 / 0</tool>") == "1\nerror: ZeroDivisionError: division by zero"
    assert len(python("<tool>python: print('a' * 9999)</tool>")) <= MAX_RESULT_CHARS + 3


def test_a_prompt_tells_of_the_tools():
    assert "calculator: the value" in tool_prompt([TOOLS["calculator"]])
    assert "python" not in tool_prompt([TOOLS["calculator"]])


def price(item: str, count: int = 1) -> str:
    """The price of some pieces of an item.

    More for the reader of the code.
    """
    return f"{item}: {3 * count}"


def test_a_function_is_a_tool_with_a_schema():
    tool = Tool(price)
    assert tool.schema["function"]["parameters"] == {
        "type": "object",
        "properties": {"item": {"type": "string"}, "count": {"type": "integer"}},
        "required": ["item"],
    }
    assert "- price(item, count): The price of some pieces of an item." in tool_prompt([tool])
    asked = '<tool_call>{"name": "price", "arguments": {"item": "nut", "count": 4}}</tool_call>'
    assert call_tools([tool], asked) == "nut: 12"
    assert "pieces" in call_tools([tool], asked.replace("count", "pieces"))
    with pytest.raises(ValueError, match="docstring"):
        Tool(lambda text: text)


def square(n: int) -> str:
    """The square of a whole number."""
    return str(n * n)


@pytest.mark.parametrize(
    ("given", "reply"),
    [
        ('{"n": 4}', "16"),
        ('{"n": "44"}', "1936"),
        ('{"x": 4}', "16"),
        ("4", "16"),
        ('"4"', "16"),
        ("null", "error: n must be a whole number, not null"),
        ('{"n": null}', "error: n must be a whole number, not null"),
        ('"{4"', 'error: n must be a whole number, not "{4"'),
        ("{}", "error: missing a required argument: 'n'; the arguments are n"),
    ],
)
def test_arguments_are_converted_or_answered(given, reply):
    assert call_tools([Tool(square)], f'<tool_call>{{"name": "square", "arguments": {given}}}</tool_call>') == reply


def test_a_bare_input_is_converted_too():
    assert call_tools([Tool(square)], "<tool>square: 4</tool>") == "16"


def test_whatever_a_tool_raises_is_a_reply_and_a_warning():
    """The model may have caused it, and the tool may be broken."""

    def stock(item: str) -> str:
        """Pieces in stock."""
        return {"nut": "3"}[item]

    assert call_tools([Tool(stock)], "<tool>stock:nut</tool>") == "3"
    with pytest.warns(ToolWarning, match="'stock' raised KeyError: 'bolt'"):
        assert call_tools([Tool(stock)], "<tool>stock:bolt</tool>") == "error: KeyError: 'bolt'"


def test_half_an_emoji_of_a_model_is_a_whole_character_in_the_reply():
    def echo(text: str) -> str:
        """The same."""
        return text

    answer = '<tool_call>{"name": "echo", "arguments": {"text": "a\\ud83d"}}</tool_call>'
    assert call_tools([Tool(echo)], answer) == "a?"


AS_A_PATTERN = re.compile(r"<tool>\s*(\w+)\s*:(.*?)</tool>|<tool_call>(.*?)</tool_call>", re.DOTALL)
"""Call as one pattern: plain to read, and quadratic in text with many apparent starts."""


@given(
    st.lists(
        st.sampled_from(["<tool>", "</tool>", "<tool_call>", "</tool_call>", "a", ":", " ", "\n", "<"]), max_size=24
    )
)
def test_calls_are_found_as_the_pattern_says(pieces):
    text = "".join(pieces)
    wanted = [(match[1], match[2] if match[3] is None else match[3]) for match in AS_A_PATTERN.finditer(text)]
    assert list(find_calls(text)) == wanted


@pytest.mark.parametrize(
    "answer",
    [
        "<tool>a:" * 150_000 + "</tool_call>",
        "<tool_call>" * 100_000 + "</tool>",
        "<tool>" + " " * 1_000_000 + "</tool>",
        "<tool>" + "a" * 1_000_000 + "</tool>",
        "<tool>a:1</tool>" * 60_000,
        "<tool_call>" + "[" * 1_000_000 + "</tool_call>",
        "<tool_call><function=a>" + "<parameter=b>" * 80_000 + "</tool_call>",
        "<tool_call>a" + "<arg_key>" * 100_000 + "</tool_call>",
        '{"name": "a", "parameters": {}}' * 30_000,
        "{" * 1_000_000 + "}",
    ],
    ids=["starts", "JSON starts", "spaces", "letters", "calls", "brackets", "parameters", "keys", "objects", "braces"],
)
@pytest.mark.hostile("language")
def test_a_megabyte_of_calls_is_read_at_once(answer):
    begin = time.process_time()
    call(answer)
    assert time.process_time() - begin < 1.0


def test_an_answer_has_so_many_calls():
    reply = call("<tool>calculator: 1+1</tool>" * (MAX_CALLS + 5))
    assert reply.splitlines() == ["2"] * MAX_CALLS + [f"error: only the first {MAX_CALLS} calls of an answer are made"]


def test_programs_that_take_long_end_the_calls_of_an_answer(monkeypatch):
    monkeypatch.setattr(tools, "MAX_SECONDS", 0.5)
    slow = "<tool>python: import time; time.sleep(0.6)</tool>"
    assert call(slow * 3).splitlines() == [
        "(nothing printed)",
        "error: the calls of an answer may take 0.5 s",
    ]
