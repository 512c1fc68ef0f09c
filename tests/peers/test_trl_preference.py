"""Losses and gradients of TRL's own DPO, KTO and reward trainers against ours: the same model and the same batch."""

from __future__ import annotations

import copy
import json
import math
import os
from types import SimpleNamespace

import pytest
import torch
from gaitway_agents.core.batch import Batch
from gaitway_agents.core.policy import Evaluation
from gaitway_agents.core.preference import PreferenceLossConfig, preference_loss
from gaitway_agents.language.fixed_data import one_step
from gaitway_agents.language.pairs import SequencePolicy
from gaitway_agents.language.preference import PreferenceConfig, PreferenceTrainer
from gaitway_agents.language.reference import Reference
from gaitway_agents.language.reward_model import RewardModelConfig, RewardModelTrainer
from gaitway_agents.language.schedule import LearningRateSchedule
from gaitway_agents.language.sft import SFTConfig, SFTTrainer
from gaitway_agents.models.reward_model import RewardModel
from gaitway_language.conversation import Conversation
from gaitway_language.data import demonstrations
from gaitway_language.tokenizer import build_tokenizer
from gaitway_tasks.language.spec import FileSource, LanguageTask

for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE"):
    os.environ.setdefault(name, "1")
trl = pytest.importorskip("trl")
datasets = pytest.importorskip("datasets")
transformers = pytest.importorskip("transformers")

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
ROWS = [
    {"prompt": "one two", "chosen": " three four five", "rejected": " six"},
    {"prompt": "nine", "chosen": " ten", "rejected": " one one two"},
    {"prompt": "four three two", "chosen": " one", "rejected": " five six seven eight"},
    {"prompt": "ten nine", "chosen": " eight seven", "rejected": " two two"},
]
ATOL = 1e-6


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer([" ".join(WORDS)])


def model(tokenizer, seed=0):
    """In float64, as far as transformers goes along (norms stay in float32).

    In float32 two processors may sum a gradient in orders that lie further apart than ``ATOL``.
    """
    config = transformers.Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        tie_word_embeddings=False,
        initializer_range=0.2,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        num_labels=1,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        models = transformers.Qwen2ForCausalLM(config), transformers.Qwen2ForSequenceClassification(config)
    return tuple(each.double() for each in models)


def pairs(batch, margins=None):
    """The rows of a batch of theirs, chosen ones before rejected ones."""
    found = examples(batch["input_ids"], batch["attention_mask"], batch.get("completion_mask"))
    half = len(found) // 2
    return list(zip(found[:half], found[half:], margins or [0.0] * half, strict=True))


def examples(tokens, seen, mask=None):
    mask = seen if mask is None else mask
    return [(t[s.bool()], m[s.bool()].float()) for t, s, m in zip(tokens, seen, mask, strict=True)]


def answers(rows):
    """Their single answers."""
    found = []
    for row in rows:
        prompt, answer = row["prompt_ids"], row["completion_ids"]
        mask = torch.tensor([0.0] * len(prompt) + [1.0] * len(answer))
        found.append(((torch.tensor(prompt + answer), mask), bool(row["label"])))
    return found


def settings(kind, tmp_path, **more):
    usual = {
        "output_dir": str(tmp_path),
        "per_device_train_batch_size": len(ROWS),
        "report_to": "none",
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "logging_strategy": "no",
        "save_strategy": "no",
    }
    return kind(**(usual | more))


def check(learner, ours, trainer, batch, rows):
    """Equal losses and gradients, of numbers that are large enough to mean something; the loss.

    ``ours`` is the model that the learner holds. The optimiser cuts the batch into several chunks.
    """
    trainer.model.train()
    trainer.model.zero_grad()
    theirs = trainer.compute_loss(trainer.model, dict(batch))
    theirs.backward()
    optimizer = learner.optimizer
    statistics = optimizer._accumulate(learner.batch_of(list(rows)))
    loss = theirs.item()
    assert statistics[0].item() == pytest.approx(loss, rel=ATOL, abs=ATOL)
    for (name, mine), (_, other) in zip(ours.named_parameters(), trainer.model.named_parameters(), strict=True):
        largest = float(other.grad.abs().max())
        assert largest > 1e-3, name
        apart = float((mine.grad - other.grad).abs().max())
        assert apart <= ATOL * max(1.0, largest), f"{name}: {apart} apart, {largest} large"
    return loss


PAIR_LOSSES = [
    ("sigmoid", {"beta": 0.3}, {"loss": "dpo", "beta": 0.3}),
    ("hinge", {"beta": 0.3}, {"loss": "hinge", "beta": 0.3}),
    ("ipo", {"beta": 0.3}, {"loss": "ipo", "beta": 0.3}),
]


@pytest.mark.parametrize(("kind", "theirs", "ours"), PAIR_LOSSES)
def test_losses_of_pairs_are_those_of_trls_dpo_trainer(kind, theirs, ours, tokenizer, tmp_path):
    policy, other = model(tokenizer, 0)[0], model(tokenizer, 1)[0]
    trainer = trl.DPOTrainer(
        model=copy.deepcopy(policy),
        ref_model=copy.deepcopy(other),
        args=settings(trl.DPOConfig, tmp_path, loss_type=[kind], **theirs),
        train_dataset=datasets.Dataset.from_list(ROWS),
        processing_class=tokenizer,
    )
    batch = next(iter(trainer.get_train_dataloader()))
    config = PreferenceConfig(batch_size=4, schedule=LearningRateSchedule(), optimizer=one_step(chunk_size=20), **ours)
    learner = PreferenceTrainer(policy, pairs(batch), config, seed=0)
    learner.reference = Reference(SequencePolicy(other))
    learner._known = learner._known.double()
    assert check(learner, policy, trainer, batch, range(4)) != pytest.approx(math.log(2.0), abs=1e-3)


def test_kto_is_that_of_trls_kto_trainer(tokenizer, tmp_path):
    policy, other = model(tokenizer, 0)[0], model(tokenizer, 1)[0]
    rows = [
        {"prompt": row["prompt"], "completion": row["chosen" if i % 3 else "rejected"], "label": bool(i % 3)}
        for i, row in enumerate(ROWS)
    ]
    trainer = trl.KTOTrainer(
        model=copy.deepcopy(policy),
        ref_model=copy.deepcopy(other),
        args=settings(trl.KTOConfig, tmp_path, beta=0.3, desirable_weight=1.0, undesirable_weight=1.5),
        train_dataset=datasets.Dataset.from_list(rows),
        processing_class=tokenizer,
    )
    batch = next(iter(trainer.get_train_dataloader()))
    config = PreferenceConfig(
        loss="kto",
        beta=0.3,
        undesirable_weight=1.5,
        batch_size=4,
        schedule=LearningRateSchedule(),
        optimizer=one_step(chunk_size=10),
    )
    learner = PreferenceTrainer(policy, answers(trainer.train_dataset), config, seed=0)
    learner.reference = Reference(SequencePolicy(other))
    learner._known = learner._known.double()
    # They pair each prompt with the answer before it, we with the one after it.
    check(learner, policy, trainer, batch, reversed(range(4)))
    assert float(learner.batch_of([3, 2, 1, 0]).observations["baseline"][0]) > 0.1


def test_a_reward_model_is_that_of_trls_reward_trainer(tokenizer, tmp_path):
    scorer = model(tokenizer)[1]
    margins = [0.5, 0.0, 1.0, 0.25]
    rows = [row | {"margin": margin} for row, margin in zip(ROWS, margins, strict=True)]
    trainer = trl.RewardTrainer(
        model=copy.deepcopy(scorer),
        args=settings(trl.RewardConfig, tmp_path, center_rewards_coefficient=0.05),
        train_dataset=datasets.Dataset.from_list(rows),
        processing_class=tokenizer,
    )
    batch = next(iter(trainer.get_train_dataloader()))
    config = RewardModelConfig(
        batch_size=4,
        use_margin=True,
        centring=0.05,
        schedule=LearningRateSchedule(),
        optimizer=one_step(chunk_size=20),
    )
    learner = RewardModelTrainer(RewardModel(scorer), pairs(batch, batch["margin"].tolist()), config, seed=0)
    check(learner, scorer, trainer, batch, range(4))


def test_fine_tuning_is_that_of_trls_sft_trainer(tokenizer, tmp_path):
    lm = model(tokenizer)[0]
    rows = [{"prompt": row["prompt"], "completion": row["rejected"]} for row in ROWS]
    trainer = trl.SFTTrainer(
        model=copy.deepcopy(lm),
        args=settings(trl.SFTConfig, tmp_path, completion_only_loss=True),
        train_dataset=datasets.Dataset.from_list(rows),
        processing_class=tokenizer,
    )
    batch = next(iter(trainer.get_train_dataloader()))

    data = examples(batch["input_ids"], batch["attention_mask"], (batch["labels"] != -100).long())
    config = SFTConfig(batch_size=4, schedule=LearningRateSchedule(), optimizer=one_step(chunk_size=10))
    check(SFTTrainer(lm, data, config, seed=0), lm, trainer, batch, range(4))


GENERATION = (
    "{% for m in messages %}{% if m.role == 'assistant' %}<assistant>{% generation %}{{ m.content }}<end>"
    "{% endgeneration %}{% else %}{{ {'system': '<system>', 'user': '<user>', 'tool': '<result>'}[m.role] }}"
    "{{ m.content }}{% endif %}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
)


def test_answers_of_conversations_are_those_of_trls_assistant_only_loss(tokenizer, tmp_path):
    lm, tokenizer = model(tokenizer)[0], copy.deepcopy(tokenizer)
    tokenizer.chat_template = GENERATION
    roles = ["system", "user", "assistant", "tool", "assistant", "user", "assistant"]
    texts = ["one two", "three", "four five", "six", "seven eight nine", "ten", "one"]
    turns = [{"role": role, "content": text} for role, text in zip(roles, texts, strict=True)]
    trainer = trl.SFTTrainer(
        model=copy.deepcopy(lm),
        args=settings(trl.SFTConfig, tmp_path, assistant_only_loss=True),
        train_dataset=datasets.Dataset.from_list([{"messages": turns[:end]} for end in (7, 3, 5, 7)]),
        processing_class=tokenizer,
    )
    batch = next(iter(trainer.get_train_dataloader()))
    theirs = examples(batch["input_ids"], batch["attention_mask"], (batch["labels"] != -100).long())
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps({"messages": turns[:end]}) + "\n" for end in (7, 3, 5, 7)))
    task = LanguageTask(name="turns", source=FileSource(train=str(file), holdout=0))
    ours = demonstrations(task.source.rows("train"), task, Conversation(tokenizer))
    found, expected = (sorted((tokens.tolist(), mask.tolist()) for tokens, mask in rows) for rows in (ours, theirs))
    assert found == expected
    config = SFTConfig(batch_size=4, schedule=LearningRateSchedule(), optimizer=one_step(chunk_size=20))
    check(SFTTrainer(lm, ours, config, seed=0), lm, trainer, batch, range(4))


def test_simpo_is_that_of_trls_cpo_trainer():
    from trl.experimental.cpo import CPOTrainer

    generator = torch.Generator().manual_seed(0)
    sizes = torch.randint(1, 7, (5, 2), generator=generator)
    mask = (torch.arange(8) < sizes[..., None]).double()
    log_probs = (-torch.rand(5, 2, generator=generator, dtype=torch.float64) * sizes).requires_grad_()
    means = log_probs / sizes
    stub = SimpleNamespace(
        alpha=0.0,
        accelerator=SimpleNamespace(device="cpu"),
        loss_type="simpo",
        simpo_gamma=0.7,
        beta=2.0,
        label_smoothing=0.1,
    )
    theirs = CPOTrainer.cpo_loss(stub, means[:, 0], means[:, 1])[0]
    config = PreferenceLossConfig(loss="simpo", beta=2.0, gamma=0.7, label_smoothing=0.1)
    none = torch.zeros(5, dtype=torch.float64)
    batch = Batch(observations={"mask": mask}, actions=mask.long(), log_probs=none, advantages=none)
    ours = preference_loss(config)(Evaluation(log_probs=log_probs, entropy=log_probs), batch)[0]
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    gradients = [torch.autograd.grad(losses.mean(), log_probs, retain_graph=True)[0] for losses in (ours, theirs)]
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-12)
