"""The table of whole runs, from folders like those that Snakemake leaves."""

import json
from pathlib import Path

from bench import scale


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
