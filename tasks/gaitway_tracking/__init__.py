"""The family of motions: a robot that plays a reference clip, with its clock, terms, suite and generator of clips."""
