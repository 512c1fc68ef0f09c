"""The contract of every Gaitway environment, as rows of MuJoCo Warp."""

import conformance
import pytest
from warp_worlds import module_on_warp

worlds = module_on_warp("extensions/test_conformance.py")
MAKE = worlds.FACTORIES | worlds.OTHERS
KINDS = ("velocity-flat-anymal-c", "velocity-flat-g1", "tiles", "everything-random", *worlds.OTHERS)
CHECKS = [
    conformance.check_shapes_and_types,
    conformance.check_results_are_not_overwritten,
    conformance.check_time_limit_is_exact,
    conformance.check_state_round_trip,
    worlds.test_final_observations_and_accounts_are_true,
]
each_kind = pytest.mark.parametrize("kind", KINDS)


@each_kind
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_it_keeps_the_contract(check, kind):
    check(MAKE[kind])


@pytest.mark.parametrize("check", [conformance.check_bad_use_is_refused, conformance.check_seeds])
def test_it_keeps_the_rest_of_the_contract(check):
    check(worlds.FACTORIES["everything-random"])


@pytest.mark.parametrize("kind", ["everything-random", "tiles"])
def test_endings_are_true(kind):
    """And the whole state of each robot, which its twin is given in every step."""
    make = worlds.FACTORIES[kind]
    conformance.check_endings(make, violent=make.violence, steps=60, episode_length=worlds.QUIET)
