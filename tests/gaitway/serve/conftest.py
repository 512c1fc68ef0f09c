"""One tiny model, and a server around it for each module of tests."""

import pytest
from served_model import Wire, address, base  # noqa: F401


@pytest.fixture
def wire(address):  # noqa: F811
    return Wire(address)
