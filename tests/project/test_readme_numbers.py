"""README's table of verdicts: written from a demo, and compared with one."""

import json
import math
import os
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bench import readme
from mispair.core.files import UserError
from tests.visible_words import LANDING

README = Path(__file__).resolve().parents[2] / "README.md"
KEYS = [*readme.CLAIMS, *readme.REPAIR]
NUMBERS = {
    "effect": -0.0316, "shown_low": -0.0456, "shown_high": -0.0175, "published": -0.0837,
    "shown_confidence": 0.99,
}  # fmt: skip


def made_up_claims(**changes: dict[str, Any]) -> pd.DataFrame:
    """Return ``claims.csv`` of a run that never was, with changes of single claims."""
    rows = []
    for key in KEYS:
        row = {"claim": key, "study": "x", "preset": math.nan, "outcome": "supports", "near": False,
               "quantity": math.nan, **NUMBERS}  # fmt: skip
        rows.append({**row, **changes.get(key.replace("-", "_"), {})})
    return pd.DataFrame(rows)


def made_up_run(folder: Path, claims: pd.DataFrame) -> Path:
    """Write the claims, the record and the records of three jobs of a run."""
    tables = folder / "reports" / "tables"
    tables.mkdir(parents=True)
    claims.to_csv(tables / "claims.csv", index=False)
    (folder / "reports/index.html").write_text('<p class="opening">It <b>rises</b>.</p>')
    record = {"record": {"steps": {"simulate": {"devices": ["cpu (Y, avx2)"]}}}}
    (folder / "reports/run.json").write_text(json.dumps(record))
    for number in range(3):
        job = folder / "benchmarks" / "step" / f"{number}.tsv"
        job.parent.mkdir(parents=True, exist_ok=True)
        job.write_text("s\tmax_rss\n60.0\t1\n")
        os.utime(job, (1000 + 60 * number, 1000 + 60 * number))
    return folder


def cells(text: str) -> dict[str, list[str]]:
    """Return the rows of the table by their first cell."""
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines() if line[:1] == "|"]
    return {row[0].strip(): [cell.strip() for cell in row[1:]] for row in rows}


def row_of(key: str, claims: pd.DataFrame, **other: Any) -> list[str]:
    text = {**readme.CLAIMS, **readme.REPAIR}[key]
    return cells(readme.numbers(claims, {"cpu (Y)"}, **other))[text]


@pytest.mark.parametrize(("key", "quantity", "effect", "published"), [
    ("accuracy-falls", "points", "−3.2 (−4.6 to −1.8) points", "−8.4 points"),
    ("overlap-rises", "log", "−3.1 (−4.5 to −1.7) % directions", "−8.0 % directions"),
    ("overlap-rises", "mean |cos|", "−0.032 (−0.046 to −0.018) mean \\|cos\\|",
     "−0.084 mean \\|cos\\|"),
    ("construct-validity", "", "−0.032 (−0.046 to −0.018) rank correlation",
     "−0.084 rank correlation"),
    ("pruning-accuracy", "", "−0.032 (−0.046 to −0.018) share of images", "−0.084 share of images"),
    ("repair-accuracy", "points", "−3.2 (−4.6 to −1.8) points", "−8.4 points"),
])  # fmt: skip
def test_numbers_have_the_unit_of_their_claim(key, quantity, effect, published):
    claims = made_up_claims(**{key.replace("-", "_"): {"quantity": quantity}})
    assert row_of(key, claims)[1:] == [effect, published]


def test_missing_numbers_and_a_verdict_near_the_line() -> None:
    nothing = dict.fromkeys(NUMBERS, math.nan)
    claims = made_up_claims(
        overlap_rises=nothing,
        accuracy_falls={"near": True, "shown_low": math.nan, "quantity": "points"},
    )
    assert row_of("overlap-rises", claims) == ["**supports**", "–", "no number"]
    assert row_of("accuracy-falls", claims)[:2] == [
        "**supports**, close to another verdict",
        "−3.2 points",
    ]


def test_of_several_presets_the_public_code_s_counts() -> None:
    claims = made_up_claims(filtered_accuracy={"preset": "as-run", "effect": 0.1})
    other = made_up_claims(filtered_accuracy={"preset": "as-written", "effect": 0.9})
    both = pd.concat([claims, other[other["claim"] == "filtered-accuracy"]])
    assert row_of("filtered-accuracy", both)[1].startswith("+0.100")
    with pytest.raises(UserError, match="rows of the claim pruning-accuracy"):
        readme.numbers(pd.concat([claims, other[other["claim"] == "pruning-accuracy"]]), set())
    with pytest.raises(UserError, match="0 rows of the claim overlap-rises"):
        readme.numbers(claims[claims["claim"] != "overlap-rises"], set())
    with pytest.raises(UserError, match="no column near"):
        readme.numbers(claims.drop(columns="near"), set())


def test_several_pairs_of_towers_are_a_column() -> None:
    claims = made_up_claims()
    towers = claims[claims["claim"] == "accuracy-falls"].assign(outcome="cannot tell", effect=0.5)
    assert row_of("accuracy-falls", claims, towers=towers)[3].startswith("**cannot tell**, +0.500")
    assert row_of("overlap-rises", claims, towers=towers)[3] == readme.NOTHING
    assert len(row_of("overlap-rises", claims)) == 3


def test_readme_is_filled_and_a_check_finds_a_difference(tmp_path: Path) -> None:
    run, copy = made_up_run(tmp_path, made_up_claims()), tmp_path / "README.md"
    copy.write_text(README.read_text())
    with pytest.raises(UserError, match="not that of the demo"):
        readme.fill(copy, run, 2, check=True)
    assert copy.read_text() == README.read_text()
    readme.fill(copy, run, 2)
    once = copy.read_text()
    readme.fill(copy, run, 2)
    assert copy.read_text() == once
    assert "Y, avx2" in part(once, "numbers")
    assert part(once, "found") == "It **rises**.\n"
    assert "3 minutes on 2 cores." in part(once, "minutes")
    outside = [re.sub(r"<!-- (\w+) -->.*?<!-- /\1 -->", "", text, flags=re.DOTALL)
               for text in (once, README.read_text())]  # fmt: skip
    assert outside[0] == outside[1]
    # Another time of the run is no difference; another verdict or type of CPU is one.
    for number in range(3):
        os.utime(run / f"benchmarks/step/{number}.tsv", (1000 + 90 * number, 1000 + 90 * number))
    readme.fill(copy, run, 2, check=True)
    record = run / "reports/run.json"
    record.write_text(record.read_text().replace("avx2", "avx512"))
    with pytest.raises(UserError, match="avx512"):
        readme.fill(copy, run, 2, check=True)
    record.write_text(record.read_text().replace("avx512", "avx2"))
    front = run / "reports/index.html"
    front.write_text(front.read_text().replace("rises", "falls"))
    with pytest.raises(UserError, match="falls"):
        readme.fill(copy, run, 2, check=True)
    front.write_text(front.read_text().replace("falls", "rises"))
    made_up_claims(repair_overlap={"outcome": "cannot tell"}).to_csv(
        run / "reports/tables/claims.csv", index=False
    )
    with pytest.raises(UserError, match="cannot tell"):
        readme.fill(copy, run, 2, check=True)


def test_a_run_without_the_claims_or_of_several_days_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="make demo"):
        readme.fill(README, tmp_path, 2)
    run = made_up_run(tmp_path / "made-up", made_up_claims())
    page = run / "reports/index.html"
    page.write_text("<html><body>" + "word " * LANDING)
    readme.refuse_long_pages(page.parent)
    page.write_text("<html><body>" + "word " * (LANDING + 1))
    with pytest.raises(UserError, match=f"{LANDING + 1} words, and its budget is {LANDING}"):
        readme.fill(README, run, 2)
    os.utime(run / "benchmarks/step/2.tsv", (90000, 90000))
    with pytest.raises(UserError, match="several"):
        readme.minutes(run / "benchmarks", 2)
    for path in (run / "benchmarks/step").iterdir():
        os.utime(path, (1000, 1000))
    with pytest.raises(UserError, match="copy"):
        readme.minutes(run / "benchmarks", 2)


def part(text: str, marker: str) -> str:
    found = re.findall(rf"^<!-- {marker} -->\n(.*?)^<!-- /{marker} -->$", text, re.M | re.S)
    assert len(found) == 1, marker
    return found[0]


def test_readme_has_the_numbers_in_the_form_of_the_program() -> None:
    rows = cells(part(README.read_text(), "numbers"))
    head = [*rows]
    assert [head[0], *rows.pop(head[0])][:4] == list(readme.HEAD)
    assert [*rows][1:] == [*readme.CLAIMS.values(), *readme.REPAIR.values()]
    number = r"[+−]?\d+\.\d+"
    of_part = rf"([\w ]+ )?{number} \({number} to {number}\)"
    for verdict, effect, published, *_ in [*rows.values()][1:]:
        assert re.fullmatch(r"\*\*[a-z ]+\*\*(, close to another verdict)?", verdict)
        assert re.fullmatch(rf"–|{of_part}(, {of_part})* .+", effect)
        assert re.fullmatch(rf"no number|{number} .+", published)
    minutes = part(README.read_text(), "minutes")
    assert re.fullmatch(
        r"The installation takes about \d+ minutes .*, and \d+\.\d GB; "
        r".* add \d+ minutes? and \d+\.\d GB\. "
        r"The demo takes about \d+ minutes on \d+ cores\.\n", minutes
    )  # fmt: skip
