"""Atari 2600 games through ale-py."""
