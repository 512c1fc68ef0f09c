"""The face of the language half: what builds, judges and shows models that answer in text."""
