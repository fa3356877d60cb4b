"""Pruned models, as plain open_clip loads and runs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import pytest
import torch
from huggingface_hub import ModelCard
from PIL import Image
from safetensors.torch import load_file

from mispair.cli import main
from mispair.core import files, metrics
from mispair.evaluation import pruned_model, zeroshot
from mispair.evaluation.purity import neuron_overlap
from mispair.evaluation.steps import prune_neurons
from mispair.pairs.scenes.evaluation_sets import EVALUATION_SETS, labelled_pictures
from mispair.towers import loading, model_cards
from mispair.towers.checkpoints import laclip
from tests.towers.test_loading import SHIPPED
from tests.towers.test_tower_families import FAMILIES, build

PRUNABLE = (
    "vit-class-token", "vit-query-key-norm", "sigmoid-loss",
    "timm-vit", "timm-default-pool", "coca-class-token",
)  # fmt: skip
"""Of each way to hold projections and scale one family; the other towers are no different here."""

AS_WIDE = ("vit-attentional-pool", "vit-cascade-pool", "timm-attention-pool", "coca")
"""Families whose poolers are as wide as the embedding."""

WHOLE, KEPT = 24, 10
TEXTS = ["a red circle", "an orange ring on the left", "two !"]


def _by_open_clip(folder: Path) -> tuple[Any, Any, torch.nn.Module]:
    """Load a folder with open_clip alone: preprocessing, tokenizer and model."""
    model, _, preprocess = open_clip.create_model_and_transforms(f"local-dir:{folder}")
    return preprocess, open_clip.get_tokenizer(f"local-dir:{folder}"), model.eval()


def _prune(source: Path, folder: Path, scale: float = 1.5) -> tuple[loading.Towers, np.ndarray]:
    """Write towers with random projections of ten neurons; return the whole towers and these."""
    towers = loading.load_towers(source)
    draw = np.random.default_rng(0)
    both = [
        draw.standard_normal((len(whole), KEPT)).astype(np.float32)
        for whole in (towers.image_projection, towers.text_projection)
    ]
    folder.mkdir()
    model = loading.load_towers(source).model
    pruned_model.replace_projections(model, *both, scale)
    pruned_model.write_pruned(folder, source, model)
    return towers, both  # type: ignore[return-value]


@pytest.mark.parametrize("name", PRUNABLE)
def test_embeddings_are_those_of_the_cut_projections(name: str, tmp_path: Path) -> None:
    towers, (image, text) = _prune(build(tmp_path / "towers", FAMILIES[name]), tmp_path / "pruned")
    _, tokenizer, model = _by_open_clip(tmp_path / "pruned")
    size = model.visual.image_size  # type: ignore[union-attr]
    pictures = torch.randn(3, 3, *size, generator=torch.Generator().manual_seed(0))  # type: ignore[misc]
    tokens = tokenizer(TEXTS)
    for batch, features, encode, projection in (
        (pictures, towers.image_features, "encode_image", image),
        (tokens, towers.text_features, "encode_text", text),
    ):
        expected = zeroshot.embed(features(batch).numpy(), projection)
        with torch.no_grad():
            found = getattr(model, encode)(batch, normalize=True)
        assert found.shape == (3, KEPT)
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)
    assert model.logit_scale.item() == pytest.approx(1.5)
    own = loading.load_towers(tmp_path / "pruned")
    np.testing.assert_array_equal(own.image_projection, image)
    np.testing.assert_array_equal(own.text_projection, text)
    assert own.logit_scale == 1.5


@pytest.mark.parametrize("name", AS_WIDE)
def test_poolers_as_wide_as_the_embedding_are_refused(name: str, tmp_path: Path) -> None:
    source = build(tmp_path / "towers", FAMILIES[name])
    with pytest.raises(files.UserError, match="towers: cannot be pruned to 10 neurons.*pooler"):
        _prune(source, tmp_path / "pruned")


def test_linear_layers_stay_linear_layers(tmp_path: Path) -> None:
    source = build(tmp_path / "towers", FAMILIES["vit-class-token"])
    model: Any = loading.load_towers(source).model
    whole = model.text_projection
    del model.text_projection
    model.text_projection = torch.nn.Linear(*whole.shape, bias=False)
    draw = np.random.default_rng(0)
    image, text = (draw.standard_normal((d, KEPT)).astype(np.float32) for d in (32, 16))
    pruned_model.replace_projections(model, image, text, 0.0)
    assert model.text_projection.out_features == KEPT
    np.testing.assert_array_equal(model.text_projection.weight.detach().T, text)


def test_towers_whose_trunk_lies_beside_them_stay_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LaCLIP's own architecture: timm reads the trunk from the folder in which it is loaded."""
    sizes = laclip.RecipeSizes(
        image_size=32, width=32, layers=2, heads=2, embed_dim=WHOLE, text_width=16, text_layers=1,
        text_heads=2, context_length=12,
    )  # fmt: skip
    architecture = laclip.cc(sizes)
    draw = torch.Generator().manual_seed(0)
    state = {
        name: 0.2 * torch.randn(shape, generator=draw)
        for name, shape in architecture.shapes.items()
    }
    (tmp_path / "towers").mkdir()
    architecture.write(tmp_path / "towers", state, {"recipe": "laclip-cc"})
    towers, (image, _) = _prune(tmp_path / "towers", tmp_path / "pruned")
    assert loading.load_towers(tmp_path / "pruned").image_projection.shape == (32, KEPT)
    monkeypatch.chdir(tmp_path / "pruned")
    model = open_clip.create_model("local-dir:.").eval()
    pictures = torch.randn(3, 3, 32, 32, generator=draw)
    with torch.no_grad():
        found = model.encode_image(pictures, normalize=True)
    expected = zeroshot.embed(towers.image_features(pictures).numpy(), image)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_weights_keep_their_number_format_where_it_holds_them(tmp_path: Path) -> None:
    source = build(tmp_path / "towers", FAMILIES["vit-class-token"])
    towers, _ = _prune(source, tmp_path / "pruned")
    before = load_file(source / loading.WEIGHTS_NAME)
    after = load_file(tmp_path / "pruned" / loading.WEIGHTS_NAME)
    assert before.keys() == after.keys()
    for name, value in before.items():
        if name in ("visual.proj", "text_projection"):
            assert value.dtype == torch.float16  # which random projections do not fit
            assert after[name].dtype == torch.float32
        else:
            assert after[name].dtype == value.dtype
            assert name == "logit_scale" or torch.equal(after[name], value)
    halves = tmp_path / "halves"
    halves.mkdir()
    exact = [towers.image_projection.numpy()[:, :KEPT], towers.text_projection.numpy()[:, :KEPT]]
    pruned_model.replace_projections(towers.model, *exact, 1.5)
    pruned_model.write_pruned(halves, source, towers.model)
    for value in load_file(halves / loading.WEIGHTS_NAME).values():
        assert not value.is_floating_point() or value.dtype == torch.float16


# The step ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pictures() -> list[tuple[Image.Image, int]]:
    """Return pictures of shapes and their classes."""
    found = labelled_pictures("scenes-shape", images=120, size=48, seed=0, split="test")
    return [(picture, label) for picture, label in found]


@pytest.fixture(scope="module")
def cached(tmp_path_factory: pytest.TempPathFactory, pictures: list) -> Path:
    """Write features of the pictures, two protocols, and projections of two arms."""
    folder = tmp_path_factory.mktemp("cached")
    towers = loading.load_towers(SHIPPED)
    pixels = torch.stack([towers.preprocess(picture) for picture, _ in pictures])
    about = {"name": "shapes", "towers": towers.fingerprint}
    arrays = {
        "image_features": towers.image_features(pixels).numpy(),
        "labels": np.array([label for _, label in pictures]),
    }
    files.write_tensors(folder / "shapes" / "images.safetensors", arrays, about)
    for protocol, texts in _protocols().items():
        prompts = [text for of_class in texts for text in of_class]
        numbers = np.repeat(np.arange(len(texts)), [len(of_class) for of_class in texts])
        features = towers.text_features(towers.tokenizer(prompts)).numpy()
        which = {**about, "protocol": protocol, "fingerprint": f"hash of {protocol}"}
        arrays = {"prompt_features": features, "prompt_classes": numbers}
        files.write_tensors(folder / "shapes" / f"prompts~{protocol}.safetensors", arrays, which)
    draw = np.random.default_rng(0)
    for arm, noise, scale in (("untouched", 0.0, towers.logit_scale), ("tuned", 0.02, 3.0)):
        both = {
            f"{name}_projection": (whole + noise * draw.standard_normal(whole.shape))[None]
            for name, whole in (
                ("image", towers.image_projection.numpy()),
                ("text", towers.text_projection.numpy()),
            )
        }
        tensors = {name: np.repeat(value, 2, 0).astype(np.float32) for name, value in both.items()}
        for value in tensors.values():
            value[1] = 0  # of the second seed nothing may be taken
        tensors["logit_scale"] = np.array([scale, 0], np.float32)
        origin = {"start": arm, "towers": towers.fingerprint, "seeds": "[0, 1]"}
        files.write_tensors(folder / f"{arm}.safetensors", tensors, origin)
    return folder


def _protocols() -> dict[str, list[list[str]]]:
    names = EVALUATION_SETS["scenes-shape"].classnames
    return {
        "one": [[f"a {name}"] for name in names],
        "two": [[f"the red {name}", f"a picture of the blue {name}"] for name in names],
    }


def _export(cached: Path, folder: Path, arm: str, strategy: str, by: str, k: int) -> int:
    files_ = {
        "towers": [SHIPPED / loading.CONFIG_NAME, *sorted(SHIPPED.iterdir())],
        "projection": [cached / f"{arm}.safetensors"],
        "images": [cached / "shapes" / "images.safetensors"],
        "prompts": sorted(cached.glob("shapes/prompts~*")),
        "strategy": [strategy], "ranked_by": [by], "k": [k],
        "pruned": [folder / "pruned"], "record": [folder / "record.json"],
    }  # fmt: skip
    words = ["export-pruned"]
    for option, values in files_.items():
        words += ["--" + option.replace("_", "-"), *map(str, values)]
    return main(words)


def _kept(cached: Path, arm: str, strategy: str, k: int) -> tuple[np.ndarray, ...]:
    tensors, _ = files.read_tensors(cached / f"{arm}.safetensors")
    both = tensors["image_projection"][0], tensors["text_projection"][0]
    if strategy == "high-purity":
        return *both, np.sort(np.argsort(neuron_overlap(both[0]) + neuron_overlap(both[1]))[:k])
    return *both, np.array([])


@pytest.mark.parametrize(
    ("arm", "strategy", "by", "k"),
    [
        ("untouched", "high-purity", "both", 64),
        ("tuned", "high-purity", "both", 40),
        ("untouched", "random", "none", 20),
        ("tuned", "low-variance", "text", 8),
    ],
)
def test_plain_open_clip_has_the_accuracy_of_the_record(
    arm: str, strategy: str, by: str, k: int, cached: Path, pictures: list, tmp_path: Path
) -> None:
    assert _export(cached, tmp_path, arm, strategy, by, k) == 0
    rows, about = metrics.read_metrics(tmp_path / "record.json")
    assert all((row["strategy"], row["ranked_by"], row["k"]) == (strategy, by, k) for row in rows)
    assert about["projection"]["start"] == arm
    assert about["protocols"]["shapes"]["two"]["fingerprint"] == "hash of two"
    values = {(row["metric"], row.get("protocol")): row["value"] for row in rows}
    assert len(values) == len(rows) == 2 * (3 + 2 * 2 + 1)

    image, text, expected = _kept(cached, arm, strategy, k)
    kept = np.array(files.read_json(tmp_path / "pruned" / "pruned.json")["neurons"])
    assert len(set(kept)) == k
    if strategy == "high-purity":
        np.testing.assert_array_equal(kept, expected)

    preprocess, tokenizer, model = _by_open_clip(tmp_path / "pruned")
    labels = np.array([label for _, label in pictures])
    with torch.no_grad():
        pixels = torch.stack([preprocess(picture) for picture, _ in pictures])
        embeddings = model.encode_image(pixels, normalize=True).numpy()
    features, _ = files.read_tensors(cached / "shapes" / "images.safetensors")
    own = zeroshot.embed(features["image_features"], image[:, kept])
    np.testing.assert_allclose(embeddings, own, atol=1e-6)
    for protocol, texts in _protocols().items():
        classes = []
        for prompts in texts:
            with torch.no_grad():
                units = model.encode_text(tokenizer(prompts), normalize=True).mean(0)
            classes.append(units.numpy() / np.linalg.norm(units))
        accuracy = (np.argmax(embeddings @ np.array(classes).T, axis=1) == labels).mean()
        assert values["acc1", protocol] == accuracy
        path = cached / "shapes" / f"prompts~{protocol}.safetensors"
        of, _ = files.read_tensors(path)
        for columns, metric in ((kept, "acc1"), (slice(None), "reference_acc1")):
            ours = zeroshot.classifier(
                of["prompt_features"], of["prompt_classes"], text[:, columns]
            )
            units = zeroshot.embed(features["image_features"], image[:, columns])
            answers, _ = zeroshot.classify(units, ours, labels)
            assert values[metric, protocol] == (answers == labels).mean()
    assert values["reference_acc1", "two"] > 0.5

    scale = files.read_tensors(cached / f"{arm}.safetensors")[0]["logit_scale"][0]
    assert model.logit_scale.item() == pytest.approx(scale)
    sizes = {
        "": (model, tmp_path / "pruned"),
        "reference_": (_by_open_clip(SHIPPED)[2], SHIPPED),
    }
    for prefix, (whole, folder) in sizes.items():
        parameters = sum(parameter.numel() for parameter in whole.parameters())
        assert values[f"{prefix}parameters", None] == parameters
        size = (folder / loading.WEIGHTS_NAME).stat().st_size
        assert values[f"{prefix}bytes", None] == size
    removed = (image.shape[0] + text.shape[0]) * (image.shape[1] - k)
    assert values["reference_parameters", None] - values["parameters", None] == removed
    assert values["embedding_bytes_per_image", None] == embeddings.nbytes / len(labels)
    assert values["reference_embedding_bytes_per_image", None] == 4 * image.shape[1]
    for name in ("seconds_to_classify", "reference_seconds_to_classify"):
        assert values[name, "one"] > 0
    assert min(values["seconds_to_search", None], values["reference_seconds_to_search", None]) > 0


def test_the_folder_is_towers_of_mispair_with_the_same_bytes_every_time(
    cached: Path, tmp_path: Path
) -> None:
    folders = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        assert _export(cached, tmp_path / name, "tuned", "high-norm", "image", 30) == 0
        folders.append(tmp_path / name / "pruned")
    found = sorted(path.name for path in folders[0].iterdir())
    assert found == ["README.md", "open_clip_config.json", "open_clip_model.safetensors",
                     "pruned.json", "tokenizer.json", "tokenizer_config.json"]  # fmt: skip
    for name in found:
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()
    towers = loading.load_towers(folders[0])
    assert towers.image_projection.shape[1] == towers.text_projection.shape[1] == 30
    assert towers.tokenizer(["a red circle"]).shape == (1, 28)
    assert main([
        "extract-projection", "--towers", str(folders[0] / loading.CONFIG_NAME),
        "--projection", str(tmp_path / "projection"),
    ]) == 0  # fmt: skip
    tensors, origin = files.read_tensors(tmp_path / "projection")
    whole, _ = files.read_tensors(cached / "tuned.safetensors")
    kept = files.read_json(folders[0] / "pruned.json")["neurons"]
    for name in ("image_projection", "text_projection"):
        np.testing.assert_array_equal(tensors[name][0], whole[name][0][:, kept])
    assert origin["towers"] == towers.fingerprint != loading.fingerprint(SHIPPED)


def test_the_hub_reads_base_model_scores_and_protocols_from_the_card(
    cached: Path, tmp_path: Path
) -> None:
    assert _export(cached, tmp_path, "tuned", "high-norm", "image", 30) == 0
    card = ModelCard.load(tmp_path / "pruned" / "README.md")
    assert card.data.base_model == SHIPPED.name
    assert card.data.license == "unknown"
    rows, _ = metrics.read_metrics(tmp_path / "record.json")
    expected = {
        (row["evaluation_set"], f"acc1, protocol {row['protocol']}"): row["value"]
        for row in rows
        if row["metric"] == "acc1"
    }
    results = {(r.dataset_name, r.metric_name): r.metric_value for r in card.data.eval_results}
    assert results == expected
    assert len(results) == 2
    assert "The strategy high-norm keeps 30" in card.text
    # Another licence, and captions of which four in five were exchanged.
    arm = {"start": "pretrained", "scheme": "random", "rate": "0.8"}
    note = {"strategy": "random", "ranked_by": "none", "k": 30, "towers": "ab"}
    said = ModelCard(model_cards.pruned_card('"odd|', note, arm, [], "cc-by-4.0"))
    assert said.data.license == "cc-by-4.0"
    assert said.data.base_model == '"odd|'
    assert "80% of the captions exchanged (C_m, scheme random)" in said.text
    assert "no score" in said.text


def test_a_random_export_keeps_the_neurons_of_the_first_draw(cached: Path, tmp_path: Path) -> None:
    assert _export(cached, tmp_path, "untouched", "random", "none", 16) == 0
    files_ = {
        "projection": [cached / "untouched.safetensors"],
        "images": [cached / "shapes" / "images.safetensors"],
        "prompts": [cached / "shapes" / "prompts~one.safetensors"],
        "pruning": [tmp_path / "pruning.json"],
        "ks": [16], "draws": [2], "rotations": [0],
    }  # fmt: skip
    words = [word for key, of in files_.items() for word in (f"--{key}", *map(str, of))]
    assert main([prune_neurons.__name__.rpartition(".")[2].replace("_", "-"), *words]) == 0
    rows, _ = metrics.read_metrics(tmp_path / "pruning.json")
    record, _ = metrics.read_metrics(tmp_path / "record.json")
    (exported,) = [
        r["value"] for r in record if (r["metric"], r.get("protocol")) == ("acc1", "one")
    ]
    swept = {
        row["draw"]: row["value"] for row in rows
        if (row["strategy"], row["normalised"], row["metric"]) == ("random", "renormalised", "acc1")
    }  # fmt: skip
    assert exported == swept[0] != swept[1]


@pytest.mark.parametrize(
    ("k", "message"), [(0, "ks: 0 is not one of 1 to 128"), (129, "129 is not one of 1 to 128")]
)
def test_numbers_that_cannot_be_kept_are_refused(
    k: int, message: str, cached: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    assert _export(cached, tmp_path, "untouched", "random", "none", k) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("strategy", "by"), [("purest", "both"), ("high-purity", "none")])
def test_rankings_that_do_not_exist_are_refused(
    strategy: str, by: str, cached: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    assert _export(cached, tmp_path, "untouched", strategy, by, 9) == 2
    assert f"no {strategy} by {by}; there are high-purity" in capsys.readouterr().err


def test_projections_of_other_towers_are_refused(
    cached: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    for path in sorted(cached.rglob("*.safetensors")):
        tensors, about = files.read_tensors(path)
        target = tmp_path / path.relative_to(cached)
        files.write_tensors(target, tensors, {**about, "towers": "others"})
    assert _export(tmp_path, tmp_path, "untouched", "high-purity", "text", 9) == 2
    assert "untouched.safetensors: comes from other towers than" in capsys.readouterr().err
    assert not (tmp_path / "pruned").exists()
