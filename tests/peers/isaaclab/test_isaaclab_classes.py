"""On Isaac Lab 2.3."""

from isaac_classes import *  # noqa: F403
