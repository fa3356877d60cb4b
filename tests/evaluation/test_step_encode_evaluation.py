"""The steps that run the frozen towers over evaluation sets, on files as the rules run them."""

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from mispair.cli import main
from mispair.core import files
from mispair.evaluation.protocols import protocol_files
from mispair.evaluation.sets import files_of, files_of_texts
from mispair.towers import encoding, loading
from tests.pairs.test_index import encoded, jpeg, write_tar
from tests.towers.made_up import NATIVE, build

TEMPLATES = ("a {c}", "the {c}", "no {c}")


@pytest.fixture(scope="module")
def towers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("towers") / "vit", NATIVE)


def write_split(folder: Path, split: str, ending: str, contents: list[str]) -> None:
    (folder / split).mkdir(parents=True)
    (folder / split / "nshards.txt").write_text("1\n")
    members = []
    for number, content in enumerate(contents):
        members += [(f"{number}.jpg", jpeg((20 + number, 30)))]
        members += [(f"{number}.{ending}", content.encode())]
    write_tar(folder / split / "0.tar", members)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "set"
    write_split(folder, "test", "cls", ["0", "1", "0", "1", "0"])
    write_split(folder, "train", "cls", ["1", "1", "0"])
    (folder / "classnames.txt").write_text("ring\nsquare\n")
    (folder / "zeroshot_classification_templates.txt").write_text("\n".join(TEMPLATES))
    return folder


@pytest.fixture
def retrieval(tmp_path: Path) -> Path:
    folder = tmp_path / "captioned"
    write_split(folder, "test", "txt", ["a ring\nthe ring\n", "a square", "a ring"])
    (folder / "dataset_type.txt").write_text("retrieval\n")
    return folder


def images_command(folder: Path, towers: Path, out: Path, split: str = "test") -> list[str]:
    return [*("encode-evaluation", "--evaluation-set", *map(str, files_of(folder, split))),
            *("--split", split, "--workers", "1"),
            *("--towers", str(towers / loading.CONFIG_NAME), "--evaluation-features", str(out)),
            *("--batch-size", "2")]  # fmt: skip


def prompts_command(folder: Path, towers: Path, out: Path, source: str) -> list[str]:
    needed = [str(path) for path in protocol_files(source, folder)]
    return [*("encode-prompts", "--evaluation-set", *map(str, files_of_texts(folder))),
            *("--protocol", Path(source).name, "--protocol-files", *needed),
            *("--towers", str(towers / loading.CONFIG_NAME), "--prompts", str(out)),
            *("--batch-size", "2")]  # fmt: skip


def expected_features(folder: Path, towers: Path, split: str = "test") -> torch.Tensor:
    """Return the features of the pictures, all in one batch."""
    model = loading.load_towers(towers)
    with tarfile.open(folder / split / "0.tar") as archive:
        names = [name for name in archive.getnames() if name.endswith(".jpg")]
        encoded = [archive.extractfile(name).read() for name in names]  # type: ignore[union-attr]
    pixels = [model.preprocess(Image.open(io.BytesIO(data)).convert("RGB")) for data in encoded]
    return model.image_features(torch.stack(pixels))


# Images ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("split", "precision", "kind"), [("test", "fp32", np.float32), ("train", "bf16", np.float16)]
)
def test_images_of_a_split(precision, kind, split, folder, towers, tmp_path) -> None:
    arguments = images_command(folder, towers, tmp_path / "out", split)
    assert main([*arguments, "--precision", precision]) == 0
    arrays, about = files.read_tensors(tmp_path / "out")
    labels = {"test": [0, 1, 0, 1, 0], "train": [1, 1, 0]}[split]
    assert arrays.keys() == {"image_features", "labels"}
    assert arrays["labels"].tolist() == labels
    assert arrays["labels"].dtype == np.int64
    assert arrays["image_features"].dtype == kind
    expected = expected_features(folder, towers, split)
    tolerance = 1e-5 if kind is np.float32 else 0.1
    assert np.allclose(arrays["image_features"], expected, atol=tolerance)
    fixed = {"name": "set", "kind": "classification", "split": split, "precision": precision}
    assert about.items() >= fixed.items()
    assert about["towers"] == loading.load_towers(towers).fingerprint


def test_the_fingerprint_covers_images_and_labels(folder, towers, tmp_path) -> None:
    def found() -> str:
        assert main(images_command(folder, towers, tmp_path / "out")) == 0
        return files.read_tensors(tmp_path / "out")[1]["images_fingerprint"]

    first = found()
    (folder / "classnames.txt").write_text("square\nring\n")
    assert found() == first
    shard = folder / "test" / "0.tar"
    members = [(f"{n}.{e}", c) for n in range(5) for e, c in _pair(shard, n)]
    write_tar(shard, [(name, b"1" if name == "0.cls" else c) for name, c in members])
    relabelled = found()
    write_tar(shard, members[2:])
    shorter = found()
    write_tar(shard, [*members[2:], *members[:2]])
    assert len({first, relabelled, shorter, found()}) == 4


def _pair(shard: Path, number: int) -> list[tuple[str, bytes]]:
    with tarfile.open(shard) as archive:
        return [(e, archive.extractfile(f"{number}.{e}").read()) for e in ("jpg", "cls")]  # type: ignore[union-attr]


NARROW = encoded(Image.new("1", (1, 65_500)), "PNG")


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([("0.jpg", b"no image"), ("0.cls", b"0")], "0.tar: the image of '0' cannot be decoded"),
        ([("0.png", NARROW), ("0.cls", b"0")], "0.tar: the image of '0' cannot be decoded (1 x"),
        ([("0.jpg", b"x"), ("0.cls", b"ring")], "has class 'ring'"),
        ([], "holds no image for test"),
    ],
)
def test_unfit_images(members, words, folder, towers, tmp_path, capsys) -> None:
    write_tar(folder / "test" / "0.tar", members)
    assert main(images_command(folder, towers, tmp_path / "out")) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


# Prompts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("precision", "kind"), [("fp32", np.float32), ("bf16", np.float16)])
def test_prompts_of_templates(precision, kind, folder, towers, tmp_path) -> None:
    arguments = prompts_command(folder, towers, tmp_path / "out", "clip_benchmark")
    assert main([*arguments, "--precision", precision]) == 0
    arrays, about = files.read_tensors(tmp_path / "out")
    model = loading.load_towers(towers)
    texts = [t.format(c=c) for c in ("ring", "square") for t in TEMPLATES]
    expected = model.text_features(model.tokenizer(texts))
    tolerance = 1e-5 if kind is np.float32 else 0.1
    assert arrays["prompt_features"].dtype == kind
    assert np.allclose(arrays["prompt_features"], expected, atol=tolerance)
    assert arrays["prompt_classes"].tolist() == [0, 0, 0, 1, 1, 1]
    assert arrays["prompt_classes"].dtype == np.int64
    assert json.loads(about["templates"]) == list(TEMPLATES)
    assert json.loads(about["classnames"]) == ["ring", "square"]
    fixed = {"name": "set", "kind": "classification", "protocol": "clip_benchmark"}
    fixed |= {"metric": "acc1", "precision": precision, "towers": model.fingerprint}
    assert about.items() >= fixed.items()


def test_captions_are_prompts_and_each_text_is_encoded_once(
    retrieval: Path, towers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[str] = []
    encode = encoding.Encoder.encode_texts

    def counting(self: encoding.Encoder, texts: list[str], *rest: Any) -> torch.Tensor:
        encoded.extend(texts)
        return encode(self, texts, *rest)

    monkeypatch.setattr(encoding.Encoder, "encode_texts", counting)
    assert main(prompts_command(retrieval, towers, tmp_path / "out", "captions")) == 0
    assert encoded == ["a ring", "the ring", "a square"]
    arrays, about = files.read_tensors(tmp_path / "out")
    assert arrays["prompt_classes"].tolist() == [0, 0, 1, 2]
    model = loading.load_towers(towers)
    texts = ["a ring", "the ring", "a square", "a ring"]
    expected = model.text_features(model.tokenizer(texts))
    assert np.allclose(arrays["prompt_features"], expected, atol=1e-5)
    assert about.items() >= {("kind", "retrieval"), ("protocol", "captions"), ("classnames", "[]")}
    assert json.loads(about["templates"]) == "per class"
