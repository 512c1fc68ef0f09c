"""The half that runs on a robot's computer: numpy, onnxruntime and yaml, nothing else."""
