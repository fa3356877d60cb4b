"""Whole runs of the real Snakefile, and what they leave."""

import re

import pandas as pd

from mispair.pairs.corruption.scheme import schemes
from tests.workflow.conftest import SMOKE, Checkout


def test_the_report_is_there_and_nothing_half_written(finished: Checkout) -> None:
    page = (finished.folder / "reports/index.html").read_text()
    assert "</html>" in page
    left = [path for path in finished.folder.rglob("*.part") if ".snakemake" not in path.parts]
    assert left == []


def test_every_step_leaves_a_log_and_a_benchmark(finished: Checkout) -> None:
    for folder in ("logs", "benchmarks"):
        names = {path.relative_to(finished.folder / folder).parts[0].split(".")[0]
                 for path in (finished.folder / folder).rglob("*") if path.is_file()}  # fmt: skip
        assert {"make_scenes", "index_shards", "encode_features", "encode_captions",
                "corrupt_captions", "finetune_projection", "make_evaluation_set",
                "prune_neurons", "simulate", "write_report"} <= names  # fmt: skip


def test_other_tools_find_every_arm_and_trial(finished: Checkout) -> None:
    reports, arms = finished.folder / "reports", finished.folder / "results/arms/scenes"
    tuned = {path.parent.name for path in arms.glob("*/*~*/projection.safetensors")}
    assert {path.name for path in (reports / "tensorboard/fine-tuning").iterdir()} == tuned
    assert list((reports / "tensorboard/simulation").glob("*/cs~*/filtered/trial~*"))
    assert len(list((reports / "latex").glob("*.tex"))) > 10
    union = pd.read_csv(reports / "tables/metrics.csv", low_memory=False)
    whole = pd.read_parquet(reports / "tables/metrics.parquet")
    assert 0 < len(union) < len(whole)
    parts = ["neuron", "bin_low", "classname", "feature", "x", "label", "pair", "t"]
    parts = whole[[name for name in parts if name in whole]].notna().any(axis=1)
    assert len(union) == len(whole[~parts])


def test_every_scheme_runs_and_rewritten_captions_are_encoded(finished: Checkout) -> None:
    declared = schemes()
    purity = pd.read_csv(finished.folder / "reports/tables/purity.csv")
    assert set(purity["scheme"].dropna()) == declared.keys()
    features = finished.folder / "results/features/scenes/scenes-small"
    encoded = {path.stem.split("~")[0] for path in features.glob("*~*.parquet")}
    assert encoded == {name for name, scheme in declared.items() if scheme.writes}
    page = (finished.folder / "reports/pages/image_text.html").read_text()
    assert [name for name in declared if name not in page] == []


def test_every_distinct_caption_is_encoded_once(finished: Checkout) -> None:
    tables = finished.folder / "reports/tables"
    encoding, corpus = (pd.read_csv(tables / f"{name}.csv") for name in ("encoding", "corpus"))
    encoded = encoding.loc[encoding["metric"] == "captions", "value"].sum()
    assert encoded == corpus.loc[corpus["metric"] == "captions_distinct", "value"].item()
    # Captions of scenes are alike: they stand in several groups of shards.
    groups = (finished.folder / "results/pairs/scenes/index").glob("????.parquet")
    texts = [pd.read_parquet(path)["caption_id"].nunique() for path in groups]
    assert sum(texts) > encoded


def test_snakemake_report_is_complete(run: Checkout) -> None:
    run.snakemake("--report", "snakemake-report.html")
    written = run.folder / "snakemake-report.html"
    assert written.stat().st_size > 100_000
    assert "System Message" not in written.read_text()  # docutils' complaints on the first page


def test_lint_is_clean(finished: Checkout) -> None:
    assert "Congratulations" in finished.snakemake("--lint")


def test_towers_can_be_trained_anew(empty: Checkout) -> None:
    """One epoch on a tiny corpus, and the DAG goes on with the result."""
    smoke = (empty.folder / SMOKE).read_text()
    training = (
        "towers: train\npretrain_towers: {epochs: 1, warmup: 0, batch_size: 40, workers: 0}\n"
    )
    (empty.folder / "mine.yaml").write_text(smoke + training)
    projection = "results/arms/scenes/trained/untouched/projection.safetensors"
    empty.snakemake(projection, "--configfile", "mine.yaml")
    assert (empty.folder / projection).exists()
    assert (empty.folder / "results/towers/trained/training.json").exists()


def test_a_companion_study_runs_by_its_target_alone(empty: Checkout) -> None:
    """The default run leaves it out; its target runs it without a key of the configuration."""
    (empty.folder / "tiny.yaml").write_text(
        "draw_trees: {depth: 1}\nmeasure_bayes: {published: false, samples: 100}\n"
        "train_two_layer:\n  grid:\n"
        "    - {part: sweep, data_set: xor4, stepsizes: [16], seeds: 1, steps: 50}\n"
    )
    tiny = ("--configfile", "tiny.yaml")
    assert not {"measure_bayes", "train_two_layer"} & set(empty.planned(*tiny))
    assert {"train_encoders", "train_head"} <= set(empty.planned("sufficiency", *tiny))
    empty.snakemake("stepsize", *tiny)
    made = "results/stepsize/sweep/xor4/leaky_softplus"
    assert sorted(empty.results()) == [f"{made}.json", f"{made}.run.json"]


def test_the_target_of_a_study_that_is_not_listed_is_refused(empty: Checkout) -> None:
    message = empty.snakemake("pretraining", "--dry-run", check=False)
    assert "studies" in message
    assert "pretraining-captions.yaml" in message


def test_waiting_jobs_are_looked_at_when_a_job_ends_and_not_each_second(finished: Checkout) -> None:
    """Snakemake's own default does the latter, once more a second for each job that has ended."""
    printed = finished.folder.with_name("verbose.log").read_text()
    ended = len(re.findall(r"^Finished jobid:", printed, re.MULTILINE))
    assert ended > 50
    assert 0 < len(re.findall(r"^Ready jobs:", printed, re.MULTILINE)) <= ended + 1
