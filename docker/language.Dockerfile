# Fine-tune language models on a GPU, with vLLM for rollouts, on vLLM's own image. Needs NVIDIA's container toolkit.
#
#   docker build -f docker/language.Dockerfile -t gaitway:language .
#   docker run --rm -it --gpus all --ipc=host -v "$PWD/runs:/work/runs" -v "$HOME/.cache/huggingface:/cache" \
#     gaitway:language train gsm8k --agent grpo --model Qwen/Qwen2.5-1.5B-Instruct --rollout vllm --out runs/gsm8k

ARG VLLM=vllm/vllm-openai:v0.32.0
FROM ${VLLM}

USER root
WORKDIR /opt/gaitway
COPY pyproject.toml README.md LICENSE THIRD_PARTY_LICENSES ./
COPY gaitway gaitway
COPY sim2real sim2real
COPY agents agents
COPY extensions extensions
COPY tasks tasks
# The image's own torch, transformers and vLLM stay as they are: they were built for each other.
RUN pip install --no-cache-dir '.[train,language]'

ENV HF_HOME=/cache
WORKDIR /work
ENTRYPOINT ["gaitway"]
CMD ["--help"]
