"""The bench of captioners measures what it says, at sizes that take a moment."""

import pytest

from bench import captioners


@pytest.mark.slow
def test_the_rows_of_the_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captioners, "TRAINED", 200)
    training, floor, twin, peer = captioners.rows(256, 2)
    assert "padded" in training[2]
    assert 0 < float(floor[3].removesuffix("%")) < 100
    assert "the same" in twin[2]  # it stops where they are not
    assert "GPT-2" in peer[2]
    assert all(float(row[3].removesuffix("x")) > 0 for row in (training, twin, peer))
