"""The adapter on data as Isaac Lab 3.0 gives it: proxies of arrays, quaternions x, y, z, w, either joint order.

Isaac Lab 2.3's form, with Isaac Lab's own functions as the reference, is in tests/peers/isaaclab.
"""

import inspect
from types import SimpleNamespace

import pytest
import torch
from gaitway_isaaclab import compat, terms
from gaitway_isaaclab.compat import IsaacLabError
from gaitway_isaaclab.world import IsaacLabGround, IsaacLabWorld
from gaitway_tasks.mdp import observations, rewards, terminations
from gaitway_tasks.robots import ANYMAL_C
from gaitway_tasks.robots.orders import newton_order, physx_order
from tensor_world import TensorWorld, close

N = 64
BODIES_BREADTH_FIRST = (
    "base",
    *(f"{leg}_{part}" for part in ("HIP", "THIGH", "SHANK", "FOOT") for leg in ("LF", "LH", "RF", "RH")),
)


class Proxy:
    """Copy of Isaac Lab 3.0's data: ``.torch`` is the tensor, and nothing else may be relied upon."""

    def __init__(self, tensor):
        self.torch = tensor


@pytest.fixture(autouse=True)
def release_3(monkeypatch):
    monkeypatch.setattr(compat, "release", lambda: "3.0")


def lab_env(world, joints, bodies):
    """An environment of Isaac Lab 3.0 in the state of ``world`` whose joints and bodies are in the given order."""
    robot, n = world.robot, world.num_envs
    to_joints = [ANYMAL_C.joint_names.index(name) for name in joints]
    to_bodies = [ANYMAL_C.body_names.index(name) for name in bodies]
    feet = [bodies.index(name) for name in ANYMAL_C.foot_names]

    def per_body(values):
        out = torch.zeros(n, len(bodies))
        out[:, feet] = values
        return Proxy(out)

    force = robot.contact_force_w[:, to_bodies]
    data = {
        "joint_pos": robot.joint_pos[:, to_joints],
        "joint_vel": robot.joint_vel[:, to_joints],
        "joint_acc": robot.joint_acc[:, to_joints],
        "soft_joint_pos_limits": world.soft_joint_pos_limits[to_joints].repeat(n, 1, 1),
        "root_pos_w": robot.root_pos_w,
        "root_quat_w": robot.root_quat_wxyz[:, [1, 2, 3, 0]],
        "root_lin_vel_b": robot.root_lin_vel_b,
        "root_ang_vel_b": robot.root_ang_vel_b,
        "projected_gravity_b": robot.projected_gravity_b,
        "body_link_pos_w": robot.body_pos_w[:, to_bodies],
        "body_lin_vel_w": robot.body_lin_vel_w[:, to_bodies],
    }
    times = ("current_air_time", "last_air_time", "current_contact_time", "last_contact_time")
    contacts = SimpleNamespace(
        body_names=list(bodies),
        data=SimpleNamespace(
            net_normal_forces_w=Proxy(force),
            net_normal_forces_w_history=Proxy(torch.stack((0.2 * force, force, 0.7 * force), 1)),
            **{name: per_body(getattr(robot, name)) for name in times},
        ),
    )
    articulation = SimpleNamespace(
        joint_names=list(joints),
        body_names=list(bodies),
        data=SimpleNamespace(**{name: Proxy(value) for name, value in data.items()}),
        actuators=SimpleNamespace(applied_effort=Proxy(robot.applied_torque[:, to_joints])),
    )
    return SimpleNamespace(
        scene={"robot": articulation, "contact_forces": contacts},
        num_envs=n,
        device="cpu",
        step_dt=world.step_dt,
        physics_dt=world.step_dt / 4,
        max_episode_length=world.max_episode_length,
        episode_length_buf=world.episode_step,
        command_manager=SimpleNamespace(get_command=world.command),
        action_manager=SimpleNamespace(action=world.action, prev_action=world.previous_action),
        termination_manager=SimpleNamespace(terminated=world.terminated),
    )


ORDERS = {
    "newton": (newton_order(ANYMAL_C), ANYMAL_C.body_names),
    "physx": (physx_order(ANYMAL_C), BODIES_BREADTH_FIRST),
}


@pytest.fixture(params=ORDERS)
def pair(request):
    world = TensorWorld(ANYMAL_C, N).randomize(0)
    return world, IsaacLabWorld(lab_env(world, *ORDERS[request.param]), ANYMAL_C)


STATE = (
    "joint_pos", "joint_vel", "joint_acc", "applied_torque", "root_pos_w", "root_quat_wxyz", "root_lin_vel_b",
    "root_ang_vel_b", "projected_gravity_b", "body_pos_w", "body_lin_vel_w", "contact_force_w", "current_air_time",
    "last_air_time", "current_contact_time", "last_contact_time",
)  # fmt: skip


def test_the_two_orders_differ():
    assert tuple(ORDERS["newton"][0]) == ANYMAL_C.joint_names != tuple(ORDERS["physx"][0])


@pytest.mark.parametrize("name", STATE)
def test_every_quantity_in_the_robot_s_own_order(pair, name):
    world, seen = pair
    assert torch.equal(getattr(seen.robot, name), getattr(world.robot, name))


def test_quaternions_turn_the_same_way(pair):
    world, seen = pair
    for term in (rewards.track_lin_vel_xy_yaw_frame_exp, rewards.track_ang_vel_z_world_exp):
        close(term(seen, 0.5, "base_velocity"), term(world, 0.5, "base_velocity"))


def test_what_is_not_the_state(pair):
    world, seen = pair
    assert torch.equal(seen.action, world.action) and torch.equal(seen.previous_action, world.previous_action)
    assert torch.equal(seen.default_joint_pos, world.default_joint_pos)
    assert torch.equal(seen.soft_joint_pos_limits, world.soft_joint_pos_limits)
    assert torch.equal(terminations.time_out(seen), terminations.time_out(world))
    assert torch.equal(seen.contact_force_norm(".*_THIGH"), world.contact_force_norm(".*_THIGH"))
    assert torch.equal(rewards.is_terminated(seen), rewards.is_terminated(world))
    assert torch.equal(observations.generated_commands(seen, "base_velocity"), world.command("base_velocity"))


def test_the_robot_s_own_order_costs_no_copy():
    world = TensorWorld(ANYMAL_C, N).randomize(0)
    env = lab_env(world, *ORDERS["newton"])
    seen, robot = IsaacLabWorld(env, ANYMAL_C), env.scene["robot"]
    for name in ("joint_pos", "joint_vel", "joint_acc", "root_lin_vel_b", "body_lin_vel_w"):
        assert getattr(seen.robot, name) is getattr(robot.data, name).torch
    assert seen.robot.applied_torque is robot.actuators.applied_effort.torch


def test_a_touchdown_is_seen_though_the_clock_is_half_a_physics_step_late():
    """3.0's sensors take the difference of two times, each rounded; its own terms allow for as much."""
    world = TensorWorld(ANYMAL_C, N).randomize(0)
    seen = IsaacLabWorld(lab_env(world, *ORDERS["newton"]), ANYMAL_C)
    clock = torch.tensor([0.0, 0.02, 0.0224, 0.0226])
    seen.robot._contacts.data.current_contact_time.torch[0, seen.robot._feet] = clock
    assert rewards.first_contacts(seen)[0].tolist() == [False, True, True, False]


def test_a_step_s_terms_read_nothing_back_from_the_device(pair):
    """On a GPU each of these would stop the host until the device has caught up."""
    _, seen = pair
    calls = []

    def step():
        rewards.feet_air_time(seen, "base_velocity", ".*_FOOT", 0.5)
        rewards.undesired_contacts(seen, ".*_THIGH", 1.0)
        rewards.joint_pos_limits(seen)
        terminations.illegal_contact(seen, "base", 1.0)
        observations.joint_pos_rel(seen)

    step()  # the first one makes the index tensors
    with _recording(calls):
        step()
    assert calls and not {"_local_scalar_dense", "nonzero", "_to_copy", "lift_fresh"} & set(calls)


def _recording(calls):
    from torch.utils._python_dispatch import TorchDispatchMode

    class Recording(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            # A change of number type stays on the device; a copy to another one does not.
            name = func.__name__.partition(".")[0]
            if name != "_to_copy" or "device" in (kwargs or {}):
                calls.append(name)
            return func(*args, **(kwargs or {}))

    return Recording()


# ---- terms as Isaac Lab keeps them -----------------------------------------------------------------------------------


def test_a_term_is_found_again_by_the_name_it_is_written_under():
    term = terms.isaac_term(rewards.feet_air_time)
    assert (term.__module__, term.__name__) == ("gaitway_isaaclab.terms", "gaitway_tasks.mdp.rewards.feet_air_time")
    assert getattr(terms, term.__name__) is term
    # Isaac Lab compares the parameters of a term with its arguments, the first of which is the environment.
    assert list(inspect.signature(term).parameters)[1:] == ["command_name", "feet", "threshold"]


def test_names_that_are_no_terms():
    with pytest.raises(AttributeError, match="no attribute 'walk'"):
        terms.walk  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'walk'"):
        getattr(terms, "gaitway_tasks.mdp.rewards.walk")


def generated(sensors):
    """A scene on generated tiles, with two environments that start at (8, 0, 0.3) and (0, 0, 0)."""
    moved = []
    terrain = SimpleNamespace(
        cfg=SimpleNamespace(terrain_generator=SimpleNamespace(size=(8.0, 8.0))),
        terrain_levels=torch.tensor([1, 0]),
        update_env_origins=lambda *given: moved.append(given),
    )
    origins = torch.tensor([[8.0, 0.0, 0.3], [0.0, 0.0, 0.0]])
    return SimpleNamespace(terrain=terrain, sensors=sensors, env_origins=origins, moved=moved)


def test_the_ground_is_what_importer_and_height_scanner_know():
    x = torch.arange(3.0)
    hits = torch.stack((torch.stack((x, 0 * x, 0.1 * x), 1), torch.stack((x, 0 * x, -0.1 * x), 1)))
    scan = SimpleNamespace(data=SimpleNamespace(ray_hits_w=Proxy(hits)))
    scene = generated({"contacts": SimpleNamespace(data=None), "scan": scan})
    ground = IsaacLabGround(scene)
    close(ground.height(torch.tensor([[0.9, 0.0], [2.2, 0.1]])), [0.1, -0.2])
    close(ground.height(torch.tensor([[[0.9, 0.0], [0.1, 0.0]], [[2.2, 0.1], [0.2, 0.0]]])), [[0.1, 0.0], [-0.2, 0.0]])
    close(ground.origin(torch.tensor([0]), torch.tensor([[0.5, -0.5]])), [[8.5, -0.5, 0.3]])
    assert ground.level.tolist() == [1, 0] and ground.tile_size == 8.0
    ground.move(torch.tensor([1]), torch.tensor([True]), torch.tensor([False]))
    assert len(scene.moved) == 1
    with pytest.raises(IsaacLabError, match="height scanner"):
        IsaacLabGround(generated({})).height(torch.zeros(2, 2))


def test_a_plane_is_level(pair):
    _, seen = pair
    assert torch.equal(seen.ground.above(seen.robot.root_pos_w), seen.robot.root_pos_w[:, 2])
