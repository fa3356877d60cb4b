"""Benches measure what they say, at sizes that take a moment; the table of `bench.scale`."""

import json
import math
from pathlib import Path

import pytest

from bench import audit, captioners, evaluation, scale, similar_captions


def test_the_large_corpus_is_audited_through_the_command():
    what, measured, least, _ = audit.speed(4000, 64, 2)
    assert "4,000 pairs x 64" in what
    assert "(true 0.300)" in measured
    share = float(measured.split("share ")[1].split()[0])
    assert abs(share - 0.3) < 0.1
    assert "s for the products" in least


def test_scores_are_compared_on_scenes_with_wrong_captions_of_each_kind(monkeypatch):
    monkeypatch.setattr(audit, "SHARES", (0.3,))
    exchanged, empty = audit.rows("scenes", *audit.scenes(400))
    for row, kind in ((exchanged, "exchanged"), (empty, "degenerate")):
        assert kind in row[0]
        assert min(float(area) for area in row[1].split(", ")) > 0.9
        assert all(name in row[2] for name in ("cosine", "NCR", "LEMoN"))


def test_limits_and_intervals_of_few_pairs_are_tried(monkeypatch):
    for name, value in {"CORPORA": 4, "NOISES": (0.7,), "FEW": (20,), "FEW_TRUSTED": (60,)}.items():
        monkeypatch.setattr(audit, name, value)
    limit, unlike, interval = audit.few()
    assert limit[1].startswith("holds in 1.00, 1.00, –")
    assert limit[2].endswith("refused: 0, 3, 4")
    for row, cells in ((unlike, 6), (interval, 3)):
        assert row[1].count(",") == row[3].count(",") == cells - 1


@pytest.mark.slow
def test_training_and_generation_of_captioners(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captioners, "TRAINED", 200)
    training, floor, twin, peer = captioners.rows(256, 2)
    assert "padded" in training[2]
    assert 0 < float(floor[3].removesuffix("%")) < 100
    assert "the same" in twin[2]  # it stops where they are not
    assert "GPT-2" in peer[2]
    assert all(float(row[3].removesuffix("x")) > 0 for row in (training, twin, peer))


def test_silhouettes_are_timed_and_weighed():
    double, share, single, large = evaluation.silhouettes((2_000, 20), (3_000, 40))
    for row in (double, single, large):
        assert float(row[3].removesuffix("x")) > 0
    assert "2,000 images, 20 classes, 512 neurons in float64" in double[0]
    assert "in float32" in single[0]
    assert float(share[3].removesuffix("%")) > 0
    assert "MB beyond the features' 12 MB" in large[1]


def test_sweeps_of_pruning_are_timed() -> None:
    sweep, share = evaluation.pruning(300, 10, range(20, 60))
    assert "at 40 numbers of neurons from 20 to 59 of 512, 300 images, 10 classes" in sweep[0]
    assert "3 of 40 measured; same accuracy" in sweep[2]
    assert all(float(ratio.removesuffix("x")) > 0 for ratio in sweep[3].split(", "))
    assert float(share[3].removesuffix("%")) > 0


def test_twins_of_pruning_that_differ_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "_naive", lambda *arguments: (0.5, 0.5))
    with pytest.raises(SystemExit, match="the twins differ at 20 neurons"):
        next(evaluation.pruning(300, 10, range(20, 23)))


def test_the_row_for_a_gpu_is_tried_on_the_cpu() -> None:
    what, seconds, against, share = similar_captions.on_a_gpu(3_000, "cpu")
    assert "3,000 x 512 features on the CPU" in what
    assert float(seconds.removesuffix(" s")) > 0
    assert "min at 3 million" in against
    assert share.endswith("% of peak")


def test_searches_by_visits_are_timed_in_processes_of_their_own() -> None:
    few, many, exponent = similar_captions.by_number([1_000, 2_000])
    for row, number in ((few, "1,000"), (many, "2,000")):
        assert f"{number} x 512 features" in row[0]
        assert float(row[1].split("recall ")[1].split(",")[0]) > 0.95
        assert float(row[1].split(", ")[-1].removesuffix(" MB")) > 0
    assert math.isfinite(float(exponent[1]))


def finished(home: Path, pairs: int) -> Path:
    """Write what a run leaves: a step whose time is linear, one by the square, and a short one."""
    (home / "results" / "features").mkdir(parents=True)
    (home / "results" / "features" / "a").write_bytes(bytes(200 * pairs))
    times = {"linear/a": pairs / 200, "linear/b": pairs / 200, "square": pairs**2 / 1e6, "short": 1}
    for name, seconds in times.items():
        path = home / "benchmarks" / f"{name}.tsv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"s\tmax_rss\tcpu_time\n9\t{pairs / 100}\t{seconds}\n")
    (home / "benchmarks" / "quick.tsv").write_text("s\tmax_rss\tcpu_time\n0\tNA\tNA\n")
    (home / scale.CONFIG).write_text(json.dumps(scale.configuration(pairs)))
    return home


def test_exponents_are_those_of_long_steps(tmp_path: Path) -> None:
    small, large = finished(tmp_path / "s", 10_000), finished(tmp_path / "l", 100_000)
    (small / scale.SECONDS).write_text("600\n660\n")
    rows = [line.strip("| ").split(" | ") for line in scale.table([small, large])]
    cells = {row[0]: row[1:] for row in rows}
    assert cells["linear"] == ["100.0 s, 100 MB", "1000.0 s, 1000 MB", "1.00"]
    assert cells["square"][-1] == "2.00"
    assert cells["short"][:2] == ["1.0 s, 100 MB", "1.0 s, 1000 MB"]
    assert cells["short"][2:] in ([], [""], ["|"])
    assert cells["wall time"][:2] == ["21 min", "not finished"]
    assert cells["disk: results/features"] == ["2 MB", "20 MB", "1.00"]
