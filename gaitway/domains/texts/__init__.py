"""Interface of the language half: models that answer in text are built, judged and shown."""
