"""Numbers of neurons that pruned models keep: from ranges, or in proportion to a width."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

RANGE = r"^(\d+)-(\d+)(?::([1-9]\d*))?$"
"""From, to (included) and step."""

PUBLISHED_WIDTH = 512
"""Neurons of the published models. The paper keeps 200 to 500 of them."""


def expanded(ks: Any) -> Any:
    """Replace ranges such as ``200-500:50`` in a list by numbers, sorted and without duplicates.

    Raises
    ------
    ValueError
        If an entry is neither a number nor a range.
    """
    if not isinstance(ks, list):
        return ks
    numbers: set[int] = set()
    for entry in ks:
        if match := re.match(RANGE, str(entry)):
            first, last, step = (int(part or 1) for part in match.groups())
            if last < first:
                raise ValueError(f"{entry!r} ends before it begins")
            numbers.update(range(first, last + 1, step))
        elif re.fullmatch(r"\d+", str(entry)):
            numbers.add(int(entry))
        else:
            raise ValueError(
                f"{entry!r} is neither a number nor a range such as 200-500 or 200-500:50"
            )
    return sorted(numbers)


Number = Annotated[int, Field(ge=1)]
"""A number of neurons."""

Numbers = Annotated[
    list[Number] | None,
    BeforeValidator(
        expanded, json_schema_input_type=list[Number | Annotated[str, Field(pattern=RANGE)]] | None
    ),
]
"""A setting of numbers of neurons, in which ranges are allowed."""


def numbers_of_width(neurons: int) -> list[int]:
    """Return the paper's 200 to 500 of 512 neurons in proportion, or each eighth of fewer.

    Examples
    --------
    >>> numbers_of_width(512)
    [200, 250, 300, 350, 400, 450, 500]
    >>> numbers_of_width(64)
    [8, 16, 24, 32, 40, 48, 56, 64]
    """
    if neurons >= PUBLISHED_WIDTH:
        return [neurons * k // PUBLISHED_WIDTH for k in range(200, 501, 50)]
    return sorted({-(-neurons * eighth // 8) for eighth in range(1, 9)})
