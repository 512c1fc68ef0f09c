"""The check after every update: engines that do not follow are found, those that do are left in peace."""

import copy
import threading

import pytest
import torch
from gaitway_agents.interfaces import Sampling
from gaitway_language.engines.transformers import TransformersEngine
from gaitway_language.sync import EngineOutOfStepError, VerifiedEngine
from transformers import Qwen2Config, Qwen2ForCausalLM

PROMPTS = [[5, 9, 11], [7, 8], [3, 4, 8, 20, 30]]


def make(seed=0):
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=37,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        tie_word_embeddings=True,
        initializer_range=0.2,
    )
    return Qwen2ForCausalLM(config).eval()


class Selective(TransformersEngine):
    """Takes only the weights that ``takes`` says yes to, and says nothing."""

    def update(self, parameters):
        super().update((n, t if self.takes(n) else self.old[n]) for n, t in parameters)


def verified(model, kind=TransformersEngine, **settings):
    live = TransformersEngine(model, copied=False)
    engine = kind(model, dtype=settings.pop("dtype", None))
    engine.old = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    return VerifiedEngine(engine, live.score, settings.pop("prompts", PROMPTS), **settings)


def learn(model, size=0.02):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(size * torch.randn_like(parameter))


def test_an_engine_that_follows_passes():
    model = make()
    one = verified(model)
    for _ in range(3):
        learn(model)
        found = one.update(model.state_dict().items())
        assert 0.0 <= found["sync_gap"] < 1e-5
        assert 0.0 < found["sync_seconds"] < 60.0


def test_bfloat16_passes_and_its_gap_is_told():
    model = make()
    one = verified(model, dtype=torch.bfloat16)
    learn(model)
    assert 1e-4 < one.update(model.state_dict().items())["sync_gap"] < 0.05


@pytest.mark.parametrize(
    "takes",
    [
        lambda name: False,
        lambda name: "embed_tokens" not in name,  # as where a packed head stays behind
        lambda name: "layers.1." not in name,
        lambda name: "bias" in name or "norm" in name,
    ],
)
def test_an_engine_that_keeps_old_weights_is_found(takes):
    model = make()
    one = verified(model, Selective)
    one.engine.takes = takes
    learn(model, 0.05)
    with pytest.raises(EngineOutOfStepError, match=r"Selective .* nats off on average, and 0.05 is the limit"):
        one.update(model.state_dict().items())


def test_an_engine_that_samples_by_old_weights_and_scores_by_new_ones_is_found():
    class Cached(TransformersEngine):
        def generate(self, prompts, sampling):
            new, self.decoder = self.decoder, self.before
            try:
                return super().generate(prompts, sampling)
            finally:
                self.decoder = new

        def update(self, parameters):
            self.decoder = copy.deepcopy(self.decoder)
            super().update(parameters)

        @property
        def before(self):
            return self.__dict__.setdefault("first", self.decoder)

    model = make()
    one = verified(model, Cached)
    learn(model, 0.05)
    with pytest.raises(EngineOutOfStepError):
        one.update(model.state_dict().items())


def test_an_engine_with_another_model_is_found_before_it_answers():
    live = TransformersEngine(make(1), copied=False)
    with pytest.raises(EngineOutOfStepError):
        VerifiedEngine(TransformersEngine(make(0)), live.score, PROMPTS)


def test_a_gap_that_is_no_number_is_found():
    one = verified(make())
    one.score_with = lambda sequences: [[float("nan")] * (len(s) - 1) for s in sequences]
    with pytest.raises(EngineOutOfStepError, match="nan nats"):
        one.verify()


def test_a_model_that_has_diverged_is_named():
    model = make()
    one = verified(model)
    with torch.no_grad():
        model.model.norm.weight.fill_(float("nan"))
    with pytest.raises(FloatingPointError, match="its training has diverged"):
        one.update(model.state_dict().items())


def test_it_is_an_engine():
    one = verified(make())
    assert one.generate(PROMPTS, Sampling(max_tokens=3)) == one.engine.generate(PROMPTS, Sampling(max_tokens=3))
    assert one.score(PROMPTS) == one.engine.score(PROMPTS)
    one.close()


def test_an_update_waits_for_generation_in_another_thread():
    model = make()
    one = verified(model)
    before = one.generate(PROMPTS * 50, Sampling(max_tokens=40))
    found = []
    thread = threading.Thread(target=lambda: found.extend(one.generate(PROMPTS * 50, Sampling(max_tokens=40))))
    thread.start()
    while not one._lock.locked() and thread.is_alive():
        pass
    learn(model)
    one.update(model.state_dict().items())
    thread.join(60)
    assert found == before


def test_settings_that_check_nothing_are_refused():
    with pytest.raises(ValueError, match="no prompts"):
        verified(make(), prompts=[])
    with pytest.raises(ValueError, match="must be positive"):
        verified(make(), limit=0.0)


def test_a_model_that_nobody_else_changes_takes_the_weights_too():
    learner, here = make(), make()
    live = TransformersEngine(here, copied=False)
    one = VerifiedEngine(Selective(here), live.score, PROMPTS, load=live.decoder.load)
    one.engine.takes = lambda name: True
    learn(learner, 0.05)
    assert one.update((name, tensor) for name, tensor in learner.state_dict().items())["sync_gap"] < 1e-5
    assert live.score(PROMPTS) == TransformersEngine(learner, copied=False).score(PROMPTS)
    one.engine.old = learner.state_dict()
    one.engine.takes = lambda name: False
    with pytest.raises(EngineOutOfStepError):
        one.update(make(2).state_dict().items())
