"""Arguments that models make up: converted without loss, or refused in words that name them."""

import contextlib
from typing import Annotated, Any, Literal

import pytest
from gaitway_tasks.language.arguments import ArgumentError, arguments_for, schema_of
from hypothesis import given
from hypothesis import strategies as st


def taking(annotation):
    def tool(value):
        """Take a value."""

    tool.__annotations__["value"] = annotation
    return tool


@pytest.mark.parametrize(
    ("annotation", "value", "wanted"),
    [
        (int, 4, 4), (int, "4", 4), (int, " -4 ", -4), (int, 4.0, 4),
        (float, 4, 4.0), (float, "4.5", 4.5),
        (bool, True, True), (bool, "false", False),
        (str, "4", "4"), (str, 4, "4"),
        (list[int], ["4", 5], [4, 5]), (list, "[1]", [1]), (tuple[int, ...], [1], (1,)), (set[str], ["a"], {"a"}),
        (dict[str, int], {"a": "4"}, {"a": 4}),
        (int | None, None, None), (int | None, "4", 4), (int | str, "4", "4"), (float | list, [1], [1]),
        (Literal["a", "b"], "b", "b"), (Literal[1, 2], "2", 2), (Annotated[int, "pieces"], "4", 4),
        (Any, [None], [None]),
    ],
)  # fmt: skip
def test_values_as_their_annotations_say(annotation, value, wanted):
    found = arguments_for(taking(annotation), {"value": value})[0][0]
    assert found == wanted and type(found) is type(wanted)
    assert arguments_for(taking(annotation), {"another": value}) == arguments_for(taking(annotation), {"value": value})
    if not isinstance(value, dict):
        assert arguments_for(taking(annotation), value)[0][0] == wanted, "one bare argument"


@pytest.mark.parametrize(
    ("annotation", "value", "told"),
    [
        (int, None, "a whole number, not null"), (int, "four", '"four"'), (int, 4.5, "4.5"), (int, True, "true"),
        (int, "9" * 5000, "a whole number"), (float, "nan", "a number"), (float, 10**400, "a number"),
        (bool, 1, "true or false, not 1"), (str, None, "text, not null"), (str, {"a": 1}, "text"),
        (list[int], ["x"], "an item of value must be a whole number"), (list, "x", "a list"),
        (list, "[" * 100_000, "a list"), (dict, [1], "an object"), (dict[str, int], {"a": "x"}, "'a' of value"),
        (int | float, "x", "a whole number or a number"), (Literal["a", "b"], "c", 'one of "a", "b"'),
    ],
)  # fmt: skip
def test_what_is_none_is_told_in_words(annotation, value, told):
    with pytest.raises(ArgumentError, match="value") as error:
        arguments_for(taking(annotation), {"value": value})
    assert told in str(error.value) and len(str(error.value)) < 200


ANNOTATIONS = [int, float, bool, str, list, list[int], dict, dict[str, float], int | None, Literal["a", 1], Any, object]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from(ANNOTATIONS), JSON)
def test_nothing_else_is_raised(annotation, value):
    with contextlib.suppress(ArgumentError):
        arguments_for(taking(annotation), value)


def test_names_and_defaults():
    def price(item: str, pieces: int = 1, *, note: str | None = None) -> str:
        """The price."""

    assert arguments_for(price, {"item": "nut", "pieces": "4", "note": None}) == (("nut", 4), {"note": None})
    for wrong in ({"pieces": 4}, {"item": "nut", "colour": "red"}, {}):
        with pytest.raises(ArgumentError, match="the arguments are item, pieces, note"):
            arguments_for(price, wrong)
    assert arguments_for(lambda: None, None) == ((), {}) == arguments_for(lambda: None, " ")


def test_a_schema_says_what_is_taken():
    def tool(n: int, many: list[float], how: Literal["up", "down"] = "up", to: str | None = None) -> str:
        """A tool."""

    assert schema_of(tool) == {
        "type": "object",
        "properties": {
            "n": {"type": "integer"},
            "many": {"type": "array", "items": {"type": "number"}},
            "how": {"type": "string", "enum": ["up", "down"]},
            "to": {"type": "string"},
        },
        "required": ["n", "many"],
    }
