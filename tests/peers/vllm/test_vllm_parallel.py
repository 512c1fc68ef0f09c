"""A model split over two processes: new weights reach both, some at a time, and equal calls draw equal tokens."""

from pathlib import Path

import pytest
import torch
from gaitway_agents.interfaces import Sampling
from gaitway_language.engines import vllm as module
from gaitway_language.engines.transformers import TransformersEngine
from gaitway_language.engines.vllm import VLLMEngine
from transformers import Qwen2Config, Qwen2ForCausalLM

PROMPTS = [[5, 9, 11], [7, 8]]


def test_two_processes_follow_and_draw_as_one(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    monkeypatch.setattr(module, "BUCKET", 2**14)
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=64, hidden_size=128, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=512, tie_word_embeddings=True, initializer_range=0.1,
    )  # fmt: skip
    model = Qwen2ForCausalLM(config).eval()
    live = TransformersEngine(model, copied=False)
    settings = {"worker_extension_cls": "unpacked_worker.Worker"}
    engine = VLLMEngine(model, dtype=torch.float32, batch_size=8, tensor_parallel=2, longest=48, settings=settings)

    def gap():
        said = zip(engine.score(PROMPTS), live.score(PROMPTS), strict=True)
        return max(abs(a - b) for mine, its in said for a, b in zip(mine, its, strict=True))

    try:
        assert engine.positions == 48
        assert gap() == pytest.approx(0.0, abs=1e-4)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1.3)
        assert gap() > 0.5
        engine.update(model.state_dict().items())
        assert gap() == pytest.approx(0.0, abs=1e-4)
        sampling = Sampling(max_tokens=8, seed=3)
        assert engine.generate(PROMPTS, sampling) == engine.generate(PROMPTS, sampling)
    finally:
        engine.close()
