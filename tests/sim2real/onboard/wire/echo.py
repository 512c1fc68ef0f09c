"""A process that sends every low command back as it came: ``python echo.py DOMAIN``, until its input closes."""

import select
import sys

from gaitway_onboard.wire.bus import Topic
from gaitway_onboard.wire.dds import DdsBus
from gaitway_onboard.wire.declarations import GO_LOW_CMD

bus = DdsBus("lo", int(sys.argv[1]))
commands = bus.subscriber(Topic("rt/lowcmd", GO_LOW_CMD.name, depth=50))
echoes = bus.publisher(Topic("rt/echo", GO_LOW_CMD.name, depth=50))
print(bus.guid, flush=True)
while not select.select([sys.stdin], [], [], 0.002)[0]:
    for _, payload in commands.take_all():
        echoes.send(payload)
bus.close()
