"""The profiles of Snakemake that come with mispair."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

PROFILES = Path(__file__).parents[2] / "profiles"
RULES = Path(__file__).parents[2] / "workflow/rules"
LONG = ("encode_features", "read_shards", "encode_captions", "encode_evaluation",
        "encode_generated", "find_similar_captions",
        "finetune_projection", "pretrain_towers", "pretrain_towers_of_seed", "simulate",
        "index_shards", "list_images", "train_encoders", "train_head", "train_two_layer",
        "train_multilayer", "train_small_towers",
        "recaption_pairs", "train_repaired_towers",
        "recaption_pairs_of_draw")  # fmt: skip
"""Steps that save their state when they are warned."""


@pytest.fixture(scope="module")
def slurm() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((PROFILES / "slurm/config.yaml").read_text())
    return loaded


def rules() -> set[str]:
    """Return the rules that start a step."""
    blocks = [
        block
        for path in RULES.glob("*.smk")
        for block in re.split(r"^(?=rule |use rule )", path.read_text(), flags=re.M)[1:]
    ]
    # The targets of studies run where Snakemake does.
    return {named[1] for block in blocks if (named := re.match(r"use rule \w+ as (\w+)", block))}


def test_every_rule_asks_for_memory_and_time(slurm: dict[str, Any]) -> None:
    assert slurm["set-resources"].keys() == rules()
    for rule, asked in slurm["set-resources"].items():
        assert {"mem_mb", "runtime"} <= asked.keys(), rule


def test_what_is_asked_for_grows_with_each_attempt(slurm: dict[str, Any]) -> None:
    for rule, asked in slurm["set-resources"].items():
        for key in ("mem_mb", "runtime"):
            first, second = (eval(asked[key], {"attempt": attempt}) for attempt in (1, 2))
            assert second == 2 * first > 0, (rule, key)


def test_long_steps_are_warned_before_their_time_is_up(slurm: dict[str, Any]) -> None:
    warned = {rule for rule, asked in slurm["set-resources"].items() if "slurm_extra" in asked}
    assert warned == set(LONG)
    for rule in warned:
        asked = slurm["set-resources"][rule]
        ahead = re.fullmatch(r"'--signal=USR1@(\d+)'", asked["slurm_extra"])
        assert ahead is not None
        # The warning comes when there has been time to get something done.
        assert int(ahead[1]) <= 60 * eval(asked["runtime"], {"attempt": 1}) / 4


def test_groups_are_of_rules_that_need_no_gpu_and_have_a_size(slurm: dict[str, Any]) -> None:
    assert set(slurm["groups"]) <= rules()
    assert set(slurm["groups"].values()) == slurm["group-components"].keys()
    texts = "\n".join(path.read_text() for path in RULES.glob("*.smk"))
    gpu = set(re.findall(r'gpu=dag\.gpus\("(\w+)"\)', texts))
    assert gpu
    assert not gpu & slurm["groups"].keys()
