"""The step that finds similar captions, run on files as the rule runs it."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from mispair.core import files, resume
from mispair.pairs.index.index import caption_id
from mispair.pairs.neighbours import similar_captions
from mispair.pairs.neighbours.tfidf import tfidf
from mispair.pairs.steps import find_similar_captions as step

TEXTS = [
    "a red house by the sea",
    "a red house by the river",
    "the red car",
    "two dogs in the snow",
    "two dogs on the beach",
    "snow on the river",
    "of the",  # no words
    "solitary",
]
MORE = {0: ["the house by the sea is red", "dogs"], 3: ["solitary"]}


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Make two groups of pairs, one of them with a caption that the corpus has not."""
    rows = [
        {
            "key": f"{n:03d}",
            "group": "ab"[n % 2],
            "row": n // 2,
            "caption": text,
            "caption_id": caption_id(text),
            "more_captions": MORE.get(n, []),
            "more_caption_ids": [caption_id(more) for more in MORE.get(n, [])],
        }
        for n, text in enumerate([*TEXTS, TEXTS[2]])
    ]
    table = pd.DataFrame(rows)
    files.write_parquet(
        tmp_path / "corpus.parquet",
        table[["key", "group", "row", "caption_id", "more_caption_ids"]],
        {"pairs_fingerprint": "f"},
    )
    excluded = {**rows[0], "caption": "excluded red house", "more_captions": ["excluded, too"]}
    excluded["caption_id"] = caption_id(excluded["caption"])
    for group in "ab":
        held = table[table["group"] == group]
        if group == "a":
            held = pd.concat([held, pd.DataFrame([excluded])])
        held = held[["key", "caption", "caption_id", "more_captions"]]
        files.write_parquet(tmp_path / f"{group}.parquet", held)
    return tmp_path


def distinct() -> list[str]:
    """Return the corpus's texts in order of their identities."""
    return sorted({*TEXTS, *MORE[0], *MORE[3]}, key=caption_id)


def vector(text: str) -> np.ndarray:
    """Return a feature that names a text."""
    if text == "solitary":
        return np.zeros(6)
    return np.random.default_rng(int(caption_id(text), 16)).standard_normal(6)


def write_features(folder: Path, dtype: type = np.float32) -> None:
    """Write features of two groups; the second holds other, false ones of texts of the first."""
    folder.mkdir(exist_ok=True)
    texts = distinct()
    halves = {"a": [*texts[::2], "excluded red house"], "b": texts[::-1]}
    for group, held in halves.items():
        features = np.array([vector(text) for text in held])
        if group == "b":
            again = [text in halves["a"] for text in held]
            features[again] = 7.5
        tensors = {
            "image_features": np.ones((1, 4), dtype),
            "text_features": features.astype(dtype),
        }
        files.write_tensors(folder / f"{group}.safetensors", tensors, {"towers": "t"})
        rows = [("image", "000", 0)]
        rows += [("text", caption_id(text), number) for number, text in enumerate(held)]
        table = pd.DataFrame(rows, columns=["kind", "id", "row"])
        files.write_parquet(folder / f"{group}.parquet", table)


def find(folder: Path, target: Path, groups: str = "ab", **settings) -> pd.DataFrame:
    featured = settings.get("measure") == "features"
    step.run(
        step.Settings(**settings),
        corpus=folder / "corpus.parquet",
        index=[folder / f"{group}.parquet" for group in groups],
        features=[folder / "f" / f"{group}.safetensors" for group in groups] if featured else [],
        feature_rows=[folder / "f" / f"{group}.parquet" for group in groups] if featured else [],
        similar=target,
    )
    return files.read_parquet(target)[0]


def expected(cosines: np.ndarray, k: int, least: float) -> list[list[str]]:
    """Sort the dense matrix of the distinct captions' cosines."""
    names = [caption_id(text) for text in distinct()]
    lists = []
    for i in range(len(names)):
        others = [j for j in range(len(names)) if j != i and cosines[i, j] > least]
        others.sort(key=lambda j, i=i: (-cosines[i, j], j))
        lists.append([names[j] for j in others[:k]])
    return lists


def by_words() -> np.ndarray:
    vectors = tfidf(distinct())
    return (vectors @ vectors.T).toarray().astype(np.float32)


def by_features(dtype: type = np.float32) -> np.ndarray:
    vectors = np.array([vector(text) for text in distinct()]).astype(dtype).astype(np.float64)
    lengths = np.linalg.norm(vectors, axis=1)
    cosines = (vectors @ vectors.T / np.maximum(np.outer(lengths, lengths), 1e-9)).astype("f4")
    cosines[lengths == 0] = cosines[:, lengths == 0] = -np.inf
    return cosines


@pytest.mark.parametrize("k", [2, 10])
def test_words(corpus: Path, k: int) -> None:
    table = find(corpus, corpus / "s.parquet", neighbours=k)
    assert table["caption_id"].tolist() == [caption_id(text) for text in distinct()]
    assert table["neighbour_ids"].map(list).tolist() == expected(by_words(), k, 0)
    lists = dict(zip(distinct(), table["neighbour_ids"].map(list), strict=True))
    assert lists["of the"] == lists["solitary"] == []
    closest = caption_id("the house by the sea is red")
    assert lists[TEXTS[0]][0] == closest
    assert table["similarities"].map(len).tolist() == table["neighbour_ids"].map(len).tolist()
    assert dict(zip(distinct(), table["similarities"], strict=True))[TEXTS[0]][0] == 1
    stored = pq.read_schema(corpus / "s.parquet")
    assert stored.metadata[b"measure"] == b"tfidf"
    assert [str(field.type) for field in stored] == [
        "string",
        "list<element: string>",
        "list<element: float>",
    ]


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_features(corpus: Path, dtype: type) -> None:
    write_features(corpus / "f", dtype)
    table = find(corpus, corpus / "s.parquet", measure="features", neighbours=3, device="cpu")
    cosines = by_features(dtype)
    assert table["neighbour_ids"].map(list).tolist() == expected(cosines, 3, -np.inf)
    assert dict(zip(distinct(), table["neighbour_ids"].map(list), strict=True))["solitary"] == []
    i = distinct().index(TEXTS[0])
    np.testing.assert_allclose(table["similarities"][i], np.sort(cosines[i])[:-5:-1][1:], 1e-5)
    assert pq.read_schema(corpus / "s.parquet").metadata[b"measure"] == b"features"


@pytest.mark.parametrize("measure", ["tfidf", "features"])
def test_the_order_of_arguments_changes_no_byte(corpus: Path, measure: str) -> None:
    write_features(corpus / "f")
    find(corpus, corpus / "s1", "ab", measure=measure, device="cpu")
    find(corpus, corpus / "s2", "ba", measure=measure, device="cpu", memory_megabytes=16)
    assert (corpus / "s1").read_bytes() == (corpus / "s2").read_bytes()


def test_portions_are_put_together(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = find(corpus, corpus / "s1")
    monkeypatch.setattr(similar_captions, "PORTION", 3)
    pd.testing.assert_frame_equal(find(corpus, corpus / "s2"), whole)
    assert pq.ParquetFile(corpus / "s2").num_row_groups == 4


def test_nothing_but_the_table_stays(corpus: Path) -> None:
    write_features(corpus / "f")
    before = {*corpus.iterdir(), corpus / "s.parquet"}
    find(corpus, corpus / "s.parquet", measure="features", device="cpu")
    assert set(corpus.iterdir()) == before


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("none", "give them with --features"),
        ("rows", "same name; check b"),
        ("missing", "hold no text"),
        ("towers", "different towers"),
        ("width", "different towers"),
        ("nan", "not finite"),
        ("inf", "not finite"),
        ("one dimension", "b.safetensors"),
        ("other columns", "b.parquet"),
        ("short", "b.safetensors"),
        ("images only", "b.safetensors"),
        ("cut off", "b.safetensors"),
        ("rows cut off", "b.parquet"),
    ],
)
def test_faulty_features_are_named(corpus: Path, fault: str, words: str) -> None:
    folder = corpus / "f"
    write_features(folder)
    tensors, metadata = files.read_tensors(folder / "b.safetensors")
    if fault == "towers":
        metadata["towers"] = "others"
    if fault == "width":
        tensors["text_features"] = tensors["text_features"][:, :5]
    if fault == "nan":
        tensors["text_features"][:] = np.nan
    if fault == "inf":
        tensors["text_features"][0, 0] = -np.inf
    if fault == "one dimension":
        tensors["text_features"] = tensors["text_features"][:, 0]
    if fault == "short":
        tensors["text_features"] = tensors["text_features"][:-1]
    if fault == "images only":
        del tensors["text_features"]
    files.write_tensors(folder / "b.safetensors", tensors, metadata)
    if fault == "missing":
        table, _ = files.read_parquet(folder / "b.parquet")
        files.write_parquet(folder / "b.parquet", table[table["kind"] == "image"])
    if fault == "other columns":
        table, _ = files.read_parquet(folder / "b.parquet")
        files.write_parquet(folder / "b.parquet", table.rename(columns={"kind": "modality"}))
    if fault.endswith("cut off"):
        path = folder / ("b.parquet" if fault == "rows cut off" else "b.safetensors")
        path.write_bytes(path.read_bytes()[:-40])
    groups = "" if fault == "none" else "ab"
    with pytest.raises(files.UserError, match=words):
        step.run(
            step.Settings(measure="features", device="cpu"),
            corpus=corpus / "corpus.parquet",
            index=[],
            features=[folder / f"{group}.safetensors" for group in groups],
            feature_rows=[folder / f"{group}.parquet" for group in groups.replace("b", "")]
            if fault == "rows"
            else [folder / f"{group}.parquet" for group in groups],
            similar=corpus / "s.parquet",
        )
    assert not (corpus / "s.parquet").exists()


@pytest.mark.parametrize("measure", ["tfidf", "features"])
@pytest.mark.parametrize("captions", [1, 2, 5])
def test_fewer_captions_than_neighbours(corpus: Path, measure: str, captions: int) -> None:
    write_features(corpus / "f")
    table, metadata = files.read_parquet(corpus / "corpus.parquet")
    table = table[table["more_caption_ids"].map(len) == 0].head(captions)
    files.write_parquet(corpus / "corpus.parquet", table, metadata)
    if measure == "tfidf":
        pytest.importorskip("seismic")
    for search in ("exact", "approximate"):
        found = find(corpus, corpus / "s", measure=measure, device="cpu", search=search)
        assert found["neighbour_ids"].map(len).max() <= captions - 1


@pytest.mark.parametrize("name", ["corpus", "a"])
def test_an_index_that_is_cut_off_is_named(corpus: Path, name: str) -> None:
    path = corpus / f"{name}.parquet"
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(files.UserError, match=f"{name}.parquet"):
        find(corpus, corpus / "s.parquet")


def test_a_caption_in_no_index_is_named(corpus: Path) -> None:
    with pytest.raises(files.UserError, match=r"a\.parquet: no caption"):
        find(corpus, corpus / "s.parquet", "a")


def test_a_full_disk_is_an_error_not_a_crash(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_features(corpus / "f")

    def full(descriptor: int, start: int, length: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(files.UserError, match="disk is full"):
        find(corpus, corpus / "s.parquet", measure="features", device="cpu")


def test_words_need_no_torch() -> None:
    import subprocess
    import sys

    code = (
        "import sys; from mispair.pairs.captions import caption_texts;"
        "from mispair.pairs.neighbours import similar_captions, tfidf;"
        "tfidf.tfidf(['red dog', 'dog']); assert 'torch' not in sys.modules"
    )
    where = {**os.environ, "PYTHONPATH": str(Path(step.__file__).parents[3])}
    subprocess.run([sys.executable, "-c", code], check=True, env=where)


def test_words_are_compared_approximately_only_where_seismic_is(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("seismic")
    states, checkpoints = [], resume.checkpoints
    monkeypatch.setattr(
        resume, "checkpoints", lambda *given: states.append(given[1]) or checkpoints(*given)
    )
    monkeypatch.setattr(step, "PRODUCTS", 1)
    find(corpus, corpus / "s1")
    assert b"recall" in pq.read_schema(corpus / "s1").metadata
    monkeypatch.setattr(step, "find_spec", lambda name: None)
    find(corpus, corpus / "s2")
    assert b"recall" not in pq.read_schema(corpus / "s2").metadata
    assert states[0] != states[1], "the one search would go on with the other's state"
    with pytest.raises(files.UserError, match=r"find_similar_captions\.search.*pyseismic-lsr"):
        step.refuse_without_seismic(step.Settings(search="approximate"))
    step.refuse_without_seismic(step.Settings(search="approximate", measure="features"))


def test_a_corpus_without_further_captions_may_leave_their_type_open(corpus: Path) -> None:
    table, metadata = files.read_parquet(corpus / "corpus.parquet")
    table["more_caption_ids"] = [[] for _ in range(len(table))]
    files.write_parquet(corpus / "corpus.parquet", table, metadata)
    found = find(corpus, corpus / "s.parquet")
    assert found["caption_id"].tolist() == sorted({caption_id(text) for text in TEXTS})


@pytest.mark.parametrize("measure", ["tfidf", "features"])
def test_an_approximate_search_writes_its_recall(corpus: Path, measure: str) -> None:
    write_features(corpus / "f")
    if measure == "tfidf":
        pytest.importorskip("seismic")
    given = {"measure": measure, "device": "cpu", "neighbours": 3}
    exact = find(corpus, corpus / "s1", **given)
    found = find(corpus, corpus / "s2", search="approximate", **given)
    pd.testing.assert_frame_equal(found, exact)
    assert pq.read_schema(corpus / "s2").metadata[b"recall"] == b"1.0000"
    assert b"recall" not in pq.read_schema(corpus / "s1").metadata
