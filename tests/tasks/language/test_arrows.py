"""Arrows to follow: what is asked, how demonstrations answer, and what cannot be guessed from a prompt."""

import re
from collections import Counter
from itertools import islice

import pytest
from gaitway_files.errors import UserError
from gaitway_tasks.language.arrows import ArrowSource
from gaitway_tasks.language.score import score
from gaitway_tasks.language.tasks import get_language_task

TASK = get_language_task("arrows")


@pytest.fixture(scope="module")
def shown():
    return TASK.source.rows("train")[:20_000]


@pytest.fixture(scope="module")
def asked():
    return TASK.source.rows("test")


def way(row):
    """Places from the start to the end, by following the arrows of the prompt."""
    word, place = row["prompt"].split()[-2:]
    assert word == "from"
    follow = dict(arrows(row))  # of two letters, key and value
    assert len(follow) == len(arrows(row))
    found = [place]
    while follow[place] != place:
        place = follow[place]
        found.append(place)
    return found


def arrows(row):
    return row["prompt"].split()[:-2]


def ends(row):
    return [word[0] for word in arrows(row) if word[0] == word[1]]


def test_the_answer_is_where_the_arrows_end(shown, asked):
    for row in [*shown[:2000], *asked]:
        found = way(row)
        assert row["answer"] == found[-1] and row["level"] == len(found) - 1


def test_every_depth_is_as_frequent_and_test_problems_are_deeper(shown, asked):
    for rows, depths in ((shown, range(1, 7)), (asked, range(7, 13))):
        found = Counter(row["level"] for row in rows)
        assert sorted(found) == list(depths)
        assert all(0.75 < 6 * count / len(rows) < 1.25 for count in found.values())


def test_demonstrators_go_hop_by_hop_and_give_up_after_three_hops_of_four(shown):
    hops = stopped = 0
    for row in shown:
        thought, answer = re.fullmatch(r"<think> (.+) </think> <answer> (.) </answer>", row["completion"]).groups()
        places = thought.split()
        found = way(row)
        assert places == found[: len(places)] and len(places) > 1 and answer == places[-1]
        early = len(places) < len(found)
        stopped += early
        hops += min(len(places) - 1, row["level"] - 1)  # hops after which one could give up
    assert 0.74 < stopped / hops < 0.76


def test_only_the_end_earns(shown):
    rows = shown[:300]
    earned = score(TASK, [""] * 300, [row["completion"] for row in rows], rows)[0]
    assert earned == [float(row["completion"].split()[-2] == way(row)[-1]) for row in rows]
    assert 0.2 < sum(earned) / 300 < 0.5


def test_nothing_in_sight_gives_the_answer_away(shown, asked):
    """Its arrow stands anywhere, no name is frequent, and of the ends in sight it is the first, or last, by chance."""
    for rows in (shown, asked):
        chance = sum(1 / len(arrows(row)) for row in rows) / len(rows)
        for order in (1, -1):
            places = Counter(arrows(row)[::order].index(2 * row["answer"]) for row in rows)
            assert max(places.values()) / len(rows) < 1.3 * chance
            first = sum(ends(row)[::order][0] == row["answer"] for row in rows) / len(rows)
            assert first == pytest.approx(sum(1 / len(ends(row)) for row in rows) / len(rows), abs=0.04) and first < 0.4
        assert all(len(ends(row)) > 1 for row in rows)
        assert max(Counter(row["answer"] for row in rows).values()) / len(rows) < 0.1


def test_test_problems_are_held_out_and_the_same_again():
    source = ArrowSource(demonstrations=2000, test_problems=300, hops=(1, 2), test_hops=(1, 2), names=6)
    held_out = {row["prompt"] for row in source.rows("test")}
    assert source.rows("test") == source.rows("test")
    seen = [*source.rows("train"), *islice(source.stream("train", 3), 2000)]
    assert not held_out & {row["prompt"] for row in seen}
    assert {word for row in seen for key in ("prompt", "completion") for word in row[key].split()} <= set(
        source.vocabulary()
    )


def test_more_hops_than_names_are_refused():
    with pytest.raises(UserError, match=r"test_hops \(7, 12\): needs .* <= 11, as 3 of the 15 names"):
        ArrowSource(names=15)
