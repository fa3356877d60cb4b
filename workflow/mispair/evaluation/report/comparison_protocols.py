"""Table of the effect of the protocol alone on the same model."""

from __future__ import annotations

from mispair.evaluation.report.protocols import HASHES, base_arm, short
from mispair.evaluation.report.series import change, zeroshot_series
from mispair.report.notes import Note
from mispair.report.table import Table, or_dash, with_interval
from mispair.report.tables import Tables
from mispair.report.texts import text

SECTION = "Protocols"
SCORES = ("acc1", "acc5", "mean_per_class_recall")


def protocols(tables: Tables) -> Table | None:
    """Return the scores of the same model under every protocol, on every evaluation set."""
    names = tables.protocols
    tables = tables.of_scheme()
    table = tables.zeroshot[tables.zeroshot["protocol"].isin(names)]
    table = table[table["classname"].isna()]
    rows = []
    for evaluation_set, of_set in table.groupby("evaluation_set"):
        first: float | None = None
        for name in [name for name in names if name in set(of_set["protocol"])]:
            of_protocol = of_set[of_set["protocol"] == name]
            headline = next(iter(of_protocol["headline"].dropna()), "acc1")
            scores = base_arm(of_protocol)
            value = scores.loc[scores["metric"] == headline, "value"].mean()
            first = value if first is None else first
            series = zeroshot_series(tables.of_protocol(name), "pretrained", headline,
                                     str(evaluation_set))  # fmt: skip
            moved = change(series)
            prompts = [short(text) for text in of_protocol["fingerprint"].dropna()[:1]]
            rows.append((
                str(evaluation_set), f"{' '.join([name, *prompts])}, {headline}",
                *(with_interval(scores[scores["metric"] == metric]) for metric in SCORES),
                None if value is first else or_dash(value - first, 3, sign=True),
                or_dash(moved, 3, sign=True),
            ))  # fmt: skip
    if not rows:
        return None
    arm = base_arm(table)
    start, rate = str(arm["start"].iloc[0]), arm["rate"].iloc[0]
    return Table(
        text(Note("evaluation", "title_protocols", start=start, rate=rate)),
        ("evaluation set", "protocol and its headline", *(m.replace("_", " ") for m in SCORES),
         "headline − its first protocol’s", "headline’s change with C_m, from pre-trained"),
        tuple(rows),
        text(Note("evaluation", "table_protocols", main=names[0], others=names[1:], hashes=HASHES)),
        section=SECTION,
    )  # fmt: skip
