"""Comparing runs: scores, intervals, curves, differences, and a gate against regressions.

``statistics`` is pure and knows no run; ``series`` and ``gather`` read run folders, and ``unfinished`` cuts them;
``comparison`` puts both together; ``measures`` says what is better, and how clearly; ``tables`` and ``figures`` show
it, in ``text`` and ``page``; ``gate`` judges.
"""
