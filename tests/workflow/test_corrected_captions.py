"""Corrected captions encode no image again; other images are encoded again."""

import shutil
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest
import yaml

from tests.pairs.test_step_index_shards import write_shards
from tests.workflow.conftest import Checkout, Lent, new_checkout

OWN: dict[str, Any] = {
    "studies": ["audit"],
    "corpus": "mine",
    "shards": "own/*.tar",
    "captions": "own/captions.csv",
    "trusted": "own/trusted.txt",
    "towers": "shipped",
    "index_shards": {"shards_per_job": 1},
}
FEATURES = [f"results/features/mine/scenes-small/000{group}.safetensors" for group in range(2)]
TARGETS = ["results/pairs/mine/corpus.parquet", *FEATURES]
CAPTIONS = {"index_shards": 2, "list_files": 1, "gather_index": 1}
"""Jobs after a change of captions or their settings."""
TABLE = {"read_captions": 1, **CAPTIONS}
IMAGES = {"list_images": 2, "encode_features": 2, **CAPTIONS}
ONE_SHARD = {"list_images": 1, "encode_features": 1, **CAPTIONS, "index_shards": 1}


def configure(checkout: Checkout, **changes: Any) -> tuple[str, ...]:
    """Write the configuration with changes; return the arguments of Snakemake."""
    (checkout.folder / "own.yaml").write_text(yaml.safe_dump(OWN | changes))
    return *TARGETS, "--configfile", "own.yaml"


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """Index and encode a user's corpus of two shards."""
    checkout = new_checkout(tmp_path_factory.mktemp("corrected") / "mispair")
    own = checkout.folder / "own"
    shards = write_shards(own, 2)
    for path in own.glob("0000?[._]*"):
        if path not in shards:
            path.unlink()
    keys = [f"{shard:05d}{pair:03d}" for shard in range(2) for pair in range(6)]
    table = pd.DataFrame({"key": keys, "caption": [f"text {n}" for n in range(12)]})
    table.assign(other=table["caption"] + " again").to_csv(own / "captions.csv", index=False)
    (own / "trusted.txt").write_text("\n".join(keys[:3]))
    checkout.snakemake(*configure(checkout))
    return checkout


@pytest.fixture(scope="module")
def lent_audited(audited: Checkout, tmp_path_factory: pytest.TempPathFactory) -> Lent:
    return Lent(audited, tmp_path_factory.mktemp("mine") / "mine")


@pytest.fixture
def mine(lent_audited: Lent) -> Iterator[Checkout]:
    yield lent_audited
    lent_audited.restore()


def correct(checkout: Checkout) -> None:
    table = checkout.folder / "own/captions.csv"
    table.write_text(table.read_text().replace("text 7", "corrected 7"))


def replace_shard(checkout: Checkout) -> None:
    """Replace the second shard by one of other pictures, of which there is one more."""
    others = write_shards(checkout.folder / "others", 2, pairs=7)
    shutil.copy(others[1], checkout.folder / "own")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"read_captions": {"caption_column": "other"}}, TABLE),
        ({"captions": None}, CAPTIONS),
        *(
            ({"index_shards": {"shards_per_job": 1, **setting}}, CAPTIONS)
            for setting in (
                {"min_words": 2}, {"captions_per_line": True}, {"table_captions": "augment"},
                {"caption_from": "json:caption"}, {"json_fields": ["json:caption"]},
                {"empty_captions": "keep"},
            )
        ),
        ({"trusted": None}, {}),
        *(
            ({"index_shards": {"shards_per_job": 1, **setting}}, IMAGES)
            for setting in (
                {"max_image_pixels": 10_000}, {"min_image_side": 20}, {"max_aspect_ratio": 5},
            )
        ),
        ({"encode_features": {"crops": 2}}, {"encode_features": 2}),
        ({"encode_features": {"seed": 1}}, {"encode_features": 2}),
    ],
    ids=str,
)  # fmt: skip
def test_settings_of_captions_encode_no_image(mine: Checkout, changes, expected) -> None:
    assert mine.planned(*configure(mine, **changes)) == expected


def test_files_of_captions_encode_no_image_and_a_replaced_shard_does(mine: Checkout) -> None:
    arguments = configure(mine)
    (mine.folder / "own/trusted.txt").write_text("00000001\n00000002\n")
    assert mine.planned(*arguments) == {}
    before = [(mine.folder / path).stat().st_mtime_ns for path in FEATURES]
    correct(mine)
    assert mine.planned(*arguments) == TABLE
    replace_shard(mine)
    assert mine.planned(*arguments) == {**ONE_SHARD, "index_shards": 2, "read_captions": 1}
    shutil.copy(mine.folder / "own/captions.csv", mine.folder / "own/corrected.csv")
    assert mine.snakemake(*configure(mine, captions="own/corrected.csv"))
    kept = pd.read_parquet(mine.folder / "results/pairs/mine/index/0001.parquet")
    texts = ["text 6", "corrected 7", *(f"text {number}" for number in range(8, 12))]
    assert list(kept["caption"]) == texts
    after = [(mine.folder / path).stat().st_mtime_ns for path in FEATURES]
    assert after[0] == before[0]
    assert after[1] > before[1]
    ids = pd.read_parquet((mine.folder / FEATURES[1]).with_suffix(".parquet"))["id"]
    assert list(ids) == [f"0000100{number}" for number in range(7)]
    assert mine.planned(*configure(mine, captions="own/corrected.csv")) == {}
