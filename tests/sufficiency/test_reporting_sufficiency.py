"""The sufficiency study in the report: claims, ten checks, tables and figures."""

from __future__ import annotations

import copy
import math
import re
from pathlib import Path
from typing import Any

import pytest

from mispair.report import published, studies
from mispair.report.figures import compose
from mispair.report.study import Figure
from mispair.report.tables import Tables, tidy
from mispair.sufficiency.report import claims as claims_sufficiency
from mispair.sufficiency.report.checks import checks
from mispair.sufficiency.report.runs import worths
from mispair.sufficiency.report.tables import sufficiency
from tests.made_up_tables import write_site
from tests.sufficiency import sufficiency_run as run

FIGURES = studies.figures("sufficiency")


def tables(rows: list[dict[str, Any]]) -> Tables:
    return Tables({"sufficiency": tidy("sufficiency", rows)})


def judged(rows: list[dict[str, Any]]) -> dict[str, Any]:
    found = claims_sufficiency.judge(tables(rows), 0.95)
    return {verdict.claim.key: verdict for verdict in found}


def checked(rows: list[dict[str, Any]]) -> list[str]:
    return [check.result for check in checks(tables(rows))]


def changed(where: dict[str, Any], change: Any) -> list[dict[str, Any]]:
    """Return the rows of a whole run with another value, and its limits, where keys match."""
    rows = copy.deepcopy(run.everything())
    matched = 0
    for row in rows:
        if all(row.get(key) == value for key, value in where.items()):
            shift = change(row["value"]) - row["value"]
            for name in ("value", "low", "high"):
                if name in row:
                    row[name] += shift
            matched += 1
    assert matched, where
    return rows


# The published numbers ----------------------------------------------------------------------------


def test_published_tables_are_whole() -> None:
    risks = published.sufficiency_risks()
    assert set(risks["flip"]) == {0.02, 0.1, 0.2, 0.3, 0.4}
    models = risks.groupby("task")["model"].agg(set)
    four = {"bayes", "standard", "guided", "shallow"}
    five = {"bayes", "frozen", "guided", "shallow", "joint"}
    assert dict(models) == {"clip": four, "zsc": four, "cdm": five, "vlm": five}
    assert len(risks) == 5 * (4 + 4 + 5 + 5)
    assert not risks.duplicated(["flip", "task", "model"]).any()
    cdm = risks[(risks["task"] == "cdm") & (risks["flip"] == 0.2)].set_index("model")["risk"]
    assert (cdm["bayes"], cdm["frozen"]) == (33.041, 33.604)
    shifted = published.sufficiency_shift()
    assert not shifted.duplicated(["flip", "task", "shifted", "model"]).any()
    assert dict(shifted.groupby(["task", "shifted"]).size()) == {
        ("clip", "both"): 25, ("zsc", "both"): 25, ("cdm", "both"): 30, ("vlm", "both"): 30,
        ("cdm", "image"): 20, ("vlm", "text"): 20,
    }  # fmt: skip
    # Of the authors' result files: 0.681499, 0.380462, 0.380467, 1.930463 and 0.736491.
    risk = shifted.set_index(["task", "shifted", "model", "flip"])["risk"]
    assert risk["vlm", "both", "bayes", 0.1] == 0.681
    assert risk["vlm", "both", "misspecified", 0.02] == 0.380
    assert risk["vlm", "both", "guided", 0.02] == 0.380
    assert risk["vlm", "text", "frozen", 0.4] == 1.930
    assert risk["vlm", "text", "joint", 0.1] == 0.736
    prompts = published.sufficiency_prompts()
    assert len(prompts) == 24
    assert set(prompts["model"]) == {"standard", "guided", "shallow"}


def test_what_the_text_is_worth_stands_beside_what_published_denoisers_lose() -> None:
    """The observation: with the worth that was measured, the frozen feature shows no use of it."""
    rows = run.bayes({"cdm": 0.42, "vlm": 0.0197})
    found = {each.flip: each for each in worths(tables(rows).sufficiency, "cdm")}
    assert found[0.2].excess["frozen"] == pytest.approx(33.604 - 33.041)
    assert not found[0.2].below("frozen")
    assert found[0.2].below("guided")
    assert found[0.2].unconditional == pytest.approx(33.041 + 0.42)
    verdicts = judged(rows)
    assert "published-denoising" not in verdicts  # a described comparison, and no claim
    assert verdicts["published-next-word"].outcome == "supports"
    (table,) = [
        table for table in sufficiency(tables(rows), 0.95)
        if table.caption.startswith("Denoising (CDM): what the text is worth")
    ]  # fmt: skip
    row = dict(zip(table.heads, table.rows[2], strict=True))
    assert row["frozen, published"] == "+0.563 !"
    assert row["guided, published"] == "+0.056"
    assert row["published Bayes"] == "33.041"
    more = judged(run.bayes({"cdm": 0.9, "vlm": 0.001}))
    assert more["published-next-word"].outcome == "cannot tell"  # it may underfit


# Claims -------------------------------------------------------------------------------------------


def test_claims_on_a_run_that_does_as_claimed() -> None:
    found = judged(run.everything())
    assert {key: verdict.outcome for key, verdict in found.items()} == {
        "sufficient": "supports", "zero-shot-near": "supports", "prompts-help": "supports",
        "denoising-transfers": "supports", "next-word-transfers": "supports",
        "guided-closer": "supports", "published-next-word": "supports",
    }  # fmt: skip
    assert "2 pairs of trees × 2 seeds" in found["sufficient"].sample
    assert "a random map is nearly one to one" in found["sufficient"].controls[0].text
    assert not any(verdict.limited for verdict in found.values())


def test_one_run_decides_nothing_and_none_is_not_measured() -> None:
    found = judged([*run.measured(), *run.transferred()])
    outcomes = {verdict.outcome for key, verdict in found.items() if "published" not in key}
    assert outcomes == {"cannot tell"}
    assert {verdict.outcome for verdict in judged([]).values()} == {"not measured"}
    assert judged(run.bayes())["sufficient"].outcome == "not measured"


def test_each_claim_can_be_contradicted() -> None:
    everything = [
        run.measured(seed, excess={**run.EXCESS, "standard": 1.0, "guided": 1.2}) for seed in (0, 1)
    ]
    gaps = {task: {**own, "frozen": 2.0, "untrained": 0.01} for task, own in run.GAPS.items()}
    heads = [run.transferred(seed, gaps=gaps) for seed in (0, 1)]
    found = judged([row for rows in (*everything, *heads) for row in rows])
    for key in ("sufficient", "denoising-transfers", "next-word-transfers", "guided-closer"):
        assert found[key].outcome == "contradicts", key
    # An untrained encoder that does as well takes the meaning away.
    assert found["denoising-transfers"].limited
    (control,) = found["denoising-transfers"].controls
    assert "the gain does not come from training" in control.text
    worse = changed({"task": "zsc", "arm": "standard", "reference": "bayes"}, lambda v: v + 0.5)
    assert judged(worse)["zero-shot-near"].outcome == "contradicts"
    rising = changed({"task": "zsc", "arm": "standard", "metric": "risk"}, lambda v: -v)
    assert judged(rising)["prompts-help"].outcome == "contradicts"


def test_an_untrained_encoder_that_serves_in_some_runs_limits_and_is_not_said_to_serve() -> None:
    runs = [(0.07, 0, 42), (0.15, 1, 42), (0.026, 0, 43), (0.03, 1, 43)]  # frozen: .025
    rows = [row for own in ((0, 42), (1, 42), (0, 43), (1, 43)) for row in run.measured(*own)]
    for gap, seed, tree in runs:
        gaps = {**run.GAPS, "vlm": {**run.GAPS["vlm"], "untrained": gap}}
        rows += run.transferred(seed, tree, gaps=gaps)
    found = judged(rows)["next-word-transfers"]
    assert found.outcome == "supports"
    (control,) = found.controls
    assert control.finding == "limits"
    assert "varies too much between these runs" in control.text


# The ten checks -----------------------------------------------------------------------------------


def test_all_ten_checks_pass_on_a_run_as_it_should_be() -> None:
    assert checked(run.everything()) == ["passes"] * 10
    assert checked([]) == ["not measured"] * 10


@pytest.mark.parametrize(
    ("number", "where", "change"),
    [
        (1, {"size": "4x3x10", "task": "vlm", "flip": 0.3, "metric": "risk", "arm": "bayes"},
         lambda v: v + 0.009),
        (1, {"size": "4x3x10", "task": "cdm", "flip": 0.02, "metric": "risk", "arm": "bayes"},
         lambda v: v - 0.16),
        (2, {"metric": "enumeration_error", "task": "cdm"}, lambda v: 2e-5),
        (3, {"task": "vlm", "arm": "oracle", "reference": "bayes", "seed": 1},
         lambda v: -0.0016),
        (4, {"task": "clip", "arm": "standard", "reference": "bayes", "candidates": 4, "seed": 1,
             "test_flip": None}, lambda v: 0.13),
        (4, {"task": "clip", "arm": "guided", "reference": "bayes", "candidates": 4},
         lambda v: 0.09),
        (5, {"metric": "sufficiency", "arm": "standard", "part": "both", "candidates": 256},
         lambda v: v + 0.013),
        (5, {"metric": "sufficiency", "arm": "shallow", "part": "both", "candidates": 256},
         lambda v: 0.09),
        (6, {"task": "zsc", "arm": "standard", "reference": "bayes", "per_class": 250},
         lambda v: 0.051),
        (6, {"task": "zsc", "arm": "standard", "reference": "bayes", "per_class": 50, "seed": 0},
         lambda v: 0.5),
        (7, {"task": "cdm", "arm": "frozen", "reference": "unconditional", "seed": 1},
         lambda v: 0.001),
        (7, {"task": "vlm", "arm": "frozen", "reference": "untrained"}, lambda v: -0.0049),
        (7, {"task": "vlm", "arm": "frozen", "reference": "oracle"}, lambda v: 0.006),
        (9, {"task": "zsc", "arm": "standard", "reference": "exact", "per_class": 250},
         lambda v: 0.2),
        (9, {"task": "vlm", "arm": "frozen", "reference": "oracle", "seed": 0},
         lambda v: 0.0175),
        (10, {"arm": "misspecified", "task": "vlm", "test_flip": 0.2, "seed": 0},
         lambda v: 1e-9),
        (10, {"arm": "standard", "task": "clip", "test_flip": 0.02}, lambda v: 0.41),
    ],
)  # fmt: skip
def test_each_check_fails_on_what_it_is_for(number: int, where: dict, change: Any) -> None:
    results = checked(changed(where, change))
    assert results[number - 1] == "fails"


def test_a_joint_head_that_is_better_is_noted() -> None:
    better = changed({"task": "cdm", "arm": "frozen", "reference": "joint"}, lambda v: 0.01)
    found = checks(tables(better))[7]
    assert found.result == "noted"
    assert "frozen − joint +0.0100" in found.measured


def test_what_was_not_run_fails_no_check() -> None:
    assert set(checked(run.bayes())) == {"passes", "not measured"}
    left_out = {"oracle", "joint"}
    rows = [
        row for row in run.everything() if not left_out & {row.get("arm"), row.get("reference")}
    ]
    results = checked(rows)
    assert results[7] == "not measured"
    assert "fails" not in results


# Tables and figures -------------------------------------------------------------------------------


def test_intervals_are_over_runs_and_of_evaluation_for_one() -> None:
    def cell(rows: list[dict[str, Any]]) -> str:
        table = next(
            table for table in sufficiency(tables(rows), 0.95)
            if table.caption.startswith("Contrastive risk")
        )  # fmt: skip
        row = next(row for row in table.rows if row[1] == "standard")
        assert row[0] == "0.2"
        return row[4].replace("\u00a0", " ")

    assert cell(run.measured()) == "0.080 (0.076 to 0.084)"
    values = [0.08 * (1 + 0.02 * extra) for extra in (0, 1, 1, 2)]
    mean = sum(values) / 4
    spread = math.sqrt(sum((value - mean) ** 2 for value in values) / 3 / 4) * 3.1824
    assert cell(run.everything()) == f"{mean:.3f} ({mean - spread:.3f} to {mean + spread:.3f})"


def test_every_table_stands_in_a_section_of_the_page() -> None:
    sections = next(s for s in studies.studies() if s.key == "sufficiency").sections
    found = sufficiency(tables(run.everything()), 0.95)
    assert {table.section for table in found if table.rows} == set(sections)
    for table in found:
        assert all(len(row) == len(table.heads) for row in table.rows), table.caption
    assert sufficiency(tables([]), 0.95) == []
    alone = sufficiency(tables(run.bayes()), 0.95)
    assert {table.section for table in alone if table.rows} == {
        "At the published size",
        "Ten checks",
    }


def test_a_run_of_this_study_alone_begins_with_it(tmp_path: Path) -> None:
    rows = run.everything()
    write_site(tables(rows), tmp_path, draw=False)
    front = (tmp_path / "index.html").read_text()
    runs = {(row["tree"], row["seed"]) for row in rows if "seed" in row}
    assert f"This run: {len(runs)} runs of the sufficiency study." in front
    first = re.search(r'class="card">\s*<div>\s*<h2>(.*?)</h2>', front)
    assert first is not None
    assert "approximately sufficient" in first[1]


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
def test_figures_are_drawn_or_say_why_not(figure: Figure) -> None:
    spec, data = compose(figure, tables(run.everything()), 12, 10_000)
    about = spec["usermeta"]["mispair"]
    assert "hole" not in about
    assert len(data) > 5
    assert any(character.isdigit() for character in about["sentence"])
    nothing, _ = compose(figure, tables([]), 12, 10_000)
    assert nothing["usermeta"]["mispair"]["hole"] == "the sufficiency study was not run"


def test_the_sentence_of_the_published_size_counts() -> None:
    figure = next(f for f in FIGURES if f.name == "sufficiency_published")
    spec, _ = compose(figure, tables(run.bayes({"cdm": 0.42, "vlm": 0.0197})), 12, 10_000)
    assert "more than the text is worth at 3 of 5 p" in spec["description"]
    spec, _ = compose(figure, tables(run.measured()), 12, 10_000)
    assert "published: true" in spec["usermeta"]["mispair"]["hole"]
