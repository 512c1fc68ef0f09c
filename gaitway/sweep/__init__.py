"""Search of settings: trials are ordinary run folders, and Optuna proposes their settings.

``space.py`` settings that vary; ``plan.py`` what a sweep searches, checked before it begins; ``metric.py`` the number
that is searched for; ``journal.py`` Optuna's record of the trials; ``search.py`` trials begun, pruned and told;
``finalists.py`` more seeds of the best; ``loop.py`` all of it; ``report.py`` and ``parallel.py`` the page.
"""
