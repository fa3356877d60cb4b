"""Corpora as people have them: real layouts, damaged shards, other captions, other schemes."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import tarfile
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml
from PIL import Image

from bench.dag import at_home
from mispair.core.files import read_tensors
from mispair.pairs.shards import shard_writer
from tests.step_server import steps
from tests.workflow.conftest import SMOKE, Checkout, counts

CORPUS = "results/pairs/mine/corpus.parquet"


def write_shard(path: Path, samples: dict[str, tuple[bytes, str]]) -> None:
    """Write a shard as webdataset does: KEY.jpg and KEY.txt side by side."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as archive:
        for key, (image, caption) in samples.items():
            for name, content in ((f"{key}.jpg", image), (f"{key}.txt", caption.encode())):
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))


def jpeg(number: int) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (40, 30), (number % 256, 90, 200)).save(stream, "JPEG")
    return stream.getvalue()


def good(shard: int, number: int) -> dict[str, tuple[bytes, str]]:
    keys = [f"{shard:05d}{n:04d}" for n in range(number)]
    return {key: (jpeg(int(key)), f"picture number {int(key)}") for key in keys}


def configured(checkout: Checkout, **content: object) -> tuple[str, str]:
    general = {"studies": ["image_text"], "corpus": "mine", "index_shards": {"shards_per_job": 2}}
    (checkout.folder / "mine.yaml").write_text(yaml.safe_dump({**general, **content}))
    return "--configfile", "mine.yaml"


@pytest.mark.parametrize(("name", "groups"), [("cc3m", 16), ("cc12m", 30)])
def test_large_corpora_are_planned_in_few_jobs(
    empty: Checkout, tmp_path: Path, name: str, groups: int
) -> None:
    config = at_home(name, tmp_path / "home")
    shards = yaml.safe_load(config.read_text())["shards"]
    number = {"cc3m": 576, "cc12m": 2176}[name]
    assert shards.endswith(f"{{0000..{number - 1:04d}}}.tar")
    arguments = ["--configfile", str(config), "--resources", "gpu=1"]
    printed = empty.snakemake("--dry-run", "--printshellcmds", *arguments)
    planned = counts(printed)
    assert planned["list_images"] == planned["index_shards"] == groups <= 150
    assert planned["encode_features"] == groups
    assert planned["encode_captions"] == -(-groups // 8)
    # Two schemes of five rates, of which rate 0 is one for both; the control that solves for the
    # scale at five rates; seven other controls at three.
    assert planned["finetune_projection"] == 9 + 5 + 7 * 3
    # Six sets with their templates under three protocols, of which one is for sets that it knows.
    assert planned["encode_prompts"] == 6 * 3
    assert planned["find_similar_captions"] == 1
    assert f"matched {number:,} shards" in printed
    # Jobs of which there are many read listings: their inputs do not grow with the shards.
    for step in ("finetune-projection", "corrupt-captions", "gather-index"):
        commands = re.findall(rf"-m mispair {step} .*", printed)
        assert commands
        assert all(one.count("results/") < 15 for one in commands)


def test_damaged_shards_cost_what_they_hold_and_no_more(empty: Checkout) -> None:
    folder = empty.folder / "shards"
    for shard in range(4):
        write_shard(folder / f"{shard}.tar", good(shard, 30))
    whole = (folder / "1.tar").read_bytes()
    (folder / "1.tar").write_bytes(whole[: len(whole) // 2])
    (folder / "cut.html.tar").write_text("<html>404 Not Found</html>")
    broken = good(9, 10)
    broken["000090003"] = (b"no picture", "text")
    broken["000090004"] = (jpeg(1), "")
    broken["000090005"] = (jpeg(2), "long " * 500_000)
    write_shard(folder / "broken.tar", broken)
    wanted = {"gather_index": {"max_quarantined_share": 0.5}}
    empty.snakemake(CORPUS, *configured(empty, shards="shards", **wanted))
    corpus = pq.read_table(empty.folder / CORPUS).to_pandas()
    assert 90 + 8 < len(corpus) < 120 + 8
    assert corpus["key"].is_unique
    statistics = json.loads((empty.folder / "results/pairs/mine/statistics.json").read_text())
    about = {key.decode(): value.decode()
             for key, value in pq.read_schema(empty.folder / CORPUS).metadata.items()}  # fmt: skip
    assert int(about["read"]) == int(about["kept"]) + int(about["rejected"])
    assert statistics["rows"]
    rejected = pd.concat(
        pd.read_parquet(path)
        for path in (empty.folder / "results/pairs/mine/index").glob("*.rejected.parquet")
    )
    reasons = {"damaged-shard", "undecodable-image", "empty-caption", "member-too-large"}
    assert set(rejected["reason"]) == reasons

    # A shard that was fetched anew is read again because it changed; others can be asked for.
    def retry(*reasons: str) -> list[str]:
        command = [steps().python, "-m", "mispair", "retry", *reasons]
        environment = {**os.environ, "PYTHONPATH": str(empty.folder / "workflow")}
        return subprocess.run(
            command, cwd=empty.folder, env=environment, text=True, capture_output=True, check=True
        ).stdout.split()

    # Captions alone are read again from the index on, and images from their list on.
    assert retry("undecodable-image") == ["results/pairs/mine/index/0002.images.parquet"]
    again = retry("empty-caption")
    assert retry("member-too-large") == again  # it is the caption
    assert again == ["results/pairs/mine/index/0002.parquet"]
    printed = empty.snakemake(
        CORPUS, "--dry-run", "--forcerun", *again, *configured(empty, shards="shards", **wanted)
    )
    assert "Index shard group 0002 of mine" in printed
    assert "Index shard group 0000 of mine" not in printed


def test_too_much_damage_stops_before_any_caption_is_encoded(empty: Checkout) -> None:
    folder = empty.folder / "shards"
    write_shard(folder / "0.tar", good(0, 10))
    write_shard(folder / "1.tar", {key: (b"", text) for key, (_, text) in good(1, 10).items()})
    few = {"evaluation_sets": ["scenes-digit"],
           "make_evaluation_set": {"images": 20, "train_images": 20}}  # fmt: skip
    arguments = configured(empty, shards="shards", **few)
    printed = empty.snakemake("image_text", *arguments, check=False)
    assert "Traceback" not in printed
    assert "undecodable-image" in printed
    assert "max_quarantined_share" in printed
    assert not [*(empty.folder / "results/features").glob("mine/*/captions-*")]
    assert not (empty.folder / CORPUS).exists()


def test_captions_from_a_table_go_by_key(empty: Checkout) -> None:
    folder = empty.folder / "shards"
    write_shard(folder / "0.tar", good(0, 12))
    keys = list(good(0, 12))
    table = pd.DataFrame({"key": keys[::-1], "caption": [f"new words for {k}" for k in keys[::-1]]})
    table.to_csv(empty.folder / "new.csv", index=False)
    empty.snakemake(CORPUS, *configured(empty, shards="shards", captions="new.csv"))
    index = pd.read_parquet(empty.folder / "results/pairs/mine/index/0000.parquet")
    assert dict(zip(index["key"], index["caption"], strict=True)) == {
        key: f"new words for {key}" for key in keys
    }
    # A list by line number is refused without keys before any job, and with too few by its job.
    (empty.folder / "new.txt").write_text("\n".join(f"line {n}" for n in range(12)))
    (empty.folder / "keys.txt").write_text("\n".join(keys[:11]))
    for more, told in (({}, "caption_keys"), ({"caption_keys": "keys.txt"}, "read-captions: ")):
        arguments = configured(empty, shards="shards", captions="new.txt", **more)
        printed = empty.snakemake(CORPUS, *arguments, check=False)
        assert told in printed
        assert ("mispair read-captions" in printed) == bool(more)
        assert "Traceback" not in printed


def drawing(checkout: Checkout, **tuning: object) -> tuple[str, str]:
    """Configure a corpus whose pairs have the shards' captions and one or two of a table."""
    table = checkout.folder / "new.csv"
    if not table.exists():
        write_shard(checkout.folder / "shards" / "0.tar", good(0, 64))
        words = ("a blue picture", "something with the number")
        rows = [
            (key, f"{each} {int(key)}")
            for n, key in enumerate(good(0, 64))
            for each in words[: 1 + n % 2]
        ]
        pd.DataFrame(rows, columns=["key", "caption"]).to_csv(table, index=False)
    return configured(
        checkout, shards="shards", captions="new.csv", index_shards={"table_captions": "augment"},
        corrupt_captions={"schemes": ["random"], "rates": [0.5]},
        finetune_projection={
            "starts": ["pretrained"], "pairs": None, "seeds": 2, "epochs": 2, "batch_size": 32,
            **tuning,
        },
    )  # fmt: skip


TUNED = "results/arms/mine/scenes-small/pretrained_random~0.5/projection.safetensors"


def test_the_corpus_is_an_input_where_captions_are_drawn_at_each_step(empty: Checkout) -> None:
    for when, corpus in (("once", []), ("each-step", [CORPUS])):
        arguments = (TUNED, "--dry-run", "--printshellcmds", *drawing(empty, draw_captions=when))
        (command,) = re.findall(r"-m mispair finetune-projection .*", empty.snakemake(*arguments))
        words = command.split()
        assert words[words.index("--corpus") + 1 : words.index("--projection")] == corpus
        assert words[words.index("--draw-captions") + 1] == when


def test_captions_of_an_augmented_corpus_are_drawn_at_each_step(empty: Checkout) -> None:
    written = {}
    for when in ("once", "each-step"):
        empty.snakemake(TUNED, *drawing(empty, draw_captions=when))
        written[when] = read_tensors(empty.folder / TUNED)
    corpus = pd.read_parquet(empty.folder / CORPUS)
    assert [len(ids) for ids in corpus["more_caption_ids"]] == [1, 2] * 32
    pairing = pd.read_parquet(empty.folder / "results/pairs/mine/pairing/random~0.5.parquet")
    for draw in ("", "_1"):
        source = pairing[f"caption_source{draw}"].to_numpy()
        assert (source != range(64)).tolist() == pairing[f"swapped{draw}"].tolist()
        assert sorted(source) == list(range(64))
    (once, _), (each, metadata) = written.values()
    assert json.loads(metadata["training"])["draw_captions"] == "each-step"
    assert once["loss"].shape == each["loss"].shape == (2, 4)
    assert (once["loss"] != each["loss"]).all()


def test_captions_from_a_table_join_by_url(empty: Checkout) -> None:
    """Two pairs of one url get the same new caption; a table of other urls stops the run."""
    urls = {f"00000{n:04d}": f"http://example.org/{n // 2}" for n in range(12)}
    rows = [
        (jpeg(int(key)), shard_writer.img2dataset_row(key, jpeg(int(key)), "old", url, 40, 30))
        for key, url in urls.items()
    ]
    (empty.folder / "shards").mkdir()
    shard_writer.write_shard(empty.folder / "shards", 0, rows)
    table = pd.DataFrame({"url": [*sorted({*urls.values()}), "http://example.org/unused"]})
    table.assign(text="new words for " + table["url"]).to_csv(empty.folder / "new.csv")
    section = {"join": "url", "key_column": "url", "caption_column": "text"}
    named = {"shards": "shards", "captions": "new.csv", "read_captions": section}
    empty.snakemake(CORPUS, *configured(empty, **named))
    index = pd.read_parquet(empty.folder / "results/pairs/mine/index/0000.parquet")
    assert dict(zip(index["key"], index["caption"], strict=True)) == {
        key: f"new words for {url}" for key, url in urls.items()
    }
    statistics = json.loads((empty.folder / "results/pairs/mine/statistics.json").read_text())
    values = {row["metric"]: row["value"] for row in statistics["rows"]}
    assert values["table_pairs_joined"] == values["table_pairs_sharing_value"] == 12
    assert values["table_pairs_without_row"] == 0
    assert values["table_values_unused"] == 1
    table.assign(text="no", url="https" + table["url"]).to_csv(empty.folder / "new.csv")
    printed = empty.snakemake(CORPUS, *configured(empty, **named), check=False)
    assert "read_captions: join" in printed
    assert "gather_index: min_joined_share" in printed
    assert "Traceback" not in printed


def test_a_key_in_two_shards_is_refused_unless_said_otherwise(empty: Checkout) -> None:
    folder = empty.folder / "shards"
    for name in ("0.tar", "1.tar"):
        write_shard(folder / name, good(0, 10))
    printed = empty.snakemake(CORPUS, *configured(empty, shards="shards"), check=False)
    assert "duplicate_keys" in printed
    policy = {"duplicate_keys": "first", "max_quarantined_share": 0.6}
    empty.snakemake(CORPUS, *configured(empty, shards="shards", gather_index=policy))
    assert pq.read_metadata(empty.folder / CORPUS).num_rows == 10


def test_two_folders_with_equal_names_and_keys_are_one_corpus(empty: Checkout) -> None:
    for number, name in enumerate(("first", "second")):
        for shard in range(2):
            samples = {key: (jpeg(int(key) + 7 * number), f"{name} {key}")
                       for key in good(shard, 10)}  # fmt: skip
            write_shard(empty.folder / name / f"{shard:05d}.tar", samples)
    configuration = {
        "shards": {"b": "first", "a": ["second"]},
        "index_shards": {"shards_per_job": 3},
        "corrupt_captions": {"schemes": ["random"], "rates": [0.5]},
    }
    sheet = "reports/figures/contact_sheet.html"
    features = "results/features/mine/scenes-small/0000.parquet"
    arguments = configured(empty, **configuration)
    printed = empty.snakemake(CORPUS, sheet, features, *arguments)
    assert "matched 4 shards" in printed
    assert "; a: 2; b: 2" in printed
    corpus = pd.read_parquet(empty.folder / CORPUS)
    keys = [key for shard in range(2) for key in good(shard, 10)]
    assert corpus["key"].tolist() == [f"{source}/{key}" for source in "ab" for key in keys]
    index = pd.concat(
        pd.read_parquet(empty.folder / f"results/pairs/mine/index/000{group}.parquet")
        for group in range(2)
    ).set_index("key")
    assert index.loc["a/000000003", "caption"] == "second 000000003"
    assert index.loc["b/000000003", "caption"] == "first 000000003"
    assert set(index["shard"]) == {f"{s}/0000{n}.tar" for s in "ab" for n in range(2)}
    encoded = pd.read_parquet(empty.folder / features)
    assert set(encoded["id"]) == {k for k in corpus["key"] if k < "b/00001"}
    assert "a/000000003" in (empty.folder / sheet).read_text()
    assert "image not available" not in (empty.folder / sheet).read_text()
    # Without names the folders do not form one corpus; other names are other keys.
    refused = configured(empty, **configuration | {"shards": ["first", "second"]})
    assert "have the same file name" in empty.snakemake(CORPUS, *refused, check=False)
    renamed = configured(empty, **configuration | {"shards": {"b": "second", "c": "first"}})
    assert empty.planned(CORPUS, *renamed)["index_shards"] == 2


def test_what_changes_no_result_reruns_nothing(run: Checkout) -> None:
    smoke = yaml.safe_load((run.folder / SMOKE).read_text())
    smoke["index_shards"] |= {"workers": 2}
    smoke["encode_features"] = {"workers": 1}
    (run.folder / "mine.yaml").write_text(yaml.safe_dump(smoke))
    # The record of the run holds the whole configuration.
    assert run.planned("--configfile", "mine.yaml") == {"record_run": 1, "write_report": 1}


def test_a_new_threshold_passes_the_corpus_again_and_encodes_no_image(run: Checkout) -> None:
    smoke = yaml.safe_load((run.folder / SMOKE).read_text())
    smoke["gather_index"] = {"max_quarantined_share": 0.3}
    (run.folder / "mine.yaml").write_text(yaml.safe_dump(smoke))
    planned = run.planned("--configfile", "mine.yaml")
    assert planned["gather_index"] == 1
    assert not {"index_shards", "encode_features"} & planned.keys()
