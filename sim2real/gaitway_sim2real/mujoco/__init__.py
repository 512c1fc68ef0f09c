"""The one MuJoCo rig of validation, simulation, twin, diagnosis and identification."""
