"""The shuffle of captions: exact shares, no fixed points, no dependence on order."""

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from mispair import cli, files
from mispair.pairs.corruption import pairing_shares, shuffle_captions
from mispair.steps.corrupt_captions import Settings


def _keys(n):
    return np.array([f"{number:06d}" for number in range(n)], dtype=object)


def _draw(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.3, 0.5, 0.8, 1.0, 0.123])
def test_shuffle_permutes_exactly_the_nominal_share_without_fixed_points(rate):
    n = 1001
    source = shuffle_captions(_keys(n), rate, _draw())
    moved = source != np.arange(n)
    assert moved.sum() == round(rate * n)
    # A permutation: every caption is used once, and those left alone keep theirs.
    assert sorted(source) == list(range(n))
    assert sorted(source[moved]) == list(np.flatnonzero(moved))


def test_shuffle_does_not_depend_on_the_order_of_the_keys():
    keys = _keys(500)
    order = _draw(3).permutation(500)
    straight = shuffle_captions(keys, 0.4, _draw())
    mixed = shuffle_captions(keys[order], 0.4, _draw())
    expected = {keys[i]: keys[straight[i]] for i in range(500)}
    assert {keys[order][i]: keys[order][mixed[i]] for i in range(500)} == expected


def test_pairs_swapped_at_a_small_rate_are_among_those_at_a_large_one():
    small, large = (shuffle_captions(_keys(400), rate, _draw()) for rate in (0.1, 0.5))
    is_small, is_large = (source != np.arange(400) for source in (small, large))
    assert (is_large | ~is_small).all()


def test_every_derangement_is_equally_likely():
    # Four items have nine derangements, of which six are 4-cycles: rotating a random order, say,
    # would never give the other three.
    draw = _draw(1)
    seen = pd.Series([tuple(shuffle_captions(_keys(4), 1.0, draw)) for _ in range(4500)])
    counts = seen.value_counts()
    assert len(counts) == 9
    assert ((counts - 500).abs() < 5 * np.sqrt(500)).all()


def test_other_seeds_swap_others():
    first, second = (shuffle_captions(_keys(100), 0.5, _draw(seed)) for seed in (0, 1))
    assert (first != second).any()


def test_a_single_caption_cannot_be_swapped():
    with pytest.raises(ValueError, match=r"rate 0\.1 of 10 pairs is one pair.*at least 0\.2"):
        shuffle_captions(_keys(10), 0.1, _draw())


@pytest.mark.parametrize("rate", [-0.1, 1.01, float("nan")])
def test_rates_outside_0_to_1_are_refused(rate):
    with pytest.raises(ValueError, match="between 0 and 1"):
        shuffle_captions(_keys(10), rate, _draw())


def test_a_repeated_key_is_refused():
    with pytest.raises(ValueError, match="'b' occurs twice"):
        shuffle_captions(np.array(["b", "a", "b"], dtype=object), 0.0, _draw())


def test_shares_count_texts_and_not_only_positions():
    source = np.array([1, 0, 3, 2, 4])
    shares, swapped, changed = pairing_shares(np.array(list("aabcd")), source, 0.8)
    assert (shares.nominal, shares.swapped, shares.text_changed) == (0.8, 0.8, 0.4)
    assert swapped.tolist() == [True, True, True, True, False]
    assert changed.tolist() == [False, False, True, True, False]


@pytest.mark.parametrize(
    ("rates", "named"), [([0.1, 0.1], "0.1"), ([1.5], "rates.0"), ([-0.2, 0.0], "rates.0")]
)
def test_settings_refuse_rates_that_cannot_be(rates, named):
    with pytest.raises(ValidationError, match=named):
        Settings(rates=rates)


def _index(folder, n=200, parts=4):
    table = pd.DataFrame({"key": _keys(n), "caption_id": [f"c{i % 50}" for i in range(n)]})
    paths = []
    for part in range(parts):
        paths.append(folder / f"{part}.parquet")
        files.write_parquet(paths[-1], table.iloc[part::parts])
    return paths, table


def test_step_writes_the_pairing_whatever_the_order_of_shards(tmp_path):
    index, table = _index(tmp_path)
    written = []
    for name, paths in {"a": index, "b": index[::-1]}.items():
        out = tmp_path / f"{name}.pairing.parquet"
        arguments = ["corrupt-captions", "--rate", "0.3", "--pairing", str(out), "--seed", "5"]
        assert cli.main([*arguments, "--index", *map(str, paths)]) == 0
        written.append(out)
    assert written[0].read_bytes() == written[1].read_bytes()
    pairing, metadata = files.read_parquet(written[0])
    assert pairing["key"].tolist() == table["key"].tolist()
    assert sorted(pairing["caption_id"]) == sorted(table["caption_id"])
    assert pairing["swapped"].sum() == 60
    own = table["caption_id"].to_numpy()
    assert (pairing["text_changed"] == (pairing["caption_id"].to_numpy() != own)).all()
    assert metadata["swapped_share"] == metadata["nominal"] == "0.3"
    assert float(metadata["text_changed_share"]) == pairing["text_changed"].mean()


def test_fingerprint_of_the_pairs_does_not_depend_on_the_rate_but_on_the_captions(tmp_path):
    index, table = _index(tmp_path)

    def fingerprint(rate, paths):
        out = tmp_path / "pairing.parquet"
        arguments = ["corrupt-captions", "--rate", rate, "--pairing", str(out), "--index"]
        assert cli.main([*arguments, *map(str, paths)]) == 0
        return files.read_parquet(out)[1]["pairs_fingerprint"]

    same = fingerprint("0.5", index)
    assert fingerprint("0.1", index) == same
    table.loc[0, "caption_id"] = "other"
    files.write_parquet(tmp_path / "changed.parquet", table)
    assert fingerprint("0.1", [tmp_path / "changed.parquet"]) != same


def test_step_explains_a_rate_that_picks_one_pair(tmp_path, capsys):
    index, _ = _index(tmp_path, n=10, parts=1)
    out = tmp_path / "pairing.parquet"
    arguments = ["corrupt-captions", "--rate", "0.1", "--pairing", str(out), "--index", *index]
    assert cli.main([str(argument) for argument in arguments]) == 2
    assert "corrupt_captions: rate 0.1 of 10 pairs" in capsys.readouterr().err
    assert not out.exists()
