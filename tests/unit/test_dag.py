"""What the rules ask of a configuration."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from mispair.dag import Dag
from mispair.files import UserError


def test_arms_of_the_embedded_configuration() -> None:
    arms = Dag({}, "config.yaml").arms
    assert arms[0] == "untouched"
    assert "pretrained_cm~0" in arms
    assert "reinitialised_cm~0.8" in arms
    assert len(arms) == 1 + 2 * 5


def test_trials_are_chunked_without_a_gap() -> None:
    dag = Dag(
        {"simulate": {"trials": 5, "trials_per_job": 2, "spurious_probabilities": [0.3]}}, "x"
    )
    names = [Path(path).stem for path in dag.simulations()]
    assert names == ["trials~0-1", "trials~2-3", "trials~4-4"]
    assert dag.trials_of(SimpleNamespace(first="2", last="3")) == [2, 3]


def test_shards_are_grouped_and_each_stands_in_one_group(tmp_path: Path) -> None:
    for number in range(7):
        (tmp_path / f"{number}.tar").touch()
    dag = Dag({"shards": str(tmp_path), "index_shards": {"shards_per_job": 3}}, "x")
    assert [len(group) for group in dag.groups.values()] == [3, 3, 1]
    assert len({shard for group in dag.groups.values() for shard in group}) == 7


def test_a_study_that_is_not_run_needs_none_of_its_files() -> None:
    dag = Dag({"studies": ["simulation"], "shards": "nowhere/*.tar", "towers": "nowhere"}, "x")
    assert dag.measured("purity") == dag.pairings() == dag.contact_sheets() == []


def test_two_sets_of_one_name(tmp_path: Path) -> None:
    for parent in ("a", "b"):
        root = tmp_path / parent / "set"
        (root / "test").mkdir(parents=True)
        for name in ("classnames.txt", "zeroshot_classification_templates.txt", "test/0.tar"):
            (root / name).touch()
        (root / "test/nshards.txt").write_text("1")
    with pytest.raises(UserError, match="two sets are called 'set'"):
        Dag({"evaluation_sets": [str(tmp_path / "a/set"), str(tmp_path / "b/set")]}, "x")


def test_towers_that_are_no_folder() -> None:
    with pytest.raises(UserError, match="neither `shipped` nor `train`"):
        Dag({"towers": "nowhere"}, "x")


def test_every_path_is_relative() -> None:
    """An absolute path in the DAG would rerun everything in a moved checkout."""
    dag = Dag({}, "x")
    paths = [*dag.tower_files, *dag.index(), *dag.features("parquet"), *dag.simulations()]
    assert not any(Path(path).is_absolute() for path in paths)
