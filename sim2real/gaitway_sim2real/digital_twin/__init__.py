"""A simulated robot on the wire of the real one: the same topics, checksums, services and troubles. Needs MuJoCo.

Who drives it cannot tell it from the robot, and need not: it is driven by the transports of the on-board half. The
twin that ``gaitway run`` steps behind :class:`gaitway_onboard.interface.RobotInterface` is another one,
:mod:`gaitway_sim2real.lockstep.run`: it has no wire.
"""
