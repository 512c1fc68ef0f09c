"""Gaitway: one task definition, many worlds; one policy optimiser, many kinds of action.

Importing this package is instant. The command line is :mod:`gaitway.cli`.
"""

__version__ = "0.1.0"
