"""Server that Tinker's client trains and samples with: the wire, the models that learn, sampling, checkpoints."""
