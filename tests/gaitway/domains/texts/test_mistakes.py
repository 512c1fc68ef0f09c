"""Mistakes are named with their fix, before a model is loaded or a folder made."""

import json

import pytest
from language_runs import MODEL, PROBLEMS, ours

ARITHMETIC = ["train", "arithmetic", *PROBLEMS]
NOWHERE = ["--server", "http://127.0.0.1:1"]
ROW = {"prompt": "what is 1 + 1 ?", "answer": "2"}


def written(path, rows):
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def refused(argv, out, capsys):
    """Message of the command's refusal; no files are left behind."""
    code, _, err = ours([*argv, "--out", out], capsys)
    assert code == 2, err
    assert not out.exists()
    assert len(err.strip().splitlines()) == 1
    return err


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["train", "gsm8k", "--agent", "dpo", "--model", "tiny"], ["'chosen'", "use one of sft, grpo"]),
        (["train", "gsm8k", "--agent", "grpo"], ["needs a model", "--model"]),
        (["train", "cartpole", "--agent", "grpo"], ["'grpo' learns from texts", "ppo, a2c"]),
        (["train", "arithmetic", "--agent", "dqn"], ["'dqn' does not learn from texts", "sft, grpo"]),
        (["train", "velocity-flat-anymal-c", "--lora"], ["--lora", "no language task"]),
        (["train", "cartpole", "--model", "tiny", "--rollout", "vllm"], ["--model, --rollout"]),
        ([*ARITHMETIC, "--rollout", "vllm-server"], ["'vllm-server' needs an address"]),
        ([*ARITHMETIC, "--rollout", "vllm"], ["vllm", "pip install"]),
        ([*ARITHMETIC, "--rollout", "vllm-serve", *NOWHERE], ["127.0.0.1:1 does not answer", "vllm serve MODEL"]),
        ([*ARITHMETIC, "--rollout", "vllm-server", *NOWHERE], ["127.0.0.1:1 does not answer", "engines.serve --model"]),
        ([*ARITHMETIC, "language.sleep=true"], ["sleep", "only 'vllm'"]),
        ([*ARITHMETIC, "--model", "no/such/model"], ["no/such/model"]),
        ([*ARITHMETIC, "--reward-model", "nowhere"], ["--reward-model nowhere", "module:function"]),
        ([*ARITHMETIC, "--reward-model", "json:nothing"], ["json", "nothing"]),
        ([*ARITHMETIC, "num_envs=8"], ["num_envs=8", "agent.prompts_per_step"]),
        ([*ARITHMETIC, "agent.group_size=1"], ["group_size 1", "at least 2"]),
        ([*ARITHMETIC, "agent.optimizer.minibatches=7"], ["minibatches 7 does not divide"]),
        ([*ARITHMETIC, "language.temperature=0"], ["temperature 0", "positive"]),
        ([*ARITHMETIC, "language.tiny.max_positions=32"], ["max_positions=32", "raise that"]),
        ([*ARITHMETIC, "task.max_prompt_tokens=4"], ["row ", "task.max_prompt_tokens=4"]),
        ([*ARITHMETIC, "--agent", "sft", "task.max_completion_tokens=4"], ["row ", "task.max_completion_tokens=4"]),
        ([*ARITHMETIC, "task.rewards.correctness=null", "task.rewards.format=null"], ["--reward-model"]),
        ([*ARITHMETIC, "device=cuda:0"], ["device=cuda:0", "no GPU"]),
        (["train", "missing.jsonl", "--model", "tiny"], ["missing.jsonl", "no such file"]),
    ],
)
def test_mistakes_of_the_command_line(argv, told, tmp_path, capsys):
    err = refused(argv, tmp_path / "run", capsys)
    assert all(word in err for word in told), err


@pytest.mark.parametrize(
    ("rows", "agent", "told"),
    [
        ([{"prompt": "say one"}] * 20, "grpo", ["--reward-model"]),
        ([{"prompt": "say one"}] * 20, "sft", ["no 'completion'"]),
        ([ROW] * 20, "reward-model", ["no 'chosen'", "grpo"]),
        ([*[ROW] * 20, {"prompt": "2 + 2", "answer": None}], "grpo", ["row 21", "'answer'"]),
        ([*[ROW] * 20, "{broken"], "grpo", ["row 21", "JSON"]),
        ([*[ROW] * 20, {"prompt": "", "answer": "3"}], "grpo", ["row 21", "prompt"]),
    ],
)
def test_mistakes_in_a_file(rows, agent, told, tmp_path, capsys):
    file = written(tmp_path / "rows.jsonl", rows)
    err = refused(["train", file, "--agent", agent, "--model", "tiny", *MODEL], tmp_path / "run", capsys)
    assert all(word in err for word in told), err


def test_dialogues_that_a_model_of_a_folder_could_not_see_are_refused(tmp_path, capsys):
    from gaitway_language.model import build_model
    from gaitway_language.options import TinyModel
    from gaitway_language.saving import save_model
    from gaitway_language.tokenizer import build_tokenizer

    tokenizer = build_tokenizer(["one two"])
    sizes = TinyModel(hidden_size=16, heads=2, layers=1, max_positions=300)
    save_model(build_model(sizes, tokenizer, 0), tokenizer, tmp_path / "model")
    settings = ["task.max_prompt_tokens=200", "task.max_completion_tokens=101", "task.tools=[calculator]"]
    argv = [*ARITHMETIC, "--model", tmp_path / "model", *settings, "task.max_turns=3"]
    err = refused(argv, tmp_path / "run", capsys)
    assert "task.max_completion_tokens = 301 is more than the 300 that" in err and str(tmp_path / "model") in err


def test_given_answers_need_no_room_but_their_own(tmp_path, capsys):
    from gaitway_language.model import build_model
    from gaitway_language.options import TinyModel
    from gaitway_language.saving import save_model
    from gaitway_language.tokenizer import build_tokenizer

    tokenizer = build_tokenizer(["what is 1 + 1 ? 2"])
    sizes = TinyModel(hidden_size=16, heads=2, layers=1, max_positions=40)
    save_model(build_model(sizes, tokenizer, 0), tokenizer, tmp_path / "model")
    rows = [{"prompt": "1 + 1", "completion": "2"}] * 20
    settings = ["--agent", "sft", "--model", tmp_path / "model", "total_steps=20", "--quiet", "evaluation_episodes=0"]
    settings += ["evaluation_interval=0"]
    short = ["train", written(tmp_path / "short.jsonl", rows), *settings, "--out", tmp_path / "run"]
    code, _, err = ours(short, capsys)
    assert code == 0, err
    rows.append({"prompt": "1 + 1", "completion": "2 " * 40})
    err = refused(["train", written(tmp_path / "long.jsonl", rows), *settings], tmp_path / "long", capsys)
    assert "its prompt and completion have 47 tokens, more than the 40 that the model sees" in err


def test_bad_rows_are_skipped_and_counted_only_if_asked_for(tmp_path, capsys):
    long = {"prompt": "what is 1 + 1 ? " * 30, "answer": "2"}
    file = written(tmp_path / "rows.jsonl", [*[ROW] * 20, "{broken", long])
    settings = ["--model", "tiny", *MODEL, "task.max_prompt_tokens=128", "task.max_completion_tokens=8"]
    settings += ["agent.prompts_per_step=2", "agent.group_size=2", "total_steps=4", "evaluation_episodes=2"]
    settings += ["evaluation_interval=0", "--quiet"]
    err = refused(["train", file, *settings], tmp_path / "run", capsys)
    assert "row 21" in err and "skip_bad_rows" in err
    code, out, err = ours(
        ["train", file, *settings, "task.source.skip_bad_rows=true", "--out", tmp_path / "run"], capsys
    )
    assert code == 0, err
    assert "2 skipped" in out


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["play", "RUN"], "language model"),
        (["validate", "RUN"], "arithmetic"),
        (["record", "RUN", "--out", "x.npz"], "language"),
        (["export", "RUN", "--out", "x", "--format", "bundle"], "--format huggingface"),
        (["export", "RUN", "--out", "x", "--estimate", "height_scan"], "--estimate is for bundles: leave it out"),
        (["evaluate", "RUN", "--samples", "-1"], "--samples -1"),
        (["evaluate", "RUN", "--task", "cartpole"], "cartpole"),
        (["evaluate", "no/such/model"], "--task"),
        (["chat", "RUN", "--temperature", "-1"], "--temperature"),
        (["train", "arithmetic", "--agent", "sft", "--resume", "--out", "RUN", "--lora"], "without --lora"),
        (["train", "arithmetic", "--agent", "grpo", "--resume", "--out", "RUN"], "--agent sft"),
    ],
)
def test_commands_know_which_runs_are_theirs(sft, argv, told, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code, _, err = ours([str(sft) if word == "RUN" else word for word in argv], capsys)
    assert code == 2, err
    assert told in err and len(err.strip().splitlines()) == 1


def test_a_run_of_a_game_is_no_language_model(tmp_path, capsys):
    assert ours(["train", "cartpole", "--out", tmp_path / "game", "--quiet", "total_steps=256", "num_envs=1",
                 "evaluation_episodes=0"], capsys)[0] == 0  # fmt: skip
    for argv in (["evaluate"], ["chat"], ["report", "--html", tmp_path / "x.html"]):
        code, _, err = ours([argv[0], tmp_path / "game", *argv[1:]], capsys)
        assert code == 2 and "not of a language model" in err
    code, _, err = ours(["train", "arithmetic", "--model", tmp_path / "game", "--out", tmp_path / "run"], capsys)
    assert code == 2 and "not of a language model" in err


def test_a_reward_that_fails_is_named_before_anything_starts(sft, tmp_path, monkeypatch, capsys):
    (tmp_path / "bad_reward.py").write_text("def broken(prompts, completions, **columns):\n    return [1 / 0]\n")
    monkeypatch.chdir(tmp_path)
    code, _, err = ours(
        [
            "train",
            "arithmetic",
            "--model",
            sft,
            "--reward-model",
            "bad_reward:broken",
            "--out",
            tmp_path / "run",
            *PROBLEMS,
        ],
        capsys,
    )
    assert code in (1, 2) and "reward_model" in err and "ZeroDivisionError" in err
    assert not (tmp_path / "run").exists()


def test_a_file_of_a_mixture_that_lacks_a_field_is_named(tmp_path, capsys):
    files = [
        written(tmp_path / "a.jsonl", [{**ROW, "completion": "2"}] * 20),
        written(tmp_path / "b.jsonl", [ROW] * 20),
    ]
    argv = ["train", ",".join(map(str, files)), "--agent", "sft", "--model", "tiny", *MODEL]
    err = refused(argv, tmp_path / "run", capsys)
    assert f"the rows of {files[1]} have no 'completion'" in err


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["arithmetic", "--agent", "sft"], ["agent 'sft'", "an agent that samples"]),
        (["descriptions"], ["rewards judge", "a reward correctness or code"]),
        (["digit-sums"], ["'level' or 'difficulty'", "task.source.fields"]),
    ],
)
def test_a_curriculum_needs_levels_and_right_answers(argv, told, tmp_path, capsys):
    err = refused(["train", *argv, "--model", "tiny", *MODEL, "task.curriculum=true"], tmp_path / "run", capsys)
    assert all(word in err for word in told), err


@pytest.mark.parametrize("student", ["tiny", "folder"])
def test_a_teacher_that_is_too_large_is_refused_before_it_is_loaded(student, tmp_path, monkeypatch, capsys):
    """The estimate reads the teacher's configuration: there are no weights to load."""
    from gaitway_language.model import build_model
    from gaitway_language.options import TinyModel
    from gaitway_language.saving import save_model
    from gaitway_language.tokenizer import build_tokenizer

    tokenizer = build_tokenizer(["one two"])
    for name in ("student", "teacher"):
        sizes = TinyModel(hidden_size=32, heads=2, layers=1, max_positions=1024)
        save_model(build_model(sizes, tokenizer, 0), tokenizer, tmp_path / name)
    for weights in (tmp_path / "teacher").glob("*.safetensors"):
        weights.unlink()
    config = tmp_path / "teacher" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "hidden_size": 2**17, "intermediate_size": 2**18}))
    model = "tiny" if student == "tiny" else tmp_path / "student"
    argv = ["train", "arithmetic", "--agent", "gkd", "--model", model, "--teacher", tmp_path / "teacher"]
    err = refused(argv, tmp_path / "run", capsys)
    assert "the training needs about" in err and "(teacher " in err and "teacher's activations" in err
