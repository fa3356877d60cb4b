"""A new scheme of corruption is one file."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import yaml

from tests.workflow.conftest import REPOSITORY, new_checkout

CONFIG = {
    "studies": ["image_text"],
    "make_scenes": {"shards": 1, "pairs_per_shard": 60},
    "corrupt_captions": {"schemes": ["random", "keep-three"], "rates": [0.0, 0.5]},
}


def test_a_scheme_is_one_file(tmp_path: Path) -> None:
    run = new_checkout(tmp_path / "mispair")
    (text,) = re.findall(
        r"<!-- scheme -->\n```python\n(.*?)```", (REPOSITORY / "CONTRIBUTING.md").read_text(), re.S
    )
    (run.folder / "workflow/mispair/pairs/corruption/schemes/keep_three.py").write_text(text)
    (run.folder / "mine.yaml").write_text(yaml.safe_dump(CONFIG))
    given = ("--configfile", "mine.yaml")
    planned = run.snakemake(*given, "--dry-run")
    # Texts that no pair had before are encoded.
    assert "results/features/scenes/scenes-small/keep-three~0.5.parquet" in planned
    assert "results/features/scenes/scenes-small/random~0.5.parquet" not in planned
    name = "results/pairs/scenes/pairing/keep-three~0.5"
    run.snakemake(f"{name}.parquet", *given)
    pairing = pd.read_parquet(run.folder / f"{name}.parquet")
    cut = pairing["text_changed"]
    assert 15 < cut.sum() < 45
    assert not pairing["swapped"].any()
    written = pd.read_parquet(run.folder / f"{name}.captions.parquet")
    assert set(written["caption"].str.split().str.len()) == {3}
    assert set(pairing.loc[cut, "caption_id"]) <= set(written["caption_id"])
