"""Adapters on weights in four bits, by bitsandbytes where it is installed."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import pytest
import torch
from gaitway_agents.language.schedule import LearningRateSchedule
from gaitway_agents.language.sft import SFTConfig, SFTTrainer
from gaitway_agents.language.weights import load_trainable_state, trainable_state
from gaitway_files.adapters import MergedWeights
from gaitway_language.engines.transformers import TransformersEngine
from gaitway_language.memory import estimate_memory
from gaitway_language.model import ModelError, build_model, load_model
from gaitway_language.options import LanguageOptions, LoraOptions, TinyModel
from gaitway_language.saving import save_model
from gaitway_language.tokenizer import build_tokenizer
from tiny_models import Copies

SIZES = TinyModel(hidden_size=128, layers=2, heads=4, intermediate_size=256, max_positions=64)
installed = pytest.mark.skipif(find_spec("bitsandbytes") is None, reason="bitsandbytes is not installed")


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer(["one apple and two pears"])


@pytest.fixture(scope="module")
def options(tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    save_model(build_model(SIZES, tokenizer, 0), tokenizer, folder)
    lora = LoraOptions(rank=8, four_bits=True)
    return LanguageOptions(model=str(folder), tiny=None, dtype="bfloat16", lora=lora)


def whole(options: LanguageOptions) -> LanguageOptions:
    return replace(options, lora=None)


@torch.no_grad()
def logits(model: Any) -> torch.Tensor:
    found: torch.Tensor = model.eval()(torch.arange(2, 20)[None]).logits.float()
    return found


@pytest.mark.skipif(find_spec("bitsandbytes") is not None, reason="bitsandbytes is installed")
def test_what_is_missing_is_named(options, tokenizer):
    with pytest.raises(ModelError, match=r"four_bits=true needs bitsandbytes.*pip install bitsandbytes"):
        load_model(options, tokenizer)


def test_the_estimate_counts_four_bits(options):
    plain = replace(options, lora=replace(options.lora, four_bits=False))
    linear = 2 * (4 * 128 * 128 + 3 * 128 * 256)
    found, more = (estimate_memory(o, sequence=48)["weights"] for o in (options, plain))
    assert more - found == pytest.approx(1.47 * linear, abs=2)


@installed
def test_it_learns_and_its_engine_and_checkpoint_follow(options, tokenizer, tmp_path):
    model: Any = load_model(options, tokenizer)
    exact = logits(load_model(whole(options), tokenizer))
    gap = (logits(model) - exact).abs().mean()
    assert 1e-4 < gap < 0.3 * exact.std()  # it is coarser, and the same model
    engine = TransformersEngine(model, dtype=torch.float32)
    optimizer = replace(SFTConfig().optimizer, learning_rate=1e-2)
    config = SFTConfig(batch_size=8, updates=20, schedule=LearningRateSchedule(), optimizer=optimizer)
    trainer = SFTTrainer(model, Copies(8), config, seed=0)
    first = trainer.iterate()["learn/loss"]
    assert trainer.iterate()["learn/loss"] < 0.9 * first
    sequence = [[5, 9, 11, 7, 3]]
    before = torch.tensor(engine.score(sequence))
    engine.update(MergedWeights(model))
    live = torch.tensor(TransformersEngine(model, copied=False).score(sequence))
    assert (before - live).abs().mean() > 0.1
    torch.testing.assert_close(
        torch.tensor(engine.score(sequence)), live, atol=0.1, rtol=0.0
    )  # bfloat16 beside float32
    state = trainable_state(model)
    assert all("lora" in name for name in state)
    again: Any = load_model(options, tokenizer)
    load_trainable_state(again, state)
    for (name, ours), (_, theirs) in zip(MergedWeights(model), MergedWeights(again), strict=True):
        # A processor keeps them in another order once they were used, with coarser scales.
        torch.testing.assert_close(ours, theirs, atol=1e-3, rtol=2e-2, msg=name)
    save_model(model, tokenizer, tmp_path)
    saved = load_model(replace(whole(options), model=str(tmp_path)), tokenizer)
    assert (logits(saved) - logits(model)).abs().mean() < 0.05
