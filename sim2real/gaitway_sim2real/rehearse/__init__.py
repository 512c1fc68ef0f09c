"""Rehearsal: the twin, the deployment and everything that may go wrong between them, before a robot is switched on."""
