"""One module for each command: ``add_parser(commands)`` describes it, ``run(args)`` does it and returns the exit code.

Modules import the standard library only; what a command needs is imported when it runs.
"""
