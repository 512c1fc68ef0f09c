"""Readers, one a family of published policies: each finds the policies in a folder, and reads one."""
