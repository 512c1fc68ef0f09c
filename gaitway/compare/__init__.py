"""Comparing finished runs: scores, intervals, curves, differences, and a gate against regressions.

``statistics`` is pure and knows no run; ``series`` and ``gather`` read run folders; ``comparison`` puts both together;
``tables`` and ``figures`` show it, in ``text`` and ``page``; ``gate`` judges.
"""
