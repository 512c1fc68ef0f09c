# Train and validate on a CPU.
#
#   docker build -f docker/cpu.Dockerfile -t gaitway:cpu .
#   docker run --rm -it -v "$PWD/runs:/work/runs" gaitway:cpu \
#     train velocity-flat-anymal-c-blind --preset cpu --out runs/walk

FROM python:3.11-slim-bookworm

# Software OpenGL, for videos without a display.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libegl1 libgl1-mesa-dri libopengl0 \
    && rm -rf /var/lib/apt/lists/*

# For example --build-arg PIP_ARGS="--extra-index-url <index of torch's CPU builds>" for a smaller image.
ARG PIP_ARGS=""
ARG EXTRAS="train,mujoco,gyms,atari"

WORKDIR /opt/gaitway
COPY pyproject.toml constraints.txt README.md LICENSE THIRD_PARTY_LICENSES ./
COPY gaitway gaitway
COPY sim2real sim2real
COPY agents agents
COPY extensions extensions
COPY tasks tasks
RUN pip install --no-cache-dir ${PIP_ARGS} -c constraints.txt ".[${EXTRAS}]"

ENV MUJOCO_GL=egl
RUN useradd --create-home gaitway && mkdir /work && chown gaitway /work
USER gaitway
WORKDIR /work
ENTRYPOINT ["gaitway"]
CMD ["--help"]
