"""One module for each command. Its docstring is the help, ``add_options(parser)`` adds its options, ``run`` runs it.

``run(args)`` returns the exit code. Modules import the standard library only; what a command needs is imported when
it runs.
"""
