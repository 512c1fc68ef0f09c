"""Every environment of every extension against the one contract. A new world adds its factories here."""

import subprocess
import sys
from dataclasses import replace

import conformance
import pytest
from gaitway_mujoco import make_env
from gaitway_tasks.mdp import events
from gaitway_tasks.registry import get_task, task_names
from gaitway_tasks.spec import Event

EVERYTHING_RANDOM = {
    "gains": Event(
        func=events.randomize_actuator_gains,
        mode="startup",
        params={"stiffness_range": (0.8, 1.2), "damping_range": (0.8, 1.2)},
    ),
    "strength": Event(func=events.randomize_motor_strength, mode="startup", params={"strength_range": (0.9, 1.1)}),
    "hardness": Event(func=events.randomize_ground_impedance, mode="startup", params={"impedance_range": (0.9, 0.98)}),
    "offset": Event(func=events.randomize_joint_offset, mode="reset", params={"offset_range": (-0.05, 0.05)}),
    "delay": Event(func=events.randomize_action_delay, mode="reset", params={"delay_range": (0.0, 0.04)}),
}


def mujoco(name, preset=None, *, random_everything=False):
    """Factory of a task's MuJoCo environments; its own randomisation of mass, friction, pushes stays on."""

    def make(num_envs, *, seed=0, num_threads=1, endless=False, episode_length=None):
        task = get_task(name, preset)
        (told, command), *_ = task.commands.items()
        command = replace(command, resampling_time_range=(0.06, 0.2))
        task = task.replace(
            observations={k: replace(group, enable_corruption=False) for k, group in task.observations.items()},
            commands={told: command},
            timing=replace(task.timing, episode_length_s=(episode_length or 1000) * task.timing.step_dt),
        )
        if endless or episode_length == QUIET:
            # Chance would strike the twin, which is not reset, at other moments.
            command = replace(command, resampling_time_range=(1e9, 1e9))
            fixed = {k: e for k, e in task.events.items() if e.mode != "interval"}
            task = task.replace(commands={told: command}, events=fixed)
        if endless:
            task = task.replace(terminations={})
        if random_everything:
            task = task.replace(events={**task.events, **EVERYTHING_RANDOM})
        return make_env(task, num_envs, seed=seed, num_threads=num_threads)

    # A humanoid falls by itself; thrown about, its 300 N m drives would tear the simulation apart now and then.
    make.violence = 4.0 if len(get_task(name).robot.foot_names) == 4 else 2.0
    return make


QUIET = 40  # length of the episodes that are compared with an endless twin's
FLAT = [name for name in task_names() if "-flat-" in name and not name.endswith("-blind")]
"""What blind tasks leave out is in the last two below."""
FACTORIES = {name: mujoco(name) for name in FLAT} | {
    "tiles": mujoco("velocity-rough-anymal-c"),
    "cpu-preset": mujoco("velocity-flat-anymal-c-blind", "cpu"),
    "everything-random": mujoco("velocity-flat-anymal-c-blind", random_everything=True),
}
OTHERS = {name: mujoco(name) for name in ("track-go2", "reach-franka", "lift-franka")}
"""Tasks of other families: a motion, and an arm without and with an object."""


KINDS = ("velocity-flat-anymal-c", "velocity-flat-g1", "tiles", "cpu-preset", "everything-random")
"""Of each kind one: between robots of a kind only the task differs, not what steps it."""
each_kind = pytest.mark.parametrize(
    "make", [*map(FACTORIES.__getitem__, KINDS), *OTHERS.values()], ids=[*KINDS, *OTHERS]
)


@pytest.mark.parametrize("name", [*FACTORIES, *OTHERS])
def test_shapes_and_endings(name):
    """And the whole state of each robot, which its twin is given in every step."""
    make = (FACTORIES | OTHERS)[name]
    conformance.check_shapes_and_types(make)
    conformance.check_endings(make, violent=make.violence, steps=100, episode_length=QUIET, both=name not in OTHERS)


@each_kind
@pytest.mark.parametrize(
    "check",
    [
        conformance.check_results_are_not_overwritten,
        conformance.check_bad_use_is_refused,
        conformance.check_time_limit_is_exact,
        conformance.check_seeds,
        conformance.check_state_round_trip,
        conformance.check_threads_do_not_matter,
    ],
    ids=lambda check: check.__name__,
)
def test_it_keeps_the_contract(check, make):
    check(make)


@each_kind
def test_final_observations_and_accounts_are_true(make):
    env = make(8, episode_length=QUIET)
    group = env.managers.observations["policy"]
    names = list(group.dims)
    end = sum(group.dims[name] for name in names[: names.index("actions") + 1]) * group.group.history_length
    newest = slice(end - group.dims["actions"], end)

    def follows(before, action, after):
        """The last action is observed, and none before the first."""
        return (after["policy"][:, newest] == action).all(1)

    script = conformance.actions(env, 3 * QUIET, scale=make.violence)
    assert conformance.check_transitions(env, follows, script) >= 16


def test_gymnasium_makes_it_by_name_alone():
    """In a fresh interpreter that imports nothing of ours."""
    code = """
import gymnasium, torch
env = gymnasium.make_vec("Gaitway/Velocity-Flat-Anymal-C-v0", num_envs=64)
observation, _ = env.reset(seed=0)
assert tuple(observation["policy"].shape) == (64, 48) == env.observation_space["policy"].shape
observation, reward, *_ = env.step(torch.zeros(64, 12))
assert reward.shape == (64,) and torch.isfinite(observation["policy"]).all()
assert env.spec.id == "Gaitway/Velocity-Flat-Anymal-C-v0"
env.close()
env = gymnasium.make_vec("Gaitway/Velocity-Flat-Anymal-C-Blind-v0", num_envs=2, seed=1, num_threads=1)
assert set(env.reset()[0]) == {"policy", "critic"}
env = gymnasium.make_vec("Gaitway/Velocity-Flat-Anymal-C-v0", num_envs=8, preset="cpu", num_threads=1)
env.reset(seed=0)
delay = torch.from_numpy(env.unwrapped.world.batch.expand("actuator_delay"))
assert 0.0 < float(delay.max()) <= 0.02
env.step(torch.zeros(8, 12))
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
