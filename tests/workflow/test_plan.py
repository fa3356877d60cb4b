"""``mispair plan`` on the real workflow, against a run that was recorded."""

import json
import math
import os
import subprocess
from collections import Counter
from collections.abc import Callable, Collection
from functools import cache
from pathlib import Path

import pytest
import yaml

from bench.dag import at_home
from bench.processor_time import processor_seconds
from mispair.core.cost import read_benchmark
from mispair.planning.estimates import read_rates
from mispair.planning.plan import Plan, RuleTotals, Totals, text_of
from tests.fork_server import python
from tests.workflow.conftest import REPOSITORY, SMOKE, Checkout

SLURM = REPOSITORY / "profiles" / "slurm" / "config.yaml"


def planned(folder: Path, *options: str) -> dict:
    """Plan in a folder."""
    return json.loads(printed_plan(folder, "--json", *options))


def printed_plan(folder: Path, *options: str) -> str:
    """Plan in a folder, as a user does."""
    done = subprocess.run(
        [python(None), "-m", "mispair", "plan", *options],
        cwd=folder, text=True, capture_output=True, timeout=600, check=False,
        env={**os.environ, "PYTHONPATH": str(folder / "workflow")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def bytes_below(*folders: Path) -> int:
    files = (path for folder in folders for path in folder.rglob("*") if path.is_file())
    return sum(path.stat().st_size for path in files)


def plans_of(folder: Path, *options: str) -> list[dict]:
    """Plan four times, that on the fastest core first.

    How fast a core is, is measured in a moment, in which other programs can make it slower only.
    """
    plans = [planned(folder, "--cores", "2", *options) for _ in range(4)]
    return sorted(plans, key=lambda plan: plan["totals"]["core_hours"])


def is_within_a_factor_of_two(
    plans: list[dict], run: Checkout, steps: Collection[str] | None = None
) -> None:
    """Compare plans with benchmarks of all jobs, or of steps; all were processes.

    Two plans of the same jobs differ by how much the speed of this machine changed meanwhile, and
    it may have changed as much since the jobs ran.
    """
    hours = [plan["totals"]["core_hours"] for plan in (plans[0], plans[-1])]
    factor = 2 * hours[1] / hours[0]
    rules = [
        rule
        for rule in plans[0]["rules"]
        if rule["core_hours"] and (steps is None or rule["rule"] in steps)
    ]
    benchmarks, took = [], 0.0
    folder = run.folder / "benchmarks"
    for path in folder.rglob("*.tsv"):
        log = path.relative_to(folder).with_suffix(".log")
        if steps is None or log.parts[0].removesuffix(".log") in steps:
            measured = read_benchmark(path, run.folder / "logs" / log)
            benchmarks.append(measured or read_benchmark(path))  # a job that continued another
            # Processor time: other programs on this machine lengthen the wall time and not that.
            took += processor_seconds(path) or benchmarks[-1].seconds
    assert len(benchmarks) == sum(rule["jobs"] for rule in rules)
    assert took / factor < sum(rule["core_hours"] for rule in rules) * 3600 < took * factor
    largest = max(one.megabytes or 0.0 for one in benchmarks)
    assert largest / 2 < max(rule["megabytes"] for rule in rules) < largest * 2


def test_a_fresh_checkout_is_planned_within_a_factor_of_two(finished: Checkout, empty: Checkout):
    plans = plans_of(empty.folder, "--configfile", SMOKE)
    plan = plans[0]
    jobs = {rule["rule"]: rule["jobs"] for rule in plan["rules"]}
    assert jobs == empty.planned()
    assert {tuple(rule["sources"]) for rule in plan["rules"]} == {("reference",)}
    # Those of these two studies are compared with a run in which they have their own processes.
    others = jobs.keys() - empty.planned("simulation", "image_text").keys()
    is_within_a_factor_of_two(plans, finished, others)
    written = bytes_below(finished.folder / "results", finished.folder / "reports") / 1e6
    assert written / 2 < plan["totals"]["disk_megabytes"] < written * 2
    cores = plan["totals"]["core_hours"]
    assert cores / 2 * 0.99 < plan["totals"]["wall_hours"] < cores


def test_what_ran_here_is_taken_at_its_word(run: Checkout):
    assert "\n0 jobs: " in printed_plan(run.folder, "--configfile", SMOKE)
    arms = run.folder / "results" / "arms" / "scenes" / "scenes-small"
    lost = [arms / f"pretrained_random~{rate}" / "purity.json" for rate in ("0.5", "0")]
    for path in lost:
        path.unlink()
    of_rule = run.folder / "benchmarks" / "evaluate_zeroshot+measure_purity"
    benchmarks = of_rule / "scenes" / "scenes-small"
    one, other = (benchmarks / f"pretrained_random~{rate}.tsv" for rate in ("0.5", "0"))
    head = one.read_text().splitlines()[0]
    one.write_text(f"{head}\n7200.0\t4000.0\t7200.0\n")
    other.write_text("nothing that can be read")
    targets = [str(path.relative_to(run.folder)) for path in lost]
    plan = planned(run.folder, *targets, "--configfile", SMOKE)
    (purity,) = (rule for rule in plan["rules"] if rule["rule"] == "measure_arm")
    assert (purity["jobs"], purity["megabytes"]) == (2, pytest.approx(4000))
    assert purity["sources"] == ["its rule here", "this job"]
    # The other one has as much work, and takes as long as the one whose work is known.
    assert purity["core_hours"] == pytest.approx(4)
    assert any(str(other.name) in note and "left out" in note for note in plan["notes"])


@pytest.fixture(scope="module")
def cc12m(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict]:
    """Return a function that plans cc12m.yaml with empty files for its data."""
    folder = tmp_path_factory.mktemp("cc12m")
    options = ["--snakefile", str(REPOSITORY / "Snakefile"), "--directory", str(folder),
               "--configfile", str(at_home("cc12m", folder))]  # fmt: skip
    return cache(lambda *more: planned(REPOSITORY, *more, *options))


def test_a_corpus_of_millions_is_planned(cc12m: Callable[..., dict]):
    plan = cc12m("--cores", "64")
    rules = {rule["rule"]: rule for rule in plan["rules"]}
    for step in ("list_images", "index_shards", "encode_features"):
        assert rules[step]["jobs"] == 30  # of 2,176 shards
    assert rules["encode_captions"]["jobs"] == 4
    recorded = read_rates()[0].steps.keys()
    names = {rule: rule for rule in rules} | {
        "list_features": "list_files",
        "measure_arm": "evaluate_zeroshot+measure_purity",
        # The only step of several variants: by features, and not by words as in the demo.
        "find_similar_captions": "find_similar_captions:features",
    }
    unknown = {rule for rule, name in names.items() if name not in recorded}
    assert {rule for rule in rules if rules[rule]["sources"] == ["no record"]} == unknown
    assert plan["totals"]["jobs_without_record"] == sum(rules[rule]["jobs"] for rule in unknown)
    for rule in rules.keys() - unknown:
        assert rules[rule]["core_hours"] > 0
        assert rules[rule]["megabytes"] > 0
    on_gpu = {name for name, rule in rules.items() if rule["gpus"]}
    assert on_gpu == {"encode_captions", "encode_evaluation", "encode_features", "encode_prompts",
                      "find_similar_captions", "finetune_projection"}  # fmt: skip
    # Measured on CPUs only: a bound, or beyond all that was measured, and said to be.
    assert all(rules[name]["is_bound"] or rules[name]["is_far"] for name in on_gpu - unknown)
    assert not any(rules[name]["is_bound"] for name in rules.keys() - on_gpu)
    assert rules["encode_features"]["is_far"]
    # Features of 768 numbers of four bytes for what 2,176 shards of 10,000 pairs hold.
    features = 2176 * 10_000 * 768 * 4e-6
    assert rules["encode_features"]["disk_megabytes"] == pytest.approx(features, rel=0.1)
    # GPUs are shared by one: the wall time cannot be less than theirs.
    assert plan["totals"]["wall_hours"] >= plan["totals"]["gpu_hours"] > 1


def test_groups_are_submitted_as_one(cc12m: Callable[..., dict]):
    alone = cc12m("--executor", "slurm", "--jobs", "40")
    counts = Counter({rule["rule"]: rule["jobs"] for rule in alone["rules"]})
    assert alone["totals"]["submissions"] == counts.total() == alone["totals"]["jobs"]
    grouped = cc12m(
        "--executor", "slurm", "--jobs", "40", "--groups", "corrupt_captions=pairings",
        "measure_arm=measures", "--group-components", "pairings=9", "measures=10",
    )  # fmt: skip
    saved = counts["corrupt_captions"] - 1
    saved += counts["measure_arm"] - math.ceil(counts["measure_arm"] / 10)
    assert grouped["totals"]["submissions"] == counts.total() - saved
    assert grouped["totals"]["levels"] == alone["totals"]["levels"]


@pytest.mark.skipif(not SLURM.is_file(), reason="there is no profile for SLURM")
def test_the_profile_for_slurm_submits_few_jobs(cc12m: Callable[..., dict]):
    plan = cc12m("--workflow-profile", "slurm")
    assert plan["machine"]["executor"] == yaml.safe_load(SLURM.read_text())["executor"]
    assert 0 < plan["totals"]["submissions"] < 180
    assert plan["totals"]["levels"] <= 10


def test_a_cluster_gives_jobs_the_threads_that_they_ask_for(cc12m: Callable[..., dict]):
    """Without --cores a dry run would cut them to one core."""
    cluster = cc12m("--workflow-profile", "slurm")
    local = cc12m("--cores", "64")
    threads = [{rule["rule"]: rule["threads"] for rule in plan["rules"]}
               for plan in (cluster, local)]  # fmt: skip
    assert threads[0] == threads[1]
    assert threads[0]["encode_features"] > 12
    profile = yaml.safe_load(SLURM.read_text())
    assert cluster["machine"]["first_check"] == profile["slurm-init-seconds-before-status-checks"]
    assert cluster["machine"]["jobs"] == cluster["machine"]["cores"] == profile["jobs"]


@pytest.mark.parametrize(
    ("profile", "warns"),
    [
        (["--workflow-profile", "slurm"], True),
        (["--workflow-profile", "slurm", "--default-resources", "gpu_model=a100"], False),
        (["--cores", "64"], False),  # the table has the hours of this machine
    ],
)
def test_a_plan_for_a_cluster_names_hours_of_gpu_work_on_cpus(cc12m, profile, warns):
    plan = cc12m(*profile, "--config", "encode_features={device: auto}")
    (rule,) = (rule for rule in plan["rules"] if rule["rule"] == "encode_features")
    assert rule["gpus"] == (0 if warns or "--cores" in profile else 1)
    assert any("encode_features" in note for note in plan["notes"]) is warns


def test_a_mistake_in_the_configuration_is_said_and_nothing_is_planned(empty: Checkout):
    done = subprocess.run(
        [python(None), "-m", "mispair", "plan", "--config", "corpsu=x"],
        cwd=empty.folder, text=True, capture_output=True, timeout=600, check=False,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / "workflow")},
    )  # fmt: skip
    assert done.returncode == 2
    assert "Did you mean 'corpus'?" in done.stderr
    assert not done.stdout
    assert not (empty.folder / "results").exists()


def test_the_table_for_people(cc12m: Callable[..., dict]):
    plan = cc12m("--cores", "64")
    rules = [RuleTotals(**rule) for rule in plan["rules"]]
    printed = text_of(Plan(**plan | {"rules": rules, "totals": Totals(**plan["totals"])}))
    head, *rows = printed.splitlines()
    assert head.split() == ["rule", "jobs", "threads", "GPUs", "core", "time", "GPU", "time",
                            "memory", "of", "a", "job", "disk", "from"]  # fmt: skip
    assert any(row.startswith("encode_features") and row.endswith("far") for row in rows)
    assert "a guess" in printed
    assert "64 cores" in printed
