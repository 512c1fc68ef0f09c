"""Modules of the reference, whose names are public: those that a package of your own imports. A test reads them too."""

from __future__ import annotations

from collections.abc import Iterator

GROUPS = {
    "Robots and tasks": {
        "gaitway_tasks.robots": "robots as data, and what is written beside them",
        "gaitway_tasks.spec": "a task as data: observations, rewards, terminations, events",
        "gaitway_tasks.registry": "tasks and presets by name",
        "gaitway_tasks.velocity": "tasks that track a velocity, and their presets",
        "gaitway_tasks.commands": "what an operator asks for",
        "gaitway_tasks.ground": "what a robot stands on",
        "gaitway_tasks.terrain": "rough ground",
        "gaitway_tasks.mdp.observations": "terms of observations",
        "gaitway_tasks.mdp.rewards": "terms of rewards",
        "gaitway_tasks.mdp.terminations": "what ends an episode",
        "gaitway_tasks.mdp.events": "randomisation and pushes",
    },
    "From Python": {
        "gaitway.api": "what `import gaitway` offers: train, export, validate, play and more",
        "gaitway.vectors": "environments of a task for learners of other libraries",
        "gaitway.handles": "runs, policies, bundles and films",
        "gaitway.callback": "code of yours that runs during a training",
    },
    "Worlds": {
        "gaitway_mujoco": "robots in batched MuJoCo",
        "gaitway_gymnasium": "environments of Gymnasium and EnvPool",
        "gaitway_ale": "Atari games",
        "gaitway_isaaclab": "tasks inside Isaac Lab",
    },
    "Agents": {
        "gaitway_agents.interfaces": "the contracts between agents, worlds and trainers",
        "gaitway_agents.vector.adapt": "vector environments for agents",
    },
    "Texts": {
        "gaitway_tasks.language.spec": "prompts, rewards and tasks of texts",
        "gaitway_tasks.language.tools": "functions that a model may call",
        "gaitway_tasks.language.env": "environments that answer in text",
    },
    "Judging": {
        "gaitway_sim2real.trial": "validation of a bundle",
        "gaitway_sim2real.trial.suite": "suites of scenarios, your own too",
        "gaitway_sim2real.diagnose": "why a policy moves differently in two simulators",
        "gaitway.compare.comparison": "scores of runs beside each other",
        "gaitway.runs.folder": "run folders",
    },
    "On the robot": {
        "gaitway_onboard.interface": "signals and commands of any robot",
        "gaitway_onboard.bundle.policy": "a bundle's policy, one step at a time",
        "gaitway_onboard.bundle.contract": "what a bundle says of itself",
        "gaitway_onboard.bundle.parts": "parts of what it says",
        "gaitway_onboard.bundle.verdict": "what validation said of it",
        "gaitway_onboard.control.loop": "the loop that drives a robot",
        "gaitway_onboard.transports.open": "transports of robots, by name",
        "gaitway_onboard.estimation.estimators": "estimators, by name",
        "gaitway_onboard.flight.reading": "flight recordings",
        "gaitway_files.hardware": "facts about a robot that its transport needs",
    },
}


def modules() -> Iterator[str]:
    """Every module of the reference."""
    for group in GROUPS.values():
        yield from group


def index() -> str:
    """First page of the reference."""
    lines = [
        "# Reference",
        "",
        "Names that a package of your own may import, from their docstrings. All others may change without notice.",
    ]
    for group, found in GROUPS.items():
        lines += ["", f"## {group}", "", "| module | holds |", "|---|---|"]
        lines += [f"| [`{module}`]({module}.md) | {holds} |" for module, holds in found.items()]
    return "\n".join(lines) + "\n"


def page(module: str) -> str:
    """Page of a module, filled in by mkdocstrings; a search finds pages of prose first."""
    return f"---\nsearch: {{boost: 0.3}}\n---\n# {module}\n\n::: {module}\n"
