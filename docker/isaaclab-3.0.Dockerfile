# Train in Isaac Lab 3.0 from its wheel: Newton, and PhysX without Isaac Sim. Needs a GPU and NVIDIA's container toolkit;
# device=cpu needs neither. ovphysx comes under NVIDIA's terms.
#
#   docker build -f docker/isaaclab-3.0.Dockerfile -t gaitway:isaaclab-3.0 .
#   docker run --rm -it --gpus all -v "$PWD/runs:/work/runs" gaitway:isaaclab-3.0 \
#     velocity-flat-anymal-c-blind --out runs/isaac

FROM python:3.12-slim

RUN apt-get update && apt-get install -y --no-install-recommends git libgl1 libglib2.0-0 && rm -rf /var/lib/apt/lists/*
RUN pip install --no-cache-dir 'isaaclab[ovphysx,rsl-rl]==3.0.0'

WORKDIR /opt/gaitway
COPY pyproject.toml README.md LICENSE THIRD_PARTY_LICENSES ./
COPY gaitway gaitway
COPY sim2real sim2real
COPY agents agents
COPY extensions extensions
COPY tasks tasks
# Isaac Lab's versions stay as they are, above all the MuJoCo that Newton is built on.
RUN pip install --no-cache-dir '.[isaaclab]'

WORKDIR /work
RUN printf '#!/bin/sh\nexec gaitway train "$@" --world isaaclab\n' > /usr/local/bin/gaitway-train \
    && chmod +x /usr/local/bin/gaitway-train
ENTRYPOINT ["gaitway-train"]
CMD ["--help"]
