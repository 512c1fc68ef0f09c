"""One tiny model, and a server around it for each module of tests."""

import pytest
from served_model import Wire, serving, tiny_base


@pytest.fixture(scope="package")
def base():
    return tiny_base()


@pytest.fixture(scope="module")
def address(base, tmp_path_factory):
    with serving(base, tmp_path_factory.mktemp("checkpoints"), most_models=64) as found:
        yield found


@pytest.fixture
def wire(address):
    return Wire(address)
