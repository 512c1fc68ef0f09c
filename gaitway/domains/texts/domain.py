"""Domain of language models: their tasks and training data."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gaitway_agents.registry import TEXTS, Algorithm

from ...errors import ConfigError, RunError
from ..domain import Domain
from ..request import Request

if TYPE_CHECKING:
    from gaitway_agents.trainer import Learner
    from gaitway_tasks.language.spec import LanguageTask

    from ...runs.folder import RunFolder
    from ...train_config import TrainConfig
    from ...training.evaluator import Evaluator


class Texts(Domain):
    """Tasks of :mod:`gaitway_tasks.language`, and files of texts."""

    kind = "a language task"
    unfit = "does not learn from texts"
    usual_agent = "grpo"
    settings = ("language",)
    formats = ("huggingface",)
    watched = "chat"
    teachers = "a run folder, a folder in Hugging Face's form or a hub id"
    reward_parts = ("rollout/reward/", "reward parts")
    shows_parts = True

    def names(self) -> Iterable[str]:
        from gaitway_tasks.language.tasks import language_task_names

        return language_task_names()

    def find(self, name: str, preset: str | None = None) -> LanguageTask | None:
        from gaitway_tasks.language.files import ENDINGS, is_file_name
        from gaitway_tasks.language.tasks import get_language_task, in_family
        from gaitway_tasks.registry import is_outside

        known = name in self.names() or in_family(name) or is_file_name(name)
        known = known or is_outside(name)  # a robot's task was found before
        if not known and Path(name).exists():
            kind = "a folder" if Path(name).is_dir() else "a file"
            raise ConfigError(f"{name} is {kind}, and no task: a file of rows ends in {ENDINGS}")
        return get_language_task(name) if known else None

    def facts(self) -> Iterable[tuple[str, Sequence[str], str]]:
        from gaitway_tasks.language.tasks import summary

        rows = [(name, (), summary(name)) for name in self.names()]
        files = "texts of your own, also .jsonl.gz, .json, .csv and .parquet: prompts, demonstrations or preferences"
        more = [
            ("text:NAME", (), "a Gymnasium environment in words, such as text:frozen-lake or text:taxi"),
            ("reasoning-gym:NAME", (), "problems of reasoning-gym with its own scores; pip install reasoning-gym"),
            ("verifiers:ID", (), "an installed taskset of verifiers 0.4 with its own rewards; pip install verifiers"),
        ]
        return [
            *rows,
            *more,
            ("FILE.jsonl", (), files),
            ("MODULE:OBJECT", (), "a language task of a module of your own"),
        ]

    def agents(self) -> Mapping[str, Algorithm]:
        return TEXTS

    def teacher_of(self, config: TrainConfig) -> str:
        return str(config.language.teacher)

    def learns_on_gpu(self, world: str) -> bool:
        return True

    def defaults(self, task: LanguageTask, request: Request) -> dict[str, Any]:
        from .settings import language_settings

        device = self.device(request.world, str(request.asked("device") or "auto"))
        return language_settings(task, request, device)

    def check(self, config: TrainConfig) -> None:
        super().check(config)
        if config.language.attention == "flash_attention_2":
            precision = config.agent.optimizer.precision
            if precision != "bfloat16":
                raise ConfigError(
                    f"language.attention='flash_attention_2' with agent.optimizer.precision={precision!r}: "
                    "flash attention computes in bfloat16 only; set that, or language.attention=sdpa"
                )
        if config.agent.optimizer.store == "fsdp":
            _check_in_parts(config)
        if config.processes != 1:
            raise ConfigError(f"processes={config.processes}: a language task learns in one process; use processes=1")
        if config.num_envs != 1:
            raise ConfigError(
                f"num_envs={config.num_envs}: a language task has no environments; "
                "agent.prompts_per_step, agent.group_size and agent.batch_size say how much is done at once"
            )

    def check_continued(self, config: TrainConfig, options: Mapping[str, Any], path: Path) -> Sequence[str]:
        from .settings import chosen_options

        for name, asked in chosen_options(options, lora=False).items():
            # The sizes of "tiny" are settings, not what the option says. Servers may be others each time.
            if name not in ("tiny", "server") and asked != (had := getattr(config.language, name)):
                raise RunError(f"{path} was started with --{name} {had}, not {asked}: choose another --out")
        if "lora" in options and config.language.lora is None:
            raise RunError(f"{path} was started without --lora: choose another --out")
        return [f"language.server={options['server']}"] if "server" in options else []

    def parameters(self, config: TrainConfig) -> dict[str, int]:
        if (tiny := config.language.tiny) is None:
            return {}
        layer = 4 * tiny.hidden_size**2 + 3 * tiny.hidden_size * tiny.intermediate_size
        return {"language.tiny": tiny.layers * layer + tiny.max_positions}

    def preflight(self, config: TrainConfig) -> TrainConfig:
        from ...training import memory
        from .preflight import preflight

        memory.check(config)
        return preflight(config)

    def check_together(self, config: TrainConfig, asked: str, remedy: str) -> None:
        options = config.language
        if options.staleness:
            raise ConfigError(
                f"{asked} with language.staleness={options.staleness}: a process that samples ahead belongs to one "
                f"that learns alone; use language.staleness=0, or {remedy}"
            )
        if options.rollout == "vllm" and not options.server:
            raise ConfigError(
                f"{asked} with --rollout {options.rollout}: each process needs its own engine: use --rollout vllm "
                f"--server own, --rollout transformers, or {remedy}"
            )

    def check_size(self, config: TrainConfig, count: int) -> None:
        servers = config.language.servers
        if servers and len(servers) != count:
            few = "1 process trains" if count == 1 else f"{count} processes train"
            raise ConfigError(
                f"language.server={config.language.server}: {few}, and each needs a server of its own: name {count}, "
                f"not {len(servers)}, with commas between them"
            )

    def start(self, config: TrainConfig) -> None:
        options = config.language
        if options.cluster:
            from gaitway_agents.core import distributed

            from ...on_ray import check_engines
            from .devices import find_device

            gpus = options.gpus_there(find_device(config.device).type == "cuda")
            check_engines(options.cluster, gpus=gpus, count=distributed.size())
        elif options.servers:
            from gaitway_agents.core import distributed
            from gaitway_language.engines.make import check_server

            check_server(options.of_process(distributed.rank()))

    def prepare(self, config: TrainConfig) -> None:
        import torch

        from ...runs.provenance import available_cores
        from .devices import find_device, let_memory_grow

        let_memory_grow(config.language.rollout)
        if (device := find_device(config.device)).index is not None:
            torch.cuda.set_device(device)
        beside = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
        torch.set_num_threads(config.num_threads or max(1, available_cores() // beside))

    def learner_along(self, config: TrainConfig, run: RunFolder | None) -> Learner:
        from .build import build_training

        if run is None:
            raise RunError("the run's folder is not on this machine: choose an --out that all nodes share")
        self.prepare(config)
        return build_training(config, run).trainer

    def build(self, config: TrainConfig, run: RunFolder) -> tuple[Learner, Evaluator]:
        from .build import build_training
        from .evaluator import TextEvaluator

        self.prepare(config)
        training = build_training(config, run)
        return training.trainer, TextEvaluator(config, run, training)


def _check_in_parts(config: TrainConfig) -> None:
    """Raise for what needs the weights in one piece, which agent.optimizer.store=fsdp has nowhere."""
    from gaitway_agents.language.config import PolicyGradientConfig

    agent, options = config.agent, config.language
    refused = {
        f"agent {config.algorithm}": not isinstance(agent, PolicyGradientConfig),
        "--lora": options.lora is not None,
        "agent.reference_interval": getattr(agent, "reference_interval", None) is not None,
        "language.staleness": bool(options.staleness),
        f"--server {options.server}": bool(options.server),
    }
    for name in (name for name, found in refused.items() if found):
        raise ConfigError(
            f"agent.optimizer.store='fsdp' with {name}: it needs the weights in one piece; use agent.optimizer."
            "store=sharded, or leave that out"
        )
