"""The share of captions of similar pictures, from pairs that a person labelled right."""

import numpy as np
import pandas as pd
import pytest

from mispair import cli
from mispair.audit.rate import Rate
from mispair.audit.similar import similar_rate_by_labels
from mispair.core import files, metrics
from mispair.review.draw import sizes, strata
from tests.audit.made_up import kinds, kinds_of_pictures, ranks_near

RIGHT, UNRELATED, SIMILAR = range(3)
ERROR = 0.005
"""Standard error of the share of unrelated captions."""


class Corpus:
    """Made-up ranks among ten similar captions, and a model that doubts pictures that are hard."""

    def __init__(self, similar: float, unrelated: float, seed: int, pairs: int = 10_000) -> None:
        self.generator = generator = np.random.default_rng(seed)
        self.kind = kinds(generator, unrelated, similar, pairs)
        self.own, self.swapped, hard = ranks_near(generator, self.kind)
        shift = 2 * (self.kind == UNRELATED) + (self.kind == SIMILAR) + np.maximum(hard, 0)
        self.probability = 1 / (1 + np.exp(3 - 2 * shift - 2 * generator.normal(size=pairs)))
        self.stratum = strata(self.probability)
        self.pairs, self.drawn = sizes(self.stratum, self.probability, 200)
        self.members = [np.flatnonzero(self.stratum == one) for one in range(len(self.pairs))]
        self.unrelated = float((self.kind == UNRELATED).mean())

    def sample(self) -> np.ndarray:
        """Draw 200 labels."""
        both = zip(self.members, self.drawn, strict=True)
        return np.concatenate([self.generator.choice(of, n, replace=False) for of, n in both])

    def noisy(self) -> Rate:
        value = self.unrelated + ERROR * self.generator.normal()
        return Rate(value, value - 1.96 * ERROR, value + 1.96 * ERROR)

    def rate(self) -> Rate:
        rows = self.sample()
        own, swapped = (np.where(self.kind[rows] == RIGHT, of[rows], np.nan)
                        for of in (self.own, self.swapped))  # fmt: skip
        strata_of = self.stratum[rows], self.pairs
        return similar_rate_by_labels(self.own, own, swapped, *strata_of, self.noisy())


@pytest.mark.parametrize(("similar", "unrelated"), [(0.0, 0.1), (0.05, 0.0), (0.2, 0.1)])
def test_the_interval_covers_with_unequal_strata(similar: float, unrelated: float) -> None:
    corpora = [Corpus(similar, unrelated, seed) for seed in range(10)]
    found = [corpus.rate() for corpus in corpora for _ in range(30)]
    assert np.mean([rate.low <= similar <= rate.high for rate in found]) >= 0.92
    if similar == 0.2:  # far enough from 0, where values are cut
        assert np.mean([rate.value for rate in found]) == pytest.approx(similar, abs=0.01)


def test_few_labels_and_a_model_that_cannot_tell_have_no_rate() -> None:
    corpus = Corpus(0.1, 0.1, 0)
    rows = corpus.sample()
    own, swapped = corpus.own[rows], corpus.swapped[rows]
    nothing = np.where(np.arange(len(rows)) < 15, own, np.nan)
    noise = corpus.generator.random((2, len(rows)))
    for fault, first, second in (("few", nothing, swapped), ("alike", *noise)):
        with pytest.raises(ValueError, match=fault):
            similar_rate_by_labels(
                corpus.own, first, second, corpus.stratum[rows], corpus.pairs, corpus.noisy()
            )


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Write 2,000 pairs, 600 of which have the caption of a similar picture, and their draw."""
    made, _ = kinds_of_pictures(tmp_path_factory.mktemp("made"), 250, 5)
    made.similar = made.write_similar()
    made.wrong = made.swap_similar(600, np.random.default_rng(2))
    folder = made.folder
    outputs = {"audit": folder / "audit.parquet", "rates": folder / "audit.json"}
    assert cli.main(made.command("audit-pairs", similar="", trusted="", **outputs)) == 0
    assert cli.main([
        "draw-review", "--corpus", f"{folder}/corpus.parquet", "--captions",
        f"{folder}/texts.parquet", "--audit", f"{folder}/audit.parquet", "--kept",
        "--sample", f"{folder}/sample.parquet", "--strata", f"{folder}/strata.json",
    ]) == 0  # fmt: skip
    return made


def rated(made, labels):
    """Return the rows by metric, and the provenance."""
    labels.rename("label").to_csv(made.folder / "review.csv", index_label="key")
    given = {name: made.folder / f"{name}.parquet" for name in ("audit", "sample")}
    assert cli.main(made.command(
        "rate-similar", similar=made.similar, **given, rates=made.folder / "audit.json",
        reviewed=made.folder / "review.csv", truth="", rate=made.folder / "rate.json",
    )) == 0  # fmt: skip
    rows, provenance = metrics.read_metrics(made.folder / "rate.json")
    return {row["metric"]: row for row in rows}, provenance


def truth(made):
    """Return the labels of all pairs."""
    return pd.Series(np.where(made.wrong, "wrong", "right"), made.keys)


def test_only_drawn_labels_serve(made):
    drawn = pd.read_parquet(made.folder / "sample.parquet")["key"]
    found, origin = rated(made, truth(made)[drawn])
    assert found["checked_similar"]["low"] < 0.3 < found["checked_similar"]["high"]
    assert found["checked_similar"]["high"] - found["checked_similar"]["low"] < 0.3
    assert 100 < found["checked_similar"]["n"] == found["checked_right_ranked"]["value"] <= 200
    assert origin["fault"] == ""
    # Labels of chosen pairs, here of all, change nothing.
    assert rated(made, truth(made)[[*drawn, *set(made.keys) - {*drawn}]]) == (found, origin)


def test_too_few_labels_and_a_refused_audit_are_named(made):
    drawn = pd.read_parquet(made.folder / "sample.parquet").sort_values("order")["key"]
    found, origin = rated(made, truth(made)[drawn[:15]])
    assert (origin["fault"], "checked_similar" in found) == ("few", False)
    assert found["checked_right_ranked"]["value"] <= 15
    rates = made.folder / "audit.json"
    content = files.read_json(rates)
    files.write_json(rates, content | {"provenance": content["provenance"] | {"refused": "No."}})
    assert rated(made, truth(made)[drawn])[1]["fault"] == "refused"
    files.write_json(rates, content)
