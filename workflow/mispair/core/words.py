"""Numbers and names as a reader sees them."""

import difflib
import math
import unicodedata
from collections.abc import Iterable

MISSING = "not measured"


def number(value: float | None, digits: int = 3, sign: bool = False) -> str:
    """Format a number with a true minus sign; a missing one becomes `MISSING`.

    Examples
    --------
    >>> number(-0.12345), number(0.5, 1, sign=True), number(None)
    ('−0.123', '+0.5', 'not measured')
    """
    if value is None or not math.isfinite(value):
        return MISSING
    text = f"{value:{'+' if sign else ''}.{digits}f}"
    if float(text) == 0:
        text = text.lstrip("+-")
    return text.replace("-", "−")


def significant(value: float | None, digits: int = 3, sign: bool = False) -> str:
    """Format a number of any unit with `digits` significant digits, and at most five places.

    Examples
    --------
    >>> significant(0.00123), significant(12.345, sign=True), significant(0.0)
    ('0.00123', '+12.3', '0.000')
    """
    if value is None or not math.isfinite(value):
        return MISSING
    leading = math.floor(math.log10(abs(value))) if value else 0
    return number(value, min(5, max(0, digits - leading - (leading >= 0))), sign)


def to_size(value: float | None, size: float, sign: bool = False) -> str:
    """Format a number with the places that `size` needs for two significant digits.

    Examples
    --------
    >>> to_size(-0.01898, 0.0164), to_size(0.1007, 2.1, sign=True), to_size(0.0236, 0.0236)
    ('−0.019', '+0.1', '0.024')
    """
    if not size > 0:
        return significant(value, sign=sign)
    return number(value, max(0, 1 - math.floor(math.log10(size))), sign)


def percent(share: float, digits: int | None = None, sign: bool = False) -> str:
    """Format a share in per cent, by default with as many digits as small shares need.

    No share reads "0.0 %": exactly none is "none", and what would be rounded to zero is "below"
    the last digit (a negative one "above" it). Without `digits` only all of it reads "100 %".

    Examples
    --------
    >>> percent(0.123), percent(0.0123), percent(0.00123), percent(-0.24), percent(0.5, 1)
    ('12 %', '1.2 %', '0.12 %', '−24 %', '50.0 %')
    >>> percent(0), percent(0.0004, 1), percent(-0.0004, 1), percent(1e-9)
    ('none', 'below 0.1 %', 'above −0.1 %', 'below 0.001 %')
    >>> percent(1), percent(0.9977), percent(0.99999), percent(1.004), percent(0.9977, 0)
    ('100 %', '99.8 %', 'above 99.9 %', '100 %', '100 %')
    """
    if share == 0:
        return "none"
    size = 100 * abs(share)
    if digits is None and 99.95 <= size < 100:
        most = number(math.copysign(99.9, share), 1, sign)
        return f"{'above' if share > 0 else 'below'} {most} %"
    if digits is None:
        whole = 10 <= size < 99.5 or size >= 100
        digits = 0 if whole else 1 if size >= 1 else 2 if size >= 0.005 else 3
    text = number(100 * share, digits, sign)
    if text == number(0, digits):
        least = number(math.copysign(10.0**-digits, share), digits, sign)
        text = f"{'below' if share > 0 else 'above'} {least}"
    return text if text == MISSING else f"{text} %"


def p_value(p: float) -> str:
    """Format a p value.

    Examples
    --------
    >>> p_value(0.0001), p_value(0.034)
    ('p < 0.001', 'p = 0.034')
    """
    if not math.isfinite(p):
        return "no test"
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def count(value: float, noun: str, plural: str | None = None) -> str:
    """Format a count with its noun.

    Examples
    --------
    >>> count(1, "seed"), count(20000, "pair")
    ('1 seed', '20,000 pairs')
    """
    return f"{int(value):,} {noun if value == 1 else plural or noun + 's'}"


def listing(items: list[str], last: str = "and") -> str:
    """Join names with commas, and a word before the last one.

    Examples
    --------
    >>> listing(["a"]), listing(["a", "b", "c"]), listing(["a", "b"], "or")
    ('a', 'a, b and c', 'a or b')
    """
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} {last} {items[-1]}"


def duration(seconds: float) -> str:
    """Format a time with its two largest units.

    Examples
    --------
    >>> duration(0.4), duration(75), duration(4000), duration(3600 * 100)
    ('0.4 s', '1 min 15 s', '1 h 6 min', '4 d 4 h')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s"
    parts = [(whole // 86400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "min"),
             (whole % 60, "s")]  # fmt: skip
    first = next(position for position, (number, _) in enumerate(parts) if number)
    return " ".join(f"{number} {unit}" for number, unit in parts[first : first + 2] if number)


def composed(name: str) -> str:
    """Return a name in Unicode's composed form, in which names from two files are compared.

    Examples
    --------
    >>> composed("Cre\u0302pe") == "Cr\u00eape"
    True
    """
    return unicodedata.normalize("NFC", name)


def nearest(name: str, names: Iterable[str]) -> str:
    """Return `` Did you mean 'x'?`` for the nearest known name, or an empty text."""
    matches = difflib.get_close_matches(name, list(names), n=1, cutoff=0.55)
    return f" Did you mean {matches[0]!r}?" if matches else ""
