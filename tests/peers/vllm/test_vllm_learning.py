"""GRPO whose answers come from vLLM: in this process, and from a server."""

import functools
import os
import subprocess
import sys
from dataclasses import replace
from itertools import islice

import pytest
import torch
from gaitway_agents.core.optimizer import OptimizerConfig
from gaitway_agents.interfaces import Sampling
from gaitway_agents.language.config import PolicyGradientConfig
from gaitway_agents.language.policy_gradient import PolicyGradientTrainer
from gaitway_language.conversation import Conversation
from gaitway_language.engines.make import make_engine
from gaitway_language.options import LanguageOptions, TinyModel
from gaitway_language.tokenizer import build_tokenizer
from gaitway_language.world import TextWorld
from gaitway_tasks.language.score import score
from gaitway_tasks.language.spec import TextReward
from gaitway_tasks.language.tasks import get_language_task
from tiny import learn
from transformers import Qwen2Config, Qwen2ForCausalLM

TASK = get_language_task("arithmetic")
SIZES = TinyModel(hidden_size=64, layers=2, heads=2, intermediate_size=96, max_positions=128)


def digits(prompts, completions, **columns):
    """A reward that a random model can raise within a few steps: the share of digits in its answer."""
    return [sum(c.isdigit() for c in text) / max(1, len(text)) for text in completions]


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer(TASK.source.vocabulary())


def make_model(tokenizer):
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(tokenizer), hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=128, tie_word_embeddings=True,
    )  # fmt: skip
    return Qwen2ForCausalLM(config)


def probe(tokenizer):
    conversation = Conversation(tokenizer)
    return [conversation.prompt(row["prompt"]) for row in islice(TASK.source.stream("train", 9), 4)]


def train(options, tokenizer, steps):
    model = make_model(tokenizer)
    engine = make_engine(options, model, probe(tokenizer))
    task = replace(TASK, rewards={"digits": TextReward(func=digits)})
    conversation = Conversation(tokenizer)
    world = TextWorld(
        task,
        conversation,
        engine,
        Sampling(max_tokens=12, stop_tokens=(conversation.end,)),
        functools.partial(score, task),
        seed=0,
    )
    optimizer = OptimizerConfig(
        epochs=1, minibatches=1, schedule="constant", learning_rate=1e-2, normalize_advantages="none"
    )
    config = PolicyGradientConfig(prompts_per_step=8, group_size=8, optimizer=optimizer)
    trainer = PolicyGradientTrainer(model, world, config, seed=0)
    found = [trainer.iterate() for _ in range(steps)]
    engine.close()
    return found


def test_grpo_with_vllm_in_this_process(tokenizer):
    options = LanguageOptions(model="tiny", tiny=SIZES, rollout="vllm", batch_size=64)
    found = train(options, tokenizer, 12)
    assert all(metrics["learn/sync_gap"] < 1e-3 for metrics in found)
    # On-policy: what vLLM said of its tokens is what the trainer says of them before its update.
    assert all(abs(metrics["learn/kl"]) < 1e-3 for metrics in found)
    assert found[-1]["rollout/reward"] > found[0]["rollout/reward"] + 0.1


def test_grpo_with_a_vllm_server(tokenizer, tmp_path):
    model = make_model(tokenizer)
    learn(model)  # other weights than the trainer's: the server has to get those first
    model.save_pretrained(tmp_path)
    command = [sys.executable, "-m", "gaitway_language.engines.serve", "--model", str(tmp_path), "--port", "0"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [*command, "--dtype", "float32"], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            address = process.stdout.readline().split()[-1]
            options = LanguageOptions(model="tiny", tiny=SIZES, rollout="vllm-server", server=address)
            found = train(options, tokenizer, 2)
            assert all(metrics["learn/sync_gap"] < 1e-3 for metrics in found)
        finally:
            process.terminate()
