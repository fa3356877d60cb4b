"""Joined towers: strict loading of both, the bag of words, and what other steps make of them."""

import io
import json
import os
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from mispair.audit.seen_pairs import may_have_seen, refuse_seen
from mispair.core.files import UserError
from mispair.emoji import joining
from mispair.emoji.joining import Joining, join, parts, read_pairs
from mispair.emoji.packages import PACKAGES
from mispair.repair.captioners.vocabulary import tokenized, vocabulary_of
from mispair.towers.encoding import encode_images, encode_texts
from mispair.towers.joined import PADDING, BagOfWords, load_trunk, renamed
from mispair.towers.loading import CONFIG_NAME, WEIGHTS_NAME, Towers, load_towers
from mispair.verbs import sets_and_models  # noqa: F401, it declares
from tests.emoji import made_up
from tests.emoji.conftest import changed
from tests.pairs.test_index import write_tar

JOINING = Joining(neurons=12, epochs=2, image_size=32)


@pytest.fixture(scope="module")
def folder_of_towers(fetched: Path, packed: Path) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joining, "BATCH_OF_TRAINING", 64)
        join(fetched, read_pairs(packed / "pairs"), fetched.parent / "towers", JOINING)
    return fetched.parent / "towers"


@pytest.fixture(scope="module")
def towers(folder_of_towers: Path) -> Towers:
    return load_towers(folder_of_towers)


def test_the_image_tower_is_timm_s_with_the_published_weights(towers: Towers) -> None:
    import timm

    weights = made_up.trunk_weights()
    reference = timm.create_model("tf_efficientnet_lite0", pretrained=False)
    reference.load_state_dict(dict(zip(reference.state_dict(), weights.values(), strict=True)))
    reference.eval()
    pictures = torch.randn(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        expected = reference.forward_head(reference.forward_features(pictures), pre_logits=True)
    torch.testing.assert_close(towers.image_features(pictures), expected)


def test_a_text_is_the_mean_of_its_words(towers: Towers) -> None:
    words = {word: number for number, word in enumerate(made_up.vocabulary())}
    table = towers.model.text.token_embedding.weight.numpy()  # type: ignore[union-attr,operator]
    texts = ["red thing 3", "kind, sort, kind", "", "nowhere thing"]
    split = [["red", "thing", "3"], ["kind", ",", "sort", ",", "kind"], [], ["[UNK]", "thing"]]
    expected = [
        np.mean([table[words[word]] for word in one], axis=0) if one else np.zeros(made_up.WIDTH)
        for one in split
    ]
    np.testing.assert_allclose(encode_texts(towers, texts, 2), expected, atol=1e-6)


def test_a_captioner_can_learn_their_words(towers: Towers) -> None:
    """Their tokenizer puts no marks around a text, and spells what it split."""
    texts = ["red thing 3", "kind", "", "thing thing red"]
    tokens = tokenized(towers.tokenizer, texts, 8)
    assert tokens.lengths.tolist() == [3, 1, 0, 3]
    vocabulary, counted = vocabulary_of(towers.tokenizer, tokens)
    assert vocabulary.size == 4 + 2
    inside = np.arange(counted.shape[1]) < tokens.lengths[:, None]
    assert vocabulary.texts(np.where(inside, counted, 0), tokens.lengths) == texts


def test_long_texts_are_cut_and_counted(towers: Towers) -> None:
    length = towers.context_length
    texts = ["kind " * count for count in (1, length, length + 1)]
    tokens = towers.tokenizer(texts)
    assert tokens.shape == (3, length)
    assert (tokens[0] == PADDING).sum() == length - 1
    assert towers.truncated(texts, tokens).tolist() == [False, False, True]


def test_the_whole_model_is_features_times_projections(towers: Towers) -> None:
    pictures = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    tokens = towers.tokenizer(["red thing 3", "kind"])
    model = towers.model
    with torch.inference_mode():
        images, texts = model.visual(pictures), model.text(tokens)  # type: ignore[operator]
    assert images.shape == texts.shape == (2, JOINING.neurons)
    torch.testing.assert_close(towers.image_features(pictures) @ towers.image_projection, images)
    torch.testing.assert_close(towers.text_features(tokens) @ towers.text_projection, texts)


def test_projections_learn_and_the_towers_stay(fetched: Path, towers: Towers) -> None:
    untrained, _, _ = parts(fetched, JOINING)
    before, after = untrained.state_dict(), towers.model.state_dict()
    assert before.keys() == after.keys()
    trained = {name for name in before if not torch.equal(before[name], after[name])}
    assert trained == {"visual.head.proj.weight", "text.text_projection", "logit_scale"}


def test_equal_pairs_give_equal_bytes(fetched, packed, folder_of_towers, tmp_path, monkeypatch):
    monkeypatch.setattr(joining, "BATCH_OF_TRAINING", 64)
    join(fetched, read_pairs(packed / "pairs"), tmp_path / "again", JOINING)
    for path in folder_of_towers.iterdir():
        assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes()
    assert load_towers(tmp_path / "again").fingerprint == load_towers(folder_of_towers).fingerprint


def test_the_vocabulary_is_part_of_the_fingerprint(folder_of_towers: Path, tmp_path: Path) -> None:
    words = json.loads((folder_of_towers / "tokenizer.json").read_text("utf-8"))
    vocabulary = words["model"]["vocab"]
    vocabulary["kind"], vocabulary["sort"] = vocabulary["sort"], vocabulary["kind"]
    content = json.dumps(words).encode()
    copy = changed(folder_of_towers, tmp_path / "towers", {"tokenizer.json": content})
    assert load_towers(copy).fingerprint != load_towers(folder_of_towers).fingerprint


def test_names_of_weights_are_timm_s() -> None:
    import timm

    trunk = timm.create_model("tf_efficientnet_lite0", pretrained=False, num_classes=0)
    names = [renamed(name) for name in made_up.published_names()]
    assert [name for name in names if name] == list(trunk.state_dict())


@pytest.mark.parametrize("fault", ["missing", "surplus", "shape", "block"])
def test_weights_that_do_not_fit_are_refused(fault: str) -> None:
    import timm

    trunk = timm.create_model("tf_efficientnet_lite0", pretrained=False, num_classes=0)
    weights = made_up.trunk_weights()
    if fault == "missing":
        del weights["_blocks.3._bn1.running_var"]
    elif fault == "shape":
        weights["_conv_stem.weight"] = torch.zeros(16, 3, 3, 3)
    else:
        name = "_blocks.16._bn1.weight" if fault == "block" else "_blocks.2._se.weight"
        weights[name] = torch.zeros(3)
    with pytest.raises(UserError, match=r"weights\.pth: does not fit EfficientNet-lite0"):
        load_trunk(trunk, weights, Path("weights.pth"))


class _Runs:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch ran",)


def test_code_in_a_package_never_runs(fetched, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    archive = io.BytesIO()
    pickle.dump({"_conv_stem.weight": _Runs()}, archive)
    wheel = tmp_path / "wheel"
    made_up.write_wheel(wheel, {joining.TRUNK_MEMBER: archive.getvalue()})
    name = PACKAGES["efficientnet"].file
    packages = changed(fetched, tmp_path / "packages", {name: wheel.read_bytes()})
    with pytest.raises(UserError, match=re.escape(name)):
        parts(packages, JOINING)
    assert not (tmp_path / "ran").exists()


def test_a_damaged_folder_is_named(folder_of_towers: Path, tmp_path: Path) -> None:
    config = json.loads((folder_of_towers / CONFIG_NAME).read_text("utf-8"))
    config["model_cfg"]["text_cfg"]["vocab_size"] -= 1  # an embedding for each token is needed
    broken = {
        CONFIG_NAME: json.dumps(config).encode(),
        WEIGHTS_NAME: b"{}",
        "tokenizer.json": b"{}",
    }
    for name, content in broken.items():
        copy = changed(folder_of_towers, tmp_path / name, {name: content})
        with pytest.raises(UserError, match=str(copy)):
            load_towers(copy)


def test_pairs_are_read_in_order(fetched: Path, packed: Path, towers: Towers) -> None:
    pairs = read_pairs(packed / "pairs")
    features = joining.features_of_pairs(towers, pairs)
    texts = encode_texts(towers, pairs.captions, 16)
    np.testing.assert_allclose(
        features.text_features[features.text_rows[0]], texts, rtol=1e-5, atol=1e-6
    )
    assert len(features.text_features) == len(set(pairs.captions))
    first = joining.picture(pairs.places[0])
    np.testing.assert_allclose(
        features.image_features[:1], encode_images(towers, [first], 1), rtol=1e-4, atol=1e-5
    )
    with pytest.raises(UserError, match="pack-emoji"):
        read_pairs(fetched)


def test_own_pairs_a_table_trusted_keys_and_broken_samples(fetched, packed, tmp_path, caplog):
    shard, offset, size = read_pairs(packed / "pairs").places[0]
    picture = shard.read_bytes()[offset : offset + size]
    for folder in ("own", "other"):
        (tmp_path / folder).mkdir()
    members = [("v1.a.png", picture), ("v1.a.txt", b"old"), ("v1.b.png", picture)]
    members += [("v1.b.txt", b"old"), ("c.txt", b"no picture"), ("d.png", picture[:200])]
    write_tar(tmp_path / "own/0.tar", [*members, ("d.txt", b"cut")])
    table = tmp_path / "captions.csv"
    table.write_text("key,caption\nv1.a,kind\nv1.b,sort\nd,thing\n")
    assert read_pairs(tmp_path / "own").captions[:2] == ["old", "old"]
    pairs = read_pairs(tmp_path / "own", table)
    assert pairs.captions == ["kind", "sort"]
    assert "'no-image': 1, 'undecodable-image': 1" in caplog.text
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables/a.csv").write_text("sep=;\nkey;caption\nv1.a;kind\n")
    (tmp_path / "tables/b.csv").write_text("key,caption\nv1.b,sort\n")
    for own in ("own/0.tar", "own/*.tar"):
        assert read_pairs(tmp_path / own, tmp_path / "tables").captions == ["kind", "sort"]
    left = read_pairs(tmp_path / "own", table, lambda keys: np.array(keys) == "v1.b")
    assert left.captions == ["kind"]
    join(fetched, pairs, tmp_path / "towers", JOINING)  # the batch is cut to two pairs
    record = tmp_path / "towers/training.json"
    corpus = json.loads(record.read_text("utf-8"))["corpus"]
    assert (corpus["shards"], corpus["pairs"]) == (["0.tar"], 2)
    shards = [tmp_path / "own/0.tar", tmp_path / "own/1.tar"]
    write_tar(shards[1], [("e.png", picture), ("e.txt", b"new")])
    assert may_have_seen(str(record), [str(shard) for shard in shards])
    with pytest.raises(UserError, match="training.json"):
        refuse_seen([record], shards)
    refuse_seen([record], shards[1:])
    write_tar(tmp_path / "other/0.tar", [("e.png", picture), ("e.txt", b"new")])
    refuse_seen([record], [tmp_path / "other/0.tar"])
    with pytest.raises(UserError, match="at least 2"):
        join(fetched, read_pairs(tmp_path / "other"), tmp_path / "none", JOINING)


def test_a_bag_of_words_has_the_gradient_of_a_mean() -> None:
    bag = BagOfWords(5, 3, 2, 4)
    tokens = torch.tensor([[1, 1, 4, PADDING]])
    bag(tokens).sum().backward()
    assert bag.token_embedding.weight.grad is not None
    assert bag.text_projection is not None
    torch.testing.assert_close(bag.token_embedding.weight.grad, torch.zeros(5, 3))
    mean = (2 * bag.token_embedding.weight[1] + bag.token_embedding.weight[4]) / 3
    torch.testing.assert_close(bag.text_projection.grad, mean.detach()[:, None].repeat(1, 2))
