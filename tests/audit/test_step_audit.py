"""The steps of the audit: files in, files out, and one message for each fault."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from huggingface_hub import DatasetCard

from mispair import cli
from mispair.audit.dag import files as audit_files
from mispair.audit.seen_pairs import may_have_seen
from mispair.audit.steps.audit_pairs import LEAST_PAIRS
from mispair.core import cards, files, metrics
from mispair.core.words import percent
from mispair.pairs.index.index import caption_id
from mispair.towers.pretraining.pretraining import corpus_fingerprint
from tests.audit.made_up import Files, embeddings, kinds_of_pictures, swapped


@pytest.fixture
def made(tmp_path):
    """Write a corpus of 1,200 pairs with three in ten captions wrong."""
    images, texts = embeddings(1200, noise=0.6)
    source, wrong = swapped(1200, 0.3)
    corpus = Files(tmp_path / "corpus", images, texts[source])
    corpus.write()
    corpus.wrong = wrong
    return corpus


def command(made, tmp_path, similar="", trusted=""):
    outputs = {"audit": tmp_path / "audit.parquet", "rates": tmp_path / "audit.json"}
    return made.command("audit-pairs", similar=similar, trusted=trusted, **outputs)


def audit(made, tmp_path, **lists):
    return cli.main(command(made, tmp_path, **lists))


def trusting(tmp_path, keys):
    """Write a list of trusted keys."""
    path = tmp_path / "trusted.txt"
    path.write_text("\n".join(keys))
    return path


def rates(tmp_path):
    content = json.loads((tmp_path / "audit.json").read_text())
    rows = {row["metric"]: row for row in content["rows"] if row["metric"] != "p_value_density"}
    return rows, content["provenance"]


def test_the_share_and_the_wrong_pairs_are_found(made, tmp_path):
    assert audit(made, tmp_path) == 0
    found, origin = rates(tmp_path)
    # Without trusted pairs only an upper limit is known.
    assert found["wrong_captions"]["low"] is None
    assert 0.3 <= found["wrong_captions"]["high"] < 0.36
    assert (origin["identified"], origin["confidence"]) == ("limit", 0.95)
    assert origin["condition"]
    assert found["wrong_captions"]["value"] == pytest.approx(0.3, abs=0.03)
    assert found["pairs"]["value"] == 1200
    assert origin["refused"] == ""
    table = pd.read_parquet(tmp_path / "audit.parquet")
    assert table["key"].tolist() == made.keys
    assert table.loc[made.wrong, "probability"].mean() > 0.9
    assert table.loc[~made.wrong, "probability"].mean() < 0.1
    assert table["neighbour_p_value"].isna().all()
    assert not table["trusted"].any()


def test_the_same_bytes_each_time_and_in_any_order_of_parts(made, tmp_path):
    assert audit(made, tmp_path) == 0
    first = (tmp_path / "audit.parquet").read_bytes()
    words = command(made, tmp_path)
    start = words.index("--features") + 1
    words[start : start + 3] = words[start : start + 3][::-1]
    assert cli.main(words) == 0
    assert (tmp_path / "audit.parquet").read_bytes() == first


def test_trusted_pairs_count_captions_of_similar_pictures(tmp_path):
    generator = np.random.default_rng(2)
    made, _ = kinds_of_pictures(tmp_path, 250, 5)
    similar = made.write_similar()
    right = np.flatnonzero(~made.swap_similar(600, generator))
    keys = [made.keys[i] for i in generator.permutation(right)[:400]]
    path = tmp_path / "trusted.csv"
    pd.DataFrame({"note": "x", "key": keys}).to_csv(path, index=False)
    assert audit(made, tmp_path, similar=similar, trusted=path) == 0
    found, origin = rates(tmp_path)
    # Too few pairs rank as high as trusted ones, so no caption has to be of an unrelated picture.
    assert (origin["identified"], found["wrong_captions"]["low"]) == ("limit", None)
    assert found["power"]["value"] > 0.9
    # Among random captions hardly any of these is seen.
    assert found["mixture"]["value"] < 0.02
    # The right caption of a picture that has a similar one is not in the corpus.
    assert found["similar_captions"]["low"] < 0.3 < found["similar_captions"]["high"]
    table = pd.read_parquet(tmp_path / "audit.parquet")
    assert table["trusted"].sum() == 400


def test_conspicuous_texts_are_counted_and_are_not_those_of_similar_pictures(tmp_path):
    generator = np.random.default_rng(4)
    made, centres = kinds_of_pictures(tmp_path, 200, 7)
    similar = made.write_similar()
    # A caption that is cut off fits all pictures of its kind.
    cut = generator.permutation(1600)[:500]
    made.captions = [f"a picture of kind k{n // 8} with number n{n} in it" for n in range(1600)]
    for place in cut.tolist():
        made.captions[place] = f"a picture of kind k{place // 8} n{place} with a"
    made.texts[cut] = centres[cut]
    ids = pd.read_parquet(similar)
    renamed = dict(zip(ids["caption_id"], map(caption_id, made.captions), strict=True))
    ids["caption_id"] = ids["caption_id"].map(renamed)
    ids["neighbour_ids"] = [[renamed[one] for one in row] for row in ids["neighbour_ids"]]
    files.write_parquet(similar, ids)
    made.write()
    whole = np.setdiff1d(np.arange(1600), cut)
    path = trusting(tmp_path, [made.keys[n] for n in generator.permutation(whole)[:400]])
    assert audit(made, tmp_path, similar=similar, trusted=path) == 0
    content = json.loads((tmp_path / "audit.json").read_text())["rows"]
    counts = {row["word"]: row["value"] for row in content if row["metric"] == "text_check"}
    assert counts["cut off"] == sum(counts.values()) == 500
    assert "similar_captions" not in {row["metric"] for row in content}
    table = pd.read_parquet(tmp_path / "audit.parquet")
    assert np.flatnonzero(table["text_check"] == "cut off").tolist() == sorted(cut)
    assert table.loc[cut, "neighbour_p_value"].isna().all()
    assert table.loc[whole, "neighbour_p_value"].notna().mean() > 0.9
    assert select(made, tmp_path) == 0
    listed = pd.read_csv(tmp_path / "lists/pairs.csv", keep_default_na=False)
    assert listed["text_check"].tolist() == table["text_check"].tolist()
    assert set(listed["identified"]) == {rates(tmp_path)[1]["identified"]}


def test_the_model_that_cannot_tell_is_told_and_nothing_is_removed(tmp_path, capsys):
    images, _ = embeddings(800, seed=1)
    texts, _ = embeddings(800, seed=2)
    made = Files(tmp_path / "corpus", images, texts)
    made.write()
    assert audit(made, tmp_path) == 0
    found, origin = rates(tmp_path)
    assert origin["refused"]
    assert origin["identified"] == "nothing"
    assert "wrong_captions" not in found
    assert pd.read_parquet(tmp_path / "audit.parquet")["probability"].isna().all()
    # No list can be taken for an answer.
    assert select(made, tmp_path) == 0
    assert [path.name for path in (tmp_path / "lists").iterdir()] == ["README.md"]
    assert selection(tmp_path)["provenance"]["refused"]
    assert selection(tmp_path)["rows"] == []


def test_lists_that_would_leave_no_pair_are_not_written(made, tmp_path):
    assert audit(made, tmp_path) == 0
    assert select(made, tmp_path) == 0
    assert (tmp_path / "lists/kept.txt").exists()
    assert select(made, tmp_path, "--cut", "0") == 0
    assert [path.name for path in (tmp_path / "lists").iterdir()] == ["README.md"]
    assert "select_pairs.cut" in selection(tmp_path)["provenance"]["refused"]


def test_towers_that_were_trained_on_the_corpus_are_refused(made, tmp_path, capsys):
    shard, other = tmp_path / "00000.tar", tmp_path / "other" / "00000.tar"
    other.parent.mkdir()
    shard.write_bytes(b"seen")
    other.write_bytes(b"unseen")
    record = tmp_path / "training.json"
    corpus = {"fingerprint": corpus_fingerprint([shard]), "shards": ["00000.tar"]}
    record.write_text(json.dumps({"corpus": corpus}))
    for path, code in ((shard, 2), (other, 0)):
        assert may_have_seen(str(record), [str(path)])
        words = command(made, tmp_path)
        place = words.index("--training")
        words[place : place + 2] = ["--training", str(record), "--shards", str(path)]
        assert cli.main(words) == code
    assert "training.json" in capsys.readouterr().err
    assert not may_have_seen(str(record), [str(shard), str(tmp_path / "00001.tar")])
    assert not may_have_seen(None, [str(shard)])


def test_every_caption_of_a_picture_is_a_pair_of_its_own(made, tmp_path):
    """The second captions are all right, and those of one picture are not compared."""
    second = embeddings(1200, noise=0.6)[0]
    near = second + 0.1 * np.random.default_rng(3).standard_normal(second.shape)
    near = (near / np.linalg.norm(near, axis=1, keepdims=True)).astype(np.float32)
    made.second = [f"another caption {number}" for number in range(1200)], near
    made.write()
    assert audit(made, tmp_path) == 0
    found, _ = rates(tmp_path)
    assert (found["pairs"]["value"], found["pictures"]["value"]) == (2400, 1200)
    assert found["excluded_comparisons"]["value"] > 0
    assert found["wrong_captions"]["value"] == pytest.approx(0.15, abs=0.02)
    table = pd.read_parquet(tmp_path / "audit.parquet")
    assert table["key"].value_counts().unique().tolist() == [2]
    assert table.groupby("key", sort=True)["caption_id"].nunique().eq(2).all()
    # The first caption of a picture is named before its second one.
    first, others = table.iloc[::2], table.iloc[1::2]
    assert first["probability"].to_numpy()[made.wrong].mean() > 0.85
    assert others["probability"].mean() < 0.05


def _few(made):
    few = LEAST_PAIRS - 1
    made.images, made.texts, made.n = made.images[:few], made.texts[:few], few
    made.keys, made.captions = made.keys[:few], made.captions[:few]


def _one_caption(made):
    made.captions = ["A Photo!", "a photo"] * (made.n // 2)


def _not_finite(made):
    made.texts[3] = np.nan


def _zero(made):
    made.images[3] = 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_few, [f"holds {LEAST_PAIRS - 1} pairs", f"at least {LEAST_PAIRS}"]),
        (_one_caption, ["all captions", "the same words"]),
        (_not_finite, ["captions-0.safetensors", "zero or not finite", "Encode it again"]),
        (_zero, ["1.safetensors", "'key00003'", "zero or not finite"]),
        ({"towers": "others"}, ["other towers"]),
    ],
)
def test_bad_corpora_are_one_message(made, tmp_path, capsys, change, words):
    about = change if isinstance(change, dict) else change(made) or {}
    made.write(**about)
    assert audit(made, tmp_path) == 2
    message = capsys.readouterr().err
    assert all(word in message for word in words), message
    assert not (tmp_path / "audit.parquet").exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("key00001\nnobody\nno one\n", ["2 keys of 3", "'nobody'"]),
        ("", ["names no key"]),
        ("\xff\x00", ["cannot be read"]),
    ],
)
def test_a_wrong_list_of_trusted_pairs_is_one_message(made, tmp_path, capsys, content, words):
    path = tmp_path / "trusted.txt"
    path.write_bytes(content.encode("latin-1"))
    assert audit(made, tmp_path, trusted=path) == 2
    message = capsys.readouterr().err
    assert all(word in message for word in ["trusted", *words]), message


@pytest.mark.parametrize(
    ("list_of", "expected"),
    [
        (None, None),
        (lambda keys: keys[:60], 0),
        (lambda keys: [*keys[:60], "nobody", keys[3], "no one", "nobody"], 2),
    ],
)
def test_trusted_keys_without_a_pair_are_counted(made, tmp_path, list_of, expected):
    given = trusting(tmp_path, list_of(made.keys)) if list_of else ""
    assert audit(made, tmp_path, trusted=given) == 0
    found = metrics.read_metrics(tmp_path / "audit.json")[0]
    rows = {row["metric"]: row["value"] for row in found}
    assert rows.get("trusted_left_out") == expected
    assert rows["trusted_pairs"] == (60 if list_of else 0)


def selection(tmp_path):
    return json.loads((tmp_path / "selection.json").read_text())


def select(made, tmp_path, *options):
    return cli.main([
        "select-pairs", "--audit", str(tmp_path / "audit.parquet"), "--rates",
        str(tmp_path / "audit.json"), "--captions", str(made.folder / "texts.parquet"),
        "--lists", str(tmp_path / "lists"), "--selection", str(tmp_path / "selection.json"),
        *([] if "--groups" in options else ["--groups"]), *options,
    ])  # fmt: skip


def test_lists_balance_and_hold_the_captions_that_are_kept(made, tmp_path):
    assert audit(made, tmp_path) == 0
    assert select(made, tmp_path) == 0
    lists = tmp_path / "lists"
    kept, removed = ((lists / f"{name}.txt").read_text().split() for name in ("kept", "removed"))
    assert sorted([*kept, *removed]) == made.keys
    wrong = {key for key, of in zip(made.keys, made.wrong, strict=True) if of}
    assert len(wrong ^ set(removed)) < 40
    cleaned = pd.read_parquet(lists / "captions.parquet")
    assert cleaned["key"].tolist() == kept
    assert cleaned["caption"].tolist() == [made.captions[made.keys.index(key)] for key in kept]
    pairs = pd.read_csv(lists / "pairs.csv")
    np.testing.assert_allclose(pairs["weight"], 1 - pairs["probability"])
    assert pairs["kept"].sum() == len(kept)
    assert not (lists / "kept.npy").exists()
    assert "is not written" in (lists / "README.md").read_text()
    rows = {row["metric"]: row["value"] for row in
            json.loads((tmp_path / "selection.json").read_text())["rows"]}  # fmt: skip
    assert rows["pairs_kept"] + rows["pairs_removed"] == 1200
    card = DatasetCard.load(lists / "README.md")  # as the hub reads it
    assert card.data.size_categories == ["n<1K"]
    measured = json.loads((tmp_path / "audit.json").read_text())["rows"]
    share = next(row for row in measured if row["metric"] == "wrong_captions")
    assert percent(share["high"], 2) in card.text
    assert "may be right" in card.text  # without trusted pairs no lower limit is known
    assert cards.assumed(percent(share["value"], 2), contradicted=False) in card.text
    assert set(pairs["identified"]) == {"limit"}
    assert re.search(rf"\| kept +\| {len(kept)} ", card.text)
    uids = pd.DataFrame({"key": made.keys, "uid": [f"{n:032x}" for n in range(1200)]})
    uids.to_parquet(tmp_path / "index.parquet")
    assert select(made, tmp_path, "--index", str(tmp_path / "index.parquet")) == 0
    expected = [(0, made.keys.index(key)) for key in kept]
    assert np.load(lists / "kept.npy").tolist() == sorted(expected)
    assert "is not written" not in (lists / "README.md").read_text()


def test_a_false_discovery_rate_needs_a_random_part_of_the_right_pairs(made, tmp_path):
    assert audit(made, tmp_path) == 0
    assert select(made, tmp_path, "--false-discovery-rate", "0.1") == 0
    assert [path.name for path in (tmp_path / "lists").iterdir()] == ["README.md"]
    assert "trusted" in selection(tmp_path)["provenance"]["refused"]
    right = np.random.default_rng(0).permutation(np.flatnonzero(~made.wrong))
    mistaken = np.concatenate([right[:300], np.flatnonzero(made.wrong)[:240]])
    for chosen, contradicted in ((right[:200], False), (mistaken, True)):
        path = trusting(tmp_path, np.array(made.keys)[chosen])
        assert audit(made, tmp_path, trusted=path) == 0
        found, origin = rates(tmp_path)
        assert (origin["trusted_excess"] > 0) == contradicted
        assert found["trusted_excess"]["value"] == origin["trusted_excess"]
        assert select(made, tmp_path, "--false-discovery-rate", "0.1") == 0
        assert bool(selection(tmp_path)["provenance"].get("refused")) == contradicted
        if not contradicted:
            listed = pd.read_csv(tmp_path / "lists/pairs.csv")
            assert set(listed["identified"]) == {origin["identified"]} == {"interval"}
            removed = (tmp_path / "lists/removed.txt").read_text().split()
            places = [made.keys.index(key) for key in removed]
            assert len(removed) > 200
            assert (~made.wrong[places]).mean() < 0.1


def test_where_no_caption_may_be_wrong_a_cut_leaves_nothing_out(tmp_path):
    images, texts = embeddings(1200, noise=3)
    made = Files(tmp_path / "corpus", images, texts)
    made.write()
    path = trusting(tmp_path, np.random.default_rng(1).permutation(made.keys)[:300])
    assert audit(made, tmp_path, trusted=path) == 0
    assert rates(tmp_path)[0]["wrong_captions"]["low"] == 0
    for asked in (("--cut", "0.01"), ("--cut", "0.5"), ("--false-discovery-rate", "0.2")):
        assert select(made, tmp_path, *asked) == 0
        assert (tmp_path / "lists/removed.txt").read_text() == "", asked


def test_a_false_discovery_rate_without_trusted_pairs_is_refused_before_any_job():
    given = {}
    dag = SimpleNamespace(
        corpus="c", towers="t", refuse_unencoded=lambda study: None, truth_of_all=list,
        user_file=lambda key: given.get(key, []), every=lambda template: [template],
        config=SimpleNamespace(select_pairs=SimpleNamespace(false_discovery_rate=0.1)),
    )  # fmt: skip
    with pytest.raises(files.UserError, match=r"select_pairs\.false_discovery_rate.*trusted"):
        audit_files(dag)
    given["trusted"] = ["trusted.txt"]
    assert audit_files(dag)


def test_known_shares_are_found_and_memorised_ones_are_not(tmp_path):
    images, texts = embeddings(2000, noise=0.5, seed=3)
    made = Files(tmp_path / "corpus", images, texts)
    made.write()
    similar = made.write_similar()
    options = ["--rates", "0", "0.3", "--pairs", "2000", "--trusted", "200"]
    out = tmp_path / "calibration.json"
    words = made.command("calibrate-audit", similar=similar, truth=[], calibration=out)
    assert cli.main([*words, *options]) == 0
    rows = pd.DataFrame(json.loads(out.read_text())["rows"])
    found = rows[rows["metric"] == "rate"].set_index(["scheme", "injected", "scorer", "method"])
    value = found["value"]
    assert value["random", 0.3, "untouched", "mixture"] == pytest.approx(0.3, abs=0.04)
    assert value["random", 0.3, "untouched", "trusted"] == pytest.approx(0.3, abs=0.04)
    assert value["random", 0.0, "untouched", "mixture"] < 0.01
    # Errors that ranks cannot see have trials of their own, with a miss that is stated.
    for scheme in ("boilerplate", "filtered"):
        of = found.loc[scheme, 0.3, "untouched", "mixture"]
        assert of["made"] == pytest.approx(0.3, abs=0.03)
        assert of["value"] < of["made"] - 0.1
        assert np.isnan(of["low"])
    assert found.loc["filtered", 0.3, "untouched", "mixture"]["n"] < 2000
    assert (
        value["random", 0.3, "memorised", "mixture"]
        < value["random", 0.3, "cross-fitted", "mixture"]
    )
    told = rows[rows["metric"] == "auroc"].set_index(["scheme", "method"])["value"]
    assert told["random", "probability"] > 0.95


def test_words_are_the_same_without_case_and_punctuation():
    from mispair.audit.captions import groups_of

    captions = ["A red cat.", "a  RED cat", "a red dog", "Ein süßer Hund", "ein süßer hund!"]
    groups = groups_of(pa.array(captions, pa.large_string()))
    assert groups[0] == groups[1] != groups[2]
    assert groups[3] == groups[4] != groups[0]
