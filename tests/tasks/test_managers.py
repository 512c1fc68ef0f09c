"""Managers: the observation pipeline, weighted rewards, terminations, event timers."""

from dataclasses import replace

import pytest
import torch
from gaitway_tasks.managers import (
    EventManager,
    Managers,
    ObservationManager,
    RewardManager,
    TermError,
    TerminationManager,
)
from gaitway_tasks.mdp import observations, rewards
from gaitway_tasks.robots import ANYMAL_C
from gaitway_tasks.spec import Event, ObservationGroup, ObservationTerm, Reward, Termination, UniformNoise
from gaitway_tasks.velocity import blind, velocity_flat
from tensor_world import TensorWorld, close

TASK = velocity_flat(ANYMAL_C)
COMMAND = ObservationTerm(func=observations.generated_commands, params={"command_name": "base_velocity"})
GRAVITY = ObservationTerm(func=observations.projected_gravity)


def manager(world, history_length=1, enable_corruption=False, **terms):
    group = ObservationGroup(terms=terms, history_length=history_length, enable_corruption=enable_corruption)
    return ObservationManager(group, world, torch.Generator().manual_seed(0))


def set_command(world, *values):
    world.commands["base_velocity"] = torch.tensor([values]).repeat(world.num_envs, 1)


def test_noise_then_clip_then_scale():
    world = TensorWorld(ANYMAL_C, 20_000)
    set_command(world, 1.0, -3.0, 0.5)
    noisy = replace(COMMAND, noise=UniformNoise(low=-0.1, high=0.3), clip=(-2.0, 1.1), scale=10.0)
    frame = manager(world, enable_corruption=True, command=noisy, gravity=GRAVITY).frame()
    assert frame.shape == (20_000, 6)
    # 1.0 + U(-0.1, 0.3), clipped at 1.1, times 10: half of the draws sit on the clip.
    assert frame[:, 0].min() >= 9.0 and frame[:, 0].max() == 11.0
    assert (frame[:, 0] == 11.0).float().mean().item() == pytest.approx(0.5, abs=0.02)
    close(frame[:, 1], [-20.0] * 20_000)  # clipped before it is scaled
    assert 4.0 <= frame[:, 2].min() < 4.01 and 7.99 < frame[:, 2].max() <= 8.0
    assert frame[:, 2].mean().item() == pytest.approx(6.0, abs=0.05)
    close(frame[:, 3:], [[0.0, 0.0, -1.0]] * 20_000)  # the term without noise has none


def test_no_corruption_no_noise():
    world = TensorWorld(ANYMAL_C, 4)
    noisy = replace(COMMAND, noise=UniformNoise(low=5.0, high=6.0))
    assert not manager(world, enable_corruption=False, command=noisy).frame().any()
    assert manager(world, enable_corruption=True, command=noisy).frame().min() >= 5.0


def test_noise_does_not_reach_the_world():
    world = TensorWorld(ANYMAL_C, 4)
    noisy = replace(COMMAND, noise=UniformNoise(low=5.0, high=6.0), scale=3.0)
    manager(world, enable_corruption=True, command=noisy).frame()
    assert not world.command("base_velocity").any()


def test_history_is_term_major_and_oldest_first():
    world = TensorWorld(ANYMAL_C, 2)
    observer = manager(world, history_length=3, command=COMMAND, gravity=GRAVITY)
    assert observer.dim == 18
    for step in (1.0, 2.0, 3.0, 4.0):
        set_command(world, step, step / 10, -step)
        out = observer.append(observer.frame(), torch.arange(2) if step == 1.0 else None)
    commands = [2.0, 0.2, -2.0, 3.0, 0.3, -3.0, 4.0, 0.4, -4.0]
    close(out, [commands + [0.0, 0.0, -1.0] * 3] * 2)


def test_reset_fills_the_history_of_the_reset_environments_only():
    world = TensorWorld(ANYMAL_C, 3)
    observer = manager(world, history_length=2, command=COMMAND)
    set_command(world, 1.0, 1.0, 1.0)
    close(observer.append(observer.frame(), torch.arange(3)), torch.ones(3, 6))
    set_command(world, 2.0, 2.0, 2.0)
    out = observer.append(observer.frame(), torch.tensor([1]))
    close(out, [[1.0] * 3 + [2.0] * 3, [2.0] * 6, [1.0] * 3 + [2.0] * 3])


def test_peek_shows_what_append_would_give_and_stores_nothing():
    world = TensorWorld(ANYMAL_C, 3)
    observer = manager(world, history_length=3, command=COMMAND, gravity=GRAVITY)
    observer.append(observer.frame(), torch.arange(3))
    world.randomize(0)
    ids = torch.tensor([2, 0])
    frame = observer.frame()
    peeked = observer.peek(frame[ids], ids)
    assert torch.equal(peeked, observer.append(frame)[ids])
    single = manager(world, command=COMMAND)
    assert torch.equal(single.peek(frame[ids, :3], ids), frame[ids, :3])


def test_a_returned_observation_does_not_change_later():
    world = TensorWorld(ANYMAL_C, 1)
    for length in (1, 2):
        observer = manager(world, history_length=length, command=COMMAND)
        set_command(world, 1.0, 0.0, 0.0)
        first = observer.append(observer.frame(), torch.arange(1))
        copy = first.clone()
        set_command(world, 9.0, 9.0, 9.0)
        observer.append(observer.frame())
        assert torch.equal(first, copy)


def test_a_single_term_does_not_hand_out_the_world_s_own_tensor():
    world = TensorWorld(ANYMAL_C, 1)
    out = manager(world, gravity=GRAVITY).frame()
    out += 1.0
    close(world.robot.projected_gravity_b, [[0.0, 0.0, -1.0]])


def test_group_sizes_of_the_task():
    world = TensorWorld(ANYMAL_C, 2)
    sizes = {}
    for name, task in (("full", TASK), ("blind", blind(TASK, history_length=5))):
        managers = Managers(task, world, torch.Generator())
        managers.build_observations()
        sizes[name] = {group: observer.dim for group, observer in managers.observations.items()}
    assert sizes == {"full": {"policy": 48}, "blind": {"policy": 5 * 45, "critic": 48}}


def test_rewards_are_weighted_per_second_and_zero_weights_are_not_evaluated():
    def explodes(world):
        raise AssertionError("a term of weight zero was evaluated")

    terms = {
        "speed": Reward(func=rewards.lin_vel_z_l2, weight=-2.0),
        "off": Reward(func=explodes, weight=0.0),
        "alive": Reward(func=rewards.is_alive, weight=1.0),
    }
    world = TensorWorld(ANYMAL_C, 2, step_dt=0.05)
    manager = RewardManager(TASK.replace(rewards=terms), world)
    assert manager.names == ["speed", "alive"]
    world.robot.root_lin_vel_b[:, 2] = torch.tensor([0.5, 2.0])
    close(manager.compute(), [(1.0 - 0.5) * 0.05, (1.0 - 8.0) * 0.05])
    world.robot.root_lin_vel_b[:, 2] = 0.0
    close(manager.compute(), [0.05, 0.05])
    # Means per second of a full episode, over the environments that ended.
    means = manager.reset(torch.tensor([1]), 20.0)
    assert means == pytest.approx({"speed": -8.0 * 0.05 / 20, "alive": 2 * 0.05 / 20})
    assert manager.reset(torch.tensor([1]), 20.0) == {"speed": 0.0, "alive": 0.0}
    assert manager.reset(torch.tensor([0]), 20.0) == pytest.approx({"speed": -0.5 * 0.05 / 20, "alive": 0.1 / 20})


def test_a_task_whose_rewards_are_all_off():
    world = TensorWorld(ANYMAL_C, 3)
    manager = RewardManager(TASK.replace(rewards={"off": Reward(func=rewards.is_alive, weight=0.0)}), world)
    close(manager.compute(), [0.0, 0.0, 0.0])
    assert manager.reset(torch.tensor([0]), 20.0) == {}


def test_terminated_and_truncated_never_overlap():
    rows = {
        "late": (torch.tensor([True, True, False, False]), True),
        "fell": (torch.tensor([True, False, True, False]), False),
        "bent": (torch.tensor([False, False, True, False]), False),
    }
    terms = {
        name: Termination(func=lambda world, value=value: value, time_out=time_out)
        for name, (value, time_out) in rows.items()
    }
    world = TensorWorld(ANYMAL_C, 4)
    terminated, truncated, values = TerminationManager(TASK.replace(terminations=terms), world).compute()
    close(terminated, [True, False, True, False])
    close(truncated, [False, True, False, False])
    assert {name: value.tolist() for name, value in values.items()} == {k: v.tolist() for k, (v, _) in rows.items()}


class Recorder:
    def __init__(self):
        self.calls = []

    def __call__(self, world, env_ids, **params):
        self.calls.append((env_ids.tolist(), params))


def test_modes_reach_their_events_only():
    recorders = {mode: Recorder() for mode in ("startup", "reset", "interval")}
    task = TASK.replace(
        events={
            mode: Event(
                func=recorder,
                mode=mode,
                params={"p": 1},
                interval_range_s=(1.0, 1.0) if mode == "interval" else None,
            )
            for mode, recorder in recorders.items()
        }
    )
    events = EventManager(task, TensorWorld(ANYMAL_C, 3))
    events.apply("startup", torch.arange(3))
    events.apply("reset", torch.tensor([2]))
    assert recorders["startup"].calls == [([0, 1, 2], {"p": 1})]
    assert recorders["reset"].calls == [([2], {"p": 1})]
    assert recorders["interval"].calls == []


def test_interval_events_fire_at_their_time_and_draw_a_new_one():
    recorder = Recorder()
    event = Event(func=recorder, mode="interval", interval_range_s=(0.5, 1.0))
    events = EventManager(TASK.replace(events={"push": event}), TensorWorld(ANYMAL_C, 50))
    gaps, last = [], [0.0] * 50
    for step in range(1, 501):
        recorder.calls.clear()
        events.step(0.02)
        for env_ids, _ in recorder.calls:
            for env in env_ids:
                gaps.append(step * 0.02 - last[env])
                last[env] = step * 0.02
    assert 0.5 - 1e-4 <= min(gaps) < 0.53 and 0.97 < max(gaps) <= 1.02
    assert sum(gaps) / len(gaps) == pytest.approx(0.76, abs=0.02)  # rounded up to whole steps


@pytest.mark.parametrize(("seconds", "steps"), [(0.1, 5), (0.14, 7), (0.3, 15)])
def test_an_interval_of_whole_steps_is_not_late_by_rounding(seconds, steps):
    recorder = Recorder()
    event = Event(func=recorder, mode="interval", interval_range_s=(seconds, seconds))
    events = EventManager(TASK.replace(events={"push": event}), TensorWorld(ANYMAL_C, 1))
    for _ in range(steps - 1):
        events.step(0.02)
    assert recorder.calls == []
    events.step(0.02)
    assert len(recorder.calls) == 1


def test_reset_restarts_the_timers_of_the_reset_environments():
    recorder = Recorder()
    event = Event(func=recorder, mode="interval", interval_range_s=(0.1, 0.1))
    events = EventManager(TASK.replace(events={"push": event}), TensorWorld(ANYMAL_C, 2))
    for _ in range(3):
        events.step(0.02)
    events.reset(torch.tensor([1]))
    fired = []
    for _ in range(5):
        recorder.calls.clear()
        events.step(0.02)
        fired += [ids for ids, _ in recorder.calls]
    assert fired == [[0], [1]]


def test_state_of_all_managers_round_trips():
    task = blind(TASK)

    def run(managers, steps):
        for _ in range(steps):
            managers.rewards.compute()
            for command in managers.commands.values():
                command.step(0.02)
            managers.events.step(0.02)
            out = {name: observer.append(observer.frame()) for name, observer in managers.observations.items()}
        return out

    def fresh():
        world = TensorWorld(ANYMAL_C, 4).randomize(1)
        managers = Managers(task, world, world.generator)
        world.commands["base_velocity"] = managers.commands["base_velocity"].command
        managers.commands["base_velocity"].resample(torch.arange(4))
        managers.build_observations()
        return managers

    first = fresh()
    run(first, 7)
    saved, random = first.state_dict(), first.generator.get_state()
    expected = run(first, 9)
    second = fresh()
    run(second, 3)
    second.load_state_dict(saved)
    second.generator.set_state(random)
    got = run(second, 9)
    assert all(torch.equal(got[name], expected[name]) for name in expected)
    before, after = first.state_dict(), second.state_dict()
    assert torch.equal(before["episode_sums"], after["episode_sums"])
    assert all(torch.equal(before["timers"][k], after["timers"][k]) for k in before["timers"])


def divides(world, by):
    return torch.ones(world.num_envs) * (1 / by)


def forgets_its_shape(world):
    return torch.ones(world.num_envs, 1)


@pytest.mark.parametrize(
    ("func", "params", "reason"),
    [
        (
            divides,
            {"by": 0},
            r"'mine' .*:divides\) failed: ZeroDivisionError: .*test_managers.py, line \d+: return .*/ by",
        ),
        (forgets_its_shape, {}, r"'mine' .*returned shape \(3, 1\), in .*test_managers.py, line \d+: .*shape \(3,\)"),
    ],
)
@pytest.mark.parametrize("kind", ["rewards", "terminations"])
def test_a_term_of_the_users_own_that_fails_is_named(kind, func, params, reason):
    world = TensorWorld(ANYMAL_C, 3)
    term = Reward(func=func, weight=1.0, params=params) if kind == "rewards" else Termination(func=func, params=params)
    manager = {"rewards": RewardManager, "terminations": TerminationManager}[kind]
    with pytest.raises(TermError, match=f"{kind.removesuffix('s')} {reason}"):
        manager(replace(TASK, **{kind: {"mine": term}}), world).compute()


def test_observations_and_events_are_named_too():
    world = TensorWorld(ANYMAL_C, 3)
    with pytest.raises(TermError, match=r"observation 'mine'.*AttributeError: .*nothing"):
        manager(world, mine=ObservationTerm(func=lambda world: world.nothing))
    events = EventManager(replace(TASK, events={"kick": Event(func=lambda world, env_ids: 1 / 0, mode="reset")}), world)
    with pytest.raises(TermError, match=r"event 'kick'.*ZeroDivisionError"):
        events.apply("reset", torch.arange(3))


def test_a_fault_of_ours_stays_one():
    broken = Reward(func=rewards.track_lin_vel_xy_exp, weight=1.0, params={"command_name": "nowhere", "std": 0.5})
    with pytest.raises(KeyError):
        RewardManager(replace(TASK, rewards={"track": broken}), TensorWorld(ANYMAL_C, 3)).compute()
