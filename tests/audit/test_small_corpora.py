"""Corpora of the least number of pairs: limits and intervals hold, and trials are left out."""

import json

import numpy as np
import pytest

from mispair import cli
from mispair.audit.rate import LEAST_TRUSTED, trusted_rate, untrusted_rates
from mispair.audit.steps.audit_pairs import LEAST_PAIRS
from tests.audit.made_up import Files, audited_shares, corpora, embeddings


@pytest.mark.parametrize("kind", ["", "empty"])
@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
@pytest.mark.parametrize("n", [LEAST_PAIRS, 2 * LEAST_PAIRS])
def test_limits_of_the_fewest_pairs_hold(n, share, kind):
    limits = [untrusted_rates(ranked.histograms)[1].high for ranked, _ in corpora(n, share, kind)]
    assert np.mean(np.array(limits) >= share) > 0.93
    assert np.mean(limits) < share + 0.5


@pytest.mark.parametrize("n", [LEAST_PAIRS, 2 * LEAST_PAIRS])
def test_limits_of_few_right_pairs_fall_with_their_number(n):
    limits = [untrusted_rates(ranked.histograms)[1].high for ranked, _ in corpora(n, 0, "")]
    assert 1 / n < np.mean(limits) < 8 / n


@pytest.mark.parametrize(("n", "share"), [(40, 0.1), (40, 0.2), (60, 0.5)])
def test_intervals_of_the_fewest_trusted_pairs_hold(n, share):
    found = list(audited_shares(n, share, LEAST_TRUSTED, number=30))
    held = [is_held for _, is_held in filter(None, found)]
    assert np.mean(held) > 0.9
    assert None not in found or n < 60


@pytest.mark.parametrize(("trusted", "others"), [(20, 0), (20, 19), (20, 21), (19, 20)])
def test_few_pairs_are_named_and_not_the_model(trusted, others):
    """Half of the others are wrong, and the model is good."""
    values = np.concatenate([np.full(trusted, 0.01), np.resize([0.01, 0.9], others)])
    with pytest.raises(ValueError, match="an upper limit alone") as fault:
        trusted_rate(values, np.arange(len(values)) < trusted)
    assert "cannot tell" not in str(fault.value)


@pytest.mark.parametrize("compared", [0.05, 0.1, 0.3])
@pytest.mark.parametrize("n", [LEAST_PAIRS, 25])
def test_trials_of_fewer_than_two_wrong_captions_are_left_out(tmp_path, n, compared):
    images, texts = embeddings(n, noise=0.5)
    corpus = Files(tmp_path / "corpus", images, texts)
    corpus.write()
    similar, paths = corpus.write_similar(), [tmp_path / name for name in ("a.json", "b.json")]
    for path in paths:
        words = corpus.command("calibrate-audit", similar=similar, truth="", calibration=path)
        assert cli.main([*words, "--compared-rate", str(compared)]) == 0
    assert paths[0].read_bytes() == path.read_bytes()
    rows = json.loads(path.read_text())["rows"]
    assert {row["injected"] for row in rows} == {0.0, 0.1, 0.3, 0.5, 0.8}
    wrong = {
        row["made"] * n for row in rows if (row["scheme"], row["metric"]) == ("random", "rate")
    }
    assert sorted(wrong)[:2] == [0, 2]
    further = {"boilerplate", "filtered"} & {row["scheme"] for row in rows}
    assert len(further) == (0 if compared == 0.05 else 2)


@pytest.mark.parametrize("noise", [0.5, 20])
@pytest.mark.parametrize("trusted", [0, LEAST_TRUSTED])
def test_steps_of_the_fewest_pairs_end_well(tmp_path, trusted, noise):
    """A model that judges them well gives a share; one that knows nothing a reason, and no list."""
    n = LEAST_PAIRS + trusted
    images, texts = embeddings(n, noise=noise)
    corpus = Files(tmp_path / "corpus", images, texts)
    corpus.write()
    given = tmp_path / "trusted.txt"
    given.write_text("\n".join(corpus.keys[:trusted]))
    lists = (
        {"similar": corpus.write_similar(), "trusted": given}
        if trusted
        else {"similar": "", "trusted": ""}
    )
    audit, rates, found = (tmp_path / name for name in ("a.parquet", "a.json", "selection.json"))
    assert cli.main(corpus.command("audit-pairs", audit=audit, rates=rates, **lists)) == 0
    words = ["--audit", audit, "--rates", rates, "--captions", corpus.folder / "texts.parquet",
             "--lists", tmp_path / "lists", "--selection", found, "--groups"]  # fmt: skip
    assert cli.main(["select-pairs", *map(str, words)]) == 0
    content = json.loads(rates.read_text())
    assert bool(content["provenance"]["refused"]) == (noise > 1)
    assert all(row["value"] >= 0 for row in content["rows"] if row["metric"] == "wrong_captions")
    assert (tmp_path / "lists/kept.txt").exists() == (noise < 1)
    assert "nan" not in (tmp_path / "lists/README.md").read_text().lower()
