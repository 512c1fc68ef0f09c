"""Robots on a wire, each behind :class:`gaitway_onboard.interface.HardwareInterface`."""
