"""The flight recorder: everything that a deployment saw and did, in a file that survives it."""
