"""The step corrupt_captions: every scheme from tables to tables, whatever the order of anything."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from mispair import cli
from mispair.core import files
from mispair.pairs.corruption.corrupted import SHARES
from mispair.pairs.corruption.draws import column, seed_of, streams, uniforms
from mispair.pairs.corruption.scheme import schemes
from mispair.pairs.index.index import caption_id
from mispair.pairs.neighbours.tfidf import tfidf_similarities
from mispair.pairs.scenes.scene_captions import read_caption, spurious_partners
from mispair.pairs.steps import make_scenes
from mispair.pairs.steps.corrupt_captions import Settings

SCHEMES = tuple(schemes())
WITHOUT_TRUTH = tuple(name for name in SCHEMES if "truth" not in schemes()[name].reads)
"""Schemes that need no known features of the pictures."""
ADJECTIVES = ("old", "red", "tall", "quiet", "broken", "golden", "tiny")
NOUNS = ("house", "river", "dog", "market", "violin", "bridge", "child", "harbour", "forest")


def _prose(n):
    pick = np.random.default_rng(5)
    return [
        f"A {pick.choice(ADJECTIVES)} {pick.choice(NOUNS)} by the {pick.choice(ADJECTIVES)} "
        f"{pick.choice(NOUNS)} {number}"
        for number in range(n)
    ]


class Corpus:
    """A corpus as gather_index and index_shards leave it, and the commands on it."""

    def __init__(self, folder, captions, more=None, keys=None, groups=3, truth=None):
        self.folder, self.truth = folder, sorted(truth or [])
        keys = keys or [f"{number:06d}" for number in range(len(captions))]
        more = more or [[] for _ in captions]
        self.table = pd.DataFrame({"key": keys, "caption": captions, "more_captions": more})
        self.own = pd.Series(captions, index=keys)
        number = np.random.default_rng(9).permutation(len(keys)) % groups
        self.index, parts = [], []
        for group in range(groups):
            part = self.table[number == group].sample(frac=1, random_state=group)
            more = part["more_captions"].tolist()
            both = {"key": part["key"].tolist(), "caption_id": [*map(caption_id, part["caption"])]}
            index = both | {"caption": part["caption"].tolist(), "more_captions": _lists(more)}
            self.index.append(folder / f"{group:04d}.parquet")
            pq.write_table(pa.table(index), self.index[-1])
            place = {"group": [f"{group:04d}"] * len(part),
                     "row": pa.array(range(len(part)), pa.int32())}  # fmt: skip
            parts.append(pa.table(both | place | {"more_caption_ids": _ids(more)}))
        self.rows = pa.concat_tables(parts).sort_by("key")
        self.corpus = folder / "corpus.parquet"
        rows = self.rows.replace_schema_metadata({"pairs_fingerprint": "0123"})
        pq.write_table(rows, self.corpus)
        self.similar = folder / "similar.parquet"
        self.write_similar()

    def write_similar(self, without=()):
        """Neighbours of each text: the ten that follow it in the order of the alphabet."""
        texts = sorted({*self.table["caption"], *itertools.chain(*self.table["more_captions"])})
        found = [[texts[(i + j) % len(texts)] for j in range(1, 11)] if text not in without else []
                 for i, text in enumerate(texts)]  # fmt: skip
        self.neighbours = dict(zip(texts, found, strict=True))
        alike = [[1 / j for j in range(1, len(f) + 1)] for f in found]
        columns = {"caption_id": [*map(caption_id, texts)], "neighbour_ids": _ids(found),
                   "similarities": pa.array(alike, pa.list_(pa.float32()))}  # fmt: skip
        pq.write_table(pa.table(columns), self.similar)

    def arguments(self, scheme, rate, seed=0, name="pairing", reverse=False, draws=1, **other):
        inputs = {"index": self.index, "similar": [self.similar], "truth": self.truth, **other}
        lists = [part for key, paths in inputs.items()
                 for part in (f"--{key}", *(paths[::-1] if reverse else paths))]  # fmt: skip
        out = ["--pairing", self.folder / f"{name}.parquet"]
        out += ["--captions", self.folder / f"{name}.captions.parquet"]
        job = ["--scheme", scheme, "--rate", rate, "--corpus", self.corpus, "--seed", seed]
        job += ["--draws", draws]
        return [str(part) for part in ("corrupt-captions", *job, *out, *lists)]

    def run(self, scheme, rate, name="pairing", **other):
        assert cli.main(self.arguments(scheme, rate, name=name, **other)) == 0
        pairing, metadata = files.read_parquet(self.folder / f"{name}.parquet")
        written, same = files.read_parquet(self.folder / f"{name}.captions.parquet")
        assert same == metadata
        texts = {caption_id(text): text for text in self.neighbours}
        assert not set(written["caption_id"]) & set(texts)
        assert written["caption_id"].tolist() == sorted(set(written["caption_id"]))
        assert [caption_id(text) for text in written["caption"]] == written["caption_id"].tolist()
        texts |= dict(zip(written["caption_id"], written["caption"], strict=True))
        draws = range(int(metadata["draws"]))
        given = {name for draw in draws for name in pairing[column("caption_id", draw)]}
        assert set(written["caption_id"]) <= given
        assert pairing["key"].tolist() == self.rows["key"].to_pylist()
        assert pairing["group"].tolist() == self.rows["group"].to_pylist()
        assert pairing["row"].tolist() == self.rows["row"].to_pylist()
        pairing["caption"] = [texts[name] for name in pairing["caption_id"]]
        return pairing.set_index("key"), metadata

    def bytes(self, name="pairing"):
        names = (f"{name}.parquet", f"{name}.captions.parquet")
        return [(self.folder / file).read_bytes() for file in names]


def _lists(texts):
    return pa.array(texts, pa.list_(pa.string()))


def _ids(texts):
    return _lists([[caption_id(text) for text in some] for some in texts])


@pytest.fixture
def prose(tmp_path):
    return Corpus(tmp_path, _prose(300))


@pytest.mark.parametrize("scheme", WITHOUT_TRUTH)
def test_draws_are_independent_and_each_is_that_of_its_own_seed(scheme, prose):
    pairing, metadata = prose.run(scheme, 0.4, draws=3)
    alone, about = prose.run(scheme, 0.4, name="alone")
    assert (metadata["draws"], about["draws"]) == ("3", "1")
    for name in ("caption_id", "swapped", "text_changed"):
        # Draw 0 is the pairing of a single draw.
        np.testing.assert_array_equal(pairing[name], alone[name])
    shares = json.loads(metadata["text_changed_share_by_draw"])
    for draw in (1, 2):
        single, _ = prose.run(scheme, 0.4, name="single", seed=seed_of(0, draw))
        np.testing.assert_array_equal(pairing[column("caption_id", draw)], single["caption_id"])
        changed = pairing[column("text_changed", draw)]
        assert changed.mean() == pytest.approx(shares[draw])
        # Independent choices of 40 % have 16 % of the pairs in common.
        if not schemes()[scheme].writes:
            both = (pairing["swapped"] & pairing[column("swapped", draw)]).mean()
            assert both == pytest.approx(0.16, abs=0.07)


def test_draws_at_rate_0_are_all_the_clean_pairs(prose):
    pairing, metadata = prose.run("random", 0.0, draws=2)
    assert pairing["caption_id_1"].tolist() == pairing["caption_id"].tolist()
    assert not pairing["swapped_1"].any()
    assert json.loads(metadata["swapped_share_by_draw"]) == [0.0, 0.0]


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scenes") / "shards"
    settings = make_scenes.Settings(
        shards=3, pairs_per_shard=200, image_size=16, processes=1, high_quality_share=0.7,
        spurious_probability=0.3,
    )  # fmt: skip
    make_scenes.run(settings, corpus=folder)
    return folder


@pytest.fixture
def scenes(tmp_path, shards):
    truth = list(shards.glob("*.parquet"))
    table = pd.concat([pd.read_parquet(path) for path in truth])
    return Corpus(tmp_path, table["caption"].tolist(), keys=table["key"].tolist(), truth=truth)


@pytest.mark.parametrize(("wrong", "named"), [
    ({"rates": [0.1, 0.1]}, "0.1"), ({"rates": [1.5]}, "rates.0"), ({"rates": [-0.2]}, "rates.0"),
    ({"schemes": []}, "schemes"), ({"schemes": ["random", "random"]}, "schemes"),
    ({"schemes": ["shuffle"]}, "schemes"),
])  # fmt: skip
def test_settings_refuse_rates_and_schemes_that_cannot_be(wrong, named):
    with pytest.raises(ValidationError, match=named):
        Settings(**wrong)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_at_rate_zero_nothing_changes_and_nothing_else_is_needed(prose, scheme):
    pairing, metadata = prose.run(scheme, 0, index=[], similar=[], truth=[])
    assert pairing["caption"].tolist() == prose.own.tolist()
    assert not pairing["swapped"].any()
    assert not pairing["text_changed"].any()
    assert metadata == {
        "scheme": scheme, "nominal": "0.0", "swapped_share": "0.0", "text_changed_share": "0.0",
        "identical_text_swaps": "0", "mean_similarity": "nan", "similarity_of": "tfidf",
        "similarity_pairs": "0", "similarity_captions": "0", "distinct_captions": "300",
        "most_used_caption": "1", "note": "", "draws": "1", "swapped_share_by_draw": "[0.0]",
        "text_changed_share_by_draw": "[0.0]", "seed": "0", "pairs_fingerprint": "0123",
    }  # fmt: skip


def test_random_says_why_texts_could_not_change(tmp_path):
    corpus = Corpus(tmp_path, ["a photo"] * 80 + _prose(20))
    pairing, metadata = corpus.run("random", 1)
    assert pairing["swapped"].all()
    assert pairing["text_changed"].sum() == 40
    assert metadata["swapped_share"] == "1.0"
    assert metadata["text_changed_share"] == "0.4"
    assert metadata["identical_text_swaps"] == "60"
    assert metadata["note"] == (
        "60 of the 100 chosen pairs got another pair's caption with their own text, because 80 of "
        "them, more than half, have the caption 'a photo'."
    )


@pytest.mark.parametrize("scheme", ["random", "similar"])
def test_a_set_too_small_for_the_rate_says_so(tmp_path, scheme):
    corpus = Corpus(tmp_path, _prose(14))
    _, metadata = corpus.run(scheme, 0.3)
    assert metadata["text_changed_share"] == repr(4 / 14)
    expected = "4 of 14 pairs is the whole number of pairs nearest to 0.3."
    assert metadata["note"] == expected
    assert corpus.run(scheme, 0.5)[1]["note"] == ""


def test_similar_gives_the_same_pairs_one_of_their_ten_neighbours(prose):
    random, _ = prose.run("random", 0.3)
    pairing, metadata = prose.run("similar", 0.3)
    assert pairing["swapped"].tolist() == random["swapped"].tolist()
    assert pairing["text_changed"].tolist() == pairing["swapped"].tolist()
    ranks = []
    for key, row in pairing.iterrows():
        if row["swapped"]:
            neighbours = prose.neighbours[prose.own[key]]
            ranks.append(neighbours.index(row["caption"]))
            drawn = uniforms(streams([key], 0, "corrupt-captions", "similar"), 0)[0]
            assert ranks[-1] == int(10 * drawn)
        else:
            assert row["caption"] == prose.own[key]
    assert set(ranks) == set(range(10))
    assert metadata["swapped_share"] == metadata["text_changed_share"] == "0.3"
    expected = np.mean([1 / (rank + 1) for rank in ranks])
    assert float(metadata["neighbour_similarity"]) == pytest.approx(expected, abs=1e-6)
    assert metadata["note"] == ""
    # The draw of a pair does not depend on the rate.
    more, _ = prose.run("similar", 0.7)
    chosen = pairing["swapped"]
    assert more.loc[chosen, "caption"].tolist() == pairing.loc[chosen, "caption"].tolist()


def test_similar_leaves_captions_without_neighbours_and_says_so(prose):
    random, _ = prose.run("random", 0.5)
    lonely = prose.own[random["swapped"]][:7].tolist()
    prose.write_similar(without=lonely)
    pairing, metadata = prose.run("similar", 0.5)
    assert pairing["swapped"].sum() == pairing["text_changed"].sum() == 143
    assert metadata["without_neighbours"] == "7"
    assert metadata["note"].startswith("7 of the 150 chosen pairs keep their caption, because no")
    prose.write_similar(without=set(prose.own))
    assert cli.main(prose.arguments("similar", 0.5, name="none")) == 2  # it would change nothing


def test_similar_swap_uses_each_caption_as_often_as_before(scenes):
    pairing, metadata = scenes.run("similar-swap", 0.6)
    assert sorted(pairing["caption"]) == sorted(scenes.own)
    assert metadata["distinct_captions"] == str(scenes.own.nunique())
    assert metadata["most_used_caption"] == str(scenes.own.value_counts().iloc[0])
    assert metadata["swapped_share"] == metadata["text_changed_share"] == "0.6"
    drawn, others = scenes.run("similar", 0.6)
    assert int(others["distinct_captions"]) == drawn["caption"].nunique() < scenes.own.nunique()
    assert int(others["most_used_caption"]) == drawn["caption"].value_counts().iloc[0]


def test_similar_swap_exchanges_no_equal_captions_and_says_what_it_could_not(tmp_path):
    corpus = Corpus(tmp_path, ["a red dog"] * 12 + ["a blue dog", "a red house"])
    pairing, metadata = corpus.run("similar-swap", 1)
    assert pairing["swapped"].sum() == pairing["text_changed"].sum() == 4
    assert sorted(pairing["caption"]) == sorted(corpus.own)
    assert metadata["note"].startswith("10 pairs fewer than wanted")


def test_similar_swap_is_refused_where_it_takes_days(prose, capsys, monkeypatch):
    monkeypatch.setattr("mispair.pairs.corruption.schemes.similar_swap.MOST_PAIRS", 299)
    assert "at most 299" in _refusal(prose, capsys, "similar-swap", 0.1)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_effective_rates_are_those_of_a_loop_over_pairs(scenes, scheme):
    pairing, metadata = scenes.run(scheme, 0.5)
    pictures = pd.concat([pd.read_parquet(path) for path in scenes.truth]).set_index("key")
    wrong, unnamed, replaced = [], [], []
    for key, text in pairing["caption"].items():
        picture, named = set(pictures.loc[key, "image_features"]), set(read_caption(text))
        wrong.append(len(named - picture) / max(len(named), 1))
        unnamed.append(len(picture - named) / len(picture))
        if text != scenes.own[key]:
            same = named == set(read_caption(scenes.own[key]))
            replaced.append((wrong[-1] == 0, same, 1 - wrong[-1]))
    expected = [np.mean(wrong), np.mean(np.array(wrong) > 0), np.mean(unnamed)]
    expected += np.mean(replaced, axis=0).tolist()
    assert [float(metadata[name]) for name in SHARES] == pytest.approx(expected, abs=1e-12)
    rate = float(metadata["wrong_feature_share"])
    base = float(scenes.run(scheme, 0)[1]["wrong_feature_share"])
    assert 0 < base < 0.3  # a share of the captions of this corpus is wrong from the start
    # Dropped words leave the share of wrong ones as it is, up to chance.
    assert rate < base + 0.02 if scheme in ("missing", "drop") else rate > base


def test_without_features_of_the_pictures_no_rate_is_effective(scenes):
    assert not {*SHARES} & set(scenes.run("random", 0.5, truth=[])[1])
    assert not {*SHARES} & set(scenes.run("random", 0.5, truth=scenes.truth[:1])[1])


@pytest.mark.parametrize("scheme", ["spurious", "missing"])
def test_features_are_changed_at_the_rate_and_no_caption_is_swapped(scenes, scheme):
    pairing, metadata = scenes.run(scheme, 0.4, seed=3)
    partners = spurious_partners(3)
    total = changed = 0
    for key, text in pairing["caption"].items():
        own, now = (set(read_caption(part)) for part in (scenes.own[key], text))
        total += len(own)
        if scheme == "missing":
            assert now <= own
            changed += len(own - now)
        else:
            assert now - own <= {partners.get(feature) for feature in own}
            # Those that are gone must have been replaced by what is named now.
            assert {partners[feature] for feature in own - now} <= now
        assert (text != scenes.own[key]) == pairing.at[key, "text_changed"]
        assert own == now or text != scenes.own[key]
        assert text.split()
    assert not pairing["swapped"].any()
    assert metadata["swapped_share"] == "0.0"
    assert float(metadata["text_changed_share"]) == pairing["text_changed"].mean() > 0.5
    share = float(metadata["features_changed_share"])
    if scheme == "missing":
        assert share == changed / total
        assert abs(share - 0.4) < 4 * np.sqrt(0.24 / total)
        assert metadata["note"] == ""
    else:
        spared = int(metadata["note"].split(" of ")[0])
        assert metadata["note"].startswith(f"{spared} of the {total:,} named features were drawn")
        assert abs(share + spared / total - 0.4) < 4 * np.sqrt(0.24 / total)


def test_rewording_depends_on_the_key_only(scenes, tmp_path):
    # Half the corpus, other groups: the pairs that are left get the very same captions.
    whole, _ = scenes.run("missing", 0.5)
    (tmp_path / "half").mkdir()
    half = scenes.own.iloc[::2]
    other = Corpus(
        tmp_path / "half", half.tolist(), keys=half.index.tolist(), groups=5, truth=scenes.truth
    )
    part, _ = other.run("missing", 0.5)
    assert part["caption"].tolist() == whole.loc[part.index, "caption"].tolist()


def test_a_reworded_caption_that_the_corpus_has_is_not_written_again(tmp_path):
    corpus = Corpus(tmp_path, ["a dog", "a dog barks"] * 50, groups=1)
    pairing, _ = corpus.run("drop", 0.5)
    written, _ = files.read_parquet(tmp_path / "pairing.captions.parquet")
    assert set(pairing["caption"]) == {"a dog", "a dog barks", "a barks"}
    assert written["caption"].tolist() == ["a barks"]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_mean_similarity_is_that_of_the_changed_texts(scenes, scheme):
    pairing, metadata = scenes.run(scheme, 0.5)
    changed = pairing["text_changed"]
    background = sorted(set(scenes.own), key=caption_id)
    expected = tfidf_similarities(
        scenes.own[changed].tolist(), pairing.loc[changed, "caption"].tolist(), background
    ).mean()
    assert float(metadata["mean_similarity"]) == pytest.approx(expected, abs=1e-12)
    assert metadata["similarity_of"] == "tfidf"
    assert metadata["similarity_pairs"] == str(changed.sum())
    assert metadata["similarity_captions"] == str(len(background))
    # Rewording leaves more of a caption than a swap does.
    if not scheme.startswith("similar"):
        assert (float(metadata["mean_similarity"]) > 0.25) == (scheme != "random")


def test_similarity_is_sampled_where_there_is_much(prose, monkeypatch):
    monkeypatch.setattr("mispair.pairs.corruption.pairing.MOST_PAIRS", 40)
    monkeypatch.setattr("mispair.pairs.corruption.pairing.MOST_CAPTIONS", 60)
    _, few = prose.run("random", 0.5)
    monkeypatch.undo()
    _, all_ = prose.run("random", 0.5)
    assert (few["similarity_pairs"], few["similarity_captions"]) == ("40", "60")
    assert (all_["similarity_pairs"], all_["similarity_captions"]) == ("150", "300")
    assert 0 < abs(float(few["mean_similarity"]) - float(all_["mean_similarity"])) < 0.1


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_order_of_files_changes_no_byte_and_the_seed_does(scenes, scheme):
    scenes.run(scheme, 0.3)
    straight = scenes.bytes()
    scenes.run(scheme, 0.3, reverse=True)
    assert scenes.bytes() == straight
    other, _ = scenes.run(scheme, 0.3, seed=1)
    first, _ = scenes.run(scheme, 0.3)
    assert other["caption"].tolist() != first["caption"].tolist()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_pairs_changed_at_a_small_rate_are_changed_at_a_large_one(scenes, scheme):
    small, _ = scenes.run(scheme, 0.2)
    large, _ = scenes.run(scheme, 0.6)
    column = "text_changed" if schemes()[scheme].writes else "swapped"
    assert (large[column] | ~small[column]).all()
    assert large[column].sum() > small[column].sum() > 0


def test_two_interpreters_write_the_same_bytes(scenes):
    program = (
        "import sys; from mispair import cli\n"
        "for line in sys.stdin.read().splitlines():\n"
        "    assert cli.main(line.split('\\t')) == 0\n"
    )
    lines = ["\t".join(scenes.arguments(scheme, 0.3, name=f"{scheme}-1")) for scheme in SCHEMES]
    subprocess.run(
        [sys.executable, "-c", program], input="\n".join(lines), text=True, check=True,
        capture_output=True,
        env={**os.environ, "PYTHONHASHSEED": "1",  # that of the tests is drawn
             "PYTHONPATH": str(Path(files.__file__).parents[2])},
    )  # fmt: skip
    for scheme in SCHEMES:
        scenes.run(scheme, 0.3)
        assert scenes.bytes() == scenes.bytes(f"{scheme}-1")


@pytest.fixture
def rewritten(tmp_path):
    """Three in four pairs have further captions, one to three of them."""
    texts = _prose(1200)
    more = [texts[300 + 3 * i : 300 + 3 * i + i % 4] for i in range(300)]
    return Corpus(tmp_path, texts[:300], more=more)


def test_one_of_several_captions_is_drawn_by_key_for_all_schemes_alike(rewritten):
    pairing, _ = rewritten.run("random", 0)
    drawn = dict(zip(pairing.index, pairing["caption"], strict=True))
    for key, caption, more in rewritten.table.itertuples(index=False):
        options = [caption, *more]
        chosen = uniforms(streams([key], 0, "alternative-caption"), 0)[0] * len(options)
        assert drawn[key] == options[int(chosen)]
    assert 0.2 < np.mean(pairing["caption"] == rewritten.own) < 0.8
    assert not pairing["text_changed"].any()
    for scheme in WITHOUT_TRUTH:
        changed, metadata = rewritten.run(scheme, 0.4)
        same = ~changed["text_changed"]
        assert changed.loc[same, "caption"].tolist() == [drawn[key] for key in changed.index[same]]
        assert float(metadata["text_changed_share"]) == changed["text_changed"].mean() > 0.3
    other, _ = rewritten.run("random", 0, seed=1)
    assert other["caption"].tolist() != pairing["caption"].tolist()


def test_similar_never_draws_another_caption_of_the_same_picture(tmp_path):
    # Neighbours follow in the alphabet, so the rewrites of a caption are its nearest neighbours.
    names = _prose(100)
    more = [[f"{text} once more", f"{text} yet again"] for text in names]
    corpus = Corpus(tmp_path, names, more=more)
    pairing, metadata = corpus.run("similar", 1)
    assert pairing["swapped"].all()
    for key, text in pairing["caption"].items():
        assert not text.startswith(f"{corpus.own[key]} ")
        assert text != corpus.own[key]
    assert metadata["note"] == ""


def _refusal(corpus, capsys, *arguments, **other):
    assert cli.main(corpus.arguments(*arguments, **other)) == 2
    assert not (corpus.folder / "pairing.parquet").exists()
    return capsys.readouterr().err


def test_a_rate_that_picks_one_pair_is_explained(tmp_path, capsys):
    corpus = Corpus(tmp_path, _prose(10))
    assert "corrupt_captions: rate 0.1 of 10 pairs" in _refusal(corpus, capsys, "random", 0.1)


def test_schemes_and_rates_that_cannot_be_are_refused(prose, capsys):
    assert "no 'shuffle'. Name random" in _refusal(prose, capsys, "shuffle", 0.1)
    assert "1.5 is not from 0 to 1" in _refusal(prose, capsys, "drop", 1.5)
    assert "nan is not from 0 to 1" in _refusal(prose, capsys, "drop", "nan")


@pytest.mark.parametrize("scheme", ["spurious", "missing"])
def test_corpora_without_ground_truth_are_told_what_is_missing(prose, capsys, scheme):
    expected = "need a corpus with ground-truth features, such as scenes"
    assert expected in _refusal(prose, capsys, scheme, 0.1, truth=[])
    plain = prose.folder / "00000.parquet"
    files.write_parquet(plain, pd.DataFrame({"key": ["a"], "url": ["b"]}))
    error = _refusal(prose, capsys, scheme, 0.1, truth=[plain])
    assert expected in error
    assert str(plain) in error
    plain.write_text("not Parquet")
    error = _refusal(prose, capsys, scheme, 0.1, truth=[plain])
    assert expected in error
    assert f"{plain}: cannot be read" in error


def test_captions_that_are_not_what_the_truth_says_are_refused(scenes, capsys):
    error = _refusal(scenes, capsys, "missing", 0.1, truth=scenes.truth[:2])
    assert "the ground truth has no features for the key '00002" in error
    table = pd.read_parquet(scenes.truth[0])
    table["caption_features"] = [["shape:star"]] * len(table)
    wrong = scenes.folder / "wrong.parquet"
    files.write_parquet(wrong, table)
    error = _refusal(scenes, capsys, "spurious", 0.1, truth=[*scenes.truth[1:], wrong])
    assert "names" in error
    assert "but its ground truth is shape:star" in error


def test_similar_without_its_table_is_refused(prose, capsys):
    assert "find_similar_captions" in _refusal(prose, capsys, "similar", 0.1, similar=[])
    prose.similar.write_text("not Parquet")
    assert f"{prose.similar}: cannot be read" in _refusal(prose, capsys, "similar", 0.1)
    pq.write_table(pa.table({"caption_id": ["0" * 16]}), prose.similar)
    assert "it has no neighbour_ids, similarities" in _refusal(prose, capsys, "similar", 0.1)


def test_an_index_that_does_not_fit_the_corpus_is_refused(prose, capsys):
    error = _refusal(prose, capsys, "drop", 0.1, index=prose.index[:2])
    assert "the index of group 0002 is missing" in error
    table = pq.read_table(prose.index[1]).slice(1)
    pq.write_table(table, prose.index[1])
    for scheme in ("drop", "random"):
        assert "no caption with the identity" in _refusal(prose, capsys, scheme, 1)


def test_a_corpus_that_is_not_sorted_or_repeats_a_key_is_refused(prose, capsys):
    for rows in (prose.rows.slice(1, 5), prose.rows.slice(0, 5)):
        pq.write_table(pa.concat_tables([rows, prose.rows.slice(0, 1)]), prose.corpus)
        assert "keys are not sorted, or not unique" in _refusal(prose, capsys, "random", 0.5)


def test_an_empty_corpus_stays_empty(tmp_path):
    corpus = Corpus(tmp_path, _prose(3), groups=1)
    pq.write_table(corpus.rows.slice(0, 0), corpus.corpus)
    for scheme in WITHOUT_TRUTH:
        assert cli.main(corpus.arguments(scheme, 0.3)) == 0
        pairing, metadata = files.read_parquet(tmp_path / "pairing.parquet")
        assert len(pairing) == 0
        assert (metadata["text_changed_share"], metadata["note"]) == ("0.0", "")


@pytest.mark.parametrize(("scheme", "captions"), [
    ("drop", ["of the"] * 9),
    ("drop", ["!", "12"] * 4),
    ("random", ["a cat"] * 9),
    ("similar", ["a cat"] * 9),
    ("similar-swap", ["a cat"] * 9),
])  # fmt: skip
def test_a_scheme_that_changes_nothing_stops(scheme, captions, tmp_path, capsys):
    corpus = Corpus(tmp_path, captions)
    assert cli.main(corpus.arguments(scheme, 0.5)) == 2
    message = capsys.readouterr().err
    assert all(word in message for word in (scheme, "0.5", "no caption", f"{len(captions)} pairs"))
    assert not (tmp_path / "pairing.parquet").exists()
    corpus.run(scheme, 0)
