"""What the report says of ingestion and encoding."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from mispair.core import files
from mispair.image_text.report import pages
from mispair.image_text.report.rows import encoded
from mispair.pairs.report import corpus
from mispair.report import texts
from mispair.report.table import Cell, Number, Table, printed
from mispair.report.table import whole as count
from mispair.report.tables import Tables, origins, tidy
from tests.made_up_tables import EVIL, gather
from tests.report.small_run import NOTHING, make_corpus, make_pairs, report
from tests.visible_words import words


def gathered(folder: Path, **changed: list[Path]) -> Tables:
    """Gather a corpus as the step does, and read its tables back."""
    run = {**NOTHING, **make_pairs(folder), **make_corpus(folder), **changed}
    del run["shards"]
    return gather(run, folder)


def cells(table: Table | None) -> dict[Cell, tuple[Cell, ...]]:
    assert table is not None
    return {row[0]: row[1:] for row in table.rows}


def text_of(cell: Cell) -> str:
    return printed(cell).replace("\u00a0", " ")


def counts(number: int, of: int = 22) -> tuple[Number, Number]:
    return count(number), Number(number / of, ".2%")


def share(value: float, of: int, unit: str = "pairs") -> tuple[Number, Number]:
    return Number(value, ".2%"), Number(of, ",.0f", unit=unit)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    return gathered(tmp_path_factory.mktemp("corpus"))


def test_every_fate_of_a_sample_is_on_the_page(whole):
    table = corpus.samples(whole)
    assert cells(table) == {
        "read": counts(22), "kept": counts(20), "rejected": counts(2), "excluded": counts(0),
        f"rejected: {EVIL}": counts(1), "rejected: no-image": counts(1),
        "download: success": counts(30, 40), f"download: {EVIL}": counts(10, 40),
    }  # fmt: skip
    assert table is not None
    assert "Read = kept + rejected + excluded." in table.remark
    assert "Rejected or excluded: 9.09 %" in table.remark
    assert f"Fingerprint of the kept pairs: {'b' * 16}." in table.remark
    (lost,) = corpus.warnings(whole)
    assert lost.values == {"lost": 2, "read": 22, "reasons": {EVIL: 1, "no-image": 1}}
    assert "2 of 22 samples (9.1 %)" in texts.text(lost).replace("\u00a0", " ")


def test_the_limit_of_what_may_be_lost_is_named():
    rows = [{"metric": "read", "value": 10}, {"metric": "kept", "value": 10}]
    policies = {"max_quarantined_share": 0.2, "duplicate_keys": "refuse"}
    found = Tables({
        "corpus": tidy("corpus", rows),
        "provenance": tidy("provenance", origins("corpus", {"policies": policies})),
    })  # fmt: skip
    table = corpus.samples(found)
    assert table is not None
    assert "stopped above 20 % of either" in table.remark
    assert "duplicate_keys refuse" in table.remark


def test_what_a_policy_excludes_is_not_kept(tmp_path):
    taken = pd.DataFrame({"key": ["a", "b", "c"], "reason": ["key-in-several-shards"] * 2 + [EVIL]})
    files.write_parquet(tmp_path / "taken.parquet", taken, {})
    found = gathered(tmp_path, excluded=[tmp_path / "taken.parquet"], statistics=[])
    assert cells(corpus.samples(found)) == {
        "read": counts(22), "kept": counts(17), "rejected": counts(2), "excluded": counts(3),
        "rejected: empty-caption": counts(1), "rejected: no-image": counts(1),
        "excluded: key-in-several-shards": counts(2), f"excluded: {EVIL}": counts(1),
    }  # fmt: skip
    (lost,) = corpus.warnings(found)
    assert sum(lost.values["reasons"].values()) == lost.values["lost"] == 5


def test_few_samples_may_be_left_out_without_a_warning():
    for kept in (985, 990, 1000):
        counts = {"read": 1000, "kept": kept, "rejected": 1000 - kept, "excluded": 0}
        rows = [{"metric": name, "value": value} for name, value in counts.items()]
        warned = corpus.warnings(Tables({"corpus": tidy("corpus", rows)}))
        assert [note.key for note in warned] == ["warning_lost"] * (kept == 985)


def test_statistics_of_another_corpus_are_found_out(tmp_path):
    taken = pd.DataFrame({"key": ["a"], "reason": ["key-in-several-shards"]})
    files.write_parquet(tmp_path / "taken.parquet", taken, {})
    found = gathered(tmp_path, excluded=[tmp_path / "taken.parquet"])
    (warning,) = corpus.warnings(found)
    assert warning.key == "warning_out_of_date"


def test_books_that_do_not_balance_are_a_warning():
    counts = {"read": 10, "kept": 8, "rejected": 1, "excluded": 0}
    rows = [{"metric": name, "value": value} for name, value in counts.items()]
    found = Tables({"corpus": tidy("corpus", rows)})
    (warning,) = corpus.warnings(found)
    assert warning.key == "warning_unbalanced"
    table = corpus.samples(found)
    assert table is not None
    assert table.warning == texts.text(warning)
    assert "Read =" not in table.remark


def test_samples_that_were_written_and_not_found_are_a_warning():
    for missing in (0, 3):
        rows = [{"metric": "written_missing", "value": missing, "n": 35}]
        warned = corpus.warnings(Tables({"corpus": tidy("corpus", rows)}))
        values = [warning.values for warning in warned]
        assert values == [{"missing": 3, "written": 35}] * bool(missing)


def test_captions_and_images_are_described(whole):
    found = cells(corpus.content(whole))
    assert found["captions without a word"] == share(1 / 22, 22, "samples read")
    assert found["captions of the same text as another pair’s"] == share(0.15, 20)
    assert found["captions with <PERSON> in place of a name"] == share(0.25, 20)
    assert found["captions with a character beyond ASCII"] == share(0.35, 20)
    # 2 of 10 captions in each of two groups.
    cut = "captions longer than the text tower reads: the tokenizer cuts them"
    assert found[cut] == share(0.2, 20, "captions encoded")
    assert found["distinct captions"] == (count(23), Number(25, ",.0f", unit="captions"))
    lengths = "words of a caption: mean, median, 95th percentile, maximum"
    assert [cell.value for cell in found[lengths][0]] == pytest.approx([9.25, 9, 14, 20])
    assert found["images of the same bytes as another pair’s"] == share(0.1, 20)
    sizes = "width of an image (pixels): minimum, 5th percentile, median, 95th percentile, maximum"
    assert found[sizes][0] == tuple(map(count, (8, 16, 200, 640, 800)))
    # No sample of the corpus has a sha256, so nothing is said of them.
    assert not [name for name in found if "sha256" in name]
    assert corpus.tables_of(Tables({})) == []


def test_what_corruption_changed_is_by_scheme_and_rate():
    measured = {"swapped_share": 0.29, "false_caption_share": 0.2, "distinct_captions": 1234.0}
    rows = [
        {"scheme": scheme, "rate": rate, "n": 100, "metric": metric, "value": value}
        for scheme in ("similar", "random") for rate in (0.3, 0.8)
        for metric, value in measured.items()
    ]  # fmt: skip
    table = corpus.corruption(Tables({"pairs": tidy("pairs", rows)}))
    assert table is not None
    assert [(row[0], row[1].value) for row in table.rows] == [
        ("random", 0.3), ("random", 0.8), ("similar", 0.3), ("similar", 0.8),
    ]  # fmt: skip
    values = dict(zip(table.heads, map(text_of, table.rows[0]), strict=True))
    assert values["share with another pair’s caption"] == "0.2900"
    assert values["effective rate by captions"] == "0.200"
    assert values["distinct captions"] == "1,234"
    assert values["share with another text"] == "–"


def encodings(*found: dict[str, Any]) -> Tables:
    rows = [row for number, each in enumerate(found) for row in encoded(f"{number:04d}", each)]
    return Tables({"encoding": tidy("encoding", rows)})


@pytest.mark.parametrize(("device", "share", "warned"), [
    ("NVIDIA X", 0.31, 1), ("NVIDIA X", 0.3, 0), ("cpu", 0.9, 0), ("cpu (Y)", 0.9, 0),
])  # fmt: skip
def test_a_gpu_that_waits_for_data_is_a_warning(device, share, warned):
    found = encodings({"device": device, "waiting_share": share})
    assert len(pages.waiting(found)) == warned


def test_a_corpus_is_shown_even_if_no_arm_gave_a_result(tmp_path):
    run = {**NOTHING, **make_pairs(tmp_path), **make_corpus(tmp_path)}
    text = report(run, tmp_path, draw=False)
    seen = words(text)
    assert seen.count("No arm gave a result") == 1
    assert "more claims need other configurations" in seen
    assert "What became of the samples" in seen


def test_arms_on_another_corpus_are_a_warning(whole):
    assert pages.warnings(Tables({"provenance": whole.provenance})) == []
    other = whole.provenance.copy()
    other.loc[other["artefact"] == "corpus", "text"] = "c" * 16
    (warning,) = pages.warnings(Tables({"provenance": other}))
    assert warning.values == {"seen": 2, "kind": "pairs_fingerprint"}


def test_records_name_their_group(tmp_path):
    files.write_text(tmp_path / "0042.json", json.dumps({"images": 3, "device": "cpu"}))
    found = gathered(tmp_path, records=[tmp_path / "0042.json"]).encoding
    assert found[["group", "metric", "value"]].to_numpy().tolist() == [["0042", "images", 3.0]]
