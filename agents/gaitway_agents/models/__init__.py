"""Networks: normalisers, distributions, actors and critics. Each model exports itself."""
