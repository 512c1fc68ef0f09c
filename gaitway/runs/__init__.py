"""Run folders and the files in them."""
