"""The claim, tables and figures of towers trained from scratch, on made-up measurements."""

from pathlib import Path
from typing import Any

import pytest

from mispair.core.metrics import write_metrics
from mispair.pretraining.report.pages import CLAIMS, PAGES, SMALLEST, effects, less_clean, values
from mispair.pretraining.report.rows import rows as of_pretraining
from mispair.pretraining.settings import CLEAN, PROMPTS, TowerSettings
from mispair.report import studies
from mispair.report.figures import draw_of
from mispair.report.judge import Verdict, judge
from mispair.report.statistics import effect_of_mean
from mispair.report.tables import Tables, tidy
from tests.pretraining.pretraining_run import MIXING, NOISE, rows

SCHEMES = TowerSettings().schemes


def tables(*arguments: Any, **more: Any) -> Tables:
    return Tables({"pretraining": tidy("pretraining", rows(*arguments, **more))})


def judged(found: Tables) -> Verdict:
    (claim,) = CLAIMS
    return judge(claim, found, 0.95)


def test_seeds_are_paired_with_clean_towers() -> None:
    found = values(tables().pretraining, "mixing", tower="image", basis="identified")
    apart = less_clean(found)
    assert set(apart["scheme"]) == {*SCHEMES}
    spurious = apart[apart["scheme"] == "spurious"]["value"].tolist()
    assert spurious == pytest.approx([0.1] * 4)  # what seeds differ in is in both
    random = effects(found, 0.95)["random", 0.4]
    expected = effect_of_mean([0.001 + 2 * noise for noise in NOISE], 0.95, "seed")
    assert random.value == pytest.approx(expected.value)
    assert (random.low, random.high) == pytest.approx((expected.low, expected.high))
    assert random.n == 4


def noisy(spurious: float, random: float = 0.001, missing: float = -0.002) -> Tables:
    """Return measurements in which the differences of seeds spread."""
    made = rows({CLEAN: 0.0, "random": random, "spurious": spurious, "missing": missing})
    for row in made:
        if row["metric"] == "mixing" and row["scheme"] in ("spurious", "missing"):
            row["value"] += NOISE[(row["seed"] + 1) % 4]
    return Tables({"pretraining": tidy("pretraining", made)})


@pytest.mark.parametrize(
    ("spurious", "outcome"),
    [(0.1, "supports"), (-0.1, "contradicts"), (0.001, "no such effect"), (0.02, "direction only")],
)
def test_the_claim_is_on_spurious_captions(spurious: float, outcome: str) -> None:
    verdict = judged(noisy(spurious))
    assert verdict.outcome == outcome
    assert verdict.bound == SMALLEST
    assert verdict.effect.value == pytest.approx(spurious, abs=2e-3)
    assert verdict.effect.n == 4


@pytest.mark.parametrize(
    ("random", "missing", "limited"),
    [(0.001, -0.002, ()),
     (0.08, -0.002, ("Captions of other pictures",)),
     (0.001, 0.09, ("Captions without some features",))],
)  # fmt: skip
def test_other_wrong_captions_that_mix_limit_the_claim(random, missing, limited) -> None:
    verdict = judged(noisy(0.1, random, missing))
    assert (verdict.outcome, verdict.limited) == ("supports", limited)
    assert verdict.controls[0].share == pytest.approx(random / 0.1, abs=0.02)


def test_towers_at_chance_cannot_tell() -> None:
    made = noisy(0.1).pretraining
    made.loc[made["metric"] == "acc1", "value"] = 0.12
    verdict = judged(Tables({"pretraining": made}))
    assert (verdict.outcome, verdict.measured.gate) == ("cannot tell", "not learnt")


def test_one_seed_cannot_tell_and_a_missing_scheme_is_not_measured() -> None:
    assert judged(tables(seeds=1)).outcome == "cannot tell"
    without = {name: value for name, value in MIXING.items() if name != "missing"}
    assert judged(tables(without)).controls[1].finding == "not measured"
    without = {name: value for name, value in MIXING.items() if name != "spurious"}
    assert judged(tables(without)).outcome == "not measured"


def test_linear_readouts_that_do_not_mix_limit_the_claim() -> None:
    made = noisy(0.1).pretraining
    linear = (made["basis"] == "linear") & (made["scheme"] == "spurious")
    made.loc[linear, "value"] -= 0.1
    assert judged(Tables({"pretraining": made})).limited == ("Linear readouts",)


def test_the_table_compares_each_scheme_with_clean_captions() -> None:
    (measures,) = PAGES.tables(noisy(0.1), 0.95)
    accuracy = {row[1]: row[3] for row in measures.rows if row[0].startswith("accuracy")}
    assert accuracy.keys() == {CLEAN, *(f"{scheme} 0.4" for scheme in SCHEMES)}
    assert accuracy[CLEAN] is None
    assert measures.section in studies.study("pretraining").sections


def test_the_figure_shows_every_seed_and_interval() -> None:
    drawing = draw_of("pretraining_mixing")(noisy(0.1))
    runs = drawing.data[drawing.data["layer"] == "run"]
    assert len(runs) == 3 * 4 * 7
    means = drawing.data[drawing.data["layer"] == "mean"]
    chosen = means[(means["tower"] == "image") & (means["basis"] == PROMPTS)]
    spurious = chosen[chosen["scheme"] == "spurious"].iloc[0]
    assert spurious["low"] < spurious["value"] < spurious["high"]


def test_rows_keep_their_scheme_and_seed_and_name_their_training(tmp_path: Path) -> None:
    (first, *_) = rows()
    about = {"trained": {"scheme": "random", "rate": "0.0", "draw": "0"}}
    write_metrics(tmp_path / "mixing.json", [first], about)
    found = of_pretraining({"pretraining": [tmp_path / "mixing.json"]}, {})
    table = tidy("pretraining", found["pretraining"])
    assert table.loc[0, ["scheme", "seed", "basis"]].tolist() == [CLEAN, 0, first["basis"]]
    assert {row["condition"] for row in found["provenance"]} == {"random~0.0/draw~0"}
