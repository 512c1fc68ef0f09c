"""Files: written whole or not at all, and read within limits. Every package may use it; it uses none of ours."""
