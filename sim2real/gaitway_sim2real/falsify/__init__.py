"""The smallest failing case of a policy: the search within declared bounds, and cases as files that tests can hold.

>>> case = load_case("validation/falsified/case-1.json")
>>> assert run_case(case, "runs/walk/bundle").survived
"""

from .case import Case, CaseError, Outcome, load_case, load_cases, play, run_case
from .results import FOLDER, case_film, save_cases, section
from .search import Budget, Search, knots_of, search

__all__ = [
    "FOLDER", "Budget", "Case", "CaseError", "Outcome", "Search", "case_film", "knots_of", "load_case", "load_cases",
    "play", "run_case", "save_cases", "search", "section",
]  # fmt: skip
