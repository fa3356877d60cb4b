"""The benches of silhouettes, pruning and similar captions, at sizes that take a moment."""

import pytest

from bench import evaluation, similar_captions


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
    assert float(exponent[1]) == float(exponent[1])
