"""Mirror symmetry: group laws, canonical domain, images of a batch."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
import torch
from box_spaces import box, boxes
from gaitway_agents.core.batch import Batch
from gaitway_agents.core.optimizer import OptimizerConfig, PolicyOptimizer
from gaitway_agents.models.actor_critic import ActorCritic, ActorCriticConfig
from gaitway_agents.models.heads import gaussian_log_prob
from gaitway_agents.symmetry import CanonicalActor, Symmetry
from torch import Tensor, nn

SignedPermutation = tuple[Tensor, Tensor]


def stack(*generators: tuple[list[int], list[float]]) -> SignedPermutation:
    """All products of two commuting reflections, numbered by bits."""
    perms, signs = [torch.arange(len(generators[0][0]))], [torch.ones(len(generators[0][0]))]
    for perm, sign in generators:
        p, s = torch.tensor(perm), torch.tensor(sign, dtype=torch.float32)
        for i in range(len(perms)):
            perms.append(perms[i][p])
            signs.append(s * signs[i][p])
    return torch.stack(perms), torch.stack(signs)


# A robot with four legs LF LH RF RH, one joint each: left-right swaps sides and the sign of y, front-back swaps ends
# and the sign of x. Observation: x, y, four joints. Critic: the same and a height.
JOINTS = (([2, 3, 0, 1], [-1.0] * 4), ([1, 0, 3, 2], [1.0] * 4))
XY = ([1.0, -1.0], [-1.0, 1.0])
POLICY = tuple(([0, 1, *(2 + j for j in p)], [*xy, *s]) for (p, s), xy in zip(JOINTS, XY, strict=True))
CRITIC = tuple(([*perm, 6], [*sign, 1.0]) for perm, sign in POLICY)


def make_symmetry() -> Symmetry:
    return Symmetry({"policy": stack(*POLICY), "critic": stack(*CRITIC)}, stack(*JOINTS), selectors=(1, 0))


def observe(n: int) -> dict[str, Tensor]:
    critic = torch.randn(n, 7)
    return {"policy": critic[:, :6].clone(), "critic": critic}


def elements(n: int, g: int) -> Tensor:
    return torch.full((n,), g)


def test_group_laws():
    symmetry, x = make_symmetry(), observe(5)
    x["action"] = torch.randn(5, 4)
    for name, value in x.items():
        assert torch.equal(symmetry.apply_to(name, value, elements(5, 0)), value)
        for g in range(4):
            image = symmetry.apply_to(name, value, elements(5, g))
            assert torch.equal(symmetry.apply_to(name, image, elements(5, g)), value)
            for h in range(4):
                both = symmetry.apply_to(name, image, elements(5, h))
                assert torch.equal(both, symmetry.apply_to(name, value, elements(5, g ^ h)))
    mirrored = symmetry.apply_to("policy", torch.tensor([[1.0, 2, 3, 4, 5, 6]]), elements(1, 1))
    assert mirrored.tolist() == [[1.0, -2, -5, -6, -3, -4]]


def test_the_element_may_differ_from_row_to_row():
    symmetry, x = make_symmetry(), observe(4)["policy"]
    mixed = symmetry.apply_to("policy", x, torch.tensor([0, 1, 2, 3]))
    for g in range(4):
        assert torch.equal(mixed[g], symmetry.apply_to("policy", x, elements(4, g))[g])


def test_every_orbit_has_one_canonical_member():
    symmetry, x = make_symmetry(), observe(50)
    canonical, element = symmetry.canonicalize(x)
    assert (canonical["policy"][:, :2] >= 0).all()
    assert set(element.tolist()) == {0, 1, 2, 3}
    for g in range(4):
        image = {name: symmetry.apply_to(name, value, elements(50, g)) for name, value in x.items()}
        again, _ = symmetry.canonicalize(image)
        assert all(torch.equal(again[name], canonical[name]) for name in x)


def test_a_canonical_actor_is_equivariant_whatever_the_network():
    symmetry, x = make_symmetry(), observe(50)["policy"]
    network = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 4))
    actor = CanonicalActor(network, symmetry)
    for g in range(4):
        mirrored_action = symmetry.apply_to("action", actor(x), elements(50, g))
        torch.testing.assert_close(actor(symmetry.apply_to("policy", x, elements(50, g))), mirrored_action)
    image = symmetry.apply_to("policy", x, elements(50, 1))
    assert not torch.allclose(network(image), symmetry.apply_to("action", network(x), elements(50, 1)))


class Averaged(nn.Module):
    """An equivariant actor: the mean over the group of a network seen through each mirror."""

    def __init__(self, network: nn.Module, symmetry: Symmetry):
        super().__init__()
        self.network, self.symmetry = network, symmetry

    def forward(self, x: Tensor) -> Tensor:
        act, n = self.symmetry.apply_to, len(x)
        return torch.stack(
            [act("action", self.network(act("policy", x, elements(n, g))), elements(n, g)) for g in range(4)]
        ).mean(0)


def make_policy(symmetry: Symmetry | None = None) -> ActorCritic:
    config = ActorCriticConfig(actor_hidden=(16,), critic_hidden=(16,), normalize_observations=False)
    policy = ActorCritic(boxes(policy=6, critic=7), box(4), config)
    if symmetry is not None:
        policy.actor = Averaged(policy.actor, symmetry)
    return policy


@torch.no_grad()
def make_batch(policy: ActorCritic, n: int = 30) -> Batch:
    observations = observe(n)
    mean, std = policy.distribution(observations)
    actions = mean + std * torch.randn(n, 4)
    return Batch(
        observations=observations,
        actions=actions,
        log_probs=gaussian_log_prob(mean, std, actions),
        advantages=torch.randn(n),
        values=policy.value(observations),
        returns=torch.randn(n),
        distribution=(mean, std.expand_as(mean)),
    )


@torch.no_grad()
def test_images_have_the_same_log_probabilities_under_an_equivariant_policy():
    symmetry = make_symmetry()
    policy = make_policy(symmetry)
    batch = make_batch(policy)
    images = symmetry.augment(batch, policy.distribution)
    assert len(images) == 4 * len(batch)
    torch.testing.assert_close(policy.evaluate(images).log_probs, batch.log_probs.repeat(4))
    torch.testing.assert_close(images.log_probs, batch.log_probs.repeat(4))
    for name in ("advantages", "values", "returns"):
        assert torch.equal(getattr(images, name), getattr(batch, name).repeat(4))
    for g in range(4):
        rows = slice(30 * g, 30 * (g + 1))
        assert torch.equal(images.actions[rows], symmetry.apply_to("action", batch.actions, elements(30, g)))
        critic = symmetry.apply_to("critic", batch.observations["critic"], elements(30, g))
        assert torch.equal(images.observations["critic"][rows], critic)
        # The distribution's mirror image, found without the policy.
        mirrored = symmetry.apply_to("action", batch.distribution[0], elements(30, g))
        torch.testing.assert_close(images.distribution[0][rows], mirrored)


def test_an_asymmetric_policy_that_has_not_moved_shows_no_kl():
    """Otherwise an adaptive rate would fall to its floor because of asymmetry alone."""
    symmetry, policy = make_symmetry(), make_policy()
    with torch.no_grad():
        policy.actor[-1].bias.copy_(torch.tensor([3.0, -1.0, 2.0, 0.0]))
        images = symmetry.augment(make_batch(policy), policy.distribution)
    config = OptimizerConfig(epochs=1, minibatches=1, schedule="constant")
    assert PolicyOptimizer(policy, config).update(images)["kl"] == pytest.approx(0.0, abs=1e-6)


def test_learning_from_images_makes_a_policy_symmetric():
    """The same targets in every mirror: an asymmetric start ends up close to equivariant."""
    symmetry, policy = make_symmetry(), make_policy()
    x = observe(64)["policy"]

    def asymmetry() -> float:
        with torch.no_grad():
            image = policy.actor(symmetry.apply_to("policy", x, elements(64, 1)))
            return (image - symmetry.apply_to("action", policy.actor(x), elements(64, 1))).square().mean().item()

    before = asymmetry()
    config = OptimizerConfig(
        epochs=2,
        minibatches=2,
        learning_rate=3e-3,
        schedule="constant",
        entropy_coefficient=0.0,
        normalize_advantages="none",
    )
    optimizer = PolicyOptimizer(policy, config, torch.Generator().manual_seed(0))
    for _ in range(30):
        batch = make_batch(policy, 256)
        # Good is to act opposite to the joints' positions: an equivariant wish.
        quality = -(batch.actions + batch.observations["policy"][:, 2:]).square().mean(1)
        batch = dataclasses.replace(batch, advantages=(quality - quality.mean()) / quality.std())
        with torch.no_grad():
            images = symmetry.augment(batch, policy.distribution)
        optimizer.update(images)
    assert asymmetry() < 0.3 * before


def change(table: SignedPermutation, g: int, column: int, **new: float) -> SignedPermutation:
    perm, sign = table[0].clone(), table[1].clone()
    if "perm" in new:
        perm[g, column] = int(new["perm"])
    if "sign" in new:
        sign[g, column] = new["sign"]
    return perm, sign


def test_maps_that_are_no_group_are_refused():
    policy, critic, action = stack(*POLICY), stack(*CRITIC), stack(*JOINTS)
    with pytest.raises(ValueError, match="symmetry of 'action'"):
        Symmetry({"policy": policy}, change(action, 1, 0, sign=1.0), (1, 0))
    with pytest.raises(ValueError, match="symmetry of 'critic'"):
        Symmetry({"policy": policy, "critic": change(critic, 2, 3, perm=3)}, action, (1, 0))
    with pytest.raises(ValueError, match="symmetry of 'policy'"):
        Symmetry({"policy": change(policy, 0, 5, sign=-1.0)}, action, (1, 0))


@pytest.mark.parametrize(
    ("selectors", "message"),
    [
        ((2, 0), "selector 2: an element moves"),
        ((1,), r"selectors \(1,\): two elements flip the same"),
        ((1, 1), r"selectors \(1, 1\): two elements flip the same"),
    ],
)
def test_selectors_must_tell_all_elements_apart(selectors, message):
    with pytest.raises(ValueError, match=message):
        Symmetry({"policy": stack(*POLICY)}, stack(*JOINTS), selectors)


# A walker with a clock: (sine, vx, vy, yaw rate, joint). Both mirrors flip the clock and the yaw rate; the joint is one
# of a hip roll, which left-right flips.
CLOCKED = (([0, 1, 2, 3, 4], [-1.0, 1, -1, -1, -1]), ([0, 1, 2, 3, 4], [-1.0, -1, 1, -1, 1]))
ROLL = (([0], [-1.0]), ([0], [1.0]))


def make_clocked() -> Symmetry:
    return Symmetry({"policy": stack(*CLOCKED)}, stack(*ROLL), selectors=(0, 1, 2, 3))


GRID = torch.tensor([[*row, 0.3] for row in itertools.product((-1.0, 0.0, 2.0), repeat=4)])
STANDS = (GRID[:, :4] == 0).all(1)
DECIDED = torch.stack(((GRID[:, 0] != 0) | (GRID[:, 3] != 0), GRID[:, 1] != 0, GRID[:, 2] != 0)).sum(0) >= 2
"""Clock and yaw rate are flipped by the same elements, so that one of the two leaves as many images as both do."""


def test_earlier_selectors_decide_before_later_ones():
    symmetry = make_clocked()
    canonical, _ = symmetry.canonicalize({"policy": GRID})
    clock, vx, vy, _, _ = canonical["policy"].T
    assert (clock >= 0).all() and (vx >= 0).all()
    assert (vy[(GRID[:, 0] == 0) | (GRID[:, 1] == 0)] >= 0).all()
    # The clock and vx have decided: what is behind them has no say.
    assert (vy[(GRID[:, 0] != 0) & (GRID[:, 1] != 0)] < 0).any()


def test_all_images_have_one_canonical_image_where_something_decides():
    symmetry = make_clocked()
    canonical, _ = symmetry.canonicalize({"policy": GRID})
    for g in range(4):
        image = symmetry.apply_to("policy", GRID, elements(len(GRID), g))
        assert torch.equal(symmetry.canonicalize({"policy": image})[0]["policy"][DECIDED], canonical["policy"][DECIDED])


def test_images_that_nothing_chooses_among_take_turns():
    """Two for a robot that turns on the spot, from step to step and robot to robot; one that stands stays itself."""
    symmetry = make_clocked()
    turning = torch.tensor([[1.0, 0, 0, 0.5, 0.3], [-1.0, 0, 0, 0.5, 0.3]])
    assert symmetry.canonical_elements(turning, torch.arange(4)[None]).tolist() == [[0, 3, 0, 3], [1, 2, 1, 2]]
    same = turning[:1].expand(2, -1)
    assert [symmetry.canonicalize({"policy": same}, step)[1].tolist() for step in (0, 1)] == [[0, 3], [3, 0]]
    standing, walking = torch.tensor([[0.0, 0, 0, 0, 0.3]]), torch.tensor([[1.0, -1, 0, 0, 0.3]])
    assert symmetry.canonical_elements(standing, torch.arange(4)[None]).tolist() == [[0] * 4]
    assert symmetry.canonical_elements(walking, torch.arange(4)[None]).tolist() == [[3] * 4]


def test_a_canonical_actor_is_equivariant_at_every_border_but_for_standing():
    symmetry = make_clocked()
    actor = CanonicalActor(nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1)), symmetry)
    moving = GRID[~STANDS]
    for g in range(4):
        image = symmetry.apply_to("policy", moving, elements(len(moving), g))
        expected = symmetry.apply_to("action", actor(moving), elements(len(moving), g))
        torch.testing.assert_close(actor(image), expected)
    standing = GRID[STANDS]
    torch.testing.assert_close(actor(standing), actor.actor(standing))


def test_straight_ahead_has_two_images_for_a_robot_with_one_mirror():
    """Left-right does not flip vx: it tells it to move, and neither image is chosen."""
    table = torch.arange(4).expand(2, -1), torch.tensor([[1.0] * 4, [1.0, -1, -1, -1]])  # vx, vy, yaw rate, hip roll
    roll = torch.tensor([[0], [0]]), torch.tensor([[1.0], [-1.0]])
    symmetry = Symmetry({"policy": table}, roll, selectors=(0, 1, 2))
    actor = CanonicalActor(nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1)), symmetry)
    straight = torch.tensor([[0.5, 0.0, 0.0, 0.3], [-0.5, 0.0, 0.0, -0.2]])
    image = symmetry.apply_to("policy", straight, elements(2, 1))
    assert symmetry.canonical_elements(straight, torch.arange(2)[None]).tolist() == [[0, 1], [0, 1]]
    torch.testing.assert_close(actor(image), -actor(straight))
    assert actor(straight).abs().min() > 1e-3


def test_columns_alone_are_mirrored_like_the_whole():
    symmetry, x = make_symmetry(), observe(4)["policy"]
    columns = torch.tensor([5, 1, 3, 2, 4])
    perm, sign = symmetry.of_columns("policy", columns)
    for g in range(4):
        whole = symmetry.apply_to("policy", x, elements(4, g))[:, columns]
        assert torch.equal(x[:, columns][:, perm[g]] * sign[g], whole)
    with pytest.raises(ValueError, match=r"columns \[1, 2\] are mirrored into others"):
        symmetry.of_columns("policy", torch.tensor([1, 2]))
