"""A new scheme of corruption, start, repair rule or captioner is one declaration."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from tests.workflow.conftest import REPOSITORY, Checkout, new_checkout

CONFIG = {
    "studies": ["image_text"],
    "make_scenes": {"shards": 1, "pairs_per_shard": 60},
    "corrupt_captions": {"schemes": ["random"], "rates": [0.0, 0.5]},
}


def example(kind: str) -> str:
    """Return the example of CONTRIBUTING.md."""
    text = (REPOSITORY / "CONTRIBUTING.md").read_text()
    (code,) = re.findall(rf"<!-- {kind} -->\n```python\n(.*?)```", text, re.DOTALL)
    return str(code)


def checkout(folder: Path, **sections: Any) -> Checkout:
    made = new_checkout(folder)
    (made.folder / "mine.yaml").write_text(yaml.safe_dump(CONFIG | sections))
    return made


def python(made: Checkout, code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, 'workflow')\n{code}"],
        cwd=made.folder, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip


GIVEN = ("--configfile", "mine.yaml")


def test_a_scheme_is_one_file(tmp_path: Path) -> None:
    schemes = {"schemes": ["random", "keep-three"], "rates": [0.0, 0.5]}
    run = checkout(tmp_path / "mispair", corrupt_captions=schemes)
    schemes_folder = run.folder / "workflow/mispair/pairs/corruption/schemes"
    (schemes_folder / "keep_three.py").write_text(example("scheme"))
    planned = run.snakemake(*GIVEN, "--dry-run")
    # Texts that no pair had before are encoded.
    assert "results/features/scenes/scenes-small/keep-three~0.5.parquet" in planned
    assert "results/features/scenes/scenes-small/random~0.5.parquet" not in planned
    name = "results/pairs/scenes/pairing/keep-three~0.5"
    run.snakemake(f"{name}.parquet", *GIVEN)
    pairing = pd.read_parquet(run.folder / f"{name}.parquet")
    cut = pairing["text_changed"]
    assert 15 < cut.sum() < 45
    assert not pairing["swapped"].any()
    written = pd.read_parquet(run.folder / f"{name}.captions.parquet")
    assert set(written["caption"].str.split().str.len()) == {3}
    assert set(pairing.loc[cut, "caption_id"]) <= set(written["caption_id"])


def test_a_start_is_one_entry(tmp_path: Path) -> None:
    run = checkout(
        tmp_path / "mispair", finetune_projection={"starts": ["pretrained", "without-warmup"]}
    )
    module = run.folder / "workflow/mispair/towers/arms.py"
    before, end, after = module.read_text().partition('}  # fmt: skip\n"""Starts of a fine-tuning')
    module.write_text(f"{before}{example('start')}{end}{after}")
    printed = run.snakemake(*GIVEN, "--dry-run")
    assert "results/arms/scenes/scenes-small/without-warmup_random~0.5/purity.json" in printed
    code = (
        "from mispair.towers.finetuning.finetuning_settings import AS_RUN, arm\n"
        "print(*(arm(name, AS_RUN).training.warmup_epochs for name in"
        " ('pretrained', 'without-warmup')))"
    )
    assert python(run, code).split() == ["1", "0"]


def test_a_rule_and_a_captioner_are_one_declaration_each(tmp_path: Path) -> None:
    run = checkout(
        tmp_path / "mispair", studies=["repair"],
        recaption_pairs={"captioner": "mine:caption"},
        filter_captions={"rules": ["raw", "negative"]},
    )  # fmt: skip
    with (run.folder / "workflow/mispair/repair/rules.py").open("a") as module:
        module.write(f"\n\n{example('rule')}")
    (run.folder / "mine.py").write_text(example("captioner"))
    # It reads cosines of the raw model with new captions, and the pairing of the scheme.
    printed = run.snakemake(*GIVEN, "--dry-run")
    folder = "results/repair/scenes/scenes-small"
    (reason,) = re.findall(r"by the rule negative: .*\nReason: (.*)", printed)
    for read in ("random~0.5/scores~raw.safetensors", "recaptions.parquet"):
        assert f"{folder}/{read}" in reason
    code = (
        "import numpy as np\n"
        "from mispair.repair.rules import Evidence, decide\n"
        "one = np.array([False] * 3)\n"
        "evidence = Evidence(one, ~one, np.array([0.2, -0.1, 0.0]), np.ones(3))\n"
        "print(*decide('negative', evidence, None, 0))"
    )
    assert python(run, code).split() == ["0", "1", "1"]
    target = f"{folder}/recaptions/0000.parquet"
    run.snakemake(target, *GIVEN)
    captions = pd.read_parquet(run.folder / target)["caption"]
    assert len(captions) == 60
    assert captions.str.startswith("a picture of red ").all()
