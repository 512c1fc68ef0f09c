"""Software for a robot's own computer: numpy, onnxruntime, yaml and the transport's library; no torch and no simulator.

Of Gaitway's other packages it imports only ``gaitway_files``: the bounded readers and the record of a robot's hardware.

To audit it, read in this order; everything that can move a motor is in the first three steps:

1. :mod:`.interface` and :mod:`gaitway_files.hardware`: what a robot offers, what must be known of it, and its
   safe stop.
2. :mod:`.control.controller`, the state machine, then the loops that call it: :mod:`.control.loop` and
   :mod:`.control.runner`; :mod:`.control.deployment` puts a guardian beside them.
3. :mod:`.safety.limits` and :mod:`.safety.checks` (what trips), :mod:`.safety.clamp` (what bounds each command),
   :mod:`.safety.guardian` (what stops a robot whose controller cannot), :mod:`.safety.preflight` (which bundles are
   refused).
4. :mod:`.bundle`: contract, policy, verdict and signature of what is run.
5. :mod:`.transports.open`, the table of transports; :mod:`.transports.on_bus`, :mod:`.transports.unitree` and
   :mod:`.transports.ros2`, on the messages and buses of :mod:`.wire`.
6. :mod:`.estimation` fills in what no sensor gives; :mod:`.flight` records what happened, and reads it back.
"""
