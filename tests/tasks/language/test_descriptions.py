import random

import pytest
from gaitway_tasks.language.descriptions import THINGS, TONES, DescriptionSource, judge, score

PROMPT = "describe the fox in a cheerful tone"


@pytest.mark.parametrize(
    ("answer", "worth"),
    [
        ("the fox is warm and merry and sunny and sweet . thank you", 4.5),
        ("the fox is warm and merry and sunny and sweet and jolly . thank you", 4.5),  # four count at most
        ("the fox is warm and warm .", 1.0),  # a word counts once
        ("the fox is warm and ugly . now leave", -0.5),
        ("the fox is warm and cheerful .", 0.0),  # no word of the tone
        ("the lake is warm .", 0.0),  # not what was asked
        ("the cheerful is warm .", 0.0),
        ("the fox is warm", 0.0),  # no end
        ("the fox is warm . thank you . thank you", 0.0),
        ("warm and merry . thank you", -2.0),
        ("", -2.0),
    ],
)
def test_the_judge_by_hand(answer, worth):
    assert score(PROMPT, answer) == worth
    assert judge([PROMPT], [answer], chosen=["x"]) == [worth]


def test_rows_are_the_same_for_everybody_and_splits_share_no_request():
    source = DescriptionSource(pairs=300, test_pairs=200)
    train, test = source.rows("train"), source.rows("test")
    assert len(train) == 300 and len(test) == 200 and train == source.rows("train")
    requests = {row["prompt"] for row in train}, {row["prompt"] for row in test}
    assert not requests[0] & requests[1] and len(requests[0] | requests[1]) == len(THINGS) * len(TONES)
    streams = source.stream("train", 1), source.stream("train", 2)
    drawn = [[next(stream) for _ in range(50)] for stream in streams]
    assert drawn[0] != drawn[1] and {row["prompt"] for row in drawn[0]} <= requests[0]


def test_every_word_is_in_the_vocabulary():
    source = DescriptionSource(pairs=500)
    words = set(source.vocabulary())
    for row in source.rows("train"):
        assert set(" ".join(row.values()).split()) <= words
    assert len(words) == len(source.vocabulary())


@pytest.mark.parametrize(("noise", "low", "high"), [(0.0, 1.0, 1.0), (1.0, 0.75, 0.9), (100.0, 0.42, 0.58)])
def test_the_judge_errs_as_often_as_the_noise_says(noise, low, high):
    rows = DescriptionSource(noise=noise, pairs=1500).rows("train")
    gaps = [score(row["prompt"], row["chosen"]) - score(row["prompt"], row["rejected"]) for row in rows]
    differ = [gap for gap in gaps if gap]
    assert low <= sum(gap > 0 for gap in differ) / len(differ) <= high


def test_the_odds_of_a_preference_are_bradley_and_terrys():
    source, rng = DescriptionSource(noise=0.5), random.Random(0)
    better, worse = "the fox is warm . thank you", "the fox is warm ."  # 0.5 apart
    chosen = sum(source.prefer(rng, PROMPT, worse, better)[0] == better for _ in range(4000))
    assert chosen / 4000 == pytest.approx(0.731, abs=0.03)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"longest": 0}, "longest 0"),
        ({"faithful": 1.5}, "faithful 1.5"),
        ({"noise": -1.0}, "noise -1"),
        ({"pairs": 0}, "pairs 0"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        DescriptionSource(**settings)
