"""Files: written whole or not at all, and read within limits; and what all packages share. It uses none of ours."""
