"""Every domain keeps the contract, and the table finds them."""

import pytest
from gaitway_tasks.registry import UnknownNameError

from gaitway.catalogue import AGENTS, WORLDS
from gaitway.config.tree import named
from gaitway.domains.domain import Plays
from gaitway.domains.table import DOMAINS, domain_in, domain_of, domains, find_task, worlds_of
from gaitway.errors import ConfigError

EXAMPLES = {"robot's task": "velocity-flat-go2", "Gymnasium environment": "cartpole", "Atari game": "breakout",
            "language task": "arithmetic"}  # fmt: skip


@pytest.mark.parametrize("row", DOMAINS, ids=lambda row: row.name)
def test_a_row_leads_to_its_tasks(row):
    task = find_task(EXAMPLES[row.name])
    assert type(task) is named(row.task)
    assert domain_of(task) is domain_in(next(iter(row.worlds)))
    assert worlds_of(task) == tuple(row.worlds) and set(row.worlds) <= WORLDS.keys()


def test_every_world_has_a_domain():
    assert {world for row in DOMAINS for world in row.worlds} == WORLDS.keys()
    with pytest.raises(UnknownNameError, match="mars"):
        domain_in("mars")


@pytest.mark.parametrize("row", DOMAINS, ids=lambda row: row.name)
def test_what_a_domain_lists_it_finds(row):
    domain = domain_in(next(iter(row.worlds)))
    for name in list(domain.names())[:20]:
        assert "<" in name or domain.find(name) is not None
    assert domain.usual_agent in domain.agents()
    assert all(len(fact) == 3 for fact in domain.facts())


def test_every_agent_learns_in_some_domain():
    assert {agent for domain in domains() for agent in domain.agents()} == AGENTS.keys()


def test_presets_are_of_robots():
    with pytest.raises(UnknownNameError, match="preset of cartpole"):
        find_task("cartpole", "cpu")


def test_texts_have_no_environments():
    with pytest.raises(ConfigError, match="arithmetic is a language task"):
        domain_in("language").environments(find_task("arithmetic"))


def test_what_has_environments_says_so():
    for row in DOMAINS:
        domain = domain_in(next(iter(row.worlds)))
        assert isinstance(domain, Plays) == (row.name != "language task")
