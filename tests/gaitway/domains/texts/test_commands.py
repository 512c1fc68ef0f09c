"""Language models through the real command line: trained, chained, examined, talked with, exported, reported."""

import io
import json
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from html_page import Page
from language_runs import FLOAT, MODEL, PROBLEMS, RL, SFT, ours, train

from gaitway.domains.texts.evaluate import Evaluation
from gaitway.runs.folder import RunFolder
from gaitway.runs.rows import read_rows
from gaitway.train_config import load

PAIRS = [
    {"prompt": f"say {word}", "chosen": f"{word} {word}", "rejected": "no"} for word in ("one", "two", "three", "four")
] * 12
LENGTHS = ["task.max_prompt_tokens=32", "task.max_completion_tokens=32"]
DATA = [*FLOAT, *LENGTHS, "agent.batch_size=8", "agent.updates=2", "total_steps=64", "evaluation_episodes=4"]
DATA += ["evaluation_interval=0"]


@pytest.fixture(scope="session")
def pairs(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in PAIRS))
    return path


@pytest.fixture(scope="session")
def judge(pairs, tmp_path_factory):
    options = ["--model", "tiny", *MODEL, *DATA]
    return train(pairs, "--agent", "reward-model", *options, out=tmp_path_factory.mktemp("runs") / "judge")


def test_a_run_keeps_all_that_it_needs(sft, grpo):
    begun_with = RunFolder.open(Path(load(grpo / "config.yaml").language.model))
    assert begun_with.record == RunFolder.open(sft).record  # another worker's copy of the same run, perhaps
    assert {"model.safetensors", "tokenizer.json", "chat_template.jinja"} <= {
        p.name for p in (grpo / "start").iterdir()
    }
    assert (grpo / ".lock").read_text() == "" and RunFolder.open(grpo).edited() == {}
    record = RunFolder.open(grpo).record
    assert (record["status"], record["steps"], record["world"]) == ("finished", 64, "language")
    assert record["cpu_time_s"] > 0.0


def test_the_log_has_what_the_table_shows(grpo):
    rows = read_rows(grpo / "metrics.jsonl")
    assert [row["steps"] for row in rows] == [16, 32, 48, 64]
    shown = {"rollout/reward", "rollout/reward/correctness", "rollout/reward/format", "rollout/length"}
    shown |= {"rollout/finished", "rollout/tokens_per_s", "rollout/staleness", "learn/kl", "learn/entropy"}
    shown |= {"learn/clip_fraction", "learn/grad_norm", "learn/tokens_per_s", "time/generation", "time/learning"}
    assert shown <= rows[-1].keys()


def test_evaluations_are_recorded_with_pages_to_read(grpo):
    rows = read_rows(grpo / "evaluations.jsonl")
    assert [row["steps"] for row in rows] == [32, 64]
    assert len(rows[-1]["returns"]) == len(rows[-1]["lengths"]) == 8
    assert {"greedy accuracy", "greedy format"} <= rows[-1]["measures"].keys()
    page = Page((grpo / "answers" / "step_000000000064.html").read_text("utf-8"))
    assert not page.open and "expected" in page.text and "Failures to read" in page.text


def test_grpo_begins_with_what_sft_made(sft, grpo):
    from gaitway.domains.texts.models import language_run, load_run, open_start

    made = load_run(language_run(sft)).model.state_dict()
    begun = open_start(load(grpo / "config.yaml"), RunFolder.open(grpo))[0].state_dict()
    assert all(torch.equal(made[name], begun[name]) for name in made)
    after = load_run(language_run(grpo)).model.state_dict()
    assert not all(torch.equal(after[name], begun[name]) for name in after)


def test_evaluate_writes_numbers_and_page(grpo, capsys):
    code, out, _ = ours(["evaluate", grpo, "--samples", "4", "--problems", "6"], capsys)
    assert code == 0 and "pass@4" in out and "majority@4" in out
    found = Evaluation.load(grpo / "evaluations" / "arithmetic.json")
    assert len(found.problems) == 6 and all(len(p.samples) == 4 for p in found.problems)
    assert found.steps == 64
    right = [bool(p.greedy.is_right) for p in found.problems]
    assert found.measures["greedy accuracy"].value == pytest.approx(sum(right) / 6)
    page = Page((grpo / "evaluations" / "arithmetic.html").read_text("utf-8"))
    assert not page.open and "sample 4" in page.text
    assert ours(["evaluate", grpo, "--samples", "4", "--problems", "6"], capsys)[0] == 0
    again = Evaluation.load(grpo / "evaluations" / "arithmetic.json")
    assert again.problems == found.problems  # the same answers every time


def test_an_evaluation_has_the_threads_it_is_given(grpo, judge, capsys):
    for source in (grpo, judge):
        for threads in (2, 1):
            assert ours(["evaluate", source, "--problems", "2", f"num_threads={threads}"], capsys)[0] == 0
            assert torch.get_num_threads() == threads


def test_the_named_checkpoint_is_evaluated_and_exported(grpo, tmp_path, capsys):
    assert ours(["evaluate", grpo, "--problems", "3", "--checkpoint", "48"], capsys)[0] == 0
    assert Evaluation.load(grpo / "evaluations" / "arithmetic-48.json").steps == 48
    code, _, said = ours(["evaluate", grpo, "--problems", "3", "--checkpoint", "best"], capsys)
    assert code == 2 and "trained without examinations" in said and "32, 48, 64" in said
    assert ours(["export", grpo, "--checkpoint", "32", "--out", tmp_path / "model"], capsys)[0] == 0
    from safetensors.torch import load_file

    from gaitway.domains.texts.models import language_run, load_run

    written = load_file(tmp_path / "model" / "model.safetensors")
    for steps, same in ((32, True), (64, False)):
        weights = load_run(language_run(grpo), steps).model.state_dict()
        assert all(torch.equal(weights[name], value) for name, value in written.items()) == same


def test_evaluate_on_other_problems(grpo, tmp_path, capsys):
    settings = ["task.source.steps=[4,4]", "--problems", "3", "--out", tmp_path]
    assert ours(["evaluate", grpo, *settings], capsys)[0] == 0
    assert {p.level for p in Evaluation.load(tmp_path / "arithmetic.json").problems} == {"4"}


def test_answers_can_be_begun_for_the_model(grpo, capsys):
    words = ["evaluate", grpo, "--problems", "6"]
    assert ours([*words, "--prefill", "<think> 1 + 1 = 2 </think> <answer> 2", "--name", "begun"], capsys)[0] == 0
    begun = Evaluation.load(grpo / "evaluations/begun.json")
    assert begun.prefill.endswith("<answer> 2") and begun.task == "arithmetic"
    judged = [problem.greedy for problem in begun.problems]
    assert all(answer.last_turn == f"{begun.prefill}{answer.text}" for answer in judged)
    assert any(answer.parts["format"] == 1.0 for answer in judged)  # what was begun counts as said
    assert not any(answer.text.startswith("<think>") for answer in judged)


def test_right_samples_become_demonstrations(sft, tmp_path, capsys):
    file = tmp_path / "right.jsonl"
    words = ["evaluate", sft, "--right", file, "--out", tmp_path / "sampled"]
    code, _, said = ours(words, capsys)
    assert code == 2 and "--samples" in said and "--problems" in said and not file.exists()
    assert ours([*words, "--problems", "64", "--samples", "8"], capsys)[0] == 0
    asked = Evaluation.load(tmp_path / "sampled/arithmetic-training.json")
    task = load(sft / "config.yaml").task
    assert not {problem.prompt for problem in asked.problems} & {row["prompt"] for row in task.source.rows("test")}
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    right = {(p.prompt, a.text) for p in asked.problems for a in p.samples if a.is_right}
    assert len(rows) == len(right) and {(row["prompt"], row["completion"]) for row in rows} == right
    length = ["task.max_completion_tokens=64", "task.max_prompt_tokens=64", "evaluation_episodes=0"]
    length += ["evaluation_interval=0"]
    run = train(file, "--agent", "sft", "--model", sft, *FLOAT, *length, "total_steps=32", out=tmp_path / "expert")
    assert ours(["evaluate", run, "--task", "arithmetic", "--problems", "4", *FLOAT[1:2]], capsys)[0] == 0


def test_right_and_wrong_samples_become_pairs(sft, tmp_path, capsys):
    file = tmp_path / "pairs.jsonl"
    words = ["evaluate", sft, "--pairs", file, "--out", tmp_path / "sampled"]
    code, _, said = ours(words, capsys)
    assert code == 2 and "--pairs" in said and "--samples" in said and not file.exists()
    assert ours([*words, "--problems", "64", "--samples", "8"], capsys)[0] == 0
    asked = Evaluation.load(tmp_path / "sampled/arithmetic-training.json")
    right = {(p.prompt, a.text): a.is_right for p in asked.problems for a in p.samples}
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert rows and all(right[row["prompt"], row["chosen"]] for row in rows)
    assert not any(right[row["prompt"], row["rejected"]] for row in rows)
    code, _, said = ours([*words, "--problems", "1", "--samples", "1"], capsys)
    assert code == 2 and "pairs.jsonl" in said and "no problem has a right and a wrong sample" in said


def test_perplexity_is_that_of_the_models_own_probabilities(sft, tmp_path, capsys):
    from gaitway.domains.texts.models import load_writer

    loaded = load_writer(str(sft))
    rows = [row["prompt"] for row in load(sft / "config.yaml").task.source.rows("train")]
    text = tmp_path / "plain.txt"
    text.write_text(" ".join(rows[:300]))
    words = ["evaluate", sft, "--problems", "2", "--out", tmp_path, *FLOAT[1:2]]
    code, out, _ = ours([*words, "--plain", text], capsys)
    assert code == 0 and "perplexity" in out
    tokens = loaded.tokenizer.encode(text.read_text(), add_special_tokens=False)
    passages = torch.tensor([tokens[i : i + 256] for i in range(0, len(tokens) - 255, 256)])
    with torch.inference_mode():
        said = loaded.model(passages).logits[:, :-1].log_softmax(-1)
    mean = -said.gather(2, passages[:, 1:, None]).mean()
    found = Evaluation.load(tmp_path / "arithmetic.json").measures["perplexity"]
    assert len(passages) > 2 and found.low < found.value < found.high
    assert found.value == pytest.approx(math.exp(mean), rel=1e-4)
    text.write_text("too short")
    code, _, said = ours([*words, "--plain", text], capsys)
    assert code == 2 and "perplexity needs at least 256" in said
    code, _, said = ours([*words, "--plain", tmp_path / "none.txt"], capsys)
    assert code == 2 and "none.txt" in said


def test_a_gguf_file_is_trained_evaluated_and_reported(tmp_path, capsys, monkeypatch):
    from gguf_models import tiny_model, write_gguf

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    model = write_gguf(tmp_path / "tiny.gguf", tiny_model())
    settings = ["task.max_prompt_tokens=120", "task.max_completion_tokens=8", "task.system_prompt=''"]
    small = [
        "evaluation_episodes=2",
        "agent.prompts_per_step=2",
        "agent.group_size=2",
        "total_steps=8",
        "evaluation_interval=8",
    ]
    (tmp_path / "rows.jsonl").write_text("".join(f'{{"prompt": "{i} + 1", "answer": "{i + 1}"}}\n' for i in range(40)))
    rows = tmp_path / "rows.jsonl"
    run = train(
        rows, "--agent", "grpo", "--model", model, *settings, *small, "task.system_prompt=''", out=tmp_path / "r"
    )
    words = ["--task", rows, "--problems", "2", *settings]
    assert ours(["evaluate", model, *words, "--out", tmp_path / "published"], capsys)[0] == 0
    assert ours(["evaluate", run, *words[2:]], capsys)[0] == 0
    page = tmp_path / "report.html"
    code, _, said = ours(["report", tmp_path / "published", run, "--html", page], capsys)
    assert code == 0, said
    assert "as published" in Page(page.read_text("utf-8")).text
    code, _, said = ours(["report", tmp_path / "published", "--html", page], capsys)
    assert code == 2 and "none of" in said and "is a run" in said


def test_samples_without_a_right_one_are_said(sft, tmp_path, capsys):
    words = ["evaluate", sft, "--right", tmp_path / "right.jsonl", "--problems", "1", "--samples", "1"]
    code, _, said = ours([*words, "--out", tmp_path, "task.max_completion_tokens=1"], capsys)
    assert code == 2 and "right.jsonl" in said and "none of the samples is right" in said


def test_chat_answers_what_is_piped_in(grpo, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("Tom has 3 cups . Tom finds 4 . how many cups ?\n\n/new\nhello\n"))
    code, out, _ = ours(["chat", grpo, "--max-tokens", "6"], capsys)
    assert code == 0
    assert len(out.splitlines()) == 2
    monkeypatch.setattr(sys, "stdin", io.StringIO("Tom has 3 cups . Tom finds 4 . how many cups ?\n"))
    assert ours(["chat", grpo, "--max-tokens", "6"], capsys)[1] == out.splitlines(keepends=True)[0]


@pytest.mark.parametrize(("setting", "learnt"), [([], 4), (["agent.last_answer_only=true"], 2)])
def test_every_answer_of_a_conversation_is_learnt_unless_told_otherwise(setting, learnt, tmp_path):
    from gaitway.domains.texts.build import build_training
    from gaitway.train_config import resolve

    turns = [{"role": role, "content": "one"} for role in ("user", "assistant") * 2]
    file = tmp_path / "turns.jsonl"
    file.write_text(2 * (json.dumps({"messages": turns}) + "\n"))
    settings = [*MODEL, *DATA, *setting]
    config = resolve(str(file), agent="sft", overrides=settings, options={"model": "tiny"})
    built = build_training(config, RunFolder.create(tmp_path / "run", config))
    assert built.trainer.demonstrations[0][1].sum() == learnt


def test_every_token_that_ends_an_answer_does_so_wherever_the_model_answers(tmp_path):
    """A model of several such tokens, as its generation config has them: in training and as it talks."""
    from gaitway_language.model import build_model, load_model
    from gaitway_language.options import LanguageOptions, TinyModel
    from gaitway_language.saving import save_model
    from gaitway_language.tokenizer import build_tokenizer
    from transformers import GenerationConfig

    from gaitway.domains.texts.build import text_world
    from gaitway.domains.texts.data import make_conversation
    from gaitway.domains.texts.evaluate_source import evaluation_config
    from gaitway.domains.texts.talk import Talk

    tokenizer = build_tokenizer(["how many cups ? one two three four five"])
    sizes = TinyModel(hidden_size=16, heads=2, layers=1, intermediate_size=16)
    counting = build_model(sizes, tokenizer, 0)  # says the token three after the last one
    counting.config.tie_word_embeddings = False
    embeddings = counting.model.embed_tokens.weight.data.mul_(50.0)
    counting.lm_head.weight = torch.nn.Parameter(embeddings.roll(3, 0))
    save_model(counting, tokenizer, tmp_path / "model")
    said = "".join(Talk(str(tmp_path / "model"), max_tokens=4).say("how many cups ?"))
    first, *rest = tokenizer.encode(said, add_special_tokens=False)
    assert len(rest) == 3
    GenerationConfig(eos_token_id=[first, 5]).save_pretrained(tmp_path / "model")
    short = "".join(Talk(str(tmp_path / "model"), max_tokens=4).say("how many cups ?"))
    assert tokenizer.encode(short, add_special_tokens=False) == [first]
    config = evaluation_config(str(tmp_path / "model"), "arithmetic", [], "transformers")
    model = load_model(LanguageOptions(model=str(tmp_path / "model")), tokenizer)
    world = text_world(config, config.task, make_conversation(config.task, tokenizer, model), None)
    assert world.sampling.stop_tokens == (tokenizer.eos_token_id, first, 5)


def test_chat_sets_the_variables_of_the_template_that_training_set(tmp_path, capsys):
    from gaitway_language.model import build_model
    from gaitway_language.options import TinyModel
    from gaitway_language.saving import save_model
    from gaitway_language.tokenizer import build_tokenizer

    from gaitway.domains.texts.talk import Talk

    tokenizer = build_tokenizer(["one two"])
    tokenizer.chat_template = tokenizer.chat_template.replace("{{", "{{ 'two two ' if doubly else '' }}{{", 1)
    sizes = TinyModel(hidden_size=16, heads=2, layers=1, intermediate_size=16, max_positions=64)
    save_model(build_model(sizes, tokenizer, 0), tokenizer, tmp_path / "model")
    rows, run = tmp_path / "rows.jsonl", tmp_path / "run"
    rows.write_text('{"prompt": "one", "completion": "two"}\n' * 8)
    words = ["--agent", "sft", "--model", str(tmp_path / "model"), "--out", str(run), "--quiet", "total_steps=4"]
    words += ["agent.batch_size=4", "task.max_completion_tokens=8", "task.max_prompt_tokens=16"]
    words += ["evaluation_episodes=1"]
    assert ours(["train", rows, *words, "task.chat_template_kwargs={doubly: true}"], capsys)[0] == 0
    prompts = [Talk(str(source)).conversation.prompt("one") for source in (run, tmp_path / "model")]
    doubled, plain = map(tokenizer.decode, prompts)
    assert (doubled.count("two"), plain.count("two")) == (2, 0)


def test_export_is_a_plain_folder(grpo, tmp_path, capsys):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from gaitway.domains.texts.models import language_run, load_run

    folder = tmp_path / "model"
    assert ours(["export", grpo, "--out", folder], capsys)[0] == 0
    loaded = load_run(language_run(grpo))
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)
    messages = [{"role": "user", "content": "Tom has 3 cups . Tom finds 4 . how many cups ?"}]
    tokens = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    expected = loaded.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    assert tokens["input_ids"][0].tolist() == expected
    with torch.no_grad():
        logits = model(**tokens).logits
        torch.testing.assert_close(logits, loaded.model(tokens["input_ids"]).logits)  # by other kernels of attention
    code, _, err = ours(["export", grpo, "--out", folder], capsys)
    assert code == 2 and "not an empty folder" in err


def test_what_was_exported_can_be_evaluated_and_trained_on(grpo, tmp_path, capsys):
    folder = tmp_path / "model"
    assert ours(["export", grpo, "--out", folder], capsys)[0] == 0
    settings = [*PROBLEMS[:2], "--out", tmp_path]
    assert ours(["evaluate", folder, "--task", "arithmetic", "--problems", "4", *settings], capsys)[0] == 0
    run = train("arithmetic", "--agent", "sft", "--model", folder, *SFT[len(MODEL) :], out=tmp_path / "run")
    assert not (run / "start").exists()  # the user's folder is where it is


def test_a_report_tells_the_story(sft, grpo, tmp_path, capsys):
    for run in (sft, grpo):
        assert ours(["evaluate", run, "--samples", "2"], capsys)[0] == 0
    code, out, _ = ours(["report", sft, grpo, "--html", tmp_path / "report.html"], capsys)
    assert code == 0 and "arithmetic: sft" in out
    page = Page((tmp_path / "report.html").read_text("utf-8"))
    assert not page.open
    assert all(word in page.text for word in ("sft", "grpo", "greedy accuracy", "pass@2", "To repeat this"))
    assert not [link for link in page.links if link.startswith("http")]


@pytest.mark.parametrize("agent", ["dr-grpo", "dapo", "gspo", "cispo", "rloo", "online-dpo", "ppo", "reinforce++"])
def test_every_agent_trains(sft, tmp_path, agent):
    groups = [] if agent not in ("ppo", "reinforce++") else ["agent.group_size=1"]
    settings = [*RL, *groups, "agent.optimizer.minibatches=1", "total_steps=16", "evaluation_episodes=0"]
    run = train("arithmetic", "--agent", agent, "--model", sft, *settings, out=tmp_path / agent)
    assert RunFolder.open(run).record["status"] == "finished"


@pytest.mark.parametrize("agent", ["dpo", "ipo", "kto", "simpo"])
def test_preferences_of_a_file(pairs, judge, tmp_path, agent):
    settings = ["--model", "tiny", *MODEL, *DATA]
    run = train(pairs, "--agent", agent, *settings, out=tmp_path / agent)
    rows = read_rows(run / "evaluations.jsonl")
    assert 0.0 <= rows[-1]["measures"]["pair accuracy"]["value"] <= 1.0
    assert (run / "answers").is_dir()


def test_a_reward_model_judges_pairs_and_teaches_ppo(pairs, judge, tmp_path, capsys):
    assert "pair accuracy" in read_rows(judge / "evaluations.jsonl")[-1]["measures"]
    code, out, _ = ours(["evaluate", judge], capsys)
    assert code == 0 and "pair accuracy" in out
    start = train(pairs, "--agent", "simpo", "--model", "tiny", *MODEL, *DATA, "evaluation_episodes=0",
                  "task.max_prompt_tokens=32", "task.max_completion_tokens=32", out=tmp_path / "start")  # fmt: skip
    settings = [*FLOAT, "agent.prompts_per_step=8", "agent.optimizer.minibatches=1", "total_steps=16"]
    settings += ["evaluation_episodes=2", "task.max_prompt_tokens=32", "task.max_completion_tokens=16"]
    run = train(pairs, "--agent", "ppo", "--model", start, "--reward-model", judge, *settings, out=tmp_path / "ppo")
    assert "rollout/reward/reward_model" in read_rows(run / "metrics.jsonl")[-1]
    folder = tmp_path / "model"
    assert ours(["export", judge, "--out", folder], capsys)[0] == 0
    assert json.loads((folder / "config.json").read_text())["architectures"] == ["LlamaForSequenceClassification"]


def test_adapters_alone_are_in_checkpoints(sft, tmp_path, capsys):
    run = train("arithmetic", "--agent", "grpo", "--model", sft, "--lora", *RL, "total_steps=32", out=tmp_path / "lora")
    state = RunFolder.open(run).load_checkpoint()[0]["trainer"]["policy"]
    assert state and all("lora" in name for name in state)
    assert ours(["evaluate", run, "--problems", "2"], capsys)[0] == 0
    assert ours(["export", run, "--out", tmp_path / "model"], capsys)[0] == 0
    assert not list((tmp_path / "model").glob("adapter*"))


@pytest.mark.slow
def test_sampling_ahead_in_another_process(sft, tmp_path):
    options = ["language.staleness=1", "total_steps=48", "evaluation_episodes=2"]
    run = train("arithmetic", "--agent", "grpo", "--model", sft, *RL, *options, out=tmp_path / "ahead")
    assert [row["rollout/staleness"] for row in read_rows(run / "metrics.jsonl")] == [0.0, 1.0, 1.0]


@pytest.mark.slow
def test_answers_finished_under_newer_weights(sft, tmp_path):
    options = ["language.staleness=1", "language.max_staleness=2", "total_steps=64", "evaluation_episodes=2"]
    decoupled = ["agent.behaviour=trainer", "agent.correction={level: token}"]
    run = train("arithmetic", "--agent", "grpo", "--model", sft, *RL, *options, *decoupled, out=tmp_path / "partial")
    rows = read_rows(run / "metrics.jsonl")
    assert [row["rollout/staleness"] for row in rows] == [0.0, 1.0, 2.0, 2.0]
    assert all(1.0 < row["rollout/staleness_mean"] < 2.0 for row in rows[2:])
    assert [row["rollout/mixed_versions"] > 0.0 for row in rows] == [False, False, True, True]


def test_partial_rollouts_that_cannot_be(sft, tmp_path, capsys):
    train = ["train", "arithmetic", "--agent", "grpo", "--model", sft, "--out", tmp_path / "run"]
    code, _, said = ours([*train, "language.staleness=2", "language.max_staleness=1"], capsys)
    assert code == 2 and "max_staleness 1 below staleness 2" in said and "raise max_staleness" in said
    dialogue = ["task.tools=[calculator]", "task.max_turns=3", "language.max_staleness=1"]
    code, _, said = ours([*train, *dialogue], capsys)
    assert code == 2 and "whose answers get replies" in said and "leave language.max_staleness out" in said


def test_a_reward_of_the_users_own(sft, tmp_path, monkeypatch):
    (tmp_path / "taste.py").write_text(
        "def short(prompts, completions, **columns):\n    return [-len(c) for c in completions]\n"
    )
    monkeypatch.chdir(tmp_path)
    run = train("arithmetic", "--agent", "grpo", "--model", sft, "--reward-model", "taste:short", *RL, "total_steps=16",
                "evaluation_episodes=0", out=tmp_path / "run")  # fmt: skip
    row = read_rows(run / "metrics.jsonl")[-1]
    assert row["rollout/reward"] == pytest.approx(row["rollout/reward/reward_model"])
    assert "rollout/reward/correctness" in row  # measured, and not learnt from
    assert load(run / "config.yaml").task.rewards["correctness"].weight == 0.0


def test_help_of_the_commands_loads_nothing_heavy():
    code = "import sys; from gaitway.cli import parse; parse(['evaluate', 'x']); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


PLAYED = [setting for setting in RL if not setting.startswith("task.")]
PARROT = '''
from gaitway_tasks.language.env import EnvironmentSource, Turn
from gaitway_tasks.language.spec import LanguageTask


class Parrot:
    """Any answer that ends is worth a half, three times."""

    def reset(self, row):
        self.turns = 0
        return f"tom has {row['seed'] % 9} apples ."

    def step(self, answer):
        self.turns += 1
        return Turn("and now ?" if self.turns < 3 else None, reward=0.5)


PARROT = LanguageTask(
    name="parrot", source=EnvironmentSource(environment=Parrot, test=8), max_turns=3, max_prompt_tokens=32,
    max_completion_tokens=32,
)
'''


def test_an_environment_of_a_users_own_is_a_task(sft, tmp_path, monkeypatch, capsys):
    (tmp_path / "parrot.py").write_text(PARROT)
    monkeypatch.chdir(tmp_path)
    run = train("parrot:PARROT", "--agent", "grpo", "--model", sft, "--trust", "parrot", *PLAYED, out=tmp_path / "run")
    rows = read_rows(run / "metrics.jsonl")
    assert all(row["rollout/reward/environment"] == pytest.approx(row["rollout/reward"]) for row in rows)
    assert "environment: parrot:Parrot" in (run / "config.yaml").read_text()
    code, out, _ = ours(["evaluate", run, "--trust", "parrot", "--problems", "4"], capsys)
    assert code == 0 and "environment" in out


GKD = [*MODEL, *FLOAT, *PROBLEMS, "agent.prompts_per_step=16", "agent.on_policy=0.25", "total_steps=640"]
GKD += [
    "agent.optimizer.learning_rate=5e-3",
    "agent.beta=0",
    "language.tiny.intermediate_size=32",
    "checkpoint_interval=1",
]


def test_a_student_learns_from_a_teachers_run(sft, tmp_path, capsys):
    """The student is a smaller model from nothing, of the same tokens."""
    words = ["arithmetic", "--agent", "gkd", "--teacher", sft, *GKD]
    run = train(*words, out=tmp_path / "gkd")
    rows = read_rows(run / "metrics.jsonl")
    assert rows[-1]["steps"] == 640 and rows[-1]["learn/loss"] < 0.7 * rows[0]["learn/loss"]
    assert load(run / "config.yaml").language.teacher == str(sft)
    longer = [*words, "--out", tmp_path / "gkd", "--resume", "total_steps=656", "--quiet"]
    assert ours(["train", *longer], capsys)[0] == 0
    assert read_rows(run / "metrics.jsonl")[-1]["steps"] == 656


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["arithmetic", "--agent", "gkd"], r"'gkd' with --teacher ''"),
        (["arithmetic", "--agent", "grpo", "--teacher", "x"], r"'grpo' with --teacher 'x'"),
        (["cartpole", "--teacher", "x"], r"--teacher: cartpole is no robot's task or language task"),
        (["{prompts}", "--agent", "gkd", "--teacher", "x", "--model", "tiny", "agent.on_policy=0.5"],
         "have no 'completion'"),
        (["{prompts}", "--agent", "gkd", "--teacher", "{sft}", "--model", "tiny", "task.max_completion_tokens=32"],
         "other tokens than tiny"),
    ],
)  # fmt: skip
def test_a_teacher_that_does_not_fit_is_refused(words, said, sft, tmp_path, capsys):
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"prompt": "one two"}\n' * 20)
    filled = [word.format(prompts=prompts, sft=sft) for word in words]
    code, _, error = ours(["train", *filled, "--out", tmp_path / "run", "--quiet"], capsys)
    assert code == 2 and re.search(said, error), error
