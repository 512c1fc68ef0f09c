"""What a reward adds to demonstrations: the table of several ``make reason``, and one control more.

    for seed in 0 1 2; do make reason SEED=$seed REASON=runs/reason-$seed; done
    python benchmarks/language.py runs/reason-*

Every row is a run's accuracy on 500 held-out problems: the likeliest answer, an answer sampled at temperature 1, the
vote over all samples, and whether one of them is right. CPU seconds are those that the run recorded, its evaluations
included; a round of expert iteration also samples, which is not in them.

The control more is patience: the SFT model of ``walks``, whose likeliest token is taken, but which cannot close its
thought before it has written ``!``. It knows of the answer's form what only the task's author knows, so it is no rival
but a probe: it tells whether the model could already walk, had it not learnt to give up.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

SHARES = ("greedy accuracy", "sampled accuracy", "majority@64", "pass@64")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER", help="folders of make reason")
    options = parser.parse_args()
    print(f"| problems, folder, run | {' | '.join(SHARES)} | tokens | CPU |\n|---{'|---' * (len(SHARES) + 2)}|")
    for folder in options.folders:
        for task in sorted(path for path in folder.iterdir() if (path / "sft/run.json").exists()):
            table(folder.name, task)


def table(name: str, task: Path) -> None:
    """Rows of every evaluation of every run on a task."""
    for run in sorted(task.glob("*/run.json"), key=lambda path: path.stat().st_mtime):
        spent = json.loads(run.read_text("utf-8"))["cpu_time_s"]
        for evaluation in sorted((run.parent / "evaluations").glob("*.json")):
            measures = json.loads(evaluation.read_text("utf-8"))["measures"]
            print(f"| {evaluation.stem}, {name}, {run.parent.name} | {said(measures)} | {spent:.0f} s |", flush=True)
    if task.name == "walks":
        for moves in ((1, 6), (7, 12)):
            share = patient(task / "sft", moves)
            print(f"| walks of {moves[0]} to {moves[1]}, {name}, sft with patience | {100 * share:.1f} % | | | | | |")


def said(measures: dict[str, Any]) -> str:
    shares = [f"{100 * measures[name]['value']:.1f} %" if name in measures else "" for name in SHARES]
    return " | ".join([*shares, f"{measures['greedy length']['value']:.1f}"])


def patient(run: Path, moves: tuple[int, int], problems: int = 500) -> float:
    """Accuracy of a model of ``walks`` that may not end its thought before it has arrived."""
    import torch
    from gaitway_tasks.language.score import score

    from gaitway.domains.texts.data import make_conversation
    from gaitway.domains.texts.evaluate_source import evaluation_config
    from gaitway.domains.texts.models import load_writer

    asked = evaluation_config(str(run), None, [f"task.source.test_moves=[{moves[0]},{moves[1]}]"], "transformers").task
    loaded = load_writer(str(run), "cpu")
    conversation = make_conversation(asked, loaded.tokenizer, loaded.model)
    close, arrived = (conversation.encode(text)[0] for text in ("</think>", "!"))
    rows = asked.source.rows("test")[:problems]
    prompts = [conversation.prompt(row["prompt"]) for row in rows]
    assert len({len(prompt) for prompt in prompts}) == 1  # nothing to pad
    tokens, longest = torch.tensor(prompts), asked.max_completion_tokens
    start = tokens.shape[1]
    with torch.inference_mode():
        for _ in range(longest):
            logits = loaded.model(input_ids=tokens).logits[:, -1]
            going = ~(tokens[:, start:] == arrived).any(1)
            logits[going, close] = -torch.inf
            tokens = torch.cat([tokens, logits.argmax(1, keepdim=True)], 1)
    texts = []
    for answer in tokens[:, start:].tolist():
        end = next((i for i, token in enumerate(answer) if token in conversation.stops), len(answer))
        texts.append(conversation.decode(answer[:end]))
    rewards, _ = score(asked, [row["prompt"] for row in rows], texts, rows)
    return sum(rewards) / len(rows)


if __name__ == "__main__":
    main()
