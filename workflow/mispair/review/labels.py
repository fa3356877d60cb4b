"""A person's labels of pairs: their file, and which of them are of the random sample."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mispair.core.files import UserError
from mispair.pairs.captions.corpus_keys import as_in_corpus
from mispair.pairs.captions.key_lists import SEPARATORS, lines_of_text
from mispair.review.paths import PAGE

if TYPE_CHECKING:
    import pandas as pd

RIGHT, WRONG, UNSURE = "right", "wrong", "unsure"
LABELS = (RIGHT, WRONG, UNSURE)
OF_REPAIRS = ("old", "new", "both", "neither")
"""Which caption fits, where a new one replaced an old one."""
DRAWN, CHOSEN = "drawn", "chosen"
FEW = 20
"""Labels below which an interval is too wide to be of use."""
COLUMNS = ("key", "label", "how")
SETTING = "reviewed"


def has_labels(path: Path) -> bool:
    """Return whether a file has columns key and label, and not keys alone."""
    try:
        first = first_line(lines_of_text(path, SETTING))
    except (OSError, ValueError):
        return False
    return {*COLUMNS[:2]} <= {*_names(first, delimiter_of(first))}


def read_labels(
    path: Path, setting: str = SETTING, allowed: Sequence[str] = LABELS
) -> dict[str, tuple[str, str]]:
    """Return label and ``how`` of each key of a file, in its order.

    The file is CSV with these columns, ``how`` being optional and then "". A spreadsheet may have
    saved it: with semicolons or tabs, marks of the encoding, upper case, quotation marks, empty
    rows, a first line ``sep=;`` and further columns. A row without a label is left out, and one
    that repeats a key and its label counts once.

    Raises
    ------
    UserError
        If the file cannot be read, has not these columns, has another word as a label, or two
        labels of one key.
    """
    try:
        lines = lines_of_text(path, setting)
        first = first_line(lines)
        delimiter = delimiter_of(first)
        names = _names(first, delimiter)
        for name in COLUMNS[:2]:
            if names.count(name) != 1:
                raise UserError(
                    f"{setting}: {path} needs one column {name!r}, and its first line is "
                    f"{first[:80]!r}. Begin the file with the line key,label."
                )
        at = {name: names.index(name) for name in COLUMNS if name in names}
        rows = list(csv.reader(lines, delimiter=delimiter))
    except (OSError, ValueError, csv.Error) as error:
        raise UserError(
            f"{setting}: {path} cannot be read ({' '.join(str(error).split())}). Save it as CSV in "
            "UTF-8 with the columns key and label."
        ) from error
    found: dict[str, tuple[int, str, str]] = {}
    begun = False
    for number, row in enumerate(rows, 1):
        if not any(cell.strip() for cell in row):
            continue
        if not begun:  # the names of the columns
            begun = True
            continue
        key, label, how = (
            row[at[name]].strip() if at.get(name, len(row)) < len(row) else "" for name in COLUMNS
        )
        label, how = label.lower(), how.lower()
        if not label:
            continue
        takes = {"label": allowed, "how": ("", DRAWN, CHOSEN)}
        for name, value in (("label", label), ("how", how)):
            if value not in takes[name]:
                raise UserError(
                    f"{setting}: {path}: line {number} has {value!r} in the column {name}, which "
                    f"takes {', '.join(filter(None, takes[name]))}. Correct this line; the others "
                    "are kept."
                )
        if not key:
            raise UserError(
                f"{setting}: {path}: line {number} has a label and no key. Write the key of its "
                "pair, or delete the line."
            )
        if key in found and found[key][1] != label:
            raise UserError(
                f"{setting}: {path}: the key {key!r} has two labels, {found[key][1]} in line "
                f"{found[key][0]} and {label} in line {number}. Delete one of the two lines."
            )
        found.setdefault(key, (number, label, how))
    if not found:
        raise UserError(f"{setting}: {path} has no label. Open {PAGE}, label pairs and save them.")
    return {key: (label, how) for key, (_, label, how) in found.items()}


def first_line(lines: Sequence[str]) -> str:
    """Return the line with the names of columns; "" without any."""
    return next((line for line in lines if line.strip()), "")


def delimiter_of(first: str) -> str:
    """Return what separates the cells of a file of labels, by its first line."""
    return max(SEPARATORS, key=first.count)


def _names(first: str, delimiter: str) -> list[str]:
    return [name.strip().lower() for name in next(csv.reader([first], delimiter=delimiter), [])]


def of_sample(
    labels: Mapping[str, tuple[str, str]], sample: pd.DataFrame
) -> tuple[pd.DataFrame, dict[str, int]]:
    """Return the sample with a column ``label``, and counts of what enters no estimate.

    Within a stratum the labelled pairs are those up to the last one that was labelled as drawn, in
    the random order: a person may stop early. A pair before it without a label was shown and not
    answered, so it counts as unsure. Labels of chosen pairs (from a gallery) after it have "".

    Parameters
    ----------
    labels : mapping
        From `read_labels`. Without ``how``, a key of the sample was drawn, and another one chosen.
    sample : DataFrame
        ``key``, ``stratum`` and ``order``.

    Returns
    -------
    sample : DataFrame
        In the order in which pairs are shown.
    counts : dict
        Labels that were ``chosen``, keys of drawn labels ``not_drawn`` (of another sample), and
        pairs that were ``skipped``.
    """
    known_as = as_in_corpus(labels, sample["key"])
    given = {known_as.get(key, key): answer for key, answer in labels.items()}
    sample = sample.sort_values("order", ignore_index=True)
    answers = [given.get(key, ("", "")) for key in sample["key"]]
    label, how = (sample["key"].copy() for _ in range(2))
    label[:], how[:] = [answer[0] for answer in answers], [answer[1] for answer in answers]
    drawn = (label != "") & (how != CHOSEN)
    last = sample["order"].where(drawn, -1).groupby(sample["stratum"]).transform("max")
    shown = sample["order"] <= last
    skipped = shown & (label == "")
    drawn_keys = {*sample["key"]}
    of_others = [of for key, (_, of) in given.items() if key not in drawn_keys]
    counts = {
        "chosen": len(of_others) - of_others.count(DRAWN) + int(((label != "") & ~shown).sum()),
        "not_drawn": of_others.count(DRAWN),
        "skipped": int(skipped.sum()),
    }
    return sample.assign(label=label.where(shown, "").mask(skipped, UNSURE)), counts


def by_truth(sample: pd.DataFrame, truth: Sequence[Path]) -> dict[str, tuple[str, str]]:
    """Return labels that the known features of generated pictures give, for a demonstration.

    A caption is right that names something, and nothing that the picture lacks.
    """
    from mispair.pairs.captions.caption_texts import read_pictured_features
    from mispair.pairs.corruption.corrupted import named_codes
    from mispair.pairs.scenes.scene_captions import codes

    pictured = read_pictured_features(truth)
    shown = codes([pictured[key] for key in sample["key"]])
    named = named_codes(sample["caption"].tolist())
    right = named.any(axis=1) & ~(named & ~shown).any(axis=1)
    return {
        key: (RIGHT if fits else WRONG, DRAWN)
        for key, fits in zip(sample["key"], right, strict=True)
    }
