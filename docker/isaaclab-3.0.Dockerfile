# Train in Isaac Lab 3.0 (Isaac Sim 6 with PhysX, or Newton), on NVIDIA's image. Needs a GPU and NVIDIA's container
# toolkit. Setting ACCEPT_EULA accepts NVIDIA's licence for Isaac Sim.
#
#   docker build -f docker/isaaclab-3.0.Dockerfile -t gaitway:isaaclab-3.0 .
#   docker run --rm -it --gpus all -e ACCEPT_EULA=Y -v "$PWD/runs:/work/runs" gaitway:isaaclab-3.0 \
#     velocity-flat-anymal-c-blind --physics newton --out runs/isaac

# The documentation of 3.0.0 names the tag 3.0.0-beta2; its isaaclab must be 6.1.x.
ARG ISAAC_LAB=nvcr.io/nvidia/isaac-lab:3.0.0
FROM ${ISAAC_LAB}

USER root
WORKDIR /opt/gaitway
COPY pyproject.toml README.md LICENSE ./
COPY gaitway gaitway
COPY sim2real sim2real
COPY agents agents
COPY extensions extensions
COPY tasks tasks
# Isaac Lab's own Python and its versions: whatever is there already stays, above all the MuJoCo that Newton is built on.
RUN ${ISAACLAB_PATH:-/workspace/IsaacLab}/isaaclab.sh -p -m pip install --no-cache-dir '.[isaaclab]'

WORKDIR /work
RUN printf '#!/bin/sh\nexec "%s/isaaclab.sh" -p -m gaitway train "$@" --world isaaclab\n' \
    "${ISAACLAB_PATH:-/workspace/IsaacLab}" > /usr/local/bin/gaitway-train && chmod +x /usr/local/bin/gaitway-train
ENTRYPOINT ["gaitway-train"]
CMD ["--help"]
