"""What is expensive is made once, or not anew."""

from forked import forked  # noqa: F401
from graphs_once import graphs_once  # noqa: F401
