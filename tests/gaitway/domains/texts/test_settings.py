"""Default precision and learning rate of models of real size, with and without a GPU."""

import pytest
import torch
from gaitway_agents.registry import TEXTS
from gaitway_language.model import build_model
from gaitway_language.options import TinyModel
from gaitway_language.saving import save_model
from gaitway_language.tokenizer import build_tokenizer
from gaitway_tasks.language.rows import RowError

from gaitway.config.tree import to_tree
from gaitway.domains.texts import preflight
from gaitway.domains.texts.preflight import _computing
from gaitway.domains.texts.recipes import SMOLLM2
from gaitway.errors import ConfigError
from gaitway.train_config import resolve

MODEL = "Qwen/Qwen2.5-1.5B-Instruct"


@pytest.fixture
def gpu(monkeypatch):
    """A GPU, as far as settings ask; ``gpu(False)`` takes bfloat16 from it."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)

    def able(bfloat16):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0) if bfloat16 else (7, 5))

    able(True)
    return able


def settings(*overrides, agent="grpo", lora=False):
    options = {"model": MODEL} | ({"lora": True} if lora else {}) | ({"teacher": MODEL} if agent == "gkd" else {})
    return resolve("gsm8k", agent=agent, overrides=overrides, options=options)


@pytest.mark.parametrize("lora", [False, True])
def test_a_gpu_computes_in_bfloat16_and_the_run_says_so(gpu, lora):
    config = settings(lora=lora)
    assert (config.language.dtype, config.agent.optimizer.precision) == ("bfloat16", "bfloat16")
    assert to_tree(config)["language"]["dtype"] == "bfloat16"
    learning = "adapters in float32 on weights in bfloat16" if lora else "weights in float32"
    assert _computing(config) == f"{MODEL}: {learning}, forward passes in bfloat16, engine in bfloat16"
    gpu(False)
    assert (settings().language.dtype, settings().agent.optimizer.precision) == ("float32", "float32")
    assert settings("language.dtype=bfloat16").language.dtype == "bfloat16"
    gpu(True)
    assert settings("device=cpu").language.dtype == "float32"


def test_a_cpu_answers_in_float32():
    assert settings().language.dtype == "float32"


@pytest.mark.parametrize("agent", TEXTS)
def test_adapters_learn_at_ten_times_the_rate(agent):
    whole, adapters = (settings(agent=agent, lora=lora).agent.optimizer.learning_rate for lora in (False, True))
    assert adapters == pytest.approx(10.0 * whole)
    assert settings("language.lora.rank=4", agent=agent).agent.optimizer.learning_rate == adapters
    own = settings("agent.optimizer.learning_rate=3e-6", agent=agent, lora=True)
    assert own.agent.optimizer.learning_rate == 3e-6


def test_flash_attention_in_float32_is_refused():
    flash = ("language.attention=flash_attention_2", "agent.optimizer.precision=")
    with pytest.raises(
        ConfigError, match=r"flash_attention_2.*precision='float32'.*set that, or language.attention=sd"
    ):
        settings(flash[0], flash[1] + "float32")
    assert settings(flash[0], flash[1] + "bfloat16").language.attention == "flash_attention_2"


def test_what_does_not_fit_is_trained_with_less_memory(tmp_path, monkeypatch, capsys):
    tokenizer, folder = build_tokenizer(["one two three"]), tmp_path / "model"
    sizes = TinyModel(hidden_size=64, heads=2, layers=4, max_positions=1024)
    save_model(build_model(sizes, tokenizer, 0), tokenizer, folder)
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"prompt": "one two", "completion": "three"}\n' * 20)
    lengths = ["task.max_prompt_tokens=16", "task.max_completion_tokens=48", "language.batch_size=1"]
    config = resolve(str(rows), agent="sft", options={"model": str(folder)}, overrides=["device=cpu", *lengths])
    assert config.domain.preflight(config) == config
    totals, estimate = [], preflight.estimate_memory

    def estimated(*arguments, **settings):
        found = estimate(*arguments, **settings)
        totals.append(sum(found.values()))
        return found

    monkeypatch.setattr(preflight, "estimate_memory", estimated)
    monkeypatch.setattr(preflight, "available_memory", lambda device: 0)
    with pytest.raises(ValueError, match=r"needs about .* GiB and cpu has 0.0 GiB free"):
        config.domain.preflight(config)
    whole, half, quarter, *anew = totals
    assert whole > half > quarter > min(anew)
    for free, size, checkpointing in ((half, 2048, False), (quarter, 1024, False), (min(anew), 1024, True)):
        monkeypatch.setattr(preflight, "available_memory", lambda device, free=free: free)
        capsys.readouterr()
        found = config.domain.preflight(config)
        assert found.agent.optimizer.chunk_size == size and not found.agent.optimizer.offload
        assert found.language.gradient_checkpointing == checkpointing
        assert f"agent.optimizer.chunk_size={size}" in capsys.readouterr().out


def test_an_answer_by_another_name_is_rewarded(tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"prompt": "one two", "gold": {"truth": "3"}}\n' * 20)
    config = resolve(
        str(rows), agent="grpo", options={"model": "tiny"}, overrides=["task.source.fields={answer: gold.truth}"]
    )
    assert config.task.rewards.keys() == {"correctness", "format"}
    assert {row["answer"] for row in config.task.source.rows("train")} == {"3"}


def test_only_what_an_agent_learns_must_fit_and_a_message_names_the_row_of_the_file(tmp_path):
    rows = tmp_path / "rows.jsonl"
    lines = ['{"prompt": "one two", "answer": "3", "completion": "three"}'] * 40
    lines[14] = lines[0].replace("three", " ".join(["three"] * 30))
    rows.write_text("\n".join(lines))
    overrides = ["task.max_prompt_tokens=64", "task.max_completion_tokens=12", "device=cpu"]

    def examined(agent):
        config = resolve(str(rows), agent=agent, options={"model": "tiny"}, overrides=overrides)
        return config.domain.preflight(config)

    assert examined("grpo").task.name == "rows"
    with pytest.raises(RowError, match=r"rows\.jsonl, row 15: its completion has 31 tokens.*max_completion_tokens=12"):
        examined("sft")


@pytest.mark.parametrize(("name", "kind"), [("rows.txt", "a file"), ("rows", "a folder")])
def test_a_file_that_is_no_file_of_rows_is_told_from_a_name(tmp_path, name, kind):
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows.txt").write_text("")
    with pytest.raises(ConfigError, match=rf"{name} is {kind}, and no task: .*\.jsonl, .*\.csv or \.parquet"):
        resolve(str(tmp_path / name), agent="sft", options={"model": "tiny"})


@pytest.mark.parametrize("able", [True, False])
def test_instructions_begin_with_smollm2_and_have_its_recipe(monkeypatch, able):
    monkeypatch.setattr("gaitway.domains.texts.settings.has_bfloat16", lambda device: able)
    precision = "bfloat16" if able else "float32"
    config = resolve("instructions", agent="grpo")
    assert (config.language.model, config.language.dtype, config.language.tiny) == (SMOLLM2, precision, None)
    assert (config.agent.optimizer.learning_rate, config.agent.optimizer.precision) == (1e-4, precision)
    adapted = resolve("instructions", agent="grpo", options={"lora": True})
    assert adapted.agent.optimizer.learning_rate == pytest.approx(1e-3)
    other = resolve("instructions", agent="grpo", options={"model": MODEL})
    assert (other.language.model, other.agent.optimizer.learning_rate) == (MODEL, 1e-6)
    tiny = resolve("instructions", agent="grpo", options={"model": "tiny"})
    assert tiny.language.tiny is not None and tiny.agent.optimizer.learning_rate == 5e-4
    small = resolve("arithmetic", agent="grpo", options={"lora": True})
    assert small.agent.optimizer.learning_rate == 1e-3
