"""The emoji corpus end to end: packages, shards, joined towers, and all that is run on them."""

import subprocess

import numpy as np
import pandas as pd
import pytest
import yaml

from mispair.core.files import read_tensors
from mispair.core.metrics import read_metrics
from tests.emoji import made_up
from tests.fork_server import python
from tests.workflow.conftest import ONE_ARM, Checkout

CONFIGURATION = "config/emoji.yaml"


@pytest.fixture
def packed(empty: Checkout) -> Checkout:
    """A checkout with made-up packages, packed and joined as `make emoji` does."""
    made_up.write_packages(empty.folder / "data/emoji/packages")
    packages = ["--packages", "data/emoji/packages"]
    pack = ["--to", "data/emoji/corpus", "--side", "32", "--smallest-class", "4"]
    join = ["--pairs", "data/emoji/corpus/pairs", "--to", "data/emoji/towers"]
    join += ["--neurons", "32", "--image-size", "32", "--epochs", "2", "--no-record"]
    for words in (["pack-emoji", *packages, *pack], ["join-towers", *packages, *join]):
        command = [python(), "-m", "mispair", *words]
        done = subprocess.run(command, cwd=empty.folder, text=True, capture_output=True)
        assert done.returncode == 0, done.stderr
    return empty


@pytest.mark.slow
def test_emoji_run_from_packages_to_the_report(packed: Checkout) -> None:
    path = packed.folder / CONFIGURATION
    assert {"audit_pairs", "calibrate_audit"} <= packed.planned(
        "--configfile", CONFIGURATION
    ).keys()
    content = yaml.safe_load(path.read_text("utf-8"))
    fewer = {**ONE_ARM}
    fewer["studies"] = ["image_text", "repair"]
    fewer["filter_captions"] = {"rules": ["raw", "factor"]}
    fewer["recaption_pairs"] = {"steps": 20, "width": 16}
    path.write_text(yaml.safe_dump({**content, **fewer}), encoding="utf-8")
    packed.snakemake("--configfile", CONFIGURATION)
    reports = packed.folder / "reports"
    sets = set(pd.read_csv(reports / "tables/zeroshot.csv")["evaluation_set"])
    assert sets == {"emoji-subcategories", "emoji-subcategories-unseen", "emoji-retrieval"}
    corpus = pd.read_csv(reports / "tables/corpus.csv")
    licences = corpus[corpus["metric"] == "licences"]
    assert licences["licence"].str.startswith(("Apache-2.0: ", "CC-BY-SA-4.0: ", "MIT: ")).any()
    assert licences["value"].sum() == licences["n"].iloc[0]
    pages = " ".join(page.read_text("utf-8") for page in (reports / "pages").glob("*.html"))
    assert "CC-BY-SA-4.0: OpenMoji" in pages
    untouched = packed.folder / "results/arms/emoji/towers/untouched/projection.safetensors"
    tensors, _ = read_tensors(untouched)
    assert tensors["image_projection"].shape == (1, 1280, 32)
    assert tensors["text_projection"].shape == (1, made_up.WIDTH, 32)
    assert np.isfinite(tensors["logit_scale"]).all()
    # A captioner learned from the words of joined towers, and the books of the repair balance.
    ledger, _ = read_metrics(next((packed.folder / "results/repair").rglob("factor.json")))
    plain = [row for row in ledger if row.keys() == {"metric", "value", "seed"}]
    counts = {row["metric"]: row["value"] for row in plain if row["seed"] == 0}
    assert counts["read"] == sum(counts[name] for name in ("kept", "replaced", "dropped", "failed"))
    assert packed.planned("--configfile", CONFIGURATION) == {}
