"""Robots on a wire, each behind :class:`gaitway_sim2real.onboard.interface.HardwareInterface`."""
