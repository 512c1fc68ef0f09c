"""How often a step asks the device for a number: once, whatever the task."""

import pytest
import torch
from gaitway_files.errors import UserError
from gaitway_tasks import episodes, managers, waits
from gaitway_tasks.episodes import Episodes
from gaitway_tasks.math import yaw_of
from gaitway_tasks.registry import get_task
from gaitway_tasks.spec import Reward
from toy_world import ToyWorld
from waiting import Waits

N = 8
TASKS = [
    ("velocity-flat-anymal-c-blind", "cpu"),
    ("velocity-flat-go2-blind", "cpu"),
    ("velocity-flat-g1-29dof-blind", "cpu"),
    ("velocity-flat-anymal-c", None),
    ("velocity-rough-anymal-c-blind", "cpu"),
]


class Moving(ToyWorld):
    """Its robots are anywhere, and their episodes end at different times."""

    moved = 0

    def step_physics(self):
        told, step = dict(self.commands), self.episode_step
        self.moved += 1
        self.randomize(self.moved)
        self.commands, self.episode_step = told, step
        self.ground.keep(self.robot.root_pos_w[:, :2])

    def set_ground_impedance(self, env_ids, impedance):
        pass

    def height_scan(self, name):
        points = torch.tensor([[0.1 * k, 0.0] for k in range(187)])
        return self.ground.scan(points, self.robot.root_pos_w, yaw_of(self.robot.root_quat_wxyz))


@pytest.fixture
def on_gpu(monkeypatch):
    """Nothing is on the host. Returns the list of waits: the number of masks that each asked for."""
    asked: list[int] = []
    rows_of = waits.rows_of

    def counted(masks):
        asked.append(len(masks))
        with torch._C.DisableTorchFunction():
            return rows_of(masks)

    for module in (episodes, managers):
        monkeypatch.setattr(module, "on_host", lambda tensor: False)
        monkeypatch.setattr(module, "rows_of", counted)
        monkeypatch.setattr(module, "logged", lambda values: list(values.unbind()))
    return asked


def stepped(task, steps=12):
    world = Moving(task, N, torch.Generator().manual_seed(1))
    played = Episodes(task, world, world.generator)
    played.reset(random_ages=True)
    actions = torch.zeros(N, task.actions.num(task.robot))
    played.step(actions)
    return played, actions, steps


@pytest.mark.parametrize(("name", "preset"), TASKS)
def test_a_step_waits_once(name, preset, on_gpu):
    played, actions, steps = stepped(get_task(name, preset))
    ended, on_gpu[:] = 0, []
    with Waits() as waited:
        for _ in range(steps):
            info = played.step(actions)[-1]
            ended += len(info["ended"])
    assert ended > steps and len(on_gpu) == steps
    assert not waited.found, waited.found


def asking(world):
    return torch.zeros(world.num_envs) + float(world.robot.joint_pos.sum())


def test_a_term_that_asks_for_a_number_is_counted(on_gpu):
    task = get_task("velocity-flat-anymal-c-blind")
    played, actions, _ = stepped(task.replace(rewards={"asking": Reward(func=asking, weight=1.0)}))
    with Waits() as waited:
        played.step(actions)
    assert dict(waited.found) == {"__float__": 1}


def no_number(world):
    return torch.full((world.num_envs,), torch.nan)


def test_a_number_that_is_not_finite_is_told_by_that_wait(on_gpu):
    task = get_task("velocity-flat-anymal-c-blind")
    broken = task.replace(rewards={**task.rewards, "broken": Reward(func=no_number, weight=1.0)})
    with pytest.raises(UserError, match=r"reward 'broken' \(.*test_waits:no_number\) is nan in environment 0"):
        stepped(broken)
