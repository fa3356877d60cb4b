"""The page of a run in which jobs failed: every hole named where its number would stand."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from mispair.core.files import UserError
from mispair.dag import Dag
from mispair.image_text.report import study as image_text
from mispair.pretraining.report import study as pretraining
from mispair.report import studies
from mispair.report.pages import content as missing
from mispair.report.pages.content import Content
from mispair.report.pages.site import build
from mispair.report.tables import Tables
from mispair.simulation.report import study as simulation
from mispair.stepsize.report import study as stepsize
from mispair.stepsize.settings import PartName
from mispair.sufficiency.report import study as sufficiency
from tests.visible_words import words

RULES = Path(__file__).parents[2] / "workflow/rules"
EVIL = "<script>alert('x')</script>"
ARM = {"arm": "pretrained_random~0.5", "corpus": "scenes", "towers": "t"}


def failure(rule: str, **wildcards: str) -> dict[str, Any]:
    return {"rule": rule, "wildcards": wildcards, "slurm_jobs": ["4711"], "attempts": 2,
            "message": "SLURM status is: 'TIMEOUT'.", "log": f"logs/{EVIL}.log",
            "lines": ["begun", EVIL], "output": [f"results/{rule}"], "blocked": 1}  # fmt: skip


RECORD: dict[str, Any] = {
    "when": "today",
    "jobs": 40,
    "failed": [failure("simulate", condition="grid~0.02~independent~zero"),
               failure("finetune_projection", **ARM)],
    "not_run": [
        {"rule": "measure_arm", "wildcards": ARM, "output": ["results/p"], "because": 1},
        {"rule": "write_report", "wildcards": {}, "output": ["reports/index.html"], "because": 0},
    ],
}  # fmt: skip


def test_steps_and_sections_are_real() -> None:
    sections = {study.key: {*study.sections} for study in studies.studies()}
    rules = "".join(path.read_text() for path in RULES.glob("*.smk"))
    for printed in (image_text.PRINTED, sufficiency.PRINTED):
        assert printed.keys() <= {*re.findall(r"^use rule step as (\w+) with:", rules, re.M)}
    assert all(f" as {name} with" in rules for name in pretraining.RULES)
    assert stepsize.PARTS.keys() == {*get_args(PartName), "multilayer"}
    # What is measured for a page, and is not of every section, is printed somewhere.
    of_steps = {section for own in image_text.PRINTED.values() for section in own}
    assert of_steps == sections["image_text"] - {image_text.SAMPLES}
    of_parts = {section for own in stepsize.PARTS.values() for section in own}
    # What was corrected and chosen is printed whatever was run.
    assert of_parts == sections["stepsize"]
    assert {*simulation.CONDITIONS.values()} <= sections["simulation"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("results/arms/scenes/t/pretrained_random~0.1/purity.json", ("image_text", "purity")),
        ("mine/results/arms/scenes/t/untouched/probe.json", ("image_text", "zeroshot")),
        ("results/arms/checkpoints/a/untouched/purity.json", ("laclip", "purity")),
        ("results/arms/scenes/t/comparison.json", ("image_text", "comparisons")),
        ("results/pairs/scenes/index/0000.rejected.parquet", ("image_text", "rejected")),
        ("results/pairs/scenes/index/0000.parquet", ("image_text", "index")),
        ("results/stepsize/multilayer/digits.json", ("stepsize", "stepsize")),
        ("results/stepsize/sweep/xor4/tanh.json", ("stepsize", "stepsize")),
        ("results/sufficiency/2x3x10/tree~42/p~0.2/seed~0/transfer.json",
         ("sufficiency", "sufficiency")),
    ],
)  # fmt: skip
def test_a_result_belongs_to_the_study_that_wrote_it(path: str, expected: tuple[str, str]) -> None:
    study, kind = studies.of_result(path)
    assert (study.key, kind) == expected


def test_results_of_every_study_are_known_and_others_are_refused() -> None:
    model = {"name": "a", "model": "ViT-B-32", "pretrained": "openai"}
    for name in studies.NAMES:
        dag = Dag({"studies": [name], "models": [model] if name == "laclip" else []}, "x")
        of = {studies.of_result(path)[0].key for path in dag.results()}
        assert {name} <= of <= {name, "image_text"}  # whose table the counts of samples are in
    with pytest.raises(UserError, match="no study"):
        studies.of_result("results/arms/scenes/t/a/purity.txt")


def test_a_section_that_is_misspelt_raises() -> None:
    declared = studies.study("laclip")
    figure = replace(declared.figures[0], section="The modles")
    with pytest.raises(ValueError, match="The modles"):
        replace(declared, figures=(figure,))
    places = replace(declared, sections_of=lambda rule, wildcards: ("The modles",))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(studies, "studies", lambda: [places])
        with pytest.raises(ValueError, match="The modles"):
            missing.sections_of("laclip", {})


@pytest.mark.parametrize(
    ("rule", "wildcards", "expected"),
    [
        ("simulate", {"condition": "bridge~data"}, {"simulation"}),
        ("simulate", {"condition": "as-run"}, {"simulation"}),
        ("train_head", {"task": "cdm", "head": "frozen"}, {"sufficiency"}),
        ("draw_trees", {"size": "2x3x10", "tree": "42"}, {"sufficiency"}),
        ("measure_arm", {"corpus": "checkpoints", "arm": "untouched"}, {"laclip"}),
        ("measure_arm", {"corpus": "scenes", "arm": "untouched"}, {"image_text"}),
        ("train_two_layer", {"part": "sweep", "data_set": "xor4"}, {"stepsize"}),
        ("train_multilayer", {"data_set": "digits_parity"}, {"stepsize"}),
        ("train_small_towers", {"scheme": "random", "rate": "0.4", "draw": "0"}, {"pretraining"}),
        ("finetune_projection", ARM, set()),
    ],
)
def test_a_hole_stands_in_its_own_study(rule, wildcards, expected) -> None:
    assert {study for study, _ in missing.sections_of(rule, wildcards)} == expected


def site(failed: dict[str, Any] | None = None) -> dict[str, str]:
    """Return the pages of a run without any result."""
    content = Content(Tables({}), {}, {}, {}, None, title="Page", confidence=0.95,
                      failed=json.loads(json.dumps(failed)))  # fmt: skip
    return {name: text for name, text in build(content).files.items() if name.endswith(".html")}


def test_pages_of_nothing_say_what_is_missing_and_why() -> None:
    """Zero arms, no trial and no figure: there are still pages, and they are no complete ones."""
    found = site(RECORD)
    assert [name for name, html in found.items() if EVIL in html] == []
    assert "<title>Incomplete: Page</title>" in found["index.html"]
    text = words(found["index.html"])
    assert "Incomplete: 2 of 40 jobs failed; 2 more could not be run" in text
    cause = "finetune_projection (arm=pretrained_random~0.5, corpus=scenes, towers=t)"
    reason = f"SLURM status is: 'TIMEOUT'; {EVIL}"
    assert f"{cause}, SLURM job 4711: {reason} logs/{EVIL}.log; tried 2 times" in text
    image_text = words(found["image_text.html"])
    assert (
        "Missing: measure_arm (arm=pretrained_random~0.5, corpus=scenes, towers=t), not run, "
        f"because {cause} failed: {reason}" in image_text
    )
    assert "it could not be made from the existing results" in image_text
    grid = words(found["simulation.html"]).split("Sensitivity")[-1]
    assert grid.strip().startswith("Missing: simulate (condition=grid~0.02~independent~zero), fail")
    # Studies with holes were asked for, and have a page; the others were not.
    claims = words(found["claims.html"])
    assert "more claims need missing results or other configurations" in claims
    assert "needs 1 result that is missing" in claims
    assert "laclip.html" not in found


def test_names_of_files_in_reasons_are_code() -> None:
    """No backtick of a reason reaches a reader."""
    record = json.loads(json.dumps(RECORD))
    for failure in record["failed"]:
        failure["message"] = "Set `trusted` in `mine.yaml`."
    found = site(record)
    assert not [name for name, html in found.items() if "`" in words(html)]
    for name in ("image_text.html", "simulation.html", "index.html"):
        assert "<code>mine.yaml</code>" in found[name]


def test_complete_pages_have_none_of_it() -> None:
    html = "".join(site().values())
    assert "Incomplete" not in words(html)
    assert 'id="incomplete"' not in html
    assert "Missing:" not in words(html)
    assert "judged without" not in html
    assert "missing results or" not in html


def test_the_step_takes_the_record_or_leaves_it(tmp_path: Path) -> None:
    from mispair import cli

    record = tmp_path / "failures.json"
    record.write_text(json.dumps(RECORD))
    arguments = ["write-report", "--tables", "--figures", "--pieces",
                 "--record", "--benchmarks", str(tmp_path / "none")]  # fmt: skip
    fronts = [tmp_path / "a.html", tmp_path / "b.html"]
    outputs = {"pages": "pages", "latex": "latex", "claims": "claims.csv"}
    folder = [
        word for name, file in outputs.items() for word in (f"--{name}", str(tmp_path / file))
    ]
    assert cli.main([*arguments, *folder, "--page", str(fronts[0])]) == 0
    assert cli.main([*arguments, *folder, "--page", str(fronts[1]), "--failures", str(record)]) == 0
    incomplete = ['id="incomplete"' in front.read_text() for front in fronts]
    assert incomplete == [False, True]
