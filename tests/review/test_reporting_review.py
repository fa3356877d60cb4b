"""Labels of a person on the page of the audit: its headline, its numbers, its tables."""

import math
from typing import Any

import pytest

from bench import review as bench
from mispair.audit.report import claims, figures, pages
from mispair.report import texts
from mispair.report.charts import Drawing, Hole
from mispair.report.judge import judge
from mispair.report.pages import claims_table
from mispair.report.tables import Tables, tidy
from mispair.review.report import checked


def reported(
    labels: int = 200, share: tuple[float, ...] = (0.2, 0.16, 0.25), unsure: int = 0,
    model: tuple[float, ...] | None = (0.13, math.nan, 0.15), person: str = "labels",
    similar: tuple[float, ...] | str = "", **more: float,
) -> Tables:  # fmt: skip
    counts = {"sample": 200, "labels": labels, "unsure": unsure, **more}
    rows: list[dict[str, Any]] = [
        {"metric": f"checked_{name}", "value": value} for name, value in counts.items()
    ]
    if labels:
        value, low, high = share
        limits = {"value": value, "low": low, "high": high, "n": labels}
        rows.append({"metric": "checked_share", **limits})
        rows.append({"metric": "checked_share_most", **limits, "high": high + unsure / labels})
        rows.append({"metric": "checked_further", "at": 0.02, "value": 700})
        rows.append({"metric": "checked_reliability", "at": 0.7, **limits})
    if model:
        value, low, high = model
        rows.append({"metric": "wrong_captions", "value": value, "low": low, "high": high})
    if not isinstance(similar, str):
        limits = dict(zip(("value", "low", "high"), similar, strict=True))
        rows.append({"metric": "checked_similar", **limits, "n": labels})
    fault = similar if isinstance(similar, str) else ""
    origin = [
        {"artefact": "similar", "key": "fault", "text": fault},
        {"artefact": "review", "key": "person", "text": person},
        {"artefact": "audit", "key": "refused", "text": "" if model else "Refused."},
    ]
    return Tables({"audit": tidy("audit", rows), "audit_calibration": tidy("audit_calibration", []),
                   "provenance": tidy("provenance", origin)})  # fmt: skip


def headline(tables: Tables) -> str:
    return texts.joined(pages.headline(tables))


def test_with_labels_the_headline_is_their_interval() -> None:
    text = headline(reported())
    assert ("16 %" in text, "25 %" in text, "200 labels" in text, "15 %" in text) == (
        True, True, True, False
    )  # fmt: skip
    assert "15 %" in headline(reported(labels=0))
    assert "16 %" in headline(reported(model=None))  # also where the audit refuses
    assert headline(reported(labels=0, model=None)) == "Refused."
    assert "truth" in headline(reported(person="truth"))


@pytest.mark.parametrize(
    ("share", "model", "outcome"),
    [
        ((0.2, 0.16, 0.25), (0.2, math.nan, 0.3), "supports"),
        ((0.2, 0.16, 0.25), (0.13, math.nan, 0.15), "contradicts"),
        ((0.2, 0.16, 0.25), (0.2, 0.15, 0.22), "cannot tell"),
        ((0.2, 0.16, 0.25), None, "cannot tell"),  # the audit refuses
        ((0.0, 0.0, 0.019), (0.01, math.nan, 0.02), "supports"),
    ],
)
def test_the_measured_share_is_a_claim_as_data(share: Any, model: Any, outcome: str) -> None:
    (claim,) = (one for one in claims.CLAIMS if one.key == "audit-by-eye")
    verdict = judge(claim, reported(share=share, model=model), 0.95)
    assert verdict.outcome == outcome
    row = claims_table.frame([verdict], 0.95).iloc[0]
    assert (row["effect"], row["low"], row["high"], row["n"]) == pytest.approx((*share, 200))
    assert row["bound"] == pytest.approx(model[2] if model else math.nan, nan_ok=True)
    assert judge(claim, reported(labels=0), 0.95).outcome == "not measured"


def test_the_reliability_by_labels_is_drawn() -> None:
    drawn = figures.audit_by_eye(reported())
    assert isinstance(drawn, Drawing)
    assert drawn.data[["at", "value", "low", "high"]].iloc[0].tolist() == [0.7, 0.2, 0.16, 0.25]
    assert isinstance(figures.audit_by_eye(reported(labels=0)), Hole)


def test_the_width_of_a_good_model_is_that_of_the_bench() -> None:
    for share, width in checked.GOOD_MODEL.items():
        assert bench.cell("random", share, 200).width == pytest.approx(width, abs=0.06)


def test_unsure_ones_widen_the_interval_upwards() -> None:
    found = checked.numbers(reported(unsure=20))
    assert found is not None
    assert (found["low"], found["high"]) == pytest.approx((0.16, 0.35))


@pytest.mark.parametrize(
    ("model", "above", "below"),
    [
        ((0.13, math.nan, 0.15), True, False),  # labels find more than the model's upper limit
        ((0.13, 0.1, 0.17), False, False),
        ((0.4, 0.3, 0.5), False, True),
        ((0.4, math.nan, 0.5), False, False),  # an upper limit alone contradicts nothing below
        (None, False, False),
    ],
)
def test_a_model_that_disagrees_is_named(model: Any, above: bool, below: bool) -> None:
    tables = reported(model=model)
    found = checked.numbers(tables)
    assert found is not None
    assert (found["above"], found["below"]) == (above, below)
    if above:
        assert found["unseen"] == pytest.approx(0.16 - model[2])
    assert ("Believe the labels" in checked.piece(tables)) == (above or below)


def test_every_state_has_a_sentence() -> None:
    section = checked.piece
    assert "review.html" in section(reported(labels=0))
    assert "label more" in section(reported(labels=5))
    assert "draw_review.kept" in section(reported(not_drawn=7))
    assert "chosen" in section(reported(chosen=3))
    assert "no label" in section(reported(skipped=2, unsure=2))
    assert "further model that" in section(reported(width=0.97))
    assert "further model would hardly" in section(reported(width=0.6))
    assert "700" in section(reported())
    assert "recalibrated" in section(reported(error=0.2, error_recalibrated=0.1))
    for tables in (reported(), reported(labels=0), reported(labels=5, unsure=2, chosen=1)):
        assert section(tables).endswith(".")
        assert " ." not in section(tables)
    empty = Tables({"audit": tidy("audit", []), "provenance": tidy("provenance", [])})
    assert checked.numbers(empty) is None
    assert section(empty) == ""


def test_the_rate_of_similar_captions_is_shown_as_the_weaker_estimate() -> None:
    tables = reported(similar=(0.1, 0.05, 0.16), right_ranked=160)
    text = checked.piece(tables)
    assert [number in text for number in ("5 %", "16 %", "160", "5.5", "4.5")] == [True] * 5
    assert headline(tables) == headline(reported())  # never there
    shares = checked.printed(tables, "Checked")[0]
    assert [row[1].value for row in shares.rows] == [0.2, 0.2, 0.13, 0.1]
    assert "contradict" not in text
    assert "contradict" in checked.piece(reported(similar=(0.4, 0.3, 0.5), right_ranked=160))
    sentences = {checked.piece(reported(similar=fault, right_ranked=12))
                 for fault in ("", "few", "alike", "wide")}  # fmt: skip
    assert len(sentences) == 4
    assert sum("12 have similar captions" in text for text in sentences) == 1


def test_tables_are_printed_with_labels_only() -> None:
    assert checked.printed(reported(labels=0), "Checked") == []
    shares, model, by_probability = checked.printed(reported(), "Checked")
    assert [row[1].value for row in shares.rows] == [0.2, 0.2, 0.13]
    assert model.rows == ()
    assert by_probability.rows[0][0].value == 0.7
    remarks = {}
    for identified in ("limit", "interval", "nothing"):
        known = {"artefact": "audit", "key": "identified", "text": identified}
        told = reported().replace(provenance=tidy("provenance", [known]))
        remarks[identified] = checked.printed(told, "Checked")[2].remark
    assert len({*remarks.values()}) == 3
    assert by_probability.remark == remarks["nothing"] == ""
    assert {table.section for table in (shares, model, by_probability)} == {"Checked"}
    assert claims.numbers(reported())["by_eye"]["labels"] == 200
