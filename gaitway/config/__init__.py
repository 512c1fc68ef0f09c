"""The settings of a run: one tree, merged from layers and checked as a whole."""
