"""``gaitway serve``: a model that is served until it is stopped, and what is refused."""

import re
import signal
import subprocess
import sys

import pytest
from gaitway_language.saving import save_model
from served_model import Wire, tiny_base

from gaitway.cli import main


@pytest.mark.slow
def test_a_model_is_served_until_it_is_stopped(tmp_path):
    base, run = tiny_base(), tmp_path / "model"
    run.mkdir()
    save_model(base.model, base.tokenizer, run)
    command = [sys.executable, "-m", "gaitway", "serve", str(run), "--port", "0", "--out", str(tmp_path / "out")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            lines = [process.stdout.readline() for _ in range(3)]
            assert f"base_model={str(run)!r}" in lines[0] and "api_key='tml-local'" in lines[1]
            (address,) = re.findall(r"http://127\.0\.0\.1:\d+", lines[1])
            wire = Wire(address)
            (model,) = wire.ask("get_server_capabilities", method="GET")[1]["supported_models"]
            assert model["model_name"] == str(run)
            client = wire.model(wire.session(), base_model=str(run))
            folder = wire.ask("get_info", {"model_id": client})[1]["model_data"]["tokenizer_id"]
            from transformers import AutoTokenizer

            assert AutoTokenizer.from_pretrained(folder).encode("2 + 3")
            path = wire.wait("save_weights", {"model_id": client, "seq_id": 1, "path": "one"})["path"]
            assert (tmp_path / "out" / client / "weights" / "one" / "adapter_model.safetensors").exists()
            assert path == f"tinker://{client}/weights/one"
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(20)
    assert code == 0


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["/nowhere/at/all"], "/nowhere/at/all"),
        (["nothing", "--host", "0.0.0.0"], "GAITWAY_SERVE_KEY"),
        (["nothing", "--port", "65536"], "--port 65536"),
        (["nothing", "--max-models", "0"], "--max-models 0"),
        (["nothing", "--precision", "float16"], "float16"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(words, named, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("GAITWAY_SERVE_KEY", raising=False)
    assert main(["serve", *words, "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert named in said and said.count("\n") == 1
