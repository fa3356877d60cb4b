"""Corpora as people have them: real layouts, damaged shards, other captions, other schemes."""

import io
import json
import os
import re
import subprocess
import tarfile
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import yaml
from PIL import Image

from bench.dag import at_home
from tests.fork_server import python
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


def test_a_large_corpus_is_planned_in_few_jobs(empty: Checkout, tmp_path: Path) -> None:
    config = at_home("cc3m", tmp_path / "home")
    assert yaml.safe_load(config.read_text())["shards"].endswith("{0000..0575}.tar")
    arguments = ["--configfile", str(config), "--resources", "gpu=1"]
    printed = empty.snakemake("--dry-run", "--printshellcmds", *arguments)
    planned = counts(printed)
    for step in ("list_images", "index_shards", "encode_features"):
        assert planned[step] == 16
    assert planned["encode_captions"] == 2
    # Two schemes of five rates, of which rate 0 is one for both; the control that solves for the
    # scale at five rates; seven other controls at three.
    assert planned["finetune_projection"] == 9 + 5 + 7 * 3
    # Six sets with their templates under three protocols, of which one is for sets that it knows.
    assert planned["encode_prompts"] == 6 * 3
    assert planned["find_similar_captions"] == 1
    assert "matched 576 shards" in printed
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
        command = [python(), "-m", "mispair", "retry", *reasons]
        environment = {**os.environ, "PYTHONPATH": str(empty.folder / "workflow")}
        return subprocess.run(
            command, cwd=empty.folder, env=environment, text=True, capture_output=True, check=True
        ).stdout.split()

    # Captions alone are read again from the index on, and images from their list on.
    reuse = empty.folder / "results/pairs/mine/index/reuse"
    listed, indexed = (
        [reuse / name for name in (reuse / f"0002.{kind}.used").read_text().split()]
        for kind in ("images.parquet", "parquet")
    )
    assert retry("undecodable-image") == ["results/pairs/mine/index/0002.images.parquet"]
    # A broken disk may have been the cause, so what was read then is not reused.
    assert not any(part.exists() for part in (*listed, *indexed))
    again = retry("empty-caption")
    assert retry("member-too-large") == again  # it is the caption
    assert again == ["results/pairs/mine/index/0002.parquet"]
    printed = empty.snakemake(
        CORPUS, "--dry-run", "--forcerun", *again, *configured(empty, shards="shards", **wanted)
    )
    assert "Index shard group 0002 of mine" in printed
    assert "Index shard group 0000 of mine" not in printed


def test_the_corpus_is_an_input_where_captions_are_drawn_at_each_step(empty: Checkout) -> None:
    write_shard(empty.folder / "shards" / "0.tar", good(0, 64))
    table = [f"{key},{words}" for key in good(0, 64) for words in ("a picture", "blue")]
    (empty.folder / "new.csv").write_text("\n".join(["key,caption", *table, ""]))
    tuned = "results/arms/mine/scenes-small/pretrained_random~0.5/projection.safetensors"
    for when, corpus in (("once", []), ("each-step", [CORPUS])):
        arguments = configured(
            empty, shards="shards", captions="new.csv", index_shards={"table_captions": "augment"},
            corrupt_captions={"schemes": ["random"], "rates": [0.5]},
            finetune_projection={
                "starts": ["pretrained"], "pairs": None, "batch_size": 32, "draw_captions": when,
            },
        )  # fmt: skip
        printed = empty.snakemake(tuned, "--dry-run", "--printshellcmds", *arguments)
        (command,) = re.findall(r"-m mispair finetune-projection .*", printed)
        words = command.split()
        assert words[words.index("--corpus") + 1 : words.index("--projection")] == corpus
        assert words[words.index("--draw-captions") + 1] == when


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


def test_what_changes_no_result_reruns_nothing_and_a_threshold_no_image(run: Checkout) -> None:
    smoke = yaml.safe_load((run.folder / SMOKE).read_text())
    smoke["index_shards"] |= {"workers": 2}
    smoke["encode_features"] = {"workers": 1}
    (run.folder / "mine.yaml").write_text(yaml.safe_dump(smoke))
    # The record of the run holds the whole configuration.
    assert run.planned("--configfile", "mine.yaml") == {"record_run": 1, "write_report": 1}
    smoke["gather_index"] = {"max_quarantined_share": 0.3}
    (run.folder / "mine.yaml").write_text(yaml.safe_dump(smoke))
    planned = run.planned("--configfile", "mine.yaml")
    assert planned["gather_index"] == 1
    assert not {"index_shards", "encode_features"} & planned.keys()
