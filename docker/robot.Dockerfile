# Drive a robot from its own computer: the on-board half alone, without torch and without a simulator. For arm64 (a
# Jetson, say) and x86-64:
#
#   docker buildx build --platform linux/arm64,linux/amd64 -f docker/robot.Dockerfile -t gaitway:robot .
#   docker run --rm -it --network host --cap-add SYS_NICE --ulimit rtprio=99 --ulimit memlock=-1 \
#     -v "$PWD/bundle:/work/bundle:ro" -v "$PWD/flights:/work/flights" \
#     gaitway:robot deploy bundle --robot unitree-go2 --interface eth0 --log flights/first.mcap
#
# DDS finds the robot by multicast on its own network: hence the host's. The other flags let the 500 Hz loop run with
# real-time priority and its memory locked; inside the container only root may use them.

# cyclonedds has no wheel for Linux on arm64. There its C library and its Python package are built from source.
FROM python:3.11-slim-bookworm AS dds
ARG TARGETARCH
ARG CYCLONEDDS=11.0.1
ENV CYCLONEDDS_HOME=/opt/cyclonedds
RUN mkdir -p ${CYCLONEDDS_HOME} /wheels \
    && if [ "${TARGETARCH}" = arm64 ]; then \
      apt-get update && apt-get install --yes --no-install-recommends build-essential ca-certificates cmake git \
      && git clone --depth 1 --branch ${CYCLONEDDS} https://github.com/eclipse-cyclonedds/cyclonedds /src \
      && cmake -S /src -B /build -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=${CYCLONEDDS_HOME} \
      && cmake --build /build --parallel --target install \
      && pip wheel --no-cache-dir --no-deps --wheel-dir /wheels cyclonedds==${CYCLONEDDS}; \
    fi

FROM python:3.11-slim-bookworm
COPY --from=dds /opt/cyclonedds /opt/cyclonedds
COPY --from=dds /wheels /wheels
ENV CYCLONEDDS_HOME=/opt/cyclonedds LD_LIBRARY_PATH=/opt/cyclonedds/lib

WORKDIR /opt/gaitway
COPY pyproject.toml constraints.txt README.md LICENSE THIRD_PARTY_LICENSES ./
COPY gaitway gaitway
COPY sim2real sim2real
COPY agents agents
COPY extensions extensions
COPY tasks tasks
RUN pip install --no-cache-dir --find-links /wheels -c constraints.txt '.[robot]' \
    && python -c "import cyclonedds.core, mcap, onnxruntime"

WORKDIR /work
ENTRYPOINT ["gaitway"]
CMD ["deploy", "--help"]
