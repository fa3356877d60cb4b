"""Progress: a bar on a terminal, a sober line a minute in a log, and no word of what is quick."""

import io
import logging
import re

import pytest

from mispair.core import progress
from mispair.core.progress import Progress


class Clock:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    """What is drawn on a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(caplog: pytest.LogCaptureFixture) -> Clock:
    caplog.set_level(logging.INFO)
    return Clock()


def in_a_log(what: str, total: int | None, unit: str, clock: Clock) -> Progress:
    return Progress(what, total, unit, stream=io.StringIO(), clock=clock)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_a_log_has_one_line_a_minute_with_rate_and_time_left(caplog, clock):
    with in_a_log("training", 10_000, "steps", clock) as told:
        told.reach(0)
        for done in range(1, 3001):
            clock.now += 0.125  # 375 seconds for 3,000 steps
            told.reach(done)
        clock.now += 875
        told.reach(10_000)
    found = lines(caplog)
    assert found[0] == "training: 480 of 10,000 steps (5 %), 8.0 steps/s, 19 min 50 s left"
    told_at = [int(line.split()[1].replace(",", "")) for line in found]
    assert told_at == [480, 960, 1440, 1920, 2400, 2880, 10_000, 10_000]
    assert found[-1] == "training: 10,000 steps in 20 min 50 s"


def test_what_takes_less_than_a_minute_says_nothing(caplog, clock):
    with in_a_log("training", 100, "steps", clock) as told:
        for done in range(101):
            told.reach(done)
            clock.now += 0.5
    assert lines(caplog) == []


def test_the_rate_of_a_job_that_goes_on_is_of_what_it_did_itself(caplog, clock):
    with in_a_log("indexing", 100, "shards", clock) as told:
        told.reach(90)
        clock.now += 120
        told.advance(4)
    assert lines(caplog) == [
        "indexing: 94 of 100 shards (94 %), 2.0 shards/min, 3 min left",
        "indexing: 4 shards in 2 min",
    ]


def test_what_has_no_known_end_has_a_rate(caplog: pytest.LogCaptureFixture, clock: Clock) -> None:
    told = in_a_log("reading", None, "images", clock)
    told.reach(0)
    clock.now += 60
    told.reach(120)
    assert lines(caplog) == ["reading: 120 images, 2.0 images/s"]


def test_a_failure_is_not_called_an_end(caplog: pytest.LogCaptureFixture, clock: Clock) -> None:
    told = in_a_log("reading", 10, "images", clock)
    with pytest.raises(ValueError), told:
        told.reach(0)
        clock.now += 61
        told.reach(5)
        raise ValueError("no")
    assert len(lines(caplog)) == 1


def test_a_terminal_shows_a_bar_with_rate_and_time_left_and_no_line(caplog, clock):
    terminal = Terminal()
    with Progress("training", 50, "steps", stream=terminal, clock=clock) as told:
        told.reach(10)
        for done in range(11, 51):
            clock.now += 100
            told.reach(done)
            told._bar.refresh()
    drawn = terminal.getvalue().split("\r")
    bars = [line for line in drawn if line.startswith("training:")]
    assert re.search(r"\b20%\|.*\| 10/50 \[", bars[0])
    assert re.search(r"100%\|.*\| 50/50 \[\d\d:\d\d<\d\d:\d\d, .* steps/s\]", bars[-1])
    assert drawn[-1].strip() == ""  # the bar goes when it is done
    assert lines(caplog) == []


def test_a_step_tells_of_its_first_and_last_unit(tmp_path, caplog, monkeypatch):
    """Generated scenes: each shard is one unit, and none is told twice."""
    from mispair.pairs.steps import make_scenes

    caplog.set_level(logging.INFO, "mispair.core.progress")
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    settings = make_scenes.Settings(shards=3, pairs_per_shard=1, processes=1)
    make_scenes.run(settings, corpus=tmp_path / "scenes")
    told = [line.split(" shards")[0] for line in lines(caplog)]
    assert told == [f"making scenes: {n} of 3" for n in (1, 2, 3)] + ["making scenes: 3"]
