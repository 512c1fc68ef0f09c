"""Bytes between a robot and its computer: message layouts, checksums, and the buses that carry them."""
