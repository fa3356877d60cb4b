"""Tables on the paper's text: what it leaves to choose, and its statements taken literally."""

from __future__ import annotations

from typing import Any

from mispair.report.rows import origins
from mispair.report.table import whole
from mispair.report.tables import Tables, tidy
from mispair.simulation.literal import STATEMENTS
from mispair.simulation.presets import UNSTATED
from mispair.simulation.report import tables_conditions
from mispair.simulation.study import PRESETS


def runs(condition: str, metrics: dict[str, float], trials: int = 2) -> list[dict[str, Any]]:
    kind, _, switch = condition.partition("~")
    about = {"condition": condition, "kind": kind if switch else "preset", "switch": switch or None,
             "preset": "as-written", "spurious_probability": 0.3, "trained_on": "raw"}  # fmt: skip
    return [
        {**about, "metric": metric, "value": value + trial, "trial": trial}
        for metric, value in metrics.items() for trial in range(trials)
    ]  # fmt: skip


def test_every_choice_is_printed_with_what_the_text_says_and_this_run_took() -> None:
    provenance = {"settings": {**PRESETS["as-written"], "temperature": 40.0}}
    tables = Tables({
        "simulation": tidy("simulation", runs("as-written", {"accuracy": 0.5})),
        "provenance": tidy("provenance", origins("simulation", provenance, "as-written")),
    })  # fmt: skip
    rows = {row[0]: row[1:] for row in tables_conditions.unstated(tables).rows}
    assert set(rows) == set(UNSTATED)
    assert rows["temperature"] == ("100.0", "40.0", UNSTATED["temperature"])
    for text in UNSTATED.values():
        assert text.split(":")[0] in ("open", "contradictory", "repaired")
    assert tables_conditions.unstated(Tables({})).rows == ()


def test_statements_stand_beside_the_repaired_preset_with_the_steps_of_their_failures() -> None:
    rows = runs("as-written", {"accuracy": 0.8, "purified_features": 45})
    rows += runs("literal~bias", {"silenced_at_step": 140}, trials=3)
    rows += runs("literal~codes", {"accuracy": 0.7, "purified_features": 40})
    table = tables_conditions.literal(Tables({"simulation": tidy("simulation", rows)}))
    found = {row[0].split(":")[0]: row for row in table.rows}
    assert set(found) == {"none", *STATEMENTS}
    assert found["bias"][1:3] == (whole(3), "raw: 3 runs silenced at step 140 to 142")
    assert found["none"][2] is None
    assert found["codes"][3].value == 40.5
    assert tables_conditions.literal(Tables({})).rows == ()
