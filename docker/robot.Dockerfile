# Drive a robot from its own computer: the on-board half alone, without torch and without a simulator. For arm64 (a
# Jetson, say) and x86-64:
#
#   docker buildx build --platform linux/arm64,linux/amd64 -f docker/robot.Dockerfile -t gaitway:robot .
#   docker run --rm -it --network host --cap-add SYS_NICE --ulimit rtprio=99 --ulimit memlock=-1 \
#     -v "$PWD/bundle:/work/bundle:ro" -v "$PWD/flights:/work/flights" \
#     gaitway:robot deploy bundle --robot unitree-go2 --interface eth0 --log flights/first.mcap
#
# DDS finds the robot by multicast on its own network: hence the host's. The other flags let the 500 Hz loop run with
# real-time priority and its memory locked.

FROM python:3.11-slim-bookworm

WORKDIR /opt/gaitway
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY gaitway gaitway
COPY sim2real sim2real
COPY agents agents
COPY extensions extensions
COPY tasks tasks
RUN pip install --no-cache-dir -c constraints.txt '.[robot]' && gaitway doctor --help > /dev/null

# Real-time priority is a matter of the container's limits; root inside it is what may use them.
RUN mkdir /work
WORKDIR /work
ENTRYPOINT ["gaitway"]
CMD ["deploy", "--help"]
