"""Which features captions name, and how often they are not in the picture."""

import json

import numpy as np
import pandas as pd
import pytest

from mispair import cli
from mispair.audit.absent_features import absent_rows, fit_probes
from mispair.audit.mentions import named_features, read_words
from mispair.core import files
from mispair.core.files import UserError
from mispair.pairs.index.identities import identities
from tests.audit.made_up import Files, embeddings

WORDS = ["dog", "red car", "tree", "cloud"]


def test_shares_are_adjusted_counts_of_what_probes_see():
    named = np.zeros((100, 2), bool)
    named[:50, 0] = named[:10, 1] = True
    answers = np.zeros((100, 2), bool)
    answers[:45, 0] = answers[50:55, 0] = True  # it sees 0.9 of the namings, and 0.1 of the others
    rows = absent_rows(answers, named, np.array([140, 5]), np.array([200, 50]), ["a", "b"])
    by_metric = {row["metric"]: row for row in rows}
    # (0.9 − 0.7) / (0.9 − 0.1) of the 200 others, and none of the 50 trusted ones.
    assert by_metric["named_but_absent"]["word"] == "a"
    assert by_metric["named_but_absent"]["value"] == pytest.approx(0.25 * 200 / 250)
    assert by_metric["named_but_absent_of_all"]["value"] == pytest.approx(0.2)
    assert (by_metric["features_judged"]["value"], by_metric["features_judged"]["n"]) == (1, 2)


def test_nothing_is_said_of_features_that_probes_do_not_see():
    draw = np.random.default_rng(0)
    named = draw.random((200, 3)) < 0.5
    answers = draw.random((200, 3)) < 0.5
    rows = absent_rows(answers, named, np.full(3, 50.0), np.full(3, 100.0), ["a", "b", "c"])
    assert [(row["metric"], row["value"]) for row in rows] == [("features_judged", 0)]


def test_probes_of_features_that_hardly_any_caption_names_see_nothing():
    draw = np.random.default_rng(1)
    features = draw.standard_normal((200, 6)).astype(np.float32)
    named = np.stack([features[:, 0] > 0, np.arange(200) < 4, np.ones(200, bool)], axis=1)
    probes = fit_probes(features, named, np.arange(200) % 2)
    answers = probes.answers(features)[np.arange(200) % 2, np.arange(200)]
    assert (answers[:, 0] == named[:, 0]).mean() > 0.8
    assert not answers[:, 1:].any()


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("A dog.", [True, False]), ("DOGS, and cats", [True, False]),
        ("hotdog", [False, False]), ("a red  car", [False, False]),
        ("two red cars", [False, True]), ("a puppy (of a dog)", [True, False]),
        ("a C++ book", [False, False]), ("", [False, False]),
    ],
)  # fmt: skip
def test_words_are_named_where_they_stand_by_themselves(tmp_path, caption, expected):
    table = pd.DataFrame({"caption_id": ["00000000000000ab", "01"], "caption": [caption, "x"]})
    table["caption_id"] = table["caption_id"].str.zfill(16)
    files.write_parquet(tmp_path / "texts", table)
    import pyarrow as pa

    ids = identities(pa.chunked_array([table["caption_id"]], pa.string()))
    packed = named_features([tmp_path / "texts"], ids[[0, 0, 1]], [["dog", "puppies"], ["red car"]])
    found = np.unpackbits(packed, axis=1, count=2).astype(bool)
    assert found.tolist() == [expected, expected, [False, False]]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "has 0 features"), (b"# nothing\n\n", "has 0 features"),
        (b"dog, hound\nhound", "'hound' twice"), (b"\xff\xfe\x00", "cannot be read as text"),
    ],
)  # fmt: skip
def test_a_list_that_cannot_be_used_is_one_message(tmp_path, content, words):
    path = tmp_path / "words.txt"
    path.write_bytes(content)
    with pytest.raises(UserError, match=words):
        read_words(path)


def test_a_list_has_a_feature_a_line(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("dog, hound # of any kind\n\n  red car \n")
    assert read_words(path) == [["dog", "hound"], ["red car"]]


@pytest.fixture
def corpus(tmp_path):
    """Write pictures of four features; some captions name one more, which tends to follow one."""
    draw = np.random.default_rng(2)
    n = 3000
    there = draw.random((n, 4)) < 0.4
    images = (2.0 * there @ draw.standard_normal((4, 32)) + draw.standard_normal((n, 32))) / 4
    named = there & (draw.random((n, 4)) < 0.8)
    added = np.zeros((n, 4), bool)
    # Where there is a tree and no dog, a dog is named by mistake: from captions alone, dogs look
    # like trees.
    added[:, 0] = there[:, 2] & ~there[:, 0] & (draw.random(n) < 0.5)
    said = named | added
    made = Files(tmp_path / "corpus", images.astype(np.float32), embeddings(n)[1])
    made.captions = [
        f"picture {row}: " + ", ".join(f"a {WORDS[k]}" for k in range(4) if said[row, k])
        for row in range(n)
    ]
    made.write()
    (tmp_path / "words.txt").write_text("\n".join(WORDS) + "\nunicorn\n")
    right = draw.permutation(np.flatnonzero(~added.any(axis=1)))[:600]
    (tmp_path / "trusted.txt").write_text("\n".join(made.keys[row] for row in right))
    made.true = added.sum(axis=0) / said.sum(axis=0)
    return made


def command(made, folder, **changes):
    arguments = made.command("audit-features")
    start = arguments.index("--projection")
    given = {"trusted": folder / "trusted.txt", "words": folder / "words.txt", **changes}
    words = [word for key, value in given.items() for word in (f"--{key}", value)]
    return [str(word) for word in [*arguments[:start], *words, "--absent", folder / "absent.json"]]


def test_features_that_are_named_by_mistake_are_found(corpus, tmp_path):
    assert cli.main(command(corpus, tmp_path)) == 0
    rows = json.loads((tmp_path / "absent.json").read_text())["rows"]
    found = {row["word"]: row["value"] for row in rows if row["metric"] == "named_but_absent"}
    assert corpus.true[0] > 0.2
    assert found.keys() == set(WORDS)  # nothing is said of the unicorn
    assert found["dog"] == pytest.approx(corpus.true[0], abs=0.08)
    assert max(found[word] for word in WORDS[1:]) < 0.08
    first = (tmp_path / "absent.json").read_bytes()
    assert cli.main(command(corpus, tmp_path)) == 0
    assert (tmp_path / "absent.json").read_bytes() == first


def test_a_feature_that_is_not_finite_is_refused(corpus, tmp_path, capsys):
    corpus.images[7] = np.nan
    corpus.write()
    assert cli.main(command(corpus, tmp_path)) == 2
    assert "a feature is not finite" in capsys.readouterr().err
