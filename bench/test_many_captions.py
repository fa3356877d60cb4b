"""The bench of very many features, at a number that takes a moment."""

import json
from pathlib import Path

import numpy as np
import pytest

from bench import many_captions
from mispair.pairs.neighbours.similarity import unit_rows


def test_what_a_search_took_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    centres = np.random.default_rng(0).standard_normal((40, 1, 16))
    rows = centres + np.random.default_rng(1).standard_normal((40, 25, 16))
    np.save(tmp_path / "rows.npy", unit_rows(rows.reshape(-1, 16)).astype(np.float16))
    many_captions.search(str(tmp_path / "rows.npy"))
    result = json.loads(capsys.readouterr().out)
    assert result["recall"] >= 0.98
    assert result["visits"] >= 1
    assert result["peak megabytes"] > 0
