"""Language agents learn where their model is: told without a GPU by what would be on it, and where there is one, on it.

``pytest -m gpu`` runs the second kind, which compares every agent's first numbers with those of the processor.
"""

from __future__ import annotations

import pickle
import re
from collections import deque
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from gaitway_agents.interfaces import Sampling
from gaitway_agents.language import presets
from gaitway_agents.language.asynchronous import AsynchronousWorld, _Worker
from gaitway_agents.language.corrections import CorrectionConfig
from gaitway_agents.language.online_dpo import OnlineDPOConfig, OnlineDPOTrainer
from gaitway_agents.language.policy_gradient import PolicyGradientTrainer
from gaitway_agents.language.preference import PreferenceConfig, PreferenceTrainer
from gaitway_agents.language.reward_model import RewardModelConfig, RewardModelTrainer
from gaitway_agents.language.schedule import LearningRateSchedule
from gaitway_agents.language.sft import SFTConfig, SFTTrainer
from gaitway_agents.models.reward_model import RewardModel
from gaitway_agents.models.token_critic import TokenCritic
from gaitway_language.conversation import Conversation
from gaitway_language.engines.make import make_engine
from gaitway_language.model import load_model, load_reward_model
from gaitway_language.options import LanguageOptions, LoraOptions, TinyModel
from gaitway_language.tokenizer import build_tokenizer
from gaitway_language.world import TextWorld
from gaitway_tasks.language.tasks import get_language_task
from pretend_gpu import GPU, HOST, PretendGpu
from real_gpu import CUDA, needs_gpu
from tiny_models import Copies, HigherWins
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from transformers.integrations.flash_attention import get_target_dtype
from transformers.modeling_utils import AttentionInterface

TASK = get_language_task("arithmetic")
TOKENIZER = build_tokenizer(TASK.source.vocabulary())
SIZES = TinyModel(hidden_size=16, layers=1, heads=2, intermediate_size=16, max_positions=256)
OPTIONS = LanguageOptions(tiny=SIZES, attention="eager", batch_size=8)
CONSTANT = LearningRateSchedule()
CLOCKS = re.compile(r"^time/|seconds|per_s$|sync_gap|accuracy$")
"""Numbers that depend on the machine, and signs of differences that are zero before anything was learnt."""


def tiny(lora: bool = False, flash: bool = False) -> Any:
    model: Any = load_model(replace(OPTIONS, lora=LoraOptions(rank=2) if lora else None), TOKENIZER, device=GPU)
    if flash:
        model.config._attn_implementation = "flash_attention_2"
    return model


def flash_attention(module: Any, query: Any, key: Any, value: Any, mask: Any, **settings: Any) -> Any:
    """Stand-in for flash attention that refuses float32, as it does; sequences in a row do not attend to others."""
    if (target := get_target_dtype(query, module)) is not None:
        query, key, value = (part.to(target) for part in (query, key, value))
    if query.dtype == torch.float32:
        raise RuntimeError("FlashAttention only support fp16 and bf16 data type")
    places = settings["position_ids"]
    number = (places == 0).cumsum(1)
    seen = (number[:, None] == number[:, :, None]) & (places[:, None] <= places[:, :, None])
    if mask is not None:
        seen = seen & mask.bool()[:, None]
    seen = seen | torch.eye(seen.shape[-1], dtype=torch.bool, device=seen.device)
    return scaled_dot_product_attention(query, key, value, attn_mask=seen[:, None]).transpose(1, 2), None


def world(model: Any, **settings: Any) -> TextWorld:
    """Rewards that differ for answers of other lengths."""

    def score(prompts: Any, completions: Any, rows: Any) -> Any:
        found = [float(len(text) % 5) for text in completions]
        return found, {"length": found}

    conversation = Conversation(TOKENIZER)
    precision = "float32" if model.config._attn_implementation == "eager" else "bfloat16"
    engine = make_engine(OPTIONS, model, [[5, 9, 11], [7, 8]], precision=precision, **settings)
    sampling = Sampling(max_tokens=6, stop_tokens=(conversation.end,))
    return TextWorld(TASK, conversation, engine, sampling, score, seed=0)


class Beside(AsynchronousWorld):
    """The world of another process, in this one: what its pipe would carry is answered at once."""

    def __init__(self, inner: TextWorld):
        worker, answers = _Worker(inner), deque[bytes]()
        self._connection: Any = SimpleNamespace(
            send=lambda asked: answers.append(pickle.dumps(worker.answer(*asked))), recv_bytes=answers.popleft
        )
        self._weights, self._shape, self._log, self._version, self.staleness = None, None, {}, 0, 1
        self._pending, self._ready = deque(), deque()
        self.temperature = self._ask("temperature")


def reading(trainer: Any, config: Any, data: Any, flash: bool = False, offload: bool = False, **settings: Any) -> Any:
    optimizer = replace(config.optimizer, precision="bfloat16" if flash else "float32", offload=offload)
    asked = replace(config, batch_size=4, updates=2, schedule=CONSTANT, optimizer=optimizer)
    return lambda: trainer(tiny(flash=flash, **settings), data, asked, seed=0)


def reward_model(flash: bool = False) -> Any:
    model: Any = load_reward_model(OPTIONS, TOKENIZER, device=GPU)[0]
    if flash:
        model.config._attn_implementation = "flash_attention_2"
    optimizer = replace(RewardModelConfig().optimizer, precision="bfloat16" if flash else "float32")
    config = RewardModelConfig(batch_size=4, updates=2, schedule=CONSTANT, normalise_on=4, optimizer=optimizer)
    return RewardModelTrainer(RewardModel(model), HigherWins(8), config, seed=0, total_steps=8)


def sampling(preset: Any, lora: bool = False, flash: bool = False, **settings: Any) -> Any:
    def make() -> Any:
        model = tiny(lora, flash)
        group = min(preset.group_size, 4)
        optimizer = replace(preset.optimizer, minibatches=min(preset.optimizer.minibatches, 2), chunk_size=256)
        optimizer = replace(optimizer, precision="bfloat16" if flash else "float32")
        sizes = {"prompts_per_step": 8 // group, "group_size": group, "schedule": CONSTANT, "optimizer": optimizer}
        critic = TokenCritic(model) if preset.advantage == "gae" else None
        return PolicyGradientTrainer(model, world(model), replace(preset, **sizes | settings), seed=0, critic=critic)

    return make


def online_dpo() -> Any:
    model = tiny()
    config = OnlineDPOConfig(prompts_per_step=4, optimizer=replace(OnlineDPOConfig().optimizer, chunk_size=256))
    return OnlineDPOTrainer(model, world(model), config, seed=0)


def asynchronous() -> Any:
    config = replace(presets.GRPO, prompts_per_step=2, group_size=4)
    return PolicyGradientTrainer(tiny(), Beside(world(tiny(), learning=False)), config, seed=0)


CORRECTED = {
    "behaviour": "trainer",
    "correction": CorrectionConfig(),
    "entropy_share": 0.5,
    "off_policy_threshold": 0.1,
}
TRAINERS = {
    "sft": reading(SFTTrainer, SFTConfig(), Copies(8)),
    "sft, offloaded": reading(SFTTrainer, SFTConfig(), Copies(8), offload=True),
    "sft, adapters": reading(SFTTrainer, SFTConfig(), Copies(8), lora=True),
    **{
        loss: reading(PreferenceTrainer, PreferenceConfig(loss=loss), HigherWins(8))
        for loss in ("dpo", "ipo", "hinge", "simpo", "kto")
    },
    "dpo, adapters": reading(PreferenceTrainer, PreferenceConfig(), HigherWins(8), lora=True),
    "reward-model": reward_model,
    "grpo": sampling(presets.GRPO),
    "grpo, adapters": sampling(presets.GRPO, lora=True),
    "grpo, corrected": sampling(presets.GRPO, **CORRECTED, reference_interval=1),
    "dr-grpo": sampling(presets.DR_GRPO),
    "dapo": sampling(presets.DAPO),
    "gspo": sampling(presets.GSPO),
    "cispo": sampling(presets.CISPO),
    "rloo": sampling(presets.RLOO),
    "reinforce++": sampling(presets.REINFORCE_PLUS_PLUS),
    "ppo": sampling(presets.PPO_RLHF),
    "online-dpo": online_dpo,
    "asynchronous": asynchronous,
    "sft, flash": reading(SFTTrainer, SFTConfig(), Copies(8), flash=True),
    "dpo, flash": reading(PreferenceTrainer, PreferenceConfig(), HigherWins(8), flash=True),
    "kto, flash": reading(PreferenceTrainer, PreferenceConfig(loss="kto"), HigherWins(8), flash=True),
    "reward-model, flash": partial(reward_model, flash=True),
    "grpo, flash": sampling(presets.GRPO, flash=True),
    "grpo, adapters, flash": sampling(presets.GRPO, lora=True, flash=True),
    "ppo, flash": sampling(presets.PPO_RLHF, flash=True),
}


def mixed(make: Any, monkeypatch: Any) -> list[str]:
    """Operations of making a trainer and of two iterations that would fail on a GPU."""
    monkeypatch.setitem(AttentionInterface._global_mapping, "flash_attention_2", flash_attention)
    gpu = PretendGpu(strict=True)
    convert = nn.Module.to

    def to(module: nn.Module, device: Any = None, dtype: Any = None) -> nn.Module:
        if device == GPU:
            gpu.put(module)
        return module if dtype is None else convert(module, dtype)

    monkeypatch.setattr(nn.Module, "to", to)
    with gpu.watching():
        trainer = make()
        for _ in range(2):
            trainer.iterate()
    return gpu.mixed


@pytest.mark.parametrize("name", TRAINERS)
def test_nothing_is_made_beside_the_model(name, monkeypatch):
    assert mixed(TRAINERS[name], monkeypatch) == []


@needs_gpu
@pytest.mark.parametrize("name", TRAINERS)
def test_it_learns_the_same_on_a_gpu(name, monkeypatch):
    monkeypatch.setitem(AttentionInterface._global_mapping, "flash_attention_2", flash_attention)
    found = {}
    for place in (HOST, CUDA):
        monkeypatch.setitem(globals(), "GPU", place)
        trainer = TRAINERS[name]()
        found[place] = trainer.iterate()
        trainer.iterate()
        policy, state = trainer.policy, trainer.optimizer.state_dict()["inner"]["state"]
        tensors, moments = [*policy.parameters(), *policy.buffers()], [state[0]["exp_avg"], state[0]["exp_avg_sq"]]
        assert {tensor.device.type for tensor in tensors} == {place.type}
        assert {moment.device.type for moment in moments} == {"cpu" if "offloaded" in name else place.type}
        assert all(tensor.isfinite().all() for tensor in [*tensors, *moments])
    near = {"rel": 5e-2, "abs": 2e-2} if "flash" in name else {"rel": 1e-2, "abs": 1e-3}
    same = [{k: v for k, v in numbers.items() if not CLOCKS.search(k)} for numbers in found.values()]
    assert same[1] == pytest.approx(same[0], nan_ok=True, **near)
