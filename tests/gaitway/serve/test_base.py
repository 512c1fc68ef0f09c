"""The served model: of a run with adapters, merged; and what tells one model from another."""

import pytest
import torch
from language_runs import SFT, train
from served_model import tiny_base

from gaitway.domains.texts.models import load_run
from gaitway.runs.folder import RunFolder
from gaitway.serve.base import Adapters, BaseModel
from gaitway.serve.learner import Learner


@pytest.mark.slow
def test_a_run_is_served_with_its_adapters_merged(tmp_path):
    whole = train("arithmetic", "--agent", "sft", *SFT, "total_steps=64", out=tmp_path / "whole")
    again = ["--agent", "sft", *SFT[4:], "--model", whole, "--lora", "total_steps=64"]
    run = train("arithmetic", *again, out=tmp_path / "lora")
    base = BaseModel.load(str(run))
    assert base.name == str(run) and not hasattr(base.model, "merge_and_unload")
    tokens = torch.tensor([base.tokenizer.encode("2 + 3 = 5")])
    with torch.no_grad():
        theirs = load_run(RunFolder.open(run)).model.eval()(tokens).logits
        torch.testing.assert_close(base.model(tokens).logits, theirs, rtol=1e-4, atol=1e-4)
        learner = Learner(base, Adapters(4, 0))  # whose adapters add nothing at first
        torch.testing.assert_close(learner.model.eval()(tokens).logits, theirs, rtol=1e-4, atol=1e-4)


def test_models_are_told_apart_by_their_weights(base):
    assert tiny_base().fingerprint == base.fingerprint
    assert tiny_base(seed=1).fingerprint != base.fingerprint


def test_the_context_and_the_ends_of_answers_are_the_models(base):
    assert (base.positions, base.vocabulary) == (48, len(base.tokenizer))
    assert base.stops == (base.tokenizer.eos_token_id,)
