"""The bench of types of CPU fails if verdicts differ, or if nothing was tested."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bench import cpu_types
from mispair.core.devices import KERNELS


def made_up_run(folder: Path, effect: float, **changes: Any) -> Path:
    """Write one result and the claims of a run that never was."""
    result = folder / "results/simulation/as-run/cs~0.1/trials~0-0.json"
    result.parent.mkdir(parents=True)
    result.write_text(json.dumps(effect))
    result.with_suffix(".run.json").write_text(json.dumps(str(folder)))
    row = {
        "claim": "filtered-accuracy", "study": "simulation", "preset": "as-run", "primary": True,
        "outcome": "supports", "effect": effect, "low": effect - 0.05, "high": effect + 0.05,
        "p": 0.01,
    }  # fmt: skip
    others = [
        {**row, "claim": "another", "primary": False, "outcome": str(folder)},
        {**row, "claim": "unmeasured", "p": None, "outcome": "not measured"},
    ]
    (folder / cpu_types.CLAIMS).parent.mkdir(parents=True)
    pd.DataFrame([{**row, **changes}, *others]).to_csv(folder / cpu_types.CLAIMS, index=False)
    return folder


def test_equal_verdicts_on_other_numbers_are_rows(tmp_path: Path) -> None:
    runs = made_up_run(tmp_path / "a", 0.0893), made_up_run(tmp_path / "b", 0.1019)
    (row,) = cpu_types.rows(*runs)
    assert "filtered-accuracy" in row[0]
    assert "+0.0893" in row[1]
    assert "+0.1019" in row[2]
    assert "0.0126" in row[3]
    assert "1 of 1" in row[3]


def test_other_verdicts_fail_after_they_are_printed(tmp_path: Path) -> None:
    runs = (
        made_up_run(tmp_path / "a", 0.0893, outcome="cannot tell"),
        made_up_run(tmp_path / "b", 0.1019),
    )
    found = cpu_types.rows(*runs)
    assert "cannot tell" in next(found)[1]
    with pytest.raises(SystemExit, match="filtered-accuracy: cannot tell, supports"):
        next(found)


def test_equal_bytes_or_no_verdict_are_no_test(tmp_path: Path) -> None:
    runs = [made_up_run(tmp_path / name, 0.1) for name in "ab"]
    with pytest.raises(SystemExit, match="none of 1 results"):
        next(cpu_types.rows(*runs))
    unjudged = [made_up_run(tmp_path / f"{x}", 0.1 * x, primary=False) for x in (1, 2)]
    with pytest.raises(SystemExit, match="no primary claim"):
        next(cpu_types.rows(*unjudged))


def test_the_variable_is_the_one_that_names_a_device() -> None:
    assert cpu_types.KERNELS == KERNELS
