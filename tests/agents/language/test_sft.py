import pytest
import torch
from gaitway_agents.language.fixed_data import one_step
from gaitway_agents.language.schedule import LearningRateSchedule
from gaitway_agents.language.sequences import EpochOrder, pad
from gaitway_agents.language.sft import SFTConfig, SFTTrainer
from tiny_models import Copies, tiny_lm

QUICK = SFTConfig(batch_size=8, updates=2, optimizer=one_step(learning_rate=1e-2))


def trainer(config=QUICK, data=None, total_steps=160, seed=0):
    return SFTTrainer(tiny_lm(), Copies(20) if data is None else data, config, seed=seed, total_steps=total_steps)


def mean_loss(model, data):
    """Cross-entropy of the masked tokens, by the plain formula."""
    total, count = 0.0, 0.0
    for tokens, mask in data:
        with torch.no_grad():
            logits = model(tokens[None]).logits[0, :-1]
        losses = torch.nn.functional.cross_entropy(logits, tokens[1:], reduction="none")
        total += float((losses * mask[1:]).sum())
        count += float(mask[1:].sum())
    return total / count


def test_the_loss_is_the_cross_entropy_of_the_completion():
    data = Copies(8)
    learner = trainer(SFTConfig(batch_size=8, updates=1), data)
    expected = mean_loss(learner.policy.model, data)
    assert learner.iterate()["learn/loss"] == pytest.approx(expected, abs=1e-5)


def test_the_accuracy_is_the_share_of_tokens_that_were_the_likeliest():
    class Guessed(Copies):
        """Of every second example the last token is what the model says itself."""

        def tokens(self, index):
            tokens, mask = super().tokens(index)
            if index % 2:
                with torch.no_grad():
                    tokens[-1] = tiny_lm()(tokens[None]).logits[0, -2].argmax()
            return tokens, mask

    right, count = 0.0, 0.0
    for tokens, mask in Guessed(8):
        with torch.no_grad():
            best = tiny_lm()(tokens[None]).logits[0, :-1].argmax(-1)
        right += float(((best == tokens[1:]) * mask[1:]).sum())
        count += float(mask[1:].sum())
    learner = trainer(SFTConfig(batch_size=8, updates=1), Guessed(8))
    assert 4 <= right < count
    assert learner.iterate()["learn/accuracy"] == pytest.approx(right / count, abs=1e-6)


def test_the_gradient_step_is_that_of_the_whole_batch_at_once():
    data, model = Copies(6), tiny_lm()
    learner = trainer(SFTConfig(batch_size=6, updates=1, optimizer=one_step(learning_rate=1e-3, chunk_size=2)), data)
    learner.iterate()
    tokens, lengths, mask = pad(data, torch.device("cpu"))
    seen = (torch.arange(tokens.shape[1]) < lengths[:, None]).long()
    logits = model(tokens, attention_mask=seen).logits[:, :-1]
    losses = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction="none")
    ((losses * mask[:, 1:].flatten()).sum() / mask.sum()).backward()
    factor = learner.config.schedule.factor(0.5 * 6 / 160)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    torch.optim.Adam(model.parameters(), 1e-3 * factor).step()
    for mine, theirs in zip(learner.policy.model.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=2e-5)


def test_it_learns_to_copy():
    data = Copies(3000)
    config = SFTConfig(batch_size=32, updates=20, optimizer=one_step(learning_rate=1e-2))
    learner = trainer(config, data, total_steps=32 * 240)
    first = learner.iterate()["learn/loss"]
    while learner.steps < 32 * 240:
        last = learner.iterate()["learn/loss"]
    assert first > 2.4 and last < 0.8
    assert mean_loss(learner.policy.model, Copies(50, seed=9)) < 1.0  # the rule, not the examples


@pytest.mark.parametrize("updates", [1, 3])
def test_a_resumed_training_is_the_same_training(updates):
    config = SFTConfig(batch_size=8, updates=updates, optimizer=one_step(learning_rate=1e-2))
    whole, first, second = trainer(config), trainer(config), trainer(config, seed=0)
    for _ in range(4):
        whole.iterate()
    for _ in range(2):
        first.iterate()
    second.load_state_dict(first.state_dict())
    for _ in range(2):
        second.iterate()
    assert second.steps == whole.steps
    for mine, theirs in zip(second.policy.parameters(), whole.policy.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_a_checkpoint_holds_what_learns():
    model = tiny_lm()
    model.model.embed_tokens.weight.requires_grad_(False)
    learner = SFTTrainer(model, Copies(8), QUICK, seed=0, total_steps=160)
    saved = learner.state_dict()["policy"]
    assert set(saved) == {name for name, p in learner.policy.named_parameters() if p.requires_grad}
    with pytest.raises(ValueError, match="embed_tokens"):
        trainer().load_policy({"policy": saved})


def test_every_example_comes_once_an_epoch_in_an_order_of_the_seed():
    order = EpochOrder(7, seed=3)
    taken = [order.take(5) for _ in range(7)]
    flat = [row for part in taken for row in part]
    epochs = [flat[7 * i : 7 * i + 7] for i in range(5)]
    assert all(sorted(epoch) == list(range(7)) for epoch in epochs)
    assert epochs[0] != epochs[1]
    again = EpochOrder(7, seed=3)
    again.position = 15
    assert again.take(5) == taken[3]
    assert EpochOrder(7, seed=4).take(7) != epochs[0]


def test_the_rate_rises_and_falls():
    schedule = LearningRateSchedule(shape="linear", warmup=0.2, final=0.1)
    assert schedule.factor(0.1) == pytest.approx(0.5)
    assert schedule.factor(0.2) == pytest.approx(1.0)
    assert schedule.factor(0.6) == pytest.approx(0.55)
    assert schedule.factor(1.0) == schedule.factor(2.0) == pytest.approx(0.1)
    cosine = LearningRateSchedule(shape="cosine")
    assert [round(cosine.factor(x), 6) for x in (0.0, 0.5, 1.0)] == [1.0, 0.5, 0.0]
    assert LearningRateSchedule().factor(0.99) == 1.0


def test_the_trainer_follows_its_schedule():
    schedule = LearningRateSchedule(shape="linear", warmup=0.5)
    learner = trainer(SFTConfig(batch_size=8, updates=1, schedule=schedule, optimizer=one_step(learning_rate=1.0)))
    rates = [learner.iterate()["learn/learning_rate"] for _ in range(20)]
    assert rates[:3] == pytest.approx([0.05, 0.15, 0.25]) and rates[-3:] == pytest.approx([0.25, 0.15, 0.05])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch_size": 0}, "batch_size 0"),
        ({"updates": 0}, "updates 0"),
        ({"optimizer": one_step(epochs=3)}, "optimizer.epochs 3"),
        ({"optimizer": one_step(minibatches=2)}, "optimizer.minibatches 2"),
        ({"optimizer": one_step(schedule="adaptive")}, "schedule.shape"),
        ({"optimizer": one_step(normalize_advantages="batch")}, "no advantages"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        SFTConfig(**settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"shape": "step"}, "shape 'step'"),
        ({"warmup": 1.0}, "warmup 1.0"),
        ({"final": 1.5}, "final 1.5"),
    ],
)
def test_schedules_that_cannot_be_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        LearningRateSchedule(**settings)


def test_data_that_teaches_nothing_is_refused():
    class Mute(Copies):
        def tokens(self, index):
            tokens, mask = super().tokens(index)
            return tokens, mask * float(index != 3)

    with pytest.raises(ValueError, match="demonstration 3"):
        learner = trainer(data=Mute(8))
        learner.iterate()
    with pytest.raises(ValueError, match="no rows"):
        trainer(data=Copies(0))
    with pytest.raises(ValueError, match="total_steps"):
        trainer(total_steps=None)
