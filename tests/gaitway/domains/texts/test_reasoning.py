"""``make reason`` in short: what demonstrations make rare becomes the rule by reward, not by more of them."""

import pytest
from language_runs import FLOAT, ours, train

from gaitway.domains.texts.evaluate import Evaluation

SHORT = [
    "task.source.digits=12", "task.source.demonstrations=6000", "task.source.thoughtful=0.4",
    "evaluation_episodes=0", "evaluation_interval=0", *FLOAT,
]  # fmt: skip
SMALL = ["language.tiny.hidden_size=64", "language.tiny.intermediate_size=128", "agent.batch_size=64"]


def asked(run, capsys, *words):
    assert ours(["evaluate", run, "--problems", "200", *words], capsys)[0] == 0
    return Evaluation.load(run / "evaluations/digit-sums.json").measures


@pytest.mark.slow
def test_a_reward_makes_the_rare_way_the_rule(tmp_path, capsys):
    sft = train("digit-sums", "--agent", "sft", *SHORT, *SMALL, "total_steps=19200", out=tmp_path / "sft")
    before = asked(sft, capsys)
    assert before["greedy accuracy"].value < 0.2 and before["greedy length"].value == 4.0  # tags, a digit and the end
    grpo = train("digit-sums", "--agent", "grpo", "--model", sft, *SHORT, "total_steps=6144",
                 "agent.optimizer.learning_rate=7e-4", out=tmp_path / "grpo")  # fmt: skip
    after = asked(grpo, capsys)
    assert after["greedy accuracy"].value > 0.6 and after["greedy length"].value > 14.0
