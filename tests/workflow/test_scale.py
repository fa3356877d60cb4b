"""``make scale`` on a corpus so small that it only shows that the measurement works."""

import re
import sys

import pytest

from bench import scale
from tests.fork_server import python


def test_every_step_is_measured_at_every_size(
    capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(python()))
    scale.main([1, 2], 280)
    head, _, *lines = capsys.readouterr().out.strip().splitlines()
    assert "280 pairs | 560 pairs | 3 million | 12 million" in head
    assert [line.split(" | ")[0].removeprefix("| ") for line in lines] == [
        *scale.STEPS, "wall time"
    ]  # fmt: skip
    for line in lines[:-1]:
        assert len(re.findall(r"[\d.]+ (?:s|min), \d+ (?:MB|GB)", line)) == 4, line


def test_the_extrapolation_goes_on_along_a_line() -> None:
    found = [{"gather_index": scale.Cost(2.0 * n, 100.0 + n)} for n in (1, 2)]
    row = scale.table([1_000_000, 2_000_000], found)[-1]
    assert (
        row == "| gather_index | 2.0 s, 101 MB | 4.0 s, 102 MB | 6.0 s, 103 MB | 24.0 s, 112 MB |"
    )
