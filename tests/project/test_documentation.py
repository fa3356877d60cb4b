"""README and the documentation site: numbers, links, examples, and a build without a network."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
import tomllib
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from mispair import config
from mispair.core.files import UserError
from mispair.evaluation import purity
from mispair.report.verdicts import OUTCOMES, Claim
from tests.bench import page, readme
from tests.bench import run as bench_run

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
PAGES = sorted((ROOT / "docs").rglob("*.md"))
OTHERS = [ROOT / "CONTRIBUTING.md", ROOT / "config" / "README.md"]
TEXTS = [README, ROOT / "CHANGELOG.md", *OTHERS, *PAGES]
PROSE = [README, *OTHERS, *PAGES]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


# README's numbers --------------------------------------------------------------------------------


def primary_claims() -> set[str]:
    """Return the keys of all claims that are declared as primary."""
    keys = set()
    for path in (ROOT / "workflow" / "mispair").glob("*/report/claims*.py"):
        module = import_module(".".join(path.relative_to(ROOT / "workflow").with_suffix("").parts))
        for value in vars(module).values():
            members = value.values() if isinstance(value, dict) else value
            for claim in members if isinstance(members, (list, tuple, set)) else [value]:
                if isinstance(claim, Claim) and claim.primary:
                    keys.add(claim.key)
            if isinstance(value, dict):
                keys |= {c.key for c in value.values() if isinstance(c, Claim) and c.primary}
    return keys


def made_up_run(folder: Path, **changes: Any) -> Path:
    """Write ``claims.csv`` and the records of three jobs of a run that never was."""
    rows = [
        {
            "claim": key, "preset": "as-run" if key == "filtered-accuracy" else math.nan,
            "outcome": outcome, "effect": 0.0241, "low": 0.0236, "high": 0.0246,
            "measured_value": value, "published_value": 0.0708 if value == value else math.nan,
            "quantity": "change from 0 to 0.8" if value == value else math.nan, **changes,
        }
        for key, outcome, value in zip(
            readme.CLAIMS, OUTCOMES, (0.0241, -0.9, math.nan, 0.0241, math.nan), strict=True
        )
    ]  # fmt: skip
    tables = folder / "reports" / "tables"
    tables.mkdir(parents=True)
    pd.DataFrame(rows).to_csv(tables / "claims.csv", index=False)
    for number in range(3):
        record = folder / "benchmarks" / "step" / f"{number}.tsv"
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text("s\tmax_rss\n60.0\t1\n")
        os.utime(record, (1000 + 60 * number, 1000 + 60 * number))
    return folder


def test_readme_names_exactly_the_primary_claims() -> None:
    assert set(readme.CLAIMS) == primary_claims()


def test_readme_is_filled_from_a_run_and_filling_it_again_changes_nothing(tmp_path: Path) -> None:
    run, copy = made_up_run(tmp_path), tmp_path / "README.md"
    copy.write_text(README.read_text())
    readme.fill(copy, run, 2)
    once = copy.read_text()
    readme.fill(copy, run, 2)
    assert copy.read_text() == once
    _, *rows = table(once)
    cells = {row[0]: row[1:] for row in rows}
    measured = {key: cells[text] for key, text in readme.CLAIMS.items()}
    first, second, third, *_ = measured.values()
    assert first == [
        f"**{OUTCOMES[0]}**", "+0.024 (+0.024 to +0.025), change from 0 to 0.8", "+0.071",
    ]  # fmt: skip
    assert second[1:] == ["−0.900, change from 0 to 0.8", "+0.071"]  # not what the interval is of
    assert third[1:] == ["+0.024 (+0.024 to +0.025)", "no number"]
    assert "3 minutes on 2 cores (3 jobs)" in part(once, "minutes")
    outside = [re.sub(r"<!-- (\w+) -->.*?<!-- /\1 -->", "", text, flags=re.DOTALL)
               for text in (once, README.read_text())]  # fmt: skip
    assert outside[0] == outside[1]


def test_a_run_without_the_claims_or_of_several_days_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="make demo"):
        readme.fill(README, tmp_path, 2)
    run = made_up_run(tmp_path / "doubled")
    claims = pd.read_csv(run / "reports/tables/claims.csv")
    with pytest.raises(UserError, match="overlap-rises"):
        readme.numbers(claims[claims["claim"] != "overlap-rises"])
    page = run / "reports/index.html"
    page.write_text("<html><body>" + "word " * 600)
    readme.refuse_long_pages(page.parent)
    page.write_text("<html><body>" + "word " * 601)
    with pytest.raises(UserError, match="601 words, and its budget is 600"):
        readme.fill(README, run, 2)
    os.utime(run / "benchmarks/step/2.tsv", (90000, 90000))
    with pytest.raises(UserError, match="several"):
        readme.minutes(run / "benchmarks", 2)


def part(text: str, marker: str) -> str:
    found = re.findall(rf"^<!-- {marker} -->\n(.*?)^<!-- /{marker} -->$", text, re.M | re.S)
    assert len(found) == 1, marker
    return found[0]


def table(text: str) -> list[list[str]]:
    rows = [line.strip("|").split("|") for line in part(text, "numbers").splitlines()]
    del rows[1]
    return [[cell.strip() for cell in row] for row in rows]


def test_readme_has_the_numbers_in_the_form_of_the_program() -> None:
    head, *rows = table(README.read_text())
    assert head == list(readme.HEAD)
    assert [row[0] for row in rows] == list(readme.CLAIMS.values())
    number = r"[+−]?\d+\.\d{3}"
    for _, verdict, measured, published in rows:
        assert verdict.strip("*") in OUTCOMES
        assert re.fullmatch(rf"–|{number}( \({number} to {number}\))?(, .+)?", measured)
        assert re.fullmatch(rf"no number|{number}", published)
    minutes = part(README.read_text(), "minutes")
    assert re.fullmatch(r"The last demo took \d+ minutes on \d+ cores \(\d+ jobs\), .*\n", minutes)


def test_readme_is_short_and_has_measured_numbers_only_where_the_program_writes_them() -> None:
    text = README.read_text()
    assert len(text.splitlines()) <= 120
    text = re.sub(r"<!-- (\w+) -->.*?<!-- /\1 -->", "", text, flags=re.DOTALL)
    text = re.sub(r"^```.*?^```|\]\([^)]*\)|`[^`]*`", "", text, flags=re.DOTALL | re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = text.replace(f"Python {project['requires-python'].removeprefix('>=')}", "")
    text = text.replace("Apache 2.0", "")
    assert re.findall(r"\d+[.,]\d+|\d+ ?(?:%|s\b|min|hours|[kMG]B)", text) == []


# Benchmarks --------------------------------------------------------------------------------------


def test_every_bench_has_a_table_and_replaces_no_other() -> None:
    text = bench_run.PAGE.read_text()
    assert sorted(page.names(text)) == sorted(bench_run.BENCHES)
    table = page.block([("a | b", "2 s", "4 s", "2x")], date(2026, 3, 1), "2 cores of X")
    changed = readme.filled(text, "bench: pruning", table)
    assert "1 March 2026, 2 cores of X:" in changed
    assert "| a \\| b | 2 s | 4 s | 2x |" in changed
    parts = re.compile(r"<!-- bench: pruning -->.*?<!-- /bench: pruning -->", re.DOTALL)
    assert parts.sub("", changed) == parts.sub("", text) != text
    with pytest.raises(UserError, match="nowhere"):
        readme.filled(text, "bench: nowhere", table)


# Links and examples ------------------------------------------------------------------------------


@pytest.mark.parametrize("path", TEXTS, ids=name)
def test_every_local_link_leads_somewhere(path: Path) -> None:
    text = re.sub(r"^```.*?^```|`[^`]*`", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (path.parent / target).exists(), target


@pytest.mark.parametrize("path", PROSE, ids=name)
def test_every_configuration_that_is_named_exists(path: Path) -> None:
    for target in re.findall(r"(?:config|profiles)/[\w/-]+\.yaml", path.read_text()):
        assert (ROOT / target).exists(), target


@pytest.mark.parametrize("path", PROSE, ids=name)
def test_no_placeholder_is_left(path: Path) -> None:
    assert not re.findall(r"@[A-Z_]+@", path.read_text())


EXAMPLES = [
    (path, text)
    for path in PROSE
    for text in re.findall(r"^```yaml[^\n]*\n(.*?)^```$", path.read_text(), re.M | re.S)
]


@pytest.mark.parametrize(("path", "text"), EXAMPLES, ids=[name(path) for path, _ in EXAMPLES])
def test_every_example_is_a_configuration(path: Path, text: str) -> None:
    config.validate(yaml.safe_load(text), path.name)


# The site ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site; every warning is an error, such as a broken link or a page in no menu."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder)],
        cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "workflow"), "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return folder


def test_every_page_is_built_and_in_the_menu(site: Path) -> None:
    menu = (site / "index.html").read_text()
    for path in PAGES:
        page = path.relative_to(ROOT / "docs").with_suffix(".html")
        assert (site / page).exists()
        assert f'href="{page}"' in menu, page


def test_the_site_asks_nothing_of_a_network(site: Path) -> None:
    for path in site.rglob("*.html"):
        text = path.read_text()
        assert re.findall(r"<(?:script|img|iframe)[^>]*src=\"?(?:https?:)?//[^>]*", text) == []
        loaded = re.findall(r"<link[^>]*rel=\"?(?:stylesheet|preconnect|preload)[^>]*", text)
        assert not [link for link in loaded if "//" in link]


def test_texts_of_the_program_and_files_of_the_repository_are_part_of_the_site(site: Path) -> None:
    neurons = (site / "explanation" / "neurons.html").read_text()
    assert purity.DEFINITION.split("'")[0] in neurons
    assert "measure-purity" in (site / "reference" / "commands.html").read_text()
    assert "finetune_projection" in (site / "reference" / "config.html").read_text()
    assert (site / "files/config/cc12m.yaml").exists()
    assert not [path for path in site.rglob("*.html") if "<!-- from " in path.read_text()]
