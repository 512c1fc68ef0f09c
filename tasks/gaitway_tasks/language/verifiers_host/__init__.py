"""Program that runs a taskset of verifiers for another process, whose model plays it.

:mod:`~gaitway_tasks.language.verifiers` starts it, maybe with another Python, so it imports nothing of ours. The code
of verifiers is asynchronous and wants the main thread, which it has here. Its own machinery to run agents in containers
and processes is left out: an environment's ``run`` gets an agent whose turns are the other process's answers.
"""
