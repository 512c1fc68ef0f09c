# Train in Isaac Lab 2.3 (Isaac Sim 5.1, PhysX), on NVIDIA's image. Needs an RTX GPU and NVIDIA's container toolkit.
# Setting ACCEPT_EULA accepts NVIDIA's licence for Isaac Sim.
#
#   docker build -f docker/isaaclab-2.3.Dockerfile -t gaitway:isaaclab-2.3 .
#   docker run --rm -it --gpus all -e ACCEPT_EULA=Y -v "$PWD/runs:/work/runs" gaitway:isaaclab-2.3 \
#     velocity-flat-anymal-c-blind --out runs/isaac

# 2.3.2 and no other: 2.3.0 and 2.3.1 have other interfaces.
ARG ISAAC_LAB=nvcr.io/nvidia/isaac-lab:2.3.2
FROM ${ISAAC_LAB}

USER root
WORKDIR /opt/gaitway
COPY pyproject.toml README.md LICENSE THIRD_PARTY_LICENSES ./
COPY gaitway gaitway
COPY sim2real sim2real
COPY agents agents
COPY extensions extensions
COPY tasks tasks
# Isaac Lab's own Python and its versions: whatever is there already stays, and numpy must stay below 2.
RUN "${ISAACLAB_PATH:-/workspace/isaaclab}/isaaclab.sh" -p -m pip install --no-cache-dir 'numpy<2' '.[isaaclab]'

WORKDIR /work
RUN printf '#!/bin/sh\nexec "%s/isaaclab.sh" -p -m gaitway train "$@" --world isaaclab\n' \
    "${ISAACLAB_PATH:-/workspace/isaaclab}" > /usr/local/bin/gaitway-train && chmod +x /usr/local/bin/gaitway-train
ENTRYPOINT ["gaitway-train"]
CMD ["--help"]
