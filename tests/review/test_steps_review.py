"""The steps of the review: files in, files out."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mispair import cli
from mispair.core import files, metrics
from mispair.pairs.index.index import caption_id
from mispair.pairs.scenes.scene_captions import read_caption
from mispair.review import draw as drawing
from mispair.review.labels import by_truth
from tests.audit.made_up import Files, embeddings

N = 400


@pytest.fixture
def made(tmp_path: Path) -> Files:
    images, texts = embeddings(N)
    corpus = Files(tmp_path / "corpus", images, texts)
    corpus.second = [f"another caption of {number}" for number in range(N)], texts
    corpus.write()
    probability = np.random.default_rng(0).random((N, 2))
    both = zip(corpus.captions, corpus.second[0], strict=True)
    ids = [caption_id(text) for texts in both for text in texts]
    columns = {"key": np.repeat(corpus.keys, 2), "caption_id": ids}
    table = pd.DataFrame({**columns, "probability": probability.ravel()})
    files.write_parquet(tmp_path / "audit.parquet", table)
    corpus.table = table.set_index(["key", "caption_id"])["probability"]
    return corpus


def draw(made: Files, folder: Path, *more: str, audit: bool = True) -> tuple[pd.DataFrame, Any]:
    words = [
        "draw-review", "--corpus", f"{made.folder}/corpus.parquet",
        "--captions", f"{made.folder}/texts.parquet",
        "--audit", *([f"{folder}/audit.parquet"] if audit else []), "--kept",
        "--sample", f"{folder}/sample.parquet", "--strata", f"{folder}/strata.json", *more,
    ]  # fmt: skip
    if "--kept" in more:
        words.remove("--kept")
    assert cli.main(words) == 0
    return pd.read_parquet(folder / "sample.parquet"), files.read_json(folder / "strata.json")


def measure(folder: Path, labels: str) -> tuple[dict[str, Any], pd.DataFrame]:
    (folder / "review.csv").write_text(labels)
    assert cli.main([
        "measure-review", "--sample", f"{folder}/sample.parquet",
        "--reviewed", f"{folder}/review.csv", "--truth", "--audit", f"{folder}/audit.parquet",
        "--cut", "0.5", "--review", f"{folder}/review.json", "--pairs", f"{folder}/pairs.parquet",
    ]) == 0  # fmt: skip
    rows, _ = metrics.read_metrics(folder / "review.json")
    return {row["metric"]: row for row in rows}, pd.read_parquet(folder / "pairs.parquet")


def test_a_picture_counts_with_one_of_its_captions(made: Files, tmp_path: Path) -> None:
    sample, strata = draw(made, tmp_path, "--size", "60")
    _, metadata = files.read_parquet(tmp_path / "sample.parquet")
    assert json.loads(metadata[drawing.DESIGN]) == strata
    assert [*sample] == ["key", "stratum", "order", "probability", "caption", "share"]
    assert sample["key"].is_unique
    assert sum(of["pairs"] for of in strata["strata"]) == N
    assert sum(of["drawn"] for of in strata["strata"]) == strata["size"] == len(sample) == 60
    assert any(text.startswith("another") for text in sample["caption"])
    assert any(text.startswith("caption") for text in sample["caption"])
    for row in sample.itertuples():
        assert row.probability == made.table[row.key, caption_id(row.caption)]


def test_no_probabilities_give_a_uniform_sample(made: Files, tmp_path: Path) -> None:
    sample, strata = draw(made, tmp_path, audit=False)
    assert strata["strata"] == [{"pairs": N, "drawn": 200}]
    assert sample["probability"].isna().all()
    refused = made.table.reset_index().assign(probability=np.nan)
    files.write_parquet(tmp_path / "audit.parquet", refused)
    assert draw(made, tmp_path)[0]["key"].tolist() == sample["key"].tolist()


def test_labels_measure_the_share(made: Files, tmp_path: Path) -> None:
    sample, _ = draw(made, tmp_path)
    label = np.where(sample["probability"] > 0.7, "wrong", "right")
    lines = [f"{key},{of}" for key, of in zip(sample["key"], label, strict=True)]
    found, pairs = measure(tmp_path, "\n".join(["key,label", *lines]))
    chance = draw_probabilities(made, tmp_path)
    assert found["checked_share"]["low"] < (chance > 0.7).mean() < found["checked_share"]["high"]
    assert found["checked_labels"] == {"metric": "checked_labels", "value": 200, "n": 200}
    assert found["checked_auroc"]["value"] == pytest.approx(1)
    assert found["checked_precision"]["value"] == pytest.approx(0.6, abs=0.1)
    assert found["checked_recall"]["value"] == pytest.approx(1)
    assert found["checked_cut"]["value"] == pytest.approx(0.67, abs=0.06)
    assert len(pairs) == 2 * N
    assert (pairs["probability"].rank().to_numpy() == made.table.rank().to_numpy()).all()


def draw_probabilities(made: Files, folder: Path) -> np.ndarray:
    from mispair.pairs.captions.caption_texts import read_captioned_pairs

    pairs = read_captioned_pairs(made.folder / "corpus.parquet", 0)
    return drawing.probabilities(folder / "audit.parquet", pairs)


def test_labels_of_another_draw_need_a_copy_of_their_sample(made: Files, tmp_path: Path) -> None:
    """Another model gives other strata; the copy keeps the design, with the new probabilities."""
    first, design = draw(made, tmp_path, "--size", "60")
    lines = [f"{key},right,drawn" for key in first["key"]]
    labels = "\n".join(["key,label,how", *lines])
    (tmp_path / "sample.parquet").rename(tmp_path / "kept.parquet")
    changed = made.table.reset_index()
    changed["probability"] = 1 - changed["probability"]
    files.write_parquet(tmp_path / "audit.parquet", changed)
    draw(made, tmp_path, "--size", "60", "--seed", "1")
    found, _ = measure(tmp_path, labels)
    assert found["checked_not_drawn"]["value"] > 30
    again, kept = draw(made, tmp_path, "--kept", f"{tmp_path}/kept.parquet")
    assert kept == design
    assert again["stratum"].tolist() == first["stratum"].tolist()
    assert again["probability"].to_numpy() == pytest.approx(1 - first["probability"].to_numpy())
    found, pairs = measure(tmp_path, labels)
    assert found["checked_labels"]["value"] == 60
    assert found["checked_not_drawn"]["value"] == 0
    assert found["checked_share"]["low"] == 0
    assert pairs.empty  # all are right, so nothing can be recalibrated


def test_no_label_of_the_draw_is_no_error(made: Files, tmp_path: Path) -> None:
    draw(made, tmp_path)
    found, pairs = measure(tmp_path, "key,label\nother,wrong\n")
    assert found["checked_labels"]["value"] == 0
    assert found["checked_chosen"]["value"] == 1
    assert "checked_share" not in found
    assert pairs.empty


def test_a_file_that_is_no_sample_is_named(made: Files, tmp_path: Path, capsys: Any) -> None:
    words = ["measure-review", "--sample", f"{tmp_path}/audit.parquet", "--reviewed", "--truth",
             "--audit", "--cut", "0.5", "--review", "a", "--pairs", "b"]  # fmt: skip
    assert cli.main(words) != 0
    assert "audit.parquet" in capsys.readouterr().err


def test_the_truth_of_scenes_plays_the_person(tmp_path: Path) -> None:
    captions = ["a red circle", "a green square", "nothing to see"]
    features = [read_caption(captions[0]), read_caption(captions[0]), read_caption(captions[0])]
    keys = ["a", "b", "c"]
    table = pd.DataFrame({"key": keys, "image_features": features})
    table.to_parquet(tmp_path / "0.parquet")
    sample = pd.DataFrame({"key": keys, "caption": captions})
    answers = {key: label for key, (label, _) in by_truth(sample, [tmp_path / "0.parquet"]).items()}
    assert answers == {"a": "right", "b": "wrong", "c": "wrong"}


def test_labels_of_replaced_captions(tmp_path: Path) -> None:
    n = 300
    old, new = ([f"{kind} {number}" for number in range(n)] for kind in ("old", "new"))
    ids = {name: [caption_id(text) for text in of] for name, of in (("old", old), ("new", new))}
    keys = [f"{number:03d}" for number in range(n)]
    texts = pd.DataFrame({"caption_id": ids["old"] + ids["new"], "caption": old + new})
    files.write_parquet(tmp_path / "texts.parquet", texts)
    before = pd.DataFrame({"key": keys, "caption_id": ids["old"]})
    files.write_parquet(tmp_path / "before.parquet", before)
    given = [ids["new" if number % 2 else "old"][number] for number in range(n)]
    kept = np.arange(n) % 10 != 1
    after = pd.DataFrame({"key": keys, "caption_id": given, "kept": kept})
    files.write_parquet(tmp_path / "after.parquet", after)

    def draw_replaced(size: int) -> pd.DataFrame:
        assert cli.main([
            "draw-replaced", "--pairing", f"{tmp_path}/before.parquet", "--repaired",
            f"{tmp_path}/after.parquet", "--captions", f"{tmp_path}/texts.parquet", "--sample",
            f"{tmp_path}/replaced.parquet", "--size", str(size),
        ]) == 0  # fmt: skip
        return pd.read_parquet(tmp_path / "replaced.parquet")

    small, sample = draw_replaced(20), draw_replaced(60)
    assert small["key"].tolist() == sample["key"].tolist()[:20]
    assert sample["order"].tolist() == [*range(60)]
    for row in sample.itertuples():
        assert (row.old, row.new) == (f"old {int(row.key)}", f"new {int(row.key)}")
        assert int(row.key) % 2 == 1
        assert kept[int(row.key)]
    answers = ["new"] * 25 + ["old"] * 5 + ["both", "", "neither", "new"]
    lines = [f"{key},{answer}" for key, answer in zip(sample["key"], answers, strict=False)]
    (tmp_path / "repairs.csv").write_text("\n".join(["key,label", *lines]))
    assert cli.main([
        "measure-replaced", "--sample", f"{tmp_path}/replaced.parquet", "--reviewed",
        f"{tmp_path}/repairs.csv", "--replaced", f"{tmp_path}/replaced.json",
    ]) == 0  # fmt: skip
    rows, provenance = metrics.read_metrics(tmp_path / "replaced.json")
    found = {row["metric"]: row for row in rows}
    assert provenance["replaced"] == 120
    assert found["compared_labels"]["value"] == 33
    assert found["compared_improved"]["value"] == pytest.approx(26 / 34)
    assert found["compared_harmed"]["value"] == pytest.approx(5 / 34)
    assert found["compared_harmed"]["low"] < 5 / 34 < found["compared_harmed"]["high"] < 0.3

    files.write_parquet(tmp_path / "after.parquet", before.assign(kept=True))
    assert list(draw_replaced(20).columns) == list(sample.columns)
    assert draw_replaced(20).empty


@pytest.mark.parametrize("listed", [False, True])
def test_labels_correct_the_trusted_pairs(tmp_path: Path, listed: bool) -> None:
    keys = [f"{number:03d}" for number in range(100)]
    ids = [caption_id(key) for key in keys]
    files.write_parquet(
        tmp_path / "pairing.parquet", pd.DataFrame({"key": keys, "caption_id": ids})
    )
    files.write_parquet(
        tmp_path / "texts.parquet", pd.DataFrame({"caption_id": ids, "caption": keys})
    )
    (tmp_path / "trusted.txt").write_text("\n".join(keys[:50]))
    answers = ["wrong"] * 60 + ["right"] * 20 + ["unsure"] * 20
    lines = [  # a path of a picture stands for its key
        f"{key}{'.jpg' if number % 2 else ''},{answer}"
        for number, (key, answer) in enumerate(zip(keys, answers, strict=True))
    ]
    (tmp_path / "review.csv").write_text("\n".join(["key,label", *lines]))
    given = [f"{tmp_path}/trusted.txt"] if listed else []
    assert cli.main([
        "trust-pairs", "--pairing", f"{tmp_path}/pairing.parquet", "--captions",
        f"{tmp_path}/texts.parquet", "--trusted-keys", *given, "--reviewed",
        f"{tmp_path}/review.csv", "--trusted", f"{tmp_path}/out.parquet", "--share", "0.5",
    ]) == 0  # fmt: skip
    trusted = set(pd.read_parquet(tmp_path / "out.parquet")["key"])
    assert not trusted & set(keys[:60])
    assert trusted >= set(keys[60:80])
    assert len(trusted) == 20 or not listed
