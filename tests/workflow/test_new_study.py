"""A new study is a folder, a file of rules, and its name in one list."""

from pathlib import Path

import pandas as pd

from tests.workflow.conftest import new_checkout

STEP = '''"""Measure a toy."""

from pathlib import Path

from pydantic import Field

from mispair.core import settings


class Settings(settings.Settings):
    height: float = Field(2.0, description="Height of the toy, in metres.")


def run(settings: Settings, *, toy: Path) -> None:
    """Write the height."""
    from mispair.core.metrics import write_metrics

    write_metrics(toy, [{"metric": "height", "value": settings.height, "seed": 0}], {})
'''
FILES = {
    "steps/measure_toy.py": STEP,
    "paths.py": "TOY = 'results/toy/toy.json'\n",
    "dag.py": "from mispair.toy.paths import TOY\ndef results(dag):\n    return [TOY]\n",
    "report/study.py": """from mispair.report.studies import Figure, ReportedStudy, columns
from mispair.toy.paths import TOY

STUDY = ReportedStudy(
    key="toy", title="Toy: how high it is", about="A toy is measured.", sections=("Heights",),
    tables={"toys": columns("metric* seed | value")}, results={TOY: "toy"},
    figures=(Figure("toy_heights", "Heights", "Each toy is a point.", section="Heights"),),
)
""",
    "report/rows.py": """from mispair.report.tables import of_metrics


def rows(results, models):
    return of_metrics("toys", results.get("toy", []))
""",
    "report/figures.py": """import altair as alt

from mispair.report.charts import Drawing
from mispair.report.texts import Note


def toy_heights(tables):
    chart = alt.Chart(tables.toys).mark_point().encode(x="seed:Q", y="value:Q")
    return Drawing(chart, tables.toys, [Note("toy", "figure_toys", toys=len(tables.toys))])
""",
    "report/claims.py": """from mispair.report.claims import Claim
from mispair.report.measures import Level, rows
from mispair.report.questions import Question

HIGH = Claim(
    "toy-high", "toy", "Toys are higher than two metres.", "figure 1", "toy_heights",
    Level(rows("toys", over="metric", metric="height").select, unit="toy"),
    rule="level", bound=2.0, unit="m", needs="studies: [toy]",
)
QUESTIONS = (Question("high", "Are toys high?", ("toy-high",)),)
""",
    "report/texts.md.j2": """{% macro answer_high(a) -%}
Toys are {{ a.lead[0].effect.value | number(1) }} m high{{ " for sure"
if a.lead[0].outcome == "supports" }}.
{%- endmacro %}

{% macro figure_toys(toys) -%}{{ count(toys, "toy") }} measured.{%- endmacro %}
""",
    "report/pages.py": """from mispair.report.pages.study_pages import Pages
from mispair.report.table import Table
from mispair.toy.report import claims


def printed(tables, confidence):
    rows = tuple((f"{value:g} m",) for value in tables.toys["value"])
    return [Table("Heights of toys", ("height",), rows, section="Heights")]


PAGES = Pages(claims=(claims.HIGH,), questions=claims.QUESTIONS, tables=printed)
""",
}
RULES = """from mispair.toy.paths import TOY


use rule step as measure_toy with:
    output:
        toy=TOY,
    pathvars:
        job="measure_toy",
    params:
        **dag.step("measure_toy"),


rule toy:
    input:
        dag.results("toy"),
"""


def test_a_study_is_a_folder_a_file_of_rules_and_a_name(tmp_path: Path) -> None:
    run = new_checkout(tmp_path / "mispair")
    package = run.folder / "workflow/mispair"
    for name, text in FILES.items():
        path = package / "toy" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for folder in ("", "steps", "report"):
        (package / "toy" / folder / "__init__.py").touch()
    (run.folder / "workflow/rules/toy.smk").write_text(RULES)
    names = package / "report/studies.py"
    names.write_text(names.read_text().replace('"pretraining"', '"pretraining", "toy"', 1))
    config = run.folder / "toy.yaml"
    config.write_text("studies: [toy]\nmeasure_toy:\n  height: 3\n")
    given = ("--configfile", "toy.yaml")
    assert run.planned("toy", *given) == {"measure_toy": 1, "toy": 1}
    run.snakemake(*given)
    reports = run.folder / "reports"
    assert pd.read_csv(reports / "tables/toys.csv")["value"].tolist() == [3]
    assert (reports / "figures/toy/toy_heights.svg").read_text().startswith("<svg")
    page = (reports / "pages/toy.html").read_text()
    assert "3\N{NO-BREAK SPACE}m" in page
    assert "1 toy measured." in page
    front = (reports / "index.html").read_text()
    assert "Are toys high?" in front
    assert "Toys are higher than two metres." in front
    assert "Toys are 3.0\N{NO-BREAK SPACE}m high." in front
    claims = pd.read_csv(reports / "tables/claims.csv").set_index("claim")
    assert claims.loc["toy-high", ["outcome", "reason", "n"]].tolist() == [
        "cannot tell", "one replicate", 1
    ]  # fmt: skip
    # A sentence is an input of the study's figures and of the report, and of nothing else.
    texts = package / "toy/report/texts.md.j2"
    texts.write_text(texts.read_text().replace("high", "tall", 1))
    planned = run.planned(*given)
    assert planned.keys() <= {"draw_figures", "write_report", "record_run", "all", "default"}
    assert planned["draw_figures"] == 1
    texts.write_text(texts.read_text().replace("tall", "high", 1))
    config.write_text("studies: [toy]\nmeasure_toy:\n  height: 4\n")
    assert run.planned(*given)["measure_toy"] == 1
