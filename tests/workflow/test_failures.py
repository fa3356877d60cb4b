"""Jobs that fail: what the end of the run tells, and the report of all that there is."""

import json
import os
import re
import signal
import struct
import subprocess
import sys
import time
from collections import Counter
from html import unescape
from pathlib import Path

import pytest

from tests.workflow.conftest import SMOKE, Checkout

ARM = "pretrained_random~0.5"
FOLDER = f"results/arms/scenes/scenes-small/{ARM}"
PROJECTION = f"{FOLDER}/projection.safetensors"
EVIL = "<script>alert(1)</script>"
FAILING = ["fit_linear_probe", "measure_arm", "measure_semantics"]
BLOCKED = dict.fromkeys(
    ("compare_arms", "gather_metrics", "record_run", "draw_figures", "export_metrics",
     "write_report"), 1,
)  # fmt: skip
"""Jobs that need what failed."""
JOBS = len(FAILING) + len(BLOCKED)
LEFTOVERS = ("logs/failures.json", "reports/incomplete", "logs/incomplete_report")


def one_study(run: Checkout) -> list[str]:
    """Return the options of Snakemake for the image-text study of the smoke configuration."""
    (run.folder / "one.yaml").write_text("studies: [image_text]\n")
    return ["--configfile", SMOKE, "one.yaml"]


@pytest.fixture(scope="module")
def broken(finished: Checkout, tmp_path_factory: pytest.TempPathFactory) -> tuple[Checkout, str]:
    """Damage the projections of one arm, and go on where that is no obstacle."""
    run = finished.copy(tmp_path_factory.mktemp("failures") / "copy")
    header = json.dumps({"a": {"dtype": EVIL, "shape": [1], "data_offsets": [0, 4]}}).encode()
    damaged = struct.pack("<Q", len(header)) + header + bytes(4)
    (run.folder / PROJECTION).write_bytes(damaged)
    return run, run.snakemake("--keep-going", *one_study(run), check=False)


def test_a_run_without_failures_leaves_nothing_of_them(finished: Checkout) -> None:
    assert [name for name in LEFTOVERS if (finished.folder / name).exists()] == []


def test_every_failed_job_is_told_once_with_rule_wildcards_and_last_lines(broken) -> None:
    run, printed = broken
    record = json.loads((run.folder / "logs/failures.json").read_text())
    assert sorted(job["rule"] for job in record["failed"]) == FAILING
    assert {job["wildcards"]["arm"] for job in record["failed"]} == {ARM}
    assert record["jobs"] == JOBS
    assert Counter(job["rule"] for job in record["not_run"]) == BLOCKED
    told = printed.split("Exiting because")[1]
    assert (
        f"{len(FAILING)} of {JOBS} jobs failed; "
        f"{len(BLOCKED)} more could not be run without what failed." in told
    )
    for number, job in enumerate(record["failed"], 1):
        assert f"{number}. {job['rule']} (arm={ARM}, corpus=scenes, towers=scenes-small)" in told
        last = (run.folder / job["log"]).read_text().splitlines()[-20:]
        assert [line.rstrip() for line in last if line.strip()] == job["lines"]
        # Snakemake says where the log is when it happens; what is in it stands there once.
        # Of a rule with several steps, the one that failed is named.
        step = {"measure_arm": "measure_purity"}.get(job["rule"], job["rule"])
        assert job["lines"][-1].startswith(f"mispair {step.replace('_', '-')}: {PROJECTION}")
        assert printed.count(f"| {job['lines'][-1]}") == printed.count(job["lines"][-1]) == 1


def test_the_report_has_what_there_is_and_names_each_hole_with_its_reason(broken, finished) -> None:
    run, printed = broken
    page = run.folder / "reports/incomplete/index.html"
    assert f"Incomplete report of the existing results: {page}" in printed
    assert printed.strip().splitlines()[-1] == f"The report: {page.resolve().as_uri()}"
    html = "".join(path.read_text() for path in sorted((page.parent / "pages").glob("*.html")))
    assert EVIL not in html  # a line of a log stays text
    text = re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", "", html)))
    assert f"Incomplete: {len(FAILING)} of {JOBS} jobs failed" in text
    assert f"`{EVIL}`" in text
    for rule in FAILING:
        hole = f"Missing: {rule} (arm={ARM}, corpus=scenes, towers=scenes-small), failed: mispair"
        assert hole in text
    assert "Missing: compare_arms (corpus=scenes, towers=scenes-small), not run, because" in text
    # The arm is the end of the sweep: its claims have no measurement, and others fewer.
    claims = (page.parent / "pages/claims.html").read_text()
    assert "judged without" in claims.partition('id="claim-construct-validity"')[2]
    falls = next(line for line in claims.splitlines() if "Zero-shot accuracy falls" in line)
    assert "that are missing" in falls
    assert "<code>" not in falls
    # The others are there with the very rows of the complete report.
    name = "tables/purity.csv"
    whole = (finished.folder / "reports" / name).read_text().splitlines()
    own = (page.parent / name).read_text().splitlines()
    lost = [line for line in whole if line.startswith("pretrained,random,0.5,")]
    assert lost
    assert own == [line for line in whole if line not in lost]
    for target in re.findall(r'href="\.\./((?:figures|tables)/[^"]+)"', html):
        assert (page.parent / target).is_file(), target


def test_the_complete_report_is_not_touched_and_what_failed_comes_back_the_same(broken, finished):
    run, _ = broken

    def reports(folder: Path) -> dict[str, bytes]:
        files = [path for path in sorted(folder.rglob("*.*")) if path.is_file()]
        return {str(path.relative_to(folder)): path.read_bytes() for path in files}

    complete = reports(finished.folder / "reports")
    after = reports(run.folder / "reports")
    assert {name: after[name] for name in after if not name.startswith("incomplete/")} == complete
    (run.folder / PROJECTION).write_bytes((finished.folder / PROJECTION).read_bytes())
    options = one_study(run)
    assert run.planned(*options) == dict.fromkeys(FAILING, 1) | BLOCKED
    assert run.planned("image_text", *options) == dict.fromkeys(
        [*FAILING, "compare_arms", "image_text"], 1
    )
    run.snakemake("image_text", *options)
    again, before = run.results(), finished.results()
    assert [name for name in before if again[name] != before[name]] == []
    assert [name for name in LEFTOVERS if (run.folder / name).exists()] == []


def test_without_keep_going_there_is_a_summary_and_no_report(finished: Checkout, run: Checkout):
    (run.folder / PROJECTION).write_bytes(b"damaged")
    printed = run.snakemake("--cores", "1", *one_study(run), check=False)
    assert f"1 of {JOBS} jobs failed" in printed
    assert "because the run stopped (--keep-going runs them)" in printed
    assert "ncomplete report" not in printed
    assert not (run.folder / "reports/incomplete").exists()


STOPPED = ("make_scenes", "simulate")


def test_ctrl_c_is_told_as_an_interruption(empty: Checkout) -> None:
    """Both a step that saves its state and one that does not are stopped while they run."""
    long = (
        "\nmake_scenes: {shards: 90, pairs_per_shard: 2000}\nsimulate: {trials: 1, epochs: 900}\n"
    )
    (empty.folder / "mine.yaml").write_text("studies: [simulation, image_text]" + long)
    log = empty.folder / "printed.log"
    simulated = "results/simulation/as-run/cs~0.3/trials~0-0.json"
    command = [sys.executable, "-m", "snakemake", simulated, "results/scenes/shards/00000.tar",
               "--cores", "3", "--configfile", "mine.yaml"]  # fmt: skip
    with log.open("w") as printed:
        process = subprocess.Popen(
            command, cwd=empty.folder, stdout=printed, stderr=printed, start_new_session=True
        )
        try:
            until = time.monotonic() + 120
            while not all(any(empty.folder.glob(f"logs/{step}*")) for step in STOPPED):
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < until, log.read_text()
                time.sleep(0.2)
            time.sleep(5)
        finally:
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        assert process.wait(120) != 0
    text = log.read_text()
    assert "Interrupted: 0 of 2 jobs were done" in text
    assert "Error" not in text
    assert "Traceback" not in text + "".join(
        path.read_text() for path in (empty.folder / "logs").rglob("*.log")
    )
    assert not (empty.folder / "logs/failures.json").exists()
