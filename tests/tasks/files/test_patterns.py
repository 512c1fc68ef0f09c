"""Names by pattern: what Python's own matcher says, and in a bounded time."""

import re
import time

import pytest
from gaitway_files.errors import UserError
from gaitway_files.patterns import PatternError, by_pattern, matches
from hypothesis import example, given
from hypothesis import strategies as st

LEAVES = st.sampled_from(
    ["a", "b", "_", r"\.", ".", "[ab]", "[^a]", "[a-z_]", r"\d", r"\w", r"\S", "^", "$", "", "left_", "(?!a)", "(?=b)",
     "(?<!_)", "(?<=ab)"]
)  # fmt: skip


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.lists(inner, min_size=1, max_size=4).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"({'|'.join(parts)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{2,}", "*?", "+?"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
    )


@given(st.recursive(LEAVES, _grown, max_leaves=8), st.text("ab_.7ä", max_size=8))
@example(".*_hip_.*", "left_hip_yaw")
@example("^(?!left_wheel).*", "left_wheel_joint")
@example("(FL|FR)_(hip|thigh)_joint", "FR_thigh_joint")
@example("joint[0]", "joint[0]")
def test_it_is_pythons_matching(pattern: str, name: str) -> None:
    assert matches(pattern, name) is (re.fullmatch(pattern, name) is not None)


@pytest.mark.parametrize(
    "pattern",
    ["(.*)*x", "(a|a)*b", "(a+)+b", "(a*)*" * 20 + "b", ".*.*.*.*.*.*.*.*.*x", "((a{0,99}){0,99}){0,99}b",
     "(?:(?=(a*)*)a)*b"],
)  # fmt: skip
@pytest.mark.hostile("untrusted files")
def test_no_pattern_takes_long(pattern: str) -> None:
    start = time.process_time()
    try:
        assert not matches(pattern, "a" * 200)
    except PatternError as error:
        assert "steps" in str(error)
    assert time.process_time() - start < 5.0


@pytest.mark.parametrize(
    ("pattern", "fault"),
    [("*_foot", "nothing to repeat"), ("(?i)foot", "flags"), (r"(a)\1", "groupref"), ("(?>a*)a", "atomic"),
     ("(?<=a+)b", "look-behind"),
     ("(" * 2000 + ")" * 2000, "within each other|recursion"), ("a" * 6000, "6000"), (7, "no text")],
)  # fmt: skip
def test_what_is_no_pattern_is_refused_in_one_line(pattern: str, fault: str) -> None:
    with pytest.raises(UserError, match=fault) as refusal:
        matches(pattern, "foot")
    assert "\n" not in str(refusal.value) and len(str(refusal.value)) < 300


def test_first_pattern_that_matches_gives_the_value() -> None:
    assert by_pattern(["a_hip", None, "a_knee"], {".*_hip": 1, ".*": 2}) == {"a_hip": 1, "a_knee": 2}
    with pytest.raises(UserError, match="'b'"):
        by_pattern(["b"], {"a": 1})
