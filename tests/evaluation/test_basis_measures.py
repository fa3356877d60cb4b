"""All measures of a tower's bases on planted sparse features, and their step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mispair.core import metrics
from mispair.core.files import UserError
from mispair.core.seeds import generator
from mispair.evaluation.basis_measures import Inputs, measures
from mispair.evaluation.purity import random_rotation
from mispair.evaluation.steps import identify_basis
from tests.evaluation.test_step_neurons import corpus  # noqa: F401

SOURCES = 12


def _inputs(own: bool, known: bool = True) -> Inputs:
    """Return planted sparse features, as the neurons themselves or in a rotated basis."""
    draw = generator("basis measures")
    codes = draw.random((3000, SOURCES)) < 0.1
    turn = np.eye(SOURCES) if own else random_rotation(SOURCES, draw)
    embeddings = codes @ turn + 0.05 * draw.standard_normal((3000, SOURCES))
    captions = [" ".join(f"w{place}" for place in np.flatnonzero(code)) for code in codes]
    names = [f"f{place}" for place in range(SOURCES)]
    return Inputs(embeddings, codes + 0.0, captions, codes if known else None, names)


def _rows(inputs: Inputs, words: int = 50) -> list[dict[str, Any]]:
    return measures(inputs, SOURCES, 20, words, generator("draws"))


def _value(rows: list[dict[str, Any]], metric: str, basis: str, **more: Any) -> dict[str, Any]:
    wanted = {"metric": metric, "basis": basis, **more}
    (row,) = [row for row in rows if wanted.items() <= row.items()]
    return row


def test_a_rotated_basis_is_no_better_than_random_and_searches_find_the_features() -> None:
    rows = _rows(_inputs(own=False))
    own = _value(rows, "mean_recovery", "original")["value"]
    null = _value(rows, "mean_recovery", "rotated")
    assert null["low"] <= own <= null["high"]
    for search in ("varimax", "ica"):
        assert _value(rows, "mean_recovery", search)["value"] > 0.95
        assert _value(rows, "features_recovered", search)["value"] == SOURCES
        assert _value(rows, "split_half_agreement", search)["value"] > 0.95
        assert _value(rows, "converged", search)["value"] == 1
        null = _value(rows, "split_half_agreement", "whitened", reference=search)
        assert null["high"] < 0.7
        names = [row for row in rows if row["metric"] == "name_auc" and row["basis"] == search]
        assert {row["feature"] for row in names} == {f"w{place}" for place in range(SOURCES)}
        assert min(row["value"] for row in names) > 0.99
    assert _value(rows, "mean_recovery", "linear ceiling")["value"] > 0.95
    assert abs(_value(rows, "mean_name_auc_shuffled", "original")["value"] - 0.5) < 0.03
    assert null["rotations"] == 20
    assert len([row for row in rows if row["metric"] == "recovery"]) == 4 * SOURCES


def test_neurons_that_are_features_beat_random_bases_by_every_measure() -> None:
    rows = _rows(_inputs(own=True))
    recovery = _value(rows, "mean_recovery", "rotated")
    assert _value(rows, "mean_recovery", "original")["value"] > 0.95 > recovery["high"]
    assert recovery["below"] == 1
    for reference in ("features", "known features"):
        score = _value(rows, "mean_monosemanticity", "original", reference=reference)["value"]
        assert score > _value(rows, "mean_monosemanticity", "rotated", reference=reference)["high"]
        shuffled = _value(rows, "mean_monosemanticity_shuffled", "original", reference=reference)
        assert shuffled["below"] == 1
    assert (
        _value(rows, "mean_name_auc", "original")["value"]
        > _value(rows, "mean_name_auc", "rotated")["value"]
    )


def test_without_truth_and_words_the_rest_is_measured() -> None:
    rows = _rows(_inputs(own=False, known=False), words=0)
    assert {row["metric"] for row in rows} == {
        "components", "split_half_agreement", "converged", "mean_monosemanticity",
        "mean_monosemanticity_shuffled",
    }  # fmt: skip
    known = _rows(_inputs(own=False))
    assert _value(rows, "split_half_agreement", "varimax") == _value(
        known, "split_half_agreement", "varimax"
    )


def _run(files_of: dict[str, Any], path: Any, truth: bool = True, **settings: Any) -> Any:
    names = ("projection", "index", "features", "feature_rows", "corpus")
    identify_basis.run(
        identify_basis.Settings(**{"inputs": 100, "rotations": 3, **settings}),
        **{name: files_of[name] for name in names},
        truth=files_of["truth"] if truth else [],
        basis=path,
    )
    return metrics.read_metrics(path)


def test_the_step_measures_both_towers_whatever_the_order_of_files(corpus, tmp_path) -> None:  # noqa: F811
    rows, provenance = _run(corpus, tmp_path / "1.json", components=3)
    assert provenance["projection"]["start"] == "untouched"
    for tower in ("image", "text"):
        assert _value(rows, "mean_recovery", "linear ceiling", tower=tower)["value"] > 0.9
    assert {row["seed"] for row in rows} == {4}
    for name in ("index", "features", "feature_rows", "truth"):
        corpus[name] = corpus[name][::-1]
    _run(corpus, tmp_path / "2.json", components=3)
    assert (tmp_path / "1.json").read_bytes() == (tmp_path / "2.json").read_bytes()
    blind, _ = _run(corpus, tmp_path / "3.json", truth=False, components=3)
    assert "mean_recovery" not in {row["metric"] for row in blind}


def test_the_step_refuses_truth_of_some_pairs(corpus, tmp_path) -> None:  # noqa: F811
    short = {**corpus, "truth": corpus["truth"][:1]}
    with pytest.raises(UserError, match="no true features of"):
        _run(short, tmp_path / "1.json", components=3)
    assert not (tmp_path / "1.json").exists()


def test_embeddings_that_vary_in_few_directions_have_fewer_components() -> None:
    inputs = _inputs(own=False)
    flat = inputs.embeddings.copy()
    flat[:, 3:] = 1.0
    rows = _rows(replace(inputs, embeddings=flat))
    assert _value(rows, "components", "whitened")["value"] == 3
    assert _value(rows, "split_half_agreement", "varimax")["value"] > 0
    flat[:] = 1.0
    rows = _rows(replace(inputs, embeddings=flat))
    assert _value(rows, "components", "whitened")["value"] == 0
    assert "split_half_agreement" not in {row["metric"] for row in rows}
    assert _value(rows, "mean_recovery", "original")["value"] == 0
