"""The small steps of the image-text study, run on files as the rules run them."""

from __future__ import annotations

from pathlib import Path

import pytest

from mispair.cli import main
from mispair.pairs.index.faults import ImageLimits
from tests.pairs.test_index import whole, write_tar

LIMITS = {**ImageLimits().model_dump(), "stall_seconds": 60.0}


def step(name: str, **files_: object) -> int:
    """Run a step by its command, with lists of files as words."""
    words = [name]
    for option, value in files_.items():
        words.append("--" + option.replace("_", "-"))
        words += [str(one) for one in value] if isinstance(value, list) else [str(value)]
    return main(words)


def index(folder: Path, name: str, keys: list[str]) -> Path:
    """Index a shard of whole pairs as a group of its own."""
    shard = write_tar(folder / f"{name}.tar", [member for key in keys for member in whole(key)])
    found = folder / f"{name}.parquet"
    images, unusable = folder / f"{name}.images.parquet", folder / f"{name}.unusable.parquet"
    common: dict[str, object] = {"shards": [shard], "sources": [], "workers": 1, "images": images,
                                 "unusable": unusable}  # fmt: skip
    assert step("list-images", **common, **LIMITS) == 0
    done = step("index-shards", captions=[], index=found,
                rejected=folder / f"{name}.rejected.parquet", **common)  # fmt: skip
    assert done == 0
    return found


def corrupt(folder: Path, indexes: list[Path], pairing: Path) -> int:
    """Gather indexes and shuffle half of the captions."""
    rejected = [path.with_name(f"{path.stem}.rejected.parquet") for path in indexes]
    corpus = folder / "corpus.parquet"
    gathered = step("gather-index", index=indexes, rejected=rejected, corpus=corpus,
                    caption_table=[], captions=[folder / "captions-0.parquet"],
                    excluded=folder / "excluded.parquet",
                    statistics=folder / "statistics.json")  # fmt: skip
    return gathered or step(
        "corrupt-captions", scheme="random", rate=0.5, draws=1, corpus=corpus, index=indexes,
        similar=[], truth=[], pairing=pairing,
        captions=pairing.with_name(f"{pairing.name}.captions"),
    )  # fmt: skip


def test_a_missing_shard_is_named(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    done = step("list-images", shards=[tmp_path / "no.tar"], sources=[], workers=1,
                images=tmp_path / "m", unusable=tmp_path / "u", **LIMITS)  # fmt: skip
    assert done == 2
    assert "no.tar: cannot be read" in capsys.readouterr().err


def test_the_order_of_shards_changes_no_byte(tmp_path: Path) -> None:
    indexes = [index(tmp_path, name, [f"{name}{n}" for n in range(4)]) for name in "ab"]
    for order, name in ((indexes, "p"), (indexes[::-1], "q")):
        assert corrupt(tmp_path, order, tmp_path / name) == 0
    assert (tmp_path / "p").read_bytes() == (tmp_path / "q").read_bytes()


def test_a_key_in_two_shards_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    indexes = [index(tmp_path, name, ["same"]) for name in "ab"]
    assert corrupt(tmp_path, indexes, tmp_path / "p") == 2
    assert "'same'" in capsys.readouterr().err
    assert not (tmp_path / "corpus.parquet").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["corupt-captions"], "Did you mean 'corrupt-captions'?"),
        (["measure-purity", "--projection", "p", "--purity", "q", "--rotations", "-1"],
         "rotations"),
    ],
)  # fmt: skip
def test_command_line_mistakes(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture
) -> None:
    assert main(arguments) == 2
    assert words in capsys.readouterr().err
