"""Numbers as people and models write them: 1,234.5 or 12 000 or 3,5 or 3 1/2 or 1.5 x 10^3, alone or with a unit."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

_DECIMAL = (
    r"(?:\d{1,3}(?:\.\d{3})+,\d{1,60}(?!\d)"  # 1.234,5
    r"|[1-9]\d{0,2}(?:,\d{3})+(?!\d|,\d)(?:\.\d{0,60})?"  # 1,234.5
    r"|[1-9]\d{0,2}(?:[ ']\d{3})+(?!\d)(?:[.,]\d{1,60})?"  # 1 234.5
    r"|\d{1,60}(?:\.\d{0,60}|,\d{1,60}(?!,?\d))?|\.\d{1,60})"  # 1234.5 and 3,5
)
_POWER = r"(?:\s?[x*]\s?10\s?(?:\^|\*\*)\s?[{(]?(?P<power>[-+]?\d{1,3})[)}]?|[eE](?P<e>[-+]?\d{1,3})(?![\w.]))"
_NUMBER = re.compile(
    rf"(?<![A-Za-z^_.])(?<!\^-)(?:(?<![\w)])(?P<sign>[-+])\s?)?"
    rf"(?:(?P<whole>\d{{1,60}})\s(?P<top>\d{{1,60}})/(?P<under>\d{{1,60}})(?![\d.])"
    rf"|(?P<decimal>{_DECIMAL})(?:{_POWER}|/(?P<bottom>\d{{1,60}})|\\overline\{{(?P<again>\d{{1,20}})\}})?)"
    r"(?P<percent>\s?%)?"
)
_LATEX = [
    (re.compile(r"\{,\}|,\\!"), ","),
    (re.compile(r"\\!"), ""),
    (re.compile(r"\\[,;: ]|~|[\u00a0\u2007\u2009\u202f]"), " "),
    (re.compile(r"\\(?:times|cdot)(?![A-Za-z])|[×·⋅]"), "*"),
    (re.compile(r"\\%|\s?(?:per\s?cent(?:age)?|pct)\b"), "%"),
    (re.compile(r"\\[dtc]?frac\s*(?:\{(\d+)\}\s*\{(\d+)\}|(\d)\s?(\d))"), r" \1\3/\2\4"),
    (re.compile(r"\^\{\s*([-+]?\d+)\s*\}"), r"^\1"),
    (re.compile(r"\^?\\circ|\^\{\\circ\}"), "°"),
    (re.compile(r"(?<=[\d\s][m])([23])\b|(?<=[\d\s][kcdm]m)([23])\b"), r"^\1\2"),
]
_SIGNS = str.maketrans({"−": "-", "–": "-", "⁄": "/", "’": "'"})
_SUPERSCRIPT = re.compile(r"[⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+")
_RAISED = str.maketrans("⁻⁺⁰¹²³⁴⁵⁶⁷⁸⁹", "-+0123456789")

_SCALES = {"hundred": 10**2, "dozen": 12, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_SYMBOLS = frozenset(
    re.findall(
        r"\S+",
        "m s g h l L t A V W N J K C F T k Pa kPa MPa Hz kHz MHz GHz kg mg km cm mm nm um μm µm dm ft in yd "
        "mi lb lbs oz ml mL cl dl ha kW MW GW kWh Wh kJ MJ cal kcal mol rad deg min sec hr hrs am pm mph kph "
        "kmh rpm kB KB MB GB TB dB ms ns us μs µs Ω eV keV MeV lm lx Bq Gy Sv px pt USD EUR GBP Rs INR RMB sq "
        "cu",
    )
)
_METRIC = frozenset(re.findall(r"\S+", "mm cm dm m km mg g kg ml l s ms"))
_LITTLE_WORDS = frozenset(re.findall(r"\S+", "a i an as at be by do go he if in is it me my no of on so to us we"))
_WORKINGS = frozenset(
    re.findall(
        r"\S+",
        "sin cos tan cot sec csc log exp lim mod gcd lcm sqrt root inf times plus minus negative over divided "
        "half twice double triple squared cubed power factorial not never or alpha beta gamma delta epsilon "
        "zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau upsilon phi chi psi omega",
    )
)
"""Words with which a number is something else than itself."""
_AROUND = re.compile(r"(?:[^\W\d_](?:\^-?\d)?|[\s=:.,;!'\"°/*≈])*")


def plain_number(text: str) -> str:
    """A text with every number in it in the one form that :func:`number` reads: no LaTeX, superscripts, currencies."""
    text = _SUPERSCRIPT.sub(lambda found: "^" + found.group().translate(_RAISED), text.translate(_SIGNS))
    for pattern, written in _LATEX:
        text = pattern.sub(written, text)
    text = "".join(f" {unicodedata.normalize('NFKC', c)}" if unicodedata.category(c) == "No" else c for c in text)
    text = "".join(c for c in text.translate(_SIGNS) if unicodedata.category(c) != "Sc")
    return " ".join(text.split())


def number(text: str) -> Fraction | None:
    """The value of a plain number, fraction or percentage (50% is 1/2); None for anything else.

    A comma before other than three digits may part a list as well as decimals: ``3,5`` is None, ``0,5`` and ``1.234,5``
    are numbers.
    """
    if re.fullmatch(r"[-+]?\s?[1-9]\d*,\d+\s?%?", text) and not re.fullmatch(r"[-+]?\s?\d{1,3},\d{3}\s?%?", text):
        return None
    found = _NUMBER.fullmatch(text)
    return _value(found) if found else None


@dataclass(frozen=True)
class Alone:
    """The only number of a text of words and units."""

    text: str
    """The number as it is written."""
    values: frozenset[Fraction]
    """5 and 5,000,000 for "5 million", as some count in millions."""
    unit: str
    """Its metric unit; empty without one, or with another."""

    def same(self, other: Alone) -> bool:
        """True for an equal number whose unit is not another one; 50 % is written both 50 and 0.5."""
        if self.unit and other.unit and self.unit != other.unit:
            return False
        if self.values & other.values:
            return True
        percent = self.text.endswith("%") != other.text.endswith("%")
        return percent and number(self.text.removesuffix("%")) == number(other.text.removesuffix("%"))


def last_in_words(text: str) -> Alone | None:
    """The last number of a sentence, as :func:`in_words` finds it, if words part it from the numbers before it."""
    found = list(_NUMBER.finditer(text))
    rest = text[found[-2].end() :] if len(found) > 1 else text
    parted = re.match(r"\s*[.,;:]?\s+(?!(?:and|or|to|by|x)\b)[A-Za-z']+", rest)
    return in_words(rest[parted.end() :]) if parted else None


def in_words(text: str) -> Alone | None:
    """The number of a text in which it is the only one, with words and units around it at most; None otherwise.

    What letters or words make of a number, as in "2x", "log 8" or "minus 5", is not that number.
    """
    found = list(_NUMBER.finditer(text))
    value = _value(found[0]) if len(found) == 1 else None
    if value is None:
        return None
    before, after = text[: found[0].start()], re.sub(r"\([A-Za-z ]{3,}\)", "", text[found[0].end() :])
    if after.startswith("!") or not (_AROUND.fullmatch(before) and _AROUND.fullmatch(after)):
        return None
    if not (_are_words(re.sub(r"\b[A-Za-z]\s*(?:[=≈]|is\b|equals\b)", "", before), before=True) and _are_words(after)):
        return None
    unit = after.strip().rstrip(".")
    scale = _SCALES.get(unit.partition(" ")[0].strip(","), 1)
    return Alone(found[0].group(), frozenset((value, value * scale)), unit if unit in _METRIC else "")


def numbers(text: str) -> list[str]:
    """Every number of a text as it is written there."""
    return [found.group().rstrip(".,") for found in _NUMBER.finditer(text)]


def _value(found: re.Match[str]) -> Fraction | None:
    part = found.groupdict()
    if any(part[name] and not int(part[name]) for name in ("under", "bottom")):
        return None
    if part["whole"]:
        value = Fraction(int(part["top"]), int(part["under"]))
        if value >= 1:
            return None
        value += int(part["whole"])
    else:
        value = _decimal(part["decimal"], part["again"])
        value *= Fraction(10) ** int(part["power"] or part["e"] or 0) / int(part["bottom"] or 1)
    return (-value if part["sign"] == "-" else value) / (100 if part["percent"] else 1)


def _decimal(text: str, again: str | None) -> Fraction:
    if re.fullmatch(r"\d{1,3}(?:\.\d{3})+,\d+", text) or not re.fullmatch(r"[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?", text):
        text = text.replace(".", "").replace(",", ".") if text.count(",") == 1 else text
    text = re.sub(r"[, ']", "", text)
    value = Fraction(Decimal(text))
    if again:
        value += Fraction(int(again), (10 ** len(again) - 1) * 10 ** len(text.partition(".")[2]))
    return value


def _are_words(text: str, *, before: bool = False) -> bool:
    """True if words around a number leave it as it is."""
    attached = not before and bool(re.match(r"[A-Za-z]", text))
    for place, word in enumerate(re.findall(r"[^\W\d_]+", text)):
        if word in _SYMBOLS and (not before or (word[0].isupper() and len(word) > 1)):
            continue
        if any("Ͱ" <= letter <= "Ͽ" for letter in word) or word.lower() in _WORKINGS:
            return False
        if before and word.lower() in ("square", "cube"):
            return False
        if word.isascii() and len(word) < 3 and (word.lower() not in _LITTLE_WORDS or (attached and place == 0)):
            return False
    return True
