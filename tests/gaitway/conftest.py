"""What is expensive is made once."""

from graphs_once import graphs_once  # noqa: F401
