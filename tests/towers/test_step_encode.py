"""The steps that run the frozen towers, on files as the rules run them."""

import io
import itertools
import os
import shutil
import signal
import tarfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from mispair.cli import main
from mispair.core import files
from mispair.core.reuse import tidy
from mispair.pairs.index import image_list
from mispair.pairs.index.faults import ImageLimits
from mispair.pairs.index.image_list import list_images
from mispair.pairs.index.index import caption_id
from mispair.towers import corpus_features, loading
from mispair.towers.encoding import Tower
from mispair.towers.features import gather, read_part
from mispair.towers.preparation import PixelForm, Preparation
from tests.pairs.test_index import jpeg, write_tar
from tests.towers.made_up import NATIVE, build

SHARDS, PAIRS = 3, 7


@pytest.fixture(scope="module")
def towers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("towers") / "vit", NATIVE)


def rows_of(shard: Path) -> list[dict[str, object]]:
    """Return the rows of a shard in a list of images."""
    return [
        {**row, "shard": shard.name} for row in list_images(shard, ImageLimits()).usable.values()
    ]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Three shards with an index."""
    tables = []
    for shard in range(SHARDS):
        members = []
        for pair in range(PAIRS):
            text = f"caption {shard} {pair}"
            name = f"{shard}{pair}"
            members += [(f"{name}.jpg", jpeg((30 + pair, 24))), (f"{name}.txt", text.encode())]
        path = write_tar(tmp_path / f"{shard}.tar", members)
        tables += rows_of(path)
    files.write_parquet(tmp_path / "index.parquet", pd.DataFrame(tables))
    return tmp_path


def command(corpus: Path, towers: Path, out: Path, *settings: str, workers: int = 0) -> list[str]:
    shards = [str(path) for path in sorted(corpus.glob("*.tar"), reverse=True)]
    return [
        "encode-features",
        *("--shards", *shards, "--sources", "--images", str(corpus / "index.parquet")),
        *("--towers", str(towers / loading.CONFIG_NAME), str(towers / loading.WEIGHTS_NAME)),
        *("--workers", str(workers), "--features", str(out / "features")),
        *("--rows", str(out / "rows"), "--record", str(out / "logs" / "record.json")),
        *("--batch-size", "3", *settings),
    ]


def encode(corpus: Path, towers: Path, out: Path, *settings: str, workers: int = 0) -> dict:
    assert main(command(corpus, towers, out, *settings, workers=workers)) == 0
    assert sorted(path.name for path in out.iterdir()) == [
        "features", "features.run.json", "logs", "reuse", "rows",
    ]  # fmt: skip
    return files.read_json(out / "logs" / "record.json")


def same(one: Path, other: Path) -> bool:
    return all((one / n).read_bytes() == (other / n).read_bytes() for n in ("features", "rows"))


@pytest.fixture
def decoded(monkeypatch) -> list[tuple[int, int]]:
    """Sizes of the images that this process decodes."""
    sizes: list[tuple[int, int]] = []
    decode = image_list.decode_image

    def counting(encoded: bytes, *limit: int) -> Image.Image:
        image = decode(encoded, *limit)
        sizes.append(image.size)
        return image

    monkeypatch.setattr(image_list, "decode_image", counting)
    return sizes


# What is written ------------------------------------------------------------------------------


def test_features_are_those_of_the_model_in_order(corpus, towers, tmp_path):
    # Nothing relies on an index that is sorted.
    index = files.read_parquet(corpus / "index.parquet")[0].sample(frac=1, random_state=0)
    files.write_parquet(corpus / "index.parquet", index)
    record = encode(corpus, towers, tmp_path / "out")
    arrays, about = files.read_tensors(tmp_path / "out" / "features")
    rows, said = files.read_parquet(tmp_path / "out" / "rows")

    model = loading.load_towers(towers)
    expected = []
    for key, shard in zip(index["key"], index["shard"], strict=True):
        with tarfile.open(corpus / shard) as archive:
            encoded = archive.extractfile(f"{key}.jpg").read()
        pixels = model.preprocess(Image.open(io.BytesIO(encoded)).convert("RGB"))
        expected.append(model.model.encode_image(pixels[None])[0])
    found = arrays["image_features"] @ model.image_projection.numpy()
    assert np.allclose(found, torch.stack(expected), atol=1e-5)
    assert rows["kind"].unique().tolist() == ["image"]
    assert rows["id"].tolist() == index["key"].tolist()
    assert rows["row"].tolist() == list(range(SHARDS * PAIRS))
    assert arrays.keys() == {"image_features"}  # captions of the corpus are encoded by themselves

    assert said == about
    assert about.items() >= {("towers", model.fingerprint), ("precision", "fp32"), ("crops", "1")}
    assert record.items() >= {
        ("images", 21), ("captions", 0), ("resumed", 0),
        ("precision", "fp32"), ("batch_size", 3), ("workers", 0),
    }  # fmt: skip
    assert record["images_per_s"] > 0
    assert 0 < record["waiting_share"] < 1
    assert record["seconds"] > 0
    assert record["memory_bytes"] > 1e7
    assert record["device"].startswith("cpu (")


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("settings", [[], ["--crops", "2"], ["--precision", "bf16"]])
def test_workers_change_no_byte(settings, corpus, towers, tmp_path, monkeypatch):
    monkeypatch.setattr("mispair.towers.corpus_features.usable_cores", lambda: 8)
    encode(corpus, towers, tmp_path / "none", *settings)
    for workers in (1, 3):
        record = encode(corpus, towers, tmp_path / str(workers), *settings, workers=workers)
        assert record["workers"] == workers
        assert same(tmp_path / "none", tmp_path / str(workers))


def test_shards_on_a_disk_of_the_node_change_no_byte(corpus, towers, tmp_path, monkeypatch):
    encode(corpus, towers, tmp_path / "shared")
    (tmp_path / "scratch").mkdir()
    monkeypatch.setenv("MISPAIR_SCRATCH", str(tmp_path / "scratch"))
    encode(corpus, towers, tmp_path / "local")
    assert same(tmp_path / "shared", tmp_path / "local")
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.parametrize(("cores", "pairs", "expected"), [(2, 21, 2), (8, 4, 2), (8, 0, 0)])
def test_no_more_workers_than_needed(cores, pairs, expected, corpus, towers, tmp_path, monkeypatch):
    monkeypatch.setattr("mispair.towers.corpus_features.usable_cores", lambda: cores)
    index, _ = files.read_parquet(corpus / "index.parquet")
    files.write_parquet(corpus / "index.parquet", index[:pairs])
    monkeypatch.setattr("torch.utils.data.DataLoader.check_worker_number_rationality", lambda _: 0)
    assert encode(corpus, towers, tmp_path / "out", workers=16)["workers"] == expected


def test_crops_of_an_image_stand_together(corpus: Path, towers: Path, tmp_path: Path) -> None:
    crops = ["--crops", "3", "--crop-scale-min", "0.4"]
    encode(corpus, towers, tmp_path / "out", *crops)
    arrays, about = files.read_tensors(tmp_path / "out" / "features")
    rows, _ = files.read_parquet(tmp_path / "out" / "rows")
    assert about["crops"] == "3"
    assert arrays["image_features"].shape == (3 * SHARDS * PAIRS, 32)
    images = rows.set_index("id")["row"]
    assert images.tolist() == list(range(0, 3 * SHARDS * PAIRS, 3))
    # One pair alone in a shard of its own has the same crops: they are drawn by key.
    index, _ = files.read_parquet(corpus / "index.parquet")
    files.write_parquet(corpus / "index.parquet", index[index["key"] == "14"])
    encode(corpus, towers, tmp_path / "alone", *crops)
    alone, _ = files.read_tensors(tmp_path / "alone" / "features")
    own = arrays["image_features"][images["14"] : images["14"] + 3]
    assert np.allclose(alone["image_features"], own, atol=1e-6)
    assert not np.allclose(own[0], own[1], atol=1e-3)
    encode(corpus, towers, tmp_path / "seed", *crops, "--seed", "1")
    other, _ = files.read_tensors(tmp_path / "seed" / "features")
    assert not np.allclose(other["image_features"], own, atol=1e-3)


def test_an_index_of_nothing(corpus: Path, towers: Path, tmp_path: Path) -> None:
    index, _ = files.read_parquet(corpus / "index.parquet")
    files.write_parquet(corpus / "index.parquet", index[:0])
    record = encode(corpus, towers, tmp_path / "out", workers=1)
    arrays, _ = files.read_tensors(tmp_path / "out" / "features")
    assert arrays["image_features"].shape == (0, 32)
    assert (record["images"], record["images_per_s"]) == (0, 0)


# A job that was killed ------------------------------------------------------------------------


def finished(out: Path) -> int:
    return len(list((out / "features.parts").glob("[!.]*")))


@pytest.mark.parametrize("change", ["batch", "precision", "crops", "image", "towers"])
def test_what_a_killed_job_left_is_its_own(change, corpus, towers, tmp_path, decoded, monkeypatch):
    # Stopped when every shard is finished and nothing is written yet.
    def stop(*_: object) -> None:
        raise files.UserError("stopped")

    with monkeypatch.context() as patched:
        patched.setattr("mispair.towers.corpus_features.feature_rows", stop)
        assert main(command(corpus, towers, tmp_path / "out")) == 2
    assert finished(tmp_path / "out") == SHARDS
    settings, again = [], SHARDS * PAIRS
    match change:
        case "batch":
            settings = ["--batch-size", "4"]
        case "precision":
            settings = ["--precision", "bf16"]
        case "crops":
            settings = ["--crops", "2"]
        case "image":
            index, _ = files.read_parquet(corpus / "index.parquet")
            index = index[index["shard"] != "1.tar"]
            members = [("10.jpg", jpeg((50, 50))), ("10.txt", b"new")]
            other = pd.DataFrame(rows_of(write_tar(corpus / "1.tar", members)))
            files.write_parquet(corpus / "index.parquet", pd.concat([index, other]))
            again = 1
        case "towers":
            towers = shutil.copytree(towers, tmp_path / "others")
            weights = load_file(towers / loading.WEIGHTS_NAME)
            weights["visual.conv1.weight"] *= 2
            save_file(weights, towers / loading.WEIGHTS_NAME)
    decoded.clear()
    encode(corpus, towers, tmp_path / "out", *settings)
    assert len(decoded) == again
    encode(corpus, towers, tmp_path / "afresh", *settings)
    assert same(tmp_path / "out", tmp_path / "afresh")


# A job after others ---------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [[], ["--crops", "2"]])
def test_shards_of_former_jobs_are_not_encoded_again(settings, corpus, towers, tmp_path, decoded):
    index, _ = files.read_parquet(corpus / "index.parquet")

    def encoded(*shards: str) -> int:
        """Encode some shards as Snakemake does, and count the pictures that are decoded."""
        for name in ("features", "rows"):
            (tmp_path / "out" / name).unlink(missing_ok=True)
        chosen = index[index["shard"].isin([f"{shard}.tar" for shard in shards])]
        files.write_parquet(corpus / "index.parquet", chosen)
        decoded.clear()
        record = encode(corpus, towers, tmp_path / "out", *settings)
        number = len(decoded)
        assert record["images"] - record["resumed"] == number
        encode(corpus, towers, tmp_path / "afresh", *settings)
        assert same(tmp_path / "out", tmp_path / "afresh")
        shutil.rmtree(tmp_path / "afresh")
        return number // PAIRS

    assert encoded("0", "2") == 2
    assert encoded("0", "1", "2") == 1
    assert encoded("1", "2") == 0
    tidy(tmp_path / "out")  # as at the end of a run, in which no result has the first shard
    assert encoded("0", "1", "2") == 1
    parts = (tmp_path / "out" / "reuse").glob("*.safetensors")
    assert {path.stat().st_ino for path in parts} >= {(tmp_path / "out/features").stat().st_ino}


# What goes wrong ------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 2])
def test_a_changed_shard_stops_the_job(workers, corpus, towers, tmp_path, capsys):
    content = bytearray((corpus / "1.tar").read_bytes())
    content[700] ^= 1
    (corpus / "1.tar").write_bytes(bytes(content))
    assert main(command(corpus, towers, tmp_path / "out", workers=workers)) == 2
    message = capsys.readouterr().err.split("mispair encode-features: ")[1]
    assert "1.tar: the image of '10' is no longer where the index says" in message
    assert "Traceback" not in message
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["features.parts"]


@pytest.mark.parametrize("fault", ["is killed", "sleeps for ever"])
def test_a_killed_or_stuck_worker_is_reported(fault, corpus, towers, tmp_path, capsys, monkeypatch):
    here = os.getpid()

    def failing(*_: object) -> None:
        assert os.getpid() != here
        if fault == "is killed":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(600)

    monkeypatch.setattr(corpus_features, "STALL_SECONDS", 2)
    monkeypatch.setattr(image_list, "decode_image", failing)
    assert main(command(corpus, towers, tmp_path / "out", workers=1)) == 2
    message = capsys.readouterr().err
    assert "0.tar: a process that decodes images was killed" in message
    assert "fewer workers" in message


def test_an_image_that_cannot_be_resized_is_named(corpus: Path) -> None:
    def resize(image: Image.Image) -> torch.Tensor:
        if image.width > 30:
            raise OverflowError("signed integer is greater than maximum")
        return torch.zeros(3, 2, 2)

    kept, _ = files.read_parquet(corpus / "index.parquet")
    images = corpus_features.ShardImages(
        {"0.tar": corpus / "0.tar"}, kept[:2], Preparation(resize), PixelForm()
    )
    error = images[[0, 1]]
    assert isinstance(error, files.UserError)
    assert "0.tar: the image of '01' cannot be resized" in str(error)
    assert images[[0]].shape == (1, 3, 2, 2)


def test_named_sources_with_equal_file_names_are_encoded(corpus, towers, tmp_path):
    plain = encode(corpus, towers, tmp_path / "plain")
    kept, _ = files.read_parquet(corpus / "index.parquet")
    (corpus / "b").mkdir()
    (corpus / "1.tar").rename(corpus / "b" / "0.tar")
    name = kept["shard"].map({"0.tar": "a/0.tar", "1.tar": "b/0.tar", "2.tar": "a/2.tar"})
    files.write_parquet(corpus / "index.parquet", kept.assign(shard=name))
    arguments = command(corpus, towers, tmp_path / "out")
    given = arguments.index("--shards"), arguments.index("--images")
    shards = [str(corpus / path) for path in ("0.tar", "2.tar", "b/0.tar")]
    arguments[given[0] : given[1]] = ["--shards", *shards, "--sources", "a", "a", "b"]
    assert main(arguments) == 0
    assert same(tmp_path / "plain", tmp_path / "out")
    assert plain["images"] == SHARDS * PAIRS


def test_shards_that_do_not_fit_the_index(corpus, towers, tmp_path, capsys):
    arguments = command(corpus, towers, tmp_path / "out")
    missing = [word for word in arguments if not word.endswith("1.tar")]
    assert main(missing) == 2
    assert "the index names 1.tar, which is not among the shards" in capsys.readouterr().err
    (corpus / "other").mkdir()
    shutil.copy(corpus / "1.tar", corpus / "other" / "1.tar")
    arguments.insert(arguments.index("--shards") + 1, str(corpus / "other" / "1.tar"))
    assert main(arguments) == 2
    assert "have the same file name" in capsys.readouterr().err


# Captions ---------------------------------------------------------------------------------------


def captions_table(texts: list[str]) -> pd.DataFrame:
    table = {"caption_id": [caption_id(text) for text in texts], "caption": texts}
    return pd.DataFrame(table).astype("str")


def captions_command(folder: Path, towers: Path) -> list[str]:
    return [
        *("encode-captions", "--captions", str(folder / "captions")),
        *("--towers", str(towers / loading.CONFIG_NAME)),
        *("--features", str(folder / "text"), "--rows", str(folder / "text-rows")),
        *("--record", str(folder / "text-record")),
    ]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_captions_join_the_features_of_the_groups(precision, corpus, towers, tmp_path):
    texts = ["a new one", "another", " ".join(["red"] * 20)]
    files.write_parquet(tmp_path / "captions", captions_table(texts))
    own = ["--batch-size", "2", "--precision", precision]
    assert main([*captions_command(tmp_path, towers), *own]) == 0
    encode(corpus, towers, tmp_path / "out")  # images in single precision, whatever the captions'
    out = tmp_path / "out"
    parts = {
        "captions-0": lambda: read_part(tmp_path / "text", tmp_path / "text-rows"),
        "0000": lambda: read_part(out / "features", out / "rows"),
    }
    pairing = pd.DataFrame({"key": ["01", "10", "22"], "group": "0000", "row": [1, 7, 16]})
    pairing["text_changed"] = False
    pairing["caption_id"] = [caption_id(t) for t in ["another", "a new one", texts[2]]]
    found = gather(parts, pairing)
    model = loading.load_towers(towers)
    tokens = model.tokenizer(["another", "a new one", texts[2]])
    expected = model.model.encode_text(tokens).numpy()
    text = found.text_features[found.text_rows[0]] @ model.text_projection.numpy()
    assert np.allclose(text, expected, atol=1e-5 if precision == "fp32" else 0.05)
    assert found.image_features.dtype == np.float32
    _, about = files.read_parquet(tmp_path / "text-rows")
    assert about == {"precision": precision, "towers": model.fingerprint}
    record = files.read_json(tmp_path / "text-record")
    assert record.items() >= {
        ("images", 0), ("captions", 3), ("truncated", 1), ("precision", precision),
        ("batch_size", 2),
    }  # fmt: skip
    assert record["captions_per_s"] > 0


@pytest.mark.parametrize("exact", [True, False])
def test_captions_of_former_jobs_are_not_encoded_again(exact, towers, tmp_path, monkeypatch):
    """Whatever file they were in, unless features depend on the batch."""
    run, encoded, calls = Tower.__call__, [], itertools.count()

    def counting(self: Tower, tokens: torch.Tensor) -> torch.Tensor:
        encoded.append(len(tokens))
        return run(self, tokens) + (0 if exact else next(calls))

    monkeypatch.setattr(Tower, "__call__", counting)
    monkeypatch.setattr("mispair.towers.corpus_features.CHECKED", 4)
    texts = [f"text {number}" for number in range(100)] + [" ".join(["red"] * 20)]
    files.write_parquet(tmp_path / "captions", captions_table(texts[:50]))
    size = ["--batch-size", "10"]
    arguments = [*captions_command(tmp_path, towers), *size]
    assert main(arguments) == 0
    for name in ("text", "text-rows"):
        (tmp_path / name).rename(tmp_path / f"former-{name}")
    files.write_parquet(tmp_path / "captions", captions_table(texts[20:]))
    encoded.clear()
    assert main(arguments) == 0
    # New ones and four that are checked, in full batches, and a last batch of one.
    assert sum(encoded) == (60 + 1 if exact else 60 + 1 + 81)
    record = files.read_json(tmp_path / "text-record")
    assert (record["captions"], record["truncated"]) == (81, 1)
    assert record["resumed"] == (20 if exact else 0)
    if exact:
        (tmp_path / "afresh").mkdir()
        shutil.copy(tmp_path / "captions", tmp_path / "afresh" / "captions")
        assert main([*captions_command(tmp_path / "afresh", towers), *size]) == 0
        for name in ("text", "text-rows"):
            assert (tmp_path / name).read_bytes() == (tmp_path / "afresh" / name).read_bytes()


class Killed(BaseException):
    pass


@pytest.mark.parametrize("batches", [1, 2, 3, 5])
def test_captions_go_on_at_the_batch(batches, towers, tmp_path, monkeypatch):
    """Nine texts in batches of two, and parts of four."""
    monkeypatch.setattr("mispair.towers.encoding.TEXTS_OF_A_PART", 4)
    monkeypatch.setattr("mispair.core.resume.SAVE_SECONDS", -1)
    files.write_parquet(tmp_path / "captions", captions_table([f"text {n}" for n in range(9)]))
    arguments = [*captions_command(tmp_path, towers), "--batch-size", "2"]
    assert main(arguments) == 0
    names = ("text", "text-rows")
    whole = [(tmp_path / name).read_bytes() for name in names]
    shutil.rmtree(tmp_path / "reuse")
    run, encoded = Tower.__call__, []

    def counting(self: Tower, tokens: torch.Tensor) -> torch.Tensor:
        if len(tokens) and len(encoded) == batches and not gone_on:
            raise Killed
        encoded.extend([tokens] if len(tokens) else [])
        return run(self, tokens)

    monkeypatch.setattr(Tower, "__call__", counting)
    gone_on = False
    for name in names:
        (tmp_path / name).unlink()
    if batches < 5:
        with pytest.raises(Killed):
            main(arguments)
        assert not (tmp_path / "text").exists()
    gone_on = True
    assert main(arguments) == 0
    assert [(tmp_path / name).read_bytes() for name in names] == whole
    assert len(encoded) == 5, "a batch was encoded twice"
    record = files.read_json(tmp_path / "text-record")
    assert (record["captions"], record["resumed"]) == (9, min(9, 2 * batches) % 9)
    assert not (tmp_path / "text.parts").exists()


def test_no_captions(towers: Path, tmp_path: Path) -> None:
    files.write_parquet(tmp_path / "captions", captions_table([]))
    assert main([*captions_command(tmp_path, towers), "--precision", "bf16"]) == 0
    arrays, about = files.read_tensors(tmp_path / "text")
    assert arrays["text_features"].shape == (0, 16)
    assert arrays["text_features"].dtype == np.float16
    assert about["precision"] == "bf16"
    assert len(files.read_parquet(tmp_path / "text-rows")[0]) == 0
